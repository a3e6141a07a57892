//! Due runs in SQLite.
//!
//! These statements run again and again, so they never look at runs that are driven or asleep: each kind of due run has
//! an index of its own, and owners are found by hopping from one to the next.

use std::path::Path;

use baton_core::id::{OwnerId, RunId, Tenant};
use baton_core::run::RunStatus;
use baton_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, ToSql};
use uuid::Uuid;

use super::read::{self, Uuid16};
use super::runs::{STEPS, load, steps};
use super::{SqliteStore, live};
use crate::error::StoreError;
use crate::view::{Due, DueFrom, DuePage, Source};

/// The page size where all due runs are wanted.
const MANY: u32 = 1000;

/// Runs that were released.
pub(super) const LET_GO: &str =
    "SELECT tenant, run, attempts, inbox, definition, 0 FROM runs INDEXED BY runs_let_go
    WHERE status = 1 AND owner IS NULL AND run > ?1 ORDER BY run LIMIT ?2";
/// Suspended runs that have messages, or whose time has come.
pub(super) const ASLEEP: &str =
    "SELECT tenant, run, attempts, inbox, definition, due_at FROM runs INDEXED BY runs_asleep
    WHERE due_at <= ?1 AND (due_at, run) > (?2, ?3) ORDER BY due_at, run LIMIT ?4";
/// The next owner that holds a run.
pub(super) const NEXT_HOLDER: &str = "SELECT owner FROM runs INDEXED BY runs_unfinished
    WHERE status < 3 AND owner > ?1 ORDER BY owner LIMIT 1";
/// Runs of a dead owner.
pub(super) const HELD: &str =
    "SELECT tenant, run, attempts + 1, inbox, definition, 0 FROM runs INDEXED BY runs_unfinished
    WHERE status < 3 AND owner = ?1 AND run > ?2 ORDER BY run LIMIT ?3";
/// The first queued run of each free branch, in the order of the queue. A run whose branch was removed meanwhile is
/// included: its start finds that out.
pub(super) const IN_LINE: &str =
    "SELECT q.tenant, q.run, 0, coalesce(r.inbox, 0), coalesce(r.definition, ''), q.n
    FROM queued q
    LEFT JOIN branches b ON b.tenant = q.tenant AND b.thread = q.thread AND b.branch = q.branch
    LEFT JOIN runs r ON r.tenant = q.tenant AND r.run = q.run
    WHERE b.run IS NULL AND q.n > ?1 AND q.n = (SELECT min(n) FROM queued f
      WHERE f.tenant = q.tenant AND f.thread = q.thread AND f.branch = q.branch)
    ORDER BY q.n LIMIT ?2";

impl SqliteStore {
    pub(crate) async fn due(&self, now: Timestamp) -> Result<Vec<(Tenant, RunId)>, StoreError> {
        let folder = self.folder().to_owned();
        self.read(move |db| {
            let (mut begun, mut in_line, mut from) = (Vec::new(), Vec::new(), Some(DueFrom::default()));
            while let Some(next) = from {
                let page = page(db, now, next, MANY, &folder)?;
                for due in page.runs {
                    match due.is_queued {
                        true => in_line.push((due.tenant, due.run)),
                        false if is_readable(db, &due) => begun.push((due.tenant, due.run)),
                        false => {} // it affects no other run
                    }
                }
                from = page.rest;
            }
            begun.sort_by_key(|(_, run)| *run);
            begun.append(&mut in_line);
            Ok(begun)
        })
        .await
    }

    pub(crate) async fn due_page(
        &self,
        now: Timestamp,
        from: DueFrom,
        limit: u32,
    ) -> Result<DuePage, StoreError> {
        let folder = self.folder().to_owned();
        self.read(move |db| page(db, now, from, limit, &folder)).await
    }
}

/// Lists due runs from a cursor on, for one reason after the other, until there are enough.
fn page(
    db: &Connection,
    now: Timestamp,
    DueFrom(mut source): DueFrom,
    limit: u32,
    folder: &Path,
) -> Result<DuePage, StoreError> {
    let mut runs: Vec<Due> = Vec::new();
    loop {
        let room = limit.saturating_sub(runs.len() as u32);
        let listed = match source {
            Source::LetGo(after) => listed(db, LET_GO, &[&Uuid16(after.0), &room])?,
            Source::Asleep(at, after) => listed(db, ASLEEP, &[&now.0, &at, &Uuid16(after.0), &room])?,
            Source::Orphaned(after) => orphaned(db, after, room, folder)?,
            Source::InLine(after) => listed(db, IN_LINE, &[&after, &room])?,
        };
        let is_queued = matches!(source, Source::InLine(_));
        runs.extend(listed.due.into_iter().map(|due| Due { is_queued, ..due }));
        if let Some(rest) = source.after(listed.last.filter(|_| listed.rows >= room)) {
            return Ok(DuePage { runs, rest: Some(DueFrom(rest)) });
        }
        let Some(next) = source.next() else { return Ok(DuePage { runs, rest: None }) };
        source = next;
    }
}

/// Due runs of one reason.
struct Listed {
    due: Vec<Due>,
    /// How many rows were read: more than there are runs, if one cannot be read.
    rows: u32,
    /// The moment and the run of the last row.
    last: Option<(i64, RunId)>,
}

fn listed(db: &Connection, sql: &str, values: &[&dyn ToSql]) -> Result<Listed, StoreError> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(values)?;
    let mut listed = Listed { due: Vec::new(), rows: 0, last: None };
    while let Some(row) = rows.next()? {
        listed.last = Some((row.get(5)?, RunId(row.get::<_, Uuid16>(1)?.0)));
        listed.rows += 1;
        listed.due.extend(read::listed(due(row))?);
    }
    Ok(listed)
}

fn due(row: &Row<'_>) -> Result<Due, StoreError> {
    Ok(Due {
        tenant: read::name("tenant", row.get(0)?)?,
        run: RunId(row.get::<_, Uuid16>(1)?.0),
        attempts: row.get(2)?,
        inbox: row.get(3)?,
        definition: row.get(4)?,
        is_queued: false,
    })
}

/// Runs of dead owners after a run, in the order of runs.
fn orphaned(db: &Connection, after: RunId, room: u32, folder: &Path) -> Result<Listed, StoreError> {
    let mut all = Listed { due: Vec::new(), rows: 0, last: None };
    let mut holder = Uuid::nil();
    loop {
        let next: Option<Uuid16> =
            db.prepare_cached(NEXT_HOLDER)?.query_row([Uuid16(holder)], |row| row.get(0)).optional()?;
        let Some(Uuid16(next)) = next else { break };
        holder = next;
        if live::is_alive(folder, OwnerId(holder)) {
            continue;
        }
        let held = listed(db, HELD, &[&Uuid16(holder), &Uuid16(after.0), &room])?;
        all.due.extend(held.due);
        if held.rows >= room {
            // This owner may have more runs beyond the last one, so runs of other owners beyond it have to wait.
            all.rows = room;
            all.last = all.last.into_iter().chain(held.last).min_by_key(|(_, run)| *run);
        }
    }
    if let Some((_, last)) = all.last {
        all.due.retain(|due| due.run <= last);
    }
    all.due.sort_by_key(|due| due.run);
    Ok(all)
}

/// Whether a run can be read, so that it can be driven.
fn is_readable(db: &Connection, due: &Due) -> bool {
    let Ok(row) = load(db, &due.tenant, due.run) else { return false };
    // Only for a suspended run does the last step decide whether it is due.
    row.status != RunStatus::Suspended
        || steps(db, STEPS, &due.tenant, due.run, row.step.saturating_sub(1).into(), 1)
            .is_ok_and(|found| !found.is_empty())
}
