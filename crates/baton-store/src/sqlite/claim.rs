//! Claims in SQLite: taking runs over, which decides whose commits count, and releasing them.

use baton_core::id::{OwnerId, RunId, Tenant};
use baton_core::run::RunStatus;
use baton_core::time::Timestamp;
use rusqlite::Connection;

use super::read::Uuid16;
use super::runs::{STEPS, known, load, load_definition, steps, stored};
use super::{SqliteStore, live};
use crate::error::StoreError;
use crate::runs::Liveness;
use crate::view::{ClaimMode, ClaimRow, Claimed};

impl SqliteStore {
    pub(crate) async fn claim(
        &self,
        tenant: &Tenant,
        run: RunId,
        owner: OwnerId,
        mode: ClaimMode,
        at: Timestamp,
    ) -> Result<Claimed, StoreError> {
        let tenant = tenant.clone();
        let folder = self.folder().to_owned();
        self.write(move |db| {
            let row = load(db, &tenant, run)?;
            let life = |owner| if live::is_alive(&folder, owner) { Liveness::Lives } else { Liveness::Dead };
            let died = crate::runs::may_claim(&row, mode, life)? == Liveness::Dead;
            // The step is read before anything is written: a run that cannot be read does not disturb other writes of
            // the batch.
            let last = steps(db, STEPS, &tenant, run, row.step.saturating_sub(1).into(), 1)?.pop();
            let last = last.ok_or_else(|| StoreError::corrupt("run", run, "its last step is missing"))?;
            let definition = load_definition(db, &tenant, &row.definition)?;
            let claim = ClaimRow { epoch: row.epoch + 1, base_seq: row.seq };
            let sql = "UPDATE runs SET epoch = ?3, owner = ?4, status = ?5, wake_at = NULL, due_at = NULL, attempts = attempts + ?6
                       WHERE tenant = ?1 AND run = ?2";
            let running = stored(RunStatus::Running);
            let key = (tenant.as_str(), Uuid16(run.0), claim.epoch, Uuid16(owner.0), running, u32::from(died));
            db.prepare_cached(sql)?.execute(key)?;
            insert_claim(db, &tenant, run, claim, owner, at)?;
            let row = load(db, &tenant, run)?;
            Ok(Claimed { row, definition, checkpoint: last.checkpoint })
        })
        .await
    }

    pub(crate) async fn release(&self, tenant: &Tenant, run: RunId, epoch: u32) -> Result<(), StoreError> {
        let tenant = tenant.clone();
        self.write(move |db| {
            known(db, &tenant, run)?;
            let sql =
                "UPDATE runs SET owner = NULL WHERE tenant = ?1 AND run = ?2 AND epoch = ?3 AND status = ?4";
            let key = (tenant.as_str(), Uuid16(run.0), epoch, stored(RunStatus::Running));
            db.prepare_cached(sql)?.execute(key)?;
            Ok(())
        })
        .await
    }

    pub(crate) async fn forgive(&self, tenant: &Tenant, run: RunId, epoch: u32) -> Result<(), StoreError> {
        let tenant = tenant.clone();
        self.write(move |db| {
            known(db, &tenant, run)?;
            let sql =
                "UPDATE runs SET attempts = 0 WHERE tenant = ?1 AND run = ?2 AND epoch = ?3 AND status = ?4";
            let key = (tenant.as_str(), Uuid16(run.0), epoch, stored(RunStatus::Running));
            db.prepare_cached(sql)?.execute(key)?;
            Ok(())
        })
        .await
    }
}

fn insert_claim(
    db: &Connection,
    tenant: &Tenant,
    run: RunId,
    claim: ClaimRow,
    owner: OwnerId,
    at: Timestamp,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO claims(tenant, run, epoch, base_seq, owner, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let base = claim.base_seq as i64;
    db.prepare_cached(sql)?.execute((
        tenant.as_str(),
        Uuid16(run.0),
        claim.epoch,
        base,
        Uuid16(owner.0),
        at.0,
    ))?;
    Ok(())
}
