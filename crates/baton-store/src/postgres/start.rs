//! Starts of runs in PostgreSQL.
//!
//! Most runs begin in one statement through the group: on a thread that is created with the run, or on a branch that is
//! free, ends where the run expects it, and may extend its lane. If that statement refuses, or in a less common case, a
//! transaction locks the thread and finds the reason.

use std::sync::Arc;

use baton_core::id::{BranchName, RunId, Tenant};
use baton_core::run::{RUN_VERSION, RunStatus};
use baton_core::time::Timestamp;
use tokio_postgres::types::ToSql;

use super::advance::advance;
use super::approvals::settle;
use super::entries::written_by;
use super::group::{Work, WriteError};
use super::inbox::locked;
use super::pack::{PackedStart, PgTransition};
use super::row::stored;
use super::statement::KEEP;
use super::threads::add_thread;
use super::{Db, PgStore, keys, queue, tree};
use crate::error::StoreError;
use crate::record;
use crate::service::NewKey;
use crate::transition::{NewRun, PinnedDefinition, RunHalt, Transition};
use crate::view::RunRow;

impl PgStore {
    pub(crate) async fn start(
        &self,
        tenant: &Tenant,
        new: NewRun,
        first: Transition,
    ) -> Result<u32, StoreError> {
        let known = (tenant.clone(), new.definition.hash.clone());
        let packed = PgTransition::new(tenant, &first)?;
        let Some(lane) = at_once(&new, &packed).filter(|_| first.settled.is_empty()) else {
            return Box::pin(self.start_in_peace(tenant, new, first, packed)).await;
        };
        let definition = match self.shared.definitions.contains(&known) {
            true => None,
            false => Some(record::encode(&new.definition.definition)?),
        };
        let beginning = Arc::new(PackedStart::new(packed, new, lane, definition));
        match self.shared.group.run(Work::Begin(beginning.clone())).await {
            Ok(done) if done.changed > 0 => {
                self.shared.definitions.insert(known);
                Ok(lane)
            }
            Ok(_) | Err(WriteError::Taken(_)) => {
                let packed = PgTransition::new(tenant, &first)?;
                Box::pin(self.start_in_peace(tenant, beginning.new.clone(), first, packed)).await
            }
            Err(other) => Err(other.into()),
        }
    }

    /// Begins a run in a transaction that locks the thread.
    async fn start_in_peace(
        &self,
        tenant: &Tenant,
        new: NewRun,
        first: Transition,
        mut packed: PgTransition,
    ) -> Result<u32, StoreError> {
        let known = (tenant.clone(), new.definition.hash.clone());
        let (tenant, settled) = (tenant.clone(), first.settled);
        let begin = self.write(move |db| {
            Box::pin(async move {
                packed.lane = match new.queued {
                    true => begin_queued(db, &tenant, &new, &packed).await?,
                    false => begin(db, &tenant, &new, &packed).await?,
                };
                let (lane, at) = (packed.lane, packed.at);
                keep_definition(db, &tenant, &new.definition).await?;
                advance(db, &tenant, &packed).await?;
                settle(db, &tenant, &settled, at).await?;
                Ok(lane)
            })
        });
        begin.await.inspect(|_| self.shared.definitions.insert(known))
    }
}

/// Stores a definition. Garbage collection locks the rows of definitions first, and only then checks whether a run
/// names them.
pub(crate) async fn keep_definition(
    db: &Db<'_>,
    tenant: &Tenant,
    pinned: &PinnedDefinition,
) -> Result<(), StoreError> {
    let (body, crc) = record::encode(&pinned.definition)?;
    let sql = format!(
        "INSERT INTO definitions(tenant, hash, kind, body, crc) VALUES ($1, $2, 'run', $3, $4) {KEEP}"
    );
    let statement = db.prepare_cached(&sql).await?;
    db.execute(&statement, &[&tenant.as_str(), &pinned.hash, &body, &i64::from(crc)]).await?;
    Ok(())
}

/// The lane of a run that can begin in one statement; `None` for all others.
fn at_once(new: &NewRun, first: &PgTransition) -> Option<u32> {
    let row = RunRow {
        owner: Some(new.owner),
        ..RunRow::begun(first.run, &first.thread, &new.branch, new.expected_head, new.at)
    };
    if new.queued || !first.is_plain() || first.fence.allows(&row).is_err() {
        return None;
    }
    match &new.new_thread {
        Some(thread) => {
            let fits =
                thread.id == first.thread && new.branch == BranchName::main() && new.expected_head == -1;
            fits.then_some(0)
        }
        None => new.lane,
    }
}

/// Takes the branch for a new run and writes its row; returns the lane that it writes to.
async fn begin(db: &Db<'_>, tenant: &Tenant, new: &NewRun, first: &PgTransition) -> Result<u32, StoreError> {
    let sql = "SELECT 1 FROM runs WHERE tenant = $1 AND run = $2";
    if db.query_opt(&db.prepare_cached(sql).await?, &[&tenant.as_str(), &first.run.0]).await?.is_some() {
        return Err(StoreError::Exists { what: "run", id: first.run.to_string() });
    }
    take_key(db, tenant, new.key.as_ref(), first.run, new.at, false).await?;
    if let Some(thread) = &new.new_thread
        && !add_thread(db, tenant, thread).await?
    {
        return Err(crate::runs::not_new(new));
    }
    let lane = take_branch(db, tenant, new, first).await?;
    let row = RunRow {
        lane,
        owner: Some(new.owner),
        definition: new.definition.hash.clone(),
        metadata: new.metadata.clone(),
        ..RunRow::begun(first.run, &first.thread, &new.branch, new.expected_head, new.at)
    };
    insert_run(db, tenant, &row, &first.budget).await?;
    Ok(lane)
}

/// Like [`begin`], for a queued run: its row exists. One that ends at once never takes its branch.
async fn begin_queued(
    db: &Db<'_>,
    tenant: &Tenant,
    new: &NewRun,
    first: &PgTransition,
) -> Result<u32, StoreError> {
    // The thread is locked before the run, in the same order as when a thread is removed.
    tree::hold(db, tenant, &first.thread).await?;
    let row = locked(db, tenant, first.run).await?;
    if row.status != RunStatus::Queued {
        return Err(crate::runs::begun_already(&row));
    }
    take_key(db, tenant, new.key.as_ref(), first.run, new.at, true).await?;
    let lane = match first.rest {
        RunHalt::Ended(_) => row.lane,
        _ => take_branch(db, tenant, new, first).await?,
    };
    let sql = "WITH q AS (DELETE FROM queued WHERE tenant = $1 AND run = $2 RETURNING run)
               UPDATE runs SET status = 1, owner = $3, lane = $4, head = $5, definition = $6 FROM q
               WHERE tenant = $1 AND runs.run = q.run";
    let lane_stored = tree::stored(lane);
    let values: [&(dyn ToSql + Sync); 6] = [
        &tenant.as_str(),
        &first.run.0,
        &new.owner.0,
        &lane_stored,
        &new.expected_head,
        &new.definition.hash,
    ];
    match db.execute(&db.prepare_cached(sql).await?, &values).await? {
        0 => Err(crate::runs::begun_already(&row)),
        _ => Ok(lane),
    }
}

/// Stores the key of a run that begins or is queued.
pub(super) async fn take_key(
    db: &Db<'_>,
    tenant: &Tenant,
    key: Option<&NewKey>,
    run: RunId,
    at: Timestamp,
    is_in_line: bool,
) -> Result<(), StoreError> {
    let Some(key) = key else { return Ok(()) };
    let unused = match keys::take(db, tenant, key, (Some(run), None), at).await? {
        Some(known) => Err(StoreError::KeyUsed(Box::new(known))),
        None => Ok(()),
    };
    crate::runs::own_key(unused, run, is_in_line)
}

/// Gives the branch to the run, if it is free, the run is next in its queue, and the head is where the run expects it.
async fn take_branch(
    db: &Db<'_>,
    tenant: &Tenant,
    new: &NewRun,
    first: &PgTransition,
) -> Result<u32, StoreError> {
    let mut loaded = tree::load(db, tenant, &first.thread, true).await?;
    loaded.not_busy(&new.branch)?;
    let head = loaded.tree.branch(&new.branch)?.head;
    queue::in_turn(db, tenant, &first.thread, &new.branch, first.run).await?;
    crate::runs::unmoved(new, head.index, written_by(db, tenant, &first.thread, head).await?)?;
    let lane = tree::append_lane(db, tenant, &first.thread, &mut loaded.tree, &new.branch).await?;
    let sql = "UPDATE branches SET run = $4, touched = $5 WHERE tenant = $1 AND thread = $2 AND branch = $3";
    let statement = db.prepare_cached(sql).await?;
    let (thread, branch) = (first.thread.as_str(), new.branch.as_str());
    db.execute(&statement, &[&tenant.as_str(), &thread, &branch, &first.run.0, &new.at.0]).await?;
    Ok(lane)
}

/// Writes the row of a new run as it is before its first transition.
pub(crate) async fn insert_run(
    db: &Db<'_>,
    tenant: &Tenant,
    row: &RunRow,
    budget: &[u8],
) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO runs(tenant, run, thread, branch, lane, status, owner, epoch, step, seq, inbox, head,
                 attempts, definition, min_version, budget, created, metadata)
               VALUES ($1, $2, $3, $4, $5, $6, $7, 1, 0, 0, 0, $8, 0, $9, $10, $11, $12, $13)";
    let (lane, status, owner) = (tree::stored(row.lane), stored(row.status), row.owner.map(|owner| owner.0));
    let metadata = row.metadata.to_string().into_bytes();
    let values: [&(dyn ToSql + Sync); 13] = [
        &tenant.as_str(),
        &row.id.0,
        &row.thread.as_str(),
        &row.branch.as_str(),
        &lane,
        &status,
        &owner,
        &row.head,
        &row.definition,
        &(RUN_VERSION as i32),
        &budget,
        &row.created.0,
        &metadata,
    ];
    db.execute(&db.prepare_cached(sql).await?, &values).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
