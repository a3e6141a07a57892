//! The meaning of the response to a call. Pure.
//!
//! A document in the shape `{status, output}` is the service's statement about the call, with any HTTP status. Without
//! that shape the HTTP status decides: a refused call was not done, and of every other one the outcome is unknown.

use baton_core::fault::without_credentials;
use baton_core::json::{as_text, cut};
use baton_core::tool::Cause;
use serde::Deserialize;
use serde_json::Value;

use super::client::{ServiceClient, ServiceResponse};
use crate::tool::{Output, ToolError};

/// The most bytes that are repeated of a service's message about a refusal.
const MAX_MESSAGE: usize = 1000;

/// The words for success, in any case.
const SUCCESS: [&str; 3] = ["success", "ok", "completed"];

#[derive(Deserialize)]
struct ExecuteResponse {
    status: String,
    output: Option<Value>,
    /// The fields where services put their error message; some send several of them.
    error: Option<Value>,
    message: Option<Value>,
    detail: Option<Value>,
}

impl ExecuteResponse {
    fn is_success(&self) -> bool {
        SUCCESS.iter().any(|word| self.status.eq_ignore_ascii_case(word))
    }
}

/// The result of a call, from the response of the service.
pub(super) fn parse_result(
    response: ServiceResponse,
    connection: &ServiceClient,
) -> Result<Output, ToolError> {
    let ServiceResponse { status, has_retry_after, body, is_cut } = response;
    if is_cut {
        let why = "The execution service returned far too much, so its result is lost: ask for less.";
        return Err(ToolError { cause: Cause::Asked, ..ToolError::new(why) });
    }
    if let Ok(document) = serde_json::from_slice::<ExecuteResponse>(&body)
        && is_statement(status, &document)
    {
        return stated_result(document, connection);
    }
    Err(match status {
        300..=399 => ToolError::before_start(format!(
            "The execution service redirects (status {status}): the operator should set its final address."
        )),
        401 | 403 => ToolError::before_start(format!(
            "The execution service does not accept Baton's token (status {status}): the operator should check it."
        )),
        429 => busy(status),
        503 if has_retry_after => busy(status),
        408 | 409 => outcome_unknown(status),
        400..=499 => ToolError::invalid_call(refusal(status, &body, connection)),
        _ => outcome_unknown(status),
    })
}

/// Whether such a document is the service's statement about the call. With an HTTP status that says otherwise it has to
/// be whole, and no success: proxies in between write documents with a `status`, too.
fn is_statement(status: u16, document: &ExecuteResponse) -> bool {
    match status {
        200..=299 => true,
        300..=399 | 401 | 403 => false,
        _ => document.output.is_some() && !document.is_success(),
    }
}

fn stated_result(document: ExecuteResponse, connection: &ServiceClient) -> Result<Output, ToolError> {
    if document.is_success() {
        return Ok(match document.output.map(|output| without_token(output, connection)) {
            Some(Value::String(text)) => Output::Text(text),
            other => Output::Json(other.unwrap_or_default()),
        });
    }
    let ExecuteResponse { status, output, error, message, detail } = document;
    let reason = [output, error, message, detail].into_iter().flatten().find(|field| !is_blank(field));
    let message = match reason {
        Some(reason) => as_text(&without_token(reason, connection)),
        None => {
            let status = connection.redacted(&status);
            format!("The execution service says {:?} and nothing more.", cut(&status, MAX_MESSAGE))
        }
    };
    // The service examined the call and refused it: it would refuse the same call again.
    Err(ToolError { cause: Cause::Asked, ..ToolError::new(message) })
}

/// A value without our token: a service that repeats the token does not get it into a thread.
fn without_token(mut value: Value, connection: &ServiceClient) -> Value {
    redact_in_place(&mut value, connection);
    value
}

/// Takes the token out. Few services repeat it, so texts without it are not copied.
fn redact_in_place(value: &mut Value, connection: &ServiceClient) {
    match value {
        Value::String(text) if connection.is_repeated(text) => *text = connection.redacted(text),
        Value::Array(items) => items.iter_mut().for_each(|item| redact_in_place(item, connection)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| redact_in_place(value, connection));
            if fields.keys().any(|name| connection.is_repeated(name)) {
                let pairs = std::mem::take(fields).into_iter();
                *fields = pairs.map(|(name, value)| (connection.redacted(&name), value)).collect();
            }
        }
        _ => {}
    }
}

fn is_blank(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
}

fn busy(status: u16) -> ToolError {
    ToolError::before_start(format!(
        "The execution service takes no calls for now (status {status}): try again later."
    ))
}

fn outcome_unknown(status: u16) -> ToolError {
    ToolError::unknown(format!(
        "The execution service answered with status {status} and no result, so nobody knows whether the call took effect."
    ))
}

/// The message for a refusal, with its reason: the `detail` of a problem, or the field that a framework uses instead.
fn refusal(status: u16, body: &[u8], connection: &ServiceClient) -> String {
    let document: Value = serde_json::from_slice(body).unwrap_or_default();
    let fields = ["detail", "message", "error", "title"].into_iter().filter_map(|field| document.get(field));
    let reason = fields.map(as_text).find(|reason| !reason.trim().is_empty());
    let mut message = format!("The execution service did not accept the call (status {status})");
    match reason {
        // Redacted before it is cut, or half of the token might stay.
        Some(reason) => {
            let reason = without_credentials(&connection.redacted(&reason));
            message.push_str(&format!(": {}", cut(&reason, MAX_MESSAGE)));
        }
        None => message.push('.'),
    }
    message
}

#[cfg(test)]
mod tests;
