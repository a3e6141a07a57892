//! The chain in SQLite. Sealing is one write, so processes that seal at the same time do so one after the other.

use baton_core::id::Tenant;
use baton_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::outbox::{self, SqliteEvent};
use super::{SqliteStore, read};
use crate::error::StoreError;
use crate::service::{AuditEvent, AuditRow, ChainEnd, RESTED, Unsealed, policy_mark};

const COLUMNS: &str = "n, tenant, at, correlation, kind, source, digest, prev, seal, external";

impl SqliteStore {
    pub(crate) async fn seal(&self, limit: u32) -> Result<u64, StoreError> {
        self.write(move |db| seal(db, limit)).await
    }

    pub(crate) async fn note_policy(&self, hash: &str, mut audit: AuditEvent) -> Result<bool, StoreError> {
        let mark = policy_mark(hash);
        if self.read(noted_policy).await?.as_ref() == Some(&mark) {
            return Ok(false);
        }
        self.write(move |db| {
            let before = noted_policy(db)?;
            if before.as_ref() == Some(&mark) {
                return Ok(false);
            }
            db.prepare_cached("DELETE FROM marks WHERE name LIKE 'policy:%'")?.execute([])?;
            db.prepare_cached("INSERT INTO marks(name) VALUES (?1)")?.execute([&mark])?;
            let Some(before) = before else { return Ok(false) };
            audit.follows_policy(&before);
            outbox::note(db, &Tenant::local(), &SqliteEvent::new(&audit)?)?;
            Ok(true)
        })
        .await
    }

    pub(crate) async fn chain_end(&self) -> Result<ChainEnd, StoreError> {
        self.read(chain_end).await
    }

    pub(crate) async fn audit(
        &self,
        tenant: Option<&Tenant>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<AuditRow>, StoreError> {
        let tenant = tenant.cloned();
        self.read(move |db| {
            let of_tenant = if tenant.is_some() { "tenant = ?3" } else { "?3 IS NULL" };
            let sql = format!("SELECT {COLUMNS} FROM audit WHERE {of_tenant} AND n > ?1 ORDER BY n LIMIT ?2");
            let mut statement = db.prepare_cached(&sql)?;
            let mut rows = statement.query((after, limit, tenant.as_ref().map(Tenant::as_str)))?;
            let mut out = Vec::new();
            while let Some(row) = rows.next()? {
                out.push(audit_row(row)?);
            }
            Ok(out)
        })
        .await
    }
}

/// The mark of the last policy in force.
fn noted_policy(db: &Connection) -> Result<Option<String>, StoreError> {
    let sql = "SELECT name FROM marks WHERE name LIKE 'policy:%'";
    Ok(db.prepare_cached(sql)?.query_row([], |row| row.get(0)).optional()?)
}

fn audit_row(row: &Row<'_>) -> Result<AuditRow, StoreError> {
    Ok(AuditRow {
        n: row.get(0)?,
        tenant: read::name("tenant", row.get(1)?)?,
        at: Timestamp(row.get(2)?),
        correlation: row.get(3)?,
        kind: row.get(4)?,
        source: row.get(5)?,
        digest: row.get(6)?,
        prev: row.get(7)?,
        seal: row.get(8)?,
        external: row.get(9)?,
    })
}

fn seal(db: &Connection, limit: u32) -> Result<u64, StoreError> {
    let unsealed = unsealed(db, limit)?;
    let count = unsealed.len() as u64;
    let Some(newest) = unsealed.last().map(|event| event.n) else { return Ok(0) };
    let mut end = chain_end(db)?;
    for event in unsealed {
        insert(db, &AuditRow::sealed(&mut end, event))?;
    }
    // Events of suspended and ended runs stay until the tool calls of their runs are in the trail.
    let sql = format!(
        "DELETE FROM outbox WHERE n > (SELECT sealed FROM chain) AND n <= ?1 AND send = 0 AND NOT ({RESTED})"
    );
    db.prepare_cached(&sql)?.execute([newest])?;
    let sql = "UPDATE chain SET sealed = ?1, rows = ?2, head = ?3";
    db.prepare_cached(sql)?.execute((newest, end.rows, end.head))?;
    Ok(count)
}

fn chain_end(db: &Connection) -> Result<ChainEnd, StoreError> {
    let end = db
        .prepare_cached("SELECT rows, head FROM chain")?
        .query_row([], |row| Ok(ChainEnd { rows: row.get(0)?, head: row.get(1)? }));
    end.optional()?.ok_or_else(|| StoreError::corrupt("chain", "end", "its row is gone"))
}

/// The number of the newest event that is in the chain.
pub(super) fn sealed(db: &Connection) -> Result<i64, StoreError> {
    Ok(db.prepare_cached("SELECT sealed FROM chain")?.query_row([], |row| row.get(0))?)
}

fn insert(db: &Connection, row: &AuditRow) -> Result<(), StoreError> {
    let sql = format!("INSERT INTO audit({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)");
    let AuditRow { n, tenant, at, correlation, kind, source, external, digest, prev, seal } = row;
    db.prepare_cached(&sql)?.execute(params![
        n,
        tenant.as_str(),
        at.0,
        correlation,
        kind,
        source,
        digest,
        prev,
        seal,
        external,
    ])?;
    Ok(())
}

/// The oldest events that are not in the chain.
fn unsealed(db: &Connection, limit: u32) -> Result<Vec<Unsealed>, StoreError> {
    let sql = "SELECT n, tenant, at, correlation, kind, source, digest, external FROM outbox
               WHERE n > (SELECT sealed FROM chain) ORDER BY n LIMIT ?1";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([limit])?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        out.push(Unsealed {
            n: row.get(0)?,
            tenant: read::name("tenant", row.get(1)?)?,
            at: Timestamp(row.get(2)?),
            correlation: row.get(3)?,
            kind: row.get(4)?,
            source: row.get(5)?,
            digest: row.get(6)?,
            external: row.get(7)?,
        });
    }
    Ok(out)
}
