//! Where untrusted content begins in each lane, so that nobody has to read entries to know.
//!
//! A row is written together with the first such entry of its lane, and removed together with it. What the
//! rows mean for a branch is part of the statement that reads its end ([`super::entries`]).

use baton_core::id::{Tenant, ThreadId};
use baton_core::thread::Place;

use super::Db;
use super::tree::stored;
use crate::error::StoreError;

/// Takes note of an untrusted entry that was just appended; only the first one of a lane counts.
pub(crate) async fn note(
    db: &Db<'_>,
    tenant: &Tenant,
    thread: &ThreadId,
    place: Place,
) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO untrusted(tenant, thread, lane, idx) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
    let statement = db.prepare_cached(sql).await?;
    let lane = stored(place.lane);
    db.execute(&statement, &[&tenant.as_str(), &thread.as_str(), &lane, &place.index]).await?;
    Ok(())
}
