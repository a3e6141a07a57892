//! Ending the runs on a thread before it is deleted: they are cancelled, also those that wait, and waited for.

use std::time::Duration;

use baton_core::id::{Cursor, RunId, Tenant, ThreadId};
use baton_core::run::RunStatus;
use baton_engine::{Engine, EngineError};
use baton_store::{RunFilter, StoreError};
use tokio::time::{Instant, timeout_at};

use super::super::problem::{Problem, ProblemCode};
use super::super::runs::go_on;
use super::super::state::Service;

/// How long their end is waited for: a cancelled run has ten seconds to stop.
const PATIENCE: Duration = Duration::from_secs(15);
/// How many runs are read at once.
const PAGE: u32 = 100;

/// Cancels all runs of a thread and waits until they have ended.
pub(super) async fn end_runs(service: &Service, tenant: &Tenant, thread: &ThreadId) -> Result<(), Problem> {
    let engine = service.engine();
    let until = Instant::now() + PATIENCE;
    loop {
        let active = active(engine, tenant, thread).await?;
        if active.is_empty() {
            return Ok(());
        }
        for run in &active {
            match engine.cancel(tenant, *run).await {
                Ok(_) | Err(EngineError::Store(StoreError::NotFound { .. })) => go_on(service, tenant, *run),
                Err(error) => return Err(error.into()),
            }
        }
        for run in active {
            match timeout_at(until, ended(engine, tenant, run)).await {
                Ok(ended) => ended?,
                Err(_) => {
                    let detail = "its runs were told to stop and have not yet: try again in a moment";
                    return Err(Problem::new(ProblemCode::BranchBusy, detail)
                        .with("run_id", run.to_string())
                        .after(2));
                }
            }
        }
    }
}

async fn active(engine: &Engine, tenant: &Tenant, thread: &ThreadId) -> Result<Vec<RunId>, StoreError> {
    let mut found = Vec::new();
    // Queued runs come first: none of them begins while the others end.
    for status in [RunStatus::Queued, RunStatus::Running, RunStatus::Suspended] {
        let (thread, status) = (Some(thread.clone()), Some(status));
        let filter = RunFilter { thread, status, limit: PAGE, ..RunFilter::default() };
        found.extend(engine.store().runs(tenant, &filter).await?.into_iter().map(|row| row.id));
    }
    Ok(found)
}

/// Waits for the end of a run.
async fn ended(engine: &Engine, tenant: &Tenant, run: RunId) -> Result<(), EngineError> {
    let mut reader = match engine.events(tenant, run, Cursor::default()).await {
        Err(EngineError::Store(StoreError::NotFound { .. })) => return Ok(()),
        reader => reader?,
    };
    while reader.next().await?.is_some() {}
    Ok(())
}
