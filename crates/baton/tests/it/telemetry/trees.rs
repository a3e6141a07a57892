//! `baton runs trace`, and that it shows the spans that a collector gets.

use serde_json::{Value, json};

use super::collector::{Collector, Manner, hex};
use super::{ENDPOINT, PARENT, only_run};
use crate::world::World;

#[test]
fn a_run_that_was_killed_goes_on_in_the_same_trace() {
    let (world, collector) = (World::new(), Collector::new(Manner::Taking));
    let variables =
        [(ENDPOINT, &*collector.url()), ("TRACEPARENT", PARENT)].map(|(n, v)| (n.to_owned(), v.to_owned()));
    let call = json!({"call": {"name": "calculator", "arguments": {"expression": "6 * 7"}}});
    let model = world.script(&json!({"v": 1, "replies": [{"do": [call]}, {"do": [{"text": "It is 42."}]}]}));
    let mut killed = world.command(&["ask", "--json", "--model", &model, "What is 6 * 7?"]);
    killed.envs(variables.clone()).env("BATON_FAILPOINT", "tool.post_intent:1");
    assert_eq!(killed.output().unwrap().status.code(), None, "it was killed");
    let run = only_run(&world);
    let running = shown(&world.baton(&["runs", "trace", &run]).ok());
    assert_eq!(
        running,
        [
            "0 invoke_agent baton: interrupted".to_owned(),
            "1 chat: as router".to_owned(),
            "1 execute_tool calculator: error: interrupted".to_owned(),
        ]
    );

    // It is resumed without the caller's variable: the run has stored it.
    let variables: Vec<(&str, &str)> = vec![(ENDPOINT, &variables[0].1)];
    assert_eq!(world.baton_with(&variables, &["runs", "resume", &run]).code, 0);
    let spans = collector.spans();
    let root = spans.iter().find(|span| span.name == "invoke_agent baton").unwrap();
    let ids = |spans: &Value| {
        let ids = spans.as_array().unwrap().iter().map(|span| span["span_id"].as_str().unwrap().to_owned());
        ids.collect::<Vec<_>>()
    };
    let document = world.baton(&["runs", "trace", &run, "--json"]).json();
    let claims = ids(&document["spans"]);
    assert_eq!(document["trace_id"], hex(&root.trace_id));
    assert_eq!(hex(&root.parent_span_id), "00f067aa0ba902b7");
    assert_eq!(claims[1], hex(&root.span_id));
    let links: Vec<(String, String)> =
        root.links.iter().map(|link| (hex(&link.trace_id), hex(&link.span_id))).collect();
    assert_eq!(links, [(hex(&root.trace_id), claims[0].clone())], "it goes on with the killed one's span");
    let exported = spans.iter().filter(|span| span.name != "commit" && span.span_id != root.span_id);
    let exported: Vec<String> = exported.map(|span| hex(&span.span_id)).collect();
    assert_eq!(
        ids(&document["spans"][1]["children"]),
        exported,
        "the same ids in the store and in telemetry"
    );

    let text = world.baton(&["runs", "trace", &run]).ok();
    let head = format!(
        "run {run}\ntrace 4bf92f3577b34da6a3ce929d0e0e4736, in span 00f067aa0ba902b7 of whoever asked\n"
    );
    assert_eq!(text.lines().take(2).map(|line| format!("{line}\n")).collect::<String>(), head);
    assert_eq!(
        shown(&text),
        [
            "0 invoke_agent baton: interrupted",
            "1 chat: as router",
            "1 execute_tool calculator: error: interrupted",
            "0 invoke_agent baton: claim 2, ok",
            "1 execute_tool calculator: attempt 2",
            "1 chat: as reasoning",
        ]
    );
}

/// The lines of a tree: depth, name without the script's path, and the attributes without tokens.
fn shown(text: &str) -> Vec<String> {
    let table = text.lines().skip_while(|line| !line.starts_with("SPAN ")).skip(1);
    let line = |line: &str| {
        let depth = (line.len() - line.trim_start().len()) / 2;
        let cells: Vec<&str> =
            line.trim_start().split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert!(
            cells[1].starts_with('+') && (cells[2].ends_with(" ms") || cells[2].ends_with(" s")),
            "{line}"
        );
        let name = if cells[0].starts_with("chat ") { "chat" } else { cells[0] };
        let what: Vec<&str> = cells
            .get(3)
            .copied()
            .unwrap_or_default()
            .split(", ")
            .filter(|word| !word.ends_with(" read") && !word.ends_with(" written"))
            .collect();
        format!("{depth} {name}: {}", what.join(", ")).trim_end().to_owned()
    };
    table.map(line).collect()
}
