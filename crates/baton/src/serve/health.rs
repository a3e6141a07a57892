//! `GET /health`: whether this process can serve.
//!
//! The store is queried at most once a second, and has a second to answer; a small write is made every ten seconds, and
//! every second while that fails. A caller who is not known learns only whether it works.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use baton_core::id::Tenant;
use baton_core::run::RunStatus;
use baton_core::time::Timestamp;
use baton_engine::{Clock, SystemClock};
use baton_store::{NewKey, RunFilter, Store, StoreError};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Mutex;

use super::auth::{Caller, Scope};
use super::problem::{Problem, ProblemCode};
use super::space;
use super::state::Service;
use crate::models::Chosen;

/// How long an answer of the store is reused.
const FRESH: Duration = Duration::from_secs(1);
/// How long the store has to answer.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a successful write counts. A failed one is repeated at the next check.
const WRITTEN: Duration = Duration::from_secs(10);
/// The most waiting runs that are counted.
const COUNTED: u32 = 1000;

/// The row that is written to test whether writes work: one per process.
const ROUTE: &str = "health";
/// The time after which that row may be removed, along with those of requests.
const EXPIRES_MS: i64 = 24 * 60 * 60 * 1000;

/// The health of this process.
#[derive(Debug, Clone, PartialEq, Default, Serialize, JsonSchema)]
pub(crate) struct Health {
    /// `ok`, or `degraded` while the store does not answer or cannot be written to, or its disk is almost full.
    pub(crate) status: &'static str,
    /// The version of Baton.
    pub(crate) version: &'static str,
    /// The kind of store, and whether it answers: `sqlite`, `postgresql`, or `unavailable`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) store: Option<&'static str>,
    /// Why it is degraded, and how to fix it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
    /// The models that may answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) models: Option<Vec<String>>,
    /// The work of the caller's tenant that is in progress or waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) queue: Option<QueueHealth>,
    /// Disk space, free and used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sizes: Option<Sizes>,
    /// Seconds since it began to serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uptime_s: Option<u64>,
}

/// The work of a tenant that is in progress or waits.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Queue")]
pub(crate) struct QueueHealth {
    /// Runs that this process drives, and calls that it makes.
    pub(crate) running: u64,
    /// Runs that wait for their branch, counted up to 1000.
    pub(crate) runs: usize,
    /// Calls of this process that wait for a free slot of their model.
    pub(crate) model_calls: usize,
    /// Events of all tenants that wait for the context service, counted up to 100000; for the scope `admin` alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) outbox: Option<u64>,
}

/// Disk space, free and used, in bytes.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Sizes {
    /// The database of all tenants.
    pub(crate) database: u64,
    /// Free bytes on the disk of the data folder; absent with PostgreSQL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) free: Option<u64>,
}

/// The last result of the store check.
#[derive(Debug, Default)]
pub(crate) struct Probe(Mutex<Last>);

#[derive(Debug, Default)]
struct Last {
    asked: Option<Instant>,
    written: Option<Instant>,
    state: StoreState,
}

/// The state of the store.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct StoreState {
    /// Whether it answers.
    pub(crate) is_up: bool,
    /// The fault, and how to fix it.
    pub(crate) why: Option<String>,
    /// Free bytes on its disk.
    pub(crate) free: Option<u64>,
}

impl Probe {
    /// The state of the store. Concurrent callers share one query.
    pub(crate) async fn state(&self, service: &Service) -> StoreState {
        let mut last = self.0.lock().await;
        if last.asked.is_some_and(|at| at.elapsed() < FRESH) {
            return last.state.clone();
        }
        let answered = tokio::time::timeout(PATIENCE, service.store().tokens()).await;
        let is_up = matches!(answered, Ok(Ok(_)));
        let free = space::free(service.app());
        let mut why = (!is_up).then(|| "the store does not answer".to_owned());
        if is_up && last.written.is_none_or(|at| at.elapsed() >= WRITTEN) {
            why = write(service).await.err();
            last.written = why.is_none().then(Instant::now);
        }
        let why = why.or_else(|| free.and_then(|free| low(free, service.limits().low_space)));
        last.asked = Some(Instant::now());
        last.state = StoreState { is_up, why, free };
        last.state.clone()
    }
}

/// Makes a small write, so that a full disk or a store that cannot be written to is noticed before a run needs it.
async fn write(service: &Service) -> Result<(), String> {
    let (store, tenant, me) = (service.store(), Tenant::local(), service.engine().owner());
    let writing = async {
        let key = me.0.to_string();
        if store.retake_key(&tenant, ROUTE, &key, me, me).await? {
            return Ok(());
        }
        let now = SystemClock.now();
        let expires_at = Timestamp(now.0 + EXPIRES_MS);
        let new = NewKey { route: ROUTE.to_owned(), key, body_hash: String::new(), expires_at };
        store.begin_key(&tenant, &new, None, Some(me), now).await.map(drop)
    };
    match tokio::time::timeout(PATIENCE, writing).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err("the store takes longer than a second to write".to_owned()),
    }
}

/// The message about low disk space, if it is low.
fn low(free: u64, limit: u64) -> Option<String> {
    (free < limit).then(|| {
        let (free, limit) = (free >> 20, limit >> 20);
        format!(
            "{free} MiB are free on the disk of the data folder, less than {limit} (serve.low_space_mb): make room, or move the data"
        )
    })
}

/// `GET /health`.
pub(crate) async fn health(State(service): State<Service>, request: Request) -> Response {
    if service.closing().is_cancelled() {
        return Problem::new(ProblemCode::Overloaded, "this process is about to end")
            .after(1)
            .into_response();
    }
    let state = service.probe().state(&service).await;
    let status = if state.why.is_none() { "ok" } else { "degraded" };
    let mut health = Health { status, version: env!("CARGO_PKG_VERSION"), ..Health::default() };
    if let Some(caller) = request.extensions().get::<Caller>() {
        health.store = Some(if state.is_up { kind(service.store()) } else { "unavailable" });
        health.models = Some(answering(&service.chosen()));
        health.uptime_s = Some(service.uptime().as_secs());
        health.queue = queue(&service, caller).await;
        health.sizes = sizes(&service, state.free).await;
        health.why = state.why;
    }
    Json(health).into_response()
}

/// The work of the caller's tenant; none if the store does not answer.
async fn queue(service: &Service, caller: &Caller) -> Option<QueueHealth> {
    let waiting = RunFilter { status: Some(RunStatus::Queued), limit: COUNTED, ..RunFilter::default() };
    let store = service.store();
    let counting = async {
        let runs = store.runs(&caller.tenant, &waiting).await?.len();
        let outbox = match caller.need(Scope::Admin) {
            Ok(()) => Some(store.outbox_depth().await?),
            Err(_) => None,
        };
        Ok::<_, StoreError>((runs, outbox))
    };
    let (runs, outbox) = tokio::time::timeout(PATIENCE, counting).await.ok()?.ok()?;
    let running = service.engine().load(&caller.tenant).own;
    let model_calls = service.app().models.waiting(&caller.tenant);
    Some(QueueHealth { running, runs, model_calls, outbox })
}

/// The used and free disk space; none if the store does not answer.
async fn sizes(service: &Service, free: Option<u64>) -> Option<Sizes> {
    let database = tokio::time::timeout(PATIENCE, service.store().size()).await.ok()?.ok()?;
    Some(Sizes { database, free })
}

/// The name of a store's kind.
pub(crate) fn kind(store: &Store) -> &'static str {
    match store {
        Store::Memory(_) => "memory",
        Store::Sqlite(_) => "sqlite",
        Store::Postgres(_) => "postgresql",
        #[cfg(feature = "failpoints")]
        Store::Faulty(_) => "faulty",
    }
}

/// All models that may answer, once each.
fn answering(chosen: &Chosen) -> Vec<String> {
    let candidates = chosen.roles.values().flatten().map(|candidate| candidate.model.clone());
    candidates.chain([chosen.model.clone()]).collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_room_is_told_until_there_is_more() {
        let limit = 256 << 20;
        let why = "12 MiB are free on the disk of the data folder, less than 256 (serve.low_space_mb): make room, or move the data";
        assert_eq!(low(12 << 20, limit), Some(why.to_owned()));
        assert_eq!((low(limit, limit), low(0, 0)), (None, None));
    }
}
