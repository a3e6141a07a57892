//! The values that are written: a transition, which is the one write of a run, and the runs and threads that begin.

use std::sync::Arc;

use baton_core::budget::Budget;
use baton_core::effect::Effect;
use baton_core::event::Event;
use baton_core::flow::{FlowRecord, NextAction, Node, WaitingOn};
use baton_core::id::{BranchName, FramePath, OwnerId, RunId, ThreadId};
use baton_core::json::{canonical, sha256_hex};
use baton_core::run::{Approval, ApprovalStatus, Definition, RunStatus, Step};
use baton_core::thread::{NewEntry, Tail};
use baton_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::service::{AuditEvent, NewKey};
use crate::threads::FirstMarked;

/// One atomic, fenced write of a run: everything that one input led to.
#[derive(Debug, Clone)]
pub struct Transition {
    /// The run.
    pub run: RunId,
    /// The thread that it writes to.
    pub thread: ThreadId,
    /// The lane that it writes to.
    pub lane: u32,
    /// The claim under which it writes.
    pub epoch: u32,
    /// Which transition of the run this is, from 1.
    pub step: u32,
    /// The frame that changed.
    pub frame: FramePath,
    /// The entries that it appends.
    pub entries: Vec<NewEntry>,
    /// The number of the run's last event afterwards.
    pub last_seq: u64,
    /// The state from which the run goes on after a crash.
    pub checkpoint: Checkpoint,
    /// Commits only if exactly this many messages were ever posted; `None`: any number.
    pub inbox: Option<u32>,
    /// Whether an outcome was recorded, so that the run is making progress.
    pub progress: bool,
    /// The approvals that it requests.
    pub asked: Vec<Approval>,
    /// The approvals that it closes.
    pub settled: Vec<(String, ApprovalStatus)>,
    /// The events that it adds to the audit trail.
    pub audit: Vec<AuditEvent>,
    /// The status in which it leaves the run.
    pub rest: RunHalt,
}

impl Transition {
    /// The first of its entries with untrusted content, and with private data.
    pub(crate) fn first_marked(&self) -> FirstMarked {
        let first = self.checkpoint.head - self.entries.len() as i64 + 1;
        FirstMarked::among(first, self.entries.iter().map(|new| &new.entry))
    }
}

/// The status in which a transition leaves its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunHalt {
    /// The run goes on.
    Running,
    /// The run waits for approvals or a moment, and has no owner.
    Suspended {
        /// When it goes on by itself.
        wake_at: Timestamp,
    },
    /// The run has ended.
    Ended(RunStatus),
}

/// The state from which a run goes on after a crash, and its events since the checkpoint before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// The version of this record.
    pub v: u32,
    /// When it was made.
    pub at: Timestamp,
    /// The present node of the graph.
    pub node: Node,
    /// The next action of the graph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_action: Option<NextAction>,
    /// The flow's state.
    pub state: FlowRecord,
    /// Effects that have started and have no outcome.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_flight: Vec<Intent>,
    /// How many messages of the inbox were applied.
    pub inbox_read: u32,
    /// The index of the branch's last entry.
    pub head: i64,
    /// The usage of the run so far.
    pub budget: Budget,
    /// The end of the branch.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tail: Tail,
    /// The approvals and questions that it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingOn>,
    /// The run's account of its own steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub account: Vec<Step>,
    /// The events, in order. Stored in blocks.
    #[serde(with = "crate::record::blocks")]
    pub events: Vec<Event>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// The version of [`Checkpoint`]. Version 2 knows the event `history_cut` and model calls by rung, version 3
/// model calls for a choice, a check or a revision, tool calls that run again, and errors in the budget.
pub const CHECKPOINT_VERSION: u32 = 3;

/// An effect that was allowed to start.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intent {
    /// The effect.
    pub effect: Effect,
    /// Which try of the engine this is, from 1.
    pub attempt: u32,
    /// Whether some of its text was stored already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shown: bool,
}

/// A definition, and the hash of its canonical text, under which it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct PinnedDefinition {
    /// The definition.
    pub definition: Arc<Definition>,
    /// SHA-256, in hexadecimal.
    pub hash: String,
}

impl PinnedDefinition {
    /// Hashes a definition.
    pub fn new(definition: Definition) -> Arc<PinnedDefinition> {
        let text = canonical(&serde_json::to_value(&definition).unwrap_or_default());
        Arc::new(PinnedDefinition { hash: sha256_hex(text.as_bytes()), definition: Arc::new(definition) })
    }
}

/// A run that is about to begin.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// The owner that will hold it.
    pub owner: OwnerId,
    /// Its branch.
    pub branch: BranchName,
    /// The index of the branch's last entry when the first transition was made.
    pub expected_head: i64,
    /// The run that wrote that entry; `None`: any run, or none.
    pub after: Option<RunId>,
    /// The definition that it is pinned to.
    pub definition: Arc<PinnedDefinition>,
    /// When it begins.
    pub at: Timestamp,
    /// Metadata of the caller, kept with the run.
    pub metadata: Value,
    /// The thread, if it is made together with the run.
    pub new_thread: Option<NewThread>,
    /// The lane that the branch may extend, as [`BranchEnd`](crate::BranchEnd) had it.
    pub lane: Option<u32>,
    /// The caller's key.
    pub key: Option<NewKey>,
    /// Whether it was queued: then its row exists already, and it can begin only once. A first transition that ends it
    /// takes no branch.
    pub queued: bool,
}

/// A thread that is about to begin.
#[derive(Debug, Clone, PartialEq)]
pub struct NewThread {
    /// Its id.
    pub id: ThreadId,
    /// When it begins.
    pub at: Timestamp,
    /// When it may be removed automatically.
    pub ttl_at: Option<Timestamp>,
    /// Metadata of the caller.
    pub meta: Value,
}
