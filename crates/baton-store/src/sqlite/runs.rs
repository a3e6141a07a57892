//! Runs in SQLite: commit, post, and the reads of runs.
//!
//! The statement that advances a run checks its epoch, its step and its inbox; all other rows are written only if it
//! changed a row. Values are encoded by the caller, not on the writer's thread.

use std::sync::Arc;

use baton_core::id::{OwnerId, RunId, Tenant, ThreadId};
use baton_core::run::{Definition, Message, RunStatus};
use baton_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use super::SqliteStore;
use super::advance::{SqliteTransition, advance};
use super::approvals::{load_approval, update_approval};
use super::outbox::{self, SqliteEvent};
use super::read::{self, RUN_COLUMNS, Uuid16, run_row};
use crate::error::StoreError;
use crate::record;
use crate::service::AuditEvent;
use crate::transition::{CHECKPOINT_VERSION, Transition};
use crate::view::{ClaimRow, Posted, Pulse, RunRow, StepRow, ThreadUsage};

/// Transitions of a run after a step.
pub(super) const STEPS: &str = "SELECT step, epoch, frame, first_seq, last_seq, body, crc FROM steps
    WHERE run = (SELECT n FROM runs WHERE tenant = ?1 AND run = ?2) AND step > ?3 ORDER BY step LIMIT ?4";
/// Transitions of a run from the one with this event number on. Numbers grow with steps, so the last step before it is
/// found by halving, however long the run is.
const STEPS_WITH: &str = "WITH RECURSIVE h(n, below, above, is_before) AS (
      SELECT n, 0, step + 1, NULL FROM runs WHERE tenant = ?1 AND run = ?2
      UNION ALL
      SELECT n, iif(is_before, (below + above) / 2, below), iif(is_before, above, (below + above) / 2), NULL
      FROM h WHERE is_before IS NOT NULL
      UNION ALL
      SELECT n, below, above, coalesce((
        SELECT last_seq FROM steps s WHERE s.run = h.n AND s.step >= (h.below + h.above) / 2
        ORDER BY s.step LIMIT 1) < ?3, 0)
      FROM h WHERE is_before IS NULL AND above - below > 1)
    SELECT step, epoch, frame, first_seq, last_seq, body, crc FROM steps
    WHERE run = (SELECT n FROM runs WHERE tenant = ?1 AND run = ?2) AND step > (SELECT max(below) FROM h)
    ORDER BY step LIMIT ?4";

impl SqliteStore {
    pub(crate) async fn definition(&self, tenant: &Tenant, hash: &str) -> Result<Definition, StoreError> {
        let (tenant, hash) = (tenant.clone(), hash.to_owned());
        self.read(move |db| load_definition(db, &tenant, &hash)).await
    }

    pub(crate) async fn commit(&self, tenant: &Tenant, transition: &Transition) -> Result<(), StoreError> {
        let tenant = tenant.clone();
        // The caller frees it, not the writer: memory that is freed on another thread than its own costs more.
        let packed = Arc::new(SqliteTransition::new(transition)?);
        let written = packed.clone();
        let done = self.write(move |db| advance(db, &tenant, &written)).await;
        drop(packed);
        done
    }

    pub(crate) async fn decide(
        &self,
        tenant: &Tenant,
        run: RunId,
        message: Message,
        by: Option<String>,
        at: Timestamp,
        audit: Option<AuditEvent>,
    ) -> Result<u32, StoreError> {
        let tenant = tenant.clone();
        let (body, crc) = record::encode(&message)?;
        let audit = SqliteEvent::all(audit)?;
        self.write(move |db| {
            let row = load(db, &tenant, run)?;
            let hash = crate::runs::input_hash(&message);
            if let Some(n) = posted(db, &tenant, run, hash.as_deref())? {
                return Ok(n);
            }
            if row.status.has_ended() {
                return Err(StoreError::Ended { run, status: row.status });
            }
            let kind = match &message {
                Message::Cancel => "cancel",
                Message::Input { .. } => "input",
                Message::Decision { approval_id, .. } => {
                    let mut approval = load_approval(db, &tenant, approval_id)?;
                    if approval.run_id != run {
                        return Err(StoreError::not_found("approval", approval_id));
                    }
                    crate::runs::decide(&mut approval, &message, by, at)?;
                    update_approval(db, &tenant, &approval)?;
                    "decision"
                }
            };
            let n = row.inbox + 1;
            let sql = "UPDATE runs SET inbox = ?3, due_at = CASE WHEN status = 2 THEN 0 ELSE due_at END
                       WHERE tenant = ?1 AND run = ?2";
            db.prepare_cached(sql)?.execute((tenant.as_str(), Uuid16(run.0), n))?;
            let sql = "INSERT INTO inbox(tenant, run, n, kind, at, body, crc, input_hash)
                       VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
            let row = (tenant.as_str(), Uuid16(run.0), n, kind, at.0, body, crc, hash);
            db.prepare_cached(sql)?.execute(row)?;
            outbox::note_all(db, &tenant, &audit)?;
            Ok(n)
        })
        .await
    }

    pub(crate) async fn inbox(
        &self,
        tenant: &Tenant,
        run: RunId,
        after: u32,
    ) -> Result<Vec<Posted>, StoreError> {
        let tenant = tenant.clone();
        self.read(move |db| {
            known(db, &tenant, run)?;
            let sql = "SELECT n, body, crc FROM inbox WHERE tenant = ?1 AND run = ?2 AND n > ?3 ORDER BY n";
            let mut statement = db.prepare_cached(sql)?;
            let mut rows = statement.query((tenant.as_str(), Uuid16(run.0), after))?;
            let mut out = Vec::new();
            while let Some(row) = rows.next()? {
                let (n, body, crc): (u32, Vec<u8>, u32) = (row.get(0)?, row.get(1)?, row.get(2)?);
                out.push(Posted { n, message: record::decode("message", format!("{run}#{n}"), &body, crc)? });
            }
            Ok(out)
        })
        .await
    }

    pub(crate) async fn run(&self, tenant: &Tenant, run: RunId) -> Result<RunRow, StoreError> {
        let tenant = tenant.clone();
        self.read(move |db| load(db, &tenant, run)).await
    }

    pub(crate) async fn usage_of_thread(
        &self,
        tenant: &Tenant,
        thread: &ThreadId,
    ) -> Result<ThreadUsage, StoreError> {
        let (tenant, thread) = (tenant.clone(), thread.clone());
        self.read(move |db| {
            let key = (tenant.as_str(), thread.as_str());
            let sql = "SELECT 1 FROM threads WHERE tenant = ?1 AND thread = ?2";
            if !db.prepare_cached(sql)?.exists(key)? {
                return Err(StoreError::not_found("thread", &thread));
            }
            let sql = "SELECT run, budget FROM runs WHERE tenant = ?1 AND thread = ?2";
            let mut statement = db.prepare_cached(sql)?;
            let mut rows = statement.query(key)?;
            let mut usage = ThreadUsage::default();
            while let Some(row) = rows.next()? {
                let run = RunId(row.get::<_, Uuid16>(0)?.0);
                usage.extend(read::listed(read::budget(run, row, 1))?.as_ref());
            }
            Ok(usage)
        })
        .await
    }

    pub(crate) async fn steps(
        &self,
        tenant: &Tenant,
        run: RunId,
        after: u32,
        limit: u32,
    ) -> Result<Vec<StepRow>, StoreError> {
        let tenant = tenant.clone();
        self.read(move |db| {
            known(db, &tenant, run)?;
            steps(db, STEPS, &tenant, run, after.into(), limit)
        })
        .await
    }

    pub(crate) async fn steps_with(
        &self,
        tenant: &Tenant,
        run: RunId,
        seq: u64,
        limit: u32,
    ) -> Result<Vec<StepRow>, StoreError> {
        let tenant = tenant.clone();
        let seq = i64::try_from(seq).unwrap_or(i64::MAX);
        self.read(move |db| {
            known(db, &tenant, run)?;
            steps(db, STEPS_WITH, &tenant, run, seq, limit)
        })
        .await
    }

    pub(crate) async fn claims(&self, tenant: &Tenant, run: RunId) -> Result<Vec<ClaimRow>, StoreError> {
        let tenant = tenant.clone();
        self.read(move |db| {
            let key = (tenant.as_str(), Uuid16(run.0));
            let sql = "SELECT step > 0 FROM runs WHERE tenant = ?1 AND run = ?2";
            let has_begun: Option<bool> =
                db.prepare_cached(sql)?.query_row(key, |row| row.get(0)).optional()?;
            let has_begun = has_begun.ok_or_else(|| StoreError::not_found("run", run))?;
            let sql = "SELECT epoch, base_seq FROM claims WHERE tenant = ?1 AND run = ?2 ORDER BY epoch";
            let mut statement = db.prepare_cached(sql)?;
            let rows = statement.query_map(key, |row| {
                Ok(ClaimRow { epoch: row.get(0)?, base_seq: row.get::<_, i64>(1)? as u64 })
            })?;
            // The start counts as the first claim.
            let start = has_begun.then_some(ClaimRow { epoch: 1, base_seq: 0 });
            Ok(start.map(Ok).into_iter().chain(rows).collect::<Result<_, _>>()?)
        })
        .await
    }

    pub(crate) async fn pulses(&self, owner: OwnerId) -> Result<Vec<Pulse>, StoreError> {
        self.pulses_by("SELECT run, inbox, watched_until FROM runs WHERE owner = ?1 AND status < 3", owner)
            .await
    }

    pub(crate) async fn news(&self, owner: OwnerId) -> Result<Vec<Pulse>, StoreError> {
        let sql = "SELECT run, inbox, watched_until FROM runs
                   WHERE owner = ?1 AND status < 3 AND (inbox > 0 OR watched_until IS NOT NULL)";
        self.pulses_by(sql, owner).await
    }

    async fn pulses_by(&self, sql: &'static str, owner: OwnerId) -> Result<Vec<Pulse>, StoreError> {
        self.read(move |db| {
            let mut statement = db.prepare_cached(sql)?;
            let rows = statement.query_map([Uuid16(owner.0)], |row| {
                let watched_until = row.get::<_, Option<i64>>(2)?.map(Timestamp);
                Ok(Pulse { run: RunId(row.get::<_, Uuid16>(0)?.0), inbox: row.get(1)?, watched_until })
            })?;
            Ok(rows.collect::<Result<_, _>>()?)
        })
        .await
    }

    pub(crate) async fn watch(
        &self,
        tenant: &Tenant,
        run: RunId,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        let tenant = tenant.clone();
        self.write(move |db| {
            known(db, &tenant, run)?;
            let sql = "UPDATE runs SET watched_until = ?3 WHERE tenant = ?1 AND run = ?2";
            db.prepare_cached(sql)?.execute((tenant.as_str(), Uuid16(run.0), until.0))?;
            Ok(())
        })
        .await
    }

    pub(crate) async fn watch_all(
        &self,
        runs: &[(Tenant, RunId)],
        until: Timestamp,
    ) -> Result<(), StoreError> {
        let runs = runs.to_vec();
        self.write(move |db| {
            let sql = "UPDATE runs SET watched_until = ?3 WHERE tenant = ?1 AND run = ?2";
            let mut statement = db.prepare_cached(sql)?;
            for (tenant, run) in &runs {
                statement.execute((tenant.as_str(), Uuid16(run.0), until.0))?;
            }
            Ok(())
        })
        .await
    }
}

/// A status as its column has it.
pub(super) fn stored(status: RunStatus) -> u8 {
    (0..).zip(RunStatus::ALL).find(|(_, s)| *s == status).map_or(0, |(n, _)| n)
}

pub(super) fn exists(db: &Connection, tenant: &Tenant, run: RunId) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM runs WHERE tenant = ?1 AND run = ?2";
    Ok(db.prepare_cached(sql)?.exists((tenant.as_str(), Uuid16(run.0)))?)
}

pub(super) fn known(db: &Connection, tenant: &Tenant, run: RunId) -> Result<(), StoreError> {
    if exists(db, tenant, run)? { Ok(()) } else { Err(StoreError::not_found("run", run)) }
}

pub(super) fn load(db: &Connection, tenant: &Tenant, run: RunId) -> Result<RunRow, StoreError> {
    let sql = format!("SELECT {RUN_COLUMNS} FROM runs WHERE tenant = ?1 AND run = ?2");
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query((tenant.as_str(), Uuid16(run.0)))?;
    let row = rows.next()?.ok_or_else(|| StoreError::not_found("run", run))?;
    run_row(row)
}

pub(super) fn load_definition(
    db: &Connection,
    tenant: &Tenant,
    hash: &str,
) -> Result<Definition, StoreError> {
    let sql = "SELECT body, crc FROM definitions WHERE tenant = ?1 AND hash = ?2";
    let found =
        db.prepare_cached(sql)?.query_row((tenant.as_str(), hash), |row| Ok((row.get(0)?, row.get(1)?)));
    let (body, crc): (Vec<u8>, u32) =
        found.optional()?.ok_or_else(|| StoreError::not_found("definition", hash))?;
    record::decode("definition", hash, &body, crc)
}

/// Reads steps by [`STEPS`] or [`STEPS_WITH`].
pub(super) fn steps(
    db: &Connection,
    sql: &str,
    tenant: &Tenant,
    run: RunId,
    from: i64,
    limit: u32,
) -> Result<Vec<StepRow>, StoreError> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query((tenant.as_str(), Uuid16(run.0), from, limit))?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        let step: u32 = row.get(0)?;
        let (body, crc): (Vec<u8>, u32) = (row.get(5)?, row.get(6)?);
        out.push(StepRow {
            step,
            epoch: row.get(1)?,
            frame: read::name("frame", row.get(2)?)?,
            first_seq: row.get::<_, i64>(3)? as u64,
            last_seq: row.get::<_, i64>(4)? as u64,
            checkpoint: record::decode_known(
                "step",
                format!("{run}#{step}"),
                &body,
                crc,
                CHECKPOINT_VERSION,
            )?,
        });
    }
    Ok(out)
}

/// The number of an input that was posted before.
fn posted(
    db: &Connection,
    tenant: &Tenant,
    run: RunId,
    input_hash: Option<&str>,
) -> Result<Option<u32>, StoreError> {
    let sql = "SELECT n FROM inbox WHERE tenant = ?1 AND run = ?2 AND input_hash = ?3";
    let key = (tenant.as_str(), Uuid16(run.0), input_hash);
    Ok(db.prepare_cached(sql)?.query_row(key, |row| row.get(0)).optional()?)
}
