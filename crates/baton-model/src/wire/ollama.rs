//! Ollama's `/api/chat`: one JSON object a line.
//!
//! Arguments of calls are objects in both directions and never text. Calls come whole; the numbers that
//! some versions give them begin anew with each line, so they are counted here. Counters that are absent
//! are 0. The answer's last line has `done`, and an error may come as a line of its own after the server
//! said that all is well; both its shapes are read.
//!
//! Two things have no field: that some tool has to be called, which is therefore not asked for, and
//! whether to think, which is left to the model. `num_ctx` is sent whenever the context window is known:
//! without it the server quietly forgets the beginning of a prompt that is longer than its own default.

use std::collections::HashMap;

use baton_core::chat::{ChatMessage, FinishReason, Role, TokenUsage};
use baton_core::fault::{Code, Fault};
use baton_core::json::as_text;
use baton_core::tool::ToolSpec;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::decoder::json as parse;
use super::json::Json;
use super::{Call, Names, Wire, failure, system};
use crate::port::Delta;

/// The body of a request. Schemas of tools are long, and are written from where they are.
#[derive(Serialize)]
pub(super) struct Body<'a> {
    model: &'a str,
    stream: bool,
    messages: Vec<Value>,
    options: Map<String, Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Offer<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<&'a Value>,
}

#[derive(Serialize)]
struct Offer<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

/// The body of a request.
pub(super) fn body<'a>(call: &Call<'a>) -> Body<'a> {
    let request = call.request;
    let mut tool_names = HashMap::new();
    let (leading, talk) = system::split(&request.messages);
    let mut messages: Vec<Value> = Vec::with_capacity(request.messages.len());
    messages.extend(leading.map(|text| json!({"role": Role::System, "content": text})));
    for message in talk {
        tool_names.extend(message.tool_calls.iter().map(|made| (made.id.as_str(), made.name.as_str())));
        match message.role {
            Role::System => {
                let aside = system::aside(&message.content);
                messages.extend(aside.map(|text| json!({"role": Role::User, "content": text})));
            }
            // An assistant that says nothing teaches the model to do the same.
            Role::Assistant if message.content.is_empty() && message.tool_calls.is_empty() => {}
            Role::Assistant | Role::User | Role::Tool => messages.push(said(call, message, &tool_names)),
        }
    }
    let mut options = Map::from_iter([("num_predict".to_owned(), json!(request.max_tokens))]);
    options.extend(request.temperature.map(|temperature| ("temperature".to_owned(), json!(temperature))));
    options.extend(request.context_window.map(|window| ("num_ctx".to_owned(), json!(window))));
    Body {
        model: call.model,
        stream: true,
        messages,
        options,
        tools: request.tools.iter().map(|tool| offer(call.names, tool)).collect(),
        format: request.schema.as_ref().map(|output| &output.schema),
    }
}

fn offer<'a>(names: &'a Names, tool: &'a ToolSpec) -> Offer<'a> {
    let (name, description) = (names.theirs(&tool.name), tool.description.as_str());
    let function = Function { name, description, parameters: &tool.input_schema };
    Offer { r#type: "function", function }
}

fn said(call: &Call<'_>, message: &ChatMessage, tool_names: &HashMap<&str, &str>) -> Value {
    let mut said = json!({"role": message.role, "content": message.content});
    if let Some(id) = &message.tool_call_id {
        said["tool_call_id"] = call.names.call_id(id).into();
        if let Some(name) = tool_names.get(id.as_str()) {
            said["tool_name"] = call.names.theirs(name).into();
        }
    }
    if message.role != Role::Assistant {
        return said;
    }
    let blocks = call.own_reasoning(message, Wire::Ollama);
    let thought: String = blocks.iter().filter_map(|block| block["thinking"].as_str()).collect();
    if !thought.is_empty() {
        said["thinking"] = thought.into();
    }
    if !message.tool_calls.is_empty() {
        let made = message.tool_calls.iter().enumerate().map(|(index, made)| {
            let (name, arguments) = (call.names.theirs(&made.name), object(&made.arguments));
            json!({
                "type": "function",
                "id": call.names.call_id(&made.id),
                "function": {"index": index, "name": name, "arguments": arguments},
            })
        });
        said["tool_calls"] = made.collect();
    }
    said
}

/// Arguments as the object that they have to be; other ones stand in old or foreign histories.
pub(super) fn object(arguments: &Value) -> Value {
    match arguments {
        Value::Object(_) => arguments.clone(),
        Value::Null => json!({}),
        other => json!({ "arguments": other }),
    }
}

/// What was read of an answer.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// How many calls there were.
    calls: u32,
    /// All that was thought, as it goes back.
    thinking: String,
    /// Whether there was anything but thinking.
    said: bool,
}

impl Reading {
    /// Takes one line. Answers whether it was the last.
    pub(super) fn frame(&mut self, frame: &str, out: &mut Vec<Delta>) -> Result<bool, Fault> {
        self.line(&parse(frame)?, out)
    }

    /// A whole answer that came as one document: it looks like a last line with everything in it.
    pub(super) fn whole(&mut self, body: &Json<'_>, out: &mut Vec<Delta>) -> Result<(), Fault> {
        if self.line(body, out)? { Ok(()) } else { Err(failure::unreadable(&body.to_string())) }
    }

    fn line(&mut self, line: &Json<'_>, out: &mut Vec<Delta>) -> Result<bool, Fault> {
        if let Some(error) = line.get("error").filter(|error| !error.is_null()) {
            return Err(failure::in_answer(&error.to_value()));
        }
        if !line.is_object() {
            return Err(failure::unreadable(&line.to_string()));
        }
        self.message(&line["message"], out);
        if line["done"] != Json::Bool(true) {
            return Ok(false);
        }
        let reason = line["done_reason"].as_str().unwrap_or_default();
        let finish = match reason {
            "length" => FinishReason::Length,
            "load" | "unload" if !self.said => return Err(silent(reason)),
            _ => FinishReason::Stop,
        };
        if !self.thinking.is_empty() {
            out.push(Delta::ReasoningBlock(json!({"thinking": std::mem::take(&mut self.thinking)})));
        }
        let count = |field: &str| line[field].as_u64().unwrap_or_default();
        out.push(Delta::Usage(TokenUsage {
            prompt_tokens: count("prompt_eval_count"),
            completion_tokens: count("eval_count"),
            cost_micro_usd: None,
        }));
        out.push(Delta::Finish(finish));
        Ok(true)
    }

    fn message(&mut self, message: &Json<'_>, out: &mut Vec<Delta>) {
        let text = |field: &str| message[field].as_str().filter(|text| !text.is_empty());
        // The second is what compatible servers write.
        if let Some(thought) = text("thinking").or_else(|| text("reasoning_content")) {
            self.thinking.push_str(thought);
            out.push(Delta::Reasoning(thought.to_owned()));
        }
        if let Some(text) = text("content") {
            self.said = true;
            out.push(Delta::Text(text.to_owned()));
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            self.said = true;
            self.call(call, out);
        }
    }

    fn call(&mut self, call: &Json<'_>, out: &mut Vec<Delta>) {
        let (index, function) = (self.calls, &call["function"]);
        self.calls += 1;
        let name = function["name"].as_str().unwrap_or_default().to_owned();
        let id = call["id"].as_str().filter(|id| !id.is_empty()).map(str::to_owned);
        let text = match &function["arguments"] {
            Json::Null => "{}".to_owned(),
            arguments => as_text(&arguments.to_value()),
        };
        out.push(Delta::CallStart { index, id, name });
        out.push(Delta::CallArguments { index, text });
    }
}

/// The server only loaded the model, or let go of it, and the model was not asked.
fn silent(reason: &str) -> Fault {
    let what = format!("the model's server says that it did {reason:?} and gave no answer");
    Fault::new(Code::LlmInvalidResponse, what)
}

#[cfg(test)]
mod tests;
