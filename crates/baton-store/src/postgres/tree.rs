//! A thread's tree in PostgreSQL: read before anything about its branches is decided.
//!
//! A transaction that changes a tree locks it first: the thread's row, then the rows of its branches. Runs begin and
//! end on the row of their branch and never touch the thread's; so while a tree is locked no run can begin or end on
//! it. A run that is active goes on writing to its own lane, so no other transaction may rely on its end.

use std::collections::BTreeMap;

use baton_core::id::{BranchName, RunId, Tenant, ThreadId};
use baton_core::thread::{Branch, Lane, Place, Tree};
use baton_core::time::Timestamp;
use futures_util::future::{try_join, try_join3};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::Db;
use crate::error::StoreError;

/// A thread's tree, and the runs that hold its branches. A branch in use ends where its run has come to.
pub(crate) struct PgTree {
    pub(crate) tree: Tree,
    pub(crate) busy: BTreeMap<BranchName, RunId>,
    pub(crate) touched: BTreeMap<BranchName, Timestamp>,
    /// The places of busy branches, as their runs have them.
    heads: BTreeMap<BranchName, Place>,
}

impl PgTree {
    pub(crate) fn head(&self, branch: &BranchName) -> Result<Place, StoreError> {
        let head = self.tree.branch(branch)?.head;
        Ok(self.heads.get(branch).copied().unwrap_or(head))
    }

    pub(crate) fn not_busy(&self, branch: &BranchName) -> Result<(), StoreError> {
        match self.busy.get(branch) {
            Some(run) => Err(StoreError::Busy { branch: branch.to_string(), run: *run }),
            None => Ok(()),
        }
    }

    /// Refuses if a run is active anywhere on the thread.
    pub(super) fn none_busy(&self) -> Result<(), StoreError> {
        self.busy.keys().next().map_or(Ok(()), |branch| self.not_busy(branch))
    }

    fn take_lane(&mut self, row: &Row) -> Result<(), StoreError> {
        let parent = Some(Place { lane: lane(row, 1)?, index: row.try_get(2)? });
        let opened_by = name("branch", row.try_get(3)?)?;
        self.tree.lanes.insert(lane(row, 0)?, Lane { parent, opened_by });
        Ok(())
    }

    fn take_branch(&mut self, row: &Row) -> Result<(), StoreError> {
        let branch: BranchName = name("branch", row.try_get(0)?)?;
        self.touched.insert(branch.clone(), Timestamp(row.try_get(6)?));
        if let Some(run) = row.try_get::<_, Option<Uuid>>(3)? {
            self.busy.insert(branch.clone(), RunId(run));
            self.heads.insert(branch.clone(), Place { lane: lane(row, 7)?, index: row.try_get(8)? });
        }
        let head = Place { lane: lane(row, 1)?, index: row.try_get(2)? };
        self.tree.branches.insert(branch, Branch { head, forked_from: origin(row, 4)? });
        Ok(())
    }
}

/// Locks a thread, if it exists, so that all transactions lock the rows after it in the same order.
pub(super) async fn hold(db: &Db<'_>, tenant: &Tenant, thread: &ThreadId) -> Result<(), StoreError> {
    let sql = "SELECT FROM threads WHERE tenant = $1 AND thread = $2 FOR UPDATE";
    db.query_opt(&db.prepare_cached(sql).await?, &[&tenant.as_str(), &thread.as_str()]).await?;
    Ok(())
}

/// Reads a thread's tree in one round trip. With `lock`, no other transaction changes it before this one ends.
pub(crate) async fn load(
    db: &Db<'_>,
    tenant: &Tenant,
    thread: &ThreadId,
    lock: bool,
) -> Result<PgTree, StoreError> {
    // All statements are prepared before the first one is sent: those after the locks see the changes that the locks
    // waited for.
    let current = match lock {
        true => "SELECT current FROM threads WHERE tenant = $1 AND thread = $2 FOR UPDATE",
        false => "SELECT current FROM threads WHERE tenant = $1 AND thread = $2",
    };
    let current = db.prepare_cached(current).await?;
    let held = match lock {
        true => {
            let sql = "SELECT FROM branches WHERE tenant = $1 AND thread = $2 ORDER BY branch FOR UPDATE";
            Some(db.prepare_cached(sql).await?)
        }
        false => None,
    };
    let sql =
        "SELECT lane, parent_lane, parent_index, opened_by FROM lanes WHERE tenant = $1 AND thread = $2";
    let lanes = db.prepare_cached(sql).await?;
    let sql = "SELECT b.branch, b.lane, b.head, b.run, b.from_branch, b.from_index, b.touched,
                      coalesce(r.lane, b.lane), coalesce(r.head, b.head)
               FROM branches b LEFT JOIN runs r ON r.tenant = b.tenant AND r.run = b.run
               WHERE b.tenant = $1 AND b.thread = $2";
    let branches = db.prepare_cached(sql).await?;

    let (tenant, name_of) = (tenant.as_str(), thread.as_str());
    let key: [&(dyn ToSql + Sync); 2] = [&tenant, &name_of];
    let locked = async {
        match &held {
            Some(held) => db.query(held, &key).await.map(drop),
            None => Ok(()),
        }
    };
    let first = try_join(db.query_opt(&current, &key), locked);
    let (first, lanes, branches) =
        try_join3(first, db.query(&lanes, &key), db.query(&branches, &key)).await?;
    let (Some(found), ()) = first else { return Err(StoreError::not_found("thread", thread)) };
    let mut loaded = PgTree {
        tree: Tree { current: name("branch", found.try_get(0)?)?, ..Tree::default() },
        busy: BTreeMap::new(),
        touched: BTreeMap::new(),
        heads: BTreeMap::new(),
    };
    lanes.iter().try_for_each(|row| loaded.take_lane(row))?;
    branches.iter().try_for_each(|row| loaded.take_branch(row))?;
    Ok(loaded)
}

/// The lane of a branch's next entry; a new lane is opened if necessary. The tree must be locked.
pub(crate) async fn append_lane(
    db: &Db<'_>,
    tenant: &Tenant,
    thread: &ThreadId,
    tree: &mut Tree,
    branch: &BranchName,
) -> Result<u32, StoreError> {
    let tip = tip(db, tenant, thread, tree.branch(branch)?.head.lane).await?;
    let before = tree.lanes.len();
    let lane = tree.append_lane(branch, tip)?;
    if let (true, Some(Lane { parent: Some(parent), opened_by })) =
        (tree.lanes.len() > before, tree.lanes.get(&lane))
    {
        let sql = "INSERT INTO lanes(tenant, thread, lane, parent_lane, parent_index, opened_by)
                   VALUES ($1, $2, $3, $4, $5, $6)";
        let (number, parent_lane) = (stored(lane), stored(parent.lane));
        let values: [&(dyn ToSql + Sync); 6] =
            [&tenant.as_str(), &thread.as_str(), &number, &parent_lane, &parent.index, &opened_by.as_str()];
        db.execute(&db.prepare_cached(sql).await?, &values).await?;
    }
    Ok(lane)
}

/// The last stored index of a lane.
pub(crate) async fn tip(
    db: &Db<'_>,
    tenant: &Tenant,
    thread: &ThreadId,
    lane: u32,
) -> Result<i64, StoreError> {
    let sql = "SELECT max(idx) FROM entries WHERE tenant = $1 AND thread = $2 AND lane = $3";
    let statement = db.prepare_cached(sql).await?;
    let row = db.query_one(&statement, &[&tenant.as_str(), &thread.as_str(), &stored(lane)]).await?;
    Ok(row.try_get::<_, Option<i64>>(0)?.unwrap_or(-1))
}

/// A lane as its column has it.
pub(super) fn stored(lane: u32) -> i32 {
    lane as i32
}

/// A lane from its column.
pub(super) fn lane(row: &Row, column: usize) -> Result<u32, StoreError> {
    Ok(row.try_get::<_, i32>(column)? as u32)
}

/// Where a branch was forked from: its name and the index, from two columns.
pub(super) fn origin(row: &Row, column: usize) -> Result<Option<(BranchName, i64)>, StoreError> {
    match row.try_get::<_, Option<String>>(column)? {
        Some(from) => Ok(Some((name("branch", from)?, row.try_get(column + 1)?))),
        None => Ok(None),
    }
}

/// A name that was valid when it was stored.
pub(super) fn name<T: std::str::FromStr>(what: &'static str, text: String) -> Result<T, StoreError>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|e: T::Err| StoreError::corrupt(what, &text, e))
}
