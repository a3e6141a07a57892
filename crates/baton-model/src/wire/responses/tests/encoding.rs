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
    let body = Wire::Responses.encode(&WireRequest { model, name, request, names: &names, is_openai });
    serde_json::from_slice(&body).unwrap()
}

fn said(role: Role, text: &str) -> ChatMessage {
    ChatMessage::text(role, text)
}

#[test]
fn t16_a_request_with_nothing_but_a_question_has_nothing_else() {
    let request = ModelRequest::new("main", vec![said(Role::User, "hi")]);
    let expected = json!({
        "model": "tiny",
        "input": [{"role": "user", "content": "hi"}],
        "stream": true,
        "store": false,
        "max_output_tokens": 4096,
    });
    assert_eq!(encode("llama/tiny", &request), expected);
}

#[test]
fn a_whole_conversation_with_calls_and_reasoning() {
    let sealed = json!({"id": "rs_1", "type": "reasoning", "encrypted_content": "gA==", "summary": [], "status": null});
    let own = Reasoning {
        model: "openai/gpt-5-mini".into(),
        wire: "responses".into(),
        blocks: vec![sealed.clone()],
    };
    let call =
        |id: &str, name: &str, arguments: Value| ChatCall { id: id.into(), name: name.into(), arguments };
    let calls = vec![call("c1", "exec.calculator", json!({"b": 1, "a": "é"})), call("c2", "now", json!({}))];
    let result =
        |id: &str, text: &str| ChatMessage { tool_call_id: Some(id.into()), ..said(Role::Tool, text) };
    let messages = vec![
        said(Role::System, "be brief"),
        said(Role::System, ""),
        said(Role::System, "be kind"),
        said(Role::User, "1+1?"),
        ChatMessage {
            tool_calls: calls,
            reasoning: Some(own.clone()),
            ..said(Role::Assistant, "Let me see.")
        },
        result("c1", "2"),
        result("c2", "noon"),
        said(Role::Assistant, "two"),
        said(Role::System, "a summary"),
        ChatMessage { reasoning: Some(own), ..said(Role::Assistant, "") },
        said(Role::User, "sure?"),
    ];
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: "does it".into(),
        input_schema: json!({"type": "object"}),
        output_schema: None,
        class: EffectClass::SideEffectFree,
        timeout_ms: 1,
        ..ToolSpec::default()
    };
    let request = ModelRequest {
        tools: vec![tool("exec.calculator")].into(),
        tool_choice: ToolChoice::Required,
        schema: Some(OutputSchema { name: "verdict".into(), schema: json!({"type": "object"}) }),
        temperature: Some(0.0),
        max_tokens: 100,
        ..ModelRequest::new("main", messages)
    };
    let expected = json!({
        "model": "gpt-5-mini",
        "instructions": "be brief\n\nbe kind",
        "input": [
            {"role": "user", "content": "1+1?"},
            sealed,
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see."}]},
            {"type": "function_call", "call_id": "c1", "name": "exec__calculator", "arguments": "{\"a\":\"é\",\"b\":1}"},
            {"type": "function_call", "call_id": "c2", "name": "now", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "2"},
            {"type": "function_call_output", "call_id": "c2", "output": "noon"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "two"}]},
            {"role": "user", "content": "<system_message>\na summary\n</system_message>"},
            {"role": "user", "content": "sure?"},
        ],
        "stream": true,
        "store": false,
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 100,
        "temperature": 0.0,
        "tools": [{"type": "function", "name": "exec__calculator", "description": "does it",
            "parameters": {"type": "object", "properties": {}}, "strict": false}],
        "tool_choice": "required",
        "text": {"format":
            {"type": "json_schema", "name": "verdict", "schema": {"type": "object"}, "strict": true}},
    });
    assert_eq!(encode_for("openai/gpt-5-mini", true, &request), expected);
}

#[test]
fn encrypted_reasoning_is_requested_only_from_reasoning_models() {
    let asks = |name: &str, is_openai| {
        let request = ModelRequest::new("main", vec![]);
        encode_for(name, is_openai, &request).get("include").is_some()
    };
    for model in ["o3", "o4-mini", "gpt-5", "gpt-5.1-mini", "gpt-10", "codex-mini"] {
        assert!(asks(&format!("work/{model}"), true), "{model}");
        assert!(!asks(&format!("openai/{model}"), false), "{model} elsewhere");
    }
    for model in ["gpt-4o", "gpt-4.1", "gpt-5-chat-latest", "omni"] {
        assert!(!asks(&format!("openai/{model}"), true), "{model}");
    }
}

#[test]
fn t17_reasoning_goes_back_unchanged_to_its_model_and_to_no_other() {
    let plain = json!({"id": "rs", "type": "reasoning", "summary": [], "encrypted_content": "",
        "content": [{"type": "reasoning_text", "text": "hm"}]});
    let empty =
        json!({"id": "rs", "type": "reasoning", "summary": [], "encrypted_content": "", "content": []});
    let bare = json!({"id": "rs", "type": "reasoning", "summary": []});
    let input = |model: &str, wire: &str| {
        let blocks = vec![empty.clone(), plain.clone(), bare.clone()];
        let own = Reasoning { model: model.into(), wire: wire.into(), blocks };
        let message = ChatMessage { reasoning: Some(own), ..said(Role::Assistant, "x") };
        encode("local/qwen", &ModelRequest::new("main", vec![message]))["input"].clone()
    };
    let text =
        json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]});
    assert_eq!(input("local/qwen", "responses"), json!([plain, text]));
    assert_eq!(input("local/other", "responses"), json!([text]));
    assert_eq!(input("local/qwen", "chat_completions"), json!([text]));
}
