//! Runs that may have become this process's without its knowledge: the write that makes a run ours can land long after
//! its caller gave up. Then the run is ours, our lease lives, and no process would ever drive it.
//!
//! So every such write is an [`Attempt`] until its outcome is known. An attempt that ends without an outcome is
//! remembered, and as soon as the store names this process as the run's owner, the run is resumed or released.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_core::id::{RunId, Tenant};
use baton_store::ClaimMode;
use tokio::time::Instant;

use super::{Engine, Shared};
use crate::error::EngineError;

/// How long a write that is no longer awaited may still be on its way to the store.
const ON_ITS_WAY: Duration = Duration::from_secs(3600);
/// How many are remembered.
const MOST: usize = 10_000;

/// The tenant of a run that may be ours, and until when that may turn out.
#[derive(Debug)]
struct Open {
    tenant: Tenant,
    until: Instant,
}

/// The runs with an unknown outcome; see the module.
#[derive(Debug, Default)]
pub(super) struct Unsettled(Mutex<HashMap<RunId, Open>>);

impl Unsettled {
    fn open(&self) -> MutexGuard<'_, HashMap<RunId, Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All runs that may be ours.
    pub(super) fn all(&self) -> Vec<(Tenant, RunId)> {
        self.open().iter().map(|(run, open)| (open.tenant.clone(), *run)).collect()
    }
}

/// A write that may make a run ours; dropped unsettled, it may still do so.
pub(super) struct Attempt {
    shared: Arc<Shared>,
    of: Option<(Tenant, RunId)>,
}

impl Attempt {
    /// Ends the attempt if its outcome is known: any result but a transient error of the store.
    pub(super) fn ended<T>(mut self, came: Result<T, EngineError>) -> Result<T, EngineError> {
        let is_open = matches!(&came, Err(EngineError::Store(error)) if error.is_transient());
        if !is_open {
            self.of = None;
        }
        came
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let Some((tenant, run)) = self.of.take() else { return };
        let mut open = self.shared.unsettled.open();
        if open.len() < MOST {
            open.insert(run, Open { tenant, until: Instant::now() + ON_ITS_WAY });
        }
    }
}

impl Shared {
    /// Whether a run may be ours without our knowledge.
    pub(super) fn has_unsettled(&self) -> bool {
        let mut open = self.unsettled.open();
        if !open.is_empty() {
            let now = Instant::now();
            open.retain(|_, open| open.until > now);
        }
        !open.is_empty()
    }
}

impl Engine {
    /// Begins a write that may make a run ours.
    pub(super) fn attempt(&self, tenant: &Tenant, run: RunId) -> Attempt {
        Attempt { shared: self.shared.clone(), of: Some((tenant.clone(), run)) }
    }

    /// Takes up a run that the store names as ours: if that was unknown, it is resumed, or released where that fails.
    pub(super) fn take_up(&self, run: RunId) {
        let Some(Open { tenant, .. }) = self.shared.unsettled.open().remove(&run) else { return };
        let engine = self.clone();
        let taking = async move {
            // A failure because of the store leaves an open attempt again.
            let Err(error) = engine.resume(&tenant, run, ClaimMode::IfFree).await else { return };
            if !matches!(&error, EngineError::Store(error) if error.is_transient()) {
                tracing::warn!(%run, %error, "this run is let go");
                let attempt = engine.attempt(&tenant, run);
                let _ = attempt.ended(engine.let_go(&tenant, run).await);
            }
        };
        self.shared.before_leaving(taking);
    }

    /// Releases a run that is ours and is not driven.
    async fn let_go(&self, tenant: &Tenant, run: RunId) -> Result<(), EngineError> {
        let store = &self.shared.store;
        let row = store.run(tenant, run).await?;
        if row.owner == Some(self.owner()) {
            store.release(tenant, run, row.epoch).await?;
        }
        Ok(())
    }
}
