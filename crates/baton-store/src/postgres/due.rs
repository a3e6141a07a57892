//! Due runs in PostgreSQL.
//!
//! Every process runs these statements again and again, so they never read rows of runs that are driven: each kind of
//! due run has an index of its own, and owners are found by hopping from one to the next.

use baton_core::id::{OwnerId, RunId, Tenant};
use baton_core::time::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::PgStore;
use super::row::{checksum, listed, number, run_row};
use super::tree::name;
use crate::error::StoreError;
use crate::record;
use crate::runs::Liveness;
use crate::transition::{CHECKPOINT_VERSION, Checkpoint};
use crate::view::{Due, DueFrom, DuePage, Source};

/// The page size where all due runs are wanted.
const MANY: u32 = 1000;

/// Runs that were released.
pub(super) const LET_GO: &str = "SELECT tenant, run, attempts, inbox, definition, 0::bigint FROM runs
    WHERE status = 1 AND owner IS NULL AND run > $1 ORDER BY run LIMIT $2";
/// Suspended runs that have messages, or whose time has come.
pub(super) const ASLEEP: &str = "SELECT tenant, run, attempts, inbox, definition, due_at FROM runs
    WHERE due_at <= $1 AND (due_at, run) > ($2, $3) ORDER BY due_at, run LIMIT $4";
/// All owners that hold a run, with their lease if there is one.
pub(super) const HOLDERS: &str = "WITH RECURSIVE h(owner) AS (
      (SELECT owner FROM runs WHERE owner IS NOT NULL ORDER BY owner LIMIT 1)
      UNION ALL
      SELECT (SELECT owner FROM runs WHERE owner > h.owner ORDER BY owner LIMIT 1) FROM h
      WHERE h.owner IS NOT NULL)
    SELECT o.machine, o.lock, o.beat, h.owner
    FROM h LEFT JOIN LATERAL (SELECT machine, lock, beat FROM owners WHERE owner = h.owner LIMIT 1) o
      ON true WHERE h.owner IS NOT NULL";
/// Runs of owners that seem to be dead.
pub(super) const HELD: &str = "SELECT tenant, run, attempts + 1, inbox, definition, 0::bigint FROM runs
    WHERE owner = ANY($1) AND status = 1 AND run > $2 ORDER BY run LIMIT $3";
/// The first queued run of each free branch, in the order of the queue. A run whose branch was removed meanwhile is
/// included: its start finds that out.
pub(super) const IN_LINE: &str = "WITH RECURSIVE q AS (
      (SELECT tenant, thread, branch, n, run FROM queued ORDER BY tenant, thread, branch, n LIMIT 1)
      UNION ALL
      SELECT x.* FROM q CROSS JOIN LATERAL (
        SELECT tenant, thread, branch, n, run FROM queued
        WHERE (tenant, thread, branch) > (q.tenant, q.thread, q.branch)
        ORDER BY tenant, thread, branch, n LIMIT 1) x)
    SELECT q.tenant, q.run, 0, coalesce(r.inbox, 0), coalesce(r.definition, ''), q.n FROM q
    LEFT JOIN LATERAL (
      SELECT run FROM branches WHERE tenant = q.tenant AND thread = q.thread AND branch = q.branch LIMIT 1) b
      ON true
    LEFT JOIN LATERAL (
      SELECT inbox, definition FROM runs WHERE tenant = q.tenant AND run = q.run LIMIT 1) r ON true
    WHERE b.run IS NULL AND q.n > $1 ORDER BY q.n LIMIT $2";

/// Runs by their keys, with the last step of those that are suspended.
pub(super) const CANDIDATES: &str = "SELECT r.*, x.tenant, s.body, s.crc
    FROM unnest($1::text[], $2::uuid[]) x(tenant, run)
    CROSS JOIN LATERAL (
      SELECT run, thread, branch, lane, head, status, owner, epoch, step, seq, inbox, attempts, definition,
        min_version, budget, wake_at, watched_until, created, ended, metadata
      FROM runs WHERE tenant = x.tenant AND run = x.run LIMIT 1) r
    LEFT JOIN LATERAL (
      SELECT body, crc FROM steps WHERE tenant = x.tenant AND run = r.run AND step = r.step AND r.status = 2
      LIMIT 1) s ON true";

impl PgStore {
    pub(crate) async fn due(&self, now: Timestamp) -> Result<Vec<(Tenant, RunId)>, StoreError> {
        let (mut begun, mut in_line, mut from) = (Vec::new(), Vec::new(), Some(DueFrom::default()));
        while let Some(next) = from {
            let page = self.due_page(now, next, MANY).await?;
            for due in page.runs {
                let list = if due.is_queued { &mut in_line } else { &mut begun };
                list.push((due.tenant, due.run));
            }
            from = page.rest;
        }
        let mut out = self.readable(begun).await?;
        out.sort_by_key(|(_, run)| *run);
        out.append(&mut in_line);
        Ok(out)
    }

    /// Lists due runs from a cursor on, for one reason after the other, until there are enough.
    pub(crate) async fn due_page(
        &self,
        now: Timestamp,
        DueFrom(mut source): DueFrom,
        limit: u32,
    ) -> Result<DuePage, StoreError> {
        let mut runs: Vec<Due> = Vec::new();
        loop {
            let room = i64::from(limit) - runs.len() as i64;
            let rows = match source {
                Source::LetGo(after) => self.rows(LET_GO, &[&after.0, &room]).await?,
                Source::Asleep(at, after) => self.rows(ASLEEP, &[&now.0, &at, &after.0, &room]).await?,
                Source::Orphaned(after) => match self.dead().await? {
                    dead if dead.is_empty() => Vec::new(),
                    dead => self.rows(HELD, &[&dead, &after.0, &room]).await?,
                },
                Source::InLine(after) => self.rows(IN_LINE, &[&after, &room]).await?,
            };
            for row in &rows {
                runs.extend(listed(due(row, matches!(source, Source::InLine(_))))?);
            }
            let last = rows.last().filter(|_| rows.len() as i64 >= room);
            let last = last.map(|row| Ok::<_, StoreError>((row.try_get(5)?, RunId(row.try_get(1)?))));
            if let Some(rest) = source.after(last.transpose()?) {
                return Ok(DuePage { runs, rest: Some(DueFrom(rest)) });
            }
            let Some(next) = source.next() else { return Ok(DuePage { runs, rest: None }) };
            source = next;
        }
    }

    /// The owners that hold runs and are not alive.
    async fn dead(&self) -> Result<Vec<Uuid>, StoreError> {
        let mut dead: Vec<Uuid> = Vec::new();
        for holder in self.rows(HOLDERS, &[]).await? {
            let owner: Uuid = holder.try_get(3)?;
            let is_known = holder.try_get::<_, Option<i64>>(2)?.is_some();
            if self.shared.liveness.life(OwnerId(owner), is_known.then_some(&holder))? != Liveness::Lives {
                dead.push(owner);
            }
        }
        Ok(dead)
    }

    /// Keeps the runs that can be read and so can be driven: one that cannot is left out, affects no other run, and is
    /// not tried for ever.
    async fn readable(&self, due: Vec<(Tenant, RunId)>) -> Result<Vec<(Tenant, RunId)>, StoreError> {
        if due.is_empty() {
            return Ok(due);
        }
        let tenants: Vec<&str> = due.iter().map(|(tenant, _)| tenant.as_str()).collect();
        let runs: Vec<Uuid> = due.iter().map(|(_, run)| run.0).collect();
        let mut out = Vec::with_capacity(due.len());
        for row in self.rows(CANDIDATES, &[&tenants, &runs]).await? {
            out.extend(listed(readable(&row))?);
        }
        Ok(out)
    }
}

fn readable(row: &Row) -> Result<(Tenant, RunId), StoreError> {
    let run = run_row(row)?;
    if let Some(body) = row.try_get::<_, Option<&[u8]>>(21)? {
        let id = format!("{}#{}", run.id, run.step);
        record::decode_known::<Checkpoint>("step", id, body, checksum(row, 22)?, CHECKPOINT_VERSION)?;
    }
    Ok((name("tenant", row.try_get(20)?)?, run.id))
}

fn due(row: &Row, is_queued: bool) -> Result<Due, StoreError> {
    Ok(Due {
        tenant: name("tenant", row.try_get(0)?)?,
        run: RunId(row.try_get(1)?),
        attempts: number(row, 2)?,
        inbox: number(row, 3)?,
        definition: row.try_get(4)?,
        is_queued,
    })
}
