//! Where untrusted content begins in each lane, so that nobody has to read entries to know.
//!
//! A row is written together with the first such entry of its lane, and removed together with it. What
//! the rows mean for a branch is in [`crate::threads::first_untrusted`].

use std::collections::BTreeMap;

use baton_core::id::{Tenant, ThreadId};
use baton_core::thread::Place;
use rusqlite::Connection;

use super::{SqliteStore, read};
use crate::error::StoreError;

impl SqliteStore {
    /// Notes the beginning of every lane, whatever stands there.
    pub(crate) async fn distrust(&self, tenant: &Tenant, id: &ThreadId) -> Result<(), StoreError> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.write(move |db| {
            let loaded = read::tree(db, &tenant, &id)?;
            let sql = "DELETE FROM untrusted WHERE tenant = ?1 AND thread = ?2";
            db.execute(sql, (tenant.as_str(), id.as_str()))?;
            loaded
                .tree
                .lanes
                .keys()
                .try_for_each(|lane| note(db, &tenant, &id, Place { lane: *lane, index: 0 }))
        })
        .await
    }
}

/// Takes note of an untrusted entry that was just appended; only the first one of a lane counts.
pub(super) fn note(
    db: &Connection,
    tenant: &Tenant,
    thread: &ThreadId,
    place: Place,
) -> Result<(), StoreError> {
    let sql = "INSERT OR IGNORE INTO untrusted(tenant, thread, lane, idx) VALUES (?1, ?2, ?3, ?4)";
    db.prepare_cached(sql)?.execute((tenant.as_str(), thread.as_str(), place.lane, place.index))?;
    Ok(())
}

/// The first untrusted entry of every lane that has one.
pub(super) fn of_lanes(
    db: &Connection,
    tenant: &Tenant,
    thread: &ThreadId,
) -> Result<BTreeMap<u32, i64>, StoreError> {
    let sql = "SELECT lane, idx FROM untrusted WHERE tenant = ?1 AND thread = ?2";
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement
        .query_map((tenant.as_str(), thread.as_str()), |row| Ok((row.get::<_, u32>(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
