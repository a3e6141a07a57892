//! A run as a tree of spans with times, made from what is stored.
//!
//! It needs no telemetry and works for every run, whoever drove it and however it ended. Ids and names are
//! those that telemetry exports. Times are those of transitions: a call lasts from the transition that holds
//! its intent to the first one that no longer does. Nobody knows when a process died, so what it was doing
//! ends, as `interrupted`, with the last thing that it committed.

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
    /// Its id: that of whoever started the run, else the run's own.
    pub trace_id: String,
    /// What each process did for the run, and what was waited for in between, in order.
    pub spans: Vec<TraceSpan>,
}

/// One span.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSpan {
    /// Its id. A call that was interrupted and ran again has the same one each time; one that was tried
    /// again has one of its own.
    pub span_id: String,
    /// The span that it is a part of.
    pub parent_span_id: Option<String>,
    /// Its name.
    pub name: String,
    /// `internal` or `client`.
    pub kind: &'static str,
    /// When it began.
    pub start: Timestamp,
    /// When it ended; none: it has not.
    pub end: Option<Timestamp>,
    /// What is known of it.
    pub attributes: Map<String, Value>,
    /// Its parts, in order.
    pub children: Vec<TraceSpan>,
}

impl Engine {
    /// The trace of a run, from what is stored.
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
            // What was committed after the run was read belongs to another look at it.
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
