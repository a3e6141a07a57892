//! What is written: the one write of a run, and what begins it.

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

/// One atomic, fenced write: everything that one input led to.
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
    /// What is appended.
    pub entries: Vec<NewEntry>,
    /// The number of the run's last event afterwards.
    pub last_seq: u64,
    /// What is kept to go on from.
    pub checkpoint: Checkpoint,
    /// Commits only if this many messages were ever posted; absent: whatever was posted.
    pub inbox: Option<u32>,
    /// Whether an outcome was recorded: the run is making progress.
    pub progress: bool,
    /// What people are asked.
    pub asked: Vec<Approval>,
    /// What is no longer asked.
    pub settled: Vec<(String, ApprovalStatus)>,
    /// What the audit trail says of it.
    pub audit: Vec<AuditEvent>,
    /// How the run stands afterwards.
    pub rest: Rest,
}

impl Transition {
    /// The first of its entries with untrusted content, and with private data.
    pub(crate) fn first_marked(&self) -> FirstMarked {
        let first = self.checkpoint.head - self.entries.len() as i64 + 1;
        FirstMarked::among(first, self.entries.iter().map(|new| &new.entry))
    }
}

/// How a run stands after a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// It goes on.
    Running,
    /// It waits for people or a moment, and nobody holds it.
    Suspended {
        /// When it goes on by itself.
        wake_at: Timestamp,
    },
    /// It is over.
    Ended(RunStatus),
}

/// Everything that is needed to go on after a crash, and what happened since the last one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// The version of this record.
    pub v: u32,
    /// When.
    pub at: Timestamp,
    /// Where in the graph.
    pub node: Node,
    /// What the graph does next.
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
    /// What the run has used.
    pub budget: Budget,
    /// The end of the branch.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tail: Tail,
    /// The people that it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingOn>,
    /// What the run says of itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub account: Vec<Step>,
    /// What happened, in order. Stored in blocks.
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
    /// What.
    pub effect: Effect,
    /// Which try of the engine this is, from 1.
    pub attempt: u32,
    /// Whether text of it was stored already.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shown: bool,
}

/// A definition and the hash that it is stored under: of its one canonical text.
#[derive(Debug, Clone, PartialEq)]
pub struct Pinned {
    /// What runs are pinned to.
    pub definition: Arc<Definition>,
    /// SHA-256, in hexadecimal.
    pub hash: String,
}

impl Pinned {
    /// Hashes a definition.
    pub fn new(definition: Definition) -> Arc<Pinned> {
        let text = canonical(&serde_json::to_value(&definition).unwrap_or_default());
        Arc::new(Pinned { hash: sha256_hex(text.as_bytes()), definition: Arc::new(definition) })
    }
}

/// A run that is about to begin.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Who holds it.
    pub owner: OwnerId,
    /// On which branch.
    pub branch: BranchName,
    /// The index of the branch's last entry when the first transition was made.
    pub expected_head: i64,
    /// The run that wrote that entry; absent: whoever did.
    pub after: Option<RunId>,
    /// What it is pinned to.
    pub definition: Arc<Pinned>,
    /// When.
    pub at: Timestamp,
    /// Free remarks of the caller, kept with the run.
    pub metadata: Value,
    /// The thread, if it is made together with the run.
    pub new_thread: Option<NewThread>,
    /// The lane that the branch may extend, as [`BranchEnd`](crate::BranchEnd) had it.
    pub lane: Option<u32>,
    /// The caller's key.
    pub key: Option<NewKey>,
    /// Whether it waited for its turn: then its row is there, and is begun only once. A first transition that
    /// ends it takes no branch.
    pub queued: bool,
}

/// A thread that is about to begin.
#[derive(Debug, Clone, PartialEq)]
pub struct NewThread {
    /// Its id.
    pub id: ThreadId,
    /// When.
    pub at: Timestamp,
    /// When it may be removed by itself.
    pub ttl_at: Option<Timestamp>,
    /// Free remarks.
    pub meta: Value,
}
