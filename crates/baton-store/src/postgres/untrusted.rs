//! Where untrusted content begins in each lane, so that nobody has to read entries to know.
//!
//! A row is written together with the first such entry of its lane, and removed together with it. What the
//! rows mean for a branch is part of the statement that reads its end ([`super::entries`]).

use baton_core::id::{Tenant, ThreadId};
use baton_core::thread::Place;

use super::tree::{load, stored};
use super::{Db, PgStore};
use crate::error::StoreError;

impl PgStore {
    /// Notes the beginning of every lane, whatever stands there.
    pub(crate) async fn distrust(&self, tenant: &Tenant, id: &ThreadId) -> Result<(), StoreError> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.write(move |db| {
            Box::pin(async move {
                let loaded = load(db, &tenant, &id, true).await?;
                let sql = "DELETE FROM untrusted WHERE tenant = $1 AND thread = $2";
                let statement = db.prepare_cached(sql).await?;
                db.execute(&statement, &[&tenant.as_str(), &id.as_str()]).await?;
                for lane in loaded.tree.lanes.keys() {
                    note(db, &tenant, &id, Place { lane: *lane, index: 0 }).await?;
                }
                Ok(())
            })
        })
        .await
    }
}

/// Takes note of an untrusted entry that was just appended; only the first one of a lane counts.
pub(crate) async fn note(
    db: &Db<'_>,
    tenant: &Tenant,
    thread: &ThreadId,
    place: Place,
) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO untrusted(tenant, thread, lane, idx) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
    let statement = db.prepare_cached(sql).await?;
    let lane = stored(place.lane);
    db.execute(&statement, &[&tenant.as_str(), &thread.as_str(), &lane, &place.index]).await?;
    Ok(())
}
