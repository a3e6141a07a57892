//! The one write of a run.
//!
//! It is one statement through the group, unless it closes approvals: their stored contents are read before they are
//! changed, which takes a transaction.

use baton_core::id::{RunId, Tenant};
use tokio_postgres::types::ToSql;

use super::approvals::settle;
use super::group::Work;
use super::pack::PgTransition;
use super::row::{RUN, run_row};
use super::{Db, PgStore};
use crate::error::StoreError;
use crate::runs::Fence;
use crate::transition::Transition;
use crate::view::RunRow;

impl PgStore {
    pub(crate) async fn commit(&self, tenant: &Tenant, transition: &Transition) -> Result<(), StoreError> {
        let packed = PgTransition::new(tenant, transition)?;
        if !transition.settled.is_empty() {
            let (tenant, settled) = (tenant.clone(), transition.settled.clone());
            let at = packed.at;
            let write = self.write(move |db| {
                Box::pin(async move {
                    advance(db, &tenant, &packed).await?;
                    settle(db, &tenant, &settled, at).await
                })
            });
            return Box::pin(write).await; // boxed: it is rare, so run futures need no room for it
        }
        let done = self.shared.group.run(Work::Advance(Box::new(packed))).await?;
        match done.changed {
            0 => Err(refused(&Fence::of(transition), &Box::pin(self.run(tenant, transition.run)).await?)),
            _ => Ok(()),
        }
    }
}

/// Writes a transition inside a transaction of its caller.
pub(super) async fn advance(db: &Db<'_>, tenant: &Tenant, packed: &PgTransition) -> Result<(), StoreError> {
    let (run, fence) = (packed.run, packed.fence);
    let (form, values) = packed.advance();
    let values: Vec<&(dyn ToSql + Sync)> =
        values.iter().map(|value| -> &(dyn ToSql + Sync) { &**value }).collect();
    match db.execute(&db.prepare_cached(&form.sql()).await?, &values).await? {
        0 => Err(refused(&fence, &load(db, tenant, run).await?)),
        _ => Ok(()),
    }
}

/// Reads the row of a run inside a transaction.
pub(super) async fn load(db: &Db<'_>, tenant: &Tenant, run: RunId) -> Result<RunRow, StoreError> {
    let statement = db.prepare_cached(RUN).await?;
    let row = db.query_opt(&statement, &[&tenant.as_str(), &run.0]).await?;
    run_row(&row.ok_or_else(|| StoreError::not_found("run", run))?)
}

/// The reason why a transition was not written, from the row as it is now.
fn refused(fence: &Fence, row: &RunRow) -> StoreError {
    fence.allows(row).err().unwrap_or(StoreError::Fenced { run: row.id, epoch: row.epoch })
}
