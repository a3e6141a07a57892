//! A store in memory: for tests, and as the model that the other stores are compared with.
//!
//! It is plain maps behind one lock, written to be read: where a stored row and a rule could be confused, the rule is
//! written here.

mod calls;
mod gc;
mod marks;
mod runs;
mod service;
mod threads;
mod tokens;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_core::id::{BranchName, OwnerId, RunId, Tenant, ThreadId};
use baton_core::run::{Approval, Definition};
use baton_core::thread::{PlacedEntry, Tree};
use baton_core::time::Timestamp;
use serde_json::Value;

use crate::error::StoreError;
use crate::service::{AuditRow, ChainEnd, Token};
use crate::threads::FirstMarked;
use crate::view::{ClaimRow, Posted, Pulse, RunRow, StepRow};
use service::{MemEvent, MemKey, MemQueued};

/// The store in memory; see the module.
#[derive(Debug, Default)]
pub struct MemoryStore {
    inner: Mutex<MemState>,
}

#[derive(Debug, Default)]
struct MemState {
    threads: BTreeMap<(Tenant, ThreadId), MemThread>,
    runs: BTreeMap<(Tenant, RunId), MemRun>,
    approvals: BTreeMap<(Tenant, String), Approval>,
    definitions: HashMap<(Tenant, String), Definition>,
    blobs: HashMap<(Tenant, String), MemBlob>,
    living: HashSet<OwnerId>,
    born: u64,
    /// By tenant, route and key.
    keys: BTreeMap<(Tenant, String, String), MemKey>,
    /// In the order of the queue.
    queue: Vec<MemQueued>,
    outbox: BTreeMap<i64, MemEvent>,
    last_event: i64,
    chain: Vec<AuditRow>,
    chain_end: ChainEnd,
    /// Suspended and ended runs whose calls are not in the trail yet, by the number of their event; true for those that
    /// ended.
    rested: BTreeMap<i64, (Tenant, RunId, bool)>,
    /// The last step of an unfinished run whose calls are in the trail.
    told: BTreeMap<(Tenant, RunId), u32>,
    /// The mark of the last policy in force.
    policy: Option<String>,
    tokens: BTreeMap<String, Token>,
    /// Whether the service is closed to callers without a token, even when no token is left.
    requires_tokens: bool,
    /// Names that are stored for good.
    marks: BTreeSet<String>,
}

#[derive(Debug)]
struct MemThread {
    born: u64,
    created: Timestamp,
    ttl_at: Option<Timestamp>,
    meta: Value,
    tree: Tree,
    busy: BTreeMap<BranchName, RunId>,
    touched: BTreeMap<BranchName, Timestamp>,
    entries: BTreeMap<(u32, i64), PlacedEntry>,
    /// The first untrusted and the first private entry of every lane that has one.
    marked: BTreeMap<u32, FirstMarked>,
}

#[derive(Debug)]
struct MemRun {
    row: RunRow,
    steps: Vec<StepRow>,
    claims: Vec<ClaimRow>,
    inbox: Vec<Posted>,
}

#[derive(Debug)]
struct MemBlob {
    bytes: Vec<u8>,
    touched: Timestamp,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        MemoryStore::default()
    }

    /// Always 0: memory is not counted.
    pub(crate) fn size(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    fn lock(&self) -> MutexGuard<'_, MemState> {
        // A panic while the lock was held leaves a value that tests can still inspect.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn register(&self, owner: OwnerId) {
        self.lock().living.insert(owner);
    }

    pub(crate) fn news(&self, owner: OwnerId) -> Result<Vec<Pulse>, StoreError> {
        let is_news = |pulse: &Pulse| pulse.inbox > 0 || pulse.watched_until.is_some();
        Ok(self.pulses(owner).into_iter().filter(is_news).collect())
    }

    pub(crate) fn retire(&self, owner: OwnerId) {
        self.lock().living.remove(&owner);
    }

    pub(crate) fn is_alive(&self, owner: OwnerId) -> bool {
        self.lock().living.contains(&owner)
    }

    pub(crate) fn put_blob(
        &self,
        tenant: &Tenant,
        hash: &str,
        bytes: Vec<u8>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let mut inner = self.lock();
        let blob = inner.blobs.entry((tenant.clone(), hash.to_owned()));
        let blob = blob.or_insert(MemBlob { bytes, touched: at });
        blob.touched = blob.touched.max(at);
        Ok(())
    }

    pub(crate) fn blob(&self, tenant: &Tenant, hash: &str) -> Option<Vec<u8>> {
        self.lock().blobs.get(&(tenant.clone(), hash.to_owned())).map(|blob| blob.bytes.clone())
    }
}

impl MemState {
    fn thread(&self, tenant: &Tenant, id: &ThreadId) -> Result<&MemThread, StoreError> {
        self.threads.get(&(tenant.clone(), id.clone())).ok_or_else(|| StoreError::not_found("thread", id))
    }

    fn thread_mut(&mut self, tenant: &Tenant, id: &ThreadId) -> Result<&mut MemThread, StoreError> {
        let key = (tenant.clone(), id.clone());
        self.threads.get_mut(&key).ok_or_else(|| StoreError::not_found("thread", id))
    }

    fn run(&self, tenant: &Tenant, id: RunId) -> Result<&MemRun, StoreError> {
        self.runs.get(&(tenant.clone(), id)).ok_or_else(|| StoreError::not_found("run", id))
    }

    fn run_mut(&mut self, tenant: &Tenant, id: RunId) -> Result<&mut MemRun, StoreError> {
        self.runs.get_mut(&(tenant.clone(), id)).ok_or_else(|| StoreError::not_found("run", id))
    }

    fn next_born(&mut self) -> u64 {
        self.born += 1;
        self.born
    }
}
