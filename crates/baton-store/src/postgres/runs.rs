//! Reads of runs in PostgreSQL.

use baton_core::id::{OwnerId, RunId, Tenant, ThreadId};
use baton_core::run::{Definition, RunStatus};
use baton_core::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::PgStore;
use super::group::Work;
use super::row::{RUN, budget, checksum, listed, number, run_row, select_run, status, stored};
use super::statement::Form;
use super::tree::name;
use crate::error::StoreError;
use crate::record;
use crate::service::Head;
use crate::transition::CHECKPOINT_VERSION;
use crate::view::{ClaimRow, Pulse, RunFilter, RunRow, StepRow, ThreadUsage};

/// A page of runs, newest first. The status is part of the text, because only then an index of some statuses is used.
pub(super) fn listing(status: Option<RunStatus>, on_thread: bool) -> String {
    let wanted = match status {
        Some(RunStatus::Running) => format!("AND {RUNNING}"),
        Some(status) => format!("AND status = {}", stored(status)),
        None => String::new(),
    };
    let thread = if on_thread { "AND thread = $4" } else { "" };
    format!("{LISTED} WHERE tenant = $1 AND run < $2 {wanted} {thread} ORDER BY run DESC LIMIT $3")
}
const LISTED: &str = select_run!("");
/// Runs that have an owner, and runs that wait for one: each kind has an index.
const RUNNING: &str = "run = ANY(ARRAY(
      SELECT run FROM runs WHERE owner IS NOT NULL AND status = 1
      UNION ALL SELECT run FROM runs WHERE owner IS NULL AND status = 1)) AND status = 1";
/// The usage of a thread's runs; one row of nulls if the thread exists and has none.
pub(super) const USAGE: &str = "SELECT r.run, r.budget FROM threads t
    LEFT JOIN runs r ON r.tenant = t.tenant AND r.thread = t.thread WHERE t.tenant = $1 AND t.thread = $2";
/// Transitions of a run after a step; one row of nulls if the run exists and has none.
pub(super) const STEPS: &str = "SELECT s.* FROM runs r LEFT JOIN LATERAL (
      SELECT step, epoch, frame, first_seq, last_seq, body, crc FROM steps
      WHERE tenant = r.tenant AND run = r.run AND step > $3 ORDER BY step LIMIT $4) s ON true
    WHERE r.tenant = $1 AND r.run = $2 ORDER BY s.step";
/// Transitions of a run from the one with this event number on, like [`STEPS`]. Numbers grow with steps, so the last
/// step before it is found by halving, however long the run is.
pub(super) const STEPS_WITH: &str = "WITH RECURSIVE h(below, above) AS (
      SELECT 0, step + 1 FROM runs WHERE tenant = $1 AND run = $2
      UNION ALL
      SELECT CASE WHEN m.is_before THEN (h.below + h.above) / 2 ELSE h.below END,
        CASE WHEN m.is_before THEN h.above ELSE (h.below + h.above) / 2 END
      FROM h CROSS JOIN LATERAL (SELECT coalesce((
          SELECT last_seq FROM steps WHERE tenant = $1 AND run = $2 AND step >= (h.below + h.above) / 2
          ORDER BY step LIMIT 1) < $3, false) AS is_before) m
      WHERE h.above - h.below > 1)
    SELECT s.* FROM runs r LEFT JOIN LATERAL (
      SELECT step, epoch, frame, first_seq, last_seq, body, crc FROM steps
      WHERE tenant = r.tenant AND run = r.run AND step > (SELECT max(below) FROM h) ORDER BY step LIMIT $4) s ON true
    WHERE r.tenant = $1 AND r.run = $2 ORDER BY s.step";
/// Claims after the first; one row without a claim if the run exists and has none.
pub(super) const CLAIMS: &str = "SELECT r.step, c.epoch, c.base_seq FROM runs r
    LEFT JOIN claims c ON c.tenant = r.tenant AND c.run = r.run WHERE r.tenant = $1 AND r.run = $2
    ORDER BY c.epoch";
/// A definition by its hash.
pub(super) const DEFINITION: &str = "SELECT body, crc FROM definitions WHERE tenant = $1 AND hash = $2";
/// Runs of an owner.
pub(super) const PULSES: &str = "SELECT run, inbox, watched_until FROM runs WHERE owner = $1";
/// Like [`PULSES`], but only runs that ever got a message or a watcher.
pub(super) const NEWS: &str = "SELECT run, inbox, watched_until FROM runs
    WHERE owner = $1 AND (inbox > 0 OR watched_until IS NOT NULL)";
/// Notes that many runs are watched. Rows are locked in the order of runs, as in every group of writes.
pub(super) const WATCH_ALL: &str = "WITH l AS (
      SELECT r.tenant, r.run FROM unnest($1::text[], $2::uuid[]) x(tenant, run)
      JOIN runs r ON r.tenant = x.tenant AND r.run = x.run ORDER BY r.run FOR NO KEY UPDATE OF r)
    UPDATE runs SET watched_until = $3 FROM l WHERE runs.tenant = l.tenant AND runs.run = l.run";
/// The progress of runs, in the order of the list.
pub(super) const HEADS: &str = "SELECT x.run, r.epoch, r.seq, r.status
    FROM unnest($1::text[], $2::uuid[]) WITH ORDINALITY x(tenant, run, n)
    CROSS JOIN LATERAL (
      SELECT epoch, seq, status FROM runs WHERE tenant = x.tenant AND run = x.run LIMIT 1) r ORDER BY x.n";

impl PgStore {
    pub(crate) async fn run(&self, tenant: &Tenant, run: RunId) -> Result<RunRow, StoreError> {
        let row = self.one(RUN, &[&tenant.as_str(), &run.0]).await?;
        run_row(&row.ok_or_else(|| StoreError::not_found("run", run))?)
    }

    pub(crate) async fn runs(&self, tenant: &Tenant, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
        let limit = filter.limit as usize;
        // A search for a part of an id reads many rows to find few.
        let page = if filter.fragment.is_some() { 1000 } else { i64::from(filter.limit).clamp(1, 1000) };
        let mut before = filter.after.map_or(Uuid::max(), |run| run.0);
        let (tenant, thread) = (tenant.as_str(), filter.thread.as_ref().map(ThreadId::as_str));
        let sql = listing(filter.status, thread.is_some());
        let mut out = Vec::new();
        while out.len() < limit {
            let mut values: Vec<&(dyn ToSql + Sync)> = vec![&tenant, &before, &page];
            values.extend(thread.as_ref().map(|thread| thread as &(dyn ToSql + Sync)));
            let rows = self.at_leisure().rows(&sql, &values).await?;
            for row in &rows {
                out.extend(listed(run_row(row))?.filter(|row| crate::runs::fits(row, filter)));
            }
            let Some(last) = rows.last().filter(|_| rows.len() as i64 == page) else { break };
            before = last.try_get(0)?;
        }
        out.truncate(limit);
        Ok(out)
    }

    pub(crate) async fn usage_of_thread(
        &self,
        tenant: &Tenant,
        thread: &ThreadId,
    ) -> Result<ThreadUsage, StoreError> {
        let rows = self.at_leisure().rows(USAGE, &[&tenant.as_str(), &thread.as_str()]).await?;
        if rows.is_empty() {
            return Err(StoreError::not_found("thread", thread));
        }
        let mut usage = ThreadUsage::default();
        for row in &rows {
            let Some(run) = row.try_get::<_, Option<Uuid>>(0)? else { continue };
            usage.extend(listed(budget(RunId(run), row, 1))?.as_ref());
        }
        Ok(usage)
    }

    pub(crate) async fn steps(
        &self,
        tenant: &Tenant,
        run: RunId,
        after: u32,
        limit: u32,
    ) -> Result<Vec<StepRow>, StoreError> {
        let after = i32::try_from(after).unwrap_or(i32::MAX);
        let rows = self.rows(STEPS, &[&tenant.as_str(), &run.0, &after, &i64::from(limit)]).await?;
        step_rows(run, &rows)
    }

    pub(crate) async fn steps_with(
        &self,
        tenant: &Tenant,
        run: RunId,
        seq: u64,
        limit: u32,
    ) -> Result<Vec<StepRow>, StoreError> {
        let seq = i64::try_from(seq).unwrap_or(i64::MAX);
        let rows =
            self.for_content().rows(STEPS_WITH, &[&tenant.as_str(), &run.0, &seq, &i64::from(limit)]).await?;
        step_rows(run, &rows)
    }

    pub(crate) async fn claims(&self, tenant: &Tenant, run: RunId) -> Result<Vec<ClaimRow>, StoreError> {
        let rows = self.rows(CLAIMS, &[&tenant.as_str(), &run.0]).await?;
        let first = rows.first().ok_or_else(|| StoreError::not_found("run", run))?;
        // The first claim is the start, which writes no row; a queued run has no claim yet.
        let mut out = Vec::new();
        if number(first, 0)? > 0 {
            out.push(ClaimRow { epoch: 1, base_seq: 0 });
        }
        for row in &rows {
            let Some(epoch) = row.try_get::<_, Option<i32>>(1)? else { continue };
            out.push(ClaimRow { epoch: epoch as u32, base_seq: row.try_get::<_, i64>(2)? as u64 });
        }
        Ok(out)
    }

    pub(crate) async fn definition(&self, tenant: &Tenant, hash: &str) -> Result<Definition, StoreError> {
        let row = self.one(DEFINITION, &[&tenant.as_str(), &hash]).await?;
        decoded_definition(hash, row.as_ref())
    }

    pub(crate) async fn pulses(&self, owner: OwnerId) -> Result<Vec<Pulse>, StoreError> {
        self.pulses_by(PULSES, owner).await
    }

    pub(crate) async fn news(&self, owner: OwnerId) -> Result<Vec<Pulse>, StoreError> {
        self.pulses_by(NEWS, owner).await
    }

    async fn pulses_by(&self, sql: &'static str, owner: OwnerId) -> Result<Vec<Pulse>, StoreError> {
        let pulse = |row: &Row| {
            let watched_until = row.try_get::<_, Option<i64>>(2)?.map(Timestamp);
            Ok(Pulse { run: RunId(row.try_get(0)?), inbox: number(row, 1)?, watched_until })
        };
        self.rows(sql, &[&owner.0]).await?.iter().map(pulse).collect()
    }

    pub(crate) async fn watch(
        &self,
        tenant: &Tenant,
        run: RunId,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        let values: Vec<super::Param<'static>> =
            vec![Box::new(tenant.as_str().to_owned()), Box::new(run.0), Box::new(until.0)];
        match self.shared.group.run(Work::Plain(Form::Watch, run, values)).await?.changed {
            0 => Err(StoreError::not_found("run", run)),
            _ => Ok(()),
        }
    }

    pub(crate) async fn watch_all(
        &self,
        runs: &[(Tenant, RunId)],
        until: Timestamp,
    ) -> Result<(), StoreError> {
        let tenants: Vec<String> = runs.iter().map(|(tenant, _)| tenant.to_string()).collect();
        let ids: Vec<Uuid> = runs.iter().map(|(_, run)| run.0).collect();
        self.write(move |db| {
            Box::pin(async move {
                let statement = db.prepare_cached(WATCH_ALL).await?;
                db.execute(&statement, &[&tenants, &ids, &until.0]).await?;
                Ok(())
            })
        })
        .await
    }

    pub(crate) async fn heads(&self, runs: &[(Tenant, RunId)]) -> Result<Vec<Head>, StoreError> {
        let tenants: Vec<&str> = runs.iter().map(|(tenant, _)| tenant.as_str()).collect();
        let ids: Vec<Uuid> = runs.iter().map(|(_, run)| run.0).collect();
        let head = |row: &Row| {
            let run = RunId(row.try_get(0)?);
            let seq = row.try_get::<_, i64>(2)? as u64;
            Ok(Head { run, epoch: number(row, 1)?, seq, status: status(run, row.try_get(3)?)? })
        };
        self.rows(HEADS, &[&tenants, &ids]).await?.iter().map(head).collect()
    }
}

/// Decodes the rows of [`STEPS`] and [`STEPS_WITH`].
fn step_rows(run: RunId, rows: &[Row]) -> Result<Vec<StepRow>, StoreError> {
    let first = rows.first().ok_or_else(|| StoreError::not_found("run", run))?;
    match first.try_get::<_, Option<i32>>(0)? {
        Some(_) => rows.iter().map(|row| step_row(run, row)).collect(),
        None => Ok(Vec::new()),
    }
}

pub(super) fn step_row(run: RunId, row: &Row) -> Result<StepRow, StoreError> {
    let step = number(row, 0)?;
    let (id, crc) = (format!("{run}#{step}"), checksum(row, 6)?);
    Ok(StepRow {
        step,
        epoch: number(row, 1)?,
        frame: name("frame", row.try_get(2)?)?,
        first_seq: row.try_get::<_, i64>(3)? as u64,
        last_seq: row.try_get::<_, i64>(4)? as u64,
        checkpoint: record::decode_known("step", id, row.try_get(5)?, crc, CHECKPOINT_VERSION)?,
    })
}

/// Decodes a row of [`DEFINITION`].
pub(super) fn decoded_definition(hash: &str, row: Option<&Row>) -> Result<Definition, StoreError> {
    let row = row.ok_or_else(|| StoreError::not_found("definition", hash))?;
    record::decode("definition", hash, row.try_get(0)?, checksum(row, 1)?)
}
