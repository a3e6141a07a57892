//! What somebody should drive, in SQLite.
//!
//! Asked again and again, so it looks at few columns of few rows: those of unfinished runs, by their index.
//! Each owner is looked for once, and a row is read whole only where it seems to be due.

use std::collections::HashMap;
use std::path::Path;

use baton_core::id::{OwnerId, RunId, Tenant};
use baton_core::time::Timestamp;
use rusqlite::{Connection, Row};

use super::read::{self, Uuid16};
use super::runs::{STEPS, load, steps};
use super::{SqliteStore, live};
use crate::error::StoreError;
use crate::runs::Glance;

impl SqliteStore {
    pub(crate) async fn due(&self, now: Timestamp) -> Result<Vec<(Tenant, RunId)>, StoreError> {
        let folder = self.folder().to_owned();
        self.read(move |db| {
            let mut out = abandoned(db, now, &folder)?;
            out.extend(next_in_line(db)?);
            Ok(out)
        })
        .await
    }
}

/// Runs that have begun, and that nobody living drives.
fn abandoned(db: &Connection, now: Timestamp, folder: &Path) -> Result<Vec<(Tenant, RunId)>, StoreError> {
    let sql = "SELECT tenant, run, status, owner, wake_at, inbox, step FROM runs INDEXED BY runs_unfinished
               WHERE status < 3 AND status > 0 ORDER BY run";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let mut living = HashMap::new();
    let mut alive = |owner: OwnerId| *living.entry(owner).or_insert_with(|| live::is_alive(folder, owner));
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        let Some((tenant, run, glance)) = read::listed(glance(row))? else { continue };
        let (inbox, step): (u32, u32) = (row.get(5)?, row.get(6)?);
        // Only a run with messages needs its last step read: how many it has applied stands there.
        let last = || steps(db, STEPS, &tenant, run, step.saturating_sub(1).into(), 1).ok()?.pop();
        let has_unread = || inbox > 0 && last().is_some_and(|last| inbox > last.checkpoint.inbox_read);
        // One that cannot be read harms no other.
        if glance.is_due(now, &mut alive, has_unread) && load(db, &tenant, run).is_ok() {
            out.push((tenant, run));
        }
    }
    Ok(out)
}

fn glance(row: &Row<'_>) -> Result<(Tenant, RunId, Glance), StoreError> {
    let run = RunId(row.get::<_, Uuid16>(1)?.0);
    let glance = Glance {
        status: read::status(run, row.get(2)?)?,
        owner: row.get::<_, Option<Uuid16>>(3)?.map(|id| OwnerId(id.0)),
        wake_at: row.get::<_, Option<i64>>(4)?.map(Timestamp),
    };
    Ok((read::name("tenant", row.get(0)?)?, run, glance))
}

/// The first run in line for each branch that nobody holds, in the order in which they came. One whose branch
/// was removed meanwhile is among them: whoever begins it finds out.
fn next_in_line(db: &Connection) -> Result<Vec<(Tenant, RunId)>, StoreError> {
    let sql = "SELECT q.tenant, q.run FROM queued q
               LEFT JOIN branches b ON b.tenant = q.tenant AND b.thread = q.thread AND b.branch = q.branch
               WHERE b.run IS NULL AND q.n = (SELECT min(n) FROM queued f
                 WHERE f.tenant = q.tenant AND f.thread = q.thread AND f.branch = q.branch)
               ORDER BY q.n";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        let run = RunId(row.get::<_, Uuid16>(1)?.0);
        out.extend(read::listed(read::name("tenant", row.get(0)?))?.map(|tenant| (tenant, run)));
    }
    Ok(out)
}
