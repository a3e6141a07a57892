//! Whole answers, for callers that do not show the stream: the collected stream, and JSON that fits a schema.
//!
//! A request for JSON carries its schema. Wire formats that have a field for it carry
//! it there; other models get the schema as text. Either way the answer is
//! untrusted text: it is parsed within limits and validated before a caller gets it. Nothing is retried
//! here; whether an invalid answer is worth a retry is the flow's decision.

use baton_core::chat::{ChatMessage, RawReply, Role};
use baton_core::fault::{Code, Fault};
use baton_core::json;
use futures_util::StreamExt;
use serde_json::Value;

use crate::collect::ReplyCollector;
use crate::port::{DeltaStream, Model, ModelRequest, OutputSchema};

/// The most bytes of one mismatch in a message, and the most mismatches.
const MAX_MISMATCH_BYTES: usize = 300;
const MAX_MISMATCHES: usize = 3;

/// The answer to a request as it arrives. [`respond`] collects it.
pub fn stream_respond(model: &dyn Model, request: ModelRequest) -> DeltaStream {
    model.stream(request)
}

/// The whole answer to a request.
pub async fn respond(model: &dyn Model, request: ModelRequest) -> Result<RawReply, Fault> {
    let mut stream = stream_respond(model, request);
    let mut collector = ReplyCollector::new();
    while let Some(delta) = stream.next().await {
        collector.push(&delta?)?;
    }
    collector.finish()
}

/// The whole answer to a request with a schema, parsed and valid against it.
pub async fn respond_json(model: &dyn Model, mut request: ModelRequest) -> Result<(Value, RawReply), Fault> {
    let Some(schema) = request.schema.clone() else {
        return Err(Fault::new(Code::Internal, "an answer in JSON was asked for without its schema"));
    };
    if model.wire().is_empty() {
        instruct(&mut request.messages, &schema);
    }
    let reply = respond(model, request).await?;
    let value = parse_valid(&reply.text, &schema)?;
    Ok((value, reply))
}

/// Adds the schema as text to the last system message, or as a new one where there is none.
fn instruct(messages: &mut Vec<ChatMessage>, schema: &OutputSchema) {
    let words = format!(
        "Answer with one JSON object and nothing else. It has to fit this JSON Schema:\n{}",
        json::canonical(&schema.schema)
    );
    match messages.iter_mut().rfind(|message| message.role == Role::System) {
        Some(message) => message.content = format!("{}\n\n{words}", message.content),
        None => messages.insert(0, ChatMessage::text(Role::System, words)),
    }
}

fn parse_valid(text: &str, schema: &OutputSchema) -> Result<Value, Fault> {
    let invalid = |problem: String| Fault::new(Code::LlmInvalidResponse, problem);
    let value = json::parse(without_fence(text)).map_err(|problem| {
        invalid(format!("the model's answer is not the JSON that was asked for: {problem}"))
    })?;
    // `jsonschema` is built without the features that would fetch a schema's references.
    let validator = jsonschema::validator_for(&schema.schema).map_err(|problem| {
        let problem = problem.to_string();
        let problem = json::cut(&problem, MAX_MISMATCH_BYTES);
        Fault::new(Code::Internal, format!("the schema {:?} cannot be used: {problem}", schema.name))
    })?;
    let mismatches: Vec<String> =
        validator.iter_errors(&value).take(MAX_MISMATCHES).map(|e| describe(&e)).collect();
    if mismatches.is_empty() {
        return Ok(value);
    }
    Err(invalid(format!(
        "the model's answer does not fit the schema {:?}: {}",
        schema.name,
        mismatches.join("; ")
    )))
}

fn describe(error: &jsonschema::ValidationError<'_>) -> String {
    let text = error.to_string();
    let text = json::cut(&text, MAX_MISMATCH_BYTES);
    match error.instance_path().as_str() {
        "" => text.to_owned(),
        path => format!("at {}: {text}", json::cut(path, MAX_MISMATCH_BYTES)),
    }
}

/// A text without the one code fence around it that models like to write.
fn without_fence(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    match inner.and_then(|inner| inner.split_once('\n')) {
        // A first line with more than the fence's language is part of the answer.
        Some((language, inner)) if language.trim().chars().all(char::is_alphanumeric) => inner.trim(),
        _ => text,
    }
}

#[cfg(test)]
mod tests;
