//! The first untrusted and the first private entry of each lane, stored so that no entry has to be read to find them.
//!
//! A row is written together with the first such entry of its lane, and removed together with it.
//! [`crate::threads::first_marked`] derives the marks of a branch from the rows.

use std::collections::BTreeMap;

use baton_core::id::{Tenant, ThreadId};
use rusqlite::Connection;

use super::{SqliteStore, read};
use crate::error::StoreError;
use crate::threads::FirstMarked;

impl SqliteStore {
    /// Marks the first entry of every lane, regardless of its content.
    pub(crate) async fn distrust(&self, tenant: &Tenant, id: &ThreadId) -> Result<(), StoreError> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.write(move |db| {
            let loaded = read::tree(db, &tenant, &id)?;
            let sql = "DELETE FROM untrusted WHERE tenant = ?1 AND thread = ?2";
            db.execute(sql, (tenant.as_str(), id.as_str()))?;
            let first = FirstMarked::both(0);
            loaded.tree.lanes.keys().try_for_each(|lane| note(db, &tenant, &id, *lane, first))
        })
        .await
    }
}

/// Stores the first marked entries among those that were just appended; only the first of each mark in a lane counts.
pub(super) fn note(
    db: &Connection,
    tenant: &Tenant,
    thread: &ThreadId,
    lane: u32,
    marked: FirstMarked,
) -> Result<(), StoreError> {
    let sql =
        "INSERT OR IGNORE INTO untrusted(tenant, thread, lane, private, idx) VALUES (?1, ?2, ?3, ?4, ?5)";
    for (private, index) in marked.rows() {
        db.prepare_cached(sql)?.execute((tenant.as_str(), thread.as_str(), lane, private, index))?;
    }
    Ok(())
}

/// The first marked entries of every lane that has one.
pub(super) fn of_lanes(
    db: &Connection,
    tenant: &Tenant,
    thread: &ThreadId,
) -> Result<BTreeMap<u32, FirstMarked>, StoreError> {
    let sql = "SELECT lane, private, idx FROM untrusted WHERE tenant = ?1 AND thread = ?2";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query((tenant.as_str(), thread.as_str()))?;
    let mut lanes: BTreeMap<u32, FirstMarked> = BTreeMap::new();
    while let Some(row) = rows.next()? {
        let private: bool = row.get(1)?;
        lanes.entry(row.get(0)?).or_default().note(!private, private, row.get(2)?);
    }
    Ok(lanes)
}
