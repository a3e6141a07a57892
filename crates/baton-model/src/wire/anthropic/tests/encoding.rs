use std::sync::Arc;

use baton_core::chat::{ChatCall, ChatMessage, Reasoning, Role};
use baton_core::tool::{EffectClass, ToolSpec};
use serde_json::{Value, json};

use crate::port::{ModelRequest, OutputSchema, ToolChoice};
use crate::wire::anthropic::body;
use crate::wire::{WireNames, WireRequest};

fn encode(request: &ModelRequest) -> Value {
    let names = WireNames::new(&request.tools, &request.messages);
    let (model, name) = ("claude-x", "anthropic/claude-x");
    serde_json::to_value(body(&WireRequest { model, name, request, names: &names, is_openai: false }))
        .unwrap()
}

fn request(messages: &[ChatMessage]) -> ModelRequest {
    ModelRequest::new("reasoning", messages.to_vec())
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

fn thinking() -> Vec<Value> {
    vec![
        json!({"type": "thinking", "thinking": "I will add.", "signature": "c2ln", "later": {"b": 1, "a": [null]}}),
        json!({"type": "redacted_thinking", "data": "eA=="}),
    ]
}

fn thought(wire: &str, model: &str) -> Option<Reasoning> {
    Some(Reasoning { model: model.into(), wire: wire.into(), blocks: thinking() })
}

fn asked(text: &str, calls: &[(&str, &str, Value)]) -> ChatMessage {
    let call = |(id, name, arguments): &(&str, &str, Value)| ChatCall {
        id: (*id).into(),
        name: (*name).into(),
        arguments: arguments.clone(),
    };
    ChatMessage { tool_calls: calls.iter().map(call).collect(), ..ChatMessage::text(Role::Assistant, text) }
}

fn result(id: &str, text: &str) -> ChatMessage {
    ChatMessage { tool_call_id: Some(id.into()), ..ChatMessage::text(Role::Tool, text) }
}

fn said(role: Role, text: &str) -> ChatMessage {
    ChatMessage::text(role, text)
}

#[test]
fn a_request_with_nothing_but_a_question() {
    let expected = json!({
        "model": "claude-x",
        "max_tokens": 4096,
        "stream": true,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    });
    assert_eq!(encode(&request(&[said(Role::User, "hi")])), expected);
}

#[test]
fn a_request_with_everything() {
    let mut request = request(&[
        said(Role::System, "be kind"),
        said(Role::System, " "),
        said(Role::System, "earlier: a summary"),
        said(Role::User, "2+2?"),
        said(Role::User, "and 3+3?"),
        ChatMessage {
            reasoning: thought("anthropic", "anthropic/claude-x"),
            ..asked(
                "Adding. \n",
                &[("7-1", "exec.calculator", json!({"sum": "2+2"})), ("call:1", "made up", json!([1]))],
            )
        },
        result("7-1", "4"),
        result("call:1", ""),
        said(Role::User, "well?"),
        said(Role::System, "a later summary"),
        said(Role::Assistant, " \n"),
        said(Role::User, " "),
        said(Role::Assistant, "4"),
        asked("", &[("7-2", "t", Value::Null)]),
        result("7-2", "Error: no"),
    ]);
    request.tools = Arc::new([calculator()]);
    request.tool_choice = ToolChoice::Required;
    request.schema = Some(OutputSchema { name: "sum".into(), schema: json!({"type": "object"}) });
    request.temperature = Some(0.5);
    request.max_tokens = 100;
    request.context_window = Some(32_768);
    let made_up = format!("made_up_{}", &baton_core::json::sha256_hex(b"made up")[..8]);
    let foreign = format!("call_1_{}", &baton_core::json::sha256_hex(b"call:1")[..8]);
    let thinking = thinking();
    let expected = json!({
        "model": "claude-x",
        "max_tokens": 100,
        "stream": true,
        "temperature": 0.5,
        "system": [{"type": "text", "cache_control": {"type": "ephemeral"}, "text": "be kind\n\nearlier: a summary\n\n\
            Answer with one JSON document and nothing else: no words around it and no code fence. \
            It has to be valid against this JSON Schema:\n{\"type\":\"object\"}"}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "2+2?"}, {"type": "text", "text": "and 3+3?"}]},
            {"role": "assistant", "content": [
                thinking[0],
                thinking[1],
                {"type": "text", "text": "Adding."},
                {"type": "tool_use", "id": "7-1", "name": "exec__calculator", "input": {"sum": "2+2"}},
                {"type": "tool_use", "id": foreign, "name": made_up, "input": {"arguments": [1]}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "7-1", "content": "4"},
                {"type": "tool_result", "tool_use_id": foreign},
                {"type": "text", "text": "well?"},
                {"type": "text", "text": "<system_message>\na later summary\n</system_message>"}]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "4"},
                {"type": "tool_use", "id": "7-2", "name": "t", "input": {}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "7-2", "content": "Error: no"}]},
        ],
        "tools": [{
            "name": "exec__calculator",
            "description": "Calculates.",
            "input_schema": {"type": "object", "properties": {"sum": {"type": "string"}}},
        }],
        "tool_choice": {"type": "any"},
    });
    assert_eq!(encode(&request), expected);
}

#[test]
fn the_constant_part_is_marked_for_cache_at_its_last_block() {
    let mut request = request(&[said(Role::System, "be kind"), said(Role::User, "hi")]);
    let cached = |request: &ModelRequest| {
        let body = encode(request);
        let marks = |part: &str| -> Vec<Value> {
            let blocks = body[part].as_array().into_iter().flatten();
            blocks.map(|block| block["cache_control"]["type"].clone()).collect()
        };
        (marks("system"), marks("tools"))
    };
    let (here, not) = (json!("ephemeral"), Value::Null);
    assert_eq!(cached(&request), (vec![here.clone()], vec![]));
    request.tools = Arc::new([calculator(), calculator()]);
    assert_eq!(cached(&request), (vec![here.clone()], vec![not.clone(), not.clone()]));
    request.messages.remove(0);
    assert_eq!(cached(&request), (vec![], vec![not, here]));
    request.tools = Arc::new([]);
    assert_eq!(cached(&request), (vec![], vec![]));
}

#[test]
fn t16_absent_settings_are_not_sent() {
    let mut request = request(&[said(Role::User, "hi")]);
    request.tool_choice = ToolChoice::Required;
    let body = encode(&request);
    let fields: Vec<&String> = body.as_object().unwrap().keys().collect();
    assert_eq!(fields, ["max_tokens", "messages", "model", "stream"]);
}

#[test]
fn t17_signed_thinking_goes_back_unchanged_to_its_model_and_to_no_other() {
    let blocks = |wire: &str, model: &str, text: &str| {
        let answer = ChatMessage { reasoning: thought(wire, model), ..said(Role::Assistant, text) };
        encode(&request(&[said(Role::User, "hi"), answer, said(Role::User, "so?")]))["messages"].clone()
    };
    let user = |text: &str| json!({"role": "user", "content": [{"type": "text", "text": text}]});
    let assistant = |content: Vec<Value>| json!({"role": "assistant", "content": content});
    let (yes, [first, second]) =
        (json!({"type": "text", "text": "yes"}), <[Value; 2]>::try_from(thinking()).unwrap());
    let own = json!([user("hi"), assistant(vec![first, second, yes.clone()]), user("so?")]);
    assert_eq!(blocks("anthropic", "anthropic/claude-x", "yes"), own);
    let bare = json!([user("hi"), assistant(vec![yes]), user("so?")]);
    assert_eq!(blocks("anthropic", "anthropic/claude-y", "yes"), bare);
    assert_eq!(blocks("responses", "anthropic/claude-x", "yes"), bare);
    // Thinking that led to nothing is no message.
    let together = json!([{"role": "user", "content": [
        {"type": "text", "text": "hi"}, {"type": "text", "text": "so?"}]}]);
    assert_eq!(blocks("anthropic", "anthropic/claude-x", " "), together);
}

#[test]
fn the_first_message_is_always_the_users() {
    let opening =
        json!({"role": "user", "content": [{"type": "text", "text": "(The conversation begins here.)"}]});
    let answer = json!({"role": "assistant", "content": [{"type": "text", "text": "Hello."}]});
    let of = |messages: &[ChatMessage]| encode(&request(messages))["messages"].clone();
    assert_eq!(of(&[said(Role::System, "s"), said(Role::Assistant, "Hello.")]), json!([opening, answer]));
    assert_eq!(of(&[said(Role::System, "s")]), json!([opening]));
    assert_eq!(of(&[said(Role::User, " ")]), json!([opening]));
}

#[test]
fn a_history_with_calls_has_tools_that_may_not_be_called() {
    let body = encode(&request(&[
        said(Role::User, "hi"),
        asked("", &[("1", "a.b", json!({})), ("2", "c", json!({})), ("3", "a.b", json!({}))]),
        result("1", "x"),
        result("2", "y"),
        result("3", "z"),
    ]));
    let tools = json!([
        {"name": "a__b", "input_schema": {"type": "object"}},
        {"name": "c", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}]);
    assert_eq!((&body["tools"], &body["tool_choice"]), (&tools, &json!({"type": "none"})));
}

#[test]
fn a_request_is_a_prefix_of_the_next_one() {
    let talk = [
        said(Role::System, "be kind"),
        said(Role::User, "2+2?"),
        asked("Adding. ", &[("7-1", "a.b", json!({}))]),
        result("7-1", "4"),
        said(Role::System, "a summary"),
        said(Role::Assistant, "4 "),
        said(Role::User, "thanks"),
    ];
    let body = |length: usize| encode(&request(&talk[..length]));
    for length in 2..talk.len() {
        let (before, after) = (body(length), body(length + 1));
        assert_eq!(before["system"], after["system"]);
        let blocks = |body: &Value| -> Vec<(String, Value)> {
            let role = |turn: &Value| turn["role"].to_string();
            let turn = |turn: &Value| {
                turn["content"].as_array().unwrap().iter().map(|b| (role(turn), b.clone())).collect()
            };
            body["messages"].as_array().unwrap().iter().flat_map(|t| -> Vec<_> { turn(t) }).collect()
        };
        assert!(blocks(&after).starts_with(&blocks(&before)), "{length}");
    }
}
