//! The store: threads, runs and their logs.
//!
//! [`Store`] is a closed enum, not a trait: we own every variant, and one behaviour suite runs against all of them.
//! Every method takes the tenant first, so that no question can be asked without one.
//!
//! Two calls write to a run: [`Store::commit`] (one atomic, fenced [`Transition`]) and [`Store::post`]
//! (a message from any process). [`Store::start`] is a commit that creates its run, and
//! [`Store::claim`] decides whose commits count.

mod envelope;
mod error;
pub mod failpoint;
#[cfg(feature = "failpoints")]
mod faulty;
mod live;
mod memory;
mod postgres;
mod record;
mod runs;
mod seen_set;
mod service;
mod sqlite;
mod threads;
mod transition;
mod turnstile;
mod view;

use std::sync::Arc;

use baton_core::event::NumberedEvent;
use baton_core::id::{BranchName, OwnerId, RunId, Tenant, ThreadId};
use baton_core::run::{Approval, ApprovalStatus, Definition, Message};
use baton_core::thread::{NewEntry, Place, PlacedEntry};
use baton_core::time::Timestamp;
use uuid::Uuid;

pub use envelope::{decode as decode_envelope, encode as encode_envelope};
pub use error::StoreError;
#[cfg(feature = "failpoints")]
pub use faulty::{FaultyStore, Mishap, StoreBug, WRITES};
pub use memory::MemoryStore;
pub use postgres::{PgError, PgOptions, PgStore};
pub use seen_set::SeenSet;
pub use service::{
    AuditEvent, AuditRow, BrokenChain, ChainEnd, Collected, DerivedCalls, GcRequest, Head, KeyRow, NewKey,
    NewQueued, OUTBOX_COUNTED, Outgoing, QueuedRun, RestedPage, RestedRun, Token, TrailSource, Verifier,
    verify,
};
pub use sqlite::{OpenError, Opened, SqliteStore, sqlite_version};
pub use transition::{
    CHECKPOINT_VERSION, Checkpoint, Intent, NewRun, NewThread, PinnedDefinition, RunHalt, Transition,
};
pub use view::{
    BranchEnd, BranchView, ClaimMode, ClaimRow, Claimed, Due, DueFrom, DuePage, ForkAt, Posted, PruneRequest,
    Pruned, Pulse, Rewound, RunFilter, RunRow, Slice, StepRow, ThreadUsage, ThreadView,
};

/// A store: one of the back ends that keep threads, runs and their logs.
#[derive(Debug, Clone)]
pub enum Store {
    /// In memory, for tests.
    Memory(Arc<MemoryStore>),
    /// In one file, for any number of processes on one machine.
    Sqlite(SqliteStore),
    /// In PostgreSQL, for any number of processes on any number of machines.
    Postgres(PgStore),
    /// Another store with injected faults, for tests.
    #[cfg(feature = "failpoints")]
    Faulty(Arc<FaultyStore>),
}

/// Calls the method of the store's back end.
macro_rules! on_store {
    ($self:ident, $method:ident($($arg:expr),*)) => {
        match $self {
            Store::Memory(store) => store.$method($($arg),*),
            Store::Sqlite(store) => store.$method($($arg),*).await,
            Store::Postgres(store) => store.$method($($arg),*).await,
            #[cfg(feature = "failpoints")]
            Store::Faulty(store) => {
                let mishap = store.mishap(stringify!($method));
                if let Some(error) = mishap.as_ref().and_then(|mishap| mishap.instead(stringify!($method))) {
                    return Err(error);
                }
                let result = Box::pin(store.inner().$method($($arg),*)).await;
                match mishap {
                    Some(mishap) => mishap.after(stringify!($method), result).await,
                    None => result,
                }
            }
        }
    };
}

impl Store {
    /// An empty store in memory.
    pub fn memory() -> Store {
        Store::Memory(Arc::new(MemoryStore::new()))
    }

    /// Makes a living owner: it counts as dead when the value is dropped or the process has ended.
    pub fn enlist(&self) -> Result<Owner, StoreError> {
        let id = OwnerId(Uuid::now_v7());
        let life = match self {
            Store::Memory(store) => {
                store.register(id);
                LivenessProof::Memory(store.clone())
            }
            Store::Sqlite(store) if store.is_read_only() => LivenessProof::Reader,
            Store::Sqlite(store) => LivenessProof::Lock(store.enlist(id)?),
            Store::Postgres(store) => LivenessProof::Lease(store.enlist(id)?),
            #[cfg(feature = "failpoints")]
            Store::Faulty(store) => return store.inner().enlist(),
        };
        Ok(Owner { id, life })
    }

    /// Makes an owner count as dead although its value is still held somewhere. For tests.
    #[cfg(feature = "failpoints")]
    pub fn bury(&self, owner: OwnerId) {
        match self {
            Store::Memory(store) => store.retire(owner),
            Store::Sqlite(store) => store.bury(owner),
            Store::Postgres(store) => store.bury(owner),
            Store::Faulty(store) => store.inner().bury(owner),
        }
    }

    /// Simulates that this process observed silence of all owners for this many leases. For tests.
    #[cfg(feature = "failpoints")]
    pub fn unheard(&self, leases: u32) {
        match self {
            Store::Memory(_) | Store::Sqlite(_) => {} // they have no leases
            Store::Postgres(store) => store.unheard(leases),
            Store::Faulty(store) => store.inner().unheard(leases),
        }
    }

    /// Whether an owner is still alive.
    pub async fn is_alive(&self, owner: OwnerId) -> bool {
        match self {
            Store::Memory(store) => store.is_alive(owner),
            Store::Sqlite(store) => store.is_alive(owner),
            Store::Postgres(store) => store.is_alive(owner).await,
            #[cfg(feature = "failpoints")]
            Store::Faulty(store) => Box::pin(store.inner().is_alive(owner)).await,
        }
    }

    /// Whether a living owner holds a run.
    pub async fn is_held(&self, row: &RunRow) -> bool {
        match row.owner {
            Some(owner) => self.is_alive(owner).await,
            None => false,
        }
    }

    /// Makes a thread.
    pub async fn create_thread(&self, tenant: &Tenant, new: NewThread) -> Result<(), StoreError> {
        on_store!(self, create_thread(tenant, new))
    }

    /// Reads a thread.
    pub async fn thread(&self, tenant: &Tenant, id: &ThreadId) -> Result<ThreadView, StoreError> {
        on_store!(self, thread(tenant, id))
    }

    /// Lists threads, newest first.
    pub async fn threads(
        &self,
        tenant: &Tenant,
        limit: u32,
        after: Option<&ThreadId>,
    ) -> Result<Vec<ThreadView>, StoreError> {
        on_store!(self, threads(tenant, limit, after))
    }

    /// Removes a thread with its runs, and records that in the audit trail in the same write. Refused while a run is
    /// active on it; and, if it is to be recorded, while tool calls of its runs are not in the trail yet
    /// ([`Store::add_calls`]).
    pub async fn delete_thread(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        audit: Option<AuditEvent>,
    ) -> Result<(), StoreError> {
        on_store!(self, delete_thread(tenant, id, audit))
    }

    /// Gives a thread another id, with everything on it. Refused while a run is active on it.
    pub async fn rename_thread(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        to: &ThreadId,
    ) -> Result<(), StoreError> {
        on_store!(self, rename_thread(tenant, id, to))
    }

    /// Marks everything on a thread as untrusted and private, from the first entry of each of its branches: its authors
    /// and its contents are not known here.
    pub async fn distrust(&self, tenant: &Tenant, id: &ThreadId) -> Result<(), StoreError> {
        on_store!(self, distrust(tenant, id))
    }

    /// Reads entries of a branch (absent: the current one), oldest first.
    pub async fn entries(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        branch: Option<&BranchName>,
        slice: Slice,
    ) -> Result<Vec<PlacedEntry>, StoreError> {
        on_store!(self, entries(tenant, id, branch, slice))
    }

    /// Reads where a branch ends, which entries may follow, and where untrusted content and private data begin on it.
    pub async fn end(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        branch: Option<&BranchName>,
    ) -> Result<BranchEnd, StoreError> {
        on_store!(self, end(tenant, id, branch))
    }

    /// Appends one entry outside a run; returns its index.
    pub async fn push(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        branch: Option<&BranchName>,
        mut new: NewEntry,
    ) -> Result<i64, StoreError> {
        new.entry = new.entry.with_id(new.id);
        on_store!(self, push(tenant, id, branch, new))
    }

    /// Adds a branch; returns where it ends.
    pub async fn fork(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        from: Option<&BranchName>,
        at: &ForkAt,
        name: BranchName,
        now: Timestamp,
    ) -> Result<Place, StoreError> {
        on_store!(self, fork(tenant, id, from, at, name, now))
    }

    /// Makes a branch the current one.
    pub async fn checkout(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        branch: &BranchName,
    ) -> Result<(), StoreError> {
        on_store!(self, checkout(tenant, id, branch))
    }

    /// Moves the end of a branch back.
    pub async fn rewind(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        branch: Option<&BranchName>,
        index: i64,
    ) -> Result<Rewound, StoreError> {
        on_store!(self, rewind(tenant, id, branch, index))
    }

    /// Removes a branch; its entries stay until prune.
    pub async fn delete_branch(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        branch: &BranchName,
    ) -> Result<(), StoreError> {
        on_store!(self, delete_branch(tenant, id, branch))
    }

    /// Removes idle branches, then all lanes and entries that neither a branch nor an unfinished run reaches.
    pub async fn prune(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        request: &PruneRequest,
    ) -> Result<Pruned, StoreError> {
        on_store!(self, prune(tenant, id, request))
    }

    /// Begins a run with its first transition; returns the lane that it writes to. Refused while others wait for its
    /// branch: the first of them is next.
    pub async fn start(&self, tenant: &Tenant, new: NewRun, first: Transition) -> Result<u32, StoreError> {
        #[cfg(feature = "failpoints")]
        if let Store::Faulty(store) = self
            && let Some(error) = store.late(tenant, &new, &first)
        {
            return Err(error);
        }
        on_store!(self, start(tenant, new, first))
    }

    /// Reads the definition that a run is pinned to, by its hash.
    pub async fn definition(&self, tenant: &Tenant, hash: &str) -> Result<Definition, StoreError> {
        on_store!(self, definition(tenant, hash))
    }

    /// Takes over a run: from now on only commits of the new epoch count.
    pub async fn claim(
        &self,
        tenant: &Tenant,
        run: RunId,
        owner: OwnerId,
        mode: ClaimMode,
        at: Timestamp,
    ) -> Result<Claimed, StoreError> {
        on_store!(self, claim(tenant, run, owner, mode, at))
    }

    /// Writes one transition, or nothing at all.
    pub async fn commit(&self, tenant: &Tenant, transition: &Transition) -> Result<(), StoreError> {
        #[cfg(feature = "failpoints")]
        if let Store::Faulty(store) = self
            && let Some(result) = store.sabotaged(tenant, transition).await
        {
            return result;
        }
        on_store!(self, commit(tenant, transition))
    }

    /// Releases a run, so that another process can go on with it.
    pub async fn release(&self, tenant: &Tenant, run: RunId, epoch: u32) -> Result<(), StoreError> {
        on_store!(self, release(tenant, run, epoch))
    }

    /// Sends a message to a run; returns its number. A decision is checked and recorded in the same write. An input
    /// whose id is in the inbox already is not added again: its existing number is returned.
    pub async fn post(
        &self,
        tenant: &Tenant,
        run: RunId,
        message: Message,
        by: Option<String>,
        at: Timestamp,
    ) -> Result<u32, StoreError> {
        self.decide(tenant, run, message, by, at, None).await
    }

    /// Like [`Store::post`], for a decision that is recorded in the audit trail in the same write.
    pub async fn decide(
        &self,
        tenant: &Tenant,
        run: RunId,
        message: Message,
        by: Option<String>,
        at: Timestamp,
        audit: Option<AuditEvent>,
    ) -> Result<u32, StoreError> {
        on_store!(self, decide(tenant, run, message, by, at, audit))
    }

    /// Reads the messages of a run whose numbers are greater than `after`.
    pub async fn inbox(&self, tenant: &Tenant, run: RunId, after: u32) -> Result<Vec<Posted>, StoreError> {
        on_store!(self, inbox(tenant, run, after))
    }

    /// Reads a run.
    pub async fn run(&self, tenant: &Tenant, run: RunId) -> Result<RunRow, StoreError> {
        on_store!(self, run(tenant, run))
    }

    /// Lists runs, newest first.
    pub async fn runs(&self, tenant: &Tenant, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
        on_store!(self, runs(tenant, filter))
    }

    /// Sums up the usage of all runs of a thread. A run that cannot be read is left out, as in lists.
    pub async fn usage_of_thread(
        &self,
        tenant: &Tenant,
        thread: &ThreadId,
    ) -> Result<ThreadUsage, StoreError> {
        on_store!(self, usage_of_thread(tenant, thread))
    }

    /// Reads the transitions of a run whose numbers are greater than `after`, in order.
    pub async fn steps(
        &self,
        tenant: &Tenant,
        run: RunId,
        after: u32,
        limit: u32,
    ) -> Result<Vec<StepRow>, StoreError> {
        on_store!(self, steps(tenant, run, after, limit))
    }

    /// Reads committed events from a number on, in order: those of at most `steps` transitions.
    pub async fn events(
        &self,
        tenant: &Tenant,
        run: RunId,
        from: u64,
        steps: u32,
    ) -> Result<Vec<NumberedEvent>, StoreError> {
        let rows = self.steps_with(tenant, run, from, steps).await?;
        let number = |row: StepRow| {
            let epoch = row.epoch;
            let events = (row.first_seq..).zip(row.checkpoint.events);
            events.map(move |(seq, event)| NumberedEvent { epoch, seq, event })
        };
        Ok(rows.into_iter().flat_map(number).filter(|event| event.seq >= from).collect())
    }

    async fn steps_with(
        &self,
        tenant: &Tenant,
        run: RunId,
        seq: u64,
        limit: u32,
    ) -> Result<Vec<StepRow>, StoreError> {
        on_store!(self, steps_with(tenant, run, seq, limit))
    }

    /// Reads all claims of a run, in order.
    pub async fn claims(&self, tenant: &Tenant, run: RunId) -> Result<Vec<ClaimRow>, StoreError> {
        on_store!(self, claims(tenant, run))
    }

    /// Reads an approval.
    pub async fn approval(&self, tenant: &Tenant, id: &str) -> Result<Approval, StoreError> {
        on_store!(self, approval(tenant, id))
    }

    /// Lists approvals, newest first; only those older than `after`, which may have any status.
    pub async fn approvals(
        &self,
        tenant: &Tenant,
        status: Option<ApprovalStatus>,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Approval>, StoreError> {
        on_store!(self, approvals(tenant, status, after, limit))
    }

    /// Reads the new messages and watchers of the runs that an owner holds.
    pub async fn pulses(&self, owner: OwnerId) -> Result<Vec<Pulse>, StoreError> {
        match self {
            Store::Memory(store) => Ok(store.pulses(owner)),
            Store::Sqlite(store) => store.pulses(owner).await,
            Store::Postgres(store) => store.pulses(owner).await,
            #[cfg(feature = "failpoints")]
            Store::Faulty(store) => Box::pin(store.inner().pulses(owner)).await,
        }
    }

    /// Like [`Store::pulses`], but only runs that ever got a message or a watcher: most never do.
    pub async fn news(&self, owner: OwnerId) -> Result<Vec<Pulse>, StoreError> {
        on_store!(self, news(owner))
    }

    /// Notes that another process watches a run.
    pub async fn watch(&self, tenant: &Tenant, run: RunId, until: Timestamp) -> Result<(), StoreError> {
        on_store!(self, watch(tenant, run, until))
    }

    /// Like [`Store::watch`], for many runs in one write; runs that do not exist are left out.
    pub async fn watch_all(&self, runs: &[(Tenant, RunId)], until: Timestamp) -> Result<(), StoreError> {
        on_store!(self, watch_all(runs, until))
    }

    /// Lists runs of all tenants that are due and have no living owner; of queued runs, the first of every branch that
    /// is free.
    pub async fn due(&self, now: Timestamp) -> Result<Vec<(Tenant, RunId)>, StoreError> {
        on_store!(self, due(now))
    }

    /// Like [`Store::due`], page by page. It includes runs that cannot be read: the claim finds that out.
    pub async fn due_page(&self, now: Timestamp, from: DueFrom, limit: u32) -> Result<DuePage, StoreError> {
        on_store!(self, due_page(now, from, limit))
    }

    /// Resets a run's count of crashes, while its owner drives it under this epoch.
    pub async fn forgive(&self, tenant: &Tenant, run: RunId, epoch: u32) -> Result<(), StoreError> {
        on_store!(self, forgive(tenant, run, epoch))
    }

    /// Reads the progress of some runs; those that do not exist are left out.
    pub async fn heads(&self, runs: &[(Tenant, RunId)]) -> Result<Vec<Head>, StoreError> {
        on_store!(self, heads(runs))
    }

    /// Queues a run behind the one that holds its branch: at the end, or before all others. Refused where too many wait
    /// already, and where its key was used.
    pub async fn enqueue(&self, tenant: &Tenant, new: NewQueued) -> Result<(), StoreError> {
        on_store!(self, enqueue(tenant, new))
    }

    /// Reads the input of a queued run.
    pub async fn queued(&self, tenant: &Tenant, run: RunId) -> Result<QueuedRun, StoreError> {
        on_store!(self, queued(tenant, run))
    }

    /// Reads a key that has not expired.
    pub async fn key(
        &self,
        tenant: &Tenant,
        route: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<KeyRow>, StoreError> {
        on_store!(self, key(tenant, route, key, now))
    }

    /// Stores a key, with the run that it led to or the owner that works on it. If it was used before, nothing changes,
    /// and the stored key is returned.
    pub async fn begin_key(
        &self,
        tenant: &Tenant,
        new: &NewKey,
        run: Option<RunId>,
        owner: Option<OwnerId>,
        now: Timestamp,
    ) -> Result<Option<KeyRow>, StoreError> {
        on_store!(self, begin_key(tenant, new, run, owner, now))
    }

    /// Takes over the work on a key from an owner; false if it is no longer that owner's, or was answered.
    pub async fn retake_key(
        &self,
        tenant: &Tenant,
        route: &str,
        key: &str,
        from: OwnerId,
        to: OwnerId,
    ) -> Result<bool, StoreError> {
        on_store!(self, retake_key(tenant, route, key, from, to))
    }

    /// Stores the answer to a key's request. Ignored unless it comes from the key's owner.
    pub async fn answer_key(
        &self,
        tenant: &Tenant,
        route: &str,
        key: &str,
        owner: OwnerId,
        answer: Vec<u8>,
    ) -> Result<(), StoreError> {
        self.answer_call(tenant, route, key, owner, answer, None).await
    }

    /// Like [`Store::answer_key`], for a tool call: if the answer is stored, the call is recorded in the audit trail in
    /// the same write.
    pub async fn answer_call(
        &self,
        tenant: &Tenant,
        route: &str,
        key: &str,
        owner: OwnerId,
        answer: Vec<u8>,
        audit: Option<AuditEvent>,
    ) -> Result<(), StoreError> {
        on_store!(self, answer_call(tenant, route, key, owner, answer, audit))
    }

    /// Records an event in the audit trail that changes nothing else in the store.
    pub async fn tell(&self, tenant: &Tenant, event: AuditEvent) -> Result<(), StoreError> {
        on_store!(self, tell(tenant, event))
    }

    /// Stores an event of another service; false if its key was used before.
    pub async fn receive(
        &self,
        tenant: &Tenant,
        event: AuditEvent,
        key: Option<NewKey>,
    ) -> Result<bool, StoreError> {
        on_store!(self, receive(tenant, event, key))
    }

    /// Reads the events to be sent whose numbers are greater than `after`, in order.
    pub async fn outbox(&self, after: i64, limit: u32) -> Result<Vec<Outgoing>, StoreError> {
        on_store!(self, outbox(after, limit))
    }

    /// Reads the oldest events to be sent, of all tenants but these: where those have many, others need not wait.
    pub async fn outbox_beside(&self, tenants: &[Tenant], limit: u32) -> Result<Vec<Outgoing>, StoreError> {
        on_store!(self, outbox_beside(tenants, limit))
    }

    /// The size of the data, in bytes.
    pub async fn size(&self) -> Result<u64, StoreError> {
        on_store!(self, size())
    }

    /// Counts the events that are still to be sent, up to [`OUTBOX_COUNTED`].
    pub async fn outbox_depth(&self) -> Result<u64, StoreError> {
        on_store!(self, outbox_depth())
    }

    /// Notes that events were sent.
    pub async fn sent(&self, numbers: &[i64]) -> Result<(), StoreError> {
        on_store!(self, sent(numbers))
    }

    /// Drops the oldest unsent events: those from before a moment, and as many as make the rest fit. One row of the
    /// chain records how many there were.
    pub async fn trim_outbox(
        &self,
        before: Timestamp,
        most_bytes: u64,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        on_store!(self, trim_outbox(before, most_bytes, now))
    }

    /// Adds events to the chain, at most `limit`, if no other process is doing it; returns how many.
    pub async fn seal(&self, limit: u32) -> Result<u64, StoreError> {
        on_store!(self, seal(limit))
    }

    /// Reads the oldest runs that were suspended or ended, and whose tool calls are not in the audit trail yet. Only
    /// runs whose suspension or end is in the chain are returned: [`Store::seal`] comes first.
    pub async fn rested_runs(&self, limit: u32) -> Result<RestedPage, StoreError> {
        on_store!(self, rested_runs(limit))
    }

    /// Records tool calls that were derived from a page of those runs in the audit trail, and takes the page off the
    /// queue, in one write; false if another process did so meanwhile, and then nothing was written.
    pub async fn add_calls(&self, page: &RestedPage, derived: DerivedCalls) -> Result<bool, StoreError> {
        on_store!(self, add_calls(page, derived))
    }

    /// Notes the policy in force by its hash. If another one was in force before, the change is recorded in the audit
    /// trail in the same write; returns whether it was.
    pub async fn note_policy(&self, hash: &str, audit: AuditEvent) -> Result<bool, StoreError> {
        on_store!(self, note_policy(hash, audit))
    }

    /// The end of the chain, as it was noted when its last row was sealed.
    pub async fn chain_end(&self) -> Result<ChainEnd, StoreError> {
        on_store!(self, chain_end())
    }

    /// Reads rows of the chain whose numbers are greater than `after`, in order; of one tenant or of all.
    pub async fn audit(
        &self,
        tenant: Option<&Tenant>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<AuditRow>, StoreError> {
        on_store!(self, audit(tenant, after, limit))
    }

    /// Stores a token, and records that in the audit trail in the same write.
    pub async fn add_token(&self, token: &Token, audit: Option<AuditEvent>) -> Result<(), StoreError> {
        on_store!(self, add_token(token, audit))
    }

    /// All tokens, oldest first.
    pub async fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        on_store!(self, tokens())
    }

    /// Notes that the service requires a token from now on: [`Store::add_token`] does so by itself.
    pub async fn require_tokens(&self) -> Result<(), StoreError> {
        on_store!(self, require_tokens())
    }

    /// Whether the service requires a token; it still does when every token has been revoked.
    pub async fn requires_tokens(&self) -> Result<bool, StoreError> {
        on_store!(self, requires_tokens())
    }

    /// Notes that the service no longer requires a token, if no token is left; returns whether that is so. If it
    /// required one before, the change is recorded in the audit trail in the same write.
    pub async fn require_no_tokens(&self, audit: Option<AuditEvent>) -> Result<bool, StoreError> {
        on_store!(self, require_no_tokens(audit))
    }

    /// Stores a mark for good: a name for something that happened once.
    pub async fn remember(&self, name: &str) -> Result<(), StoreError> {
        on_store!(self, remember(name))
    }

    /// Reads the marks that begin with a prefix.
    pub async fn remembered(&self, beginning: &str) -> Result<Vec<String>, StoreError> {
        on_store!(self, remembered(beginning))
    }

    /// Removes a token by its id, and records that in a tenant's audit trail in the same write. Revoking the last token
    /// does not open the service to callers without one.
    pub async fn revoke_token(
        &self,
        id: &str,
        audit: Option<(Tenant, AuditEvent)>,
    ) -> Result<(), StoreError> {
        on_store!(self, revoke_token(id, audit))
    }

    /// Removes expired data, as the request says.
    pub async fn gc(&self, request: &GcRequest) -> Result<Collected, StoreError> {
        self.collect(request, None).await
    }

    /// Like [`Store::gc`]; each removed thread is recorded in the audit trail in the write that removes it. Data whose
    /// tool calls are not in the trail yet stays until the next time.
    pub async fn collect(
        &self,
        request: &GcRequest,
        trail: Option<&TrailSource>,
    ) -> Result<Collected, StoreError> {
        on_store!(self, collect(request, trail))
    }

    /// Stores bytes under their hash.
    pub async fn put_blob(
        &self,
        tenant: &Tenant,
        hash: &str,
        bytes: Vec<u8>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        on_store!(self, put_blob(tenant, hash, bytes, at))
    }

    /// Reads bytes by their hash.
    pub async fn blob(&self, tenant: &Tenant, hash: &str) -> Result<Option<Vec<u8>>, StoreError> {
        match self {
            Store::Memory(store) => Ok(store.blob(tenant, hash)),
            Store::Sqlite(store) => store.blob(tenant, hash).await,
            Store::Postgres(store) => store.blob(tenant, hash).await,
            #[cfg(feature = "failpoints")]
            Store::Faulty(store) => Box::pin(store.inner().blob(tenant, hash)).await,
        }
    }
}

/// A living owner of runs.
#[derive(Debug)]
pub struct Owner {
    /// Its id.
    pub id: OwnerId,
    life: LivenessProof,
}

impl Owner {
    /// Whether no other process can have taken this owner for dead yet, as far as it can tell by itself: its lock is
    /// found where others look for it, or its lease cannot have run out since the last renewal, on a clock that goes on
    /// while the machine sleeps. It sends no request.
    pub fn is_current(&self) -> bool {
        match &self.life {
            LivenessProof::Memory(store) => store.is_alive(self.id),
            LivenessProof::Reader => true,
            LivenessProof::Lock(lock) => lock.is_found(),
            LivenessProof::Lease(lease) => lease.is_current(),
        }
    }

    /// How many times its lease may have run out so far without ending it. Read this after [`Owner::is_current`]: where
    /// both are unchanged, no process can have taken the owner for dead in between. It is always 0 for locks, which
    /// never lapse.
    pub fn lapses(&self) -> u64 {
        match &self.life {
            LivenessProof::Memory(_) | LivenessProof::Reader | LivenessProof::Lock(_) => 0,
            LivenessProof::Lease(lease) => lease.lapses(),
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let LivenessProof::Memory(store) = &self.life {
            store.retire(self.id);
        }
    }
}

#[derive(Debug)]
enum LivenessProof {
    Memory(Arc<MemoryStore>),
    /// A reader, which never holds a run.
    Reader,
    /// A lock of the operating system, which other processes test.
    Lock(live::LifeLock),
    /// A lease, and on its own machine a lock.
    Lease(postgres::Lease),
}
