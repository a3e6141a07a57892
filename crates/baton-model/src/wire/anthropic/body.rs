//! The request body of Anthropic's Messages.

use std::borrow::Cow;
use std::collections::BTreeSet;

use baton_core::chat::{ChatMessage, Role};
use baton_core::tool::ToolSpec;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::port::{OutputSchema, ToolChoice};
use crate::wire::body::RequestBody;
use crate::wire::ollama::object;
use crate::wire::{Wire, WireRequest, system};

/// The first message where the conversation does not begin with the user's.
const OPENING: &str = "(The conversation begins here.)";

pub(in crate::wire) fn body<'a>(call: &WireRequest<'a>) -> RequestBody<'a> {
    let request = call.request;
    let (system, messages) = system::split(&request.messages);
    let mut body = json!({
        "model": call.model,
        "max_tokens": request.max_tokens,
        "stream": true,
        "messages": turns(call, messages),
    });
    let system: Vec<String> =
        system.into_iter().chain(request.schema.as_ref().map(schema_instruction)).collect();
    if !system.is_empty() {
        body["system"] = json!([{"type": "text", "text": system.join("\n\n")}]);
    }
    if let Some(temperature) = request.temperature {
        body["temperature"] = temperature.into();
    }
    let tools = add_tools(call, &mut body);
    mark_for_cache(&mut body);
    RequestBody { fields: body, tools }
}

/// Marks the end of the part that stays the same from call to call, so that the provider caches it.
fn mark_for_cache(body: &mut Value) {
    let last = |part: &str| body[part].as_array().and_then(|blocks| blocks.len().checked_sub(1));
    let ends = ["system", "tools"].map(|part| last(part).map(|at| (part, at)));
    if let Some((part, at)) = ends.into_iter().flatten().next() {
        body[part][at]["cache_control"] = json!({"type": "ephemeral"});
    }
}

/// Adds the tools. A history with calls is accepted only along with tools, so where none is offered
/// the tools of the history stand in, and may not be called. Returns their encoded text where there is a system
/// text; where there is none, the cache mark goes into the tools, so they are values in the body.
fn add_tools<'a>(call: &WireRequest<'a>, body: &mut Value) -> Option<Cow<'a, RawValue>> {
    let request = call.request;
    if !request.tools.is_empty() {
        if request.tool_choice == ToolChoice::Required {
            body["tool_choice"] = json!({"type": "any"});
        }
        let tool = |tool: &ToolSpec| {
            let name = call.names.to_provider(&tool.name);
            json!({"name": name, "description": tool.description, "input_schema": tool.input_schema})
        };
        let tools = || request.tools.iter().map(tool).collect::<Value>();
        if body.get("system").is_some() {
            return Some(call.names.offered.text(Wire::Anthropic, &request.tools, tools));
        }
        body["tools"] = tools();
        return None;
    }
    let mut seen = BTreeSet::new();
    let made = request.messages.iter().flat_map(|message| &message.tool_calls);
    let former = made.map(|made| made.name.as_str()).filter(|name| seen.insert(*name));
    let former: Vec<Value> = former
        .map(|name| json!({"name": call.names.to_provider(name), "input_schema": {"type": "object"}}))
        .collect();
    if !former.is_empty() {
        body["tools"] = former.into();
        body["tool_choice"] = json!({"type": "none"});
    }
    None
}

fn schema_instruction(output: &OutputSchema) -> String {
    let schema = &output.schema;
    format!(
        "Answer with one JSON document and nothing else: no words around it and no code fence. \
         It has to be valid against this JSON Schema:\n{schema}"
    )
}

/// The messages as alternating turns of user and assistant.
fn turns(call: &WireRequest<'_>, messages: &[ChatMessage]) -> Vec<Value> {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for message in messages {
        let (role, blocks) = blocks(call, message);
        match turns.last_mut() {
            _ if blocks.is_empty() => {}
            Some((last, content)) if *last == role => content.extend(blocks),
            _ => turns.push((role, blocks)),
        }
    }
    if turns.first().is_none_or(|(role, _)| *role != "user") {
        turns.insert(0, ("user", text(OPENING).into_iter().collect()));
    }
    turns.into_iter().map(|(role, content)| json!({"role": role, "content": content})).collect()
}

/// The role and the blocks of a message; no blocks where it is empty.
fn blocks(call: &WireRequest<'_>, message: &ChatMessage) -> (&'static str, Vec<Value>) {
    match message.role {
        Role::User => ("user", text(&message.content).into_iter().collect()),
        Role::System => {
            let inline = system::inline(&message.content);
            ("user", inline.iter().filter_map(|inline| text(inline)).collect())
        }
        Role::Tool => {
            let id = call.names.call_id(message.tool_call_id.as_deref().unwrap_or_default());
            let mut result = json!({"type": "tool_result", "tool_use_id": id});
            if !message.content.trim().is_empty() {
                result["content"] = message.content.as_str().into();
            }
            ("user", vec![result])
        }
        Role::Assistant => {
            let calls = message.tool_calls.iter().map(|made| {
                let (id, name) = (call.names.call_id(&made.id), call.names.to_provider(&made.name));
                json!({"type": "tool_use", "id": id, "name": name, "input": object(&made.arguments)})
            });
            // White space at the end of the last turn is refused. It is trimmed from every turn, so that a turn
            // keeps its bytes when more follow.
            let content: Vec<Value> = text(message.content.trim_end()).into_iter().chain(calls).collect();
            if content.is_empty() {
                return ("assistant", content);
            }
            let thinking = call.own_reasoning(message, Wire::Anthropic);
            ("assistant", thinking.iter().cloned().chain(content).collect())
        }
    }
}

fn text(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}
