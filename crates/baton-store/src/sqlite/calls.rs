//! The queue of runs whose tool calls are not in the audit trail yet, in SQLite.
//!
//! The events that suspended or ended them stay in the outbox, in the order in which they were sealed. The position in
//! this queue is a number in `meta`, because an event that is also to be sent may stay longer.

use baton_core::id::{RunId, Tenant, ThreadId};
use baton_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::outbox::{self, SqliteEvent};
use super::read::{self, Uuid16};
use super::{SqliteStore, keys};
use crate::error::StoreError;
use crate::failpoint;
use crate::service::{
    AuditEvent, CALLS_ROUTE, DerivedCalls, NewKey, RESTED, RestedPage, RestedRun, rests, run_of,
};

/// The key in `meta` of the number of the last event whose run was read.
const TOLD: &str = "told";

impl SqliteStore {
    pub(crate) async fn tell(&self, tenant: &Tenant, event: AuditEvent) -> Result<(), StoreError> {
        let (tenant, event) = (tenant.clone(), SqliteEvent::new(&event)?);
        self.write(move |db| outbox::note(db, &tenant, &event)).await
    }

    pub(crate) async fn rested_runs(&self, limit: u32) -> Result<RestedPage, StoreError> {
        self.read(move |db| rested(db, limit)).await
    }

    pub(crate) async fn add_calls(
        &self,
        page: &RestedPage,
        derived: DerivedCalls,
    ) -> Result<bool, StoreError> {
        let Some(last) = page.numbers.last().copied() else { return Ok(false) };
        let (from, told) = (page.from, derived.told);
        let pack = |(tenant, event): &(Tenant, AuditEvent)| Ok((tenant.clone(), SqliteEvent::new(event)?));
        let events = derived.events.iter().map(pack).collect::<Result<Vec<_>, StoreError>>()?;
        self.write(move |db| {
            if told_up_to(db)? != from {
                return Ok(false);
            }
            events.iter().try_for_each(|(tenant, event)| outbox::note(db, tenant, event))?;
            told.iter().try_for_each(|(tenant, run, step)| note_told(db, tenant, *run, *step))?;
            failpoint::point("calls.mid");
            let sql = format!("DELETE FROM outbox WHERE n > ?1 AND n <= ?2 AND send = 0 AND {RESTED}");
            db.prepare_cached(&sql)?.execute((from, last))?;
            let sql = "INSERT OR REPLACE INTO meta(key, value) VALUES (?1, ?2)";
            db.prepare_cached(sql)?.execute((TOLD, last.to_string()))?;
            Ok(true)
        })
        .await
    }
}

/// The number of the last event whose run was read.
pub(super) fn told_up_to(db: &Connection) -> Result<i64, StoreError> {
    let sql = "SELECT CAST(value AS INTEGER) FROM meta WHERE key = ?1";
    Ok(db.prepare_cached(sql)?.query_row([TOLD], |row| row.get(0)).optional()?.unwrap_or_default())
}

fn rested(db: &Connection, limit: u32) -> Result<RestedPage, StoreError> {
    let mut page = RestedPage { from: told_up_to(db)?, ..RestedPage::default() };
    let sql = format!(
        "SELECT n, tenant, kind, body, crc FROM outbox
         WHERE n > ?1 AND n <= (SELECT sealed FROM chain) AND {RESTED} ORDER BY n LIMIT ?2"
    );
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query((page.from, limit))?;
    while let Some(row) = rows.next()? {
        let (n, kind, body): (i64, String, Vec<u8>) = (row.get(0)?, row.get(2)?, row.get(3)?);
        page.numbers.push(n);
        let tenant = read::name("tenant", row.get(1)?);
        let whose = tenant.and_then(|tenant| Ok((tenant, run_of(n, &body, row.get(4)?)?)));
        if let Some((tenant, run)) = read::listed(whose)? {
            page.runs.push(rested_run(db, tenant, run, rests(&kind) == Some(true))?);
        }
    }
    Ok(page)
}

fn rested_run(db: &Connection, tenant: Tenant, run: RunId, has_ended: bool) -> Result<RestedRun, StoreError> {
    let sql = "SELECT definition, EXISTS (
                   SELECT 1 FROM approvals a WHERE a.tenant = ?1 AND a.run = ?2 AND a.status = 'edited'),
                 (SELECT CAST(body_hash AS INTEGER) FROM keys WHERE tenant = ?1 AND route = ?3 AND key = ?4)
               FROM runs WHERE tenant = ?1 AND run = ?2";
    let values = params![tenant.as_str(), Uuid16(run.0), CALLS_ROUTE, run.to_string()];
    let found = db.prepare_cached(sql)?.query_row(values, |row| {
        Ok((row.get(0)?, row.get(1)?, row.get::<_, Option<u32>>(2)?.unwrap_or_default()))
    });
    let (definition, was_edited, after) = match found.optional()? {
        Some((definition, was_edited, after)) => (Some(definition), was_edited, after),
        None => (None, false, 0),
    };
    Ok(RestedRun { tenant, run, has_ended, definition, was_edited, after })
}

/// Stores the step up to which the calls of a run are in the trail, until it has ended.
fn note_told(db: &Connection, tenant: &Tenant, run: RunId, step: Option<u32>) -> Result<(), StoreError> {
    let (route, key) = (CALLS_ROUTE.to_owned(), run.to_string());
    match step {
        Some(step) => {
            let new = NewKey { route, key, body_hash: step.to_string(), expires_at: Timestamp(i64::MAX) };
            keys::note(db, tenant, &new, None, None)
        }
        None => {
            let sql = "DELETE FROM keys WHERE tenant = ?1 AND route = ?2 AND key = ?3";
            db.prepare_cached(sql)?.execute((tenant.as_str(), route, key))?;
            Ok(())
        }
    }
}

/// Suspended and ended runs whose calls are not in the trail yet, even if their event is not in the chain yet. There
/// are few of them, because the others were removed from the queue.
pub(super) fn untold(db: &Connection) -> Result<Vec<(Tenant, RunId)>, StoreError> {
    let sql = format!("SELECT n, tenant, body, crc FROM outbox WHERE n > ?1 AND {RESTED}");
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query([told_up_to(db)?])?;
    let mut out = Vec::new();
    while let Some(row) = rows.next()? {
        let body: Vec<u8> = row.get(2)?;
        let tenant = read::name("tenant", row.get(1)?);
        out.extend(read::listed(tenant.and_then(|it| Ok((it, run_of(row.get(0)?, &body, row.get(3)?)?))))?);
    }
    Ok(out)
}

/// Whether one of those runs is on a thread.
pub(super) fn has_untold(db: &Connection, tenant: &Tenant, thread: &ThreadId) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM runs WHERE tenant = ?1 AND run = ?2 AND thread = ?3";
    let mut statement = db.prepare_cached(sql)?;
    for (_, run) in untold(db)?.into_iter().filter(|(of, _)| of == tenant) {
        if statement.exists((tenant.as_str(), Uuid16(run.0), thread.as_str()))? {
            return Ok(true);
        }
    }
    Ok(false)
}
