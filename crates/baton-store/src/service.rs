//! Values that a service keeps beside threads and runs: idempotency keys, queued runs, outgoing events, the audit chain
//! of all events, API tokens, and the requests and results of garbage collection.
//!
//! This module holds values only. Each store decides how to keep them; their meaning for a request is decided
//! elsewhere.

mod calls;
mod chain;
mod unnamed;

use std::sync::Arc;

use baton_core::id::{BranchName, OwnerId, RunId, Tenant, ThreadId};
use baton_core::json::{canonical, sha256_hex};
use baton_core::policy::Mode;
use baton_core::run::RunStatus;
use baton_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::transition::{NewThread, PinnedDefinition};
pub use calls::{DerivedCalls, RestedPage, RestedRun};
pub(crate) use calls::{RESTED, ROUTE as CALLS_ROUTE, rests, run_of};
pub use chain::{BrokenChain, ChainEnd, Verifier, verify};
pub(crate) use unnamed::Unnamed;

/// An idempotency key, under which a caller begins something only once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// The path of the request: the same key on another path is another key.
    pub route: String,
    /// The key itself, as the caller chose it.
    pub key: String,
    /// Hash of the request body: the same key with another body is a mistake.
    pub body_hash: String,
    /// The moment after which the key is forgotten.
    pub expires_at: Timestamp,
}

/// A stored key that has not expired.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    /// Hash of the request body.
    pub body_hash: String,
    /// The run that the key led to.
    pub run: Option<RunId>,
    /// The owner that works on the request, where the key leads to no run.
    pub owner: Option<OwnerId>,
    /// The stored answer, where the key leads to no run; `None` until the work is done.
    pub answer: Option<Vec<u8>>,
}

/// A run that is queued until its branch is free.
#[derive(Debug, Clone)]
pub struct NewQueued {
    /// Its id.
    pub run: RunId,
    /// Its thread.
    pub thread: ThreadId,
    /// Its branch.
    pub branch: BranchName,
    /// The user's message.
    pub text: String,
    /// The definition that it is pinned to.
    pub definition: Arc<PinnedDefinition>,
    /// When it was requested.
    pub at: Timestamp,
    /// Metadata of the caller, kept with the run.
    pub metadata: Value,
    /// The caller's key.
    pub key: Option<NewKey>,
    /// How many runs may wait for one branch.
    pub most: u32,
    /// Whether it goes before all runs that wait; it is then never refused for a full queue.
    pub first: bool,
    /// The parts of the request that were above the limits, reported when the run begins.
    pub capped: Vec<String>,
    /// The thread, if it is made together with the run.
    pub new_thread: Option<NewThread>,
}

/// The input of a queued run: how it will begin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueuedRun {
    /// The user's message.
    pub text: String,
    /// The parts of the request that were above the limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capped: Vec<String>,
}

impl QueuedRun {
    pub(crate) fn of(new: &NewQueued) -> QueuedRun {
        QueuedRun { text: new.text.clone(), capped: new.capped.clone() }
    }
}

/// An event for the audit trail, and for a service that keeps one elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEvent {
    /// When it happened.
    pub at: Timestamp,
    /// The correlation id: events with the same one belong together.
    pub correlation: String,
    /// The type of the event, as `agent.started`.
    pub kind: String,
    /// The component that reports it.
    pub source: String,
    /// The remaining fields of the event.
    pub payload: Value,
    /// Whether it is to be sent to the context service.
    pub send: bool,
}

impl AuditEvent {
    /// The event that stands in the trail for events that could not be sent and were dropped.
    pub fn dropped(count: u64, at: Timestamp) -> AuditEvent {
        AuditEvent {
            at,
            correlation: String::new(),
            kind: "audit.dropped".to_owned(),
            source: "baton".to_owned(),
            payload: json!({ "dropped": count }),
            send: true,
        }
    }

    /// Adds the policy that was in force before, by its mark.
    pub(crate) fn follows_policy(&mut self, before: &str) {
        self.payload["previous"] = json!(before.trim_start_matches(POLICY_MARK));
    }

    /// The body that services exchange, as its one canonical text.
    pub fn body(&self) -> String {
        let AuditEvent { correlation, kind, source, payload, .. } = self;
        canonical(&Body { correlation_id: correlation, event_type: kind, payload, source })
    }

    /// The digest that the chain holds of the event: the hash of its body.
    pub fn digest(&self) -> String {
        sha256_hex(self.body().as_bytes())
    }
}

/// See [`AuditEvent::body`]. Its fields stand in the order of their names, as in every canonical text.
#[derive(Serialize)]
struct Body<'a> {
    correlation_id: &'a str,
    event_type: &'a str,
    payload: &'a Value,
    source: &'a str,
}

/// The prefix of a policy's mark.
const POLICY_MARK: &str = "policy:";

/// The mark of the policy with this hash.
pub(crate) fn policy_mark(hash: &str) -> String {
    format!("{POLICY_MARK}{hash}")
}

/// The limit up to which unsent events are counted: a larger number is too many all the same.
pub const OUTBOX_COUNTED: u32 = 100_000;

/// An event that is to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Outgoing {
    /// Its number. Events of one correlation id are sent in this order.
    pub n: i64,
    /// The tenant that it belongs to.
    pub tenant: Tenant,
    /// The event.
    pub event: AuditEvent,
}

/// One row of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRow {
    /// Its position, from 1, without gaps.
    pub n: i64,
    /// The tenant that it belongs to.
    pub tenant: Tenant,
    /// When it happened.
    pub at: Timestamp,
    /// The correlation id.
    pub correlation: String,
    /// The type of the event.
    pub kind: String,
    /// The component that reported it.
    pub source: String,
    /// Whether it came from outside, by `POST /events`; `None` if it was sealed by a version that did not record that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<bool>,
    /// [`AuditEvent::digest`].
    pub digest: String,
    /// The seal of the row before; [`AuditRow::FIRST`] for the first row.
    pub prev: String,
    /// [`AuditRow::hash`] at the time of sealing: a row that was changed later no longer has this hash.
    pub seal: String,
}

impl AuditRow {
    /// The `prev` of the first row.
    pub const FIRST: &'static str = "0000000000000000000000000000000000000000000000000000000000000000";

    /// Turns an event into the next row of a chain, and moves the chain's end to it.
    pub(crate) fn sealed(end: &mut ChainEnd, event: Unsealed) -> AuditRow {
        let Unsealed { tenant, at, correlation, kind, source, external, digest, .. } = event;
        let (n, prev, seal) = (end.rows + 1, end.head.clone(), String::new());
        let external = Some(external);
        let mut row = AuditRow { n, tenant, at, correlation, kind, source, external, digest, prev, seal };
        row.seal = row.hash();
        *end = ChainEnd { rows: n, head: row.seal.clone() };
        row
    }

    /// The hash that the next row names; it vouches for this row and all before it. A row from before `external` was
    /// recorded has the hash that it had then.
    pub fn hash(&self) -> String {
        let AuditRow { n, tenant, at, correlation, kind, source, external, digest, prev, seal: _ } = self;
        let (tenant, at) = (tenant.as_str(), at.0);
        let text = match external {
            Some(external) => canonical(&(n, tenant, at, correlation, kind, source, digest, prev, external)),
            None => canonical(&(n, tenant, at, correlation, kind, source, digest, prev)),
        };
        sha256_hex(text.as_bytes())
    }
}

/// The fields of an event that go into the chain, before it is sealed.
#[derive(Debug, Clone)]
pub(crate) struct Unsealed {
    /// Its number in the outbox.
    pub(crate) n: i64,
    pub(crate) tenant: Tenant,
    pub(crate) at: Timestamp,
    pub(crate) correlation: String,
    pub(crate) kind: String,
    pub(crate) source: String,
    pub(crate) external: bool,
    pub(crate) digest: String,
}

/// An API token as stored: its hash and its rights, not the token itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// The id by which it is named.
    pub id: String,
    /// SHA-256 of the token, in hexadecimal.
    pub hash: String,
    /// The tenant whose data it opens.
    pub tenant: Tenant,
    /// A name given by the operator who made it.
    pub name: String,
    /// Its scopes: `run`, `read`, `approve`, `admin`.
    pub scopes: Vec<String>,
    /// The highest mode that it may give an agent.
    pub max_mode: Mode,
    /// The agents that it may use; all, if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// When it was made.
    pub created: Timestamp,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// The limits of a garbage collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcRequest {
    /// The present time: threads past their time to live and expired keys are removed.
    pub now: Timestamp,
    /// Runs that ended before this are removed with their logs; the entries of their threads stay.
    pub runs_before: Option<Timestamp>,
    /// Long outputs that were not touched since then, and that no entry names, are removed.
    pub blobs_before: Option<Timestamp>,
    /// Only count, and remove nothing.
    pub dry_run: bool,
}

/// The fields that audit events of removed threads have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrailSource {
    /// The component that reports it.
    pub source: String,
    /// The user or component that removes the threads.
    pub by: String,
    /// Whether the events are also sent to the context service.
    pub send: bool,
}

impl TrailSource {
    /// The audit event of a thread that is removed with its runs.
    pub fn thread_deleted(&self, at: Timestamp, id: &ThreadId) -> AuditEvent {
        AuditEvent {
            at,
            correlation: id.to_string(),
            kind: "thread.deleted".to_owned(),
            source: self.source.clone(),
            payload: json!({"thread_id": id, "by": self.by, "at": at}),
            send: self.send,
        }
    }
}

/// Counts of a garbage collection: rows that were removed, or would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Collected {
    /// Threads past their time to live, with everything on them.
    pub threads: u64,
    /// Runs.
    pub runs: u64,
    /// Long outputs.
    pub blobs: u64,
    /// The size of those outputs, in bytes.
    pub blob_bytes: u64,
    /// Expired idempotency keys.
    pub keys: u64,
}

/// The progress of a run: all that a watcher in another process has to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The run.
    pub run: RunId,
    /// The epoch of its present claim.
    pub epoch: u32,
    /// The number of its last committed event.
    pub seq: u64,
    /// Its status.
    pub status: RunStatus,
}
