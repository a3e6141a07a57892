//! Liveness of owners on this machine, by locks that the operating system releases when a process ends.
//!
//! An owner holds a lock on `live/INCARNATION`; it is dead exactly when that lock can be taken. Nothing
//! here depends on a clock, so a stopped process counts as alive until it is really gone.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use baton_core::id::OwnerId;

/// The lock of one living owner, on its file.
#[derive(Debug)]
pub(crate) struct LifeLock {
    path: PathBuf,
    _file: File,
    /// What tells its file from every other.
    numbers: (u64, u64),
}

impl LifeLock {
    pub(crate) fn take(folder: &Path, owner: OwnerId) -> io::Result<LifeLock> {
        clear_away(folder);
        // The file is locked before it gets its name. Otherwise a process that looked at it in between would take the
        // owner for dead and remove the file, and the lock would be on a file that no other process finds.
        let path = life_file(folder, owner);
        let unborn = folder.join("live").join(format!("unborn-{owner}"));
        let file = private_file(&unborn)?;
        file.lock()?;
        std::fs::rename(&unborn, &path)?;
        let numbers = numbers(&file.metadata()?);
        Ok(LifeLock { path, _file: file, numbers })
    }
}

impl LifeLock {
    /// The file that is locked.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether others who look for the lock find it held: its file is still the one under its name.
    pub(crate) fn is_found(&self) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|found| numbers(&found) == self.numbers)
    }
}

fn numbers(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

impl Drop for LifeLock {
    fn drop(&mut self) {
        // A file that stays behind has no lock, so its owner still counts as dead.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Removes the files of owners that are dead.
fn clear_away(folder: &Path) {
    for file in std::fs::read_dir(folder.join("live")).into_iter().flatten().flatten() {
        if let Some(owner) = file.file_name().to_str().and_then(|name| name.parse().ok()) {
            is_alive(folder, owner);
        }
    }
}

fn life_file(folder: &Path, owner: OwnerId) -> PathBuf {
    folder.join("live").join(owner.to_string())
}

/// Whether an owner's lock is held. A lock that can be taken is a dead owner's, and is cleared away.
pub(crate) fn is_alive(folder: &Path, owner: OwnerId) -> bool {
    is_held(&life_file(folder, owner))
}

/// Like [`is_alive`], for the path of an owner's file.
pub(crate) fn is_held(path: &Path) -> bool {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return error.kind() != io::ErrorKind::NotFound, // when in doubt, it is alive
    };
    // The lock is shared, so that two processes that look at the same time do not take each other for the owner.
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(_)) => true, // when in doubt, it is alive
        Ok(()) => {
            let _ = std::fs::remove_file(path);
            false
        }
    }
}

/// Makes an owner count as dead: its lock is still held, but on a file that has lost its name.
#[cfg(feature = "failpoints")]
pub(crate) fn bury(folder: &Path, owner: OwnerId) {
    let _ = std::fs::remove_file(life_file(folder, owner));
}

/// Makes a folder that only its owner can read.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Opens a file that only its owner can read, and creates it if it does not exist.
pub(crate) fn private_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

#[cfg(test)]
mod tests;
