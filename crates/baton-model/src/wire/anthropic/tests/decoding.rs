use baton_core::chat::{FinishReason, TokenUsage};
use baton_core::fault::{Code, Fault};
use serde_json::{Value, json};

use crate::port::Delta;
use crate::wire::anthropic::AnthropicDecoder;
use crate::wire::failure;
use crate::wire::json::BorrowedJson;

/// What comes of these events, and whether the last was the end.
fn read(events: &[Value]) -> (Vec<Delta>, Result<bool, Fault>) {
    let (mut reading, mut out, mut last) = (AnthropicDecoder::default(), Vec::new(), Ok(false));
    for event in events {
        assert_eq!(last, Ok(false), "read on after the end");
        last = reading.frame(&event.to_string(), &mut out);
    }
    (out, last)
}

/// What comes of a document.
fn read_whole(body: &Value) -> (Vec<Delta>, Result<(), Fault>) {
    let (text, mut out) = (body.to_string(), Vec::new());
    let end = AnthropicDecoder::default().whole(&BorrowedJson::parse(&text).unwrap(), &mut out);
    (out, end)
}

fn start(usage: Value) -> Value {
    json!({"type": "message_start", "message": {"role": "assistant", "content": [], "usage": usage}})
}

fn begin(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn go_on(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn arguments(index: u64, text: &str) -> Value {
    go_on(index, json!({"type": "input_json_delta", "partial_json": text}))
}

fn stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn end(reason: &str) -> [Value; 2] {
    let delta = json!({"type": "message_delta", "delta": {"stop_reason": reason}});
    [delta, json!({"type": "message_stop"})]
}

fn tool(id: &str, name: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": name, "input": {}})
}

fn text(text: &str) -> Delta {
    Delta::Text(text.into())
}

fn reasoning(text: &str) -> Delta {
    Delta::Reasoning(text.into())
}

fn call(index: u32, id: &str, name: &str) -> Delta {
    Delta::CallStart { index, id: Some(id.into()), name: name.into() }
}

fn written(index: u32, text: &str) -> Delta {
    Delta::CallArguments { index, text: text.into() }
}

fn usage(prompt_tokens: u64, completion_tokens: u64) -> Delta {
    Delta::Usage(TokenUsage { prompt_tokens, completion_tokens, cost_micro_usd: None, estimated: false })
}

#[test]
fn everything_that_may_be_in_an_answer() {
    let mut events = vec![
        start(
            json!({"input_tokens": 10, "cache_read_input_tokens": 200, "cache_creation_input_tokens": 3000,
                     "output_tokens": 1, "service_tier": "standard"}),
        ),
        begin(0, json!({"type": "thinking", "thinking": "", "signature": "", "new": 1})),
        json!({"type": "ping"}),
        go_on(0, json!({"type": "thinking_delta", "thinking": "I "})),
        go_on(0, json!({"type": "thinking_delta", "thinking": "add."})),
        go_on(0, json!({"type": "signature_delta", "signature": "c2"})),
        go_on(0, json!({"type": "signature_delta", "signature": "ln"})),
        stop(0),
        begin(1, json!({"type": "redacted_thinking", "data": "eA=="})),
        stop(1),
        begin(2, json!({"type": "text", "text": "So"})),
        go_on(2, json!({"type": "text_delta", "text": ": adding."})),
        go_on(2, json!({"type": "citations_delta", "citation": {}})),
        stop(2),
        begin(3, json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}})),
        arguments(3, "{}"),
        stop(3),
        begin(4, tool("toolu_1", "exec__calculator")),
        arguments(4, ""),
        arguments(4, "{\"su"),
        begin(5, tool("toolu_2", "none")),
        arguments(4, "m\":\"2+2\"}"),
        stop(5),
        stop(4),
        json!({"type": "something_new", "index": 4}),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 57, "input_tokens": 0}}),
    ];
    events.push(json!({"type": "message_stop"}));
    let expected = vec![
        usage(3210, 1),
        reasoning("I "),
        reasoning("add."),
        Delta::ReasoningBlock(
            json!({"type": "thinking", "thinking": "I add.", "signature": "c2ln", "new": 1}),
        ),
        Delta::ReasoningBlock(json!({"type": "redacted_thinking", "data": "eA=="})),
        text("So"),
        text(": adding."),
        call(0, "toolu_1", "exec__calculator"),
        written(0, "{\"su"),
        call(1, "toolu_2", "none"),
        written(0, "m\":\"2+2\"}"),
        written(1, "{}"),
        usage(3210, 57),
        Delta::Finish(FinishReason::ToolCalls),
    ];
    assert_eq!(read(&events), (expected, Ok(true)));
}

#[test]
fn each_done_reason_maps_to_a_finish_reason() {
    let table = [
        ("end_turn", FinishReason::Stop),
        ("stop_sequence", FinishReason::Stop),
        ("pause_turn", FinishReason::Stop),
        ("something_new", FinishReason::Stop),
        ("tool_use", FinishReason::ToolCalls),
        ("max_tokens", FinishReason::Length),
        ("model_context_window_exceeded", FinishReason::Length),
        ("refusal", FinishReason::Refused),
    ];
    for (reason, finish) in table {
        assert_eq!(read(&end(reason)), (vec![Delta::Finish(finish)], Ok(true)), "{reason}");
    }
    let unsaid =
        [json!({"type": "message_delta", "delta": {"stop_reason": null}}), json!({"type": "message_stop"})];
    assert_eq!(read(&unsaid), (vec![Delta::Finish(FinishReason::Stop)], Ok(true)));
}

#[test]
fn t3_a_call_that_was_not_closed_is_never_complete() {
    for (reason, finish) in [
        ("max_tokens", FinishReason::Length),
        ("tool_use", FinishReason::Length),
        ("end_turn", FinishReason::Length),
        ("refusal", FinishReason::Refused),
    ] {
        let [delta, stop] = end(reason);
        let events =
            [begin(0, tool("t", "a")), arguments(0, "{\"x\":"), begin(1, tool("u", "b")), delta, stop];
        let expected =
            vec![call(0, "t", "a"), written(0, "{\"x\":"), call(1, "u", "b"), Delta::Finish(finish)];
        assert_eq!(read(&events), (expected, Ok(true)), "{reason}");
    }
}

#[test]
fn thinking_that_was_cut_off_has_no_signature_and_does_not_go_back() {
    let thinking = || begin(0, json!({"type": "thinking", "thinking": "", "signature": ""}));
    let [delta, last] = end("max_tokens");
    let thought = go_on(0, json!({"type": "thinking_delta", "thinking": "I"}));
    let expected = vec![reasoning("I"), Delta::Finish(FinishReason::Length)];
    let unclosed = [thinking(), thought.clone(), delta.clone(), last.clone()];
    assert_eq!(read(&unclosed), (expected.clone(), Ok(true)));
    let closed = [thinking(), thought, stop(0), delta, last];
    assert_eq!(read(&closed), (expected, Ok(true)));
}

#[test]
fn arguments_that_came_with_the_beginning_count_if_no_others_come() {
    let whole = |index, input: Value| {
        begin(index, json!({"type": "tool_use", "id": "t", "name": "a", "input": input}))
    };
    let events = [
        whole(0, json!({"x": 1})),
        stop(0),
        whole(1, json!({"x": 1})),
        arguments(1, "{}"),
        stop(1),
        whole(2, Value::Null),
        stop(2),
    ];
    let expected = vec![
        call(0, "t", "a"),
        written(0, "{\"x\":1}"),
        call(1, "t", "a"),
        written(1, "{}"),
        call(2, "t", "a"),
        written(2, "{}"),
    ];
    assert_eq!(read(&events), (expected, Ok(false)));
}

#[test]
fn an_error_in_the_stream_is_a_failure() {
    let error = json!({"type": "overloaded_error", "message": "Overloaded"});
    let words = go_on(0, json!({"type": "text_delta", "text": "So"}));
    let (out, last) = read(&[words, json!({"type": "error", "error": error})]);
    assert_eq!((out, &last), (vec![text("So")], &Err(failure::fault_in_answer(&error))));
    let decided = last.map_err(|fault| (fault.code, fault.retry_after_ms));
    assert_eq!(decided, Err((Code::LlmServer, Some(0))));
    // Compatible servers leave the type out, or say no more than words.
    assert_eq!(read(&[json!({"error": "boom"})]), (vec![], Err(failure::fault_in_answer(&json!("boom")))));
}

#[test]
fn arguments_for_a_call_that_had_not_begun_are_a_failure() {
    let words = "the model's server sent arguments for a call that had not begun";
    let expected = Err(Fault::new(Code::LlmInvalidResponse, words));
    assert_eq!(read(&[arguments(0, "{}")]), (vec![], expected));
}

#[test]
fn invalid_json_is_a_failure_and_unknown_json_is_ignored() {
    let read_one = |frame: &str| AnthropicDecoder::default().frame(frame, &mut Vec::new());
    assert_eq!(read_one("{\"type\":"), Err(failure::unreadable("{\"type\":")));
    for frame in ["[1]", "7", "null", "{}", "{\"type\":7,\"index\":-1}"] {
        assert_eq!(read_one(frame), Ok(false), "{frame}");
    }
}

#[test]
fn t7_a_whole_answer_reads_like_its_stream() {
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"});
    let whole = json!({
        "type": "message", "role": "assistant", "stop_reason": "tool_use",
        "content": [thinking, {"type": "redacted_thinking", "data": "eA=="}, {"type": "text", "text": "So"},
            {"type": "web_search_tool_result", "content": []},
            {"type": "tool_use", "id": "t", "name": "a", "input": {"x": 1}},
            {"type": "tool_use", "id": "u", "name": "b", "input": {}}],
        "usage": {"input_tokens": 5, "output_tokens": 3},
    });
    let expected = vec![
        reasoning("hm"),
        Delta::ReasoningBlock(thinking),
        Delta::ReasoningBlock(json!({"type": "redacted_thinking", "data": "eA=="})),
        text("So"),
        call(0, "t", "a"),
        written(0, "{\"x\":1}"),
        call(1, "u", "b"),
        written(1, "{}"),
        usage(5, 3),
        Delta::Finish(FinishReason::ToolCalls),
    ];
    assert_eq!(read_whole(&whole), (expected, Ok(())));
}

#[test]
fn a_document_that_is_no_answer_is_a_failure() {
    for body in [json!({}), json!([]), json!({"content": "yes"})] {
        assert_eq!(read_whole(&body), (vec![], Err(failure::unreadable(&body.to_string()))));
    }
    let error = json!({"type": "rate_limit_error", "message": "slow down"});
    let read = read_whole(&json!({"type": "error", "error": error}));
    assert_eq!(read, (vec![], Err(failure::fault_in_answer(&error))));
}
