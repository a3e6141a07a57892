//! Outgoing events in SQLite: written in the same transaction as the change that they report, sent and sealed later.
//!
//! A row is removed when both are done, in either order.

use baton_core::id::Tenant;
use baton_core::time::Timestamp;
use rusqlite::{Connection, Row, params};

use super::{SqliteStore, keys, read};
use crate::error::StoreError;
use crate::record;
use crate::service::{AuditEvent, NewKey, OUTBOX_COUNTED, Outgoing, RESTED};

/// An event as bytes: encoded and digested before the writer's thread sees it.
pub(super) struct SqliteEvent {
    at: i64,
    correlation: String,
    kind: String,
    source: String,
    digest: String,
    body: (Vec<u8>, u32),
    send: bool,
    external: bool,
}

impl SqliteEvent {
    pub(super) fn new(event: &AuditEvent) -> Result<SqliteEvent, StoreError> {
        Ok(SqliteEvent {
            at: event.at.0,
            correlation: event.correlation.clone(),
            kind: event.kind.clone(),
            source: event.source.clone(),
            digest: event.digest(),
            body: record::encode(&event.payload)?,
            send: event.send,
            external: false,
        })
    }

    /// Packs an event, if there is one.
    pub(super) fn all(event: Option<AuditEvent>) -> Result<Vec<SqliteEvent>, StoreError> {
        event.iter().map(SqliteEvent::new).collect()
    }

    /// Packs an event that came from outside, and that is not sent on.
    fn received(event: &AuditEvent) -> Result<SqliteEvent, StoreError> {
        Ok(SqliteEvent { send: false, external: true, ..SqliteEvent::new(event)? })
    }
}

impl SqliteStore {
    pub(crate) async fn receive(
        &self,
        tenant: &Tenant,
        event: AuditEvent,
        key: Option<NewKey>,
    ) -> Result<bool, StoreError> {
        let (tenant, at) = (tenant.clone(), event.at);
        let packed = SqliteEvent::received(&event)?;
        self.write(move |db| {
            match keys::unused(db, &tenant, key.as_ref(), at) {
                Err(StoreError::KeyUsed(_)) => return Ok(false),
                other => other?,
            }
            if let Some(key) = &key {
                keys::note(db, &tenant, key, None, None)?;
            }
            note(db, &tenant, &packed)?;
            Ok(true)
        })
        .await
    }

    pub(crate) async fn outbox(&self, after: i64, limit: u32) -> Result<Vec<Outgoing>, StoreError> {
        self.read(move |db| {
            let sql = "SELECT n, tenant, at, correlation, kind, source, body, crc FROM outbox
                       WHERE send = 1 AND n > ?1 ORDER BY n LIMIT ?2";
            let mut statement = db.prepare_cached(sql)?;
            let mut rows = statement.query((after, limit))?;
            let mut out = Vec::new();
            while let Some(row) = rows.next()? {
                out.extend(read::listed(outgoing(row))?);
            }
            Ok(out)
        })
        .await
    }

    pub(crate) async fn outbox_beside(
        &self,
        tenants: &[Tenant],
        limit: u32,
    ) -> Result<Vec<Outgoing>, StoreError> {
        let tenants: Vec<&str> = tenants.iter().map(Tenant::as_str).collect();
        let tenants = serde_json::Value::from(tenants).to_string();
        self.read(move |db| {
            let sql = "SELECT n, tenant, at, correlation, kind, source, body, crc FROM outbox
                       WHERE send = 1 AND tenant NOT IN (SELECT value FROM json_each(?1)) ORDER BY n LIMIT ?2";
            let mut statement = db.prepare_cached(sql)?;
            let mut rows = statement.query((tenants, limit))?;
            let mut out = Vec::new();
            while let Some(row) = rows.next()? {
                out.extend(read::listed(outgoing(row))?);
            }
            Ok(out)
        })
        .await
    }

    pub(crate) async fn outbox_depth(&self) -> Result<u64, StoreError> {
        self.read(|db| {
            let sql = "SELECT count(*) FROM (SELECT 1 FROM outbox WHERE send = 1 LIMIT ?1)";
            let depth: i64 = db.prepare_cached(sql)?.query_row([OUTBOX_COUNTED], |row| row.get(0))?;
            Ok(depth as u64)
        })
        .await
    }

    pub(crate) async fn sent(&self, numbers: &[i64]) -> Result<(), StoreError> {
        let numbers = numbers.to_vec();
        self.write(move |db| no_longer_sent(db, &numbers)).await.map(|_| ())
    }

    pub(crate) async fn trim_outbox(
        &self,
        before: Timestamp,
        most_bytes: u64,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        // This reads all waiting events, which may be many, so it does not run on the writer's thread.
        let dropped = self.read(move |db| too_much(db, before, most_bytes)).await?;
        if dropped.is_empty() {
            return Ok(0);
        }
        self.write(move |db| {
            let count = no_longer_sent(db, &dropped)?;
            if count > 0 {
                note(db, &Tenant::local(), &SqliteEvent::new(&AuditEvent::dropped(count, now))?)?;
            }
            Ok(count)
        })
        .await
    }
}

/// Stores an event.
pub(super) fn note(db: &Connection, tenant: &Tenant, event: &SqliteEvent) -> Result<(), StoreError> {
    let sql = "INSERT INTO outbox(n, tenant, at, correlation, kind, source, digest, send, bytes, body, crc, external)
               VALUES (1 + max((SELECT coalesce(max(n), 0) FROM outbox), (SELECT sealed FROM chain)),
                 ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    let SqliteEvent { at, correlation, kind, source, digest, body: (body, crc), send, external } = event;
    db.prepare_cached(sql)?.execute(params![
        tenant.as_str(),
        at,
        correlation,
        kind,
        source,
        digest,
        send,
        body.len() as i64,
        body,
        crc,
        external,
    ])?;
    Ok(())
}

/// Stores events, in this order.
pub(super) fn note_all(db: &Connection, tenant: &Tenant, events: &[SqliteEvent]) -> Result<(), StoreError> {
    events.iter().try_for_each(|event| note(db, tenant, event))
}

fn outgoing(row: &Row<'_>) -> Result<Outgoing, StoreError> {
    let n: i64 = row.get(0)?;
    let (body, crc): (Vec<u8>, u32) = (row.get(6)?, row.get(7)?);
    let event = AuditEvent {
        at: Timestamp(row.get(2)?),
        correlation: row.get(3)?,
        kind: row.get(4)?,
        source: row.get(5)?,
        payload: record::decode("event", n, &body, crc)?,
        send: true,
    };
    Ok(Outgoing { n, tenant: read::name("tenant", row.get(1)?)?, event })
}

/// Marks events as sent or dropped, and removes those that are in the chain as well, unless the tool calls of their run
/// are not in the trail yet. Returns how many were still to be sent.
fn no_longer_sent(db: &Connection, numbers: &[i64]) -> Result<u64, StoreError> {
    let (sealed, told) = (super::audit::sealed(db)?, super::calls::told_up_to(db)?);
    let gone = format!("DELETE FROM outbox WHERE n = ?1 AND send = 1 AND (n <= ?2 OR NOT ({RESTED}))");
    let mut gone = db.prepare_cached(&gone)?;
    let mut unsent = db.prepare_cached("UPDATE outbox SET send = 0 WHERE n = ?1 AND send = 1")?;
    let mut count = 0;
    for n in numbers {
        let is_gone = *n <= sealed && gone.execute([*n, told])? > 0;
        count += if is_gone { 1 } else { unsent.execute([n])? };
    }
    Ok(count as u64)
}

/// The unsent events from before a moment, and the oldest of those beyond the size limit. Read from an index alone, the
/// newest first.
fn too_much(db: &Connection, before: Timestamp, most_bytes: u64) -> Result<Vec<i64>, StoreError> {
    let mut statement =
        db.prepare_cached("SELECT n, at, bytes FROM outbox WHERE send = 1 ORDER BY n DESC")?;
    let mut rows = statement.query([])?;
    let (mut bytes, mut out) = (0_u64, Vec::new());
    while let Some(row) = rows.next()? {
        bytes = bytes.saturating_add(row.get::<_, i64>(2)? as u64);
        if bytes > most_bytes || row.get::<_, i64>(1)? < before.0 {
            out.push(row.get(0)?);
        }
    }
    Ok(out)
}
