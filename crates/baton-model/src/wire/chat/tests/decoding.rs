//! What recordings do not show: whole answers, and pieces of calls in every order.

use baton_core::chat::{FinishReason, TokenUsage};
use baton_core::fault::{Code, Fault};
use serde_json::{Value, json};

use crate::collect::ReplyCollector;
use crate::port::Delta;
use crate::wire::{InlineTags, Wire, WireNames};

fn whole(body: &Value) -> (Vec<Delta>, Result<(), Fault>) {
    let mut out = Vec::new();
    let mut decoder = Wire::ChatCompletions.decoder(WireNames::default(), InlineTags::default());
    let end = decoder.whole(body.to_string().as_bytes(), &mut out);
    assert_eq!(decoder.is_done(), end.is_ok());
    (out, end)
}

/// Reads events with these deltas, then a last one with this reason, then the marker.
fn stream(deltas: &[Value], reason: Value) -> (Vec<Delta>, Result<(), Fault>) {
    let mut text = String::new();
    for delta in deltas {
        text += &format!("data: {}\n\n", json!({"choices": [{"delta": delta}]}));
    }
    let last = json!({"choices": [{"delta": {}, "finish_reason": reason}]});
    text += &format!("data: {last}\n\ndata: [DONE]\n\n");
    let mut out = Vec::new();
    let mut decoder = Wire::ChatCompletions.decoder(WireNames::default(), InlineTags::default());
    let end = decoder.push(text.as_bytes(), &mut out);
    (out, end)
}

fn start(index: u32, id: Option<&str>, name: &str) -> Delta {
    Delta::CallStart { index, id: id.map(str::to_owned), name: name.into() }
}

fn arguments(index: u32, text: &str) -> Delta {
    Delta::CallArguments { index, text: text.into() }
}

fn calls(pieces: Value) -> Value {
    json!({ "tool_calls": pieces })
}

fn invalid(message: &str) -> Result<(), Fault> {
    Err(Fault::new(Code::LlmInvalidResponse, message))
}

const SILENT: &str = "the model's answer ended without saying why it stopped";

#[test]
fn t7_a_whole_answer_gives_the_deltas_of_its_stream() {
    let body = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "model": "m",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "Let me look.", "reasoning_content": "hm", "tool_calls": [
                {"id": "same", "type": "function", "function": {"name": "a", "arguments": "{\"x\":1}"}},
                {"id": "same", "type": "function", "function": {"name": "a", "arguments": {"x": 2}}},
            ],
        }}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4},
    });
    let expected = vec![
        Delta::Reasoning("hm".into()),
        Delta::Text("Let me look.".into()),
        start(0, Some("same"), "a"),
        arguments(0, "{\"x\":1}"),
        start(1, Some("same"), "a"),
        arguments(1, "{\"x\":2}"),
        Delta::Usage(TokenUsage {
            prompt_tokens: 3,
            completion_tokens: 4,
            cost_micro_usd: None,
            estimated: false,
        }),
        Delta::ReasoningBlock(json!({"reasoning_content": "hm"})),
        Delta::Finish(FinishReason::ToolCalls),
    ];
    assert_eq!(whole(&body), (expected, Ok(())));
}

#[test]
fn t7_t15_a_whole_answer_that_is_an_error_or_nothing_is_a_failure() {
    let busy = Fault::new(Code::LlmRateLimited, "the model's server asks to slow down; it said: slow")
        .retry_after_ms(0);
    let error = json!({"error": {"type": "rate_limit_error", "message": "slow"}});
    assert_eq!(whole(&error), (vec![], Err(busy)));
    for nothing in
        [json!({}), json!([]), json!(null), json!({"choices": []}), json!({"choices": [{"message": 1}]})]
    {
        assert_eq!(whole(&nothing), (vec![], invalid(SILENT)), "{nothing}");
    }
}

#[test]
fn each_done_reason_maps_to_a_finish_reason() {
    let text = json!({"content": "x"});
    let call = calls(json!([{"index": 0, "id": "i", "function": {"name": "t", "arguments": "{}"}}]));
    let table = [
        (&text, json!("stop"), Some(FinishReason::Stop)),
        (&text, json!("length"), Some(FinishReason::Length)),
        (&text, json!("model_length"), Some(FinishReason::Length)),
        (&text, json!("content_filter"), Some(FinishReason::Refused)),
        (&text, json!("tool_calls"), Some(FinishReason::ToolCalls)),
        (&text, json!("function_call"), Some(FinishReason::ToolCalls)),
        (&text, json!("unheard_of"), Some(FinishReason::Stop)),
        (&text, json!(null), Some(FinishReason::Stop)),
        (&call, json!("stop"), Some(FinishReason::Stop)),
        (&call, json!("length"), Some(FinishReason::Length)),
        (&text, json!("eos"), Some(FinishReason::Stop)),
        (&call, json!("eos_token"), Some(FinishReason::Stop)),
        (&call, json!(null), None),
        (&json!({}), json!("stop"), Some(FinishReason::Stop)),
        (&json!({}), json!("unheard_of"), None),
        (&json!({}), json!(null), None),
    ];
    for (delta, reason, expected) in table {
        let (out, end) = stream(std::slice::from_ref(delta), reason.clone());
        let finish = match out.last() {
            Some(Delta::Finish(finish)) => Some(*finish),
            _ => None,
        };
        let expected_end = if expected.is_some() { Ok(()) } else { invalid(SILENT) };
        assert_eq!((finish, end), (expected, expected_end), "{delta} {reason}");
    }
}

#[test]
fn an_answer_that_its_server_broke_off_is_a_failure_that_passes() {
    let call = calls(json!([{"index": 0, "id": "i", "function": {"name": "t", "arguments": "{}"}}]));
    let said = [json!({"content": "x"}), json!({"refusal": "no"}), call, json!({})];
    for reason in ["abort", "error", "cancelled", "insufficient_system_resource"] {
        for delta in &said {
            let words = format!("the model's server broke off the answer ({reason})");
            let fault = Fault::new(Code::LlmServer, words).retry_after_ms(0);
            let (out, end) = stream(std::slice::from_ref(delta), json!(reason));
            assert!(!out.iter().any(|delta| matches!(delta, Delta::Finish(_))), "{out:?}");
            assert_eq!(end, Err(fault), "{delta}");
        }
    }
}

#[test]
fn calls_that_end_for_an_unknown_reason_may_be_half_and_are_no_answer() {
    let call = calls(json!([{"index": 0, "id": "i", "function": {"name": "t", "arguments": "{\"to\":"}}]));
    let (_, end) = stream(&[json!({"content": "x"}), call], json!("unheard\u{1b}of"));
    let words = "the model wanted calls and stopped for a reason that is not known: unheard of";
    assert_eq!(end, invalid(words));
}

#[test]
fn reasoning_keeps_the_name_of_its_field() {
    let blocks = |deltas: &[Value]| {
        let (out, end) = stream(deltas, json!("stop"));
        assert_eq!(end, Ok(()));
        let block = |delta| if let Delta::ReasoningBlock(block) = delta { Some(block) } else { None };
        out.into_iter().filter_map(block).collect::<Vec<_>>()
    };
    let [own, other] =
        [("reasoning_content", "a "), ("reasoning", "b")].map(|(field, text)| json!({ field: text }));
    assert_eq!(blocks(std::slice::from_ref(&own)), [json!({"reasoning_content": "a "})]);
    assert_eq!(blocks(std::slice::from_ref(&other)), [json!({"reasoning": "b"})]);
    assert_eq!(blocks(&[own, other]), [json!({"reasoning_content": "a b"})]);
}

#[test]
fn pieces_of_calls_find_their_call() {
    let stop = Delta::Finish(FinishReason::ToolCalls);
    let table: [(&str, Vec<Value>, Vec<Delta>); 10] = [
        (
            "an index out of order keeps its place",
            vec![
                json!([{"index": 2, "id": "b", "function": {"name": "t"}}]),
                json!([{"index": 0, "id": "a", "function": {"name": "t"}}]),
                json!([{"index": 2, "function": {"arguments": "{}"}}]),
            ],
            vec![start(2, Some("b"), "t"), start(0, Some("a"), "t"), arguments(2, "{}")],
        ),
        (
            "a name may come after the id and after arguments",
            vec![
                json!([{"index": 0, "id": "a", "function": {"arguments": "{\"x\""}}]),
                json!([{"index": 0, "function": {"name": "t", "arguments": ":1"}}]),
                json!([{"index": 0, "function": {"arguments": "}"}}]),
            ],
            vec![start(0, Some("a"), "t"), arguments(0, "{\"x\":1"), arguments(0, "}")],
        ),
        (
            "another id alone, with an index, goes on",
            vec![
                json!([{"index": 0, "id": "a", "function": {"name": "t", "arguments": "{"}}]),
                json!([{"index": 0, "id": "z", "function": {"arguments": "}"}}]),
            ],
            vec![start(0, Some("a"), "t"), arguments(0, "{"), arguments(0, "}")],
        ),
        (
            "no ids at all, the same index, another name",
            vec![
                json!([{"index": 0, "function": {"name": "t", "arguments": "{}"}}]),
                json!([{"index": 0, "function": {"name": "u", "arguments": "[]"}}]),
            ],
            vec![start(0, None, "t"), arguments(0, "{}"), start(1, None, "u"), arguments(1, "[]")],
        ),
        (
            "no index, ids interleaved",
            vec![
                json!([{"id": "a", "function": {"name": "t"}}, {"id": "b", "function": {"name": "t"}}]),
                json!([{"id": "a", "function": {"arguments": "1"}}, {"id": "b", "function": {"arguments": "2"}}]),
            ],
            vec![start(0, Some("a"), "t"), start(1, Some("b"), "t"), arguments(0, "1"), arguments(1, "2")],
        ),
        (
            "a new call at a used index does not take the place of a later one",
            vec![
                json!([{"index": 0, "id": "a", "function": {"name": "t"}}]),
                json!([{"index": 1, "id": "b", "function": {"name": "t"}}]),
                json!([{"index": 0, "id": "c", "function": {"name": "t"}}]),
                json!([{"index": 0, "function": {"arguments": "3"}}]),
                json!([{"index": 1, "function": {"arguments": "2"}}]),
            ],
            vec![
                start(0, Some("a"), "t"),
                start(1, Some("b"), "t"),
                start(2, Some("c"), "t"),
                arguments(2, "3"),
                arguments(1, "2"),
            ],
        ),
        (
            "empty ids, names and arguments are none",
            vec![
                json!([{"index": 0, "id": "a", "function": {"name": "t", "arguments": ""}}]),
                json!([{"index": 0, "id": "", "function": {"name": "", "arguments": null}}]),
                json!([{"index": 0, "id": null, "function": {"name": null, "arguments": "{}"}}]),
                json!([{"index": 0}]),
            ],
            vec![start(0, Some("a"), "t"), arguments(0, "{}")],
        ),
        (
            "an index beyond all reason",
            vec![json!([{"index": u64::MAX, "id": "a", "function": {"name": "t", "arguments": "{}"}}])],
            vec![start(0, Some("a"), "t"), arguments(0, "{}")],
        ),
        (
            "the largest index does not leave the next call without one",
            vec![
                json!([{"index": u32::MAX, "id": "a", "function": {"name": "t", "arguments": "{"}}]),
                json!([{"id": "b", "function": {"name": "u", "arguments": "[]"}}]),
                json!([{"index": u32::MAX, "function": {"arguments": "}"}}]),
            ],
            vec![
                start(0, Some("a"), "t"),
                arguments(0, "{"),
                start(1, Some("b"), "u"),
                arguments(1, "[]"),
                arguments(0, "}"),
            ],
        ),
        (
            "indexes are taken up to 1023 and counted on from there",
            vec![
                json!([{"index": 1023, "id": "a", "function": {"name": "t"}}]),
                json!([{"index": 1025, "id": "b", "function": {"name": "t"}}]),
                json!([{"index": 1024, "id": "c", "function": {"name": "t"}}]),
            ],
            vec![start(1023, Some("a"), "t"), start(1024, Some("b"), "t"), start(1025, Some("c"), "t")],
        ),
    ];
    for (what, pieces, mut expected) in table {
        expected.push(stop.clone());
        let deltas: Vec<Value> = pieces.into_iter().map(calls).collect();
        assert_eq!(stream(&deltas, json!("tool_calls")), (expected, Ok(())), "{what}");
    }
}

#[test]
fn a_call_without_a_name_is_no_answer() {
    let (out, end) =
        stream(&[calls(json!([{"index": 0, "id": "a", "function": {"arguments": "{}"}}]))], json!("stop"));
    assert_eq!((out, end), (vec![], invalid("the model began a call and did not say of which tool")));
}

#[test]
fn calls_without_end_are_stopped() {
    let begun = |count: usize| {
        let many: Vec<Value> = (0..count).map(|n| json!({"index": n, "function": {"name": "t"}})).collect();
        stream(&[calls(many.into())], json!("stop"))
    };
    assert_eq!((begun(1024).0.len(), begun(1024).1), (1025, Ok(())));
    let endless = invalid("the model's answer begins calls without end");
    assert_eq!((begun(1025).0.len(), begun(1025).1), (1024, endless));
    // How many there may be is the collector's to say.
    let mut collector = ReplyCollector::new();
    let collected = begun(65).0.iter().try_for_each(|delta| collector.push(delta));
    assert_eq!(collected, invalid("the model wanted more than 64 calls at once"));
}

#[test]
fn content_may_be_a_list_of_parts_and_odd_fields_do_not_matter() {
    let deltas = [
        json!({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": ""}, {"type": "image"}]}),
        json!({"content": "", "reasoning_content": "", "refusal": null, "tool_calls": null}),
        json!({"content": 5, "tool_calls": {"x": 1}, "audio": {}}),
        json!(null),
        json!({"content": "b"}),
    ];
    let expected = vec![Delta::Text("a".into()), Delta::Text("b".into()), Delta::Finish(FinishReason::Stop)];
    assert_eq!(stream(&deltas, json!("stop")), (expected, Ok(())));
}

#[test]
fn only_the_first_choice_is_read() {
    let body = json!({"choices": [
        {"index": 1, "message": {"content": "other"}, "finish_reason": "length"},
        {"index": 0, "message": {"content": "mine"}, "finish_reason": "stop"},
    ]});
    assert_eq!(whole(&body), (vec![Delta::Text("mine".into()), Delta::Finish(FinishReason::Stop)], Ok(())));
}
