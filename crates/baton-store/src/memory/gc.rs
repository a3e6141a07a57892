//! Garbage collection in memory.

use std::collections::HashSet;

use baton_core::id::{RunId, Tenant, ThreadId};
use baton_core::time::Timestamp;

use super::{MemState, MemoryStore};
use crate::error::StoreError;
use crate::service::{Collected, GcRequest, TrailSource, Unnamed};

impl MemoryStore {
    pub(crate) fn collect(
        &self,
        request: &GcRequest,
        trail: Option<&TrailSource>,
    ) -> Result<Collected, StoreError> {
        let mut inner = self.lock();
        let mut threads = inner.old_threads(request.now);
        // A dry run counts everything that will be removed once its calls are in the trail.
        let untold: HashSet<_> =
            if trail.is_some() && !request.dry_run { inner.untold().collect() } else { HashSet::new() };
        for (key, run) in inner.runs.iter().filter(|(key, _)| untold.contains(*key)) {
            threads.remove(&(key.0.clone(), run.row.thread.clone()));
        }
        let ended = |at: Option<Timestamp>| {
            request.runs_before.is_some_and(|before| at.is_some_and(|at| at < before))
        };
        let of_thread = |(tenant, _): &(Tenant, RunId), thread: &ThreadId| {
            threads.contains(&(tenant.clone(), thread.clone()))
        };
        let (with_threads, by_age): (Vec<_>, Vec<_>) = inner
            .runs
            .iter()
            .filter(|(key, run)| {
                of_thread(key, &run.row.thread) || (ended(run.row.ended) && !untold.contains(*key))
            })
            .partition(|(key, run)| of_thread(key, &run.row.thread));
        let count = by_age.len() as u64;
        let runs: HashSet<_> = with_threads.into_iter().chain(by_age).map(|(key, _)| key.clone()).collect();
        let unnamed = match request.blobs_before {
            Some(before) => inner.unnamed(before, &threads, &runs),
            None => Unnamed::default(),
        };
        let (blobs, blob_bytes) = unnamed.count();
        let expired = inner.keys.values().filter(|key| key.expires_at <= request.now).count() as u64;
        let collected =
            Collected { threads: threads.len() as u64, runs: count, blobs, blob_bytes, keys: expired };
        if !request.dry_run {
            inner.threads.retain(|key, _| !threads.contains(key));
            inner.runs.retain(|key, _| !runs.contains(key));
            inner.approvals.retain(|(t, _), approval| !runs.contains(&(t.clone(), approval.run_id)));
            let named: HashSet<_> =
                inner.runs.iter().map(|((t, _), run)| (t.clone(), run.row.definition.clone())).collect();
            inner.definitions.retain(|key, _| named.contains(key));
            for key in unnamed.into_keys() {
                inner.blobs.remove(&key);
            }
            inner.keys.retain(|_, key| key.expires_at > request.now);
            let deleted = |trail: &TrailSource, thread| trail.thread_deleted(request.now, thread);
            for (tenant, thread) in &threads {
                inner.note_events(tenant, trail.map(|trail| deleted(trail, thread)));
            }
        }
        Ok(collected)
    }
}

impl MemState {
    /// Threads past their time to live that have no unfinished run, queued ones included.
    fn old_threads(&self, now: Timestamp) -> HashSet<(Tenant, ThreadId)> {
        let old = self.threads.iter().filter(|(_, thread)| thread.ttl_at.is_some_and(|at| at <= now));
        let mut old: HashSet<_> = old.map(|(key, _)| key.clone()).collect();
        for ((tenant, _), run) in self.runs.iter().filter(|(_, run)| !run.row.status.has_ended()) {
            old.remove(&(tenant.clone(), run.row.thread.clone()));
        }
        old
    }

    /// Blobs that were not touched since a moment, and that are named only by rows that are removed.
    fn unnamed(
        &self,
        before: Timestamp,
        threads: &HashSet<(Tenant, ThreadId)>,
        runs: &HashSet<(Tenant, RunId)>,
    ) -> Unnamed {
        let mut unnamed = Unnamed::default();
        for ((tenant, hash), blob) in self.blobs.iter().filter(|(_, blob)| blob.touched < before) {
            unnamed.add(tenant.clone(), hash.clone(), blob.bytes.len() as u64);
        }
        for (key, thread) in self.threads.iter().filter(|(key, _)| !threads.contains(key)) {
            for placed in thread.entries.values() {
                unnamed.saw(&key.0, Ok(placed.entry.data_text()));
            }
        }
        for (key, run) in self.runs.iter().filter(|(key, _)| !runs.contains(key)) {
            for step in &run.steps {
                unnamed.saw(&key.0, serde_json::to_vec(&step.checkpoint).map_err(|e| e.to_string()));
            }
        }
        unnamed
    }
}
