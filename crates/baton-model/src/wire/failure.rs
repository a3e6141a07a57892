//! Servers' errors become faults.
//!
//! Servers agree neither on the shape of an error nor on its words, so both shapes, a text and an object,
//! are read everywhere, and a few well-known phrases count where there is no code. The decision is data:
//! `retry_after_ms` is `Some(0)` where the same request may soon be tried again, and absent where it may
//! not; the HTTP path, which has the headers, puts in the wait. Of the server's own words only a short plain
//! excerpt is kept, without anything that looks like a key.

mod context_limit;
mod excerpt;

use baton_core::fault::{Code, Fault};
use serde_json::Value;

/// The message for a proxy that refuses us. It is not the model's server, and does not ask for our key.
pub(crate) const PROXY: &str = "the proxy on the way to the model's server wants to know who we are";

/// The parts of a server's error that decide about its class.
#[derive(Debug, Default, PartialEq)]
struct ErrorReport {
    words: String,
    /// Its `type` and `code` in lower case, where they are text.
    kinds: Vec<String>,
    /// Its `code`, where that is a number.
    status: Option<u16>,
    /// `n_ctx`: the server's context window in tokens.
    context_window: Option<u64>,
}

/// The fault of an HTTP status. Callers with the headers and a clock add the wait before a retry.
pub fn fault_from_status(status: u16, body: &[u8]) -> Fault {
    fault_from_status_at(status, body, "")
}

/// The fault of an HTTP status of a request to this path, which is named where the server does not have it.
pub(crate) fn fault_from_status_at(status: u16, body: &[u8], path: &str) -> Fault {
    let said = match serde_json::from_slice::<Value>(body) {
        Ok(body) => ErrorReport::of(&body),
        Err(_) => {
            ErrorReport { words: excerpt::plain(&String::from_utf8_lossy(body)), ..ErrorReport::default() }
        }
    };
    let class = match status {
        // Servers send these two with many statuses.
        400..=599 if said.is_quota() => FailureClass::Quota,
        400 | 413 | 422 | 429 | 500 if said.is_too_long() => FailureClass::TooLong,
        413 => FailureClass::TooLong,
        400 | 422 => said.class().unwrap_or(FailureClass::NotTaken),
        _ => of_number(status),
    };
    let path =
        if class == FailureClass::Absent && !path.is_empty() { format!(" at {path}") } else { String::new() };
    class.fault(&said, &format!(" (status {status}{path})"))
}

/// The fault of an error inside an answer: the error itself, or the object that has it as a field.
pub fn fault_in_answer(error: &Value) -> Fault {
    let said = ErrorReport::of(error);
    let class = match &said {
        said if said.is_quota() => FailureClass::Quota,
        said if said.is_too_long() => FailureClass::TooLong,
        said => said.class().or(said.status.map(of_number)).unwrap_or(FailureClass::Server),
    };
    class.fault(&said, "")
}

/// A short plain excerpt of a server's words.
pub(super) fn excerpt(words: &str) -> String {
    excerpt::plain(words)
}

/// The fault of an answer that is not in its format.
pub(super) fn unreadable(answer: &str) -> Fault {
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(answer).is_ok();
    let kind = if is_json { "answer" } else { "JSON" };
    let words = excerpt::plain(answer);
    let shown = if words.is_empty() { "nothing at all" } else { &words };
    Fault::new(Code::LlmInvalidResponse, format!("the model's server sent what is no {kind}: {shown}"))
}

/// The classes of failure, as far as they are handled differently.
#[derive(Debug, Clone, Copy, PartialEq)]
enum FailureClass {
    Key,
    Quota,
    /// A proxy asks for credentials.
    Proxy,
    Absent,
    Slow,
    TooLong,
    Busy,
    Server,
    /// The server does not support the request, so a retry cannot help.
    Unable,
    Refused,
    NotTaken,
}

impl FailureClass {
    /// The fault: its code, and whether a retry makes sense. A timeout is not retried at once.
    fn fault(self, said: &ErrorReport, place: &str) -> Fault {
        let fault = |code| Fault::new(code, self.message(said, place));
        match self {
            FailureClass::Key | FailureClass::Quota => fault(Code::LlmAuth),
            FailureClass::Absent | FailureClass::Proxy => fault(Code::LlmConnection),
            FailureClass::Slow => fault(Code::LlmTimeout),
            FailureClass::TooLong => {
                Fault { fits_tokens: said.fitting_tokens(), ..fault(Code::ContextTooLong) }
            }
            FailureClass::Busy => fault(Code::LlmRateLimited).retry_after_ms(0),
            FailureClass::Server => fault(Code::LlmServer).retry_after_ms(0),
            FailureClass::Unable => fault(Code::LlmServer),
            FailureClass::Refused => fault(Code::Refused),
            FailureClass::NotTaken => fault(Code::LlmInvalidResponse),
        }
    }

    /// The message; `place`: the status and the path, where there are any.
    fn message(self, said: &ErrorReport, place: &str) -> String {
        let problem = match self {
            FailureClass::Key => "the model's server did not accept the key",
            FailureClass::Quota => "the account at the model's server has no credit left",
            FailureClass::Proxy => PROXY,
            FailureClass::Absent => "the model, or the path to it, is not there; check its name and address",
            FailureClass::Slow => "the model's server gave up waiting for the model",
            FailureClass::TooLong => "the conversation is too long for the model",
            FailureClass::Busy => "the model's server asks to slow down",
            FailureClass::Server => "the model's server failed",
            FailureClass::Unable => "the model's server cannot do this",
            FailureClass::Refused => "the model's server refused the request",
            FailureClass::NotTaken => "the model's server did not take the request",
        };
        let words = match self {
            FailureClass::Key | FailureClass::Quota | FailureClass::Proxy => {
                excerpt::without_keys(&said.words)
            }
            _ => said.words.clone(),
        };
        if words.is_empty() {
            format!("{problem}{place}")
        } else {
            format!("{problem}{place}; it said: {words}")
        }
    }
}

fn of_number(status: u16) -> FailureClass {
    match status {
        // Some servers send 402 for an account without credit.
        402 => FailureClass::Quota,
        401 | 403 => FailureClass::Key,
        407 => FailureClass::Proxy,
        300..=399 | 404 | 405 | 410 => FailureClass::Absent,
        408 | 504 => FailureClass::Slow,
        413 => FailureClass::TooLong,
        429 => FailureClass::Busy,
        501 | 505 => FailureClass::Unable,
        500.. => FailureClass::Server,
        _ => FailureClass::NotTaken,
    }
}

fn is_status(code: &u16) -> bool {
    (300..600).contains(code)
}

impl ErrorReport {
    /// Parses `{"error": …}`, its content, or one of the shapes with the message at the top.
    fn of(body: &Value) -> Self {
        let error = body.get("error").filter(|error| !error.is_null()).unwrap_or(body);
        let fields = ["message", "detail", "error"].iter().filter_map(|field| error.get(field));
        let words = error.as_str().or_else(|| fields.filter_map(Value::as_str).next());
        let words = match words {
            Some(words) => excerpt::plain(words),
            None if error.is_null() => String::new(),
            None => excerpt::plain(&error.to_string()),
        };
        let kinds = ["type", "code"].iter().filter_map(|field| error.get(field)?.as_str());
        let code = error.get("code");
        ErrorReport {
            words,
            kinds: kinds.map(str::to_ascii_lowercase).collect(),
            status: code.and_then(Value::as_u64).and_then(|code| u16::try_from(code).ok()).filter(is_status),
            context_window: error.get("n_ctx").and_then(Value::as_u64),
        }
    }

    fn is(&self, kinds: &[&str]) -> bool {
        self.kinds.iter().any(|kind| kinds.contains(&kind.as_str()))
    }

    fn is_quota(&self) -> bool {
        self.is(&["insufficient_quota", "billing_hard_limit_reached", "billing_error"])
            || self.words.contains("credit balance is too low")
    }

    fn is_too_long(&self) -> bool {
        self.is(&["context_length_exceeded", "exceed_context_size_error", "request_too_large"])
            || context_limit::is_too_long(&self.words)
    }

    fn fitting_tokens(&self) -> Option<u64> {
        self.context_window.or_else(|| context_limit::limit(&self.words))
    }

    /// The class of its `type` or `code`, where that is known.
    fn class(&self) -> Option<FailureClass> {
        let table: [(&[&str], FailureClass); 8] = [
            (&["authentication_error", "invalid_api_key", "permission_error"], FailureClass::Key),
            (&["rate_limit_error", "rate_limit_exceeded", "too_many_requests"], FailureClass::Busy),
            (
                &["overloaded_error", "server_error", "api_error", "internal_error", "internal_server_error"],
                FailureClass::Server,
            ),
            (&["unavailable_error", "service_unavailable"], FailureClass::Server),
            (&["timeout_error", "request_timeout"], FailureClass::Slow),
            (&["not_found_error", "model_not_found"], FailureClass::Absent),
            (&["content_filter", "content_policy_violation"], FailureClass::Refused),
            (&["invalid_request_error", "invalid_prompt"], FailureClass::NotTaken),
        ];
        table.into_iter().find(|(kinds, _)| self.is(kinds)).map(|(_, class)| class)
    }
}

#[cfg(test)]
mod tests;
