//! Decodes rows of runs.

use baton_core::budget::Budget;
use baton_core::id::{OwnerId, RunId};
use baton_core::run::RunStatus;
use baton_core::time::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::tree::{lane, name};
use crate::error::StoreError;
use crate::view::RunRow;

/// A statement about the columns of [`run_row`].
macro_rules! select_run {
    ($rest:literal) => {
        concat!(
            "SELECT run, thread, branch, lane, head, status, owner, epoch, step, seq, inbox, attempts, definition,
             min_version, budget, wake_at, watched_until, created, ended, metadata FROM runs ",
            $rest
        )
    };
}
pub(super) use select_run;

/// One run by its id.
pub(super) const RUN: &str = select_run!("WHERE tenant = $1 AND run = $2");

pub(super) fn run_row(row: &Row) -> Result<RunRow, StoreError> {
    let id = RunId(row.try_get(0)?);
    let unreadable = |why: serde_json::Error| StoreError::corrupt("run", id, why);
    let time = |at: usize| row.try_get::<_, Option<i64>>(at).map(|ms| ms.map(Timestamp));
    Ok(RunRow {
        id,
        thread: name("thread", row.try_get(1)?)?,
        branch: name("branch", row.try_get(2)?)?,
        lane: lane(row, 3)?,
        head: row.try_get(4)?,
        status: status(id, row.try_get(5)?)?,
        owner: row.try_get::<_, Option<Uuid>>(6)?.map(OwnerId),
        epoch: number(row, 7)?,
        step: number(row, 8)?,
        seq: row.try_get::<_, i64>(9)? as u64,
        inbox: number(row, 10)?,
        attempts: number(row, 11)?,
        definition: row.try_get(12)?,
        min_version: number(row, 13)?,
        budget: budget(id, row, 14)?,
        wake_at: time(15)?,
        watched_until: time(16)?,
        created: Timestamp(row.try_get(17)?),
        ended: time(18)?,
        metadata: serde_json::from_slice(row.try_get(19)?).map_err(unreadable)?,
    })
}

/// The usage of a run, from its column.
pub(super) fn budget(run: RunId, row: &Row, column: usize) -> Result<Budget, StoreError> {
    serde_json::from_slice(row.try_get(column)?).map_err(|why| StoreError::corrupt("run", run, why))
}

/// A number that is never negative.
pub(super) fn number(row: &Row, column: usize) -> Result<u32, StoreError> {
    Ok(row.try_get::<_, i32>(column)? as u32)
}

/// A checksum from its column.
pub(super) fn checksum(row: &Row, column: usize) -> Result<u32, StoreError> {
    Ok(row.try_get::<_, i64>(column)? as u32)
}

/// A status as its column has it.
pub(crate) fn stored(status: RunStatus) -> i16 {
    (0..).zip(RunStatus::ALL).find(|(_, s)| *s == status).map_or(0, |(n, _)| n)
}

/// A status from its column.
pub(super) fn status(run: RunId, stored: i16) -> Result<RunStatus, StoreError> {
    let known = usize::try_from(stored).ok().and_then(|n| RunStatus::ALL.get(n)).copied();
    known.ok_or_else(|| StoreError::corrupt("run", run, "unknown status"))
}

/// One row of a list: a row that cannot be read is left out, so that it affects no other.
pub(crate) fn listed<T>(row: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match row {
        Err(error @ StoreError::Corrupt { .. }) => {
            tracing::warn!(%error, "left out of a list");
            Ok(None)
        }
        row => row.map(Some),
    }
}
