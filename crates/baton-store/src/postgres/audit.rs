//! The chain in PostgreSQL. One process at a time seals, under an advisory lock that is released with the commit.

use baton_core::id::Tenant;
use baton_core::json::sha256_hex;
use baton_core::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::calls::queue_copies;
use super::outbox::{note_ours, remove_done};
use super::row::checksum;
use super::tree::name;
use super::{Db, PgStore};
use crate::error::StoreError;
use crate::record;
use crate::service::{AuditEvent, AuditRow, ChainEnd, RESTED, Unsealed, policy_mark};

/// The first half of the lock's number; the hash of the schema is the second.
const LOCK: i32 = 0x6261_7573;

/// Rows of the chain.
pub(super) const CHAIN: &str =
    "SELECT n, tenant, at, correlation, kind, source, digest, prev, seal, external FROM audit
    WHERE n > $1 ORDER BY n LIMIT $2";
/// Rows of the chain that belong to a tenant.
pub(super) const CHAIN_OF: &str =
    "SELECT n, tenant, at, correlation, kind, source, digest, prev, seal, external FROM audit
    WHERE n > $1 AND tenant = $3 ORDER BY n LIMIT $2";
/// The mark of the last policy in force.
const POLICY: &str = "SELECT name FROM marks WHERE name LIKE 'policy:%'";
/// The end of the chain.
pub(super) const END: &str = "SELECT rows, head FROM chain";
/// The oldest events that are not in the chain.
pub(super) const UNSEALED: &str =
    "SELECT n, tenant, at, correlation, kind, source, payload, crc, external FROM outbox
    WHERE NOT sealed ORDER BY n LIMIT $1";

impl PgStore {
    pub(crate) async fn seal(&self, limit: u32) -> Result<u64, StoreError> {
        self.write(move |db| Box::pin(async move { seal(db, limit).await })).await
    }

    pub(crate) async fn note_policy(&self, hash: &str, mut audit: AuditEvent) -> Result<bool, StoreError> {
        let mark = policy_mark(hash);
        if noted_policy(self.rows(POLICY, &[]).await?)?.as_ref() == Some(&mark) {
            return Ok(false);
        }
        self.write(move |db| {
            Box::pin(async move {
                // The lock orders two processes that note a policy at the same moment.
                db.batch_execute("LOCK TABLE marks IN SHARE ROW EXCLUSIVE MODE").await?;
                let before = noted_policy(db.query(&db.prepare_cached(POLICY).await?, &[]).await?)?;
                if before.as_ref() == Some(&mark) {
                    return Ok(false);
                }
                db.execute("DELETE FROM marks WHERE name LIKE 'policy:%'", &[]).await?;
                db.execute("INSERT INTO marks(name) VALUES ($1)", &[&mark]).await?;
                let Some(before) = before else { return Ok(false) };
                audit.follows_policy(&before);
                note_ours(db, &Tenant::local(), Some(&audit)).await?;
                Ok(true)
            })
        })
        .await
    }

    pub(crate) async fn chain_end(&self) -> Result<ChainEnd, StoreError> {
        chain_end(self.one(END, &[]).await?)
    }

    pub(crate) async fn audit(
        &self,
        tenant: Option<&Tenant>,
        after: i64,
        limit: u32,
    ) -> Result<Vec<AuditRow>, StoreError> {
        let limit = i64::from(limit);
        let rows = match tenant {
            Some(tenant) => self.at_leisure().rows(CHAIN_OF, &[&after, &limit, &tenant.as_str()]).await?,
            None => self.at_leisure().rows(CHAIN, &[&after, &limit]).await?,
        };
        rows.iter().map(audit_row).collect()
    }
}

/// The mark of the last policy in force.
fn noted_policy(rows: Vec<Row>) -> Result<Option<String>, StoreError> {
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}

fn audit_row(row: &Row) -> Result<AuditRow, StoreError> {
    Ok(AuditRow {
        n: row.try_get(0)?,
        tenant: name("tenant", row.try_get(1)?)?,
        at: Timestamp(row.try_get(2)?),
        correlation: row.try_get(3)?,
        kind: row.try_get(4)?,
        source: row.try_get(5)?,
        digest: row.try_get(6)?,
        prev: row.try_get(7)?,
        seal: row.try_get(8)?,
        external: row.try_get(9)?,
    })
}

async fn seal(db: &Db<'_>, limit: u32) -> Result<u64, StoreError> {
    let sql = "SELECT pg_try_advisory_xact_lock($1, hashtext(current_schema()))";
    if !db.query_one(&db.prepare_cached(sql).await?, &[&LOCK]).await?.try_get::<_, bool>(0)? {
        return Ok(0);
    }
    let unsealed = db.query(&db.prepare_cached(UNSEALED).await?, &[&i64::from(limit)]).await?;
    if unsealed.is_empty() {
        return Ok(0);
    }
    let mut end = chain_end(db.query_opt(&db.prepare_cached(END).await?, &[]).await?)?;
    let (mut numbers, mut rows) = (Vec::new(), Vec::new());
    for event in &unsealed {
        let event = unsealed_row(event)?;
        numbers.push(event.n);
        rows.push(AuditRow::sealed(&mut end, event));
    }
    insert(db, &rows).await?;
    // Events of suspended and ended runs are queued until the tool calls of their runs are in the trail.
    let sql = format!(
        "UPDATE outbox SET sealed = true, n = CASE WHEN NOT send AND {RESTED} THEN -n ELSE n END WHERE n = ANY($1)"
    );
    db.execute(&db.prepare_cached(&sql).await?, &[&numbers]).await?;
    queue_copies(db, &numbers).await?;
    remove_done(db, &numbers).await?;
    let sql = "UPDATE chain SET rows = $1, head = $2";
    db.execute(&db.prepare_cached(sql).await?, &[&end.rows, &end.head]).await?;
    Ok(rows.len() as u64)
}

fn chain_end(row: Option<Row>) -> Result<ChainEnd, StoreError> {
    let row = row.ok_or_else(|| StoreError::corrupt("chain", "end", "its row is gone"))?;
    Ok(ChainEnd { rows: row.try_get(0)?, head: row.try_get(1)? })
}

fn unsealed_row(row: &Row) -> Result<Unsealed, StoreError> {
    let (n, body): (i64, &[u8]) = (row.try_get(0)?, row.try_get(6)?);
    let mut event = AuditEvent {
        at: Timestamp(row.try_get(2)?),
        correlation: row.try_get(3)?,
        kind: row.try_get(4)?,
        source: row.try_get(5)?,
        payload: Default::default(),
        send: false,
    };
    let digest = match record::decode("event", n, body, checksum(row, 7)?) {
        Ok(payload) => {
            event.payload = payload;
            event.digest()
        }
        // An event that cannot be read must not keep all others out of the chain.
        Err(error) => {
            tracing::warn!(%error, "sealed as it is");
            sha256_hex(body)
        }
    };
    let AuditEvent { at, correlation, kind, source, .. } = event;
    let (tenant, external) = (name("tenant", row.try_get(1)?)?, row.try_get(8)?);
    Ok(Unsealed { n, tenant, at, correlation, kind, source, external, digest })
}

async fn insert(db: &Db<'_>, rows: &[AuditRow]) -> Result<(), StoreError> {
    let sql = "INSERT INTO audit(n, tenant, at, correlation, kind, source, digest, prev, seal, external)
               SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[],
                 $7::text[], $8::text[], $9::text[], $10::boolean[])";
    let numbers: Vec<i64> = rows.iter().map(|row| row.n).collect();
    let moments: Vec<i64> = rows.iter().map(|row| row.at.0).collect();
    let texts = |pick: fn(&AuditRow) -> &str| rows.iter().map(pick).collect::<Vec<&str>>();
    let external: Vec<Option<bool>> = rows.iter().map(|row| row.external).collect();
    let values: [&(dyn ToSql + Sync); 10] = [
        &numbers,
        &texts(|row| row.tenant.as_str()),
        &moments,
        &texts(|row| &row.correlation),
        &texts(|row| &row.kind),
        &texts(|row| &row.source),
        &texts(|row| &row.digest),
        &texts(|row| &row.prev),
        &texts(|row| &row.seal),
        &external,
    ];
    db.execute(&db.prepare_cached(sql).await?, &values).await?;
    Ok(())
}
