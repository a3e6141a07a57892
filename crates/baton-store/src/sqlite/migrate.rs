//! Migrations of a file to the newest version. A file of a newer version is refused.
//!
//! The version is `PRAGMA user_version`; each migration commits together with its number, so one that
//! was cut off starts again. Before the first change to a file with data, a copy is put beside it.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::live;
use super::{connect, database, open};
use crate::failpoint;
use crate::turnstile::{NoTurn, Turnstile};

/// The oldest SQLite without the fault that can lose pages when several connections write.
const OLDEST_SQLITE: i32 = 3_051_003;

/// All migrations: the version that each leads to, the Baton release that brought it, and its SQL.
const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "0.1.0", include_str!("../../migrations/0001_first.sql")),
    (2, "0.1.0", include_str!("../../migrations/0002_untrusted.sql")),
    (3, "0.1.0", include_str!("../../migrations/0003_service.sql")),
    (4, "0.1.0", include_str!("../../migrations/0004_fewer_pages.sql")),
    (5, "0.1.0", include_str!("../../migrations/0005_many_runs.sql")),
    (6, "0.1.0", include_str!("../../migrations/0006_private.sql")),
];

/// The reasons why a file cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A newer Baton wrote the file.
    #[error(
        "the data in {} is of format {found}, and this Baton ({}) knows up to {known}: use Baton {needs} or newer",
        folder.display(), env!("CARGO_PKG_VERSION")
    )]
    Newer {
        /// The folder of the file.
        folder: PathBuf,
        /// The version of the file.
        found: i64,
        /// The newest version that this build knows.
        known: i64,
        /// The Baton version that the file requires.
        needs: String,
    },
    /// An older Baton wrote the file, and it cannot be upgraded in place.
    #[error(
        "it is of format {found}, and this Baton reads {newest}: copy it to where it can be written to, which brings it up to date"
    )]
    Older {
        /// The version of the file.
        found: i64,
        /// The version that an upgrade would lead to.
        newest: i64,
    },
    /// The SQLite that was linked is too old.
    #[error("SQLite {0} is too old: 3.51.3 or newer is needed")]
    OldSqlite(&'static str),
    /// SQLite reported an error.
    #[error("the data file cannot be opened: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// Another process keeps all others from writing.
    #[error("the data file cannot be written to: {by}")]
    Blocked {
        /// The process, and since when.
        by: String,
        /// The advice for the user.
        hint: String,
    },
    /// The file system reported an error.
    #[error("the data folder cannot be used: {0}")]
    Io(#[from] io::Error),
}

impl OpenError {
    /// Whether the disk is full.
    pub fn is_full(&self) -> bool {
        match self {
            OpenError::Io(error) => error.kind() == io::ErrorKind::StorageFull,
            OpenError::Sqlite(error) => error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull),
            _ => false,
        }
    }

    /// Whether the folder or its disk cannot be written to, so that reading may still work.
    pub fn is_unwritable(&self) -> bool {
        use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem, StorageFull};
        use rusqlite::ErrorCode as Code;
        match self {
            OpenError::Io(error) => {
                matches!(error.kind(), ReadOnlyFilesystem | PermissionDenied | StorageFull)
            }
            OpenError::Sqlite(error) => matches!(
                error.sqlite_error_code(),
                Some(
                    Code::ReadOnly
                        | Code::CannotOpen
                        | Code::PermissionDenied
                        | Code::DiskFull
                        | Code::SystemIoFailure
                )
            ),
            _ => false,
        }
    }
}

impl From<NoTurn> for OpenError {
    fn from(error: NoTurn) -> Self {
        match error {
            NoTurn::Held(holder) => OpenError::Blocked { by: holder.to_string(), hint: holder.hint() },
            NoTurn::Io(error) => OpenError::Io(error),
        }
    }
}

/// Upgrades the file of a folder to the newest version; returns the path of the backup, if one was made.
pub(super) fn bring_up_to_date(folder: &Path) -> Result<Option<PathBuf>, OpenError> {
    if rusqlite::version_number() < OLDEST_SQLITE {
        return Err(OpenError::OldSqlite(rusqlite::version()));
    }
    let path = database(folder);
    live::private_file(&path)?;
    // A file that is up to date and has its log is opened without waiting for any process, even for one that was
    // stopped.
    if is_ready(&open(&path)?)? {
        return Ok(None);
    }
    let turnstile = Turnstile::open(folder)?;
    let _turn = turnstile.enter()?;
    let db = connect(&path)?;
    let (found, newest) = (version(&db)?, newest());
    if found > newest {
        return Err(newer(&db, folder, found));
    }
    if found == newest {
        return Ok(None);
    }
    let backup = if found > 0 { Some(copy_aside(&db, folder, found)?) } else { None };
    for (version, by, sql) in MIGRATIONS.iter().filter(|(version, ..)| *version > found) {
        let stamp = format!(
            "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
             INSERT OR REPLACE INTO meta VALUES ('needs', '{by}');
             PRAGMA user_version = {version};"
        );
        db.execute_batch("BEGIN IMMEDIATE")?;
        db.execute_batch(sql)?;
        failpoint::point("migrate.mid");
        db.execute_batch(&stamp)?;
        db.execute_batch("COMMIT")?;
    }
    Ok(backup)
}

fn newer(db: &Connection, folder: &Path, found: i64) -> OpenError {
    let needs = needed(db).unwrap_or_else(|| "of a later version".to_owned());
    OpenError::Newer { folder: folder.to_owned(), found, known: newest(), needs }
}

/// Refuses a file that could be read only after an upgrade.
pub(super) fn fits(db: &Connection, folder: &Path) -> Result<(), OpenError> {
    match version(db)? {
        found if found > newest() => Err(newer(db, folder, found)),
        found if found < newest() => Err(OpenError::Older { found, newest: newest() }),
        _ => Ok(()),
    }
}

/// Whether a file can be used as it is. One process at a time creates a missing log: SQLite refuses all but one of
/// those that try, and lets none of them wait.
fn is_ready(db: &Connection) -> Result<bool, rusqlite::Error> {
    let mode: String = db.pragma_query_value(None, "journal_mode", |row| row.get(0))?;
    Ok(mode == "wal" && version(db)? == newest())
}

fn newest() -> i64 {
    MIGRATIONS.last().map_or(0, |(version, ..)| *version)
}

fn version(db: &Connection) -> Result<i64, rusqlite::Error> {
    db.pragma_query_value(None, "user_version", |row| row.get(0))
}

fn needed(db: &Connection) -> Option<String> {
    db.query_row("SELECT value FROM meta WHERE key = 'needs'", [], |row| row.get(0)).ok()
}

fn copy_aside(db: &Connection, folder: &Path, found: i64) -> Result<PathBuf, OpenError> {
    let path = folder.join(format!("baton.db.format-{found}"));
    live::private_file(&path)?;
    let mut copy = Connection::open(&path)?;
    let copying = rusqlite::backup::Backup::new(db, &mut copy)?;
    copying.run_to_completion(1000, std::time::Duration::ZERO, None)?;
    drop(copying);
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SqliteStore;

    #[test]
    fn a_newer_file_is_refused_with_the_version_it_needs() {
        let folder = tempfile::tempdir().unwrap();
        live::private_folder(&folder.path().join("live")).unwrap();
        assert!(bring_up_to_date(folder.path()).unwrap().is_none(), "nothing to copy in a new folder");
        let db = connect(&database(folder.path())).unwrap();
        db.execute_batch("UPDATE meta SET value = '9.9.0'; PRAGMA user_version = 99").unwrap();
        let error = bring_up_to_date(folder.path()).unwrap_err().to_string();
        assert!(error.contains("format 99") && error.ends_with("use Baton 9.9.0 or newer"), "{error}");
    }

    #[test]
    fn an_older_file_is_copied_before_it_is_changed() {
        let folder = tempfile::tempdir().unwrap();
        let db = connect(&database(folder.path())).unwrap();
        db.execute_batch("CREATE TABLE old (x); INSERT INTO old VALUES (7); PRAGMA user_version = 0")
            .unwrap();
        let copy = copy_aside(&db, folder.path(), 0).unwrap();
        let value: i64 =
            Connection::open(&copy).unwrap().query_row("SELECT x FROM old", [], |r| r.get(0)).unwrap();
        assert_eq!((copy.file_name().unwrap().to_str(), value), (Some("baton.db.format-0"), 7));
    }

    /// Opens a folder from several threads at once; SQLite treats their connections as if they were of several
    /// processes.
    fn open_at_once(folder: &Path) {
        let barrier = std::sync::Barrier::new(6);
        std::thread::scope(|scope| {
            let opening = || {
                barrier.wait();
                SqliteStore::open(folder).map(|_| ())
            };
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(opening)).collect();
            for thread in threads {
                thread.join().unwrap().unwrap();
            }
        });
    }

    #[test]
    fn whoever_comes_first_nobody_is_turned_away() {
        for _ in 0..30 {
            let [new, restored] = [(); 2].map(|()| tempfile::tempdir().unwrap());
            open_at_once(new.path());
            let db = connect(&database(new.path())).unwrap();
            assert!(is_ready(&db).unwrap());
            let copy = database(restored.path());
            db.execute("VACUUM INTO ?1", [copy.to_str()]).unwrap();
            assert!(!is_ready(&open(&copy).unwrap()).unwrap(), "a copy has no log");
            open_at_once(restored.path());
            assert!(is_ready(&open(&copy).unwrap()).unwrap());
        }
    }

    #[test]
    fn the_linked_sqlite_is_new_enough() {
        assert!(rusqlite::version_number() >= OLDEST_SQLITE, "{}", rusqlite::version());
    }
}
