//! The request body of Responses.

use baton_core::chat::{ChatMessage, Role};
use serde_json::{Value, json};

use crate::wire::body::RequestBody;
use crate::wire::{Wire, WireRequest, openai, system};

pub(in crate::wire) fn body<'a>(call: &WireRequest<'a>) -> RequestBody<'a> {
    let request = call.request;
    let (instructions, messages) = system::split(&request.messages);
    let mut input = Vec::new();
    for said in messages {
        items(call, said, &mut input);
    }
    let mut body = json!({
        "model": call.model,
        "input": input,
        "stream": true,
        "store": false,
        "max_output_tokens": request.max_tokens,
    });
    if let Some(instructions) = instructions {
        body["instructions"] = instructions.into();
    }
    // Without it, reasoning could not be sent back to a server that has stored nothing.
    if call.is_openai && has_reasoning(call.model) {
        body["include"] = json!(["reasoning.encrypted_content"]);
    }
    if let Some(output) = &request.schema {
        let (name, schema) = (&output.name, &output.schema);
        body["text"] =
            json!({"format": {"type": "json_schema", "name": name, "schema": schema, "strict": true}});
    }
    openai::common_body(call, Wire::Responses, body, |mut function| {
        function["type"] = "function".into();
        // Strict schemas may leave nothing optional, and tools' schemas are their authors'.
        function["strict"] = false.into();
        function
    })
}

/// Whether one of OpenAI's models reasons, by its name: `o3`, `gpt-5-mini` and `codex-mini` do, `gpt-4o` and
/// `gpt-5-chat` do not, and refuse a request for encrypted reasoning.
fn has_reasoning(model: &str) -> bool {
    let number = |prefix: &str| {
        let rest = model.strip_prefix(prefix)?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse::<u32>().ok()
    };
    let is_new = number("gpt-").is_some_and(|version| version >= 5) && !model.contains("-chat");
    is_new || number("o").is_some() || model.contains("codex")
}

fn items(call: &WireRequest<'_>, said: &ChatMessage, input: &mut Vec<Value>) {
    let content = &said.content;
    match said.role {
        Role::System => {
            input.extend(system::inline(content).map(|text| json!({"role": "user", "content": text})));
        }
        Role::User => input.push(json!({"role": "user", "content": content})),
        Role::Tool => {
            let id = call.names.call_id(said.tool_call_id.as_deref().unwrap_or_default());
            input.push(json!({"type": "function_call_output", "call_id": id, "output": content}));
        }
        // Reasoning without an item after it is refused.
        Role::Assistant if content.is_empty() && said.tool_calls.is_empty() => {}
        Role::Assistant => {
            let own = call.own_reasoning(said, Wire::Responses).iter();
            input.extend(own.filter(|item| has_content(item)).cloned());
            if !content.is_empty() {
                let text = json!([{"type": "output_text", "text": content}]);
                input.push(json!({"type": "message", "role": "assistant", "content": text}));
            }
            input.extend(said.tool_calls.iter().map(|asked| {
                json!({
                    "type": "function_call",
                    "call_id": call.names.call_id(&asked.id),
                    "name": call.names.to_provider(&asked.name),
                    "arguments": asked.arguments.to_string(),
                })
            }));
        }
    }
}

/// Whether an item of reasoning has content. One with neither text nor encrypted content is only an id, which
/// the server refuses, because it has stored nothing under it.
fn has_content(item: &Value) -> bool {
    item["encrypted_content"].as_str().is_some_and(|content| !content.is_empty())
        || item["content"].as_array().is_some_and(|parts| !parts.is_empty())
}
