//! Baton as a context service: `POST /events`.
//!
//! An event that was answered with 202 is on the disk, and will be in the chain. An event sent again under its key is
//! not taken again. The meaning of events, and their right order, are up to the sender.

use axum::extract::State;
use axum::http::StatusCode;
use baton_engine::{Clock, SystemClock};
use baton_store::AuditEvent;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::auth::{Caller, Scope};
use super::key::Keyed;
use super::problem::{Problem, ProblemCode};
use super::state::Service;

/// The longest names that are taken, in characters.
const MOST_CORRELATION: usize = 1024;
const MOST_NAME: usize = 255;

/// The body of `POST /events`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewEvent {
    /// The id that groups events which belong together.
    #[schemars(length(max = 1024), regex(pattern = r"^[^\x00-\x1f\x7f]*$"))]
    pub(crate) correlation_id: String,
    /// The type of the event, as `agent.started`.
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[^\x00-\x1f\x7f]*$"))]
    pub(crate) event_type: String,
    /// The program or service that reports the event.
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[^\x00-\x1f\x7f]*$"))]
    pub(crate) source: String,
    /// The event's own data.
    pub(crate) payload: Value,
}

/// `POST /events`: accepts an event.
pub(crate) async fn receive(
    State(service): State<Service>,
    caller: Caller,
    Keyed { body, key }: Keyed<NewEvent>,
) -> Result<StatusCode, Problem> {
    caller.need(Scope::Run)?;
    let NewEvent { correlation_id, event_type, source, payload } = body;
    within("correlation_id", &correlation_id, 0, MOST_CORRELATION)?;
    within("event_type", &event_type, 1, MOST_NAME)?;
    within("source", &source, 1, MOST_NAME)?;
    let at = SystemClock.now();
    let event =
        AuditEvent { at, correlation: correlation_id, kind: event_type, source, payload, send: false };
    let (store, tenant) = (service.engine().store(), &caller.tenant);
    if store.receive(tenant, event, key.clone()).await? {
        return Ok(StatusCode::ACCEPTED);
    }
    let Some(key) = key else { return Ok(StatusCode::ACCEPTED) };
    match store.key(tenant, &key.route, &key.key, at).await? {
        Some(known) if known.body_hash != key.body_hash => {
            let why = "this Idempotency-Key was used before with another event: choose another key";
            Err(Problem::new(ProblemCode::IdempotencyMismatch, why))
        }
        _ => Ok(StatusCode::ACCEPTED),
    }
}

fn within(field: &str, text: &str, least: usize, most: usize) -> Result<(), Problem> {
    // Control characters would end up in tables and on terminals, and one store cannot keep all of them.
    if (least..=most).contains(&text.chars().count()) && !text.bytes().any(|byte| byte.is_ascii_control()) {
        return Ok(());
    }
    Err(Problem::invalid(format!("`{field}` has {least} to {most} characters, and no control characters")))
}
