//! Threads in SQLite. An operation loads the tree, lets `baton-core` decide, and writes the changes.

use baton_core::id::{BranchName, RunId, Tenant, ThreadId};
use baton_core::thread::{Lane, NewEntry, Place, PlacedEntry, Tree};
use baton_core::time::Timestamp;
use rusqlite::Connection;

use super::branches::{insert_branch, move_branch, remove_branch};
use super::outbox::{self, SqliteEvent};
use super::read::{self, Uuid16};
use super::{SqliteStore, calls, untrusted};
use crate::error::StoreError;
use crate::service::AuditEvent;
use crate::threads::FirstMarked;
use crate::transition::NewThread;
use crate::view::{BranchEnd, BranchView, ForkAt, Rewound, Slice, ThreadView};

impl SqliteStore {
    pub(crate) async fn create_thread(&self, tenant: &Tenant, new: NewThread) -> Result<(), StoreError> {
        let tenant = tenant.clone();
        self.write(move |db| match add_thread(db, &tenant, &new, None)? {
            true => Ok(()),
            false => Err(StoreError::Exists { what: "thread", id: new.id.to_string() }),
        })
        .await
    }

    pub(crate) async fn thread(&self, tenant: &Tenant, id: &ThreadId) -> Result<ThreadView, StoreError> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.read(move |db| view(db, &tenant, &id)).await
    }

    pub(crate) async fn threads(
        &self,
        tenant: &Tenant,
        limit: u32,
        after: Option<&ThreadId>,
    ) -> Result<Vec<ThreadView>, StoreError> {
        let (tenant, after) = (tenant.clone(), after.cloned());
        self.read(move |db| {
            // The unary plus keeps SQLite from reading all threads of the tenant in another order.
            let sql = "SELECT thread FROM threads WHERE +tenant = ?1
                       AND (?2 IS NULL OR rowid < (SELECT rowid FROM threads WHERE tenant = ?1 AND thread = ?2))
                       ORDER BY rowid DESC";
            if let Some(after) = &after {
                read::tree(db, &tenant, after)?;
            }
            let mut statement = db.prepare_cached(sql)?;
            let mut rows = statement.query((tenant.as_str(), after.as_ref().map(ThreadId::as_str)))?;
            let mut out = Vec::new();
            while out.len() < limit as usize {
                let Some(row) = rows.next()? else { break };
                let seen = read::name("thread", row.get(0)?).and_then(|id| view(db, &tenant, &id));
                out.extend(read::listed(seen)?);
            }
            Ok(out)
        })
        .await
    }

    pub(crate) async fn delete_thread(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        audit: Option<AuditEvent>,
    ) -> Result<(), StoreError> {
        let (tenant, id) = (tenant.clone(), id.clone());
        let audit = SqliteEvent::all(audit)?;
        self.write(move |db| {
            let loaded = read::tree(db, &tenant, &id)?;
            if let Some((branch, run)) = loaded.busy.iter().next() {
                return Err(StoreError::Busy { branch: branch.to_string(), run: *run });
            }
            if !audit.is_empty() && calls::has_untold(db, &tenant, &id)? {
                return Err(StoreError::Untold { thread: id.to_string() });
            }
            remove_thread(db, &tenant, &id)?;
            outbox::note_all(db, &tenant, &audit)
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
            let loaded = read::tree(db, &tenant, &id)?;
            if let Some((branch, run)) = loaded.busy.iter().next() {
                return Err(StoreError::Busy { branch: branch.to_string(), run: *run });
            }
            let sql = "SELECT count(*) FROM threads WHERE tenant = ?1 AND thread = ?2";
            if db.query_row(sql, (tenant.as_str(), to.as_str()), |row| row.get::<_, u32>(0))? > 0 {
                return Err(StoreError::Exists { what: "thread", id: to.to_string() });
            }
            for table in ["threads", "lanes", "branches", "untrusted", "runs", "queued"] {
                let sql = format!("UPDATE {table} SET thread = ?3 WHERE tenant = ?1 AND thread = ?2");
                db.execute(&sql, (tenant.as_str(), id.as_str(), to.as_str()))?;
            }
            Ok(())
        })
        .await
    }

    pub(crate) async fn entries(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        branch: Option<&BranchName>,
        slice: Slice,
    ) -> Result<Vec<PlacedEntry>, StoreError> {
        let (tenant, id, branch) = (tenant.clone(), id.clone(), branch.cloned());
        self.read(move |db| {
            let loaded = read::tree(db, &tenant, &id)?;
            let head = loaded.head(branch.as_ref().unwrap_or(&loaded.tree.current))?;
            let last = slice.before.map_or(head.index, |before| head.index.min(before.saturating_sub(1)));
            let first = slice.last_n.map_or(0, |n| last.saturating_sub(i64::from(n) - 1).max(0));
            let end = loaded.tree.place_at(head, last.max(-1)).unwrap_or(head);
            read::entries(db, &tenant, &id, &loaded.tree, end, first)
        })
        .await
    }

    pub(crate) async fn end(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        branch: Option<&BranchName>,
    ) -> Result<BranchEnd, StoreError> {
        let (tenant, id, branch) = (tenant.clone(), id.clone(), branch.cloned());
        self.read(move |db| {
            let loaded = read::tree(db, &tenant, &id)?;
            let branch = branch.unwrap_or_else(|| loaded.tree.current.clone());
            let head = loaded.head(&branch)?;
            let tail = read::tail(db, &tenant, &id, &loaded.tree, head)?;
            let lanes = untrusted::of_lanes(db, &tenant, &id)?;
            let FirstMarked { untrusted, private } = crate::threads::first_marked(&loaded.tree, head, &lanes);
            let tip = read::tip(db, &tenant, &id, head.lane)?;
            let lane = crate::threads::own_lane(&loaded.tree, &branch, head, tip);
            let written_by = read::written_by(db, &tenant, &id, head)?;
            Ok(BranchEnd { branch, head: head.index, tail, untrusted, private, written_by, lane })
        })
        .await
    }

    pub(crate) async fn push(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        branch: Option<&BranchName>,
        new: NewEntry,
    ) -> Result<i64, StoreError> {
        let (tenant, id, branch) = (tenant.clone(), id.clone(), branch.cloned());
        let envelope = crate::envelope::encode(&new.entry, new.at)?;
        self.write(move |db| {
            let mut loaded = read::tree(db, &tenant, &id)?;
            let branch = branch.unwrap_or_else(|| loaded.tree.current.clone());
            loaded.not_busy(&branch)?;
            let head = loaded.head(&branch)?;
            let tail = read::tail(db, &tenant, &id, &loaded.tree, head)?;
            let all = || read::entries(db, &tenant, &id, &loaded.tree, head, 0);
            crate::threads::check_push(&new.entry, tail, all)?;
            let lane = append_lane(db, &tenant, &id, &mut loaded.tree, &branch)?;
            let place = Place { lane, index: head.index + 1 };
            insert_entry(db, &tenant, &id, place, (Uuid16(new.id.0), None), &envelope)?;
            untrusted::note(db, &tenant, &id, lane, FirstMarked::among(place.index, [&new.entry]))?;
            move_branch(db, &tenant, &id, &branch, place, Some(new.at))?;
            Ok(place.index)
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
            let mut loaded = read::tree(db, &tenant, &id)?;
            let from = from.unwrap_or_else(|| loaded.tree.current.clone());
            let head = loaded.head(&from)?;
            let entry = match &at {
                ForkAt::Entry(entry) => super::place::place_of(db, &tenant, &id, *entry)?,
                _ => None,
            };
            let place = crate::threads::fork_place(&loaded.tree, head, &from, &at, |_| entry)?;
            let origin = (from, place.index);
            loaded.tree.fork_at(place, origin.clone(), name.clone())?;
            insert_branch(db, &tenant, &id, &name, place, &origin, now)?;
            Ok(place)
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
            read::tree(db, &tenant, &id)?.tree.checkout(&branch)?;
            let sql = "UPDATE threads SET current = ?3 WHERE tenant = ?1 AND thread = ?2";
            db.execute(sql, (tenant.as_str(), id.as_str(), branch.as_str()))?;
            Ok(())
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
            let mut loaded = read::tree(db, &tenant, &id)?;
            let branch = branch.unwrap_or_else(|| loaded.tree.current.clone());
            loaded.not_busy(&branch)?;
            let before = loaded.tree.rewind(&branch, index)?;
            let last = read::entries(db, &tenant, &id, &loaded.tree, before, before.index)?.pop();
            move_branch(db, &tenant, &id, &branch, loaded.tree.branch(&branch)?.head, None)?;
            Ok(Rewound { branch, previous_head: before.index, previous_entry: last.map(|entry| entry.id) })
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
            let mut loaded = read::tree(db, &tenant, &id)?;
            loaded.not_busy(&branch)?;
            loaded.tree.delete(&branch)?;
            remove_branch(db, &tenant, &id, &branch)
        })
        .await
    }
}

/// Creates a thread, whose branch a run may hold from the beginning; false if it exists already.
pub(super) fn add_thread(
    db: &Connection,
    tenant: &Tenant,
    new: &NewThread,
    holder: Option<(RunId, Timestamp)>,
) -> Result<bool, StoreError> {
    let sql = "INSERT OR IGNORE INTO threads(tenant, thread, current, created, ttl_at, meta)
               VALUES (?1, ?2, 'main', ?3, ?4, ?5)";
    let meta = new.meta.to_string().into_bytes();
    let values = (tenant.as_str(), new.id.as_str(), new.at.0, new.ttl_at.map(|at| at.0), meta);
    if db.prepare_cached(sql)?.execute(values)? == 0 {
        return Ok(false);
    }
    let sql = "INSERT INTO branches(tenant, thread, branch, lane, head, run, touched)
               VALUES (?1, ?2, 'main', 0, -1, ?3, ?4)";
    let (run, since) = holder.map(|(run, at)| (Uuid16(run.0), at)).unzip();
    let touched = since.unwrap_or(new.at).0;
    db.prepare_cached(sql)?.execute((tenant.as_str(), new.id.as_str(), run, touched))?;
    Ok(true)
}

/// Removes a thread with everything on it.
pub(super) fn remove_thread(db: &Connection, tenant: &Tenant, id: &ThreadId) -> Result<(), StoreError> {
    let key = (tenant.as_str(), id.as_str());
    db.execute("DELETE FROM steps WHERE run IN (SELECT n FROM runs WHERE tenant = ?1 AND thread = ?2)", key)?;
    for table in ["claims", "inbox", "approvals"] {
        let of_runs = "(SELECT run FROM runs WHERE tenant = ?1 AND thread = ?2)";
        db.execute(&format!("DELETE FROM {table} WHERE tenant = ?1 AND run IN {of_runs}"), key)?;
    }
    let numbered = "(SELECT n FROM threads WHERE tenant = ?1 AND thread = ?2)";
    db.execute(&format!("DELETE FROM entries WHERE thread = {numbered}"), key)?;
    for table in ["queued", "runs", "untrusted", "branches", "lanes", "threads"] {
        db.execute(&format!("DELETE FROM {table} WHERE tenant = ?1 AND thread = ?2"), key)?;
    }
    Ok(())
}

fn view(db: &Connection, tenant: &Tenant, id: &ThreadId) -> Result<ThreadView, StoreError> {
    let loaded = read::tree(db, tenant, id)?;
    let sql = "SELECT created, ttl_at, meta FROM threads WHERE tenant = ?1 AND thread = ?2";
    let (created, ttl_at, meta): (i64, Option<i64>, Vec<u8>) = db
        .prepare_cached(sql)?
        .query_row((tenant.as_str(), id.as_str()), |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let mut branches = Vec::new();
    for (name, branch) in &loaded.tree.branches {
        branches.push(BranchView {
            name: name.clone(),
            head: loaded.head(name)?,
            forked_from: branch.forked_from.clone(),
            run: loaded.busy.get(name).copied(),
        });
    }
    Ok(ThreadView {
        id: id.clone(),
        current: loaded.tree.current.clone(),
        created: Timestamp(created),
        ttl_at: ttl_at.map(Timestamp),
        meta: serde_json::from_slice(&meta).map_err(|e| StoreError::corrupt("thread", id, e))?,
        branches,
    })
}

/// The lane of a branch's next entry; a new lane is opened if necessary.
pub(super) fn append_lane(
    db: &Connection,
    tenant: &Tenant,
    thread: &ThreadId,
    tree: &mut Tree,
    branch: &BranchName,
) -> Result<u32, StoreError> {
    let tip = read::tip(db, tenant, thread, tree.branch(branch)?.head.lane)?;
    let before = tree.lanes.len();
    let lane = tree.append_lane(branch, tip)?;
    if let (true, Some(Lane { parent: Some(parent), opened_by })) =
        (tree.lanes.len() > before, tree.lanes.get(&lane))
    {
        let sql = "INSERT INTO lanes(tenant, thread, lane, parent_lane, parent_index, opened_by) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let values = (tenant.as_str(), thread.as_str(), lane, parent.lane, parent.index, opened_by.as_str());
        db.prepare_cached(sql)?.execute(values)?;
    }
    Ok(lane)
}

/// Writes one entry at its place.
pub(super) fn insert_entry(
    db: &Connection,
    tenant: &Tenant,
    thread: &ThreadId,
    place: Place,
    (id, run): (Uuid16, Option<Uuid16>),
    envelope: &[u8],
) -> Result<(), StoreError> {
    let sql = "INSERT INTO entries(thread, lane, idx, id, run, envelope, crc)
               VALUES ((SELECT n FROM threads WHERE tenant = ?1 AND thread = ?2), ?3, ?4, ?5, ?6, ?7, ?8)";
    let crc = crc32fast::hash(envelope);
    let values = (tenant.as_str(), thread.as_str(), place.lane, place.index, id, run, envelope, crc);
    db.prepare_cached(sql)?.execute(values)?;
    Ok(())
}
