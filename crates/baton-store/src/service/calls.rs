//! Runs whose tool calls are yet to be told to the audit trail: a queue of runs that were suspended or ended.
//!
//! A run's line of the trail ([`RESTED`]) stays in the outbox after it was sealed, until the calls of its run were derived
//! from its steps. What was derived and how far the queue has been read are one write: a crash loses no row, and
//! doubles none. Of two processes that derive the same page one is refused.

use baton_core::id::{RunId, Tenant};
use serde::Deserialize;

use super::AuditEvent;
use crate::error::StoreError;
use crate::record;

/// The events that put a run into the queue, as a condition on rows of the outbox.
pub(crate) const RESTED: &str =
    "kind IN ('agent.suspended', 'agent.completed', 'agent.failed', 'agent.cancelled') AND NOT external";
/// The one after which the run goes on.
const SUSPENDED: &str = "agent.suspended";
/// Under which the last step of an unfinished run whose calls are in the trail is kept, as a key.
pub(crate) const ROUTE: &str = "audit.calls";

/// A run that was suspended or has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestedRun {
    /// Whose it is.
    pub tenant: Tenant,
    /// The run.
    pub run: RunId,
    /// Whether it has ended.
    pub has_ended: bool,
    /// The hash of its definition; none: the run is gone.
    pub definition: Option<String>,
    /// Whether a person put other arguments in the place of a call's.
    pub was_edited: bool,
    /// The last step whose calls are in the trail.
    pub after: u32,
}

/// The oldest runs of the queue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestedPage {
    /// The runs, oldest first. One that was suspended may be in it more than once.
    pub runs: Vec<RestedRun>,
    /// Where the queue began when it was read.
    pub(crate) from: i64,
    /// The numbers of the rows that it was read from, also of those that could not be read.
    pub(crate) numbers: Vec<i64>,
}

impl RestedPage {
    /// Whether the queue was empty.
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// How many events of the queue it was read from.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }
}

/// What was derived from a page of the queue.
#[derive(Debug, Clone, Default)]
pub struct DerivedCalls {
    /// What the trail is told.
    pub events: Vec<(Tenant, AuditEvent)>,
    /// Up to which step the calls of a run are told by that; none: it has ended, and all are.
    pub told: Vec<(Tenant, RunId, Option<u32>)>,
}

/// Whether the kind of an event puts its run into the queue; and then, whether the run has ended.
pub(crate) fn rests(kind: &str) -> Option<bool> {
    match kind {
        SUSPENDED => Some(false),
        "agent.completed" | "agent.failed" | "agent.cancelled" => Some(true),
        _ => None,
    }
}

/// The run of such an event.
pub(crate) fn run_of(n: i64, body: &[u8], crc: u32) -> Result<RunId, StoreError> {
    #[derive(Deserialize)]
    struct OfRun {
        run_id: RunId,
    }
    record::decode("event", n, body, crc).map(|OfRun { run_id }| run_id)
}
