//! Outgoing events in PostgreSQL: written in the same transaction as the change that they report, sent and sealed
//! later.
//!
//! A row is removed when both are done. Each of the two first marks its part and then, by a statement of its own,
//! checks whether the other part is done as well: so of two at the same time one sees it.

use baton_core::id::Tenant;
use baton_core::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::row::{checksum, listed};
use super::tree::name;
use super::{Db, PgStore, keys};
use crate::error::StoreError;
use crate::record;
use crate::service::{AuditEvent, NewKey, OUTBOX_COUNTED, Outgoing};

/// The oldest unsent events after a number.
pub(super) const UNSENT: &str = "SELECT n, tenant, at, correlation, kind, source, payload, crc FROM outbox
    WHERE send AND n > $2 ORDER BY n LIMIT $1";

/// The oldest unsent events of all tenants but some.
pub(super) const UNSENT_BESIDE: &str =
    "SELECT n, tenant, at, correlation, kind, source, payload, crc FROM outbox
    WHERE send AND tenant <> ALL($2) ORDER BY n LIMIT $1";

/// The number of unsent events, counted up to a limit.
pub(super) const DEPTH: &str = "SELECT count(*) FROM (SELECT 1 FROM outbox WHERE send LIMIT $1) u";

/// The unsent events from before a moment, and the oldest of those beyond the size limit.
const TOO_MUCH: &str = "SELECT n FROM (
      SELECT n, at, sum(octet_length(payload)) OVER (ORDER BY n DESC) AS bytes FROM outbox WHERE send) u
    WHERE at < $1 OR bytes > $2::bigint";

impl PgStore {
    pub(crate) async fn receive(
        &self,
        tenant: &Tenant,
        event: AuditEvent,
        key: Option<NewKey>,
    ) -> Result<bool, StoreError> {
        let tenant = tenant.clone();
        let event = AuditEvent { send: false, ..event };
        self.write(move |db| {
            Box::pin(async move {
                if let Some(key) = &key
                    && keys::take(db, &tenant, key, (None, None), event.at).await?.is_some()
                {
                    return Ok(false);
                }
                note(db, &tenant, &event, true).await?;
                Ok(true)
            })
        })
        .await
    }

    pub(crate) async fn outbox(&self, after: i64, limit: u32) -> Result<Vec<Outgoing>, StoreError> {
        let mut out = Vec::new();
        for row in self.at_leisure().rows(UNSENT, &[&i64::from(limit), &after]).await? {
            out.extend(listed(outgoing(&row))?);
        }
        Ok(out)
    }

    pub(crate) async fn outbox_beside(
        &self,
        tenants: &[Tenant],
        limit: u32,
    ) -> Result<Vec<Outgoing>, StoreError> {
        let tenants: Vec<&str> = tenants.iter().map(Tenant::as_str).collect();
        let mut out = Vec::new();
        for row in self.at_leisure().rows(UNSENT_BESIDE, &[&i64::from(limit), &tenants]).await? {
            out.extend(listed(outgoing(&row))?);
        }
        Ok(out)
    }

    pub(crate) async fn outbox_depth(&self) -> Result<u64, StoreError> {
        let row = self.at_leisure().one(DEPTH, &[&i64::from(OUTBOX_COUNTED)]).await?;
        Ok(row.map_or(Ok(0), |row| row.try_get::<_, i64>(0))? as u64)
    }

    pub(crate) async fn sent(&self, numbers: &[i64]) -> Result<(), StoreError> {
        let numbers = numbers.to_vec();
        self.write(move |db| Box::pin(async move { no_longer_sent(db, &numbers).await.map(drop) })).await
    }

    pub(crate) async fn trim_outbox(
        &self,
        before: Timestamp,
        most_bytes: u64,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let most_bytes = i64::try_from(most_bytes).unwrap_or(i64::MAX);
        self.at_leisure()
            .write(move |db| {
                Box::pin(async move {
                    let statement = db.prepare_cached(TOO_MUCH).await?;
                    let rows = db.query(&statement, &[&before.0, &most_bytes]).await?;
                    let numbers: Vec<i64> =
                        rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
                    // Another process may have sent one of them meanwhile.
                    let count = no_longer_sent(db, &numbers).await?;
                    if count > 0 {
                        note(db, &Tenant::local(), &AuditEvent::dropped(count, now), false).await?;
                    }
                    Ok(count)
                })
            })
            .await
    }
}

/// Stores an event; `external` if it came from outside.
async fn note(db: &Db<'_>, tenant: &Tenant, event: &AuditEvent, external: bool) -> Result<(), StoreError> {
    let sql = "INSERT INTO outbox(tenant, correlation, at, kind, source, payload, crc, send, external)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    let (payload, crc) = record::encode(&event.payload)?;
    let AuditEvent { at, correlation, kind, source, send, .. } = event;
    let values: [&(dyn ToSql + Sync); 9] =
        [&tenant.as_str(), correlation, &at.0, kind, source, &payload, &i64::from(crc), send, &external];
    db.execute(&db.prepare_cached(sql).await?, &values).await?;
    Ok(())
}

/// Stores an event of this service, if there is one.
pub(super) async fn note_ours(
    db: &Db<'_>,
    tenant: &Tenant,
    event: Option<&AuditEvent>,
) -> Result<(), StoreError> {
    match event {
        Some(event) => note(db, tenant, event, false).await,
        None => Ok(()),
    }
}

fn outgoing(row: &Row) -> Result<Outgoing, StoreError> {
    let n: i64 = row.try_get(0)?;
    let event = AuditEvent {
        at: Timestamp(row.try_get(2)?),
        correlation: row.try_get(3)?,
        kind: row.try_get(4)?,
        source: row.try_get(5)?,
        payload: record::decode("event", n, row.try_get(6)?, checksum(row, 7)?)?,
        send: true,
    };
    Ok(Outgoing { n, tenant: name("tenant", row.try_get(1)?)?, event })
}

/// Marks events as sent or dropped; returns how many were unsent before.
async fn no_longer_sent(db: &Db<'_>, numbers: &[i64]) -> Result<u64, StoreError> {
    let sql = "UPDATE outbox SET send = false WHERE n = ANY($1) AND send";
    let changed = db.execute(&db.prepare_cached(sql).await?, &[&numbers]).await?;
    remove_done(db, numbers).await?;
    Ok(changed)
}

/// Removes those events that are sealed and need not be sent any more.
pub(super) async fn remove_done(db: &Db<'_>, numbers: &[i64]) -> Result<(), StoreError> {
    let sql = "DELETE FROM outbox WHERE n = ANY($1) AND sealed AND NOT send";
    db.execute(&db.prepare_cached(sql).await?, &[&numbers]).await?;
    Ok(())
}
