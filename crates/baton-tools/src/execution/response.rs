//! What the answer to a call means. Pure.
//!
//! Whatever a service says in the shape `{status, output}` is its word, with any HTTP status. Without that shape the HTTP
//! status decides: what was refused was not done, and of everything else nobody knows.

use baton_core::fault::without_credentials;
use baton_core::json::{as_text, cut};
use baton_core::tool::Cause;
use serde::Deserialize;
use serde_json::Value;

use super::client::{Connection, ServiceResponse};
use crate::tool::{Output, ToolError};

/// The most that is repeated of what a service says about a refusal, in bytes.
const MOST_WORDS: usize = 1000;

/// The words for success, in any case.
const SUCCESS: [&str; 3] = ["success", "ok", "completed"];

#[derive(Deserialize)]
struct ExecuteResponse {
    status: String,
    output: Option<Value>,
    /// Where services put what went wrong; some send several of them.
    error: Option<Value>,
    message: Option<Value>,
    detail: Option<Value>,
}

impl ExecuteResponse {
    fn is_success(&self) -> bool {
        SUCCESS.iter().any(|word| self.status.eq_ignore_ascii_case(word))
    }
}

/// The result of a call.
pub(super) fn parse_result(answer: ServiceResponse, of: &Connection) -> Result<Output, ToolError> {
    let ServiceResponse { status, comes_back, body, is_cut } = answer;
    if is_cut {
        let why = "The execution service returned far too much, so its result is lost: ask for less.";
        return Err(ToolError { cause: Cause::Asked, ..ToolError::new(why) });
    }
    if let Ok(executed) = serde_json::from_slice::<ExecuteResponse>(&body)
        && is_its_word(status, &executed)
    {
        return done(executed, of);
    }
    Err(match status {
        300..=399 => ToolError::before_start(format!(
            "The execution service redirects (status {status}): the operator should set its final address."
        )),
        401 | 403 => ToolError::before_start(format!(
            "The execution service does not accept Baton's token (status {status}): the operator should check it."
        )),
        429 => busy(status),
        503 if comes_back => busy(status),
        408 | 409 => unsure(status),
        400..=499 => ToolError::asked(refused(status, &body, of)),
        _ => unsure(status),
    })
}

/// Whether such a document is the service's word about the call. Beside a status that says otherwise it has to be whole,
/// and no success: others in between write documents with a `status`, too.
fn is_its_word(status: u16, executed: &ExecuteResponse) -> bool {
    match status {
        200..=299 => true,
        300..=399 | 401 | 403 => false,
        _ => executed.output.is_some() && !executed.is_success(),
    }
}

fn done(executed: ExecuteResponse, of: &Connection) -> Result<Output, ToolError> {
    if executed.is_success() {
        return Ok(match executed.output.map(|output| without_token(output, of)) {
            Some(Value::String(text)) => Output::Text(text),
            other => Output::Json(other.unwrap_or_default()),
        });
    }
    let ExecuteResponse { status, output, error, message, detail } = executed;
    let said = [output, error, message, detail].into_iter().flatten().find(|said| !is_nothing(said));
    let words = match said {
        Some(said) => as_text(&without_token(said, of)),
        None => {
            let status = of.redacted(&status);
            format!("The execution service says {:?} and nothing more.", cut(&status, MOST_WORDS))
        }
    };
    // It was looked at and judged: the same call would be judged the same.
    Err(ToolError { cause: Cause::Asked, ..ToolError::new(words) })
}

/// What a service says as it may be kept: a service that repeats our token does not get it into a thread.
fn without_token(mut value: Value, of: &Connection) -> Value {
    hide(&mut value, of);
    value
}

/// Nearly nobody repeats a token, so what does not stays where it is.
fn hide(value: &mut Value, of: &Connection) {
    match value {
        Value::String(text) if of.is_repeated(text) => *text = of.redacted(text),
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, of)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| hide(value, of));
            if fields.keys().any(|name| of.is_repeated(name)) {
                let told = std::mem::take(fields).into_iter();
                *fields = told.map(|(name, value)| (of.redacted(&name), value)).collect();
            }
        }
        _ => {}
    }
}

fn is_nothing(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
}

fn busy(status: u16) -> ToolError {
    ToolError::before_start(format!(
        "The execution service takes no calls for now (status {status}): try again later."
    ))
}

fn unsure(status: u16) -> ToolError {
    ToolError::unknown(format!(
        "The execution service answered with status {status} and no result, so nobody knows whether the call took effect."
    ))
}

/// What a refusal says of itself: the detail of a problem, or what frameworks write in its place.
fn refused(status: u16, body: &[u8], of: &Connection) -> String {
    let document: Value = serde_json::from_slice(body).unwrap_or_default();
    let said = ["detail", "message", "error", "title"].into_iter().filter_map(|field| document.get(field));
    let said = said.map(as_text).find(|said| !said.trim().is_empty());
    let mut words = format!("The execution service did not accept the call (status {status})");
    match said {
        // Before it is cut, or half of the token might stay.
        Some(said) => {
            let said = without_credentials(&of.redacted(&said));
            words.push_str(&format!(": {}", cut(&said, MOST_WORDS)));
        }
        None => words.push('.'),
    }
    words
}

#[cfg(test)]
mod tests;
