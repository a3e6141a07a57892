//! Reads a file that cannot be written to: a copy on a read-only medium, a folder of another user, a full disk.
//!
//! SQLite keeps a log beside the file and an index of the log beside that. Where one of them is missing and cannot be
//! created, SQLite has to be told how to do without.

use std::fmt::Write;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};

use super::migrate::{self, OpenError};
use super::{database, patient};

/// How a file is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// The log and its index exist and can be read: other processes may write meanwhile.
    Shared,
    /// There is a log without an index, so no process writes: the index is made in memory.
    Alone,
    /// There is no log: the file holds everything, and it does not change.
    Whole,
}

impl Access {
    /// The first way in which a file can be read. Refuses a file of another version: to read it, it would have to be
    /// changed.
    pub(super) fn find(folder: &Path) -> Result<Access, OpenError> {
        let has_log = log_of(folder).metadata().is_ok_and(|log| log.len() > 0);
        let ways = if has_log { [Access::Shared, Access::Alone] } else { [Access::Shared, Access::Whole] };
        let [first, second] = ways
            .map(|access| access.connect(folder).and_then(|db| migrate::fits(&db, folder)).map(|()| access));
        match (first, second) {
            (Ok(access), _) | (Err(_), Ok(access)) => Ok(access),
            (Err(error @ OpenError::Newer { .. }), _) | (_, Err(error)) => Err(error),
        }
    }

    pub(super) fn connect(self, folder: &Path) -> Result<Connection, OpenError> {
        let path = database(folder);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = match self {
            Access::Shared => Connection::open_with_flags(&path, flags)?,
            Access::Alone => {
                let db = Connection::open_with_flags_and_vfs(&path, flags, c"unix-none")?;
                db.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
                db
            }
            Access::Whole => {
                Connection::open_with_flags(unchanging(&path), flags | OpenFlags::SQLITE_OPEN_URI)?
            }
        };
        patient(&db)?;
        Ok(db)
    }
}

fn log_of(folder: &Path) -> std::path::PathBuf {
    folder.join("baton.db-wal")
}

/// The URI of a file that no process changes. A path may contain any character.
fn unchanging(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut address = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'_' | b'-' => address.push(char::from(*byte)),
            byte if byte.is_ascii_alphanumeric() => address.push(char::from(*byte)),
            byte => {
                let _ = write!(address, "%{byte:02X}");
            }
        }
    }
    address + "?immutable=1"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_is_an_address() {
        assert_eq!(unchanging(Path::new("/a b/ü?#%.db")), "file:/a%20b/%C3%BC%3F%23%25.db?immutable=1");
    }
}
