//! What a service keeps beside threads and runs: keys of requests, runs that wait for their turn, events for
//! other services and the chain of all of them, tokens, and what is thrown away in the end.
//!
//! Values only. How they are kept is each store's; what they mean for a request is decided elsewhere.

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

use crate::transition::{NewThread, Pinned};
pub use calls::{DerivedCalls, RestedPage, RestedRun};
pub(crate) use calls::{RESTED, ROUTE as CALLS_ROUTE, rests, run_of};
pub use chain::{BrokenChain, ChainEnd, Verifier, verify};
pub(crate) use unnamed::Unnamed;

/// A key under which a caller begins something only once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    /// The path that it was sent to: keys of different paths are different.
    pub route: String,
    /// What the caller chose.
    pub key: String,
    /// What came with it, as a hash: another body under the same key is a mistake.
    pub body_hash: String,
    /// When it is forgotten.
    pub expires_at: Timestamp,
}

/// What is known of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRow {
    /// What came with it.
    pub body_hash: String,
    /// The run that it led to.
    pub run: Option<RunId>,
    /// Who works on it, where it leads to no run.
    pub owner: Option<OwnerId>,
    /// What came of it, where it leads to no run; none: nobody said yet.
    pub answer: Option<Vec<u8>>,
}

/// A run that waits until its branch is free.
#[derive(Debug, Clone)]
pub struct NewQueued {
    /// Its id.
    pub run: RunId,
    /// On which thread.
    pub thread: ThreadId,
    /// On which branch.
    pub branch: BranchName,
    /// What was said.
    pub text: String,
    /// What it is pinned to.
    pub definition: Arc<Pinned>,
    /// When it was asked for.
    pub at: Timestamp,
    /// Free remarks of the caller, kept with the run.
    pub metadata: Value,
    /// The caller's key.
    pub key: Option<NewKey>,
    /// How many may wait for one branch.
    pub most: u32,
    /// Whether it goes before everybody who waits; it is then never one too many.
    pub first: bool,
    /// What of the request was above what is allowed, told when the run begins.
    pub capped: Vec<String>,
    /// The thread, if it is made together with the run.
    pub new_thread: Option<NewThread>,
}

/// What a run that waits for its turn will begin with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueuedRun {
    /// What was said.
    pub text: String,
    /// What of the request was above what is allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capped: Vec<String>,
}

impl QueuedRun {
    pub(crate) fn of(new: &NewQueued) -> QueuedRun {
        QueuedRun { text: new.text.clone(), capped: new.capped.clone() }
    }
}

/// Something that happened, for the audit trail and for whoever keeps one elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEvent {
    /// When.
    pub at: Timestamp,
    /// What belongs together.
    pub correlation: String,
    /// What happened, as `agent.started`.
    pub kind: String,
    /// Who says so.
    pub source: String,
    /// The rest.
    pub payload: Value,
    /// Whether it is to be sent to the context service.
    pub send: bool,
}

impl AuditEvent {
    /// What stands in the trail where events were dropped that could not be sent.
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

    /// Adds the policy that held before, by its mark.
    pub(crate) fn follows_policy(&mut self, before: &str) {
        self.payload["previous"] = json!(before.trim_start_matches(POLICY_MARK));
    }

    /// The body that services exchange.
    pub fn body(&self) -> Value {
        json!({
            "correlation_id": self.correlation, "event_type": self.kind, "source": self.source,
            "payload": self.payload,
        })
    }

    /// The digest that the chain holds of it: of the one canonical text of its body.
    pub fn digest(&self) -> String {
        sha256_hex(canonical(&self.body()).as_bytes())
    }
}

/// How the mark of a policy begins.
const POLICY_MARK: &str = "policy:";

/// The mark of the policy with this hash.
pub(crate) fn policy_mark(hash: &str) -> String {
    format!("{POLICY_MARK}{hash}")
}

/// Up to how many unsent events are counted: more is too many all the same.
pub const OUTBOX_COUNTED: u32 = 100_000;

/// An event on its way.
#[derive(Debug, Clone, PartialEq)]
pub struct Outgoing {
    /// Its number; the order in which those of one correlation id are sent.
    pub n: i64,
    /// Whose it is.
    pub tenant: Tenant,
    /// What is sent.
    pub event: AuditEvent,
}

/// One row of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRow {
    /// Its place, from 1, without gaps.
    pub n: i64,
    /// Whose it is.
    pub tenant: Tenant,
    /// When it happened.
    pub at: Timestamp,
    /// What belongs together.
    pub correlation: String,
    /// What happened.
    pub kind: String,
    /// Who said so.
    pub source: String,
    /// Whether it came from outside, by `POST /events`; none: it was sealed by a version that did not note that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external: Option<bool>,
    /// [`AuditEvent::digest`].
    pub digest: String,
    /// The seal of the row before; of the first one: [`AuditRow::FIRST`].
    pub prev: String,
    /// [`AuditRow::hash`] when it was sealed: a row that was changed since says so itself.
    pub seal: String,
}

impl AuditRow {
    /// What the first row follows.
    pub const FIRST: &'static str = "0000000000000000000000000000000000000000000000000000000000000000";

    /// An event as the next row of a chain, whose end it becomes.
    pub(crate) fn sealed(end: &mut ChainEnd, event: Unsealed) -> AuditRow {
        let Unsealed { tenant, at, correlation, kind, source, external, digest, .. } = event;
        let (n, prev, seal) = (end.rows + 1, end.head.clone(), String::new());
        let external = Some(external);
        let mut row = AuditRow { n, tenant, at, correlation, kind, source, external, digest, prev, seal };
        row.seal = row.hash();
        *end = ChainEnd { rows: n, head: row.seal.clone() };
        row
    }

    /// What the next row names, and what vouches for this one and all before it. A row from before `external` was
    /// noted has the hash that it had then.
    pub fn hash(&self) -> String {
        let mut fields = vec![
            json!(self.n),
            json!(self.tenant.as_str()),
            json!(self.at.0),
            json!(self.correlation),
            json!(self.kind),
            json!(self.source),
            json!(self.digest),
            json!(self.prev),
        ];
        fields.extend(self.external.map(Value::Bool));
        sha256_hex(canonical(&Value::Array(fields)).as_bytes())
    }
}

/// What the chain says of an event that is not in it yet.
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

/// Who may come in, as far as it is kept: the token itself is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// By which it is named.
    pub id: String,
    /// SHA-256 of the token, in hexadecimal.
    pub hash: String,
    /// Whose data it opens.
    pub tenant: Tenant,
    /// A remark of whoever made it.
    pub name: String,
    /// What it may do: `run`, `read`, `approve`, `admin`.
    pub scopes: Vec<String>,
    /// How much it may allow an agent.
    pub max_mode: Mode,
    /// Which agents it may use; none: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// When it was made.
    pub created: Timestamp,
    /// When it stops working.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// What to throw away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcRequest {
    /// What time it is: threads past their time and keys that have expired go.
    pub now: Timestamp,
    /// Runs that ended before this go, with their logs; what was said stays.
    pub runs_before: Option<Timestamp>,
    /// Long outputs that nobody touched since then and no entry names go.
    pub blobs_before: Option<Timestamp>,
    /// Only say what would go.
    pub dry_run: bool,
}

/// How the audit trail is told of threads that go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrailSource {
    /// Who says it.
    pub source: String,
    /// Who removes them.
    pub by: String,
    /// Whether somebody else is told, too.
    pub send: bool,
}

impl TrailSource {
    /// The event of a thread that goes, with its runs.
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

/// What was thrown away, or would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Collected {
    /// Threads past their time, with everything on them.
    pub threads: u64,
    /// Runs.
    pub runs: u64,
    /// Long outputs.
    pub blobs: u64,
    /// Bytes of those.
    pub blob_bytes: u64,
    /// Keys of requests.
    pub keys: u64,
}

/// Where a run has come to: all that somebody who watches it from afar has to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The run.
    pub run: RunId,
    /// Its present claim.
    pub epoch: u32,
    /// The number of its last committed event.
    pub seq: u64,
    /// Where it stands.
    pub status: RunStatus,
}
