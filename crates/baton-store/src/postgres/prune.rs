//! Prune in PostgreSQL: removes idle branches, then all entries that no branch or unfinished run reaches.
//!
//! The tree is locked, so no run begins or ends meanwhile; but active runs go on writing, each at the end of its own
//! lane. Such a lane is never cut: there is nothing in it beyond its run.

use baton_core::id::{BranchName, Tenant, ThreadId};
use baton_core::run::RunStatus;
use baton_core::thread::Place;
use futures_util::future::try_join;
use tokio_postgres::types::ToSql;

use super::threads::remove_branches;
use super::tree::{lane, load, stored};
use super::{Db, PgStore};
use crate::error::StoreError;
use crate::failpoint;
use crate::view::{PruneRequest, Pruned};

impl PgStore {
    pub(crate) async fn prune(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        request: &PruneRequest,
    ) -> Result<Pruned, StoreError> {
        let (tenant, id, request) = (tenant.clone(), id.clone(), request.clone());
        self.at_leisure()
            .write(move |db| Box::pin(async move { prune(db, &tenant, &id, &request).await }))
            .await
    }
}

async fn prune(
    db: &Db<'_>,
    tenant: &Tenant,
    id: &ThreadId,
    request: &PruneRequest,
) -> Result<Pruned, StoreError> {
    let mut loaded = load(db, tenant, id, true).await?;
    let idle = |name: &BranchName| {
        request.idle_before.is_some_and(|before| loaded.touched.get(name).is_none_or(|at| *at < before))
    };
    let branches =
        crate::threads::idle_branches(&loaded.tree, request, idle, |name| loaded.busy.contains_key(name));
    for name in &branches {
        loaded.tree.branches.remove(name);
    }
    let unfinished = Unfinished::of(db, tenant, id).await?;
    let reached = loaded.tree.reached(&unfinished.places);
    let keep_to = |lane: &u32| match reached.get(lane) {
        Some(_) if unfinished.writing.contains(lane) => i64::MAX,
        Some(last) => *last,
        None => -1,
    };
    let lanes: Vec<i32> = loaded.tree.lanes.keys().copied().map(stored).collect();
    let keep: Vec<i64> = loaded.tree.lanes.keys().map(keep_to).collect();
    let gone: Vec<i32> =
        loaded.tree.lanes.keys().filter(|lane| !reached.contains_key(lane)).copied().map(stored).collect();
    let cuts = LaneCuts { tenant, id, lanes, keep };
    let entries = match request.dry_run {
        true => cuts.count(db).await?,
        false => {
            remove_branches(db, tenant, id, &branches).await?;
            let entries = cuts.make(db).await?;
            failpoint::point("prune.mid");
            let sql = "DELETE FROM lanes WHERE tenant = $1 AND thread = $2 AND lane = ANY($3)";
            let statement = db.prepare_cached(sql).await?;
            db.execute(&statement, &[&tenant.as_str(), &id.as_str(), &gone]).await?;
            entries
        }
    };
    Ok(Pruned { branches, lanes: gone.len() as u64, entries })
}

/// The last index that is kept in each lane.
struct LaneCuts<'a> {
    tenant: &'a Tenant,
    id: &'a ThreadId,
    lanes: Vec<i32>,
    keep: Vec<i64>,
}

impl LaneCuts<'_> {
    /// Counts the entries beyond those.
    async fn count(&self, db: &Db<'_>) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) FROM entries e JOIN unnest($3::int[], $4::bigint[]) AS k(lane, keep)
                   ON e.lane = k.lane AND e.idx > k.keep WHERE e.tenant = $1 AND e.thread = $2";
        let values: [&(dyn ToSql + Sync); 4] =
            [&self.tenant.as_str(), &self.id.as_str(), &self.lanes, &self.keep];
        let row = db.query_one(&db.prepare_cached(sql).await?, &values).await?;
        Ok(row.try_get::<_, i64>(0)? as u64)
    }

    /// Removes the entries beyond those; returns how many there were.
    async fn make(&self, db: &Db<'_>) -> Result<u64, StoreError> {
        let sql = "DELETE FROM entries e USING unnest($3::int[], $4::bigint[]) AS k(lane, keep)
                   WHERE e.tenant = $1 AND e.thread = $2 AND e.lane = k.lane AND e.idx > k.keep";
        let entries = db.prepare_cached(sql).await?;
        // A lane that was cut grows again from there: the marks of its old entries must not stay.
        let sql = "DELETE FROM untrusted u USING unnest($3::int[], $4::bigint[]) AS k(lane, keep)
                   WHERE u.tenant = $1 AND u.thread = $2 AND u.lane = k.lane AND u.idx > k.keep";
        let untrusted = db.prepare_cached(sql).await?;
        let values: [&(dyn ToSql + Sync); 4] =
            [&self.tenant.as_str(), &self.id.as_str(), &self.lanes, &self.keep];
        let (removed, _) = try_join(db.execute(&entries, &values), db.execute(&untrusted, &values)).await?;
        Ok(removed)
    }
}

/// The unfinished runs of a thread: a prune keeps all entries that they reach.
struct Unfinished {
    /// The places that they have reached.
    places: Vec<Place>,
    /// The lanes that some of them may be writing to at this moment.
    writing: Vec<u32>,
}

impl Unfinished {
    async fn of(db: &Db<'_>, tenant: &Tenant, id: &ThreadId) -> Result<Unfinished, StoreError> {
        let sql = "SELECT lane, head, status FROM runs WHERE tenant = $1 AND thread = $2 AND status < 3";
        let rows = db.query(&db.prepare_cached(sql).await?, &[&tenant.as_str(), &id.as_str()]).await?;
        let mut unfinished = Unfinished { places: Vec::new(), writing: Vec::new() };
        for row in &rows {
            let place = Place { lane: lane(row, 0)?, index: row.try_get(1)? };
            unfinished.places.push(place);
            let status = RunStatus::ALL.get(row.try_get::<_, i16>(2)? as usize);
            if status != Some(&RunStatus::Queued) {
                unfinished.writing.push(place.lane); // a queued run writes nothing yet
            }
        }
        Ok(unfinished)
    }
}
