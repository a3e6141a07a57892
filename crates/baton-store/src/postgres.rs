//! The store in PostgreSQL, for any number of processes on any number of machines.
//!
//! An acknowledged write survives power loss: `synchronous_commit` is on, and a server with `fsync=off` is refused. The
//! hot writes (start, advance, post) are one statement each and go through [`group`]: queued writes are committed
//! together. Every other write is an ordinary transaction ([`PgStore::write`]), on a task of its own, so that a caller
//! that goes away never leaves a connection inside it. A read is one statement ([`PgStore::rows`]), which is one
//! snapshot and needs no transaction.
//!
//! The owner of runs has a lease, a row that it renews ([`lease`]); on its own machine the lock of a file shows sooner
//! that the owner is gone.

mod advance;
mod approvals;
mod audit;
mod beats;
mod blobs;
mod calls;
mod claim;
mod connect;
mod due;
mod entries;
mod fault;
mod gc;
mod group;
mod inbox;
mod keeper;
mod keys;
mod lanes;
mod lease;
mod marks;
mod migrate;
mod outbox;
mod pack;
mod place;
mod prune;
mod queue;
mod row;
mod runs;
mod several;
mod size;
mod start;
mod statement;
mod threads;
mod tls;
mod tokens;
mod tree;
mod untrusted;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use baton_core::id::Tenant;
use deadpool_postgres::{Object, Pool, Transaction};
use futures_util::future::BoxFuture;
use tokio::time::timeout;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::error::StoreError;
use crate::seen_set::SeenSet;
use connect::{ANSWER, Dial};
pub use fault::PgError;
use group::GroupCommit;
use lanes::{PoolLane, PoolLanes};
pub(crate) use lease::Lease;
use lease::LivenessView;

/// A transaction, inside [`PgStore::write`].
pub(crate) type Db<'a> = Transaction<'a>;

/// A value of a statement.
pub(crate) type Param<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// How a process uses the database.
#[derive(Debug, Clone)]
pub struct PgOptions {
    /// A private folder of this machine, for the lock files of owners.
    pub lock_folder: PathBuf,
    /// The length of a lease: how long an owner that is silent counts as alive.
    pub lease: Duration,
    /// The number of connections that write transitions.
    pub writers: usize,
    /// The number of connections for everything else.
    pub readers: usize,
}

impl PgOptions {
    /// The default lease and numbers of connections.
    pub fn new(lock_folder: impl Into<PathBuf>) -> PgOptions {
        PgOptions { lock_folder: lock_folder.into(), lease: Duration::from_secs(15), writers: 4, readers: 8 }
    }
}

/// The store in PostgreSQL; see the module.
#[derive(Debug, Clone)]
pub struct PgStore {
    shared: Arc<PgShared>,
    /// The share of the pool that the reads of this value may use.
    lane: PoolLane,
}

struct PgShared {
    dial: Dial,
    pool: Pool,
    lanes: PoolLanes,
    group: GroupCommit,
    liveness: LivenessView,
    options: PgOptions,
    /// Definitions that are known to be stored, so that a start need not write them again.
    definitions: SeenSet<(Tenant, String)>,
}

impl fmt::Debug for PgShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgShared").field("options", &self.options).finish_non_exhaustive()
    }
}

impl PgStore {
    /// Connects, refuses a server that cannot be trusted with data, and brings the tables up to date.
    pub async fn connect(url: &str, options: PgOptions) -> Result<PgStore, PgError> {
        let dial = Dial::read(url)?;
        let liveness = LivenessView::new(&options.lock_folder, options.lease)?;
        let (client, served) = dial.connect().await.map_err(PgError::Unreachable)?;
        connect::inspect(&client).await?;
        migrate::bring_up_to_date(&client).await?;
        drop(client);
        served.abort();
        let (pool, group) = (dial.pool(options.readers)?, GroupCommit::begin(&dial, options.writers));
        let lanes = PoolLanes::of(options.readers);
        let shared =
            PgShared { dial, pool, lanes, group, liveness, options, definitions: SeenSet::default() };
        Ok(PgStore { shared: Arc::new(shared), lane: PoolLane::Prompt })
    }

    /// Runs one transaction, committed if the job is `Ok`: then none of its statements may have failed.
    ///
    /// A commit whose answer is lost is [`StoreError::Ambiguous`]; any other failure wrote nothing.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        job: impl for<'a> FnOnce(&'a Db<'a>) -> BoxFuture<'a, Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (shared, lane) = (self.shared.clone(), self.lane);
        on_a_task(async move {
            let (mut connection, _places) = shared.connection(lane).await?;
            let work = async {
                let db = connection.transaction().await?;
                let value = job(&db).await?;
                Ok::<_, StoreError>((db, value))
            };
            let done = match timeout(ANSWER, work).await {
                Ok(Ok((db, value))) => match timeout(ANSWER, db.commit()).await {
                    Ok(committed) => return committed.map(|()| value).map_err(|e| fault::at_commit(&e)),
                    Err(_) => StoreError::Ambiguous(SILENT.to_owned()),
                },
                Ok(Err(error)) => return Err(error),
                Err(_) => StoreError::Unavailable(SILENT.to_owned()),
            };
            throw_away(connection);
            Err(done)
        })
        .await
    }

    /// Returns the rows of one statement that only reads, outside any transaction.
    pub(crate) async fn rows(
        &self,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let mut again = true;
        loop {
            let (connection, _places) = self.shared.connection(self.lane).await?;
            let work = async { connection.query(&connection.prepare_cached(sql).await?, values).await };
            let failed = match timeout(ANSWER, work).await {
                Ok(Ok(rows)) => return Ok(rows),
                Ok(Err(error)) if fault::is_certain(&error) => return Err(error.into()),
                Ok(Err(error)) => error.into(),
                Err(_) => StoreError::Unavailable(SILENT.to_owned()),
            };
            throw_away(connection);
            if !std::mem::take(&mut again) {
                return Err(failed);
            }
        }
    }

    /// Like [`PgStore::rows`], for a statement with one row at most.
    pub(crate) async fn one(
        &self,
        sql: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, StoreError> {
        Ok(self.rows(sql, values).await?.into_iter().next())
    }
}

const SILENT: &str = "the database did not answer in time";

/// Runs work on a task of its own, so that a caller that goes away leaves nothing half done.
async fn on_a_task<T: Send + 'static>(
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    let gone = |error: tokio::task::JoinError| StoreError::Unavailable(error.to_string());
    tokio::spawn(work).await.map_err(gone)?
}

/// Closes a connection whose state is not known.
fn throw_away(connection: Object) {
    drop(Object::take(connection));
}

#[cfg(test)]
mod tests;
