//! Entries in PostgreSQL: the entries of a branch, and its end.
//!
//! Every turn reads the end of its branch, so that is one statement and one round trip: it finds the branch, follows
//! its line down through the lanes, and takes all it needs along the way. A single statement is one snapshot, so no
//! transaction is needed; a write that needs the end runs the same statement inside its own.

use baton_core::id::{BranchName, EntryId, RunId, Tenant, ThreadId};
use baton_core::thread::{Entry, NewEntry, Place, PlacedEntry, Tail, TreeError};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::threads::move_branch;
use super::tree::{append_lane, lane, load, name, stored};
use super::{Db, PgStore, untrusted};
use crate::error::StoreError;
use crate::threads::FirstMarked;
use crate::view::{BranchEnd, Slice};

/// The number of entries that are read at first to find the state that a branch's next entry depends on: mostly the
/// last one decides it, and after a turn with tools the one before its calls.
const PAGE: i64 = 4;

/// A statement over the line of a branch ($3; absent: the current one) of a thread: `found` has one row if
/// there is such a thread, without a branch if there is no such branch; `line` has the lanes below it, each
/// with the last index that belongs to the line. `UNION` ends even where damaged lanes lead in a circle.
macro_rules! over_line {
    ($last:literal, $beyond:literal, $rest:literal) => {
        concat!(
            "WITH RECURSIVE found AS (
               SELECT t.current, b.branch, coalesce(r.lane, b.lane) AS lane, coalesce(r.head, b.head) AS head
               FROM threads t
               LEFT JOIN branches b
                 ON b.tenant = t.tenant AND b.thread = t.thread AND b.branch = coalesce($3, t.current)
               LEFT JOIN runs r ON r.tenant = b.tenant AND r.run = b.run
               WHERE t.tenant = $1 AND t.thread = $2),
             line(lane, last, beyond) AS (
               SELECT lane, ",
            $last,
            ", ",
            $beyond,
            " FROM found
               UNION
               SELECT l.parent_lane, least(l.parent_index, line.last), line.beyond
               FROM line JOIN lanes l ON l.tenant = $1 AND l.thread = $2 AND l.lane = line.lane
               WHERE line.last > line.beyond)",
            $rest
        )
    };
}

/// The end of a branch and its last $4 entries.
pub(super) const END: &str = over_line!(
    "head",
    "-1::bigint",
    ", recent AS (
       SELECT e.idx, e.envelope, e.crc, e.run FROM line CROSS JOIN LATERAL (
         SELECT idx, envelope, crc, run FROM entries
         WHERE tenant = $1 AND thread = $2 AND lane = line.lane AND idx <= line.last
         ORDER BY idx DESC LIMIT $4) e
       ORDER BY e.idx DESC LIMIT $4),
     edge AS MATERIALIZED (
       SELECT f.*,
         (SELECT opened_by FROM lanes WHERE tenant = $1 AND thread = $2 AND lane = f.lane),
         (SELECT max(idx) FROM entries WHERE tenant = $1 AND thread = $2 AND lane = f.lane) AS tip,
         marked.untrusted, marked.private
       FROM found f, (
         SELECT min(u.idx) FILTER (WHERE NOT u.private) AS untrusted, min(u.idx) FILTER (WHERE u.private) AS private
         FROM line JOIN untrusted u ON u.lane = line.lane AND u.idx <= line.last
         WHERE u.tenant = $1 AND u.thread = $2) marked)
     SELECT edge.*, r.idx, r.envelope, r.crc, r.run FROM edge LEFT JOIN recent r ON true"
);

/// The entries of a branch up to $4, and of those the last $5. The order within a lane also keeps the planner
/// from reading whole threads for it.
pub(super) const ENTRIES: &str = over_line!(
    "least(head, $4)",
    "coalesce(least(head, $4) - $5, -1)",
    "SELECT f.current, f.branch, e.idx, e.id, e.run, e.envelope, e.crc
     FROM found f LEFT JOIN (line CROSS JOIN LATERAL (
       SELECT idx, id, run, envelope, crc FROM entries
       WHERE tenant = $1 AND thread = $2 AND lane = line.lane AND idx <= line.last AND idx > line.beyond
       ORDER BY idx) e) ON true"
);

impl PgStore {
    pub(crate) async fn entries(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        branch: Option<&BranchName>,
        slice: Slice,
    ) -> Result<Vec<PlacedEntry>, StoreError> {
        let (last, most) = bounds(slice);
        let values: [&(dyn ToSql + Sync); 5] =
            [&tenant.as_str(), &id.as_str(), &branch.map(BranchName::as_str), &last, &most];
        line_from(&self.for_content().rows(ENTRIES, &values).await?, id, branch)
    }

    pub(crate) async fn end(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        branch: Option<&BranchName>,
    ) -> Result<BranchEnd, StoreError> {
        let mut page = PAGE;
        loop {
            let values: [&(dyn ToSql + Sync); 4] =
                [&tenant.as_str(), &id.as_str(), &branch.map(BranchName::as_str), &page];
            if let Some(end) = end_from(&self.rows(END, &values).await?, id, branch, page)? {
                return Ok(end);
            }
            page *= 8;
        }
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
            Box::pin(async move {
                let mut loaded = load(db, &tenant, &id, true).await?;
                let branch = branch.unwrap_or_else(|| loaded.tree.current.clone());
                loaded.not_busy(&branch)?;
                let head = loaded.head(&branch)?;
                let tail = tail(db, &tenant, &id, &branch).await?;
                let all = match new.entry {
                    Entry::ToolCall(_) | Entry::AgentCall(_) => whole(db, &tenant, &id, &branch).await,
                    _ => Ok(Vec::new()), // these have no id that could be in use
                };
                crate::threads::check_push(&new.entry, tail, || all)?;
                let lane = append_lane(db, &tenant, &id, &mut loaded.tree, &branch).await?;
                let place = Place { lane, index: head.index + 1 };
                insert_entry(db, &tenant, &id, place, (new.id.0, None), &envelope).await?;
                let marked = FirstMarked::among(place.index, [&new.entry]);
                untrusted::note(db, &tenant, &id, lane, marked).await?;
                move_branch(db, &tenant, &id, &branch, place, Some(new.at)).await?;
                Ok(place.index)
            })
        })
        .await
    }
}

/// Writes one entry at its place, outside a run or in one.
pub(crate) async fn insert_entry(
    db: &Db<'_>,
    tenant: &Tenant,
    thread: &ThreadId,
    place: Place,
    (id, run): (Uuid, Option<Uuid>),
    envelope: &[u8],
) -> Result<(), StoreError> {
    let sql = "INSERT INTO entries(tenant, thread, lane, idx, id, run, envelope, crc)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    let (lane, crc) = (stored(place.lane), i64::from(crc32fast::hash(envelope)));
    let values: [&(dyn ToSql + Sync); 8] =
        [&tenant.as_str(), &thread.as_str(), &lane, &place.index, &id, &run, &envelope, &crc];
    db.execute(&db.prepare_cached(sql).await?, &values).await?;
    Ok(())
}

/// The state that the next entry of a branch depends on: entries are read backwards until no earlier one can matter.
pub(crate) async fn tail(
    db: &Db<'_>,
    tenant: &Tenant,
    thread: &ThreadId,
    branch: &BranchName,
) -> Result<Tail, StoreError> {
    let statement = db.prepare_cached(END).await?;
    let mut page = PAGE;
    loop {
        let values: [&(dyn ToSql + Sync); 4] = [&tenant.as_str(), &thread.as_str(), &branch.as_str(), &page];
        if let Some(end) = end_from(&db.query(&statement, &values).await?, thread, Some(branch), page)? {
            return Ok(end.tail);
        }
        page *= 8;
    }
}

/// The run that wrote an entry.
pub(super) async fn written_by(
    db: &Db<'_>,
    tenant: &Tenant,
    thread: &ThreadId,
    place: Place,
) -> Result<Option<RunId>, StoreError> {
    let sql = "SELECT run FROM entries WHERE tenant = $1 AND thread = $2 AND lane = $3 AND idx = $4";
    let values: [&(dyn ToSql + Sync); 4] =
        [&tenant.as_str(), &thread.as_str(), &stored(place.lane), &place.index];
    let found = db.query_opt(&db.prepare_cached(sql).await?, &values).await?;
    Ok(found.map(|row| row.try_get::<_, Option<Uuid>>(0)).transpose()?.flatten().map(RunId))
}

/// All entries of a branch, oldest first.
async fn whole(
    db: &Db<'_>,
    tenant: &Tenant,
    thread: &ThreadId,
    branch: &BranchName,
) -> Result<Vec<PlacedEntry>, StoreError> {
    let (last, most) = bounds(Slice::default());
    let values: [&(dyn ToSql + Sync); 5] =
        [&tenant.as_str(), &thread.as_str(), &branch.as_str(), &last, &most];
    line_from(&db.query(&db.prepare_cached(ENTRIES).await?, &values).await?, thread, Some(branch))
}

/// The last wanted index, and the number of entries up to it.
fn bounds(slice: Slice) -> (Option<i64>, Option<i64>) {
    (slice.before.map(|before| before.saturating_sub(1).max(-1)), slice.last_n.map(i64::from))
}

/// The name of the branch, from the first two columns.
fn found(row: &Row, wanted: Option<&BranchName>) -> Result<BranchName, StoreError> {
    match row.try_get(1)? {
        Some(branch) => name("branch", branch),
        None => {
            let current = || row.try_get::<_, String>(0);
            let missing = wanted.map_or_else(current, |branch| Ok(branch.to_string()))?;
            Err(TreeError::NoBranch(missing).into())
        }
    }
}

/// The entries in the rows of [`ENTRIES`].
fn line_from(
    rows: &[Row],
    thread: &ThreadId,
    branch: Option<&BranchName>,
) -> Result<Vec<PlacedEntry>, StoreError> {
    found(rows.first().ok_or_else(|| StoreError::not_found("thread", thread))?, branch)?;
    let mut out = Vec::with_capacity(rows.len());
    for row in rows {
        let Some(index) = row.try_get(2)? else { continue }; // the branch is empty
        let (entry, at) = unpacked(thread, index, row.try_get(5)?, row.try_get(6)?)?;
        let run = row.try_get::<_, Option<Uuid>>(4)?.map(RunId);
        out.push(PlacedEntry { index, id: EntryId(row.try_get(3)?), at, run, entry });
    }
    out.sort_by_key(|placed| placed.index); // the rows come lane by lane
    Ok(out)
}

/// The end in the rows of [`END`]; `None` if more entries are needed to know it.
fn end_from(
    rows: &[Row],
    thread: &ThreadId,
    wanted: Option<&BranchName>,
    page: i64,
) -> Result<Option<BranchEnd>, StoreError> {
    let row = rows.first().ok_or_else(|| StoreError::not_found("thread", thread))?;
    let branch = found(row, wanted)?;
    let mut recent = Vec::new();
    for row in rows {
        let Some(index) = row.try_get::<_, Option<i64>>(8)? else { continue };
        let (entry, _) = unpacked(thread, index, row.try_get(9)?, row.try_get(10)?)?;
        recent.push((index, entry, row.try_get::<_, Option<Uuid>>(11)?.map(RunId)));
    }
    recent.sort_by_key(|(index, ..)| *index);
    let all = (recent.len() as i64) < page;
    let enough = recent.iter().rposition(|(_, entry, _)| Tail::is_enough(entry));
    if enough.is_none() && !all {
        return Ok(None);
    }
    let tail = Tail::of(recent.iter().skip(enough.unwrap_or(0)).map(|(_, entry, _)| entry));
    let written_by = recent.last().and_then(|(.., run)| *run);
    let head = Place { lane: lane(row, 2)?, index: row.try_get(3)? };
    let opened = match row.try_get::<_, Option<&str>>(4)? {
        Some(by) => by == branch.as_str(),
        None => head.lane == 0 && branch == BranchName::main(), // the first lane has no row
    };
    let tip = row.try_get::<_, Option<i64>>(5)?.unwrap_or(-1);
    let lane = (opened && head.index >= tip).then_some(head.lane);
    let (untrusted, private) = (row.try_get(6)?, row.try_get(7)?);
    Ok(Some(BranchEnd { branch, head: head.index, tail, untrusted, private, written_by, lane }))
}

/// Decodes an entry from its envelope.
fn unpacked(
    thread: &ThreadId,
    index: i64,
    envelope: &[u8],
    crc: i64,
) -> Result<(Entry, baton_core::time::Timestamp), StoreError> {
    let corrupt = |why: String| StoreError::corrupt("entry", format!("{thread}[{index}]"), why);
    if i64::from(crc32fast::hash(envelope)) != crc {
        return Err(corrupt("its checksum does not fit: the file was damaged".to_owned()));
    }
    crate::envelope::decode(envelope).map_err(corrupt)
}
