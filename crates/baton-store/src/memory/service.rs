//! Service data in memory: keys, the queue of each branch, events and their chain.

use baton_core::id::{BranchName, OwnerId, RunId, Tenant, ThreadId};
use baton_core::run::RunStatus;
use baton_core::time::Timestamp;

use super::{MemRun, MemState, MemoryStore};
use crate::error::StoreError;
use crate::service::{
    AuditEvent, AuditRow, ChainEnd, Head, KeyRow, NewKey, NewQueued, OUTBOX_COUNTED, Outgoing, QueuedRun,
    Unsealed, policy_mark,
};
use crate::view::RunRow;

#[derive(Debug)]
pub(super) struct MemKey {
    pub(super) row: KeyRow,
    pub(super) expires_at: Timestamp,
}

#[derive(Debug)]
pub(super) struct MemQueued {
    pub(super) tenant: Tenant,
    pub(super) run: RunId,
    pub(super) thread: ThreadId,
    pub(super) branch: BranchName,
    pub(super) begins_with: QueuedRun,
}

impl MemQueued {
    fn is_in(&self, tenant: &Tenant, thread: &ThreadId, branch: &BranchName) -> bool {
        self.tenant == *tenant && self.thread == *thread && self.branch == *branch
    }
}

#[derive(Debug)]
pub(super) struct MemEvent {
    pub(super) tenant: Tenant,
    /// Its `send` says whether it is still to be sent, not whether that was requested.
    pub(super) event: AuditEvent,
    pub(super) sealed: bool,
    pub(super) external: bool,
}

impl MemEvent {
    fn bytes(&self) -> u64 {
        self.event.payload.to_string().len() as u64
    }

    fn unsealed(&self, n: i64) -> Unsealed {
        let AuditEvent { at, correlation, kind, source, .. } = self.event.clone();
        Unsealed {
            n,
            tenant: self.tenant.clone(),
            at,
            correlation,
            kind,
            source,
            external: self.external,
            digest: self.event.digest(),
        }
    }
}

impl MemoryStore {
    pub(crate) fn heads(&self, runs: &[(Tenant, RunId)]) -> Result<Vec<Head>, StoreError> {
        let inner = self.lock();
        let rows = runs.iter().filter_map(|key| inner.runs.get(key)).map(|run| &run.row);
        let head = |row: &RunRow| Head { run: row.id, epoch: row.epoch, seq: row.seq, status: row.status };
        Ok(rows.map(head).collect())
    }

    pub(crate) fn enqueue(&self, tenant: &Tenant, new: NewQueued) -> Result<(), StoreError> {
        let mut inner = self.lock();
        if inner.runs.contains_key(&(tenant.clone(), new.run)) {
            return Err(StoreError::Exists { what: "run", id: new.run.to_string() });
        }
        crate::runs::own_key(inner.unused(tenant, new.key.as_ref(), new.at), new.run, false)?;
        let begins_with = QueuedRun::of(&new);
        let head = match inner.thread(tenant, &new.thread) {
            Ok(thread) => inner.head(tenant, thread, &new.branch)?,
            Err(error) => {
                // A missing thread has a branch to wait for only if it is created with the run.
                let thread = new.new_thread.filter(|made| made.id == new.thread).ok_or(error)?;
                if new.branch != BranchName::main() {
                    return Err(baton_core::thread::TreeError::NoBranch(new.branch.to_string()).into());
                }
                inner.add_thread(tenant, thread);
                baton_core::thread::Place { lane: 0, index: -1 }
            }
        };
        let ahead = |q: &&MemQueued| q.is_in(tenant, &new.thread, &new.branch);
        if !new.first && inner.queue.iter().filter(ahead).count() >= new.most as usize {
            return Err(StoreError::QueueFull { branch: new.branch.to_string(), most: new.most });
        }
        if let Some(key) = new.key {
            inner.note_key(tenant, &key, Some(new.run), None);
        }
        let hash = new.definition.hash.clone();
        inner.definitions.insert((tenant.clone(), hash.clone()), (*new.definition.definition).clone());
        let row = RunRow {
            status: RunStatus::Queued,
            lane: head.lane,
            definition: hash,
            metadata: new.metadata,
            ..RunRow::begun(new.run, &new.thread, &new.branch, head.index, new.at)
        };
        let run = MemRun { row, steps: Vec::new(), claims: Vec::new(), inbox: Vec::new() };
        inner.runs.insert((tenant.clone(), new.run), run);
        let place = if new.first { 0 } else { inner.queue.len() };
        let waits = MemQueued {
            tenant: tenant.clone(),
            run: new.run,
            thread: new.thread,
            branch: new.branch,
            begins_with,
        };
        inner.queue.insert(place, waits);
        Ok(())
    }

    pub(crate) fn forgive(&self, tenant: &Tenant, run: RunId, epoch: u32) -> Result<(), StoreError> {
        let mut inner = self.lock();
        let found = inner.run_mut(tenant, run)?;
        if found.row.epoch == epoch && found.row.status == RunStatus::Running {
            found.row.attempts = 0;
        }
        Ok(())
    }

    pub(crate) fn queued(&self, tenant: &Tenant, run: RunId) -> Result<QueuedRun, StoreError> {
        let inner = self.lock();
        let row = &inner.run(tenant, run)?.row;
        let waits = inner.queue.iter().find(|q| q.tenant == *tenant && q.run == run);
        waits.map(|q| q.begins_with.clone()).ok_or_else(|| crate::runs::begun_already(row))
    }

    pub(crate) fn key(
        &self,
        tenant: &Tenant,
        route: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<KeyRow>, StoreError> {
        Ok(self.lock().known_key(tenant, route, key, now))
    }

    pub(crate) fn begin_key(
        &self,
        tenant: &Tenant,
        new: &NewKey,
        run: Option<RunId>,
        owner: Option<OwnerId>,
        now: Timestamp,
    ) -> Result<Option<KeyRow>, StoreError> {
        let mut inner = self.lock();
        let known = inner.known_key(tenant, &new.route, &new.key, now);
        if known.is_none() {
            inner.note_key(tenant, new, run, owner);
        }
        Ok(known)
    }

    pub(crate) fn retake_key(
        &self,
        tenant: &Tenant,
        route: &str,
        key: &str,
        from: OwnerId,
        to: OwnerId,
    ) -> Result<bool, StoreError> {
        let mut inner = self.lock();
        let Some(row) = inner.worked_on(tenant, route, key, from) else { return Ok(false) };
        row.owner = Some(to);
        Ok(true)
    }

    pub(crate) fn answer_call(
        &self,
        tenant: &Tenant,
        route: &str,
        key: &str,
        owner: OwnerId,
        answer: Vec<u8>,
        audit: Option<AuditEvent>,
    ) -> Result<(), StoreError> {
        let mut inner = self.lock();
        if let Some(row) = inner.worked_on(tenant, route, key, owner) {
            row.answer = Some(answer);
            inner.note_events(tenant, audit);
        }
        Ok(())
    }

    pub(crate) fn receive(
        &self,
        tenant: &Tenant,
        event: AuditEvent,
        key: Option<NewKey>,
    ) -> Result<bool, StoreError> {
        let mut inner = self.lock();
        if inner.unused(tenant, key.as_ref(), event.at).is_err() {
            return Ok(false);
        }
        if let Some(key) = key {
            inner.note_key(tenant, &key, None, None);
        }
        inner.note_external(tenant, AuditEvent { send: false, ..event }, true);
        Ok(true)
    }

    pub(crate) fn outbox(&self, after: i64, limit: u32) -> Result<Vec<Outgoing>, StoreError> {
        let inner = self.lock();
        let unsent =
            inner.outbox.iter().filter(|(n, row)| **n > after && row.event.send).take(limit as usize);
        let outgoing = |(n, row): (&i64, &MemEvent)| Outgoing {
            n: *n,
            tenant: row.tenant.clone(),
            event: row.event.clone(),
        };
        Ok(unsent.map(outgoing).collect())
    }

    pub(crate) fn outbox_beside(&self, tenants: &[Tenant], limit: u32) -> Result<Vec<Outgoing>, StoreError> {
        let all = self.outbox(0, u32::MAX)?.into_iter();
        Ok(all.filter(|event| !tenants.contains(&event.tenant)).take(limit as usize).collect())
    }

    pub(crate) fn outbox_depth(&self) -> Result<u64, StoreError> {
        let inner = self.lock();
        let unsent = inner.outbox.values().filter(|row| row.event.send);
        Ok(unsent.take(OUTBOX_COUNTED as usize).count() as u64)
    }

    pub(crate) fn sent(&self, numbers: &[i64]) -> Result<(), StoreError> {
        let mut inner = self.lock();
        for n in numbers {
            inner.no_longer_sent(*n);
        }
        Ok(())
    }

    pub(crate) fn trim_outbox(
        &self,
        before: Timestamp,
        most_bytes: u64,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let mut inner = self.lock();
        let mut bytes: u64 = 0;
        let mut dropped = Vec::new();
        for (n, row) in inner.outbox.iter().rev().filter(|(_, row)| row.event.send) {
            bytes = bytes.saturating_add(row.bytes());
            if bytes > most_bytes || row.event.at < before {
                dropped.push(*n);
            }
        }
        for n in &dropped {
            inner.no_longer_sent(*n);
        }
        let count = dropped.len() as u64;
        if count > 0 {
            inner.note_event(&Tenant::local(), AuditEvent::dropped(count, now));
        }
        Ok(count)
    }

    pub(crate) fn seal(&self, limit: u32) -> Result<u64, StoreError> {
        let mut inner = self.lock();
        let unsealed = inner.outbox.iter().filter(|(_, row)| !row.sealed).map(|(n, _)| *n);
        let unsealed: Vec<i64> = unsealed.take(limit as usize).collect();
        for n in &unsealed {
            let Some(mut row) = inner.outbox.remove(n) else { continue };
            let sealed = AuditRow::sealed(&mut inner.chain_end, row.unsealed(*n));
            inner.chain.push(sealed);
            inner.note_rest(*n, &row);
            if row.event.send {
                row.sealed = true;
                inner.outbox.insert(*n, row);
            }
        }
        Ok(unsealed.len() as u64)
    }

    pub(crate) fn note_policy(&self, hash: &str, mut audit: AuditEvent) -> Result<bool, StoreError> {
        let mut inner = self.lock();
        let mark = policy_mark(hash);
        if inner.policy.as_ref() == Some(&mark) {
            return Ok(false);
        }
        let Some(before) = inner.policy.replace(mark) else { return Ok(false) };
        audit.follows_policy(&before);
        inner.note_event(&Tenant::local(), audit);
        Ok(true)
    }

    pub(crate) fn chain_end(&self) -> Result<ChainEnd, StoreError> {
        Ok(self.lock().chain_end.clone())
    }

    pub(crate) fn audit(
        &self,
        tenant: Option<&Tenant>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<AuditRow>, StoreError> {
        let inner = self.lock();
        let wanted = |row: &&AuditRow| row.n > after && tenant.is_none_or(|tenant| row.tenant == *tenant);
        Ok(inner.chain.iter().filter(wanted).take(limit as usize).cloned().collect())
    }
}

impl MemState {
    fn known_key(&self, tenant: &Tenant, route: &str, key: &str, now: Timestamp) -> Option<KeyRow> {
        let found = self.keys.get(&(tenant.clone(), route.to_owned(), key.to_owned()))?;
        (found.expires_at > now).then(|| found.row.clone())
    }

    /// Refuses a key that was used and has not expired.
    pub(super) fn unused(
        &self,
        tenant: &Tenant,
        key: Option<&NewKey>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        match key.and_then(|key| self.known_key(tenant, &key.route, &key.key, now)) {
            Some(row) => Err(StoreError::KeyUsed(Box::new(row))),
            None => Ok(()),
        }
    }

    pub(super) fn note_key(
        &mut self,
        tenant: &Tenant,
        new: &NewKey,
        run: Option<RunId>,
        owner: Option<OwnerId>,
    ) {
        let row = KeyRow { body_hash: new.body_hash.clone(), run, owner, answer: None };
        let place = (tenant.clone(), new.route.clone(), new.key.clone());
        self.keys.insert(place, MemKey { row, expires_at: new.expires_at });
    }

    /// A key whose work belongs to this owner and is not done.
    fn worked_on(&mut self, tenant: &Tenant, route: &str, key: &str, owner: OwnerId) -> Option<&mut KeyRow> {
        let found = self.keys.get_mut(&(tenant.clone(), route.to_owned(), key.to_owned()))?;
        Some(&mut found.row).filter(|row| row.owner == Some(owner) && row.answer.is_none())
    }

    pub(super) fn note_event(&mut self, tenant: &Tenant, event: AuditEvent) {
        self.note_external(tenant, event, false);
    }

    pub(super) fn note_events(&mut self, tenant: &Tenant, events: impl IntoIterator<Item = AuditEvent>) {
        events.into_iter().for_each(|event| self.note_event(tenant, event));
    }

    fn note_external(&mut self, tenant: &Tenant, event: AuditEvent, external: bool) {
        self.last_event += 1;
        let row = MemEvent { tenant: tenant.clone(), event, sealed: false, external };
        self.outbox.insert(self.last_event, row);
    }

    /// Marks an event as sent or dropped, and removes it if it is in the chain as well.
    fn no_longer_sent(&mut self, n: i64) {
        let Some(row) = self.outbox.get_mut(&n) else { return };
        row.event.send = false;
        if row.sealed {
            self.outbox.remove(&n);
        }
    }

    /// The first queued run of each free branch, in the order of the queue.
    pub(super) fn next_in_line(&self) -> Vec<(Tenant, RunId)> {
        let mut seen = std::collections::HashSet::new();
        let first = self.queue.iter().filter(|q| seen.insert((&q.tenant, &q.thread, &q.branch)));
        let free = |q: &&MemQueued| match self.thread(&q.tenant, &q.thread) {
            Ok(thread) => !thread.busy.contains_key(&q.branch),
            Err(_) => true,
        };
        first.filter(free).map(|q| (q.tenant.clone(), q.run)).collect()
    }

    /// The first run in the queue of a branch.
    pub(super) fn first_in_line(
        &self,
        tenant: &Tenant,
        thread: &ThreadId,
        branch: &BranchName,
    ) -> Option<RunId> {
        self.queue.iter().find(|q| q.is_in(tenant, thread, branch)).map(|q| q.run)
    }

    /// Takes a run out of the queue, if it is in it.
    pub(super) fn leave_line(&mut self, tenant: &Tenant, run: RunId) {
        self.queue.retain(|q| !(q.tenant == *tenant && q.run == run));
    }
}
