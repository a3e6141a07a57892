//! Whole answers, for callers that show nothing of them while they come: the collected stream.
//!
//! An answer that a program reads is asked for by its schema. Wire formats that have a field for it carry
//! it there; a model without such a field is told the schema in words. Either way what comes back is a
//! stranger's text: it is parsed within limits and validated before anybody sees it. Nothing is asked twice
//! here; whether a bad answer is worth another try is for the flow to say.

use baton_core::chat::{ChatMessage, RawReply, Role};
use baton_core::fault::{Code, Fault};
use baton_core::json;
use futures_util::StreamExt;
use serde_json::Value;

use crate::collect::ReplyCollector;
use crate::port::{DeltaStream, Model, ModelRequest, OutputSchema};

/// How much is told of one mismatch, in bytes, and of how many.
const MAX_MISMATCH_BYTES: usize = 300;
const MAX_MISMATCHES: usize = 3;

/// The answer to a request as it arrives: what [`respond`] collects.
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

/// The whole answer to a request with a schema, read: it fits the schema.
pub async fn respond_json(model: &dyn Model, mut request: ModelRequest) -> Result<(Value, RawReply), Fault> {
    let Some(schema) = request.schema.clone() else {
        return Err(Fault::new(Code::Internal, "an answer in JSON was asked for without its schema"));
    };
    if model.wire().is_empty() {
        instruct(&mut request.messages, &schema);
    }
    let reply = respond(model, request).await?;
    let value = read(&reply.text, &schema)?;
    Ok((value, reply))
}

/// Says the schema in words, in the last system message, so that no message is added where there is one.
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

fn read(text: &str, schema: &OutputSchema) -> Result<Value, Fault> {
    let invalid = |problem: String| Fault::new(Code::LlmInvalidResponse, problem);
    let value = json::parse(unfenced(text)).map_err(|problem| {
        invalid(format!("the model's answer is not the JSON that was asked for: {problem}"))
    })?;
    // The crate is built without the features that would fetch what a schema refers to.
    let validator = jsonschema::validator_for(&schema.schema).map_err(|problem| {
        let problem = problem.to_string();
        let problem = json::cut(&problem, MAX_MISMATCH_BYTES);
        Fault::new(Code::Internal, format!("the schema {:?} cannot be used: {problem}", schema.name))
    })?;
    let mismatches: Vec<String> =
        validator.iter_errors(&value).take(MAX_MISMATCHES).map(|e| told(&e)).collect();
    if mismatches.is_empty() {
        return Ok(value);
    }
    Err(invalid(format!(
        "the model's answer does not fit the schema {:?}: {}",
        schema.name,
        mismatches.join("; ")
    )))
}

fn told(error: &jsonschema::ValidationError<'_>) -> String {
    let text = error.to_string();
    let text = json::cut(&text, MAX_MISMATCH_BYTES);
    match error.instance_path().as_str() {
        "" => text.to_owned(),
        path => format!("at {}: {text}", json::cut(path, MAX_MISMATCH_BYTES)),
    }
}

/// A text without the one code fence around it that models like to write.
fn unfenced(text: &str) -> &str {
    let text = text.trim();
    let inner = text.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    match inner.and_then(|inner| inner.split_once('\n')) {
        // The first line is the fence's language, and anything else is none of ours.
        Some((language, inner)) if language.trim().chars().all(char::is_alphanumeric) => inner.trim(),
        _ => text,
    }
}

#[cfg(test)]
mod tests;
