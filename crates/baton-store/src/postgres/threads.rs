//! Threads in PostgreSQL. An operation locks and loads the tree, lets `baton-core` decide, and writes the changes.
//! Reads for display are one statement.

use baton_core::id::{BranchName, RunId, Tenant, ThreadId};
use baton_core::thread::Place;
use baton_core::time::Timestamp;
use futures_util::future::try_join_all;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::place::{entry_at, place_of};
use super::row::listed;
use super::tree::{lane, load, name, origin, stored};
use super::{Db, PgStore, calls, fault, outbox};
use crate::error::StoreError;
use crate::service::AuditEvent;
use crate::transition::NewThread;
use crate::view::{BranchView, ForkAt, Rewound, ThreadView};

/// Threads with their branches, one row per branch. Branches and runs are looked up thread by thread, so that a page
/// never reads those of all.
macro_rules! views {
    ($which:literal) => {
        concat!(
            "SELECT t.born, t.thread, t.current, t.created, t.ttl_at, t.meta, b.*
             FROM (SELECT * FROM threads WHERE tenant = $1 AND ",
            $which,
            ") t
             LEFT JOIN LATERAL (
               SELECT b.branch, coalesce(r.lane, b.lane), coalesce(r.head, b.head), b.from_branch, b.from_index, b.run
               FROM branches b
               LEFT JOIN LATERAL (SELECT lane, head FROM runs WHERE tenant = b.tenant AND run = b.run LIMIT 1) r ON true
               WHERE b.tenant = t.tenant AND b.thread = t.thread OFFSET 0) b ON true
             ORDER BY t.born DESC"
        )
    };
}
/// One thread.
pub(super) const THREAD: &str = views!("thread = $2");
/// A page of threads, newest first. The limit is part of the text, so that the planner expects few rows.
pub(super) const THREADS: &str = views!("born < $2 ORDER BY born DESC LIMIT 100");
const PAGE: usize = 100;

impl PgStore {
    pub(crate) async fn create_thread(&self, tenant: &Tenant, new: NewThread) -> Result<(), StoreError> {
        let tenant = tenant.clone();
        self.write(move |db| {
            Box::pin(async move {
                match add_thread(db, &tenant, &new).await? {
                    true => Ok(()),
                    false => Err(StoreError::Exists { what: "thread", id: new.id.to_string() }),
                }
            })
        })
        .await
    }

    pub(crate) async fn thread(&self, tenant: &Tenant, id: &ThreadId) -> Result<ThreadView, StoreError> {
        let rows = self.rows(THREAD, &[&tenant.as_str(), &id.as_str()]).await?;
        if rows.is_empty() {
            return Err(StoreError::not_found("thread", id));
        }
        view(&rows)
    }

    pub(crate) async fn threads(
        &self,
        tenant: &Tenant,
        limit: u32,
        after: Option<&ThreadId>,
    ) -> Result<Vec<ThreadView>, StoreError> {
        let mut before = match after {
            None => i64::MAX,
            Some(after) => {
                let sql = "SELECT born FROM threads WHERE tenant = $1 AND thread = $2";
                let row = self.one(sql, &[&tenant.as_str(), &after.as_str()]).await?;
                row.ok_or_else(|| StoreError::not_found("thread", after))?.try_get(0)?
            }
        };
        let (mut out, limit) = (Vec::new(), limit as usize);
        while out.len() < limit {
            let rows = self.at_leisure().rows(THREADS, &[&tenant.as_str(), &before]).await?;
            let mut seen = 0;
            let born = |row: &Row| row.try_get::<_, i64>(0).unwrap_or_default();
            for of_one in rows.chunk_by(|one, next| born(one) == born(next)) {
                out.extend(listed(view(of_one))?);
                before = born(&of_one[0]);
                seen += 1;
            }
            if seen < PAGE {
                break;
            }
        }
        out.truncate(limit);
        Ok(out)
    }

    pub(crate) async fn delete_thread(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        audit: Option<AuditEvent>,
    ) -> Result<(), StoreError> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.write(move |db| {
            Box::pin(async move {
                load(db, &tenant, &id, true).await?.none_busy()?;
                if audit.is_some() && calls::has_untold(db, &tenant, &id).await? {
                    return Err(StoreError::Untold { thread: id.to_string() });
                }
                remove_thread(db, &tenant, &id).await?;
                outbox::note_ours(db, &tenant, audit.as_ref()).await
            })
        })
        .await
    }

    pub(crate) async fn rename_thread(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        to: &ThreadId,
    ) -> Result<(), StoreError> {
        let (tenant, id, to) = (tenant.clone(), id.clone(), to.clone());
        self.write(move |db| {
            Box::pin(async move {
                load(db, &tenant, &id, true).await?.none_busy()?;
                let exists = || StoreError::Exists { what: "thread", id: to.to_string() };
                if id == to {
                    return Err(exists());
                }
                let values: [&(dyn ToSql + Sync); 3] = [&tenant.as_str(), &id.as_str(), &to.as_str()];
                let renamed =
                    |table| format!("UPDATE {table} SET thread = $3 WHERE tenant = $1 AND thread = $2");
                let statement = db.prepare_cached(&renamed("threads")).await?;
                match db.execute(&statement, &values).await {
                    Err(error) if fault::is_taken(&error) => return Err(exists()),
                    done => done?,
                };
                let others = ["lanes", "branches", "untrusted", "entries", "runs", "queued"].map(renamed);
                all(db, &others, &values).await
            })
        })
        .await
    }

    pub(crate) async fn fork(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        from: Option<&BranchName>,
        at: &ForkAt,
        name: BranchName,
        now: Timestamp,
    ) -> Result<Place, StoreError> {
        let (tenant, id, from, at) = (tenant.clone(), id.clone(), from.cloned(), at.clone());
        self.write(move |db| {
            Box::pin(async move {
                let mut loaded = load(db, &tenant, &id, true).await?;
                let from = from.unwrap_or_else(|| loaded.tree.current.clone());
                let head = loaded.head(&from)?;
                let entry = match &at {
                    ForkAt::Entry(entry) => place_of(db, &tenant, &id, *entry).await?,
                    ForkAt::Head | ForkAt::Index(_) => None,
                };
                let place = crate::threads::fork_place(&loaded.tree, head, &from, &at, |_| entry)?;
                let origin = (from, place.index);
                loaded.tree.fork_at(place, origin.clone(), name.clone())?;
                insert_branch(db, &tenant, &id, &name, place, &origin, now).await?;
                Ok(place)
            })
        })
        .await
    }

    pub(crate) async fn checkout(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        branch: &BranchName,
    ) -> Result<(), StoreError> {
        let (tenant, id, branch) = (tenant.clone(), id.clone(), branch.clone());
        self.write(move |db| {
            Box::pin(async move {
                load(db, &tenant, &id, true).await?.tree.checkout(&branch)?;
                let sql = "UPDATE threads SET current = $3 WHERE tenant = $1 AND thread = $2";
                let statement = db.prepare_cached(sql).await?;
                db.execute(&statement, &[&tenant.as_str(), &id.as_str(), &branch.as_str()]).await?;
                Ok(())
            })
        })
        .await
    }

    pub(crate) async fn rewind(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        branch: Option<&BranchName>,
        index: i64,
    ) -> Result<Rewound, StoreError> {
        let (tenant, id, branch) = (tenant.clone(), id.clone(), branch.cloned());
        self.write(move |db| {
            Box::pin(async move {
                let mut loaded = load(db, &tenant, &id, true).await?;
                let branch = branch.unwrap_or_else(|| loaded.tree.current.clone());
                loaded.not_busy(&branch)?;
                let before = loaded.tree.rewind(&branch, index)?;
                let last = loaded.tree.place_at(before, before.index).unwrap_or(before);
                let previous_entry = entry_at(db, &tenant, &id, last).await?;
                let head = loaded.tree.branch(&branch)?.head;
                move_branch(db, &tenant, &id, &branch, head, None).await?;
                Ok(Rewound { branch, previous_head: before.index, previous_entry })
            })
        })
        .await
    }

    pub(crate) async fn delete_branch(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        branch: &BranchName,
    ) -> Result<(), StoreError> {
        let (tenant, id, branch) = (tenant.clone(), id.clone(), branch.clone());
        self.write(move |db| {
            Box::pin(async move {
                let mut loaded = load(db, &tenant, &id, true).await?;
                loaded.not_busy(&branch)?;
                loaded.tree.delete(&branch)?;
                remove_branches(db, &tenant, &id, &[branch]).await
            })
        })
        .await
    }
}

/// Creates a thread; false if it exists already.
pub(crate) async fn add_thread(db: &Db<'_>, tenant: &Tenant, new: &NewThread) -> Result<bool, StoreError> {
    let sql = "WITH made AS (
                 INSERT INTO threads(tenant, thread, current, created, ttl_at, meta)
                 VALUES ($1, $2, 'main', $3, $4, $5) ON CONFLICT DO NOTHING RETURNING tenant, thread, created)
               INSERT INTO branches(tenant, thread, branch, lane, head, touched)
               SELECT tenant, thread, 'main', 0, -1, created FROM made";
    let meta = new.meta.to_string().into_bytes();
    let values: [&(dyn ToSql + Sync); 5] =
        [&tenant.as_str(), &new.id.as_str(), &new.at.0, &new.ttl_at.map(|at| at.0), &meta];
    Ok(db.execute(&db.prepare_cached(sql).await?, &values).await? > 0)
}

/// Removes all rows of a thread that is locked and has no active run.
pub(crate) async fn remove_thread(db: &Db<'_>, tenant: &Tenant, id: &ThreadId) -> Result<(), StoreError> {
    // The runs are removed first: this waits for transactions that are writing to one, and later ones find none.
    let sql = "DELETE FROM runs WHERE tenant = $1 AND thread = $2 RETURNING run";
    let rows = db.query(&db.prepare_cached(sql).await?, &[&tenant.as_str(), &id.as_str()]).await?;
    let runs = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<Uuid>, _>>()?;
    let of_runs = ["steps", "claims", "inbox", "approvals", "queued"]
        .map(|table| format!("DELETE FROM {table} WHERE tenant = $1 AND run = ANY($2)"));
    all(db, &of_runs, &[&tenant.as_str(), &runs]).await?;
    let of_thread = ["entries", "untrusted", "queued", "branches", "lanes", "threads"]
        .map(|table| format!("DELETE FROM {table} WHERE tenant = $1 AND thread = $2"));
    all(db, &of_thread, &[&tenant.as_str(), &id.as_str()]).await
}

/// Runs several statements with the same values, in order and in one round trip.
async fn all(db: &Db<'_>, sql: &[String], values: &[&(dyn ToSql + Sync)]) -> Result<(), StoreError> {
    let mut statements = Vec::with_capacity(sql.len());
    for sql in sql {
        statements.push(db.prepare_cached(sql).await?);
    }
    try_join_all(statements.iter().map(|statement| db.execute(statement, values))).await?;
    Ok(())
}

/// Decodes a thread from its rows of [`views`], at least one.
fn view(rows: &[Row]) -> Result<ThreadView, StoreError> {
    let first = &rows[0];
    let id: ThreadId = name("thread", first.try_get(1)?)?;
    let mut branches = Vec::with_capacity(rows.len());
    for row in rows {
        let Some(branch) = row.try_get(6)? else { continue };
        branches.push(BranchView {
            name: name("branch", branch)?,
            head: Place { lane: lane(row, 7)?, index: row.try_get(8)? },
            forked_from: origin(row, 9)?,
            run: row.try_get::<_, Option<Uuid>>(11)?.map(RunId),
        });
    }
    branches.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(ThreadView {
        current: name("branch", first.try_get(2)?)?,
        created: Timestamp(first.try_get(3)?),
        ttl_at: first.try_get::<_, Option<i64>>(4)?.map(Timestamp),
        meta: serde_json::from_slice(first.try_get(5)?).map_err(|e| StoreError::corrupt("thread", &id, e))?,
        branches,
        id,
    })
}

async fn insert_branch(
    db: &Db<'_>,
    tenant: &Tenant,
    thread: &ThreadId,
    branch: &BranchName,
    head: Place,
    (from, index): &(BranchName, i64),
    at: Timestamp,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO branches(tenant, thread, branch, lane, head, from_branch, from_index, touched)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    let values: [&(dyn ToSql + Sync); 8] = [
        &tenant.as_str(),
        &thread.as_str(),
        &branch.as_str(),
        &stored(head.lane),
        &head.index,
        &from.as_str(),
        index,
        &at.0,
    ];
    db.execute(&db.prepare_cached(sql).await?, &values).await?;
    Ok(())
}

pub(super) async fn move_branch(
    db: &Db<'_>,
    tenant: &Tenant,
    thread: &ThreadId,
    branch: &BranchName,
    head: Place,
    touched: Option<Timestamp>,
) -> Result<(), StoreError> {
    let sql = "UPDATE branches SET lane = $4, head = $5, touched = coalesce($6, touched)
               WHERE tenant = $1 AND thread = $2 AND branch = $3";
    let (lane, touched) = (stored(head.lane), touched.map(|at| at.0));
    let values: [&(dyn ToSql + Sync); 6] =
        [&tenant.as_str(), &thread.as_str(), &branch.as_str(), &lane, &head.index, &touched];
    db.execute(&db.prepare_cached(sql).await?, &values).await?;
    Ok(())
}

pub(super) async fn remove_branches(
    db: &Db<'_>,
    tenant: &Tenant,
    thread: &ThreadId,
    branches: &[BranchName],
) -> Result<(), StoreError> {
    let sql = "DELETE FROM branches WHERE tenant = $1 AND thread = $2 AND branch = ANY($3)";
    let names: Vec<&str> = branches.iter().map(BranchName::as_str).collect();
    let statement = db.prepare_cached(sql).await?;
    db.execute(&statement, &[&tenant.as_str(), &thread.as_str(), &names]).await?;
    Ok(())
}
