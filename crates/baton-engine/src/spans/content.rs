//! The content of messages, in the form of the conventions. Only for operators who asked for it.
//!
//! A text is cut, and of a long conversation only the end is recorded: a span is no archive.

use baton_core::chat::{ChatMessage, Role};
use baton_core::effect::Reply;
use baton_core::json::cut;
use serde_json::{Value, json};

/// The most bytes of one text.
const MOST_TEXT: usize = 8 << 10;
/// The most bytes of a conversation.
const MOST: usize = 64 << 10;

/// The instructions, and the other messages.
pub(super) fn asked(messages: &[ChatMessage]) -> (Option<String>, String) {
    let (system, said): (Vec<_>, Vec<_>) = messages.iter().partition(|message| message.role == Role::System);
    let system: Vec<Value> = system.iter().map(|message| text(&message.content)).collect();
    let (mut left, mut told) = (MOST, Vec::new());
    for message in said.iter().rev() {
        let message = one(message);
        let length = message.to_string().len();
        if length > left {
            break;
        }
        left -= length;
        told.push(message);
    }
    told.reverse();
    ((!system.is_empty()).then(|| Value::from(system).to_string()), Value::from(told).to_string())
}

/// The answer of a model.
pub(super) fn answered(reply: &Reply) -> String {
    let calls = reply.calls.iter().map(|call| {
        let arguments = value(&call.arguments);
        json!({"type": "tool_call", "id": call.provider_id, "name": call.name, "arguments": arguments})
    });
    let said = (!reply.text.is_empty()).then(|| text(&reply.text));
    let parts: Vec<Value> = said.into_iter().chain(calls).collect();
    let finish = super::names::finish(reply.finish);
    json!([{"role": "assistant", "parts": parts, "finish_reason": finish}]).to_string()
}

/// A value as text.
pub(super) fn value(value: &Value) -> String {
    match value {
        Value::String(text) => cut(text, MOST_TEXT).to_owned(),
        other => cut(&other.to_string(), MOST_TEXT).to_owned(),
    }
}

fn one(message: &ChatMessage) -> Value {
    let content = cut(&message.content, MOST_TEXT);
    let parts: Vec<Value> = match &message.tool_call_id {
        Some(id) => vec![json!({"type": "tool_call_response", "id": id, "response": content})],
        None => {
            let said = (!content.is_empty()).then(|| text(content));
            let calls = message.tool_calls.iter().map(|call| {
                let arguments = value(&call.arguments);
                json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments})
            });
            said.into_iter().chain(calls).collect()
        }
    };
    json!({"role": message.role, "parts": parts})
}

fn text(content: &str) -> Value {
    json!({"type": "text", "content": cut(content, MOST_TEXT)})
}
