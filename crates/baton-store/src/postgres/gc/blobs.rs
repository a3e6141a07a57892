//! Removes long outputs that are no longer named anywhere.
//!
//! Entries may be compressed, so all of them have to be decoded to find the names in them. That is done page by page,
//! and stops as soon as every candidate was found to be named.

use baton_core::id::{RunId, Tenant, ThreadId};
use baton_core::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{PAGE, PgDryRunRemovals};
use crate::error::StoreError;
use crate::postgres::row::{checksum, listed};
use crate::postgres::tree::name;
use crate::postgres::{Db, PgStore};
use crate::record;
use crate::service::Unnamed;

/// Blobs that were not touched since a moment.
const UNTOUCHED: &str = "SELECT tenant, hash, size FROM blobs WHERE touched_at < $1";
/// Entries of a tenant after a cursor.
const ENTRIES: &str = "SELECT thread, lane, idx, envelope, crc FROM entries
    WHERE tenant = $1 AND (thread, lane, idx) > ($2, $3, $4) ORDER BY thread, lane, idx LIMIT $5";
/// Steps of a tenant after a cursor.
const STEPS: &str = "SELECT run, step, body, crc FROM steps
    WHERE tenant = $1 AND (run, step) > ($2, $3) ORDER BY run, step LIMIT $4";

impl PgStore {
    /// Removes blobs that were not touched since a moment and are not named; returns their number and their size in
    /// bytes.
    pub(super) async fn drop_blobs(
        &self,
        doomed: PgDryRunRemovals,
        before: Timestamp,
        dry: bool,
    ) -> Result<(u64, u64), StoreError> {
        let mut unnamed = Unnamed::default();
        for row in self.rows(UNTOUCHED, &[&before.0]).await? {
            if let Some(tenant) = listed(name("tenant", row.try_get(0)?))? {
                unnamed.add(tenant, row.try_get(1)?, row.try_get::<_, i64>(2)? as u64);
            }
        }
        for tenant in unnamed.tenants() {
            self.look_at_entries(&tenant, &mut unnamed, &doomed).await?;
            self.look_at_steps(&tenant, &mut unnamed, &doomed).await?;
        }
        if dry {
            return Ok(unnamed.count());
        }
        let (mut count, mut bytes) = (0, 0);
        let unnamed: Vec<_> = unnamed.into_keys().collect();
        for page in unnamed.chunks(PAGE as usize).map(<[_]>::to_vec) {
            let removed = self.write(move |db| Box::pin(async move { remove(db, &page, before).await }));
            let removed = removed.await?;
            (count, bytes) = (count + removed.0, bytes + removed.1);
        }
        Ok((count, bytes))
    }

    async fn look_at_entries(
        &self,
        tenant: &Tenant,
        unnamed: &mut Unnamed,
        doomed: &PgDryRunRemovals,
    ) -> Result<(), StoreError> {
        let mut from = (String::new(), -1_i32, -1_i64);
        while unnamed.has(tenant) {
            let rows = self.rows(ENTRIES, &[&tenant.as_str(), &from.0, &from.1, &from.2, &PAGE]).await?;
            let Some(last) = rows.last() else { break };
            from = (last.try_get(0)?, last.try_get(1)?, last.try_get(2)?);
            for row in &rows {
                let thread: Result<ThreadId, _> = name("thread", row.try_get(0)?);
                if !thread.is_ok_and(|thread| doomed.threads.contains(&(tenant.clone(), thread))) {
                    unnamed.saw(tenant, plain(row, 3).and_then(|plain| crate::envelope::plain(&plain)));
                }
            }
        }
        Ok(())
    }

    async fn look_at_steps(
        &self,
        tenant: &Tenant,
        unnamed: &mut Unnamed,
        doomed: &PgDryRunRemovals,
    ) -> Result<(), StoreError> {
        let mut from = (Uuid::nil(), -1_i32);
        while unnamed.has(tenant) {
            let rows = self.rows(STEPS, &[&tenant.as_str(), &from.0, &from.1, &PAGE]).await?;
            let Some(last) = rows.last() else { break };
            from = (last.try_get(0)?, last.try_get(1)?);
            for row in &rows {
                if !doomed.runs.contains(&(tenant.clone(), RunId(row.try_get(0)?))) {
                    unnamed.saw(tenant, plain(row, 2));
                }
            }
        }
        Ok(())
    }
}

/// The JSON of a row, from this column and the next one, which holds the checksum.
fn plain(row: &Row, column: usize) -> Result<Vec<u8>, String> {
    let bytes: &[u8] = row.try_get(column).map_err(|e| e.to_string())?;
    let crc = checksum(row, column + 1).map_err(|e| e.to_string())?;
    record::plain(bytes, crc).map(std::borrow::Cow::into_owned)
}

async fn remove(
    db: &Db<'_>,
    blobs: &[(Tenant, String)],
    before: Timestamp,
) -> Result<(u64, u64), StoreError> {
    let sql = "DELETE FROM blobs b USING unnest($1::text[], $2::text[]) x(tenant, hash)
               WHERE b.tenant = x.tenant AND b.hash = x.hash AND b.touched_at < $3 RETURNING b.size";
    let tenants: Vec<&str> = blobs.iter().map(|(tenant, _)| tenant.as_str()).collect();
    let hashes: Vec<&str> = blobs.iter().map(|(_, hash)| hash.as_str()).collect();
    let values: [&(dyn ToSql + Sync); 3] = [&tenants, &hashes, &before.0];
    let rows = db.query(&db.prepare_cached(sql).await?, &values).await?;
    let mut bytes = 0;
    for row in &rows {
        bytes += row.try_get::<_, i64>(0)? as u64;
    }
    Ok((rows.len() as u64, bytes))
}
