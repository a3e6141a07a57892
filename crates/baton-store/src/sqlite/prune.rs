//! Prune in SQLite: removes idle branches, then all entries that no branch or unfinished run reaches.

use baton_core::id::{Tenant, ThreadId};
use baton_core::thread::Place;
use rusqlite::Connection;

use super::SqliteStore;
use super::branches::remove_branch;
use super::read;
use crate::error::StoreError;
use crate::failpoint;
use crate::view::{PruneRequest, Pruned};

impl SqliteStore {
    pub(crate) async fn prune(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        request: &PruneRequest,
    ) -> Result<Pruned, StoreError> {
        let (tenant, id, request) = (tenant.clone(), id.clone(), request.clone());
        self.write(move |db| prune(db, &tenant, &id, &request)).await
    }
}

fn prune(
    db: &Connection,
    tenant: &Tenant,
    id: &ThreadId,
    request: &PruneRequest,
) -> Result<Pruned, StoreError> {
    let mut loaded = read::tree(db, tenant, id)?;
    let idle = |name: &_| {
        request.idle_before.is_some_and(|before| loaded.touched.get(name).is_none_or(|at| *at < before))
    };
    let branches =
        crate::threads::idle_branches(&loaded.tree, request, idle, |name| loaded.busy.contains_key(name));
    for name in &branches {
        loaded.tree.branches.remove(name);
        if !request.dry_run {
            remove_branch(db, tenant, id, name)?;
        }
    }
    let reached = loaded.tree.reached(&unfinished(db, tenant, id)?);
    let mut pruned = Pruned { branches, ..Pruned::default() };
    for lane in loaded.tree.lanes.keys() {
        let keep_to = reached.get(lane).copied();
        let key = (tenant.as_str(), id.as_str(), lane, keep_to.unwrap_or(-1));
        let beyond = "tenant = ?1 AND thread = ?2 AND lane = ?3 AND idx > ?4";
        let entries_beyond = "thread = (SELECT n FROM threads WHERE tenant = ?1 AND thread = ?2)
                              AND lane = ?3 AND idx > ?4";
        let counted = format!("SELECT count(*) FROM entries WHERE {entries_beyond}");
        let count: i64 = db.query_row(&counted, key, |row| row.get(0))?;
        pruned.entries += count as u64;
        pruned.lanes += u64::from(keep_to.is_none());
        if request.dry_run {
            continue;
        }
        db.execute(&format!("DELETE FROM entries WHERE {entries_beyond}"), key)?;
        // A lane that was cut grows again from there: the marks of its old entries must not stay.
        db.execute(&format!("DELETE FROM untrusted WHERE {beyond}"), key)?;
        failpoint::point("prune.mid");
        if keep_to.is_none() {
            let sql = "DELETE FROM lanes WHERE tenant = ?1 AND thread = ?2 AND lane = ?3";
            db.execute(sql, (tenant.as_str(), id.as_str(), lane))?;
        }
    }
    Ok(pruned)
}

/// The places that unfinished runs have reached: a prune keeps all entries up to them.
fn unfinished(db: &Connection, tenant: &Tenant, id: &ThreadId) -> Result<Vec<Place>, StoreError> {
    let sql = "SELECT lane, head FROM runs WHERE tenant = ?1 AND thread = ?2 AND status < 3";
    let mut statement = db.prepare_cached(sql)?;
    let places = statement.query_map((tenant.as_str(), id.as_str()), |row| {
        Ok(Place { lane: row.get(0)?, index: row.get(1)? })
    })?;
    Ok(places.collect::<Result<_, _>>()?)
}
