//! Lanes: how much of the pool's connections a kind of work may take.
//!
//! Claims, cancels, decisions and the questions around them are soon done and must not wait for what may take long. So
//! lists and clearances have at most half of the connections, and together with reads of content (entries, logs, long
//! outputs) at most three quarters; the rest is left to what is prompt, which may also take all that nobody uses.

use std::time::Duration;

use deadpool_postgres::Object;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::connect::WAIT;
use super::{PgStore, Shared, fault};
use crate::error::StoreError;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// What is soon done, and what a run or a person waits for.
    Prompt,
    /// What was said and done, of any length.
    Content,
    /// Lists, sums, and what is thrown away.
    Leisure,
}

/// The places of the lanes that are bounded.
pub(super) struct Lanes {
    /// Everything that is not prompt has one of these.
    content: Semaphore,
    /// What is done at leisure has one of these, too.
    leisure: Semaphore,
}

/// What is given back when a connection is.
pub(super) type Places<'a> = (Option<SemaphorePermit<'a>>, Option<SemaphorePermit<'a>>);

impl Lanes {
    /// Of a pool of so many connections.
    pub(super) fn of(connections: usize) -> Lanes {
        let semaphore = |places: usize| Semaphore::new(places.max(1));
        Lanes { content: semaphore(connections * 3 / 4), leisure: semaphore(connections / 2) }
    }

    async fn places(&self, lane: Lane) -> Result<Places<'_>, StoreError> {
        // Always in this order, so that nobody waits in a circle.
        let leisure = match lane {
            Lane::Leisure => Some(place(&self.leisure, WAIT).await?),
            Lane::Prompt | Lane::Content => None,
        };
        let content = match lane {
            Lane::Content | Lane::Leisure => Some(place(&self.content, WAIT).await?),
            Lane::Prompt => None,
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

impl Shared {
    /// A connection, and what has to be kept for as long as it is used.
    pub(super) async fn connection(&self, lane: Lane) -> Result<(Object, Places<'_>), StoreError> {
        let places = self.lanes.places(lane).await?;
        let connection = self.pool.get().await.map_err(|error| fault::no_connection(&error))?;
        Ok((connection, places))
    }
}

impl PgStore {
    /// The same store, for lists, sums, and what is thrown away.
    pub(super) fn at_leisure(&self) -> PgStore {
        PgStore { shared: self.shared.clone(), lane: Lane::Leisure }
    }

    /// The same store, for what was said and done.
    pub(super) fn for_content(&self) -> PgStore {
        PgStore { shared: self.shared.clone(), lane: Lane::Content }
    }
}
