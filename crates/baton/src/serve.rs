//! The HTTP service: everything around the handlers.
//!
//! Every request gets the following here, in this order: a bounded connection ([`listen`]), a check that its host and
//! origin are ours ([`guard`]), an authenticated caller ([`auth`]), a bounded body ([`body`]), and an answer that is
//! JSON or a problem ([`problem`]). [`answer`] is the whole path of a request. The routes are in `router.rs`, and each
//! handler is one small file. Nothing here decides which actions a run may take.

pub(crate) mod admission;
pub(crate) mod approvals;
pub(crate) mod auth;
pub(crate) mod body;
pub(crate) mod checkpoints;
pub(crate) mod docs;
pub(crate) mod entries;
pub(crate) mod events;
pub(crate) mod execute;
pub(crate) mod guard;
pub(crate) mod health;
pub(crate) mod key;
pub(crate) mod limits;
pub(crate) mod listen;
pub(crate) mod metrics;
pub(crate) mod network;
pub(crate) mod openapi;
pub(crate) mod page;
pub(crate) mod policy;
pub(crate) mod problem;
pub(crate) mod process;
pub(crate) mod render;
pub(crate) mod requests;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod shapes;
pub(crate) mod space;
pub(crate) mod state;
pub(crate) mod stream;
pub(crate) mod threads;

use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{MatchedPath, Request};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use tower_service::Service as _;

use guard::RequestOrigin;
use problem::{PROBLEM_JSON, Problem, ProblemCode, internal};
use state::Service;

use crate::router::ROUTES;

/// The route label of requests that match no route.
const NO_ROUTE: &str = "-";

/// The connection that a request arrived on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrived {
    /// The local address of the connection.
    pub(crate) local: SocketAddr,
    /// The address of the peer.
    pub(crate) peer: IpAddr,
    /// Whether the connection is one of the reserve, which serves only `/health` and cancels.
    pub(crate) is_reserve: bool,
}

/// Adds a layer that stores the matched route in each response, where [`answer`] finds it for logs and metrics.
pub(crate) fn routes(router: Router) -> Router {
    router.layer(from_fn(async |request: Request, next: Next| {
        let route = request.extensions().get::<MatchedPath>().cloned();
        let mut response = next.run(request).await;
        if let Some(route) = route {
            response.extensions_mut().insert(route);
        }
        response
    }))
}

/// Answers one request: the guard's check, CORS preflight, the handler, and then the headers and the log line of every
/// answer.
pub(crate) async fn answer(
    service: &Service,
    router: &Router,
    arrived: Arrived,
    request: Request<Body>,
) -> Response {
    let (began, method) = (Instant::now(), request.method().clone());
    let (page, response) = match service.guard().judge(&request, arrived.local) {
        Err(problem) => (RequestOrigin::Own, problem.into_response()),
        Ok(page) => {
            let told = guard::preflight(&request, &page);
            let response = match told {
                Some(response) => response,
                None => inside(service, router, arrived, request).await,
            };
            (page, response)
        }
    };
    let mut response = as_problem(response);
    guard::open_to(&page, response.headers_mut());
    finish(response.headers_mut());
    tell(service, &method, &response, began.elapsed());
    response
}

/// The part behind the guard: header limits, authentication, rate limit, disk space, and then the handler.
async fn inside(
    service: &Service,
    router: &Router,
    arrived: Arrived,
    mut request: Request<Body>,
) -> Response {
    let is_health = is_health(&request);
    if request.headers().len() > service.limits().headers {
        let detail = format!("there are more than {} headers: send fewer", service.limits().headers);
        return Problem::invalid(detail).into_response();
    }
    if arrived.is_reserve && !is_health && !is_cancel(&request) {
        let detail = "there are too many connections: try again in a moment";
        let mut response = Problem::new(ProblemCode::Overloaded, detail).after(1).into_response();
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return response;
    }
    match service.auth().caller_from(arrived.peer, request.headers()).await {
        Ok(caller) => {
            if !is_health
                && let Err(problem) =
                    service.admission().request(&caller.tenant, Instant::now(), service.limits())
            {
                return problem.into_response();
            }
            if let Err(problem) = service.room_for(&caller, &request) {
                return problem.into_response();
            }
            request.extensions_mut().insert(caller);
        }
        Err(_) if is_health || is_open(&request) => {}
        Err(problem) => return problem.into_response(),
    }
    // Handlers do not need the token, and without the header none of them can leak it.
    request.headers_mut().remove(header::AUTHORIZATION);
    let answered = AssertUnwindSafe(router.clone().call(request)).catch_unwind().await;
    match answered {
        Ok(Ok(response)) => response,
        Ok(Err(never)) => match never {},
        Err(_) => internal("a handler panicked").into_response(),
    }
}

fn is_health(request: &Request<Body>) -> bool {
    request.uri().path() == "/health" && (request.method() == Method::GET || request.method() == Method::HEAD)
}

/// Whether it reads an open route, one that shows nothing secret.
fn is_open(request: &Request<Body>) -> bool {
    let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
    is_read && ROUTES.iter().any(|route| route.is_open && route.path == request.uri().path())
}

fn is_cancel(request: &Request<Body>) -> bool {
    let path = request.uri().path();
    request.method() == Method::POST && path.starts_with("/v1/runs/") && path.ends_with("/cancel")
}

/// Turns every refusal into a problem, also those that the framework makes by itself.
fn as_problem(response: Response) -> Response {
    let status = response.status();
    let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    if status.as_u16() < 400 || kind == Some(PROBLEM_JSON.as_bytes()) {
        return response;
    }
    let problem = match status {
        StatusCode::NOT_FOUND => Problem::not_found("route: /openapi.json lists those that there are"),
        StatusCode::METHOD_NOT_ALLOWED => {
            let allowed = response.headers().get(header::ALLOW).and_then(|allow| allow.to_str().ok());
            let detail = format!("use one of these methods here: {}", allowed.unwrap_or("GET, POST"));
            Problem::new(ProblemCode::MethodNotAllowed, detail)
        }
        StatusCode::PAYLOAD_TOO_LARGE => Problem::new(ProblemCode::PayloadTooLarge, "the body is too long"),
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Problem::new(ProblemCode::UnsupportedMediaType, "send JSON"),
        status if status.is_client_error() => Problem::invalid("the request cannot be understood"),
        _ => internal("a handler failed"),
    };
    let (parts, _) = response.into_parts();
    let mut told = problem.into_response();
    if let Some(allow) = parts.headers.get(header::ALLOW) {
        told.headers_mut().insert(header::ALLOW, allow.clone());
    }
    *told.extensions_mut() = parts.extensions;
    told
}

/// Adds the headers that every answer has for browsers and caches, unless its handler set them.
fn finish(headers: &mut HeaderMap) {
    let told: [(HeaderName, &str); 2] =
        [(header::CACHE_CONTROL, "no-store"), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    for (name, value) in told {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

/// Logs one line per request and counts it in the metrics: its route, never its path; no body, no token.
fn tell(service: &Service, method: &Method, response: &Response, took: Duration) {
    let route = response.extensions().get::<MatchedPath>();
    let (route, status) = (route.map_or(NO_ROUTE, MatchedPath::as_str), response.status().as_u16());
    // A method can be any word that a caller invents.
    let known = [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::HEAD, Method::OPTIONS];
    let name = if known.contains(method) { method.as_str() } else { "other" };
    service.metrics().answered(name, route, status, took);
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let (run_id, thread_id) = (header("x-run-id"), header("x-thread-id"));
    let (correlation_id, trace_id) = (header("x-correlation-id"), header("x-trace-id"));
    let ms = u64::try_from(took.as_micros()).unwrap_or(u64::MAX) as f64 / 1e3;
    if status >= 400 || !matches!(*method, Method::GET | Method::HEAD) {
        tracing::info!(
            method = name,
            route,
            status,
            ms,
            run_id,
            thread_id,
            correlation_id,
            trace_id,
            "answered"
        );
    } else {
        tracing::debug!(
            method = name,
            route,
            status,
            ms,
            run_id,
            thread_id,
            correlation_id,
            trace_id,
            "answered"
        );
    }
}

#[cfg(test)]
mod tests;
