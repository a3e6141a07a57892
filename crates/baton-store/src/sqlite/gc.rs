//! Garbage collection in SQLite: a reader finds candidates, and small writes remove them.
//!
//! Each write removes one thread, or few rows, and checks again that they may go: rows that became active or were
//! touched since they were seen stay. So a large collection never holds up other writers for long, and one that is cut
//! off has removed whole things only.

mod blobs;

use std::collections::HashSet;

use baton_core::id::{RunId, Tenant, ThreadId};
use baton_core::time::Timestamp;
use rusqlite::{Connection, Params};

use super::outbox::{self, SqliteEvent};
use super::read::{self, Uuid16};
use super::threads::remove_thread;
use super::{SqliteStore, calls};
use crate::error::StoreError;
use crate::service::{Collected, GcRequest, TrailSource};

/// How many rows one write removes, and one read looks at.
const PAGE: usize = 500;
/// How many runs one write removes: each has steps of its own.
const RUNS: usize = 50;
/// The condition that a thread has no unfinished run, queued ones included.
const IDLE: &str = "NOT EXISTS (SELECT 1 FROM runs r
                      WHERE r.tenant = threads.tenant AND r.thread = threads.thread AND r.status < 3)";

/// Definitions that no run names.
const UNNAMED: &str = "FROM definitions WHERE NOT EXISTS (
      SELECT 1 FROM runs r WHERE r.definition = definitions.hash AND r.tenant = definitions.tenant)";

/// The threads and runs that a dry run would remove: its later counts skip them, so that nothing is counted twice, and
/// nothing counts as kept because of them.
#[derive(Debug, Default)]
struct SqliteDryRunRemovals {
    threads: HashSet<(Tenant, ThreadId)>,
    runs: HashSet<(Tenant, RunId)>,
}

impl SqliteStore {
    pub(crate) async fn collect(
        &self,
        request: &GcRequest,
        trail: Option<&TrailSource>,
    ) -> Result<Collected, StoreError> {
        let (now, dry) = (request.now, request.dry_run);
        let mut doomed = SqliteDryRunRemovals::default();
        let old = self.read(move |db| old_threads(db, now)).await?;
        let threads = if dry {
            let count = old.len() as u64;
            doomed = self.read(move |db| with_runs(db, old)).await?;
            count
        } else {
            self.drop_threads(old, now, trail).await?
        };
        let runs = match request.runs_before {
            Some(before) => self.drop_runs(&mut doomed, before, (dry, trail.is_some())).await?,
            None => 0,
        };
        // Blobs come last: finding those that are not named takes longest, and a collection has a time limit.
        if !dry {
            self.drop_definitions().await?;
        }
        let keys = self.drop_keys(now, dry).await?;
        let (blobs, blob_bytes) = match request.blobs_before {
            Some(before) => self.drop_blobs(doomed, before, dry).await?,
            None => (0, 0),
        };
        Ok(Collected { threads, runs, blobs, blob_bytes, keys })
    }

    async fn drop_threads(
        &self,
        old: HashSet<(Tenant, ThreadId)>,
        now: Timestamp,
        trail: Option<&TrailSource>,
    ) -> Result<u64, StoreError> {
        let mut count = 0;
        for (tenant, thread) in old {
            let told = SqliteEvent::all(trail.map(|trail| trail.thread_deleted(now, &thread)))?;
            let removed = self.write(move |db| {
                let sql = format!(
                    "SELECT 1 FROM threads WHERE tenant = ?1 AND thread = ?2 AND ttl_at <= ?3 AND {IDLE}"
                );
                let goes = db.prepare_cached(&sql)?.exists((tenant.as_str(), thread.as_str(), now.0))?
                    && (told.is_empty() || !calls::has_untold(db, &tenant, &thread)?);
                if goes {
                    remove_thread(db, &tenant, &thread)?;
                    outbox::note_all(db, &tenant, &told)?;
                }
                Ok(goes)
            });
            count += u64::from(removed.await?);
        }
        Ok(count)
    }

    /// Removes runs that ended before a moment. A run that has ended never begins again. With `is_told`, runs whose
    /// tool calls are not in the audit trail yet stay.
    async fn drop_runs(
        &self,
        doomed: &mut SqliteDryRunRemovals,
        before: Timestamp,
        (dry, is_told): (bool, bool),
    ) -> Result<u64, StoreError> {
        let (mut count, mut from) = (0, 0);
        loop {
            let (last, page) = self.read(move |db| ended_runs(db, before, from)).await?;
            let Some(last) = last else { return Ok(count) };
            from = last;
            let page: Vec<_> = page.into_iter().filter(|run| !doomed.runs.contains(run)).collect();
            if dry {
                count += page.len() as u64;
                doomed.runs.extend(page);
            } else {
                count += self.write(move |db| remove_runs(db, page, is_told)).await?;
            }
        }
    }

    /// Removes definitions that no run names. Each write checks again: a run may have begun with one meanwhile.
    async fn drop_definitions(&self) -> Result<(), StoreError> {
        let sql = format!("SELECT tenant, hash {UNNAMED}");
        let unnamed = self.read(move |db| pairs(db, &sql, [])).await?;
        let unnamed: Vec<_> = unnamed.into_iter().collect();
        for page in unnamed.chunks(PAGE).map(<[_]>::to_vec) {
            self.write(move |db| {
                let sql = format!("DELETE {UNNAMED} AND tenant = ?1 AND hash = ?2");
                let mut statement = db.prepare_cached(&sql)?;
                for definition in page {
                    statement.execute(definition)?;
                }
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn drop_keys(&self, now: Timestamp, dry: bool) -> Result<u64, StoreError> {
        if dry {
            let sql = "SELECT count(*) FROM keys WHERE expires_at <= ?1";
            let count = self.read(move |db| Ok(db.query_row(sql, [now.0], |row| row.get::<_, i64>(0))?));
            return Ok(count.await? as u64);
        }
        let sql = "DELETE FROM keys WHERE rowid IN (SELECT rowid FROM keys WHERE expires_at <= ?1 LIMIT ?2)";
        let mut count = 0;
        loop {
            let removed = self.write(move |db| Ok(db.prepare_cached(sql)?.execute((now.0, PAGE as i64))?));
            let removed = removed.await?;
            count += removed as u64;
            if removed < PAGE {
                return Ok(count);
            }
        }
    }
}

fn old_threads(db: &Connection, now: Timestamp) -> Result<HashSet<(Tenant, ThreadId)>, StoreError> {
    let sql = format!("SELECT tenant, thread FROM threads WHERE ttl_at <= ?1 AND {IDLE}");
    let mut out = HashSet::new();
    for (tenant, thread) in pairs(db, &sql, [now.0])? {
        let id = || Ok((read::name("tenant", tenant)?, read::name("thread", thread)?));
        out.extend(read::listed(id())?);
    }
    Ok(out)
}

/// Threads that would be removed, with the runs that would go with them.
fn with_runs(
    db: &Connection,
    threads: HashSet<(Tenant, ThreadId)>,
) -> Result<SqliteDryRunRemovals, StoreError> {
    let mut runs = HashSet::new();
    let mut statement = db.prepare_cached("SELECT run FROM runs WHERE tenant = ?1 AND thread = ?2")?;
    for (tenant, thread) in &threads {
        let mut rows = statement.query((tenant.as_str(), thread.as_str()))?;
        while let Some(row) = rows.next()? {
            runs.insert((tenant.clone(), RunId(row.get::<_, Uuid16>(0)?.0)));
        }
    }
    Ok(SqliteDryRunRemovals { threads, runs })
}

/// The position of a page's last row, and the runs of the page.
type RunPage = (Option<i64>, Vec<(Tenant, RunId)>);

/// A page of runs that ended before a moment. Runs have numbers in the order in which they were stored, so the search
/// stops after a page of runs that began too late to have ended before it.
fn ended_runs(db: &Connection, before: Timestamp, from: i64) -> Result<RunPage, StoreError> {
    let sql =
        "SELECT n, tenant, run, created < ?2, status >= 3 AND ended < ?2 FROM runs WHERE n > ?1 ORDER BY n";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query((from, before.0))?;
    let (mut last, mut page, mut too_late) = (None, Vec::new(), 0);
    while page.len() < RUNS && too_late < PAGE {
        let Some(row) = rows.next()? else { break };
        too_late = if row.get(3)? { 0 } else { too_late + 1 };
        if row.get::<_, Option<bool>>(4)? == Some(true) {
            last = Some(row.get(0)?);
            let run = RunId(row.get::<_, Uuid16>(2)?.0);
            page.extend(read::listed(read::name("tenant", row.get(1)?))?.map(|tenant| (tenant, run)));
        }
    }
    Ok((last, page))
}

/// Removes runs; returns how many.
fn remove_runs(db: &Connection, mut runs: Vec<(Tenant, RunId)>, is_told: bool) -> Result<u64, StoreError> {
    if is_told {
        let untold: HashSet<_> = calls::untold(db)?.into_iter().collect();
        runs.retain(|run| !untold.contains(run));
    }
    let of_run = "tenant = ?1 AND run = ?2";
    for (table, of_run) in [
        ("steps", "run = (SELECT n FROM runs WHERE tenant = ?1 AND run = ?2)"),
        ("claims", of_run),
        ("inbox", of_run),
        ("approvals", of_run),
        ("runs", of_run),
    ] {
        let sql = format!("DELETE FROM {table} WHERE {of_run}");
        let mut statement = db.prepare_cached(&sql)?;
        for (tenant, run) in &runs {
            statement.execute((tenant.as_str(), Uuid16(run.0)))?;
        }
    }
    Ok(runs.len() as u64)
}

fn pairs(db: &Connection, sql: &str, values: impl Params) -> Result<HashSet<(String, String)>, StoreError> {
    let mut statement = db.prepare_cached(sql)?;
    let rows = statement.query_map(values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}
