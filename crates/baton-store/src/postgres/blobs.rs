//! Long outputs in PostgreSQL, kept under the hash of their bytes.

use baton_core::id::Tenant;
use baton_core::time::Timestamp;

use super::PgStore;
use crate::error::StoreError;

impl PgStore {
    pub(crate) async fn put_blob(
        &self,
        tenant: &Tenant,
        hash: &str,
        bytes: Vec<u8>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let (tenant, hash) = (tenant.clone(), hash.to_owned());
        self.write(move |db| {
            Box::pin(async move {
                let sql =
                    "INSERT INTO blobs(tenant, hash, size, touched_at, body) VALUES ($1, $2, $3, $4, $5)
                           ON CONFLICT (tenant, hash) DO UPDATE SET touched_at = greatest(blobs.touched_at, excluded.touched_at)";
                let size = bytes.len() as i64;
                let statement = db.prepare_cached(sql).await?;
                db.execute(&statement, &[&tenant.as_str(), &hash, &size, &at.0, &bytes]).await?;
                Ok(())
            })
        })
        .await
    }

    pub(crate) async fn blob(&self, tenant: &Tenant, hash: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let sql = "SELECT body FROM blobs WHERE tenant = $1 AND hash = $2";
        let Some(row) = self.for_content().one(sql, &[&tenant.as_str(), &hash]).await? else {
            return Ok(None);
        };
        let bytes: Vec<u8> = row.try_get(0)?;
        if baton_core::json::sha256_hex(&bytes) != hash {
            return Err(StoreError::corrupt("blob", hash, "its hash does not fit: the file was damaged"));
        }
        Ok(Some(bytes))
    }
}
