//! The first untrusted and the first private entry of each lane, stored so that no entry has to be read to find them.
//!
//! A row is written together with the first such entry of its lane, and removed together with it. The statement that
//! reads the end of a branch derives the marks of the branch from the rows ([`super::entries`]).

use baton_core::id::{Tenant, ThreadId};

use super::tree::{load, stored};
use super::{Db, PgStore};
use crate::error::StoreError;
use crate::threads::FirstMarked;

impl PgStore {
    /// Marks the first entry of every lane, regardless of its content.
    pub(crate) async fn distrust(&self, tenant: &Tenant, id: &ThreadId) -> Result<(), StoreError> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.write(move |db| {
            Box::pin(async move {
                let loaded = load(db, &tenant, &id, true).await?;
                let sql = "DELETE FROM untrusted WHERE tenant = $1 AND thread = $2";
                let statement = db.prepare_cached(sql).await?;
                db.execute(&statement, &[&tenant.as_str(), &id.as_str()]).await?;
                for lane in loaded.tree.lanes.keys() {
                    note(db, &tenant, &id, *lane, FirstMarked::both(0)).await?;
                }
                Ok(())
            })
        })
        .await
    }
}

/// Stores the first marked entries among those that were just appended; only the first of each mark in a lane counts.
pub(crate) async fn note(
    db: &Db<'_>,
    tenant: &Tenant,
    thread: &ThreadId,
    lane: u32,
    marked: FirstMarked,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO untrusted(tenant, thread, lane, private, idx) VALUES ($1, $2, $3, $4, $5)
               ON CONFLICT DO NOTHING";
    for (private, index) in marked.rows() {
        let statement = db.prepare_cached(sql).await?;
        let lane = stored(lane);
        db.execute(&statement, &[&tenant.as_str(), &thread.as_str(), &lane, &private, &index]).await?;
    }
    Ok(())
}
