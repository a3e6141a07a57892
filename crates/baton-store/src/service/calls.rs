//! The queue of runs that were suspended or ended, and whose tool calls are not in the audit trail yet.
//!
//! A run's event in the trail ([`RESTED`]) stays in the outbox after it was sealed, until the tool calls of its run
//! were derived from its steps. The derived calls and the position in the queue are stored in one write: a crash loses
//! no row, and doubles none. Of two processes that derive the same page one is refused.

use baton_core::id::{RunId, Tenant};
use serde::Deserialize;

use super::AuditEvent;
use crate::error::StoreError;
use crate::record;

/// The events that put a run into the queue, as a condition on rows of the outbox.
pub(crate) const RESTED: &str =
    "kind IN ('agent.suspended', 'agent.completed', 'agent.failed', 'agent.cancelled') AND NOT external";
/// The event after which the run can go on.
const SUSPENDED: &str = "agent.suspended";
/// The route of the keys that hold the last step of an unfinished run whose calls are in the trail.
pub(crate) const ROUTE: &str = "audit.calls";

/// A run that was suspended or has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestedRun {
    /// The tenant that it belongs to.
    pub tenant: Tenant,
    /// The run.
    pub run: RunId,
    /// Whether it has ended.
    pub has_ended: bool,
    /// The hash of its definition; `None` if the run was removed.
    pub definition: Option<String>,
    /// Whether a user replaced the arguments of one of its calls.
    pub was_edited: bool,
    /// The last step whose calls are in the trail.
    pub after: u32,
}

/// A page of the oldest runs of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestedPage {
    /// The runs, oldest first. One that was suspended may be in it more than once.
    pub runs: Vec<RestedRun>,
    /// The position of the queue when it was read.
    pub(crate) from: i64,
    /// The numbers of the rows that were read, including those that could not be decoded.
    pub(crate) numbers: Vec<i64>,
}

impl RestedPage {
    /// Whether the queue was empty.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The number of events of the queue in this page.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }
}

/// The tool calls that were derived from a page of the queue.
#[derive(Debug, Clone, Default)]
pub struct DerivedCalls {
    /// The events for the trail.
    pub events: Vec<(Tenant, AuditEvent)>,
    /// For each run, the step up to which its calls are in the trail with these events; `None` if it has ended: then
    /// all are.
    pub told: Vec<(Tenant, RunId, Option<u32>)>,
}

/// Whether an event of this kind puts its run into the queue; if so, whether the run has ended.
pub(crate) fn rests(kind: &str) -> Option<bool> {
    match kind {
        SUSPENDED => Some(false),
        "agent.completed" | "agent.failed" | "agent.cancelled" => Some(true),
        _ => None,
    }
}

/// Reads the run of such an event.
pub(crate) fn run_of(n: i64, body: &[u8], crc: u32) -> Result<RunId, StoreError> {
    #[derive(Deserialize)]
    struct OfRun {
        run_id: RunId,
    }
    record::decode("event", n, body, crc).map(|OfRun { run_id }| run_id)
}
