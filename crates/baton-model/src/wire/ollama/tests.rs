use std::sync::Arc;

use baton_core::chat::{ChatCall, ChatMessage, FinishReason, Reasoning, Role, TokenUsage};
use baton_core::fault::{Code, Fault};
use baton_core::tool::{EffectClass, ToolSpec};
use serde_json::{Value, json};

use super::{OllamaDecoder, body, parse, text_line};
use crate::port::{Delta, ModelRequest, OutputSchema, ToolChoice};
use crate::wire::json::BorrowedJson;
use crate::wire::{WireNames, WireRequest, failure};

fn encode(request: &ModelRequest) -> Value {
    let names = WireNames::new(&request.tools, &request.messages);
    serde_json::to_value(body(&WireRequest {
        model: "qwen3:8b",
        name: "ollama/qwen3:8b",
        request,
        names: &names,
        is_openai: false,
    }))
    .unwrap()
}

fn calculator() -> ToolSpec {
    ToolSpec {
        name: "exec.calculator".into(),
        description: "Calculates.".into(),
        input_schema: json!({"type": "object", "properties": {"sum": {"type": "string"}}}),
        output_schema: None,
        class: EffectClass::SideEffectFree,
        timeout_ms: 1000,
        ..ToolSpec::default()
    }
}

fn thought(wire: &str, model: &str) -> Option<Reasoning> {
    let blocks = vec![json!({"thinking": "I will "}), json!({"thinking": "add."}), json!({"other": 1})];
    Some(Reasoning { model: model.into(), wire: wire.into(), blocks })
}

fn asked(id: &str, name: &str, arguments: Value) -> ChatMessage {
    let call = ChatCall { id: id.into(), name: name.into(), arguments };
    ChatMessage { tool_calls: vec![call], ..ChatMessage::text(Role::Assistant, "") }
}

fn result(id: &str, text: &str) -> ChatMessage {
    ChatMessage { tool_call_id: Some(id.into()), ..ChatMessage::text(Role::Tool, text) }
}

#[test]
fn a_request_with_nothing_but_a_question() {
    let request = ModelRequest::new("reasoning", vec![ChatMessage::text(Role::User, "hi")]);
    let expected = json!({
        "model": "qwen3:8b",
        "stream": true,
        "messages": [{"role": "user", "content": "hi"}],
        "options": {"num_predict": 4096},
    });
    assert_eq!(encode(&request), expected);
}

#[test]
fn a_request_with_everything() {
    let mut request = ModelRequest::new(
        "reasoning",
        vec![
            ChatMessage::text(Role::System, "be kind"),
            ChatMessage::text(Role::System, ""),
            ChatMessage::text(Role::System, "earlier: a summary"),
            ChatMessage::text(Role::User, "2+2?"),
            ChatMessage {
                reasoning: thought("ollama", "ollama/qwen3:8b"),
                content: "Adding.".into(),
                ..asked("7-1", "exec.calculator", json!({"sum": "2+2"}))
            },
            result("7-1", "4"),
            ChatMessage::text(Role::Assistant, ""),
            ChatMessage {
                reasoning: thought("ollama", "ollama/other"),
                ..asked("call:1", "made up", json!([1]))
            },
            result("call:1", "Error: no"),
            ChatMessage {
                reasoning: thought("anthropic", "ollama/qwen3:8b"),
                ..asked("7-2", "t", Value::Null)
            },
            result("7-2", ""),
            ChatMessage::text(Role::System, "a later summary"),
            ChatMessage::text(Role::System, " "),
            result("lost", "?"),
        ],
    );
    request.tools = Arc::new([calculator()]);
    request.tool_choice = ToolChoice::Required;
    request.schema = Some(OutputSchema { name: "sum".into(), schema: json!({"type": "object"}) });
    request.temperature = Some(0.0);
    request.max_tokens = 100;
    request.context_window = Some(32_768);
    let made_up = format!("made_up_{}", &baton_core::json::sha256_hex(b"made up")[..8]);
    let foreign = format!("call_1_{}", &baton_core::json::sha256_hex(b"call:1")[..8]);
    let expected = json!({
        "model": "qwen3:8b",
        "stream": true,
        "messages": [
            {"role": "system", "content": "be kind\n\nearlier: a summary"},
            {"role": "user", "content": "2+2?"},
            {"role": "assistant", "content": "Adding.", "thinking": "I will add.", "tool_calls": [
                {"type": "function", "id": "7-1",
                 "function": {"index": 0, "name": "exec__calculator", "arguments": {"sum": "2+2"}}}]},
            {"role": "tool", "content": "4", "tool_call_id": "7-1", "tool_name": "exec__calculator"},
            {"role": "assistant", "content": "", "tool_calls": [
                {"type": "function", "id": foreign,
                 "function": {"index": 0, "name": made_up, "arguments": {"arguments": [1]}}}]},
            {"role": "tool", "content": "Error: no", "tool_call_id": foreign, "tool_name": made_up},
            {"role": "assistant", "content": "", "tool_calls": [
                {"type": "function", "id": "7-2", "function": {"index": 0, "name": "t", "arguments": {}}}]},
            {"role": "tool", "content": "", "tool_call_id": "7-2", "tool_name": "t"},
            {"role": "user", "content": "<system_message>\na later summary\n</system_message>"},
            {"role": "tool", "content": "?", "tool_call_id": "lost"},
        ],
        "tools": [{"type": "function", "function": {
            "name": "exec__calculator",
            "description": "Calculates.",
            "parameters": {"type": "object", "properties": {"sum": {"type": "string"}}},
        }}],
        "format": {"type": "object"},
        "options": {"num_predict": 100, "temperature": 0.0, "num_ctx": 32768},
    });
    assert_eq!(encode(&request), expected);
}

/// What comes of these lines, and whether the last was the end.
fn read(lines: &[Value]) -> (Vec<Delta>, Result<bool, Fault>) {
    let (mut reading, mut out, mut last) = (OllamaDecoder::default(), Vec::new(), Ok(false));
    for line in lines {
        assert_eq!(last, Ok(false), "read on after the end");
        last = reading.frame(&line.to_string(), &mut out);
    }
    (out, last)
}

fn message(message: Value) -> Value {
    json!({"model": "m", "created_at": "2026-11-15T10:00:00Z", "message": message, "done": false})
}

fn done(reason: &str) -> Value {
    json!({"model": "m", "message": {"role": "assistant", "content": ""}, "done": true, "done_reason": reason})
}

fn usage(prompt: u64, completion: u64) -> Delta {
    Delta::Usage(TokenUsage {
        prompt_tokens: prompt,
        completion_tokens: completion,
        cost_micro_usd: None,
        estimated: false,
    })
}

fn text(text: &str) -> Delta {
    Delta::Text(text.into())
}

#[test]
fn t12_counters_that_are_absent_are_zero_and_arguments_are_an_object() {
    let lines = [
        message(json!({"content": "", "tool_calls": [
            {"function": {"index": 0, "name": "a", "arguments": {"s": "{\"x\":1}"}}},
            {"id": "p1", "function": {"index": 1, "name": "b", "arguments": {}}}]})),
        message(json!({"content": null, "tool_calls": [
            {"id": "", "function": {"index": 0, "name": "c"}}, {"function": {"arguments": "{\"y\":2}"}}, {}]})),
        done("stop"),
    ];
    let start = |index, id: Option<&str>, name: &str| Delta::CallStart {
        index,
        id: id.map(str::to_owned),
        name: name.into(),
    };
    let arguments = |index, text: &str| Delta::CallArguments { index, text: text.into() };
    let expected = vec![
        start(0, None, "a"),
        arguments(0, r#"{"s":"{\"x\":1}"}"#),
        start(1, Some("p1"), "b"),
        arguments(1, "{}"),
        start(2, None, "c"),
        arguments(2, "{}"),
        start(3, None, ""),
        arguments(3, r#"{"y":2}"#),
        start(4, None, ""),
        arguments(4, "{}"),
        usage(0, 0),
        Delta::Finish(FinishReason::Stop),
    ];
    assert_eq!(read(&lines), (expected, Ok(true)));
}

#[test]
fn thinking_is_shown_as_it_comes_and_kept_whole() {
    let lines = [
        message(json!({"thinking": "I ", "content": ""})),
        message(json!({"reasoning_content": "see", "content": ""})),
        message(json!({"content": "Yes"})),
        json!({"done": true, "done_reason": "stop", "prompt_eval_count": 5, "eval_count": 3}),
    ];
    let expected = vec![
        Delta::Reasoning("I ".into()),
        Delta::Reasoning("see".into()),
        text("Yes"),
        Delta::ReasoningBlock(json!({"thinking": "I see"})),
        usage(5, 3),
        Delta::Finish(FinishReason::Stop),
    ];
    assert_eq!(read(&lines), (expected, Ok(true)));
}

#[test]
fn each_done_reason_maps_to_a_finish_reason() {
    let silent = |words: &str| {
        let words = format!("the model's server says that it did {words:?} and gave no answer");
        Err(Fault::new(Code::LlmInvalidResponse, words))
    };
    let table = [
        ("yes", "stop", Ok(FinishReason::Stop)),
        ("", "stop", Ok(FinishReason::Stop)),
        ("yes", "length", Ok(FinishReason::Length)),
        ("yes", "", Ok(FinishReason::Stop)),
        ("yes", "something new", Ok(FinishReason::Stop)),
        ("yes", "load", Ok(FinishReason::Stop)),
        ("", "load", silent("load")),
        ("", "unload", silent("unload")),
    ];
    for (said, reason, expected) in table {
        let (out, last) = read(&[message(json!({"content": said})), done(reason)]);
        let finish =
            out.iter().find_map(|delta| if let Delta::Finish(finish) = delta { Some(*finish) } else { None });
        assert_eq!(last.map(|_| finish), expected.map(Some), "{said:?} {reason:?}");
    }
    let mut old = done("");
    old.as_object_mut().unwrap().remove("done_reason");
    assert_eq!(read(&[old]), (vec![usage(0, 0), Delta::Finish(FinishReason::Stop)], Ok(true)));
}

#[test]
fn t15_an_error_may_be_a_line_of_either_shape() {
    for error in [json!("boom"), json!({"message": "boom", "type": "api_error", "code": null})] {
        let (out, last) = read(&[message(json!({"content": "So"})), json!({"error": error})]);
        assert_eq!(last, Err(failure::fault_in_answer(&error)));
        assert_eq!(last.map_err(|fault| fault.code), Err(Code::LlmServer));
        assert_eq!(out, [text("So")]);
    }
    assert_eq!(
        read(&[json!({"error": null, "message": {"content": "fine"}})]),
        (vec![text("fine")], Ok(false))
    );
}

/// What comes of a document.
fn read_whole(body: &Value) -> (Vec<Delta>, Result<(), Fault>) {
    let (text, mut out) = (body.to_string(), Vec::new());
    let end = OllamaDecoder::default().whole(&BorrowedJson::parse(&text).unwrap(), &mut out);
    (out, end)
}

#[test]
fn t7_a_whole_answer_reads_like_its_stream() {
    let whole = json!({
        "model": "m",
        "message": {"role": "assistant", "content": "Yes", "thinking": "hm",
                    "tool_calls": [{"function": {"name": "a", "arguments": {"x": 1}}}]},
        "done": true, "done_reason": "stop", "prompt_eval_count": 5, "eval_count": 3,
    });
    let expected = vec![
        Delta::Reasoning("hm".into()),
        text("Yes"),
        Delta::CallStart { index: 0, id: None, name: "a".into() },
        Delta::CallArguments { index: 0, text: r#"{"x":1}"#.into() },
        Delta::ReasoningBlock(json!({"thinking": "hm"})),
        usage(5, 3),
        Delta::Finish(FinishReason::Stop),
    ];
    assert_eq!(read_whole(&whole), (expected, Ok(())));
}

#[test]
fn a_document_that_is_no_answer_is_a_failure() {
    for body in [json!({"message": {"content": "half"}, "done": false}), json!({}), json!([]), json!("yes")] {
        assert_eq!(read_whole(&body).1, Err(failure::unreadable(&body.to_string())));
    }
    assert_eq!(
        read_whole(&json!({"error": "boom"})),
        (vec![], Err(failure::fault_in_answer(&json!("boom"))))
    );
}

#[test]
fn a_line_that_is_no_object_is_a_failure() {
    for line in ["{\"message\":", "[1]", "7", "null"] {
        let read = OllamaDecoder::default().frame(line, &mut Vec::new());
        assert_eq!(read, Err(failure::unreadable(line)));
    }
}

/// What comes of one line, and whether it was the end: as it is read, and read as a document.
fn both_ways(line: &str) -> [(Vec<Delta>, Result<bool, Fault>); 2] {
    let (mut short, mut long) = (Vec::new(), Vec::new());
    let is_last = OllamaDecoder::default().frame(line, &mut short);
    let read = parse(line).and_then(|document| OllamaDecoder::default().line(&document, &mut long));
    [(short, is_last), (long, read)]
}

#[test]
fn lines_of_words_are_read_without_a_document_and_all_others_with_one() {
    let deep = format!(r#"{{"x":{}1{},"message":{{"content":"a"}}}}"#, "[".repeat(64), "]".repeat(64));
    let table = [
        (
            r#"{"model":"m","created_at":"2026","message":{"role":"assistant","content":"a"},"done":false}"#,
            true,
        ),
        (r#" {"message" : {"content":"\"a\"\n\ud83d\ude00 é", "thinking":"\u0041"}, "done":false} "#, true),
        (r#"{"message":{"thinking":"","reasoning_content":"b","content":""}}"#, true),
        (r#"{"message":{"thinking":"a","reasoning_content":"b","content":7}}"#, true),
        (r#"{"message":{"content":"a","content":null},"n":[],"n":-1.5e3,"b":true}"#, false),
        (r#"{"message":{"content":"a"},"message":{"thinking":"b"},"done":true,"done":false}"#, false),
        (r#"{"message":{"content":"a"},"message":{"thinking":"b"},"done":false}"#, true),
        (r#"{"message":{"content":"a"},"m\u0065ssage":{"content":"b"}}"#, true),
        (r#"{"content":"a","thinking":"b"}"#, true),
        ("{}", true),
        (r#"{"message":null,"done":null}"#, false),
        (r#"{"message":"a","done":"false"}"#, false),
        (r#"{"message":{"content":["a"]}}"#, false),
        (r#"{"message":{"content":"a","tool_calls":null}}"#, false),
        (r#"{"message":{"content":"a","tool_calls":[{"function":{"name":"t"}}]},"done":false}"#, false),
        (r#"{"message":{"content":"a"},"done":true,"eval_count":3}"#, false),
        (r#"{"message":{"content":"a"},"error":null}"#, false),
        (r#"{"message":{"content":"a"},"error":"boom"}"#, false),
        (r#"{"message":{"content":"a"},"x":{"error":"boom"}}"#, false),
        (r#"{"message":{"content":"a"},"x":1e999}"#, false),
        (r#"{"message":{"content":"a"},"x":"\ud83d"}"#, false),
        (r#"{"message":{"content":"a"},"$serde_json::private::Number":"1"}"#, false),
        (r#"{"message":{"content":"a","$serde_json::private::RawValue":"1"}}"#, false),
        (r#"{"message":{"content":"a"}} {}"#, false),
        (r#"{"message":{"content":"a"}"#, false),
        (r#"["message",{"content":"a"}]"#, false),
        (deep.as_str(), false),
    ];
    for (line, is_short) in table {
        let [short, long] = both_ways(line);
        assert_eq!((short, text_line::parse(line).is_some()), (long, is_short), "{line}");
    }
}
