//! Claims in PostgreSQL: taking runs over, which decides whose commits count, and releasing them.

use std::time::Duration;

use baton_core::id::{OwnerId, RunId, Tenant};
use baton_core::time::Timestamp;
use tokio_postgres::types::ToSql;

use super::advance::load;
use super::group::Work;
use super::inbox::locked;
use super::runs::{DEFINITION, decoded_definition, step_row};
use super::statement::Form;
use super::{Db, PgStore};
use crate::error::StoreError;
use crate::runs::Liveness;
use crate::view::{ClaimMode, Claimed};

impl PgStore {
    pub(crate) async fn claim(
        &self,
        tenant: &Tenant,
        run: RunId,
        owner: OwnerId,
        mode: ClaimMode,
        at: Timestamp,
    ) -> Result<Claimed, StoreError> {
        let (tenant, shared) = (tenant.clone(), self.shared.clone());
        self.write(move |db| {
            Box::pin(async move {
                let row = locked(db, &tenant, run).await?;
                let life = match row.owner {
                    Some(holder) => {
                        let found = db.query_opt(&db.prepare_cached(HOLDER).await?, &[&holder.0]).await?;
                        shared.liveness.life(holder, found.as_ref())?
                    }
                    None => Liveness::Lives,
                };
                let life = crate::runs::may_claim(&row, mode, |_| life)?;
                // The step is read before anything is written: a run that cannot be read does not affect other runs.
                let sql = "SELECT step, epoch, frame, first_seq, last_seq, body, crc FROM steps
                           WHERE tenant = $1 AND run = $2 AND step = $3";
                let statement = db.prepare_cached(sql).await?;
                let last = db.query_opt(&statement, &[&tenant.as_str(), &run.0, &(row.step as i32)]).await?;
                let missing = || StoreError::corrupt("run", run, "its last step is missing");
                let checkpoint = step_row(run, &last.ok_or_else(missing)?)?.checkpoint;
                let statement = db.prepare_cached(DEFINITION).await?;
                let definition = db.query_opt(&statement, &[&tenant.as_str(), &row.definition]).await?;
                let definition = decoded_definition(&row.definition, definition.as_ref())?;
                let lost_by = row.owner.filter(|_| life != Liveness::Lives);
                let claim = NewClaim { run, owner, died: life == Liveness::Dead, lost_by };
                take(db, &tenant, claim, shared.options.lease, at).await?;
                Ok(Claimed { row: load(db, &tenant, run).await?, definition, checkpoint })
            })
        })
        .await
    }

    pub(crate) async fn release(&self, tenant: &Tenant, run: RunId, epoch: u32) -> Result<(), StoreError> {
        let values: Vec<super::Param<'static>> =
            vec![Box::new(tenant.as_str().to_owned()), Box::new(run.0), Box::new(epoch as i32)];
        let done = self.shared.group.run(Work::Plain(Form::Release, run, values)).await?;
        match done.changed {
            0 => self.run(tenant, run).await.map(drop), // too late, unless there is no such run
            _ => Ok(()),
        }
    }

    pub(crate) async fn forgive(&self, tenant: &Tenant, run: RunId, epoch: u32) -> Result<(), StoreError> {
        let tenant = tenant.clone();
        self.write(move |db| {
            Box::pin(async move {
                let sql = "UPDATE runs SET attempts = 0 WHERE tenant = $1 AND run = $2 AND epoch = $3 AND status = 1";
                let statement = db.prepare_cached(sql).await?;
                if db.execute(&statement, &[&tenant.as_str(), &run.0, &(epoch as i32)]).await? == 0 {
                    load(db, &tenant, run).await?; // too late, unless there is no such run
                }
                Ok(())
            })
        })
        .await
    }
}

/// A claim that is about to be written.
struct NewClaim {
    run: RunId,
    owner: OwnerId,
    /// Whether the former owner is known to be dead: then it crashed with the run.
    died: bool,
    /// The former owner, if it was only silent.
    lost_by: Option<OwnerId>,
}

/// The owner row of a run's holder, locked. The process that gives the holder up waits until the claim is written, so
/// that its count of crashes sees the claim.
pub(super) const HOLDER: &str = "SELECT machine, lock, beat FROM owners WHERE owner = $1 FOR KEY SHARE";

/// Raises the epoch, so that only the new owner's commits count, and renews the new owner's lease: every other process
/// observes the beat of an owner that claims, and an owner without a row claims nothing.
pub(super) const TAKE: &str = "WITH o AS (
      UPDATE owners SET beat = beat + 1, expires_at = clock_timestamp() + $8 * interval '1 second'
      WHERE owner = $3 RETURNING owner),
    r AS (
      UPDATE runs SET epoch = epoch + 1, owner = o.owner, status = 1, wake_at = NULL, due_at = NULL,
        attempts = attempts + $4
      FROM o WHERE tenant = $1 AND run = $2 RETURNING epoch, seq)
    INSERT INTO claims(tenant, run, epoch, base_seq, owner, at, lost_by, counted)
    SELECT $1, $2::uuid, r.epoch, r.seq, $3::uuid, $5::bigint, $6::uuid, $7::boolean FROM r";

async fn take(
    db: &Db<'_>,
    tenant: &Tenant,
    claim: NewClaim,
    lease: Duration,
    at: Timestamp,
) -> Result<(), StoreError> {
    let NewClaim { run, owner, died, lost_by } = claim;
    let (lost_by, crashes, seconds) = (lost_by.map(|owner| owner.0), i32::from(died), lease.as_secs_f64());
    let values: [&(dyn ToSql + Sync); 8] =
        [&tenant.as_str(), &run.0, &owner.0, &crashes, &at.0, &lost_by, &died, &seconds];
    match db.execute(&db.prepare_cached(TAKE).await?, &values).await? {
        0 => Err(StoreError::Unavailable(
            "this process has no lease in the database now: it is written again in a moment".to_owned(),
        )),
        _ => Ok(()),
    }
}
