//! A disk that can fail: a layer of SQLite's own file system (a VFS) that records the synced data of each file, refuses
//! to write or to sync from a chosen moment on, and can show the data that is left after the power was cut.
//!
//! It applies to the folders that a test names, and passes everything else through. SQLite takes a VFS as a table of C
//! functions, which is why this one file may use `unsafe`; every pointer here was handed over by SQLite for the time of
//! the call.
#![allow(unsafe_code, reason = "a VFS is a table of C functions")]

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock};

use proptest::test_runner::TestRng;
use rusqlite::ffi::{
    SQLITE_IOERR_FSYNC, SQLITE_IOERR_TRUNCATE, SQLITE_IOERR_WRITE, SQLITE_OK, sqlite3_file, sqlite3_filename,
    sqlite3_int64, sqlite3_io_methods, sqlite3_vfs, sqlite3_vfs_find, sqlite3_vfs_register,
};

/// A sector: the part of a write that reaches a real disk whole or not at all.
const SECTOR: usize = 512;

/// A change that was made and not synced yet.
#[derive(Debug, Clone)]
enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

#[derive(Debug, Default)]
struct Image {
    /// Bytes that outlive a loss of power.
    synced: Vec<u8>,
    pending: Vec<Change>,
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Truncate(length) => bytes.resize(*length, 0),
        Change::Write(at, written) => {
            let end = at + written.len();
            bytes.resize(bytes.len().max(end), 0);
            bytes[*at..end].copy_from_slice(written);
        }
    }
}

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<PathBuf, Image>,
    /// The number of further changes and syncs before the power is cut. `None`: no limit.
    left: Option<u64>,
    /// The number of syncs that fail from now on.
    failing_syncs: u32,
    made: u64,
}

/// The disk under one folder.
#[derive(Debug, Clone, Default)]
pub(super) struct Disk {
    state: Arc<Mutex<State>>,
}

impl Disk {
    /// Watches a folder from now on.
    pub(super) fn under(folder: &Path) -> Disk {
        install();
        let disk = Disk::default();
        DISKS.lock().unwrap().push((folder.to_owned(), disk.clone()));
        disk
    }

    /// Cuts the power after this many more changes and syncs.
    pub(super) fn cut_after(&self, changes: u64) {
        self.state().left = Some(changes);
    }

    /// Makes the next syncs fail.
    pub(super) fn fail_syncs(&self, count: u32) {
        self.state().failing_syncs = count;
    }

    /// The number of changes and syncs so far.
    pub(super) fn made(&self) -> u64 {
        self.state().made
    }

    /// Writes the files that a machine finds after a loss of power into a folder: all synced data, and any part of the
    /// rest.
    pub(super) fn survivors(&self, folder: &Path, rng: &mut TestRng) {
        use proptest::prelude::Rng;
        for (path, image) in &self.state().files {
            let mut bytes = image.synced.clone();
            for change in &image.pending {
                match change {
                    Change::Truncate(_) if rng.next_u32().is_multiple_of(2) => apply(&mut bytes, change),
                    Change::Truncate(_) => {}
                    Change::Write(at, written) => {
                        for (n, sector) in written.chunks(SECTOR).enumerate() {
                            if rng.next_u32().is_multiple_of(2) {
                                apply(&mut bytes, &Change::Write(at + n * SECTOR, sector.to_vec()));
                            }
                        }
                    }
                }
            }
            std::fs::write(folder.join(path.file_name().unwrap()), bytes).unwrap();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Counts one change or sync; false once the power is cut.
    fn has_power(&self) -> bool {
        let mut state = self.state();
        if state.left == Some(0) {
            return false;
        }
        state.left = state.left.map(|left| left - 1);
        state.made += 1;
        true
    }

    fn note(&self, path: &Path, change: Change) {
        self.state().files.entry(path.to_owned()).or_default().pending.push(change);
    }

    fn sync(&self, path: &Path) -> bool {
        if !self.has_power() {
            return false;
        }
        let mut state = self.state();
        if state.failing_syncs > 0 {
            state.failing_syncs -= 1;
            return false;
        }
        let image = state.files.entry(path.to_owned()).or_default();
        for change in std::mem::take(&mut image.pending) {
            apply(&mut image.synced, &change);
        }
        true
    }
}

/// An open file of a watched folder.
struct Open {
    real: &'static sqlite3_io_methods,
    path: PathBuf,
    disk: Disk,
}

static DISKS: Mutex<Vec<(PathBuf, Disk)>> = Mutex::new(Vec::new());
/// Open files by the address of SQLite's own structure.
static OPEN: LazyLock<Mutex<HashMap<usize, Arc<Open>>>> = LazyLock::new(Mutex::default);
/// SQLite's own file system.
static REAL: OnceLock<usize> = OnceLock::new();

fn real() -> &'static sqlite3_vfs {
    let address = *REAL.get().unwrap();
    unsafe { &*(address as *const sqlite3_vfs) }
}

/// Puts this layer before SQLite's own file system, once for the process.
fn install() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| unsafe {
        let found = sqlite3_vfs_find(std::ptr::null());
        REAL.set(found as usize).unwrap();
        let mut layer = std::ptr::read(found);
        layer.zName = c"disk-that-can-fail".as_ptr();
        layer.pNext = std::ptr::null_mut();
        layer.xOpen = Some(open);
        layer.xDelete = Some(delete);
        assert_eq!(sqlite3_vfs_register(Box::leak(Box::new(layer)), 1), SQLITE_OK);
    });
}

fn watched(path: &Path) -> Option<Disk> {
    let disks = DISKS.lock().unwrap();
    disks.iter().find(|(folder, _)| path.starts_with(folder)).map(|(_, disk)| disk.clone())
}

fn path_of(name: *const c_char) -> PathBuf {
    if name.is_null() {
        return PathBuf::new();
    }
    PathBuf::from(unsafe { CStr::from_ptr(name) }.to_str().unwrap())
}

unsafe extern "C" fn open(
    vfs: *mut sqlite3_vfs,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let code = unsafe { real().xOpen.unwrap()(vfs, name, file, flags, out) };
    let path = path_of(name);
    let Some(disk) = watched(&path).filter(|_| code == SQLITE_OK) else { return code };
    let real: &'static sqlite3_io_methods = unsafe { &*(*file).pMethods };
    let is_new = !disk.state().files.contains_key(&path);
    if is_new {
        let synced = std::fs::read(&path).unwrap();
        disk.state().files.insert(path.clone(), Image { synced, pending: Vec::new() });
    }
    OPEN.lock().unwrap().insert(file as usize, Arc::new(Open { real, path, disk }));
    let mut methods = unsafe { std::ptr::read(real) };
    methods.xClose = Some(close);
    methods.xWrite = Some(write);
    methods.xTruncate = Some(truncate);
    methods.xSync = Some(sync);
    unsafe { (*file).pMethods = Box::leak(Box::new(methods)) };
    SQLITE_OK
}

unsafe extern "C" fn delete(vfs: *mut sqlite3_vfs, name: *const c_char, sync_folder: c_int) -> c_int {
    let path = path_of(name);
    if let Some(disk) = watched(&path) {
        if !disk.has_power() {
            return SQLITE_IOERR_WRITE;
        }
        disk.state().files.remove(&path);
    }
    unsafe { real().xDelete.unwrap()(vfs, name, sync_folder) }
}

fn of(file: *mut sqlite3_file) -> Arc<Open> {
    OPEN.lock().unwrap()[&(file as usize)].clone()
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    let open = OPEN.lock().unwrap().remove(&(file as usize)).unwrap();
    unsafe { (*file).pMethods = open.real };
    unsafe { open.real.xClose.unwrap()(file) }
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    bytes: *const c_void,
    length: c_int,
    at: sqlite3_int64,
) -> c_int {
    let open = of(file);
    if !open.disk.has_power() {
        return SQLITE_IOERR_WRITE;
    }
    let written = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length as usize) };
    open.disk.note(&open.path, Change::Write(at as usize, written.to_vec()));
    unsafe { open.real.xWrite.unwrap()(file, bytes, length, at) }
}

unsafe extern "C" fn truncate(file: *mut sqlite3_file, length: sqlite3_int64) -> c_int {
    let open = of(file);
    if !open.disk.has_power() {
        return SQLITE_IOERR_TRUNCATE;
    }
    open.disk.note(&open.path, Change::Truncate(length as usize));
    unsafe { open.real.xTruncate.unwrap()(file, length) }
}

/// Files are never really synced: the data that outlives a loss of power is kept in memory.
unsafe extern "C" fn sync(file: *mut sqlite3_file, _flags: c_int) -> c_int {
    let open = of(file);
    if open.disk.sync(&open.path) { SQLITE_OK } else { SQLITE_IOERR_FSYNC }
}
