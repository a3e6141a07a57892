//! The body, the query and the path of a request, each refused with a problem that says how to correct it.
//!
//! A body is JSON, not compressed, of bounded length, and arrives within a deadline. Before a tree is built from it,
//! one pass over its bytes ([`scan`]) refuses the marks of a bomb (deep nesting, huge objects, endless numbers), and
//! duplicate keys, which two programs may read differently. Unknown fields are errors that name the nearest known one;
//! types ask for that themselves, with `#[serde(deny_unknown_fields)]`.

mod scan;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use baton_core::id::{RunId, ThreadId, excerpt};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use super::limits::ServeLimits;
use super::problem::{Problem, ProblemCode};
use super::state::Service;
use crate::config::nearest;

/// The longest error message of the parser that is passed on, in bytes: it may hold the caller's own words.
const MOST_WORDS: usize = 500;

/// A JSON body.
#[derive(Debug, Clone)]
pub(crate) struct Json<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Service> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, service: &Service) -> Result<Json<T>, Problem> {
        let bytes = read(request, service.limits()).await?;
        parse(&bytes).map(Json)
    }
}

/// Reads the bytes of a JSON body, also for handlers that have to hash them.
pub(crate) async fn read(request: Request, limits: &ServeLimits) -> Result<Bytes, Problem> {
    let (parts, body) = request.into_parts();
    is_plain_json(&parts.headers)?;
    let bytes = collect(&parts.headers, body, limits).await?;
    match bytes.trim_ascii_start().first() {
        // A list would be taken for the fields in their order.
        Some(b'[') => Err(Problem::invalid("send one JSON object, not a list")),
        _ => Ok(bytes),
    }
}

/// Parses the bytes of a body.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if let Err(why) = scan::check(bytes) {
        return Err(Problem::invalid(why.to_string()));
    }
    match axum::Json::<T>::from_bytes(bytes) {
        Ok(axum::Json(value)) => Ok(value),
        Err(JsonRejection::JsonDataError(error)) => Err(Problem::invalid(mistake(&error.body_text()))),
        Err(error) => Err(Problem::invalid(mistake(&error.body_text()))),
    }
}

fn is_plain_json(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let refused = |detail: &str| Err(Problem::new(ProblemCode::UnsupportedMediaType, detail));
    if text(CONTENT_ENCODING).is_some_and(|encoding| !encoding.trim().eq_ignore_ascii_case("identity")) {
        return refused("an encoded body is not taken: send it without Content-Encoding");
    }
    let kind = text(CONTENT_TYPE).unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default().trim();
    if headers.get_all(CONTENT_TYPE).iter().count() != 1 || !kind.eq_ignore_ascii_case("application/json") {
        return refused("send the body as JSON, with Content-Type: application/json");
    }
    Ok(())
}

async fn collect(headers: &HeaderMap, body: Body, limits: &ServeLimits) -> Result<Bytes, Problem> {
    let most = limits.body_bytes;
    let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let too_long = || {
        let detail = format!("the body is longer than {most} bytes: send less at once");
        Problem::new(ProblemCode::PayloadTooLarge, detail).with("most_bytes", most)
    };
    let longer = |length: u64| length > most as u64;
    if announced.is_some_and(longer) || longer(body.size_hint().lower()) {
        return Err(too_long());
    }
    let arriving = Limited::new(body, most).collect();
    match tokio::time::timeout(limits.body_deadline, arriving).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_long()),
        Ok(Err(_)) => Err(Problem::invalid("the body ended too early or is not what its headers say")),
        Err(_) => {
            let seconds = limits.body_deadline.as_secs();
            Err(Problem::invalid(format!("the body did not arrive within {seconds} s: send it at once")))
        }
    }
}

/// The query of a URL, behind the `?`.
#[derive(Debug, Clone)]
pub(crate) struct Query<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Query<T>, Problem> {
        let found: Result<axum::extract::Query<T>, QueryRejection> =
            axum::extract::Query::try_from_uri(&parts.uri);
        match found {
            Ok(axum::extract::Query(value)) => Ok(Query(value)),
            Err(error) => Err(Problem::invalid(mistake(&error.body_text()))),
        }
    }
}

/// The parts of a path. A part that cannot be parsed is answered with 404.
#[derive(Debug, Clone)]
pub(crate) struct Path<T>(pub(crate) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Path<T>, Problem> {
        let found = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        found.map(|axum::extract::Path(value)| Path(value)).map_err(|_| Problem::not_found("thing"))
    }
}

/// Parses the run id of a path. Text that cannot be a run id is answered exactly as a missing run.
pub(crate) fn run_id(text: &str) -> Result<RunId, Problem> {
    text.parse().map_err(|_| Problem::not_found("run"))
}

/// Parses the thread id of a path or a body. Users choose these, so a refusal says which ones are allowed.
pub(crate) fn thread_id(text: &str) -> Result<ThreadId, Problem> {
    text.parse().map_err(|error: baton_core::id::BadId| Problem::invalid(error.to_string()))
}

/// The message about a wrong value, with the field that was probably meant.
fn mistake(words: &str) -> String {
    let words = words.split_once(": ").map_or(words, |(_, why)| why);
    let (Some(begins), Some(ends)) = (words.find("unknown field `"), words.rfind("`, expected ")) else {
        return baton_core::json::cut(words, MOST_WORDS).to_owned();
    };
    let (place, name) = (&words[..begins], words.get(begins + "unknown field `".len()..ends));
    let name = name.unwrap_or_default();
    let known: Vec<&str> = words[ends..].split('`').skip(2).step_by(2).collect();
    let place = place.trim_end_matches([':', ' ']);
    // The place ends with the field itself where the parser has reached it.
    let inside = place.strip_suffix(name).unwrap_or(place).trim_end_matches(['.', '?']);
    let whose = if inside.is_empty() { String::new() } else { format!(" in `{}`", excerpt(inside)) };
    let meant = nearest(name, known.iter().copied()).map(|meant| format!("; did you mean `{meant}`?"));
    let (name, meant) = (excerpt(name), meant.unwrap_or_else(|| ".".to_owned()));
    format!("there is no field `{name}`{whose}{meant} There are: {}", known.join(", "))
}

#[cfg(test)]
mod tests;
