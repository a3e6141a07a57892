//! Finds the place of an entry in its thread.

use baton_core::id::{EntryId, Tenant, ThreadId};
use baton_core::thread::Place;
use rusqlite::{Connection, OptionalExtension, Row};

use super::read::Uuid16;
use crate::error::StoreError;

/// The place of an entry. Ids grow with time, so each lane is searched by halving, however long the thread is.
const PLACE: &str = "WITH RECURSIVE t(n) AS (SELECT n FROM threads WHERE tenant = ?1 AND thread = ?2),
    l(lane) AS (SELECT 0 UNION ALL SELECT lane FROM lanes WHERE tenant = ?1 AND thread = ?2),
    h(n, lane, below, above, is_before) AS (
      SELECT t.n, l.lane,
        (SELECT min(e.idx) FROM entries e WHERE e.thread = t.n AND e.lane = l.lane) - 1,
        (SELECT max(e.idx) FROM entries e WHERE e.thread = t.n AND e.lane = l.lane) + 1, NULL
      FROM t, l
      UNION ALL
      SELECT n, lane, iif(is_before, (below + above) / 2, below), iif(is_before, above, (below + above) / 2), NULL
      FROM h WHERE is_before IS NOT NULL
      UNION ALL
      SELECT n, lane, below, above, coalesce((
        SELECT e.id FROM entries e WHERE e.thread = h.n AND e.lane = h.lane AND e.idx = (h.below + h.above) / 2
        ) <= ?3, 0)
      FROM h WHERE is_before IS NULL AND above - below > 1)
    SELECT e.lane, e.idx FROM h CROSS JOIN entries e ON e.thread = h.n AND e.lane = h.lane AND e.idx = h.below
    WHERE h.above - h.below = 1 AND e.id = ?3 LIMIT 1";
/// Like [`PLACE`], for entries whose ids were given by another program and are in no order.
const PLACE_BY_SCAN: &str = "SELECT lane, idx FROM entries
    WHERE thread = (SELECT n FROM threads WHERE tenant = ?1 AND thread = ?2) AND id = ?3 LIMIT 1";

pub(super) fn place_of(
    db: &Connection,
    tenant: &Tenant,
    thread: &ThreadId,
    entry: EntryId,
) -> Result<Option<Place>, StoreError> {
    let key = (tenant.as_str(), thread.as_str(), Uuid16(entry.0));
    for sql in [PLACE, PLACE_BY_SCAN] {
        let place = |row: &Row<'_>| Ok(Place { lane: row.get(0)?, index: row.get(1)? });
        let found = db.prepare_cached(sql)?.query_row(key, place).optional()?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}
