//! Liveness of owners: by the lock of a file on an owner's own machine, and elsewhere by a lease that it renews.
//!
//! On the machine of an owner the lock of its file decides: while it is held, nothing else counts, and when it can be
//! taken, its process is gone. Elsewhere an owner counts as alive unless a lease has passed without a new beat, by the
//! clock of the process that asks ([`super::beats`]). No clock of another machine plays a part, the database's least of
//! all: a clock that is set forward makes no owner seem dead. Leases are kept by a thread of their own
//! ([`super::keeper`]).

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use baton_core::id::OwnerId;
use tokio::sync::oneshot;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

use super::PgStore;
use super::beats::Beats;
use super::keeper::{Keeper, RETIRE};
use crate::error::StoreError;
use crate::live::{self, LifeLock};
use crate::runs::Liveness;

/// The deadline for making an owner.
const ENLIST: Duration = Duration::from_secs(10);

/// The row of an owner.
pub(super) const OWNER: &str = "SELECT machine, lock, beat FROM owners WHERE owner = $1";

/// The liveness of owners as seen from here: this machine, the folder of its lock files, and the observed beats.
#[derive(Debug, Clone)]
pub(super) struct LivenessView {
    folder: PathBuf,
    machine: String,
    beats: Arc<Mutex<Beats>>,
}

impl LivenessView {
    /// Creates the folder if it does not exist.
    pub(super) fn new(folder: &Path, lease: Duration) -> std::io::Result<LivenessView> {
        live::private_folder(folder)?;
        live::private_folder(&folder.join("live"))?;
        let beats = Arc::new(Mutex::new(Beats::new(lease)));
        Ok(LivenessView { folder: std::fs::canonicalize(folder)?, machine: machine(), beats })
    }

    /// The observed beats.
    pub(super) fn beats(&self) -> MutexGuard<'_, Beats> {
        self.beats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of an owner, from its row of [`OWNER`].
    pub(super) fn life(&self, owner: OwnerId, row: Option<&Row>) -> Result<Liveness, StoreError> {
        let Some(row) = row else {
            // The owner gave up its lease, or was given up by a process that cannot see its lock.
            return Ok(of_lock(live::is_alive(&self.folder, owner)));
        };
        let (machine, lock): (&str, &str) = (row.try_get(0)?, row.try_get(1)?);
        let is_silent = self.beats().is_silent(owner.0, row.try_get(2)?, Instant::now());
        if let Some(life) = self.life_by_lock(machine, lock) {
            return Ok(life);
        }
        Ok(if is_silent { Liveness::Silent } else { Liveness::Lives })
    }

    /// Whether the lock of an owner can be seen from here, and is held.
    pub(super) async fn sees_lock_of(
        &self,
        client: &Client,
        owner: Uuid,
    ) -> Result<bool, tokio_postgres::Error> {
        let Some(row) = client.query_opt(OWNER, &[&owner]).await? else { return Ok(false) };
        Ok(self.life_by_lock(row.try_get(0)?, row.try_get(1)?) == Some(Liveness::Lives))
    }

    /// The state of an owner by its lock, if that can be seen from here.
    fn life_by_lock(&self, machine: &str, lock: &str) -> Option<Liveness> {
        if machine != self.machine {
            return None;
        }
        // A path names the same file only if its folder is the same one: containers may share a machine.
        let (folder, path) = lock.split_once(' ')?;
        let path = Path::new(path);
        (folder_of(path).as_deref() == Some(folder)).then(|| of_lock(live::is_held(path)))
    }
}

fn of_lock(is_held: bool) -> Liveness {
    if is_held { Liveness::Lives } else { Liveness::Dead }
}

/// The folder of a file by its device and inode, independent of its path.
fn folder_of(file: &Path) -> Option<String> {
    let folder = std::fs::metadata(file.parent()?).ok()?;
    Some(format!("{}:{}", folder.dev(), folder.ino()))
}

/// The identity of this machine since it was booted.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let paths = ["/etc/machine-id", "/proc/sys/kernel/random/boot_id", "/proc/sys/kernel/hostname"];
    paths.map(read).join("/")
}

/// The time of the last renewal of a lease, as its owner knows it.
#[derive(Debug, Clone, Default)]
pub(super) struct Renewed {
    at: Arc<AtomicU64>,
    /// How many times the lease was renewed only after it could have run out.
    lapses: Arc<AtomicU64>,
}

impl Renewed {
    /// Notes a renewal. The lease began no earlier than its request to the database, and is known since the answer. If
    /// the one before may have run out by then, that is noted first, so that no reader sees the new lease without the
    /// lapse.
    pub(super) fn note(&self, asked: Duration, answered: Duration, lease: Duration) {
        let before = Duration::from_millis(self.at.load(SeqCst));
        if !before.is_zero() && before + lease <= answered {
            self.lapses.fetch_add(1, SeqCst);
        }
        self.at.fetch_max(u64::try_from(asked.as_millis()).unwrap_or(u64::MAX), SeqCst);
    }

    fn is_within(&self, lease: Duration) -> bool {
        Duration::from_millis(self.at.load(SeqCst)) + lease > since_boot()
    }
}

/// A clock that goes on while the machine sleeps, as the clocks of other machines do.
pub(super) fn since_boot() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    Duration::try_from(clock_gettime(CLOCK)).unwrap_or_default()
}

/// A living owner. Dropping it gives up its lease and then its lock.
#[derive(Debug)]
pub(crate) struct Lease {
    renewed: Renewed,
    length: Duration,
    stop: Option<oneshot::Sender<()>>,
    /// A lock only makes the whole shareable between threads.
    ended: Mutex<mpsc::Receiver<()>>,
    _lock: LifeLock,
}

impl Lease {
    /// Whether it cannot have run out yet.
    pub(crate) fn is_current(&self) -> bool {
        self.renewed.is_within(self.length)
    }

    /// How many times it may have run out so far.
    pub(crate) fn lapses(&self) -> u64 {
        self.renewed.lapses.load(SeqCst)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        drop(self.stop.take());
        // If the database does not answer, the lease expires by itself.
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(RETIRE);
    }
}

impl PgStore {
    /// Makes an owner; blocks until its lease is written.
    pub(crate) fn enlist(&self, owner: OwnerId) -> Result<Lease, StoreError> {
        let failed = |error: std::io::Error| StoreError::Unavailable(error.to_string());
        let lock = LifeLock::take(&self.shared.liveness.folder, owner).map_err(failed)?;
        let folder = folder_of(lock.path()).unwrap_or_default();
        let keeper = Keeper {
            dial: self.shared.dial.clone(),
            owner,
            liveness: self.shared.liveness.clone(),
            machine: self.shared.liveness.machine.clone(),
            lock: format!("{folder} {}", lock.path().display()),
            lease: self.shared.options.lease,
            renewed: Renewed::default(),
        };
        let (renewed, length) = (keeper.renewed.clone(), keeper.lease);
        let (stop, stopped) = oneshot::channel();
        let (begun, ready) = mpsc::channel();
        let (end, ended) = mpsc::channel();
        let work = move || {
            keeper.work(&begun, stopped);
            drop(end);
        };
        std::thread::Builder::new().name("baton-lease".to_owned()).spawn(work).map_err(failed)?;
        let lease = Lease { renewed, length, stop: Some(stop), ended: Mutex::new(ended), _lock: lock };
        match ready.recv_timeout(ENLIST) {
            Ok(done) => done.map(|()| lease),
            Err(_) => {
                Err(StoreError::Unavailable("no lease in time: the database does not answer".to_owned()))
            }
        }
    }

    /// Whether an owner still lives. When in doubt, it does.
    pub(crate) async fn is_alive(&self, owner: OwnerId) -> bool {
        let known = self.one(OWNER, &[&owner.0]).await;
        let life = known.and_then(|row| self.shared.liveness.life(owner, row.as_ref()));
        life.unwrap_or(Liveness::Lives) == Liveness::Lives
    }

    /// Makes an owner count as dead although it holds its lock: the locked file has lost its name.
    #[cfg(feature = "failpoints")]
    pub(crate) fn bury(&self, owner: OwnerId) {
        live::bury(&self.shared.liveness.folder, owner);
    }

    /// Simulates that this process observed silence of all owners for this many leases. For tests.
    #[cfg(feature = "failpoints")]
    pub(crate) fn unheard(&self, leases: u32) {
        self.shared.liveness.beats().unheard(leases);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs `(asked, answered)` of renewals of a lease of ten seconds, and how many times it may have run out.
    #[test]
    fn a_lease_that_was_renewed_too_late_has_lapsed() {
        let table: [(&[(u64, u64)], u64); 6] = [
            (&[(100, 101)], 0),
            (&[(100, 101), (103, 104), (112, 112)], 0),
            (&[(100, 101), (110, 110)], 1),
            (&[(100, 101), (109, 110)], 1), // it was requested in time, and perhaps written too late
            (&[(100, 109), (109, 109)], 0),
            (&[(100, 101), (120, 121), (125, 126), (150, 151)], 2),
        ];
        for (renewals, lapses) in table {
            let renewed = Renewed::default();
            for (asked, answered) in renewals {
                let at = Duration::from_secs;
                renewed.note(at(*asked), at(*answered), at(10));
            }
            assert_eq!(renewed.lapses.load(SeqCst), lapses, "{renewals:?}");
        }
    }
}
