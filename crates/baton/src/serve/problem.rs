//! Problems, the refusals of the service: RFC 9457, `application/problem+json`.
//!
//! Every refusal of the service is a [`Problem`]: a code from a closed set, and a sentence that names the mistake and
//! how to correct it. Internals (which row is damaged, where the database is) go to the log and not into the answer. An
//! id of another tenant answers exactly as a missing one: no id is repeated.

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use baton_core::fault::Code as RunCode;
use baton_core::thread::TreeError;
use baton_engine::EngineError;
use baton_store::StoreError;
use serde_json::{Map, Value, json};

/// The media type of a problem.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// Seconds after which to retry when the store does not answer.
const STORE_RETRY_S: u64 = 2;

/// The kind of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProblemCode {
    /// The request cannot be understood.
    InvalidRequest,
    /// The caller is not known.
    Unauthorized,
    /// The caller may not do this.
    Forbidden,
    /// There is no such thing, or it belongs to another tenant.
    NotFound,
    /// There is no such method here.
    MethodNotAllowed,
    /// It conflicts with the present state.
    Conflict,
    /// A run is active on the branch.
    BranchBusy,
    /// There is a decision already.
    AlreadyDecided,
    /// The run is over.
    Finished,
    /// It was removed.
    #[allow(dead_code, reason = "part of the contract; nothing that was thrown away is remembered yet")]
    Pruned,
    /// The run was cancelled, and the caller waited for its answer.
    Cancelled,
    /// The body is too long.
    PayloadTooLarge,
    /// The body is not JSON, or it is encoded.
    UnsupportedMediaType,
    /// The requested host is not ours.
    BadHost,
    /// The key was used before with another body.
    IdempotencyMismatch,
    /// The caller does too much at once.
    RateLimited,
    /// A fault of Baton itself.
    Internal,
    /// This process is overloaded, or is about to end.
    Overloaded,
    /// The store cannot be reached.
    StoreUnavailable,
    /// The run that the caller waited for failed.
    Run(RunCode),
}

impl ProblemCode {
    /// All codes but those of runs.
    #[cfg(test)]
    pub(crate) const ALL: [ProblemCode; 19] = [
        ProblemCode::InvalidRequest,
        ProblemCode::Unauthorized,
        ProblemCode::Forbidden,
        ProblemCode::NotFound,
        ProblemCode::MethodNotAllowed,
        ProblemCode::Conflict,
        ProblemCode::BranchBusy,
        ProblemCode::AlreadyDecided,
        ProblemCode::Finished,
        ProblemCode::Pruned,
        ProblemCode::Cancelled,
        ProblemCode::PayloadTooLarge,
        ProblemCode::UnsupportedMediaType,
        ProblemCode::BadHost,
        ProblemCode::IdempotencyMismatch,
        ProblemCode::RateLimited,
        ProblemCode::Internal,
        ProblemCode::Overloaded,
        ProblemCode::StoreUnavailable,
    ];

    /// The name on the wire.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            ProblemCode::InvalidRequest => "invalid_request",
            ProblemCode::Unauthorized => "unauthorized",
            ProblemCode::Forbidden => "forbidden",
            ProblemCode::NotFound => "not_found",
            ProblemCode::MethodNotAllowed => "method_not_allowed",
            ProblemCode::Conflict => "conflict",
            ProblemCode::BranchBusy => "branch_busy",
            ProblemCode::AlreadyDecided => "already_decided",
            ProblemCode::Finished => "finished",
            ProblemCode::Pruned => "pruned",
            ProblemCode::Cancelled => "cancelled",
            ProblemCode::PayloadTooLarge => "payload_too_large",
            ProblemCode::UnsupportedMediaType => "unsupported_media_type",
            ProblemCode::BadHost => "bad_host",
            ProblemCode::IdempotencyMismatch => "idempotency_mismatch",
            ProblemCode::RateLimited => "rate_limited",
            ProblemCode::Internal => "internal",
            ProblemCode::Overloaded => "overloaded",
            ProblemCode::StoreUnavailable => "store_unavailable",
            ProblemCode::Run(code) => code.as_str(),
        }
    }

    /// The status that goes with it.
    pub(crate) fn status(self) -> StatusCode {
        match self {
            ProblemCode::InvalidRequest => StatusCode::BAD_REQUEST,
            ProblemCode::Unauthorized => StatusCode::UNAUTHORIZED,
            ProblemCode::Forbidden => StatusCode::FORBIDDEN,
            ProblemCode::NotFound => StatusCode::NOT_FOUND,
            ProblemCode::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            ProblemCode::Conflict
            | ProblemCode::BranchBusy
            | ProblemCode::AlreadyDecided
            | ProblemCode::Finished
            | ProblemCode::Pruned
            | ProblemCode::Cancelled => StatusCode::CONFLICT,
            ProblemCode::PayloadTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ProblemCode::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ProblemCode::BadHost => StatusCode::MISDIRECTED_REQUEST,
            ProblemCode::IdempotencyMismatch => StatusCode::UNPROCESSABLE_ENTITY,
            ProblemCode::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            ProblemCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            ProblemCode::Overloaded | ProblemCode::StoreUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            ProblemCode::Run(code) => status_of_run(code),
        }
    }

    /// The title, the same for all problems of a kind.
    pub(crate) fn title(self) -> &'static str {
        match self {
            ProblemCode::InvalidRequest => "The request cannot be understood",
            ProblemCode::Unauthorized => "A token is needed",
            ProblemCode::Forbidden => "This is not allowed",
            ProblemCode::NotFound => "There is no such thing",
            ProblemCode::MethodNotAllowed => "There is no such method here",
            ProblemCode::Conflict => "It does not go together with what there is",
            ProblemCode::BranchBusy => "A run is active on the branch",
            ProblemCode::AlreadyDecided => "Somebody decided already",
            ProblemCode::Finished => "The run has ended",
            ProblemCode::Pruned => "It was thrown away",
            ProblemCode::Cancelled => "The run was cancelled",
            ProblemCode::PayloadTooLarge => "The body is too long",
            ProblemCode::UnsupportedMediaType => "The body has to be JSON",
            ProblemCode::BadHost => "This host is not served here",
            ProblemCode::IdempotencyMismatch => "The key was used before with another body",
            ProblemCode::RateLimited => "Too much at once",
            ProblemCode::Internal => "Something is wrong with Baton",
            ProblemCode::Overloaded => "Baton has enough to do",
            ProblemCode::StoreUnavailable => "The store cannot be reached",
            ProblemCode::Run(_) => "The run failed",
        }
    }
}

fn status_of_run(code: RunCode) -> StatusCode {
    match code {
        RunCode::LlmTimeout | RunCode::Deadline => StatusCode::GATEWAY_TIMEOUT,
        RunCode::LlmInvalidResponse
        | RunCode::LlmConnection
        | RunCode::LlmServer
        | RunCode::LlmRateLimited
        | RunCode::LlmAuth
        | RunCode::Refused
        | RunCode::ContextTooLong => StatusCode::BAD_GATEWAY,
        RunCode::StoreUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// A refusal.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Problem {
    /// The kind.
    pub(crate) code: ProblemCode,
    /// The mistake, and how to correct it.
    pub(crate) detail: String,
    /// Further members.
    pub(crate) more: Map<String, Value>,
    /// Seconds after which the same may work.
    pub(crate) retry_after: Option<u64>,
}

impl Problem {
    /// A problem of a kind.
    pub(crate) fn new(code: ProblemCode, detail: impl Into<String>) -> Problem {
        Problem { code, detail: detail.into(), more: Map::new(), retry_after: None }
    }

    /// There is no such thing, or it belongs to another tenant: the answer does not tell which.
    pub(crate) fn not_found(what: &str) -> Problem {
        Problem::new(ProblemCode::NotFound, format!("there is no such {what}"))
    }

    /// The request cannot be understood.
    pub(crate) fn invalid(detail: impl Into<String>) -> Problem {
        Problem::new(ProblemCode::InvalidRequest, detail)
    }

    /// Adds a further member.
    pub(crate) fn with(mut self, key: &str, value: impl Into<Value>) -> Problem {
        self.more.insert(key.to_owned(), value.into());
        self
    }

    /// Suggests to retry after this many seconds.
    pub(crate) fn after(mut self, seconds: u64) -> Problem {
        self.retry_after = Some(seconds);
        self
    }

    /// The document that is sent.
    pub(crate) fn body(&self) -> Value {
        let mut body = self.more.clone();
        let status = self.code.status().as_u16();
        body.extend([
            ("type".to_owned(), json!(format!("urn:baton:problem:{}", self.code.as_str()))),
            ("title".to_owned(), json!(self.code.title())),
            ("status".to_owned(), json!(status)),
            ("detail".to_owned(), json!(self.detail)),
            ("code".to_owned(), json!(self.code.as_str())),
        ]);
        Value::Object(body)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.code.status(), self.body().to_string()).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.code == ProblemCode::Unauthorized {
            headers.insert("www-authenticate", HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl From<&EngineError> for ProblemCode {
    fn from(error: &EngineError) -> ProblemCode {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::Flow(_) | EngineError::MissingTools { .. } => ProblemCode::Conflict,
            EngineError::BadCursor { .. } | EngineError::Invalid(_) => ProblemCode::InvalidRequest,
            EngineError::KeyMismatch => ProblemCode::IdempotencyMismatch,
            EngineError::AboveMode { .. } | EngineError::Forbidden(_) => ProblemCode::Forbidden,
            EngineError::ShuttingDown => ProblemCode::Overloaded,
        }
    }
}

impl From<&StoreError> for ProblemCode {
    fn from(error: &StoreError) -> ProblemCode {
        match error {
            StoreError::NotFound { .. } | StoreError::Tree(TreeError::NoBranch(_)) => ProblemCode::NotFound,
            StoreError::Tree(TreeError::NoIndex { .. }) => ProblemCode::InvalidRequest,
            StoreError::Order(_)
            | StoreError::Exists { .. }
            | StoreError::Moved { .. }
            | StoreError::Tree(_)
            | StoreError::TooNew { .. }
            | StoreError::KeyUsed(_)
            | StoreError::Held { .. } => ProblemCode::Conflict,
            StoreError::Busy { .. } => ProblemCode::BranchBusy,
            StoreError::AlreadyDecided { .. } => ProblemCode::AlreadyDecided,
            StoreError::Ended { .. } => ProblemCode::Finished,
            // The queue is the caller's own, and the same request works once a run of theirs has ended: that is the
            // meaning of 429. 409 would say that it never will.
            StoreError::QueueFull { .. } | StoreError::Untold { .. } => ProblemCode::RateLimited,
            StoreError::TooLong { .. } => ProblemCode::PayloadTooLarge,
            StoreError::Unavailable(_) | StoreError::Blocked { .. } | StoreError::Ambiguous(_) => {
                ProblemCode::StoreUnavailable
            }
            StoreError::Fenced { .. } | StoreError::Unread { .. } | StoreError::Corrupt { .. } => {
                ProblemCode::Internal
            }
        }
    }
}

/// The further members of a store error's problem.
pub(crate) fn members(error: &StoreError) -> Map<String, Value> {
    let member = match error {
        StoreError::Order(order) => ("expected", order.expected.clone()),
        StoreError::Held { run, .. } | StoreError::Busy { run, .. } => ("run_id", run.to_string()),
        StoreError::AlreadyDecided { status, .. } => ("approval_status", status.as_str().to_owned()),
        StoreError::Ended { status, .. } => ("run_status", status.as_str().to_owned()),
        _ => return Map::new(),
    };
    Map::from_iter([(member.0.to_owned(), member.1.into())])
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Problem {
        let code = ProblemCode::from(&error);
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::AboveMode { most, .. } => {
                let most = most.as_str();
                let detail = format!(
                    "this run is allowed more than this token may allow, which is {most}: use another token"
                );
                Problem::new(code, detail).with("rule", "token.max_mode")
            }
            EngineError::Forbidden(why) => Problem::new(code, why),
            EngineError::ShuttingDown => {
                Problem::new(code, "this process is about to end; try again, another one answers").after(1)
            }
            other => Problem::new(code, other.to_string()),
        }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Problem {
        let (code, words) = (ProblemCode::from(&error), error.to_string());
        match (code, &error) {
            (_, StoreError::NotFound { what, .. }) => Problem::not_found(what),
            (ProblemCode::NotFound, _) => Problem::not_found("branch"),
            (ProblemCode::RateLimited, _) => Problem::new(code, words).after(1),
            (ProblemCode::StoreUnavailable, _) => {
                tracing::warn!(error = words, "the store is not available");
                let detail =
                    "the store cannot be reached at the moment; try again, with the same Idempotency-Key";
                Problem::new(code, detail).after(STORE_RETRY_S)
            }
            (ProblemCode::Internal, _) => internal(&words),
            _ => Problem { more: members(&error), ..Problem::new(code, words) },
        }
    }
}

/// A fault of Baton itself: the log has the details, the answer has not.
pub(crate) fn internal(words: &str) -> Problem {
    tracing::error!(error = words, "a request failed");
    Problem::new(ProblemCode::Internal, "this is a fault of Baton; its log says more")
}

#[cfg(test)]
mod tests;
