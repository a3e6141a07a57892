//! The body of a request.

use baton_core::chat::{ChatCall, ChatMessage, Role};
use serde_json::{Value, json};

use super::REASONING;
use crate::wire::body::RequestBody;
use crate::wire::{Wire, WireRequest, openai, system};

pub(in crate::wire) fn body<'a>(call: &WireRequest<'a>) -> RequestBody<'a> {
    let request = call.request;
    let (leading, said) = system::split(&request.messages);
    let leading = leading.map(|text| json!({"role": "system", "content": text}));
    let said = said.iter().filter_map(|said| message(call, said));
    let messages: Vec<Value> = leading.into_iter().chain(said).collect();
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

/// A message; none for one that says nothing, which some servers refuse.
fn message(call: &WireRequest<'_>, said: &ChatMessage) -> Option<Value> {
    let content = &said.content;
    Some(match said.role {
        Role::System => json!({"role": "user", "content": system::inline(content)?}),
        Role::User => json!({"role": "user", "content": content}),
        Role::Tool => {
            let id = call.names.call_id(said.tool_call_id.as_deref().unwrap_or_default());
            json!({"role": "tool", "tool_call_id": id, "content": content})
        }
        Role::Assistant if content.is_empty() && said.tool_calls.is_empty() => return None,
        Role::Assistant => {
            let content = if content.is_empty() { Value::Null } else { content.as_str().into() };
            let mut message = json!({"role": "assistant", "content": content});
            if !said.tool_calls.is_empty() {
                message["tool_calls"] = said.tool_calls.iter().map(|asked| tool_call(call, asked)).collect();
            }
            let blocks = call.own_reasoning(said, Wire::ChatCompletions);
            let thought: String = blocks.iter().filter_map(|block| block[REASONING].as_str()).collect();
            if !thought.is_empty() {
                message[REASONING] = thought.into();
            }
            message
        }
    })
}

fn tool_call(call: &WireRequest<'_>, asked: &ChatCall) -> Value {
    json!({
        "id": call.names.call_id(&asked.id),
        "type": "function",
        "function": {"name": call.names.to_provider(&asked.name), "arguments": asked.arguments.to_string()},
    })
}
