//! Queued runs in PostgreSQL: each has a row in `runs` without content, and a position in the queue of its branch.
//!
//! A run is queued under the lock of its thread, so positions are given in order and no more than allowed.
//! [`super::start`] removes it from the queue when it begins.

use baton_core::budget::Budget;
use baton_core::id::{BranchName, RunId, Tenant, ThreadId};
use baton_core::run::RunStatus;
use baton_core::thread::Place;
use tokio_postgres::types::ToSql;

use super::row::{RUN, checksum, run_row};
use super::start::{insert_run, keep_definition, take_key};
use super::threads::add_thread;
use super::{Db, PgStore, tree};
use crate::error::StoreError;
use crate::record;
use crate::service::{NewQueued, QueuedRun};
use crate::view::RunRow;

/// The input of a queued run.
pub(super) const QUEUED: &str = "SELECT body, crc FROM queued WHERE tenant = $1 AND run = $2";

impl PgStore {
    pub(crate) async fn enqueue(&self, tenant: &Tenant, new: NewQueued) -> Result<(), StoreError> {
        let body = record::encode(&QueuedRun::of(&new))?;
        let tenant = tenant.clone();
        self.write(move |db| Box::pin(async move { enqueue(db, &tenant, &new, &body).await })).await
    }

    pub(crate) async fn queued(&self, tenant: &Tenant, run: RunId) -> Result<QueuedRun, StoreError> {
        if let Some(row) = self.one(QUEUED, &[&tenant.as_str(), &run.0]).await? {
            return record::decode("queued run", run, row.try_get(0)?, checksum(&row, 1)?);
        }
        let row = self.one(RUN, &[&tenant.as_str(), &run.0]).await?;
        Err(crate::runs::begun_already(&run_row(&row.ok_or_else(|| StoreError::not_found("run", run))?)?))
    }
}

async fn enqueue(
    db: &Db<'_>,
    tenant: &Tenant,
    new: &NewQueued,
    (body, crc): &(Vec<u8>, u32),
) -> Result<(), StoreError> {
    let (thread, branch) = (new.thread.as_str(), new.branch.as_str());
    let sql = "SELECT 1 FROM runs WHERE tenant = $1 AND run = $2";
    if db.query_opt(&db.prepare_cached(sql).await?, &[&tenant.as_str(), &new.run.0]).await?.is_some() {
        return Err(StoreError::Exists { what: "run", id: new.run.to_string() });
    }
    take_key(db, tenant, new.key.as_ref(), new.run, new.at, false).await?;
    let head = place(db, tenant, new).await?;
    let sql = "SELECT count(*) FROM queued WHERE tenant = $1 AND thread = $2 AND branch = $3";
    let waiting = db.query_one(&db.prepare_cached(sql).await?, &[&tenant.as_str(), &thread, &branch]).await?;
    if !new.first && waiting.try_get::<_, i64>(0)? >= i64::from(new.most) {
        return Err(StoreError::QueueFull { branch: new.branch.to_string(), most: new.most });
    }
    let row = RunRow {
        status: RunStatus::Queued,
        lane: head.lane,
        definition: new.definition.hash.clone(),
        metadata: new.metadata.clone(),
        ..RunRow::begun(new.run, &new.thread, &new.branch, head.index, new.at)
    };
    let budget =
        serde_json::to_vec(&Budget::default()).map_err(|e| StoreError::corrupt("budget", new.run, e))?;
    insert_run(db, tenant, &row, &budget).await?;
    keep_definition(db, tenant, &new.definition).await?;
    // Numbers only grow, so the negative of a new one is lower than all that were given out.
    let sql = match new.first {
        true => {
            "INSERT INTO queued(n, tenant, thread, branch, run, body, crc)
             VALUES (-nextval('queued_n_seq'), $1, $2, $3, $4, $5, $6)"
        }
        false => "INSERT INTO queued(tenant, thread, branch, run, body, crc) VALUES ($1, $2, $3, $4, $5, $6)",
    };
    let crc = i64::from(*crc);
    let values: [&(dyn ToSql + Sync); 6] = [&tenant.as_str(), &thread, &branch, &new.run.0, body, &crc];
    db.execute(&db.prepare_cached(sql).await?, &values).await?;
    Ok(())
}

/// Refuses a run if another one is next on the branch. The thread is locked, so no run is queued meanwhile.
pub(super) async fn in_turn(
    db: &Db<'_>,
    tenant: &Tenant,
    thread: &ThreadId,
    branch: &BranchName,
    run: RunId,
) -> Result<(), StoreError> {
    let sql = "SELECT run FROM queued WHERE tenant = $1 AND thread = $2 AND branch = $3 ORDER BY n LIMIT 1";
    let line: [&(dyn ToSql + Sync); 3] = [&tenant.as_str(), &thread.as_str(), &branch.as_str()];
    let first = db.query_opt(&db.prepare_cached(sql).await?, &line).await?;
    let first = first.map(|row| row.try_get(0)).transpose()?;
    crate::runs::in_turn(branch, run, first.map(RunId))
}

/// The place where the branch of a queued run ends; its thread is created if necessary.
async fn place(db: &Db<'_>, tenant: &Tenant, new: &NewQueued) -> Result<Place, StoreError> {
    if let Some(made) = new.new_thread.as_ref().filter(|made| made.id == new.thread)
        && add_thread(db, tenant, made).await?
        && new.branch == BranchName::main()
    {
        return Ok(Place { lane: 0, index: -1 });
    }
    tree::load(db, tenant, &new.thread, true).await?.head(&new.branch)
}
