//! Waiting for a run to rest, whether this process drives it, another one, or none yet.

use baton_core::id::{Cursor, RunId};
use baton_core::run::RunStatus;
use tokio::time::{Instant, timeout, timeout_at};

use super::Orchestrator;
use crate::driver::Rested;
use crate::engine::RunHandle;
use crate::error::EngineError;
use crate::patience::patiently;
use crate::reader::Seen;

/// The state of a run that another process drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Elsewhere {
    Rests,
    /// The process that drove it is dead.
    Orphaned,
}

impl Orchestrator {
    /// Waits until a run has ended or is suspended; false if that did not happen in time. A run that is not driven is
    /// driven here.
    pub(super) async fn rested(
        &self,
        run: RunId,
        mut handle: Option<RunHandle>,
        until: Option<Instant>,
    ) -> Result<bool, EngineError> {
        loop {
            let driven = match handle.take() {
                Some(handle) => Some(handle),
                None => self.engine.drive(&self.like.tenant, run).await?,
            };
            let Some(mut driven) = driven else {
                match in_time(until, self.elsewhere(run)).await.transpose()? {
                    None => return Ok(false),
                    Some(Elsewhere::Rests) => return Ok(true),
                    Some(Elsewhere::Orphaned) => continue,
                }
            };
            match in_time(until, driven.rested()).await {
                None => return Ok(false),
                Some(Rested::Ended(_) | Rested::Suspended) => return Ok(true),
                Some(Rested::Lost) => {} // it goes on elsewhere
                Some(Rested::Released) => return Err(EngineError::ShuttingDown),
                Some(Rested::Failed(error)) => return Err(error),
            }
        }
    }

    /// Reads the log of a run that another process drives until it rests. When the log is silent for a while, the store
    /// is asked whether its owner lives.
    async fn elsewhere(&self, run: RunId) -> Result<Elsewhere, EngineError> {
        let (shared, tenant) = (&self.engine.shared, &self.like.tenant);
        let row = patiently!(shared, shared.store.run(tenant, run))?;
        let mut reader = self.engine.events(tenant, run, Cursor { epoch: row.epoch, seq: row.seq }).await?;
        loop {
            let seen = match timeout(shared.settings.adopt_every, reader.next()).await {
                Ok(seen) => seen?,
                Err(_silent) => {
                    let row = patiently!(shared, shared.store.run(tenant, run))?;
                    let is_driven = shared.store.is_held(&row).await;
                    if row.status == RunStatus::Running && !is_driven {
                        return Ok(Elsewhere::Orphaned);
                    }
                    continue;
                }
            };
            match seen {
                None | Some(Seen::Suspended) => return Ok(Elsewhere::Rests),
                Some(Seen::Event(_) | Seen::Resumed { .. }) => {}
            }
        }
    }
}

async fn in_time<T>(until: Option<Instant>, waiting: impl Future<Output = T>) -> Option<T> {
    match until {
        Some(until) => timeout_at(until, waiting).await.ok(),
        None => Some(waiting.await),
    }
}
