//! Idempotency keys in PostgreSQL: work that was begun under a key is begun only once.

use baton_core::id::{OwnerId, RunId, Tenant};
use baton_core::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::{Db, PgStore, outbox};
use crate::error::StoreError;
use crate::service::{AuditEvent, KeyRow, NewKey};

/// A key that has not expired.
pub(crate) const KEY: &str = "SELECT body_hash, run, owner, answer FROM keys
    WHERE tenant = $1 AND route = $2 AND key = $3 AND expires_at > $4";

/// Gives the work on a key to another owner.
const RETAKE: &str = "UPDATE keys SET owner = $5
    WHERE tenant = $1 AND route = $2 AND key = $3 AND owner = $4 AND answer IS NULL";

/// Stores the answer of a key.
const ANSWER: &str = "UPDATE keys SET answer = $5
    WHERE tenant = $1 AND route = $2 AND key = $3 AND owner = $4 AND answer IS NULL";

impl PgStore {
    pub(crate) async fn key(
        &self,
        tenant: &Tenant,
        route: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<KeyRow>, StoreError> {
        let row = self.one(KEY, &[&tenant.as_str(), &route, &key, &now.0]).await?;
        row.as_ref().map(key_row).transpose()
    }

    pub(crate) async fn begin_key(
        &self,
        tenant: &Tenant,
        new: &NewKey,
        run: Option<RunId>,
        owner: Option<OwnerId>,
        now: Timestamp,
    ) -> Result<Option<KeyRow>, StoreError> {
        let (tenant, new) = (tenant.clone(), new.clone());
        self.write(move |db| Box::pin(async move { take(db, &tenant, &new, (run, owner), now).await })).await
    }

    pub(crate) async fn retake_key(
        &self,
        tenant: &Tenant,
        route: &str,
        key: &str,
        from: OwnerId,
        to: OwnerId,
    ) -> Result<bool, StoreError> {
        let (tenant, route, key) = (tenant.clone(), route.to_owned(), key.to_owned());
        self.write(move |db| {
            Box::pin(async move {
                let statement = db.prepare_cached(RETAKE).await?;
                let values: [&(dyn ToSql + Sync); 5] = [&tenant.as_str(), &route, &key, &from.0, &to.0];
                Ok(db.execute(&statement, &values).await? > 0)
            })
        })
        .await
    }

    pub(crate) async fn answer_call(
        &self,
        tenant: &Tenant,
        route: &str,
        key: &str,
        owner: OwnerId,
        answer: Vec<u8>,
        audit: Option<AuditEvent>,
    ) -> Result<(), StoreError> {
        let (tenant, route, key) = (tenant.clone(), route.to_owned(), key.to_owned());
        self.write(move |db| {
            Box::pin(async move {
                let statement = db.prepare_cached(ANSWER).await?;
                let values: [&(dyn ToSql + Sync); 5] = [&tenant.as_str(), &route, &key, &owner.0, &answer];
                match db.execute(&statement, &values).await? {
                    0 => Ok(()),
                    _ => outbox::note_ours(db, &tenant, audit.as_ref()).await,
                }
            })
        })
        .await
    }
}

/// Takes a key, in place of one that has expired. If it was used before, nothing changes, and the stored key is
/// returned. Others that take the same key wait until this transaction ends.
pub(crate) async fn take(
    db: &Db<'_>,
    tenant: &Tenant,
    new: &NewKey,
    (run, owner): (Option<RunId>, Option<OwnerId>),
    now: Timestamp,
) -> Result<Option<KeyRow>, StoreError> {
    let sql = "INSERT INTO keys AS k (tenant, route, key, body_hash, run, owner, expires_at)
               VALUES ($1, $2, $3, $4, $5, $6, $7)
               ON CONFLICT (tenant, route, key) DO UPDATE SET body_hash = excluded.body_hash, run = excluded.run,
                 owner = excluded.owner, answer = NULL, expires_at = excluded.expires_at
               WHERE k.expires_at <= $8";
    let (run, owner) = (run.map(|run| run.0), owner.map(|owner| owner.0));
    let NewKey { route, key, body_hash, expires_at } = new;
    let values: [&(dyn ToSql + Sync); 8] =
        [&tenant.as_str(), route, key, body_hash, &run, &owner, &expires_at.0, &now.0];
    if db.execute(&db.prepare_cached(sql).await?, &values).await? > 0 {
        return Ok(None);
    }
    let statement = db.prepare_cached(KEY).await?;
    let row = db.query_opt(&statement, &[&tenant.as_str(), route, key, &now.0]).await?;
    // The conflicting row was there a moment ago and is locked, so it still exists.
    let gone = || StoreError::Unavailable("the key changed while it was taken".to_owned());
    Ok(Some(key_row(&row.ok_or_else(gone)?)?))
}

/// A row of [`KEY`].
pub(crate) fn key_row(row: &Row) -> Result<KeyRow, StoreError> {
    Ok(KeyRow {
        body_hash: row.try_get(0)?,
        run: row.try_get::<_, Option<Uuid>>(1)?.map(RunId),
        owner: row.try_get::<_, Option<Uuid>>(2)?.map(OwnerId),
        answer: row.try_get(3)?,
    })
}
