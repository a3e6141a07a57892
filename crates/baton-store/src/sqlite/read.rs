//! Decodes trees, entries and runs from rows, for readers and for the writer alike.

use std::collections::BTreeMap;

use baton_core::budget::Budget;
use baton_core::id::{BranchName, EntryId, OwnerId, RunId, Tenant, ThreadId};
use baton_core::run::RunStatus;
use baton_core::thread::{Branch, Lane, Place, PlacedEntry, Tail, Tree};
use baton_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row};
use uuid::Uuid;

use crate::error::StoreError;
use crate::view::RunRow;

/// A thread's tree, and the runs that hold its branches. A branch in use ends where its run has come to.
pub(super) struct SqliteTree {
    pub(super) tree: Tree,
    pub(super) busy: BTreeMap<BranchName, RunId>,
    pub(super) touched: BTreeMap<BranchName, Timestamp>,
    /// The places of busy branches, as their runs have them.
    heads: BTreeMap<BranchName, Place>,
}

impl SqliteTree {
    pub(super) fn head(&self, branch: &BranchName) -> Result<Place, StoreError> {
        let head = self.tree.branch(branch)?.head;
        Ok(self.heads.get(branch).copied().unwrap_or(head))
    }

    pub(super) fn not_busy(&self, branch: &BranchName) -> Result<(), StoreError> {
        match self.busy.get(branch) {
            Some(run) => Err(StoreError::Busy { branch: branch.to_string(), run: *run }),
            None => Ok(()),
        }
    }
}

pub(super) fn tree(db: &Connection, tenant: &Tenant, thread: &ThreadId) -> Result<SqliteTree, StoreError> {
    let key = (tenant.as_str(), thread.as_str());
    let sql = "SELECT current FROM threads WHERE tenant = ?1 AND thread = ?2";
    let current: Option<String> = db.prepare_cached(sql)?.query_row(key, |row| row.get(0)).optional()?;
    let current = current.ok_or_else(|| StoreError::not_found("thread", thread))?;
    let mut loaded = SqliteTree {
        tree: Tree { current: name("branch", current)?, ..Tree::default() },
        busy: BTreeMap::new(),
        touched: BTreeMap::new(),
        heads: BTreeMap::new(),
    };
    let sql =
        "SELECT lane, parent_lane, parent_index, opened_by FROM lanes WHERE tenant = ?1 AND thread = ?2";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(key)?;
    while let Some(row) = rows.next()? {
        let parent = Some(Place { lane: row.get(1)?, index: row.get(2)? });
        let lane = Lane { parent, opened_by: name("branch", row.get(3)?)? };
        loaded.tree.lanes.insert(row.get(0)?, lane);
    }
    let sql = "SELECT b.branch, b.lane, b.head, b.run, b.from_branch, b.from_index, b.touched, r.lane, r.head
               FROM branches b LEFT JOIN runs r ON r.tenant = b.tenant AND r.run = b.run
               WHERE b.tenant = ?1 AND b.thread = ?2";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(key)?;
    while let Some(row) = rows.next()? {
        let branch: BranchName = name("branch", row.get(0)?)?;
        let origin: Option<String> = row.get(4)?;
        let forked_from = match origin {
            Some(from) => Some((name("branch", from)?, row.get(5)?)),
            None => None,
        };
        loaded.touched.insert(branch.clone(), Timestamp(row.get(6)?));
        if let Some(run) = row.get::<_, Option<Uuid16>>(3)? {
            loaded.busy.insert(branch.clone(), RunId(run.0));
            loaded.heads.insert(branch.clone(), Place { lane: row.get(7)?, index: row.get(8)? });
        }
        let head = Place { lane: row.get(1)?, index: row.get(2)? };
        loaded.tree.branches.insert(branch, Branch { head, forked_from });
    }
    Ok(loaded)
}

/// Entries of the line that ends at `head`, from `first` on, oldest first.
pub(super) fn entries(
    db: &Connection,
    tenant: &Tenant,
    thread: &ThreadId,
    tree: &Tree,
    head: Place,
    first: i64,
) -> Result<Vec<PlacedEntry>, StoreError> {
    let sql = "SELECT idx, id, run, envelope, crc FROM entries
               WHERE thread = (SELECT n FROM threads WHERE tenant = ?1 AND thread = ?2)
               AND lane = ?3 AND idx BETWEEN ?4 AND ?5 ORDER BY idx";
    let mut statement = db.prepare_cached(sql)?;
    let mut out = Vec::new();
    for segment in tree.segments(head, first) {
        let key = (tenant.as_str(), thread.as_str(), segment.lane, segment.first, segment.last);
        let mut rows = statement.query(key)?;
        while let Some(row) = rows.next()? {
            out.push(placed(thread, row)?);
        }
    }
    Ok(out)
}

fn placed(thread: &ThreadId, row: &Row<'_>) -> Result<PlacedEntry, StoreError> {
    let index: i64 = row.get(0)?;
    let (envelope, crc): (Vec<u8>, u32) = (row.get(3)?, row.get(4)?);
    let corrupt = |why: String| StoreError::corrupt("entry", format!("{thread}[{index}]"), why);
    if crc32fast::hash(&envelope) != crc {
        return Err(corrupt("its checksum does not fit: the file was damaged".to_owned()));
    }
    let (entry, at) = crate::envelope::decode(&envelope).map_err(corrupt)?;
    let run = row.get::<_, Option<Uuid16>>(2)?.map(|id| RunId(id.0));
    Ok(PlacedEntry { index, id: EntryId(row.get::<_, Uuid16>(1)?.0), at, run, entry })
}

/// The state that the next entry of a line depends on: entries are read backwards until no earlier one can matter.
pub(super) fn tail(
    db: &Connection,
    tenant: &Tenant,
    thread: &ThreadId,
    tree: &Tree,
    head: Place,
) -> Result<Tail, StoreError> {
    let mut page = 16;
    loop {
        let first = (head.index + 1 - page).max(0);
        let read = entries(db, tenant, thread, tree, head, first)?;
        if first == 0 || read.iter().any(|placed| Tail::is_enough(&placed.entry)) {
            return Ok(crate::threads::tail_of(&read));
        }
        page *= 4;
    }
}

/// The last stored index of a lane.
pub(super) fn tip(db: &Connection, tenant: &Tenant, thread: &ThreadId, lane: u32) -> Result<i64, StoreError> {
    let sql = "SELECT max(idx) FROM entries
               WHERE thread = (SELECT n FROM threads WHERE tenant = ?1 AND thread = ?2) AND lane = ?3";
    let key = (tenant.as_str(), thread.as_str(), lane);
    let tip: Option<i64> = db.prepare_cached(sql)?.query_row(key, |row| row.get(0))?;
    Ok(tip.unwrap_or(-1))
}

/// The run that wrote an entry.
pub(super) fn written_by(
    db: &Connection,
    tenant: &Tenant,
    thread: &ThreadId,
    place: Place,
) -> Result<Option<RunId>, StoreError> {
    let sql = "SELECT run FROM entries
               WHERE thread = (SELECT n FROM threads WHERE tenant = ?1 AND thread = ?2) AND lane = ?3 AND idx = ?4";
    let key = (tenant.as_str(), thread.as_str(), place.lane, place.index);
    let found = db.prepare_cached(sql)?.query_row(key, |row| row.get::<_, Option<Uuid16>>(0)).optional()?;
    Ok(found.flatten().map(|id| RunId(id.0)))
}

/// The columns of [`run_row`].
pub(super) const RUN_COLUMNS: &str =
    "run, thread, branch, lane, head, status, owner, epoch, step, seq, inbox,
    attempts, definition, min_version, budget, wake_at, watched_until, created, ended, metadata";

pub(super) fn run_row(row: &Row<'_>) -> Result<RunRow, StoreError> {
    let id = RunId(row.get::<_, Uuid16>(0)?.0);
    let unreadable = |why: serde_json::Error| StoreError::corrupt("run", id, why);
    let time = |at: usize| row.get::<_, Option<i64>>(at).map(|ms| ms.map(Timestamp));
    Ok(RunRow {
        id,
        thread: name("thread", row.get(1)?)?,
        branch: name("branch", row.get(2)?)?,
        lane: row.get(3)?,
        head: row.get(4)?,
        status: status(id, row.get(5)?)?,
        owner: row.get::<_, Option<Uuid16>>(6)?.map(|id| OwnerId(id.0)),
        epoch: row.get(7)?,
        step: row.get(8)?,
        seq: row.get::<_, i64>(9)? as u64,
        inbox: row.get(10)?,
        attempts: row.get(11)?,
        definition: row.get(12)?,
        min_version: row.get(13)?,
        budget: budget(id, row, 14)?,
        wake_at: time(15)?,
        watched_until: time(16)?,
        created: Timestamp(row.get(17)?),
        ended: time(18)?,
        metadata: serde_json::from_slice(row.get_ref(19)?.as_blob().unwrap_or_default())
            .map_err(unreadable)?,
    })
}

/// The status of a run, from its column.
pub(super) fn status(run: RunId, column: u8) -> Result<RunStatus, StoreError> {
    let status = RunStatus::ALL.get(usize::from(column)).copied();
    status.ok_or_else(|| StoreError::corrupt("run", run, "unknown status"))
}

/// The usage of a run, from its column.
pub(super) fn budget(run: RunId, row: &Row<'_>, column: usize) -> Result<Budget, StoreError> {
    let bytes = row.get_ref(column)?.as_blob().unwrap_or_default();
    serde_json::from_slice(bytes).map_err(|why| StoreError::corrupt("run", run, why))
}

/// One row of a list: a row that cannot be read is left out, so that it affects no other.
pub(super) fn listed<T>(row: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match row {
        Err(error @ StoreError::Corrupt { .. }) => {
            tracing::warn!(%error, "left out of a list");
            Ok(None)
        }
        row => row.map(Some),
    }
}

/// A name that was valid when it was stored.
pub(super) fn name<T: std::str::FromStr>(what: &'static str, text: String) -> Result<T, StoreError>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|e: T::Err| StoreError::corrupt(what, &text, e))
}

/// A UUID in 16 bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Uuid16(pub(super) Uuid);

impl rusqlite::types::FromSql for Uuid16 {
    fn column_result(value: rusqlite::types::ValueRef<'_>) -> rusqlite::types::FromSqlResult<Self> {
        let bytes = value.as_blob()?;
        Uuid::from_slice(bytes).map(Uuid16).map_err(|_| rusqlite::types::FromSqlError::InvalidType)
    }
}

impl rusqlite::types::ToSql for Uuid16 {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        Ok(rusqlite::types::ToSqlOutput::Borrowed(rusqlite::types::ValueRef::Blob(self.0.as_bytes())))
    }
}
