//! Bringing the audit trail up to date beside the runs: sealing it, and adding the rows of tool calls.
//!
//! The rows of a run's calls are added once it was suspended or has ended. Nothing is written for them while the run is
//! driven: they are derived from the run's steps, so a run and its calls are not removed before
//! ([`Engine::delete_thread`], [`Engine::collect`]).

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use baton_core::id::{RunId, Tenant, ThreadId};
use baton_core::run::Definition;
use baton_store::{AuditEvent, Collected, DerivedCalls, GcRequest, RestedPage, RestedRun, StoreError};

use super::Engine;
use crate::audit::calls::{CallTrail, called, may_have_effects};
use crate::error::EngineError;
use crate::patience::patiently;

/// The most events that are sealed at once, and the most runs whose calls are added at once.
const BATCH: u32 = 500;
/// How many steps are read at once.
const STEPS: u32 = 128;
/// How often the removal of a thread is tried again when its runs ended meanwhile.
const TRIES: u32 = 50;

/// Definitions that were read; none: one that cannot be read.
type Definitions = HashMap<(Tenant, String), Option<Arc<Definition>>>;

impl Engine {
    /// Adds all unsealed events to the chain of the audit trail; answers how many.
    pub async fn seal_trail(&self) -> Result<u64, StoreError> {
        let mut count = 0;
        loop {
            let sealed = self.shared.store.seal(BATCH).await?;
            count += sealed;
            if sealed < u64::from(BATCH) {
                return Ok(count);
            }
        }
    }

    /// Adds the calls of all runs that were suspended or ended to the audit trail, and seals them. If another process
    /// is doing the same, it is left to that one.
    pub async fn tell_calls(&self) -> Result<(), EngineError> {
        let mut definitions = Definitions::new();
        self.seal_trail().await?;
        loop {
            let page = self.shared.store.rested_runs(BATCH).await?;
            if page.is_empty() {
                return Ok(());
            }
            let derived = self.derive(&page, &mut definitions).await?;
            let is_ours = self.shared.store.add_calls(&page, derived).await?;
            self.seal_trail().await?;
            // Runs that rested meanwhile are left for the next time: under load there is no end of them.
            if !is_ours || page.len() < BATCH as usize {
                return Ok(());
            }
        }
    }

    /// Removes a thread with its runs. The removal is recorded in the audit trail, and the calls of its runs before.
    /// Refused while a run is active on it.
    pub async fn delete_thread(&self, tenant: &Tenant, id: &ThreadId, by: &str) -> Result<(), EngineError> {
        let source = self.shared.settings.audit.trail_source(by);
        for _ in 0..TRIES {
            self.tell_calls().await?;
            let told = source.thread_deleted(self.shared.clock.now(), id);
            match self.shared.store.delete_thread(tenant, id, Some(told)).await {
                // A run ended at this moment, or another process is about to add its calls.
                Err(StoreError::Untold { .. }) => tokio::time::sleep(self.shared.settings.poll).await,
                deleted => return Ok(deleted?),
            }
        }
        Err(StoreError::Untold { thread: id.to_string() }.into())
    }

    /// Removes expired data. The removed threads are recorded in the audit trail, and the calls of all runs before.
    pub async fn collect(&self, request: &GcRequest, by: &str) -> Result<Collected, EngineError> {
        if !request.dry_run {
            self.tell_calls().await?;
        }
        let source = self.shared.settings.audit.trail_source(by);
        Ok(self.shared.store.collect(request, Some(&source)).await?)
    }

    async fn derive(
        &self,
        page: &RestedPage,
        definitions: &mut Definitions,
    ) -> Result<DerivedCalls, EngineError> {
        let mut events = Vec::new();
        let mut told: BTreeMap<(Tenant, RunId), Option<u32>> = BTreeMap::new();
        for rested in &page.runs {
            let key = (rested.tenant.clone(), rested.run);
            let after = told.get(&key).copied().flatten().unwrap_or(rested.after);
            let last = match self.is_to_be_read(rested, definitions).await? {
                Some(definition) => {
                    let (calls, last) = self.calls_of(rested, definition.as_deref(), after).await?;
                    events.extend(calls.into_iter().map(|event| (rested.tenant.clone(), event)));
                    last
                }
                None => after,
            };
            if rested.has_ended && after > 0 {
                told.insert(key, None);
            } else if !rested.has_ended && last > after {
                told.insert(key, Some(last));
            }
        }
        let told = told.into_iter().map(|((tenant, run), step)| (tenant, run, step)).collect();
        Ok(DerivedCalls { events, told })
    }

    /// The definition of a run that may have calls with effects; none: nothing more has to be read, as for most runs.
    async fn is_to_be_read(
        &self,
        rested: &RestedRun,
        definitions: &mut Definitions,
    ) -> Result<Option<Option<Arc<Definition>>>, EngineError> {
        let Some(hash) = &rested.definition else { return Ok(None) };
        let key = (rested.tenant.clone(), hash.clone());
        let definition = match definitions.get(&key) {
            Some(known) => known.clone(),
            None => {
                let store = &self.shared.store;
                let read = readable(patiently!(self.shared, store.definition(&rested.tenant, hash)))?;
                definitions.entry(key).or_insert(read.map(Arc::new)).clone()
            }
        };
        let has_calls = definition.as_deref().is_none_or(may_have_effects) || rested.was_edited;
        Ok(has_calls.then_some(definition))
    }

    /// The rows of a run's calls that were closed after a step, and the last step that was read.
    async fn calls_of(
        &self,
        rested: &RestedRun,
        definition: Option<&Definition>,
        after: u32,
    ) -> Result<(Vec<AuditEvent>, u32), EngineError> {
        let (shared, store, tenant) = (&self.shared, &self.shared.store, &rested.tenant);
        let Some(row) = readable(patiently!(shared, store.run(tenant, rested.run)))? else {
            return Ok((Vec::new(), after));
        };
        let mut trail = CallTrail::new(definition.map_or(&[], |definition| &definition.tools));
        let mut read = 0;
        while let Some(page) = readable(patiently!(shared, store.steps(tenant, rested.run, read, STEPS)))? {
            let Some(last) = page.last() else { break };
            read = last.step;
            page.iter().for_each(|step| trail.step(step));
            if page.len() < STEPS as usize {
                break;
            }
        }
        let closed = trail.closed();
        let new = closed.iter().filter(|call| call.step > after);
        Ok((new.map(|call| called(&shared.settings.audit, &row, call)).collect(), read.max(after)))
    }
}

/// The value that was read; none: it is gone or damaged, which must not keep the calls of all other runs out of the
/// trail.
fn readable<T>(read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_transient() => Err(error),
        Err(error) => {
            tracing::warn!(%error, "the audit trail is not told of the calls of a run that cannot be read");
            Ok(None)
        }
    }
}
