//! Finds the place of an entry in its thread, and the entry at a place.

use baton_core::id::{EntryId, Tenant, ThreadId};
use baton_core::thread::Place;
use tokio_postgres::types::ToSql;

use super::Db;
use super::tree::{lane, stored};
use crate::error::StoreError;

/// The place of an entry. Ids grow with time, so each lane is searched by halving, however long the thread is.
pub(super) const PLACE: &str = "WITH RECURSIVE l(lane) AS (
      SELECT 0 UNION ALL SELECT lane FROM lanes WHERE tenant = $1 AND thread = $2),
    h(lane, below, above) AS (
      SELECT l.lane, f.idx - 1, t.idx + 1 FROM l
      CROSS JOIN LATERAL (SELECT idx FROM entries WHERE tenant = $1 AND thread = $2 AND entries.lane = l.lane
        ORDER BY idx LIMIT 1) f
      CROSS JOIN LATERAL (SELECT idx FROM entries WHERE tenant = $1 AND thread = $2 AND entries.lane = l.lane
        ORDER BY idx DESC LIMIT 1) t
      UNION ALL
      SELECT h.lane, CASE WHEN m.is_before THEN (h.below + h.above) / 2 ELSE h.below END,
        CASE WHEN m.is_before THEN h.above ELSE (h.below + h.above) / 2 END
      FROM h CROSS JOIN LATERAL (SELECT coalesce((
          SELECT id FROM entries WHERE tenant = $1 AND thread = $2 AND entries.lane = h.lane
            AND idx = (h.below + h.above) / 2 LIMIT 1) <= $3, false) AS is_before) m
      WHERE h.above - h.below > 1)
    SELECT e.lane, e.idx FROM h CROSS JOIN LATERAL (
      SELECT lane, idx, id FROM entries WHERE tenant = $1 AND thread = $2 AND entries.lane = h.lane
        AND idx = h.below LIMIT 1) e
    WHERE h.above - h.below = 1 AND e.id = $3 LIMIT 1";
/// Like [`PLACE`], for entries whose ids were given by another program and are in no order.
const PLACE_BY_SCAN: &str =
    "SELECT lane, idx FROM entries WHERE tenant = $1 AND thread = $2 AND id = $3 LIMIT 1";

pub(super) async fn place_of(
    db: &Db<'_>,
    tenant: &Tenant,
    thread: &ThreadId,
    entry: EntryId,
) -> Result<Option<Place>, StoreError> {
    for sql in [PLACE, PLACE_BY_SCAN] {
        let statement = db.prepare_cached(sql).await?;
        if let Some(row) = db.query_opt(&statement, &[&tenant.as_str(), &thread.as_str(), &entry.0]).await? {
            return Ok(Some(Place { lane: lane(&row, 0)?, index: row.try_get(1)? }));
        }
    }
    Ok(None)
}

pub(super) async fn entry_at(
    db: &Db<'_>,
    tenant: &Tenant,
    thread: &ThreadId,
    place: Place,
) -> Result<Option<EntryId>, StoreError> {
    let sql = "SELECT id FROM entries WHERE tenant = $1 AND thread = $2 AND lane = $3 AND idx = $4";
    let values: [&(dyn ToSql + Sync); 4] =
        [&tenant.as_str(), &thread.as_str(), &stored(place.lane), &place.index];
    let found = db.query_opt(&db.prepare_cached(sql).await?, &values).await?;
    found.map(|row| Ok(EntryId(row.try_get(0)?))).transpose()
}
