//! Idempotency keys in SQLite: work that was begun under a key is begun only once.

use baton_core::id::{OwnerId, RunId, Tenant};
use baton_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::SqliteStore;
use super::outbox::{self, SqliteEvent};
use super::read::Uuid16;
use crate::error::StoreError;
use crate::service::{AuditEvent, KeyRow, NewKey};

impl SqliteStore {
    pub(crate) async fn key(
        &self,
        tenant: &Tenant,
        route: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<KeyRow>, StoreError> {
        let (tenant, route, key) = (tenant.clone(), route.to_owned(), key.to_owned());
        self.read(move |db| find(db, &tenant, &route, &key, now)).await
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
        self.write(move |db| {
            let known = find(db, &tenant, &new.route, &new.key, now)?;
            if known.is_none() {
                note(db, &tenant, &new, run, owner)?;
            }
            Ok(known)
        })
        .await
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
            let sql = "UPDATE keys SET owner = ?5
                       WHERE tenant = ?1 AND route = ?2 AND key = ?3 AND owner = ?4 AND answer IS NULL";
            let values = (tenant.as_str(), route, key, Uuid16(from.0), Uuid16(to.0));
            Ok(db.prepare_cached(sql)?.execute(values)? > 0)
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
        let audit = SqliteEvent::all(audit)?;
        self.write(move |db| {
            let sql = "UPDATE keys SET answer = ?5
                       WHERE tenant = ?1 AND route = ?2 AND key = ?3 AND owner = ?4 AND answer IS NULL";
            let values = (tenant.as_str(), route, key, Uuid16(owner.0), answer);
            match db.prepare_cached(sql)?.execute(values)? {
                0 => Ok(()),
                _ => outbox::note_all(db, &tenant, &audit),
            }
        })
        .await
    }
}

/// Reads a key that has not expired.
fn find(
    db: &Connection,
    tenant: &Tenant,
    route: &str,
    key: &str,
    now: Timestamp,
) -> Result<Option<KeyRow>, StoreError> {
    let sql = "SELECT body_hash, run, owner, answer FROM keys
               WHERE tenant = ?1 AND route = ?2 AND key = ?3 AND expires_at > ?4";
    let row = db.prepare_cached(sql)?.query_row((tenant.as_str(), route, key, now.0), |row| {
        Ok(KeyRow {
            body_hash: row.get(0)?,
            run: row.get::<_, Option<Uuid16>>(1)?.map(|id| RunId(id.0)),
            owner: row.get::<_, Option<Uuid16>>(2)?.map(|id| OwnerId(id.0)),
            answer: row.get(3)?,
        })
    });
    Ok(row.optional()?)
}

/// Refuses a key that was used and has not expired.
pub(super) fn unused(
    db: &Connection,
    tenant: &Tenant,
    key: Option<&NewKey>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let Some(key) = key else { return Ok(()) };
    match find(db, tenant, &key.route, &key.key, now)? {
        Some(row) => Err(StoreError::KeyUsed(Box::new(row))),
        None => Ok(()),
    }
}

/// Stores a key, in place of one that has expired.
pub(super) fn note(
    db: &Connection,
    tenant: &Tenant,
    new: &NewKey,
    run: Option<RunId>,
    owner: Option<OwnerId>,
) -> Result<(), StoreError> {
    let sql = "INSERT OR REPLACE INTO keys(tenant, route, key, body_hash, run, owner, answer, expires_at)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, NULL, ?7)";
    let (run, owner) = (run.map(|run| Uuid16(run.0)), owner.map(|owner| Uuid16(owner.0)));
    let NewKey { route, key, body_hash, expires_at } = new;
    db.prepare_cached(sql)?.execute(params![
        tenant.as_str(),
        route,
        key,
        body_hash,
        run,
        owner,
        expires_at.0
    ])?;
    Ok(())
}
