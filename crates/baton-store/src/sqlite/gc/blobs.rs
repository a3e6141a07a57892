//! Removes long outputs that are no longer named anywhere.
//!
//! Entries may be compressed, so all of them have to be decoded to find the names in them. Readers do that page by
//! page, and stop as soon as every candidate was found to be named.

use baton_core::id::{RunId, Tenant, ThreadId};
use baton_core::time::Timestamp;
use rusqlite::{Connection, Row};

use super::{PAGE, SqliteDryRunRemovals};
use crate::error::StoreError;
use crate::record;
use crate::service::Unnamed;
use crate::sqlite::SqliteStore;
use crate::sqlite::read::{self, Uuid16};

/// The tables whose rows can name a blob: position, tenant, owner of the row, bytes and checksum.
#[derive(Debug, Clone, Copy)]
enum ScannedTable {
    Entries,
    Steps,
}

impl ScannedTable {
    fn sql(self) -> &'static str {
        match self {
            ScannedTable::Entries => {
                "SELECT e.rowid, t.tenant, t.thread, e.envelope, e.crc FROM entries e JOIN threads t ON t.n = e.thread
                 WHERE e.rowid > ?1 ORDER BY e.rowid LIMIT ?2"
            }
            ScannedTable::Steps => {
                "SELECT s.rowid, r.tenant, r.run, s.body, s.crc FROM steps s JOIN runs r ON r.n = s.run
                 WHERE s.rowid > ?1 ORDER BY s.rowid LIMIT ?2"
            }
        }
    }

    fn goes(self, tenant: &Tenant, row: &Row<'_>, doomed: &SqliteDryRunRemovals) -> Result<bool, StoreError> {
        Ok(match self {
            ScannedTable::Entries => {
                let thread: ThreadId = read::name("thread", row.get(2)?)?;
                doomed.threads.contains(&(tenant.clone(), thread))
            }
            ScannedTable::Steps => doomed.runs.contains(&(tenant.clone(), RunId(row.get::<_, Uuid16>(2)?.0))),
        })
    }

    fn plain(self, row: &Row<'_>) -> Result<Vec<u8>, String> {
        let bytes: Vec<u8> = row.get(3).map_err(|e| e.to_string())?;
        let crc: u32 = row.get(4).map_err(|e| e.to_string())?;
        let plain = record::plain(&bytes, crc)?;
        match self {
            ScannedTable::Entries => crate::envelope::plain(&plain),
            ScannedTable::Steps => Ok(plain.into_owned()),
        }
    }
}

impl SqliteStore {
    /// Removes blobs that were not touched since a moment and are not named; returns their number and their size in
    /// bytes.
    pub(super) async fn drop_blobs(
        &self,
        doomed: SqliteDryRunRemovals,
        before: Timestamp,
        dry: bool,
    ) -> Result<(u64, u64), StoreError> {
        let mut unnamed = self.read(move |db| untouched(db, before)).await?;
        let doomed = std::sync::Arc::new(doomed);
        for rows in [ScannedTable::Entries, ScannedTable::Steps] {
            let mut from = Some(0);
            while let (Some(place), false) = (from, unnamed.is_empty()) {
                let doomed = doomed.clone();
                (unnamed, from) = self.read(move |db| look_at(db, rows, place, unnamed, &doomed)).await?;
            }
        }
        if dry {
            return Ok(unnamed.count());
        }
        let (mut count, mut bytes) = (0, 0);
        let unnamed: Vec<_> = unnamed.into_keys().collect();
        for page in unnamed.chunks(PAGE).map(<[_]>::to_vec) {
            let removed = self.write(move |db| remove(db, &page, before)).await?;
            (count, bytes) = (count + removed.0, bytes + removed.1);
        }
        Ok((count, bytes))
    }
}

fn untouched(db: &Connection, before: Timestamp) -> Result<Unnamed, StoreError> {
    let mut statement = db.prepare_cached("SELECT tenant, hash, size FROM blobs WHERE touched_at < ?1")?;
    let mut rows = statement.query([before.0])?;
    let mut out = Unnamed::default();
    while let Some(row) = rows.next()? {
        if let Some(tenant) = read::listed(read::name("tenant", row.get(0)?))? {
            out.add(tenant, row.get(1)?, row.get::<_, i64>(2)? as u64);
        }
    }
    Ok(out)
}

/// Strikes out all candidates that a page of rows names; returns the position of the last row, if there is one.
fn look_at(
    db: &Connection,
    which: ScannedTable,
    from: i64,
    mut unnamed: Unnamed,
    doomed: &SqliteDryRunRemovals,
) -> Result<(Unnamed, Option<i64>), StoreError> {
    let mut statement = db.prepare_cached(which.sql())?;
    let mut rows = statement.query((from, PAGE as i64))?;
    let mut last = None;
    while let Some(row) = rows.next()? {
        last = Some(row.get(0)?);
        let Some(tenant) = read::listed(read::name("tenant", row.get(1)?))? else { continue };
        if !which.goes(&tenant, row, doomed)? {
            unnamed.saw(&tenant, which.plain(row));
        }
    }
    Ok((unnamed, last))
}

fn remove(db: &Connection, blobs: &[(Tenant, String)], before: Timestamp) -> Result<(u64, u64), StoreError> {
    let sql = "DELETE FROM blobs WHERE tenant = ?1 AND hash = ?2 AND touched_at < ?3 RETURNING size";
    let mut statement = db.prepare_cached(sql)?;
    let (mut count, mut bytes) = (0, 0);
    for (tenant, hash) in blobs {
        let mut rows = statement.query((tenant.as_str(), hash, before.0))?;
        while let Some(row) = rows.next()? {
            (count, bytes) = (count + 1, bytes + row.get::<_, i64>(0)? as u64);
        }
    }
    Ok((count, bytes))
}
