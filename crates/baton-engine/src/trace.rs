//! A run as a tree of spans with times, made from stored transitions.
//!
//! It needs no telemetry and works for every run, on any process and with any end. Ids and names are those that
//! telemetry exports. Times are those of transitions: a call lasts from the transition that holds its intent to the
//! first one that no longer does. When a process died is not stored, so its unfinished calls end, as `interrupted`,
//! with the last transition that it committed.

mod build;

use baton_core::id::{RunId, Tenant};
use baton_core::time::Timestamp;
use serde_json::{Map, Value};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::patience::patiently;
use build::{Build, Standing};

/// How many transitions are read at once.
const PAGE: u32 = 128;

/// The trace of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// Its id: the caller's if it gave one, else the run's own.
    pub trace_id: String,
    /// The work of each process on the run, and the waits in between, in order.
    pub spans: Vec<TraceSpan>,
}

/// One span.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSpan {
    /// Its id. A call that was interrupted and ran again has the same one each time; one that was tried
    /// again has one of its own.
    pub span_id: String,
    /// The span's parent.
    pub parent_span_id: Option<String>,
    /// Its name.
    pub name: String,
    /// `internal` or `client`.
    pub kind: &'static str,
    /// When it began.
    pub start: Timestamp,
    /// When it ended; none: it has not.
    pub end: Option<Timestamp>,
    /// Its attributes.
    pub attributes: Map<String, Value>,
    /// Its child spans, in order.
    pub children: Vec<TraceSpan>,
}

impl Engine {
    /// The trace of a run, from its stored transitions.
    pub async fn trace(&self, tenant: &Tenant, run: RunId) -> Result<Trace, EngineError> {
        let (shared, store) = (&self.shared, &self.shared.store);
        let row = patiently!(shared, store.run(tenant, run))?;
        let definition = patiently!(shared, store.definition(tenant, &row.definition))?;
        let is_held = store.is_held(&row).await;
        let last = row.step;
        let mut build = Build::new(&row, &definition);
        let mut read = 0;
        while read < last {
            let page = patiently!(shared, store.steps(tenant, run, read, PAGE))?;
            let Some(newest) = page.last().map(|step| step.step) else { break };
            // Transitions committed after the run was read are left to another trace of it.
            page.iter().filter(|step| step.step <= last).for_each(|step| build.step(step));
            read = newest;
        }
        for claim in patiently!(shared, store.claims(tenant, run))? {
            build.claimed(claim.epoch);
        }
        let standing = Standing { status: row.status, is_held };
        Ok(build.finish(standing))
    }
}
