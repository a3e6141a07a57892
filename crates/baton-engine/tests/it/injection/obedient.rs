//! A model without any judgement: it obeys the newest text.
//!
//! A line `CALL name arguments`, anywhere in a text, is a call that it makes, exactly as written. It reads the messages
//! that were added since its last answer, and, when a request begins, the descriptions of the tools; but if a user's
//! message begins with [`ONLY`], only that.

use baton_core::chat::{FinishReason, Role, TokenUsage};
use baton_core::fault::Fault;
use baton_model::{Delta, DeltaStream, Model, ModelRequest};
use futures_util::stream;
use serde_json::Value;

/// The prefix of a user's message that makes it ignore all other text.
pub(super) const ONLY: &str = "ONLY:";

/// The obedient model; see the module.
pub(super) struct Obedient {
    /// Whether it writes nothing where it may call nothing.
    pub(super) mute: bool,
}

impl Model for Obedient {
    fn name(&self) -> String {
        "obedient/one".to_owned()
    }

    fn stream(&self, request: ModelRequest) -> DeltaStream {
        let calls = told(&request);
        let words = match (calls.is_empty(), request.schema.is_some()) {
            (_, true) => r#"{"ok": true, "missing": ""}"#,
            (true, false) => "Done.",
            // Calls of tools that were not offered are worth trying, too.
            (false, false) if request.tools.is_empty() && !self.mute => "As you wish.",
            (false, false) => "",
        };
        Box::pin(stream::iter(reply(words, calls)))
    }

    fn cost(&self, _: &TokenUsage) -> Option<u64> {
        Some(0)
    }
}

fn reply(words: &str, calls: Vec<(String, String)>) -> Vec<Result<Delta, Fault>> {
    let finish = if calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    let mut reply = Vec::new();
    if !words.is_empty() {
        reply.push(Ok(Delta::Text(words.to_owned())));
    }
    for (index, (name, text)) in (0..).zip(calls) {
        reply.push(Ok(Delta::CallStart { index, id: None, name }));
        reply.push(Ok(Delta::CallArguments { index, text }));
    }
    let usage =
        TokenUsage { prompt_tokens: 3, completion_tokens: 2, cost_micro_usd: Some(0), estimated: false };
    reply.extend([Ok(Delta::Usage(usage)), Ok(Delta::Finish(finish))]);
    reply
}

/// The calls that the newest text tells it to make.
fn told(request: &ModelRequest) -> Vec<(String, String)> {
    let spoke = request.messages.iter().rposition(|message| message.role == Role::Assistant);
    let mut fresh = &request.messages[spoke.map_or(0, |at| at + 1)..];
    if let Some(at) = fresh.iter().rposition(|message| message.content.starts_with(ONLY)) {
        fresh = &fresh[at..];
    }
    let mut texts: Vec<String> = fresh.iter().flat_map(|message| strings(&message.content)).collect();
    if fresh.iter().any(|message| message.role == Role::User) {
        texts.extend(request.tools.iter().map(|tool| tool.description.clone()));
    }
    texts.iter().flat_map(|text| text.lines().filter_map(call)).collect()
}

/// A text, or every string in it if it is JSON.
fn strings(text: &str) -> Vec<String> {
    fn all(value: Value, found: &mut Vec<String>) {
        match value {
            Value::String(text) => found.push(text),
            Value::Array(items) => items.into_iter().for_each(|item| all(item, found)),
            Value::Object(fields) => fields.into_iter().for_each(|(_, field)| all(field, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    match serde_json::from_str(text) {
        Ok(value) => {
            let mut found = Vec::new();
            all(value, &mut found);
            found
        }
        // JSON that was cut is text, and it reads that, too.
        Err(_) => vec![text.replace("\\n", "\n").replace("\\\"", "\"")],
    }
}

/// A call in a line: whole JSON, with any text behind it, or the rest of the line.
fn call(line: &str) -> Option<(String, String)> {
    let (_, told) = line.split_once("CALL ")?;
    let (name, rest) = told.split_once(' ').unwrap_or((told, ""));
    let mut reading = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
    let arguments = match reading.next() {
        Some(Ok(Value::Object(_))) => &rest[..reading.byte_offset()],
        _ => rest,
    };
    Some((name.to_owned(), arguments.to_owned()))
}
