//! Lanes: limits on the share of the pool that a kind of work may use.
//!
//! Claims, cancels, decisions and the reads around them are short and must not wait for long work. So lists and garbage
//! collection use at most half of the connections, and together with reads of content (entries, logs, long outputs) at
//! most three quarters; the rest is left to prompt work, which may use all idle connections.

use std::time::Duration;

use deadpool_postgres::Object;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::connect::WAIT;
use super::{PgShared, PgStore, fault};
use crate::error::StoreError;

/// The kind of work; see the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PoolLane {
    /// Short work that a run or a user waits for.
    Prompt,
    /// Reads of entries, logs and outputs, of any length.
    Content,
    /// Lists, sums and garbage collection.
    Leisure,
}

/// The semaphores of the limited lanes.
pub(super) struct PoolLanes {
    /// Permits of all work that is not prompt.
    content: Semaphore,
    /// Further permits, which work at leisure needs as well.
    leisure: Semaphore,
}

/// The permits of a connection, which are returned together with it.
pub(super) type Places<'a> = (Option<SemaphorePermit<'a>>, Option<SemaphorePermit<'a>>);

impl PoolLanes {
    /// The lanes of a pool with this many connections.
    pub(super) fn of(connections: usize) -> PoolLanes {
        let semaphore = |places: usize| Semaphore::new(places.max(1));
        PoolLanes { content: semaphore(connections * 3 / 4), leisure: semaphore(connections / 2) }
    }

    async fn places(&self, lane: PoolLane) -> Result<Places<'_>, StoreError> {
        // The order is always the same, so that no two callers wait for each other.
        let leisure = match lane {
            PoolLane::Leisure => Some(place(&self.leisure, WAIT).await?),
            PoolLane::Prompt | PoolLane::Content => None,
        };
        let content = match lane {
            PoolLane::Content | PoolLane::Leisure => Some(place(&self.content, WAIT).await?),
            PoolLane::Prompt => None,
        };
        Ok((leisure, content))
    }
}

async fn place(of: &Semaphore, longest: Duration) -> Result<SemaphorePermit<'_>, StoreError> {
    match timeout(longest, of.acquire()).await {
        Ok(Ok(place)) => Ok(place),
        _ => Err(StoreError::Unavailable("too much is being read from the database at once".to_owned())),
    }
}

impl PgShared {
    /// Takes a connection from the pool, with the permits that are held for as long as it is used.
    pub(super) async fn connection(&self, lane: PoolLane) -> Result<(Object, Places<'_>), StoreError> {
        let places = self.lanes.places(lane).await?;
        let connection = self.pool.get().await.map_err(|error| fault::no_connection(&error))?;
        Ok((connection, places))
    }
}

impl PgStore {
    /// The same store, in the lane of lists, sums and garbage collection.
    pub(super) fn at_leisure(&self) -> PgStore {
        PgStore { shared: self.shared.clone(), lane: PoolLane::Leisure }
    }

    /// The same store, in the lane of entries, logs and outputs.
    pub(super) fn for_content(&self) -> PgStore {
        PgStore { shared: self.shared.clone(), lane: PoolLane::Content }
    }
}
