use std::sync::Arc;

use baton_core::chat::{ChatCall, ChatMessage, Role};
use baton_core::tool::ToolSpec;
use serde_json::{Value, json};

use crate::port::{ModelRequest, OutputSchema, ToolChoice};
use crate::wire::{OfferedTools, Wire, WireNames, WireRequest};

/// A request with everything that a body can have.
fn request(system: &str) -> ModelRequest {
    let tool = |name: &str, schema: Value| ToolSpec {
        name: name.to_owned(),
        description: "Says \"é\".\n".to_owned(),
        input_schema: schema,
        ..ToolSpec::default()
    };
    let tools = [
        tool("a.b", json!({"type": "object"})),
        tool(
            "a__b",
            json!({"z": 1.5e300, "type": "object", "properties": {"x": {"enum": [null, -1, "\u{1}"]}}}),
        ),
    ];
    let made =
        |id: &str, name: &str, arguments| ChatCall { id: id.to_owned(), name: name.to_owned(), arguments };
    let tool_calls = vec![made("1:1", "a.b", json!({"b": 1, "a": 2})), made("2", "old.one", json!([1]))];
    let answer =
        |id: &str| ChatMessage { tool_call_id: Some(id.to_owned()), ..ChatMessage::text(Role::Tool, "ok") };
    let messages = vec![
        ChatMessage::text(Role::System, system),
        ChatMessage::text(Role::User, "hi"),
        ChatMessage { tool_calls, ..ChatMessage::text(Role::Assistant, "") },
        answer("1:1"),
        answer("2"),
        ChatMessage::text(Role::System, "a summary"),
    ];
    ModelRequest {
        tools: Arc::from(tools),
        tool_choice: ToolChoice::Required,
        schema: Some(OutputSchema { name: "shape".to_owned(), schema: json!({"type": "object"}) }),
        temperature: Some(0.1),
        context_window: Some(8192),
        ..ModelRequest::new("main", messages)
    }
}

fn encode(wire: Wire, request: &ModelRequest, names: &WireNames) -> String {
    let call = WireRequest { model: "m", name: "p/m", request, names, is_openai: false };
    String::from_utf8(wire.encode(&call)).unwrap()
}

/// A document as a `Value` writes it, but for the first fields of Ollama's body, which have their own order.
fn sorted(text: &str) -> String {
    serde_json::from_str::<Value>(text).unwrap().to_string()
}

#[test]
fn cached_tools_are_encoded_as_uncached_ones() {
    for system in ["Be brief.", ""] {
        let request = request(system);
        let offered = Arc::new(OfferedTools::new(&request.tools));
        for wire in Wire::ALL {
            let fresh = encode(wire, &request, &WireNames::new(&request.tools, &request.messages));
            // Once to be kept, and once from there.
            for _ in 0..2 {
                let names = WireNames::with_tools(offered.clone(), &request.messages);
                assert_eq!(encode(wire, &request, &names), fresh, "{wire:?}");
            }
            if wire != Wire::Ollama {
                assert_eq!(sorted(&fresh), fresh, "{wire:?}");
            }
        }
    }
}

#[test]
fn ollamas_body_is_written_to_the_letter() {
    let request = request("Be brief.");
    let body = encode(Wire::Ollama, &request, &WireNames::new(&request.tools, &request.messages));
    let expected = concat!(
        r#"{"model":"m","stream":true,"messages":[{"content":"Be brief.","role":"system"},"#,
        r#"{"content":"hi","role":"user"},{"content":"","role":"assistant","tool_calls":["#,
        r#"{"function":{"arguments":{"a":2,"b":1},"index":0,"name":"a__b_2e7336dc"},"id":"1_1_d6b5915c","type":"function"},"#,
        r#"{"function":{"arguments":{"arguments":[1]},"index":1,"name":"old__one"},"id":"2","type":"function"}]},"#,
        r#"{"content":"ok","role":"tool","tool_call_id":"1_1_d6b5915c","tool_name":"a__b_2e7336dc"},"#,
        r#"{"content":"ok","role":"tool","tool_call_id":"2","tool_name":"old__one"},"#,
        r#"{"content":"<system_message>\na summary\n</system_message>","role":"user"}],"#,
        r#""options":{"num_ctx":8192,"num_predict":4096,"temperature":0.1},"#,
        r#""tools":[{"type":"function","function":{"name":"a__b_2e7336dc","description":"Says \"é\".\n","#,
        r#""parameters":{"type":"object"}}},{"type":"function","function":{"name":"a__b","description":"Says \"é\".\n","#,
        r#""parameters":{"properties":{"x":{"enum":[null,-1,"\u0001"]}},"type":"object","z":1.5e+300}}}],"#,
        r#""format":{"type":"object"}}"#,
    );
    assert_eq!(body, expected);
}

#[test]
fn cached_text_of_other_tools_is_not_sent() {
    let (one, other) = (request(""), ModelRequest { tools: Arc::default(), ..request("") });
    let equal = request("");
    let offered = Arc::new(OfferedTools::new(&one.tools));
    let names = WireNames::with_tools(offered, &one.messages);
    for wire in Wire::ALL {
        let kept = encode(wire, &one, &names);
        assert_eq!(encode(wire, &equal, &names), kept, "{wire:?}: the same in another place");
        let none = encode(wire, &other, &names);
        assert!(!none.contains("Says"), "{wire:?}: {none}");
    }
}
