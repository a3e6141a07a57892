//! What somebody should drive.
//!
//! Asked again and again by every process, so nothing here looks at rows of runs that are in good hands: each
//! kind of run that is due has an index of its own, and owners are found by hopping from one to the next.

use baton_core::id::{OwnerId, RunId, Tenant};
use baton_core::time::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::PgStore;
use super::row::{checksum, listed, run_row};
use super::tree::name;
use crate::error::StoreError;
use crate::record;
use crate::runs::Life;
use crate::transition::{CHECKPOINT_VERSION, Checkpoint};

/// Runs that were let go of, and suspended ones whose time has come.
pub(super) const FREE: &str = "(SELECT tenant, run FROM runs WHERE status = 1 AND owner IS NULL
      ORDER BY run LIMIT 1000)
    UNION ALL (SELECT tenant, run FROM runs WHERE due_at <= $1 ORDER BY due_at LIMIT 1000)";
/// Everybody who holds a run, with the lease if there is one.
pub(super) const HOLDERS: &str = "WITH RECURSIVE h(owner) AS (
      (SELECT owner FROM runs WHERE owner IS NOT NULL ORDER BY owner LIMIT 1)
      UNION ALL
      SELECT (SELECT owner FROM runs WHERE owner > h.owner ORDER BY owner LIMIT 1) FROM h
      WHERE h.owner IS NOT NULL)
    SELECT o.machine, o.lock, o.beat, h.owner
    FROM h LEFT JOIN LATERAL (SELECT machine, lock, beat FROM owners WHERE owner = h.owner LIMIT 1) o
      ON true WHERE h.owner IS NOT NULL";
/// Runs of some owners.
pub(super) const HELD: &str = "SELECT tenant, run FROM runs WHERE owner = ANY($1) AND status = 1 LIMIT 1000";
/// The first run in line for each branch that nobody holds, in the order in which they came. One whose branch
/// was removed meanwhile is among them: whoever begins it finds out.
pub(super) const IN_LINE: &str = "WITH RECURSIVE q AS (
      (SELECT tenant, thread, branch, n, run FROM queued ORDER BY tenant, thread, branch, n LIMIT 1)
      UNION ALL
      SELECT x.* FROM q CROSS JOIN LATERAL (
        SELECT tenant, thread, branch, n, run FROM queued
        WHERE (tenant, thread, branch) > (q.tenant, q.thread, q.branch)
        ORDER BY tenant, thread, branch, n LIMIT 1) x)
    SELECT q.tenant, q.run FROM q LEFT JOIN LATERAL (
      SELECT run FROM branches WHERE tenant = q.tenant AND thread = q.thread AND branch = q.branch LIMIT 1) b
      ON true
    WHERE b.run IS NULL ORDER BY q.n LIMIT 1000";

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
        let mut rows = self.rows(FREE, &[&now.0]).await?;
        let mut dead: Vec<Uuid> = Vec::new();
        for holder in self.rows(HOLDERS, &[]).await? {
            let owner: Uuid = holder.try_get(3)?;
            let is_known = holder.try_get::<_, Option<i64>>(2)?.is_some();
            if self.shared.place.life(OwnerId(owner), is_known.then_some(&holder))? != Life::Lives {
                dead.push(owner);
            }
        }
        if !dead.is_empty() {
            rows.extend(self.rows(HELD, &[&dead]).await?);
        }
        let mut out = self.readable(keys(&rows)?).await?;
        out.sort_by_key(|(_, run)| *run);
        out.extend(keys(&self.rows(IN_LINE, &[]).await?)?);
        Ok(out)
    }

    /// Those that somebody could drive: one that cannot be read harms no other, and nobody tries it for ever.
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

fn keys(rows: &[Row]) -> Result<Vec<(Tenant, RunId)>, StoreError> {
    let mut out = Vec::with_capacity(rows.len());
    for row in rows {
        let run = RunId(row.try_get(1)?);
        out.extend(listed(name("tenant", row.try_get(0)?))?.map(|tenant| (tenant, run)));
    }
    Ok(out)
}
