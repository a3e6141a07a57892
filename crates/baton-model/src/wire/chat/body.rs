//! The request body of Chat Completions.

use baton_core::chat::{ChatCall, ChatMessage, Role};
use serde_json::{Value, json};

use super::REASONING;
use crate::wire::body::RequestBody;
use crate::wire::{Wire, WireRequest, openai, system};

pub(in crate::wire) fn body<'a>(call: &WireRequest<'a>) -> RequestBody<'a> {
    let request = call.request;
    let (system, rest) = system::split(&request.messages);
    let system = system.map(|text| json!({"role": "system", "content": text}));
    let rest = rest.iter().filter_map(|message| encode_message(call, message));
    let messages: Vec<Value> = system.into_iter().chain(rest).collect();
    let mut body = json!({
        "model": call.model,
        "messages": messages,
        "stream": true,
        "stream_options": {"include_usage": true},
    });
    // OpenAI's newer models take only the new name; most other servers know only the old one.
    let limit = if call.is_openai { "max_completion_tokens" } else { "max_tokens" };
    body[limit] = request.max_tokens.into();
    if let Some(output) = &request.schema {
        body["response_format"] = json!({
            "type": "json_schema",
            "json_schema": {"name": output.name, "schema": output.schema, "strict": true},
        });
    }
    let tool = |function| json!({"type": "function", "function": function});
    openai::common_body(call, Wire::ChatCompletions, body, tool)
}

/// A message; none for an empty one, which some servers refuse.
fn encode_message(call: &WireRequest<'_>, message: &ChatMessage) -> Option<Value> {
    let content = &message.content;
    Some(match message.role {
        Role::System => json!({"role": "user", "content": system::inline(content)?}),
        Role::User => json!({"role": "user", "content": content}),
        Role::Tool => {
            let id = call.names.call_id(message.tool_call_id.as_deref().unwrap_or_default());
            json!({"role": "tool", "tool_call_id": id, "content": content})
        }
        Role::Assistant if content.is_empty() && message.tool_calls.is_empty() => return None,
        Role::Assistant => {
            let content = if content.is_empty() { Value::Null } else { content.as_str().into() };
            let mut encoded = json!({"role": "assistant", "content": content});
            if !message.tool_calls.is_empty() {
                encoded["tool_calls"] = message.tool_calls.iter().map(|made| tool_call(call, made)).collect();
            }
            let blocks = call.own_reasoning(message, Wire::ChatCompletions);
            let reasoning: String = blocks.iter().filter_map(|block| block[REASONING].as_str()).collect();
            if !reasoning.is_empty() {
                encoded[REASONING] = reasoning.into();
            }
            encoded
        }
    })
}

fn tool_call(call: &WireRequest<'_>, made: &ChatCall) -> Value {
    json!({
        "id": call.names.call_id(&made.id),
        "type": "function",
        "function": {"name": call.names.to_provider(&made.name), "arguments": made.arguments.to_string()},
    })
}
