//! Runs that may have become this process's without its knowing: the write that makes a run ours can land long after
//! whoever waited for it gave up. Then it is ours, we live, and nobody would ever drive it.
//!
//! So every such write is an [`Attempt`] until it is known what came of it. One that ends without that is kept in mind,
//! and as soon as the store names this process as the run's owner, the run is gone on with, or let go of.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_core::id::{RunId, Tenant};
use baton_store::ClaimMode;
use tokio::time::Instant;

use super::{Engine, Shared};
use crate::error::EngineError;

/// How long a write that nobody waits for any more may still be on its way to the store.
const ON_ITS_WAY: Duration = Duration::from_secs(3600);
/// How many are kept in mind.
const MOST: usize = 10_000;

/// Whose a run is that may be ours, and until when that may turn out.
#[derive(Debug)]
struct Open {
    tenant: Tenant,
    until: Instant,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Unsettled(Mutex<HashMap<RunId, Open>>);

impl Unsettled {
    fn open(&self) -> MutexGuard<'_, HashMap<RunId, Open>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that may be ours.
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
    /// It is known what came of it, unless this is an error that does not say so.
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
    /// Whether a run may be ours without our knowing.
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
    /// A write begins that may make a run ours.
    pub(super) fn attempt(&self, tenant: &Tenant, run: RunId) -> Attempt {
        Attempt { shared: self.shared.clone(), of: Some((tenant.clone(), run)) }
    }

    /// The store says that a run is ours: if nobody knew, it is gone on with, or let go of where that does not work.
    pub(super) fn take_up(&self, run: RunId) {
        let Some(Open { tenant, .. }) = self.shared.unsettled.open().remove(&run) else { return };
        let engine = self.clone();
        let taking = async move {
            // What fails because of the store is an attempt that is open again.
            let Err(error) = engine.resume(&tenant, run, ClaimMode::IfFree).await else { return };
            if !matches!(&error, EngineError::Store(error) if error.is_transient()) {
                tracing::warn!(%run, %error, "this run is let go");
                let attempt = engine.attempt(&tenant, run);
                let _ = attempt.ended(engine.let_go(&tenant, run).await);
            }
        };
        self.shared.before_leaving(taking);
    }

    /// Lets go of a run that is ours and that nobody drives.
    async fn let_go(&self, tenant: &Tenant, run: RunId) -> Result<(), EngineError> {
        let store = &self.shared.store;
        let row = store.run(tenant, run).await?;
        if row.owner == Some(self.owner()) {
            store.release(tenant, run, row.epoch).await?;
        }
        Ok(())
    }
}
