//! `GET /health`: whether this process can serve.
//!
//! The store is asked at most once a second, and has a second to answer. Who is not known is told no more than whether it
//! works.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use baton_store::Store;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Mutex;

use super::auth::Caller;
use super::problem::{Code, Problem};
use super::state::Service;
use crate::models::Chosen;

/// How long an answer of the store counts.
const FRESH: Duration = Duration::from_secs(1);
/// How long the store has to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// How this process is doing.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Health {
    /// `ok`, or `degraded` while the store does not answer.
    pub(crate) status: &'static str,
    /// The version of Baton.
    pub(crate) version: &'static str,
    /// Where things are kept, and whether it answers: `sqlite`, `postgresql`, or `unavailable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) store: Option<&'static str>,
    /// Who may answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) models: Option<Vec<String>>,
    /// Seconds since it began to serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uptime_s: Option<u64>,
}

/// The last answer of the store.
#[derive(Debug, Default)]
pub(crate) struct Probe(Mutex<Option<(Instant, bool)>>);

impl Probe {
    /// Whether the store answers. Many who ask at once ask it once.
    pub(crate) async fn is_up(&self, store: &Store) -> bool {
        let mut last = self.0.lock().await;
        if let Some((at, up)) = *last
            && at.elapsed() < FRESH
        {
            return up;
        }
        let answered = tokio::time::timeout(PATIENCE, store.tokens()).await;
        let up = matches!(answered, Ok(Ok(_)));
        *last = Some((Instant::now(), up));
        up
    }
}

/// `GET /health`.
pub(crate) async fn health(State(service): State<Service>, request: Request) -> Response {
    if service.closing().is_cancelled() {
        return Problem::new(Code::Overloaded, "this process is about to end").after(1).into_response();
    }
    let up = service.probe().is_up(service.store()).await;
    let status = if up { "ok" } else { "degraded" };
    let mut health =
        Health { status, version: env!("CARGO_PKG_VERSION"), store: None, models: None, uptime_s: None };
    if request.extensions().get::<Caller>().is_some() {
        health.store = Some(if up { kind(service.store()) } else { "unavailable" });
        health.models = Some(answering(&service.chosen()));
        health.uptime_s = Some(service.uptime().as_secs());
    }
    Json(health).into_response()
}

/// What a store is called.
pub(crate) fn kind(store: &Store) -> &'static str {
    match store {
        Store::Memory(_) => "memory",
        Store::Sqlite(_) => "sqlite",
        Store::Postgres(_) => "postgresql",
        #[cfg(feature = "failpoints")]
        Store::Faulty(_) => "faulty",
    }
}

/// Everybody who may answer, once each.
fn answering(chosen: &Chosen) -> Vec<String> {
    let candidates = chosen.roles.values().flatten().map(|candidate| candidate.model.clone());
    candidates.chain([chosen.model.clone()]).collect::<BTreeSet<_>>().into_iter().collect()
}
