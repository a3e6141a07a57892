//! The queue of runs whose tool calls are not in the audit trail yet, in PostgreSQL.
//!
//! Sealing the event of a suspended or ended run negates its number: rows of the outbox with a number below 0 are this
//! queue and nothing else. An event that is also to be sent stays where it is, and a copy is queued. A row is removed
//! from the queue by the write that records its calls, so of two processes at the same time one finds it gone.

use baton_core::id::{RunId, Tenant, ThreadId};
use baton_core::time::Timestamp;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::outbox::note_ours;
use super::row::{checksum, listed};
use super::tree::name;
use super::{Db, PgStore, keys};
use crate::error::StoreError;
use crate::failpoint;
use crate::service::{
    AuditEvent, CALLS_ROUTE, DerivedCalls, NewKey, RESTED, RestedPage, RestedRun, rests, run_of,
};

/// The oldest events of the queue.
pub(super) const QUEUE: &str =
    "SELECT n, tenant, kind, payload, crc FROM outbox WHERE n < 0 ORDER BY n DESC LIMIT $1";
/// The data of their runs, in the order of the list.
pub(super) const RUNS: &str = "SELECT r.definition, EXISTS (
        SELECT 1 FROM approvals a WHERE a.tenant = x.tenant AND a.run = x.run AND a.status = 'edited'),
      k.body_hash::int
    FROM unnest($1::text[], $2::uuid[], $3::text[]) WITH ORDINALITY x(tenant, run, key, place)
      LEFT JOIN runs r ON r.tenant = x.tenant AND r.run = x.run
      LEFT JOIN keys k ON k.tenant = x.tenant AND k.route = $4 AND k.key = x.key
    ORDER BY x.place";

impl PgStore {
    pub(crate) async fn tell(&self, tenant: &Tenant, event: AuditEvent) -> Result<(), StoreError> {
        let tenant = tenant.clone();
        self.write(move |db| Box::pin(async move { note_ours(db, &tenant, Some(&event)).await })).await
    }

    pub(crate) async fn rested_runs(&self, limit: u32) -> Result<RestedPage, StoreError> {
        let mut page = RestedPage::default();
        for row in self.rows(QUEUE, &[&i64::from(limit)]).await? {
            let (n, kind): (i64, &str) = (row.try_get(0)?, row.try_get(2)?);
            page.numbers.push(n);
            let whose = || {
                let run = run_of(n, row.try_get(3)?, checksum(&row, 4)?)?;
                let tenant = name("tenant", row.try_get(1)?)?;
                let (definition, has_ended) = (None, rests(kind) == Some(true));
                Ok(RestedRun { tenant, run, has_ended, definition, was_edited: false, after: 0 })
            };
            page.runs.extend(listed(whose())?);
        }
        let tenants: Vec<&str> = page.runs.iter().map(|run| run.tenant.as_str()).collect();
        let runs: Vec<Uuid> = page.runs.iter().map(|run| run.run.0).collect();
        let keys: Vec<String> = page.runs.iter().map(|run| run.run.to_string()).collect();
        let known = self.rows(RUNS, &[&tenants, &runs, &keys, &CALLS_ROUTE]).await?;
        for (run, row) in page.runs.iter_mut().zip(&known) {
            (run.definition, run.was_edited) = (row.try_get(0)?, row.try_get(1)?);
            run.after =
                u32::try_from(row.try_get::<_, Option<i32>>(2)?.unwrap_or_default()).unwrap_or_default();
        }
        Ok(page)
    }

    pub(crate) async fn add_calls(
        &self,
        page: &RestedPage,
        derived: DerivedCalls,
    ) -> Result<bool, StoreError> {
        let numbers = page.numbers.clone();
        self.write(move |db| Box::pin(async move { add(db, &numbers, derived).await })).await
    }
}

async fn add(db: &Db<'_>, numbers: &[i64], derived: DerivedCalls) -> Result<bool, StoreError> {
    let statement = db.prepare_cached("SELECT n FROM outbox WHERE n = ANY($1) FOR UPDATE").await?;
    if numbers.is_empty() || db.query(&statement, &[&numbers]).await?.len() < numbers.len() {
        return Ok(false);
    }
    for (tenant, event) in &derived.events {
        note_ours(db, tenant, Some(event)).await?;
    }
    for (tenant, run, step) in derived.told {
        note_told(db, &tenant, run, step).await?;
    }
    failpoint::point("calls.mid");
    db.execute(&db.prepare_cached("DELETE FROM outbox WHERE n = ANY($1)").await?, &[&numbers]).await?;
    Ok(true)
}

/// Stores the step up to which the calls of a run are in the trail, until it has ended.
async fn note_told(db: &Db<'_>, tenant: &Tenant, run: RunId, step: Option<u32>) -> Result<(), StoreError> {
    let (route, key) = (CALLS_ROUTE.to_owned(), run.to_string());
    let sql = "DELETE FROM keys WHERE tenant = $1 AND route = $2 AND key = $3";
    db.execute(&db.prepare_cached(sql).await?, &[&tenant.as_str(), &route, &key]).await?;
    if let Some(step) = step {
        let new = NewKey { route, key, body_hash: step.to_string(), expires_at: Timestamp(i64::MAX) };
        keys::take(db, tenant, &new, (None, None), Timestamp(0)).await?;
    }
    Ok(())
}

/// Queues copies of those just sealed events that suspended or ended a run and are still to be sent.
pub(super) async fn queue_copies(db: &Db<'_>, sealed: &[i64]) -> Result<(), StoreError> {
    let sql = format!(
        "INSERT INTO outbox(n, tenant, correlation, at, kind, source, payload, crc, send, sealed, external)
         SELECT -n, tenant, correlation, at, kind, source, payload, crc, false, true, false
         FROM outbox WHERE n = ANY($1) AND send AND {RESTED}"
    );
    db.execute(&db.prepare_cached(&sql).await?, &[&sealed]).await?;
    Ok(())
}

/// Suspended and ended runs whose calls are not in the trail yet, even if their event is not in the chain yet. There
/// are few of them, because the others were removed from the queue.
pub(super) async fn untold(db: &Db<'_>) -> Result<Vec<(Tenant, RunId)>, StoreError> {
    let of = |rows: &str| format!("SELECT n, tenant, payload, crc FROM outbox WHERE {rows} AND {RESTED}");
    let sql = format!("{} UNION ALL {}", of("n < 0"), of("NOT sealed"));
    let mut out = Vec::new();
    for row in db.query(&db.prepare_cached(&sql).await?, &[]).await? {
        let whose = || {
            let run = run_of(row.try_get(0)?, row.try_get(2)?, checksum(&row, 3)?)?;
            Ok((name("tenant", row.try_get(1)?)?, run))
        };
        out.extend(listed(whose())?);
    }
    Ok(out)
}

/// Whether one of those runs is on a thread.
pub(super) async fn has_untold(db: &Db<'_>, tenant: &Tenant, thread: &ThreadId) -> Result<bool, StoreError> {
    let untold = untold(db).await?;
    let runs: Vec<Uuid> = untold.into_iter().filter(|(of, _)| of == tenant).map(|(_, run)| run.0).collect();
    let sql = "SELECT 1 FROM runs WHERE tenant = $1 AND run = ANY($2) AND thread = $3 LIMIT 1";
    let values: [&(dyn ToSql + Sync); 3] = [&tenant.as_str(), &runs, &thread.as_str()];
    Ok(db.query_opt(&db.prepare_cached(sql).await?, &values).await?.is_some())
}
