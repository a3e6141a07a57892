use baton_core::chat::{ChatCall, ChatMessage, Reasoning, Role};
use baton_core::tool::{EffectClass, ToolSpec};
use serde_json::{Value, json};

use crate::port::{ModelRequest, OutputSchema, ToolChoice};
use crate::wire::{Wire, WireNames, WireRequest};

fn encode(name: &str, request: &ModelRequest) -> Value {
    encode_for(name, false, request)
}

fn encode_for(name: &str, is_openai: bool, request: &ModelRequest) -> Value {
    let names = WireNames::new(&request.tools, &request.messages);
    let (_, model) = name.split_once('/').unwrap();
    let body = Wire::ChatCompletions.encode(&WireRequest { model, name, request, names: &names, is_openai });
    serde_json::from_slice(&body).unwrap()
}

fn said(role: Role, text: &str) -> ChatMessage {
    ChatMessage::text(role, text)
}

fn tool(name: &str, schema: Value) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: format!("does {name}"),
        input_schema: schema,
        output_schema: None,
        class: EffectClass::SideEffectFree,
        timeout_ms: 1,
        ..ToolSpec::default()
    }
}

fn asked(id: &str, name: &str, arguments: Value) -> ChatCall {
    ChatCall { id: id.into(), name: name.into(), arguments }
}

#[test]
fn t16_a_request_with_nothing_but_a_question_has_nothing_else() {
    let request = ModelRequest::new("main", vec![said(Role::User, "hi")]);
    let expected = json!({
        "model": "tiny",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": true,
        "stream_options": {"include_usage": true},
        "max_tokens": 4096,
    });
    assert_eq!(encode("llama/tiny", &request), expected);
}

#[test]
fn openai_itself_takes_the_new_name_of_the_limit_and_others_the_old_one() {
    let request = ModelRequest { max_tokens: 7, ..ModelRequest::new("main", vec![]) };
    let limits = |name: &str, is_openai: bool| {
        let body = encode_for(name, is_openai, &request);
        (body.get("max_completion_tokens").cloned(), body.get("max_tokens").cloned())
    };
    assert_eq!(limits("work/gpt-5-mini", true), (Some(json!(7)), None));
    assert_eq!(limits("openai/gpt-5-mini", false), (None, Some(json!(7))));
}

#[test]
fn a_whole_conversation_with_calls() {
    let own = Reasoning {
        model: "local/qwen".into(),
        wire: "chat_completions".into(),
        blocks: vec![json!({"reasoning_content": "let me "}), json!({"reasoning_content": "see"})],
    };
    let calls =
        vec![asked("c1", "exec.calculator", json!({"b": 1, "a": "é\n"})), asked("c2", "now", json!({}))];
    let result =
        |id: &str, text: &str| ChatMessage { tool_call_id: Some(id.into()), ..said(Role::Tool, text) };
    let messages = vec![
        said(Role::System, "be brief"),
        said(Role::System, " "),
        said(Role::System, "earlier: a summary"),
        said(Role::User, "1+1?"),
        ChatMessage { tool_calls: calls, reasoning: Some(own), ..said(Role::Assistant, "") },
        result("c1", "2"),
        result("c2", ""),
        said(Role::Assistant, "two"),
        said(Role::System, "a later summary"),
        said(Role::System, "\n"),
        said(Role::Assistant, ""),
        said(Role::User, "sure?"),
    ];
    let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
    let request = ModelRequest {
        tools: vec![tool("exec.calculator", schema.clone()), tool("now", json!({"type": "object"}))].into(),
        tool_choice: ToolChoice::Required,
        schema: Some(OutputSchema { name: "verdict".into(), schema: json!({"type": "object"}) }),
        temperature: Some(0.5),
        max_tokens: 100,
        ..ModelRequest::new("main", messages)
    };
    let expected = json!({
        "model": "qwen",
        "messages": [
            {"role": "system", "content": "be brief\n\nearlier: a summary"},
            {"role": "user", "content": "1+1?"},
            {"role": "assistant", "content": null, "reasoning_content": "let me see", "tool_calls": [
                {"id": "c1", "type": "function",
                 "function": {"name": "exec__calculator", "arguments": "{\"a\":\"é\\n\",\"b\":1}"}},
                {"id": "c2", "type": "function", "function": {"name": "now", "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "2"},
            {"role": "tool", "tool_call_id": "c2", "content": ""},
            {"role": "assistant", "content": "two"},
            {"role": "user", "content": "<system_message>\na later summary\n</system_message>"},
            {"role": "user", "content": "sure?"},
        ],
        "stream": true,
        "stream_options": {"include_usage": true},
        "max_tokens": 100,
        "temperature": 0.5,
        "tools": [
            {"type": "function", "function":
                {"name": "exec__calculator", "description": "does exec.calculator", "parameters": schema}},
            {"type": "function", "function":
                {"name": "now", "description": "does now", "parameters": {"type": "object", "properties": {}}}},
        ],
        "tool_choice": "required",
        "response_format": {"type": "json_schema", "json_schema":
            {"name": "verdict", "schema": {"type": "object"}, "strict": true}},
    });
    assert_eq!(encode("local/qwen", &request), expected);
}

#[test]
fn reasoning_goes_back_to_the_model_that_it_came_from_and_to_no_other() {
    let blocks = vec![json!({"reasoning_content": "secret"})];
    let thought = |model: &str, wire: &str, blocks: &[Value]| {
        let own = Reasoning { model: model.into(), wire: wire.into(), blocks: blocks.to_vec() };
        let message = ChatMessage { reasoning: Some(own), ..said(Role::Assistant, "x") };
        encode("local/qwen", &ModelRequest::new("main", vec![message]))["messages"][0].clone()
    };
    let without = json!({"role": "assistant", "content": "x"});
    let with = json!({"role": "assistant", "content": "x", "reasoning_content": "secret"});
    assert_eq!(thought("local/qwen", "chat_completions", &blocks), with);
    assert_eq!(thought("local/other", "chat_completions", &blocks), without);
    assert_eq!(thought("local/qwen", "responses", &blocks), without);
    assert_eq!(thought("local/qwen", "chat_completions", &[json!({"other": 1})]), without);
    // What came under another name is not known to go back under any.
    assert_eq!(thought("local/qwen", "chat_completions", &[json!({"reasoning": "secret"})]), without);
}

#[test]
fn a_required_choice_without_tools_is_not_sent() {
    let request = ModelRequest { tool_choice: ToolChoice::Required, ..ModelRequest::new("main", vec![]) };
    let body = encode("local/x", &request);
    assert_eq!((body.get("tools"), body.get("tool_choice")), (None, None));
}
