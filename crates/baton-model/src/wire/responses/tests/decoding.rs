//! What recordings do not show: whole answers, and what servers get wrong.

use baton_core::chat::{FinishReason, TokenUsage};
use baton_core::fault::{Code, Fault};
use serde_json::{Value, json};

use crate::port::Delta;
use crate::wire::{InlineTags, Wire, WireNames};

fn whole(body: &Value) -> (Vec<Delta>, Result<(), Fault>) {
    let mut out = Vec::new();
    let mut decoder = Wire::Responses.decoder(WireNames::default(), InlineTags::default());
    let end = decoder.whole(body.to_string().as_bytes(), &mut out);
    assert_eq!(decoder.is_done(), end.is_ok());
    (out, end)
}

fn stream(events: &[Value]) -> (Vec<Delta>, Result<(), Fault>) {
    let text: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let mut out = Vec::new();
    let mut decoder = Wire::Responses.decoder(WireNames::default(), InlineTags::default());
    let end = decoder.push(text.as_bytes(), &mut out).and_then(|()| decoder.end(&mut out));
    (out, end)
}

fn start(index: u32, id: &str, name: &str) -> Delta {
    Delta::CallStart { index, id: Some(id.into()), name: name.into() }
}

fn arguments(index: u32, text: &str) -> Delta {
    Delta::CallArguments { index, text: text.into() }
}

fn invalid(message: &str) -> Result<(), Fault> {
    Err(Fault::new(Code::LlmInvalidResponse, message))
}

fn call(id: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "call_id": id, "name": "t", "arguments": arguments})
}

#[test]
fn t7_a_whole_answer_gives_the_deltas_of_its_stream() {
    let thought =
        json!({"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}]});
    let body = json!({"object": "response", "status": "completed", "error": null, "output": [
        thought,
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]},
        call("c1", "{}"), call("c2", "{\"a\":1}"),
        {"type": "web_search_call", "id": "ws"},
    ], "usage": {"input_tokens": 1, "output_tokens": 2}});
    let expected = vec![
        Delta::Reasoning("hm".into()),
        Delta::ReasoningBlock(thought),
        Delta::Text("Hi".into()),
        start(0, "c1", "t"),
        arguments(0, "{}"),
        start(1, "c2", "t"),
        arguments(1, "{\"a\":1}"),
        Delta::Usage(TokenUsage {
            prompt_tokens: 1,
            completion_tokens: 2,
            cost_micro_usd: None,
            estimated: false,
        }),
        Delta::Finish(FinishReason::ToolCalls),
    ];
    assert_eq!(whole(&body), (expected, Ok(())));
}

#[test]
fn t7_a_whole_answer_has_its_finish_reason() {
    let of = |status: &str, reason: Value| {
        let part = json!({"type": "output_text", "text": "x"});
        let body = json!({"status": status, "output": [{"type": "message", "content": [part]}],
            "incomplete_details": {"reason": reason}});
        let (out, end) = whole(&body);
        (out.last().cloned(), end)
    };
    let finish = |reason| (Some(Delta::Finish(reason)), Ok(()));
    assert_eq!(of("completed", json!(null)), finish(FinishReason::Stop));
    assert_eq!(of("incomplete", json!("max_output_tokens")), finish(FinishReason::Length));
    assert_eq!(of("incomplete", json!("unheard_of")), finish(FinishReason::Length));
    assert_eq!(of("incomplete", json!("content_filter")), finish(FinishReason::Refused));
    let unfinished = invalid("the model's server gave an answer that is not complete");
    for status in ["queued", "in_progress", "cancelled", "failed"] {
        assert_eq!(of(status, json!(null)).1, unfinished, "{status}");
    }
}

#[test]
fn t7_t15_a_whole_answer_that_is_an_error_or_nothing_is_a_failure() {
    let failed =
        json!({"status": "failed", "output": [], "error": {"code": "server_error", "message": "oh"}});
    let oh = Fault::new(Code::LlmServer, "the model's server failed; it said: oh").retry_after_ms(0);
    assert_eq!(whole(&failed), (vec![], Err(oh.clone())));
    assert_eq!(whole(&json!({"error": "oh"})), (vec![], Err(oh)));
    for nothing in [json!({}), json!([]), json!(null), json!({"status": "completed"}), json!({"output": []})]
    {
        let words = format!("the model's server sent what is no answer: {nothing}");
        assert_eq!(whole(&nothing), (vec![], invalid(&words)), "{nothing}");
    }
}

#[test]
fn t11_equal_arguments_written_differently_pass_and_different_ones_fail() {
    let events = |last: &str| {
        stream(&[
            json!({"type": "response.output_item.added", "item": call("c", "")}),
            json!({"type": "response.function_call_arguments.delta", "delta": "{\"a\": 1}"}),
            json!({"type": "response.function_call_arguments.done", "arguments": last}),
            json!({"type": "response.completed"}),
        ])
    };
    let told = vec![start(0, "c", "t"), arguments(0, "{\"a\": 1}")];
    let finish = Delta::Finish(FinishReason::ToolCalls);
    assert_eq!(events("{\"a\":1}"), ([told.clone(), vec![finish]].concat(), Ok(())));
    let two_ways = invalid("the model's server told the arguments of a call in two different ways");
    assert_eq!(events("{\"a\":2}"), (told.clone(), two_ways.clone()));
    assert_eq!(events("{\"a\""), (told, two_ways));
}

#[test]
fn arguments_for_no_call_and_calls_of_no_tool_are_failures() {
    let delta = json!({"type": "response.function_call_arguments.delta", "delta": "{}"});
    let words = "the model sent arguments for a call that it had not begun";
    assert_eq!(stream(&[delta]), (vec![], invalid(words)));
    let added =
        json!({"type": "response.output_item.added", "item": {"type": "function_call", "call_id": "c"}});
    let words = "the model began a call and did not say of which tool";
    assert_eq!(stream(&[added]), (vec![], invalid(words)));
}

#[test]
fn calls_without_end_are_stopped() {
    let added = |n: usize| json!({"type": "response.output_item.added", "item": call(&format!("c{n}"), "")});
    let completed = json!({"type": "response.completed"});
    let begun = |count: usize| stream(&(0..count).map(added).chain([completed.clone()]).collect::<Vec<_>>());
    assert_eq!((begun(1024).0.len(), begun(1024).1), (1025, Ok(())));
    let endless = invalid("the model's answer begins calls without end");
    assert_eq!((begun(1025).0.len(), begun(1025).1), (1024, endless));
}

#[test]
fn an_incomplete_answer_without_details_was_too_long() {
    let events = [
        json!({"type": "response.output_text.delta", "delta": "a"}),
        json!({"type": "response.output_text.delta", "delta": ""}),
        json!({"type": "response.incomplete", "response": {}}),
    ];
    assert_eq!(stream(&events), (vec![Delta::Text("a".into()), Delta::Finish(FinishReason::Length)], Ok(())));
}

#[test]
fn reasoning_is_sent_once_in_pieces_or_whole() {
    let item =
        |text: &str| json!({"type": "reasoning", "content": [{"type": "reasoning_text", "text": text}]});
    let done = |text: &str| json!({"type": "response.output_item.done", "item": item(text)});
    let events = [
        json!({"type": "response.reasoning_text.delta", "delta": "one"}),
        done("one"),
        done("two"),
        json!({"type": "response.completed", "response": {"output": [item("one"), item("two")]}}),
    ];
    let expected = vec![
        Delta::Reasoning("one".into()),
        Delta::ReasoningBlock(item("one")),
        Delta::Reasoning("two".into()),
        Delta::ReasoningBlock(item("two")),
        Delta::Finish(FinishReason::Stop),
    ];
    assert_eq!(stream(&events), (expected, Ok(())));
}
