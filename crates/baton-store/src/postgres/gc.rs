//! Garbage collection in PostgreSQL: reads find candidates, and small transactions remove them.
//!
//! Each transaction removes one thread, or few rows, and checks again that they may go: rows that became active or were
//! touched since they were seen stay. A collection that is cut off has removed whole things only.

mod blobs;

use std::collections::HashSet;

use baton_core::id::{RunId, Tenant, ThreadId};
use baton_core::time::Timestamp;
use uuid::Uuid;

use super::row::listed;
use super::threads::remove_thread;
use super::tree::{self, name};
use super::{Db, PgStore, calls, outbox};
use crate::error::StoreError;
use crate::service::{AuditEvent, Collected, GcRequest, TrailSource};

/// How many rows one transaction removes, and one read looks at.
const PAGE: i64 = 500;
/// How many runs one transaction removes: each has steps of its own.
const RUNS: i64 = 50;

/// Threads past their time to live that have no unfinished run, queued ones included.
const OLD: &str = "SELECT tenant, thread FROM threads t WHERE ttl_at <= $1 AND NOT EXISTS (
      SELECT 1 FROM runs r WHERE r.tenant = t.tenant AND r.thread = t.thread AND r.status < 3)";
/// Whether a thread is one of those.
const IS_OLD: &str =
    "SELECT 1 FROM threads t WHERE tenant = $1 AND thread = $2 AND ttl_at <= $3 AND NOT EXISTS (
      SELECT 1 FROM runs r WHERE r.tenant = t.tenant AND r.thread = t.thread AND r.status < 3)";
/// Runs that ended before a moment, after a cursor.
const ENDED: &str =
    "SELECT ended, tenant, run FROM runs WHERE ended < $1 AND (ended, tenant, run) > ($2, $3, $4)
    ORDER BY ended, tenant, run LIMIT $5";

/// Definitions that no run names.
const UNNAMED: &str = "SELECT tenant, hash FROM definitions d WHERE NOT EXISTS (
      SELECT 1 FROM runs r WHERE r.tenant = d.tenant AND r.definition = d.hash)";

/// The threads and runs that a dry run would remove: its later counts skip them, so that nothing is counted twice, and
/// nothing counts as kept because of them.
#[derive(Debug, Default)]
struct PgDryRunRemovals {
    threads: HashSet<(Tenant, ThreadId)>,
    runs: HashSet<(Tenant, RunId)>,
}

impl PgStore {
    pub(crate) async fn collect(
        &self,
        request: &GcRequest,
        trail: Option<&TrailSource>,
    ) -> Result<Collected, StoreError> {
        self.at_leisure().clear(request, trail).await
    }

    async fn clear(&self, request: &GcRequest, trail: Option<&TrailSource>) -> Result<Collected, StoreError> {
        let (now, dry) = (request.now, request.dry_run);
        let mut doomed = PgDryRunRemovals::default();
        let old = self.old_threads(now).await?;
        let threads = if dry {
            let count = old.len() as u64;
            doomed = self.with_runs(old).await?;
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

    async fn old_threads(&self, now: Timestamp) -> Result<HashSet<(Tenant, ThreadId)>, StoreError> {
        let mut out = HashSet::new();
        for row in self.rows(OLD, &[&now.0]).await? {
            let id = || Ok((name("tenant", row.try_get(0)?)?, name("thread", row.try_get(1)?)?));
            out.extend(listed(id())?);
        }
        Ok(out)
    }

    /// Threads that would be removed, with the runs that would go with them.
    async fn with_runs(&self, threads: HashSet<(Tenant, ThreadId)>) -> Result<PgDryRunRemovals, StoreError> {
        let mut runs = HashSet::new();
        for (tenant, thread) in &threads {
            let sql = "SELECT run FROM runs WHERE tenant = $1 AND thread = $2";
            for row in self.rows(sql, &[&tenant.as_str(), &thread.as_str()]).await? {
                runs.insert((tenant.clone(), RunId(row.try_get(0)?)));
            }
        }
        Ok(PgDryRunRemovals { threads, runs })
    }

    async fn drop_threads(
        &self,
        old: HashSet<(Tenant, ThreadId)>,
        now: Timestamp,
        trail: Option<&TrailSource>,
    ) -> Result<u64, StoreError> {
        let mut count = 0;
        for (tenant, thread) in old {
            let told = trail.map(|trail| trail.thread_deleted(now, &thread));
            let removed = self
                .write(move |db| Box::pin(async move { drop_thread(db, &tenant, &thread, now, told).await }));
            count += u64::from(removed.await?);
        }
        Ok(count)
    }

    /// Removes runs that ended before a moment. A run that has ended never begins again. With `is_told`, runs whose
    /// tool calls are not in the audit trail yet stay.
    async fn drop_runs(
        &self,
        doomed: &mut PgDryRunRemovals,
        before: Timestamp,
        (dry, is_told): (bool, bool),
    ) -> Result<u64, StoreError> {
        let (mut count, mut from) = (0, (i64::MIN, String::new(), Uuid::nil()));
        loop {
            let rows = self.rows(ENDED, &[&before.0, &from.0, &from.1, &from.2, &RUNS]).await?;
            let Some(last) = rows.last() else { return Ok(count) };
            from = (last.try_get(0)?, last.try_get(1)?, last.try_get(2)?);
            let mut page = Vec::new();
            for row in &rows {
                let run = RunId(row.try_get(2)?);
                page.extend(listed(name("tenant", row.try_get(1)?))?.map(|tenant| (tenant, run)));
            }
            page.retain(|run| !doomed.runs.contains(run));
            if dry {
                count += page.len() as u64;
                doomed.runs.extend(page);
            } else {
                let removed =
                    self.write(move |db| Box::pin(async move { remove_runs(db, page, is_told).await }));
                count += removed.await?;
            }
        }
    }

    /// Removes definitions that no run names.
    async fn drop_definitions(&self) -> Result<(), StoreError> {
        let mut unnamed: Vec<(String, String)> = Vec::new();
        for row in self.rows(UNNAMED, &[]).await? {
            unnamed.push((row.try_get(0)?, row.try_get(1)?));
        }
        for page in unnamed.chunks(PAGE as usize).map(<[_]>::to_vec) {
            self.write(move |db| Box::pin(async move { remove_definitions(db, page).await })).await?;
        }
        Ok(())
    }

    async fn drop_keys(&self, now: Timestamp, dry: bool) -> Result<u64, StoreError> {
        if dry {
            let row = self.one("SELECT count(*) FROM keys WHERE expires_at <= $1", &[&now.0]).await?;
            return row.map_or(Ok(0), |row| Ok(row.try_get::<_, i64>(0)? as u64));
        }
        let mut count = 0;
        loop {
            let removed = self.write(move |db| {
                Box::pin(async move {
                    let sql = "DELETE FROM keys WHERE expires_at <= $1 AND (tenant, route, key) IN (
                                 SELECT tenant, route, key FROM keys WHERE expires_at <= $1 LIMIT $2)";
                    Ok(db.execute(&db.prepare_cached(sql).await?, &[&now.0, &PAGE]).await?)
                })
            });
            let removed = removed.await?;
            count += removed;
            if removed == 0 {
                return Ok(count);
            }
        }
    }
}

/// Removes a thread, if it still may go; returns whether it did. `told` is the event that records it in the audit
/// trail.
async fn drop_thread(
    db: &Db<'_>,
    tenant: &Tenant,
    thread: &ThreadId,
    now: Timestamp,
    told: Option<AuditEvent>,
) -> Result<bool, StoreError> {
    // The lock keeps runs from beginning on it.
    match tree::load(db, tenant, thread, true).await {
        Err(StoreError::NotFound { .. }) => return Ok(false),
        loaded => loaded?,
    };
    let statement = db.prepare_cached(IS_OLD).await?;
    let goes = db.query_opt(&statement, &[&tenant.as_str(), &thread.as_str(), &now.0]).await?.is_some();
    if !goes || (told.is_some() && calls::has_untold(db, tenant, thread).await?) {
        return Ok(false);
    }
    remove_thread(db, tenant, thread).await?;
    outbox::note_ours(db, tenant, told.as_ref()).await?;
    Ok(true)
}

/// Removes those definitions that still no run names. A run that begins locks its definition, so the rows are locked
/// first, and only then runs that name them are looked for.
async fn remove_definitions(db: &Db<'_>, page: Vec<(String, String)>) -> Result<(), StoreError> {
    let (tenants, hashes): (Vec<String>, Vec<String>) = page.into_iter().unzip();
    let sql = "SELECT 1 FROM definitions d JOIN unnest($1::text[], $2::text[]) x(tenant, hash)
               ON d.tenant = x.tenant AND d.hash = x.hash FOR UPDATE OF d";
    db.query(&db.prepare_cached(sql).await?, &[&tenants, &hashes]).await?;
    let sql = "DELETE FROM definitions d USING unnest($1::text[], $2::text[]) x(tenant, hash)
               WHERE d.tenant = x.tenant AND d.hash = x.hash AND NOT EXISTS (
                 SELECT 1 FROM runs r WHERE r.tenant = d.tenant AND r.definition = d.hash)";
    db.execute(&db.prepare_cached(sql).await?, &[&tenants, &hashes]).await?;
    Ok(())
}

/// Removes runs; returns how many.
async fn remove_runs(db: &Db<'_>, mut runs: Vec<(Tenant, RunId)>, is_told: bool) -> Result<u64, StoreError> {
    if is_told {
        let untold: HashSet<_> = calls::untold(db).await?.into_iter().collect();
        runs.retain(|run| !untold.contains(run));
    }
    let tenants: Vec<&str> = runs.iter().map(|(tenant, _)| tenant.as_str()).collect();
    let ids: Vec<Uuid> = runs.iter().map(|(_, run)| run.0).collect();
    for table in ["steps", "claims", "inbox", "approvals", "runs"] {
        let sql = format!(
            "DELETE FROM {table} USING unnest($1::text[], $2::uuid[]) x(tenant, run)
             WHERE {table}.tenant = x.tenant AND {table}.run = x.run"
        );
        db.execute(&db.prepare_cached(&sql).await?, &[&tenants, &ids]).await?;
    }
    Ok(runs.len() as u64)
}
