//! Remembers: threads, runs and their logs.
//!
//! [`Store`] is a closed enum, not a trait: we own every variant, and one behaviour suite runs against
//! all of them. Every method takes the tenant first; there is no way to ask without one.
//!
//! Two calls write to a run: [`Store::commit`] (one atomic, fenced [`Transition`]) and [`Store::post`]
//! (a message from any process). [`Store::start`] is a commit that creates its run, and
//! [`Store::claim`] decides whose commits count.

mod envelope;
mod error;
pub mod failpoint;
#[cfg(feature = "failpoints")]
mod faulty;
mod known;
mod live;
mod memory;
mod postgres;
mod record;
mod runs;
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
pub use known::Known;
pub use memory::MemoryStore;
pub use postgres::{PgError, PgOptions, PgStore};
pub use service::{
    AuditEvent, AuditRow, BrokenChain, ChainEnd, Collected, DerivedCalls, GcRequest, Head, KeyRow, NewKey,
    NewQueued, OUTBOX_COUNTED, Outgoing, QueuedRun, RestedPage, RestedRun, Token, TrailSource, Verifier,
    verify,
};
pub use sqlite::{OpenError, Opened, SqliteStore, sqlite_version};
pub use transition::{CHECKPOINT_VERSION, Checkpoint, Intent, NewRun, NewThread, Pinned, Rest, Transition};
pub use view::{
    BranchEnd, BranchView, ClaimMode, ClaimRow, Claimed, Due, DueFrom, DuePage, ForkAt, Posted, PruneRequest,
    Pruned, Pulse, Rewound, RunFilter, RunRow, Slice, StepRow, ThreadUsage, ThreadView,
};

/// Wherever things are kept.
#[derive(Debug, Clone)]
pub enum Store {
    /// In memory, for tests.
    Memory(Arc<MemoryStore>),
    /// In one file, for any number of processes on one machine.
    Sqlite(SqliteStore),
    /// In PostgreSQL, for any number of processes on any number of machines.
    Postgres(PgStore),
    /// Another store that fails now and then, for tests.
    #[cfg(feature = "failpoints")]
    Faulty(Arc<FaultyStore>),
}

/// Calls the method of whichever store this is.
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

    /// Makes a living owner: it counts as dead when the value is dropped or the process is gone.
    pub fn enlist(&self) -> Result<Owner, StoreError> {
        let id = OwnerId(Uuid::now_v7());
        let life = match self {
            Store::Memory(store) => {
                store.register(id);
                Life::Memory(store.clone())
            }
            Store::Sqlite(store) if store.is_read_only() => Life::Reader,
            Store::Sqlite(store) => Life::Lock(store.enlist(id)?),
            Store::Postgres(store) => Life::Lease(store.enlist(id)?),
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

    /// As if this process had looked for so many leases and nobody had been heard of. For tests.
    #[cfg(feature = "failpoints")]
    pub fn unheard(&self, leases: u32) {
        match self {
            Store::Memory(_) | Store::Sqlite(_) => {} // they have no leases
            Store::Postgres(store) => store.unheard(leases),
            Store::Faulty(store) => store.inner().unheard(leases),
        }
    }

    /// Whether an owner still lives.
    pub async fn is_alive(&self, owner: OwnerId) -> bool {
        match self {
            Store::Memory(store) => store.is_alive(owner),
            Store::Sqlite(store) => store.is_alive(owner),
            Store::Postgres(store) => store.is_alive(owner).await,
            #[cfg(feature = "failpoints")]
            Store::Faulty(store) => Box::pin(store.inner().is_alive(owner)).await,
        }
    }

    /// Whether somebody living holds a run.
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

    /// Removes a thread with its runs; the audit trail is told of it in the same write. Refused while a run is
    /// active on it, and where the trail is told, while calls of its runs are not in it ([`Store::add_calls`]).
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

    /// Everything on a thread is untrusted and private from now on, from the first entry of each of its branches: nobody
    /// here knows who wrote it, and what it holds.
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

    /// Reads where a branch ends, what may follow, and where untrusted content and private data begin on it.
    pub async fn end(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        branch: Option<&BranchName>,
    ) -> Result<BranchEnd, StoreError> {
        on_store!(self, end(tenant, id, branch))
    }

    /// Appends one entry outside a run; answers its index.
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

    /// Adds a branch; answers where it ends.
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

    /// Removes idle branches, then what neither a branch nor an unfinished run reaches.
    pub async fn prune(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        request: &PruneRequest,
    ) -> Result<Pruned, StoreError> {
        on_store!(self, prune(tenant, id, request))
    }

    /// Begins a run with its first transition; answers the lane that it writes to. Refused while others wait for
    /// its branch: the first of them is next.
    pub async fn start(&self, tenant: &Tenant, new: NewRun, first: Transition) -> Result<u32, StoreError> {
        #[cfg(feature = "failpoints")]
        if let Store::Faulty(store) = self
            && let Some(error) = store.late(tenant, &new, &first)
        {
            return Err(error);
        }
        on_store!(self, start(tenant, new, first))
    }

    /// Reads what a run is pinned to, by its hash.
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

    /// Lets go of a run that goes on elsewhere.
    pub async fn release(&self, tenant: &Tenant, run: RunId, epoch: u32) -> Result<(), StoreError> {
        on_store!(self, release(tenant, run, epoch))
    }

    /// Sends a message to a run; answers its number. A decision is checked and recorded in the same write. An
    /// input whose id is in the inbox already is not added again: the answer is the number that it has.
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

    /// The same of a decision, of which the audit trail is told in the same write.
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

    /// Reads messages of a run beyond a number.
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

    /// Sums up what all runs of a thread used. A run that cannot be read is left out, as in lists.
    pub async fn usage_of_thread(
        &self,
        tenant: &Tenant,
        thread: &ThreadId,
    ) -> Result<ThreadUsage, StoreError> {
        on_store!(self, usage_of_thread(tenant, thread))
    }

    /// Reads transitions of a run beyond a number, in order.
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

    /// Lists approvals, newest first; those older than `after`, whatever its own status is.
    pub async fn approvals(
        &self,
        tenant: &Tenant,
        status: Option<ApprovalStatus>,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Approval>, StoreError> {
        on_store!(self, approvals(tenant, status, after, limit))
    }

    /// What an owner should know of the runs that it holds.
    pub async fn pulses(&self, owner: OwnerId) -> Result<Vec<Pulse>, StoreError> {
        match self {
            Store::Memory(store) => Ok(store.pulses(owner)),
            Store::Sqlite(store) => store.pulses(owner).await,
            Store::Postgres(store) => store.pulses(owner).await,
            #[cfg(feature = "failpoints")]
            Store::Faulty(store) => Box::pin(store.inner().pulses(owner)).await,
        }
    }

    /// The same of those alone that were ever written to or watched: most never are.
    pub async fn news(&self, owner: OwnerId) -> Result<Vec<Pulse>, StoreError> {
        on_store!(self, news(owner))
    }

    /// Says that somebody on another process watches a run.
    pub async fn watch(&self, tenant: &Tenant, run: RunId, until: Timestamp) -> Result<(), StoreError> {
        on_store!(self, watch(tenant, run, until))
    }

    /// The same of many runs in one write; those that are not there are left out.
    pub async fn watch_all(&self, runs: &[(Tenant, RunId)], until: Timestamp) -> Result<(), StoreError> {
        on_store!(self, watch_all(runs, until))
    }

    /// Runs of all tenants that somebody should drive and nobody living does; of those that wait for their
    /// turn, the first of every branch that is free.
    pub async fn due(&self, now: Timestamp) -> Result<Vec<(Tenant, RunId)>, StoreError> {
        on_store!(self, due(now))
    }

    /// The same, a few at a time, and also those that cannot be read: whoever tries one finds out.
    pub async fn due_page(&self, now: Timestamp, from: DueFrom, limit: u32) -> Result<DuePage, StoreError> {
        on_store!(self, due_page(now, from, limit))
    }

    /// Forgets how often a run brought its process down, while its owner drives it under this epoch.
    pub async fn forgive(&self, tenant: &Tenant, run: RunId, epoch: u32) -> Result<(), StoreError> {
        on_store!(self, forgive(tenant, run, epoch))
    }

    /// Where some runs have come to; those that are not there are left out.
    pub async fn heads(&self, runs: &[(Tenant, RunId)]) -> Result<Vec<Head>, StoreError> {
        on_store!(self, heads(runs))
    }

    /// Puts a run in line behind the one that holds its branch: at the end, or before all others. Refused where
    /// too many wait already, and where its key was used.
    pub async fn enqueue(&self, tenant: &Tenant, new: NewQueued) -> Result<(), StoreError> {
        on_store!(self, enqueue(tenant, new))
    }

    /// What a run that waits for its turn will begin with.
    pub async fn queued(&self, tenant: &Tenant, run: RunId) -> Result<QueuedRun, StoreError> {
        on_store!(self, queued(tenant, run))
    }

    /// What is known of a caller's key that has not expired.
    pub async fn key(
        &self,
        tenant: &Tenant,
        route: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<KeyRow>, StoreError> {
        on_store!(self, key(tenant, route, key, now))
    }

    /// Notes a caller's key, with the run that it led to or the owner that works on it; answers what is known
    /// of it if it was used before, and then changes nothing.
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

    /// Says what came of a key's work. Only the owner's word counts.
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

    /// The same of a call of a tool; the audit trail is told of it in the same write, where the owner's word counts.
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

    /// Tells the audit trail of something that nothing else is stored of.
    pub async fn tell(&self, tenant: &Tenant, event: AuditEvent) -> Result<(), StoreError> {
        on_store!(self, tell(tenant, event))
    }

    /// Takes in an event of somebody else; false if its key was used before.
    pub async fn receive(
        &self,
        tenant: &Tenant,
        event: AuditEvent,
        key: Option<NewKey>,
    ) -> Result<bool, StoreError> {
        on_store!(self, receive(tenant, event, key))
    }

    /// Events beyond a number that are to be sent, in order.
    pub async fn outbox(&self, after: i64, limit: u32) -> Result<Vec<Outgoing>, StoreError> {
        on_store!(self, outbox(after, limit))
    }

    /// The oldest events that are to be sent, of all tenants but these: where those have many, others need not wait.
    pub async fn outbox_beside(&self, tenants: &[Tenant], limit: u32) -> Result<Vec<Outgoing>, StoreError> {
        on_store!(self, outbox_beside(tenants, limit))
    }

    /// How much room the data takes, in bytes.
    pub async fn size(&self) -> Result<u64, StoreError> {
        on_store!(self, size())
    }

    /// How many events are still to be sent; counted up to [`OUTBOX_COUNTED`].
    pub async fn outbox_depth(&self) -> Result<u64, StoreError> {
        on_store!(self, outbox_depth())
    }

    /// Notes that events were sent.
    pub async fn sent(&self, numbers: &[i64]) -> Result<(), StoreError> {
        on_store!(self, sent(numbers))
    }

    /// Drops the oldest unsent events: those from before a moment, and as many as make the rest fit. One row
    /// of the chain says how many there were.
    pub async fn trim_outbox(
        &self,
        before: Timestamp,
        most_bytes: u64,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        on_store!(self, trim_outbox(before, most_bytes, now))
    }

    /// Adds events to the chain, at most `limit`, if no other process is doing it; answers how many.
    pub async fn seal(&self, limit: u32) -> Result<u64, StoreError> {
        on_store!(self, seal(limit))
    }

    /// The oldest runs that were suspended or ended, and whose calls of tools are not in the audit trail yet. Only those
    /// whose rest is in the chain: [`Store::seal`] comes first.
    pub async fn rested_runs(&self, limit: u32) -> Result<RestedPage, StoreError> {
        on_store!(self, rested_runs(limit))
    }

    /// Tells the audit trail of calls that were derived from a page of those runs, and takes the page off the queue, in
    /// one write; false if another process did so meanwhile, and then nothing was written.
    pub async fn add_calls(&self, page: &RestedPage, derived: DerivedCalls) -> Result<bool, StoreError> {
        on_store!(self, add_calls(page, derived))
    }

    /// Notes by its hash which policy holds from now on. If another one held before, the audit trail is told of it in the
    /// same write; answers whether it was.
    pub async fn note_policy(&self, hash: &str, audit: AuditEvent) -> Result<bool, StoreError> {
        on_store!(self, note_policy(hash, audit))
    }

    /// The end of the chain, as it was noted when its last row was sealed.
    pub async fn chain_end(&self) -> Result<ChainEnd, StoreError> {
        on_store!(self, chain_end())
    }

    /// Rows of the chain beyond a number, in order; of one tenant or of all.
    pub async fn audit(
        &self,
        tenant: Option<&Tenant>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<AuditRow>, StoreError> {
        on_store!(self, audit(tenant, after, limit))
    }

    /// Keeps a token; the audit trail is told of it in the same write.
    pub async fn add_token(&self, token: &Token, audit: Option<AuditEvent>) -> Result<(), StoreError> {
        on_store!(self, add_token(token, audit))
    }

    /// All tokens, oldest first.
    pub async fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        on_store!(self, tokens())
    }

    /// Notes that the service asks for a token from now on: [`Store::add_token`] does so by itself.
    pub async fn require_tokens(&self) -> Result<(), StoreError> {
        on_store!(self, require_tokens())
    }

    /// Whether the service asks for a token, also when every token has been revoked.
    pub async fn requires_tokens(&self) -> Result<bool, StoreError> {
        on_store!(self, requires_tokens())
    }

    /// Notes that the service asks for no token any more, if there is none; answers whether that is so. Where it asked for
    /// one before, the audit trail is told in the same write.
    pub async fn require_no_tokens(&self, audit: Option<AuditEvent>) -> Result<bool, StoreError> {
        on_store!(self, require_no_tokens(audit))
    }

    /// Remembers a name for good.
    pub async fn remember(&self, name: &str) -> Result<(), StoreError> {
        on_store!(self, remember(name))
    }

    /// The remembered names that begin so.
    pub async fn remembered(&self, beginning: &str) -> Result<Vec<String>, StoreError> {
        on_store!(self, remembered(beginning))
    }

    /// Forgets a token by its id; the audit trail of a tenant is told of it in the same write. The service does not
    /// open to those who have none.
    pub async fn revoke_token(
        &self,
        id: &str,
        audit: Option<(Tenant, AuditEvent)>,
    ) -> Result<(), StoreError> {
        on_store!(self, revoke_token(id, audit))
    }

    /// Throws away what has had its time.
    pub async fn gc(&self, request: &GcRequest) -> Result<Collected, StoreError> {
        self.collect(request, None).await
    }

    /// The same; the audit trail is told of each thread that goes in the write that removes it. What has calls that are not
    /// in the trail yet stays until the next time.
    pub async fn collect(
        &self,
        request: &GcRequest,
        trail: Option<&TrailSource>,
    ) -> Result<Collected, StoreError> {
        on_store!(self, collect(request, trail))
    }

    /// Keeps bytes under their hash.
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
    life: Life,
}

impl Owner {
    /// Whether nobody can have taken it for dead yet, as far as it knows itself: its lock is found where others look
    /// for it, or its lease cannot have run out since it was renewed last, on a clock that goes on while the
    /// machine sleeps. Asks nobody.
    pub fn is_current(&self) -> bool {
        match &self.life {
            Life::Memory(store) => store.is_alive(self.id),
            Life::Reader => true,
            Life::Lock(lock) => lock.is_found(),
            Life::Lease(lease) => lease.is_current(),
        }
    }

    /// How often it may have been taken for dead so far, and has gone on. Looked at after [`Owner::is_current`]: where
    /// both are as they were, nobody can have taken it for dead in between. Locks say nothing of that and lapse never.
    pub fn lapses(&self) -> u64 {
        match &self.life {
            Life::Memory(_) | Life::Reader | Life::Lock(_) => 0,
            Life::Lease(lease) => lease.lapses(),
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Life::Memory(store) = &self.life {
            store.retire(self.id);
        }
    }
}

#[derive(Debug)]
enum Life {
    Memory(Arc<MemoryStore>),
    /// It only reads, so it never holds anything.
    Reader,
    /// Its OS lock is what others test.
    Lock(live::LifeLock),
    /// Its lease is, and on its machine its lock.
    Lease(postgres::Lease),
}
