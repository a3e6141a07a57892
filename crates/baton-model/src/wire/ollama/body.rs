//! The request body of Ollama. It borrows from the request, because histories and schemas are long.
//!
//! The fields of nested objects are in the order of their names.

use std::borrow::Cow;
use std::collections::BTreeMap;

use baton_core::chat::{ChatCall, ChatMessage, Role};
use baton_core::tool::ToolSpec;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::wire::{Wire, WireNames, WireRequest, system};

/// The body of a request.
#[derive(Serialize)]
pub(in crate::wire) struct OllamaRequest<'a> {
    model: &'a str,
    stream: bool,
    messages: Vec<OllamaMessage<'a>>,
    options: OllamaOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Cow<'a, RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'a Value>,
}

#[derive(Serialize)]
struct OllamaOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    num_ctx: Option<u64>,
    num_predict: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
}

#[derive(Serialize)]
struct OllamaTool<'a> {
    r#type: &'static str,
    function: OllamaFunction<'a>,
}

#[derive(Serialize)]
struct OllamaFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

#[derive(Serialize)]
struct OllamaMessage<'a> {
    content: Cow<'a, str>,
    role: Role,
    #[serde(skip_serializing_if = "String::is_empty")]
    thinking: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<OllamaToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
}

#[derive(Serialize)]
struct OllamaToolCall<'a> {
    function: OllamaCallFunction<'a>,
    id: Cow<'a, str>,
    r#type: &'static str,
}

#[derive(Serialize)]
struct OllamaCallFunction<'a> {
    arguments: Cow<'a, Value>,
    index: usize,
    name: &'a str,
}

/// The body of a request.
pub(in crate::wire) fn body<'a>(call: &WireRequest<'a>) -> OllamaRequest<'a> {
    let (request, names) = (call.request, call.names);
    let mut tool_names = BTreeMap::new();
    let (system, rest) = system::split(&request.messages);
    let mut messages = Vec::with_capacity(request.messages.len());
    messages.extend(system.map(|text| OllamaMessage::text(Role::System, text)));
    for message in rest {
        tool_names.extend(message.tool_calls.iter().map(|made| (made.id.as_str(), made.name.as_str())));
        match message.role {
            Role::System => {
                let inline = system::inline(&message.content);
                messages.extend(inline.map(|text| OllamaMessage::text(Role::User, text)));
            }
            // An empty answer in the history teaches the model to answer with nothing.
            Role::Assistant if message.content.is_empty() && message.tool_calls.is_empty() => {}
            Role::Assistant | Role::User | Role::Tool => messages.push(said(call, message, &tool_names)),
        }
    }
    let offers = || request.tools.iter().map(|tool| offer(names, tool)).collect::<Vec<_>>();
    let tools = || names.offered.text(Wire::Ollama, &request.tools, offers);
    OllamaRequest {
        model: call.model,
        stream: true,
        messages,
        options: OllamaOptions {
            num_ctx: request.context_window,
            num_predict: request.max_tokens,
            temperature: request.temperature,
        },
        tools: (!request.tools.is_empty()).then(tools),
        format: request.schema.as_ref().map(|output| &output.schema),
    }
}

fn offer<'a>(names: &'a WireNames, tool: &'a ToolSpec) -> OllamaTool<'a> {
    let (name, description) = (names.to_provider(&tool.name), tool.description.as_str());
    let function = OllamaFunction { name, description, parameters: &tool.input_schema };
    OllamaTool { r#type: "function", function }
}

impl<'a> OllamaMessage<'a> {
    fn text(role: Role, content: impl Into<Cow<'a, str>>) -> Self {
        let (thinking, tool_calls) = (String::new(), Vec::new());
        OllamaMessage {
            content: content.into(),
            role,
            thinking,
            tool_call_id: None,
            tool_calls,
            tool_name: None,
        }
    }
}

fn said<'a>(
    call: &WireRequest<'a>,
    message: &'a ChatMessage,
    tool_names: &BTreeMap<&str, &'a str>,
) -> OllamaMessage<'a> {
    let mut said = OllamaMessage::text(message.role, message.content.as_str());
    if let Some(id) = &message.tool_call_id {
        said.tool_call_id = Some(call.names.id(id));
        said.tool_name = tool_names.get(id.as_str()).map(|name| call.names.to_provider(name));
    }
    if message.role == Role::Assistant {
        let blocks = call.own_reasoning(message, Wire::Ollama);
        said.thinking = blocks.iter().filter_map(|block| block["thinking"].as_str()).collect();
        said.tool_calls =
            (0..).zip(&message.tool_calls).map(|(index, made)| asked(call, index, made)).collect();
    }
    said
}

fn asked<'a>(call: &WireRequest<'a>, index: usize, made: &'a ChatCall) -> OllamaToolCall<'a> {
    let arguments = match &made.arguments {
        object @ Value::Object(_) => Cow::Borrowed(object),
        other => Cow::Owned(object(other)),
    };
    let function = OllamaCallFunction { arguments, index, name: call.names.to_provider(&made.name) };
    OllamaToolCall { function, id: call.names.id(&made.id), r#type: "function" }
}

/// Arguments as the object that they have to be. Old or foreign histories have other values.
pub(in crate::wire) fn object(arguments: &Value) -> Value {
    match arguments {
        Value::Object(_) => arguments.clone(),
        Value::Null => json!({}),
        other => json!({ "arguments": other }),
    }
}
