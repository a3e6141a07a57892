//! The queue of runs whose tool calls are not in the audit trail yet, in memory.

use baton_core::id::{RunId, Tenant, ThreadId};
use baton_core::run::ApprovalStatus;

use super::service::MemEvent;
use super::{MemState, MemoryStore};
use crate::error::StoreError;
use crate::service::{AuditEvent, DerivedCalls, RestedPage, RestedRun, rests};

impl MemoryStore {
    pub(crate) fn tell(&self, tenant: &Tenant, event: AuditEvent) -> Result<(), StoreError> {
        self.lock().note_event(tenant, event);
        Ok(())
    }

    pub(crate) fn rested_runs(&self, limit: u32) -> Result<RestedPage, StoreError> {
        let inner = self.lock();
        let mut page = RestedPage::default();
        for (n, (tenant, run, has_ended)) in inner.rested.iter().take(limit as usize) {
            page.numbers.push(*n);
            let row = inner.runs.get(&(tenant.clone(), *run));
            let edited = |approval: &baton_core::run::Approval| {
                approval.run_id == *run && approval.status == ApprovalStatus::Edited
            };
            page.runs.push(RestedRun {
                tenant: tenant.clone(),
                run: *run,
                has_ended: *has_ended,
                definition: row.map(|run| run.row.definition.clone()),
                was_edited: inner.approvals.iter().any(|((of, _), it)| of == tenant && edited(it)),
                after: inner.told.get(&(tenant.clone(), *run)).copied().unwrap_or_default(),
            });
        }
        Ok(page)
    }

    pub(crate) fn add_calls(&self, page: &RestedPage, derived: DerivedCalls) -> Result<bool, StoreError> {
        let mut inner = self.lock();
        if page.is_empty() || !page.numbers.iter().all(|n| inner.rested.contains_key(n)) {
            return Ok(false);
        }
        for n in &page.numbers {
            inner.rested.remove(n);
        }
        for (tenant, event) in derived.events {
            inner.note_event(&tenant, event);
        }
        for (tenant, run, step) in derived.told {
            match step {
                Some(step) => inner.told.insert((tenant, run), step),
                None => inner.told.remove(&(tenant, run)),
            };
        }
        Ok(true)
    }
}

impl MemState {
    /// Puts the run of an event that is being sealed into the queue, if it was suspended or ended.
    pub(super) fn note_rest(&mut self, n: i64, row: &MemEvent) {
        let Some(rest) = row.rest() else { return };
        self.rested.insert(n, rest);
    }

    /// Suspended and ended runs whose calls are not in the trail yet, even if their event is not in the chain yet.
    pub(super) fn untold(&self) -> impl Iterator<Item = (Tenant, RunId)> {
        let unsealed = self.outbox.values().filter(|row| !row.sealed).filter_map(MemEvent::rest);
        let rests = self.rested.values().cloned().chain(unsealed);
        rests.map(|(tenant, run, _)| (tenant, run))
    }

    /// Whether one of those runs is on a thread.
    pub(super) fn has_untold(&self, tenant: &Tenant, thread: &ThreadId) -> bool {
        self.untold()
            .any(|key| key.0 == *tenant && self.runs.get(&key).is_some_and(|run| run.row.thread == *thread))
    }
}

impl MemEvent {
    /// The run that the event suspended or ended, and whether it ended it.
    fn rest(&self) -> Option<(Tenant, RunId, bool)> {
        let has_ended = rests(&self.event.kind).filter(|_| !self.external)?;
        let run = self.event.payload.get("run_id")?.as_str()?.parse().ok()?;
        Some((self.tenant.clone(), run, has_ended))
    }
}
