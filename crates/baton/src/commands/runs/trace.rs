//! `baton runs trace`: a run as a tree of spans with times, from the stored trace.

use baton_core::id::RunId;
use baton_core::time::Timestamp;
use baton_engine::spans::names;
use baton_engine::{Trace, TraceSpan};
use serde_json::Value;

use crate::columns::columns;
pub(super) use crate::shape::trace as document;
use crate::terminal::brief;

/// The tree as text. Spans that are still open have lasted until `now`.
pub(super) fn tree(run: RunId, trace: &Trace, now: Timestamp) -> String {
    let origin = trace.spans.iter().map(|span| span.start).min().unwrap_or(now);
    let mut rows = Vec::new();
    for span in &trace.spans {
        add(span, 0, origin, now, &mut rows);
    }
    let caller = trace.spans.iter().find_map(|span| span.parent_span_id.as_ref());
    let caller = caller.map(|span| format!(", in span {span} of whoever asked")).unwrap_or_default();
    let head = format!("run {run}\ntrace {}{caller}\n\n", trace.trace_id);
    head + &columns(["SPAN", "AT", "TOOK", "WHAT"], &rows)
}

fn add(span: &TraceSpan, depth: usize, origin: Timestamp, now: Timestamp, rows: &mut Vec<[String; 4]>) {
    let took = in_words(span.end.unwrap_or(now).ms_since(span.start));
    rows.push([
        format!("{}{}", "  ".repeat(depth), brief(&span.name, 60)),
        format!("+{}", in_words(span.start.ms_since(origin))),
        if span.end.is_some() { took } else { format!("{took} so far") },
        what(span),
    ]);
    for child in &span.children {
        add(child, depth + 1, origin, now, rows);
    }
}

/// The attributes of a span that are worth showing, in a few words.
fn what(span: &TraceSpan) -> String {
    let text = |name: &str| span.attributes.get(name).and_then(Value::as_str);
    let number = |name: &str| span.attributes.get(name).and_then(Value::as_u64);
    let mut words: Vec<String> = Vec::new();
    words.extend(number(names::EPOCH).filter(|epoch| *epoch > 1).map(|epoch| format!("claim {epoch}")));
    words.extend(text(names::STATUS).map(str::to_owned));
    words.extend(text(names::ROLE).map(|role| format!("as {role}")));
    words.extend(text(names::WAITING_FOR).map(|_| "waited for a person".to_owned()));
    words.extend(number(names::ATTEMPT).filter(|n| *n > 1).map(|attempt| format!("attempt {attempt}")));
    if let (Some(read), Some(written)) = (number(names::INPUT_TOKENS), number(names::OUTPUT_TOKENS)) {
        words.push(format!("{read} read, {written} written"));
    }
    words.extend(text(names::ERROR_TYPE).map(|error| format!("error: {error}")));
    brief(&words.join(", "), 120)
}

/// A duration for display.
fn in_words(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms / 1000 % 60),
        _ => format!("{} h {} min", ms / 3_600_000, ms / 60_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    fn span(name: &str, from: i64, to: Option<i64>, known: Value, children: Vec<TraceSpan>) -> TraceSpan {
        let attributes = known.as_object().cloned().unwrap_or_else(Map::new);
        let (start, end) = (Timestamp(from), to.map(Timestamp));
        let (span_id, parent_span_id) = (name.to_owned(), Some("p".to_owned()));
        TraceSpan {
            span_id,
            parent_span_id,
            name: name.to_owned(),
            kind: "internal",
            start,
            end,
            attributes,
            children,
        }
    }

    fn a_trace() -> Trace {
        let chat = json!({names::ROLE: "router", names::ATTEMPT: 2, names::INPUT_TOKENS: 7, names::OUTPUT_TOKENS: 3});
        let tool = json!({names::ATTEMPT: 1, names::ERROR_TYPE: "tool_failed"});
        let children = vec![
            span("chat m", 1_010, Some(1_022), chat, vec![]),
            span("execute_tool t\u{1b}", 1_022, Some(3_922), tool, vec![]),
        ];
        let first = json!({names::EPOCH: 1, names::STATUS: "suspended"});
        let second = json!({names::EPOCH: 2, names::STATUS: "running"});
        let spans = vec![
            span("invoke_agent baton", 1_000, Some(4_000), first, children),
            span("wait approval", 4_000, Some(69_000), json!({names::WAITING_FOR: "approval"}), vec![]),
            span("invoke_agent baton", 69_000, None, second, vec![]),
        ];
        Trace { trace_id: "t1".to_owned(), spans }
    }

    #[test]
    fn the_tree_reads_well() {
        let run = RunId(uuid::Uuid::from_u128(7));
        let expected = "\
run 00000000-0000-0000-0000-000000000007
trace t1, in span p of whoever asked

SPAN                AT          TOOK              WHAT
invoke_agent baton  +0 ms       3.0 s             suspended
  chat m            +10 ms      12 ms             as router, attempt 2, 7 read, 3 written
  execute_tool t\u{fffd}   +22 ms      2.9 s             error: tool_failed
wait approval       +3.0 s      1 min 5 s         waited for a person
invoke_agent baton  +1 min 8 s  1 h 2 min so far  claim 2, running";
        assert_eq!(tree(run, &a_trace(), Timestamp(69_000 + 3_720_000)), expected);
    }

    #[test]
    fn the_document_nests_as_the_tree_does() {
        let mut trace = a_trace();
        trace.spans.drain(1..);
        trace.spans[0].children.drain(1..);
        let chat = json!({
            "span_id": "chat m", "parent_span_id": "p", "name": "chat m", "kind": "internal",
            "start": "1970-01-01T00:00:01.010Z", "end": "1970-01-01T00:00:01.022Z",
            "attributes": trace.spans[0].children[0].attributes, "children": [],
        });
        let run = json!({
            "span_id": "invoke_agent baton", "parent_span_id": "p", "name": "invoke_agent baton", "kind": "internal",
            "start": "1970-01-01T00:00:01.000Z", "end": "1970-01-01T00:00:04.000Z",
            "attributes": {"baton.epoch": 1, "baton.status": "suspended"}, "children": [chat],
        });
        assert_eq!(document(&trace), json!({"trace_id": "t1", "spans": [run]}));
    }
}
