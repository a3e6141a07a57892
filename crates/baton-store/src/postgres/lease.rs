//! Who lives: a lease that its owner renews, and the lock of a file on its machine.
//!
//! An owner counts as alive while its lease has not expired, in the database's own time, unless somebody on the
//! same machine finds that the lock of its file can be taken: then its process is gone, and nobody has to wait.
//! Leases are renewed by a thread of their own, with a runtime and a connection of its own: a busy process
//! does not seem dead, and whoever makes an owner need not be inside a runtime.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;

use baton_core::id::OwnerId;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_postgres::{Client, Row};

use super::connect::Dial;
use super::{PgStore, fault};
use crate::error::StoreError;
use crate::live::{self, LifeLock};

/// How long making an owner may take.
const ENLIST: Duration = Duration::from_secs(10);
/// How long letting it go may take.
const RETIRE: Duration = Duration::from_secs(2);

/// What is known of an owner.
pub(super) const OWNER: &str =
    "SELECT machine, lock, expires_at > clock_timestamp() FROM owners WHERE owner = $1";
const RENEW: &str = "INSERT INTO owners(owner, machine, lock, started, expires_at)
    VALUES ($1, $2, $3, clock_timestamp(), clock_timestamp() + $4 * interval '1 second')
    ON CONFLICT (owner) DO UPDATE SET expires_at = excluded.expires_at";
/// Nobody asks any more for those that expired long ago: their runs were taken.
const FORGET: &str = "DELETE FROM owners WHERE expires_at < clock_timestamp() - $1 * interval '10 seconds'";

/// This machine, and the folder of its lock files.
#[derive(Debug)]
pub(super) struct Place {
    folder: PathBuf,
    machine: String,
}

impl Place {
    /// Makes the folder if it is not there.
    pub(super) fn new(folder: &Path) -> std::io::Result<Place> {
        live::private_folder(folder)?;
        live::private_folder(&folder.join("live"))?;
        Ok(Place { folder: std::fs::canonicalize(folder)?, machine: machine() })
    }

    /// Whether an owner lives, from a row of [`OWNER`].
    pub(super) fn lives(&self, row: Option<&Row>) -> Result<bool, StoreError> {
        let Some(row) = row else { return Ok(false) };
        let (machine, lock, unexpired): (&str, &str, bool) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        if !unexpired || machine != self.machine {
            return Ok(unexpired);
        }
        // A path means the same file only where its folder is the same one: containers may share a machine.
        Ok(match lock.split_once(' ') {
            Some((folder, path)) if folder_of(Path::new(path)).as_deref() == Some(folder) => {
                live::is_held(Path::new(path))
            }
            _ => true,
        })
    }
}

/// The folder of a file by its numbers, whatever it is called.
fn folder_of(file: &Path) -> Option<String> {
    let folder = std::fs::metadata(file.parent()?).ok()?;
    Some(format!("{}:{}", folder.dev(), folder.ino()))
}

/// This machine since it was started.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let paths = ["/etc/machine-id", "/proc/sys/kernel/random/boot_id", "/proc/sys/kernel/hostname"];
    paths.map(read).join("/")
}

/// When a lease was renewed last, as its owner knows it.
#[derive(Debug, Clone, Default)]
struct Renewed(Arc<AtomicU64>);

impl Renewed {
    /// The lease began no earlier than this: the moment at which the database was asked for it.
    fn note(&self, asked: Duration) {
        self.0.fetch_max(u64::try_from(asked.as_millis()).unwrap_or(u64::MAX), Relaxed);
    }

    fn is_within(&self, lease: Duration) -> bool {
        Duration::from_millis(self.0.load(Relaxed)) + lease > since_boot()
    }
}

/// A clock that goes on while the machine sleeps, as everybody else's does.
fn since_boot() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    const CLOCK: ClockId = ClockId::Monotonic;
    Duration::try_from(clock_gettime(CLOCK)).unwrap_or_default()
}

/// A living owner. Dropping it takes back its lease and then its lock.
#[derive(Debug)]
pub(crate) struct Lease {
    renewed: Renewed,
    length: Duration,
    stop: Option<oneshot::Sender<()>>,
    /// Behind a lock only so that threads may share the whole.
    ended: Mutex<mpsc::Receiver<()>>,
    _lock: LifeLock,
}

impl Lease {
    /// Whether it cannot have run out yet.
    pub(crate) fn is_current(&self) -> bool {
        self.renewed.is_within(self.length)
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
        let lock = LifeLock::take(&self.shared.place.folder, owner).map_err(failed)?;
        let folder = folder_of(lock.path()).unwrap_or_default();
        let keeper = Keeper {
            dial: self.shared.dial.clone(),
            owner,
            machine: self.shared.place.machine.clone(),
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
        match self.one(OWNER, &[&owner.0]).await {
            Ok(row) => self.shared.place.lives(row.as_ref()).unwrap_or(true),
            Err(_) => true,
        }
    }

    /// Makes an owner count as dead although it holds its lock: on a file that nobody finds.
    #[cfg(feature = "failpoints")]
    pub(crate) fn bury(&self, owner: OwnerId) {
        live::bury(&self.shared.place.folder, owner);
    }
}

/// Writes a lease and renews it until it is told to stop.
struct Keeper {
    dial: Dial,
    owner: OwnerId,
    machine: String,
    lock: String,
    lease: Duration,
    renewed: Renewed,
}

impl Keeper {
    fn work(&self, begun: &mpsc::Sender<Result<(), StoreError>>, stopped: oneshot::Receiver<()>) {
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => {
                let _ = begun.send(Err(StoreError::Unavailable(error.to_string())));
                return;
            }
        };
        runtime.block_on(async {
            let client = match self.begin().await {
                Ok(client) => client,
                Err(error) => {
                    let _ = begun.send(Err(StoreError::Unavailable(error)));
                    return;
                }
            };
            let _ = begun.send(Ok(()));
            let mut client = Some(client);
            tokio::select! {
                () = self.renew_on(&mut client) => {}
                _ = stopped => {}
            }
            let _ = timeout(RETIRE, self.retire(client)).await;
        });
    }

    /// A connection, over which the lease was written.
    async fn begin(&self) -> Result<Client, String> {
        let (client, _) = self.dial.connect().await?; // it is served as long as there is a client
        self.renew(&client).await?;
        Ok(client)
    }

    async fn renew(&self, client: &Client) -> Result<(), String> {
        let said = |error: tokio_postgres::Error| fault::said(&error);
        let (seconds, asked) = (self.lease.as_secs_f64(), since_boot());
        client.execute(RENEW, &[&self.owner.0, &self.machine, &self.lock, &seconds]).await.map_err(said)?;
        self.renewed.note(asked);
        client.execute(FORGET, &[&seconds]).await.map_err(said)?;
        Ok(())
    }

    /// Renews three times a lease, over a new connection where the old one is lost; never ends by itself.
    async fn renew_on(&self, client: &mut Option<Client>) {
        let pause = self.lease / 3;
        loop {
            tokio::time::sleep(if client.is_some() { pause } else { pause / 10 }).await;
            let renewed = match client.take() {
                Some(old) => timeout(pause, self.renew(&old)).await.map(|done| done.map(|()| old)),
                None => timeout(pause, self.begin()).await,
            };
            match renewed {
                Ok(Ok(connected)) => *client = Some(connected),
                Ok(Err(why)) => {
                    tracing::warn!(owner = %self.owner, why, "the lease was not renewed: trying again")
                }
                Err(_) => tracing::warn!(owner = %self.owner, "no lease in time: trying again"),
            }
        }
    }

    async fn retire(&self, client: Option<Client>) {
        let client = match client {
            Some(client) => client,
            None => match self.dial.connect().await {
                Ok((client, _served)) => client,
                Err(_) => return,
            },
        };
        let _ = client.execute("DELETE FROM owners WHERE owner = $1", &[&self.owner.0]).await;
    }
}
