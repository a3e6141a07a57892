//! Whose commits count: claiming and letting go of runs.

use baton_core::id::{OwnerId, RunId, Tenant};
use baton_core::time::Timestamp;
use tokio_postgres::types::ToSql;

use super::advance::load;
use super::group::Work;
use super::inbox::locked;
use super::lease::OWNER;
use super::runs::{DEFINITION, decoded_definition, step_row};
use super::statement::Form;
use super::{Db, PgStore};
use crate::error::StoreError;
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
                let alive = match row.owner {
                    Some(holder) => {
                        let found = db.query_opt(&db.prepare_cached(OWNER).await?, &[&holder.0]).await?;
                        shared.place.lives(found.as_ref())?
                    }
                    None => false,
                };
                let died = crate::runs::may_claim(&row, mode, |_| alive)?;
                // Read before anything is written: a run that cannot be read harms no other.
                let sql = "SELECT step, epoch, frame, first_seq, last_seq, body, crc FROM steps
                           WHERE tenant = $1 AND run = $2 AND step = $3";
                let statement = db.prepare_cached(sql).await?;
                let last = db.query_opt(&statement, &[&tenant.as_str(), &run.0, &(row.step as i32)]).await?;
                let missing = || StoreError::corrupt("run", run, "its last step is missing");
                let checkpoint = step_row(run, &last.ok_or_else(missing)?)?.checkpoint;
                let statement = db.prepare_cached(DEFINITION).await?;
                let definition = db.query_opt(&statement, &[&tenant.as_str(), &row.definition]).await?;
                let definition = decoded_definition(&row.definition, definition.as_ref())?;
                take(db, &tenant, (run, owner, died), at).await?;
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
}

/// Raises the epoch, so that only the new owner's commits count.
async fn take(
    db: &Db<'_>,
    tenant: &Tenant,
    (run, owner, died): (RunId, OwnerId, bool),
    at: Timestamp,
) -> Result<(), StoreError> {
    let sql = "WITH r AS (
                 UPDATE runs SET epoch = epoch + 1, owner = $3, status = 1, wake_at = NULL, due_at = NULL,
                   attempts = attempts + $4
                 WHERE tenant = $1 AND run = $2 RETURNING epoch, seq)
               INSERT INTO claims(tenant, run, epoch, base_seq, owner, at)
               SELECT $1, $2::uuid, r.epoch, r.seq, $3::uuid, $5::bigint FROM r";
    let values: [&(dyn ToSql + Sync); 5] = [&tenant.as_str(), &run.0, &owner.0, &i32::from(died), &at.0];
    db.execute(&db.prepare_cached(sql).await?, &values).await?;
    Ok(())
}
