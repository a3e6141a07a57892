//! One SQLite file for any number of processes on one machine.
//!
//! The database runs in WAL mode with `synchronous=FULL`: every acknowledged write survives power loss. One thread of
//! each process writes, and commits all queued writes together (one transaction and one fsync for all); a pair of file
//! locks keeps the writers of several processes fair. Readers have connections of their own.

mod advance;
mod approvals;
mod audit;
mod branches;
mod calls;
mod claim;
mod due;
mod gc;
mod keys;
mod listing;
mod marks;
mod migrate;
mod outbox;
mod place;
mod prune;
mod queue;
mod read;
mod reading;
mod runs;
mod size;
mod start;
mod threads;
mod tokens;
mod untrusted;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use baton_core::id::{OwnerId, Tenant};
use baton_core::time::Timestamp;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use crate::error::StoreError;
use crate::live::{self, LifeLock};
use crate::seen_set::SeenSet;
pub use migrate::OpenError;
use reading::Access;
use writer::SqliteWriter;

/// How many reader connections stay open between reads.
const IDLE_READERS: usize = 4;

/// The store in a SQLite file; see the module.
#[derive(Debug, Clone)]
pub struct SqliteStore {
    shared: Arc<SqliteShared>,
}

#[derive(Debug)]
struct SqliteShared {
    folder: PathBuf,
    writing: Writing,
    readers: Mutex<Vec<Connection>>,
    /// Definitions that are known to be stored, so that a start need not write them again.
    definitions: SeenSet<(Tenant, String)>,
}

/// The way in which a store is written to.
#[derive(Debug)]
enum Writing {
    /// By the writer's thread.
    By(SqliteWriter),
    /// Not at all: the way of reading, and the error of every write.
    Never(Access, StoreError),
}

/// A store that was just opened, and the result of opening it.
#[derive(Debug)]
pub struct Opened {
    /// The store.
    pub store: SqliteStore,
    /// The backup copy that was made before an upgrade, if there was one.
    pub backup: Option<PathBuf>,
}

impl SqliteStore {
    /// Opens the store of a folder, which is created if it does not exist.
    pub fn open(folder: &Path) -> Result<Opened, OpenError> {
        live::private_folder(folder)?;
        live::private_folder(&folder.join("live"))?;
        let backup = migrate::bring_up_to_date(folder)?;
        let writer = SqliteWriter::begin(connect(&database(folder))?, folder)?;
        Ok(Opened { store: SqliteStore::of(folder, Writing::By(writer)), backup })
    }

    /// Opens the store of a folder that cannot be written to. Nothing is created or changed there, and every write
    /// fails with `refusal`. No owner in this process can hold any of its runs.
    pub fn open_to_read(folder: &Path, refusal: StoreError) -> Result<SqliteStore, OpenError> {
        Ok(SqliteStore::of(folder, Writing::Never(Access::find(folder)?, refusal)))
    }

    fn of(folder: &Path, writing: Writing) -> SqliteStore {
        let (readers, definitions) = (Mutex::default(), SeenSet::default());
        SqliteStore {
            shared: Arc::new(SqliteShared { folder: folder.to_owned(), writing, readers, definitions }),
        }
    }

    /// Whether the store was opened for reading only.
    pub fn is_read_only(&self) -> bool {
        matches!(self.shared.writing, Writing::Never(..))
    }

    /// The folder of the store.
    pub fn folder(&self) -> &Path {
        &self.shared.folder
    }

    pub(crate) fn enlist(&self, owner: OwnerId) -> Result<LifeLock, StoreError> {
        LifeLock::take(&self.shared.folder, owner).map_err(|e| StoreError::Unavailable(e.to_string()))
    }

    #[cfg(feature = "failpoints")]
    pub(crate) fn bury(&self, owner: OwnerId) {
        live::bury(&self.shared.folder, owner);
    }

    pub(crate) fn is_alive(&self, owner: OwnerId) -> bool {
        live::is_alive(&self.shared.folder, owner)
    }

    /// Runs a write on the writer's thread; its result is returned after its commit.
    async fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        match &self.shared.writing {
            Writing::By(writer) => writer.run(job).await.map_err(|error| error.at(&self.shared.folder)),
            Writing::Never(_, refusal) => Err(refusal.clone()),
        }
    }

    /// Runs a read on a thread of its own.
    async fn read<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = self.shared.clone();
        let work = move || {
            let idle = shared.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let reader = match idle {
                Some(reader) => reader,
                None => shared.connect().map_err(|e| StoreError::Unavailable(e.to_string()))?,
            };
            // One snapshot for the whole job, so that all its reads are consistent.
            let result =
                reader.unchecked_transaction().map_err(StoreError::from).and_then(|_tx| job(&reader));
            let mut readers = shared.readers.lock().unwrap_or_else(PoisonError::into_inner);
            if readers.len() < IDLE_READERS {
                readers.push(reader);
            }
            result
        };
        // The task is owned by the runtime: a caller that goes away does not leave a read half done.
        tokio::task::spawn_blocking(work).await.map_err(|e| StoreError::Unavailable(e.to_string()))?
    }

    pub(crate) async fn put_blob(
        &self,
        tenant: &Tenant,
        hash: &str,
        bytes: Vec<u8>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let (tenant, hash) = (tenant.clone(), hash.to_owned());
        self.write(move |db| {
            let sql = "INSERT INTO blobs(tenant, hash, size, touched_at, body) VALUES (?1, ?2, ?3, ?4, ?5)
                       ON CONFLICT(tenant, hash) DO UPDATE SET touched_at = max(touched_at, excluded.touched_at)";
            let size = bytes.len() as i64;
            db.prepare_cached(sql)?.execute((tenant.as_str(), hash, size, at.0, bytes))?;
            Ok(())
        })
        .await
    }

    pub(crate) async fn blob(&self, tenant: &Tenant, hash: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let (tenant, hash) = (tenant.clone(), hash.to_owned());
        self.read(move |db| {
            let sql = "SELECT body FROM blobs WHERE tenant = ?1 AND hash = ?2";
            let body =
                db.prepare_cached(sql)?.query_row((tenant.as_str(), &hash), |row| row.get::<_, Vec<u8>>(0));
            let body = body.optional()?;
            match body {
                Some(bytes) if baton_core::json::sha256_hex(&bytes) != hash => {
                    Err(StoreError::corrupt("blob", hash, "its hash does not fit: the file was damaged"))
                }
                other => Ok(other),
            }
        })
        .await
    }
}

impl SqliteShared {
    /// Opens another reader connection.
    fn connect(&self) -> Result<Connection, OpenError> {
        match self.writing {
            Writing::By(_) => connect(&database(&self.folder)),
            Writing::Never(access, _) => access.connect(&self.folder),
        }
    }
}

/// The version of the linked SQLite.
pub fn sqlite_version() -> &'static str {
    rusqlite::version()
}

fn database(folder: &Path) -> PathBuf {
    folder.join("baton.db")
}

/// Opens a connection that waits for locks of others.
fn open(path: &Path) -> Result<Connection, OpenError> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    patient(&db)?;
    Ok(db)
}

/// Sets the time for which a connection waits for locks of others.
fn patient(db: &Connection) -> rusqlite::Result<()> {
    db.busy_timeout(std::time::Duration::from_secs(10))
}

/// Like [`open`], with all of our settings.
fn connect(path: &Path) -> Result<Connection, OpenError> {
    let db = open(path)?;
    // The page size of a new file. A transition has about 1,500 bytes: with pages of this size each commit writes half
    // as many.
    db.pragma_update(None, "page_size", 8192)?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "wal_autocheckpoint", writer::LONG_LOG)?;
    #[cfg(feature = "failpoints")]
    if let Some(pages) = crate::failpoint::most_pages() {
        db.pragma_update(None, "max_page_count", pages)?;
    }
    db.set_prepared_statement_cache_capacity(64);
    Ok(db)
}
