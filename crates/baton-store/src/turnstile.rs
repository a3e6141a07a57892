//! The turnstile: decides which process of a data folder may write now.
//!
//! It has two file locks, passed one after the other: the process that waits for the second keeps all others from
//! overtaking, so that none starves. The operating system queues the waiting processes, and releases a lock when its
//! process ends. A process that was stopped inside (SIGSTOP, Ctrl-Z, a paused container) keeps its turn, so no process
//! waits longer than [`DEADLINE`]: then the error names the process that holds the turn ([`holder`]), and nothing is
//! written.

mod holder;

use std::fs::{File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

pub(crate) use holder::Holder;

use crate::failpoint::point;
use crate::live::private_file;

/// The deadline for a turn. One turn is one commit: even a slow disk takes a fraction of it.
const DEADLINE: Duration = Duration::from_secs(5);

/// Why a writer did not get its turn.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoTurn {
    /// Another process holds it.
    #[error("{0}")]
    Held(Holder),
    /// The system reported an error.
    #[error("the turnstile: {0}")]
    Io(#[from] io::Error),
}

/// The turnstile; see the module. One thread at a time uses it.
#[derive(Debug)]
pub(crate) struct Turnstile {
    locks: Arc<Locks>,
    deadline: Duration,
}

/// The two locks, and the thread that waits for them when they are not free.
#[derive(Debug)]
struct Locks {
    gate: File,
    room: File,
    queue: Mutex<QueueState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct QueueState {
    state: WaitState,
    /// Whether there is a thread that can wait.
    has_thread: bool,
    /// Whether the turnstile is gone.
    is_closed: bool,
}

/// The state of the waiting thread.
#[derive(Debug, Default)]
enum WaitState {
    /// It is idle.
    #[default]
    None,
    /// It waits for the locks. If the writer has given up meanwhile, it releases them as soon as it has them.
    Waiting { is_wanted: bool },
    /// It holds the room's lock, or failed to get it.
    Done(io::Result<()>),
}

impl Turnstile {
    pub(crate) fn open(folder: &Path) -> io::Result<Turnstile> {
        Turnstile::with_deadline(folder, DEADLINE)
    }

    fn with_deadline(folder: &Path, deadline: Duration) -> io::Result<Turnstile> {
        let file = |name| private_file(&folder.join("live").join(name));
        let (gate, room) = (file("gate")?, file("room")?);
        let locks = Locks { gate, room, queue: Mutex::default(), changed: Condvar::new() };
        Ok(Turnstile { locks: Arc::new(locks), deadline })
    }

    /// Waits for the turn, in the same queue as all other processes.
    pub(crate) fn enter(&self) -> Result<WriteTurn<'_>, NoTurn> {
        let locks = &self.locks;
        let mut queue = locks.queue();
        let patience = match queue.state {
            WaitState::None if locks.try_enter()? => return Ok(WriteTurn(&locks.room)),
            WaitState::None => self.deadline,
            // The last attempt failed a moment ago, and the thread is still waiting.
            WaitState::Waiting { .. } | WaitState::Done(_) => self.deadline / 10,
        };
        if !queue.has_thread {
            let (waiting, named) =
                (locks.clone(), std::thread::Builder::new().name("baton-turnstile".to_owned()));
            named.spawn(move || waiting.stand_in_line())?;
            queue.has_thread = true;
        }
        queue.state = WaitState::Waiting { is_wanted: true };
        locks.changed.notify_all();
        let until = Instant::now() + patience;
        loop {
            if let WaitState::Done(entered) = &mut queue.state {
                let entered = std::mem::replace(entered, Ok(()));
                queue.state = WaitState::None;
                return entered.map(|()| WriteTurn(&locks.room)).map_err(NoTurn::Io);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                queue.state = WaitState::Waiting { is_wanted: false };
                return Err(NoTurn::Held(Holder::find(&locks.room, &locks.gate, self.deadline)));
            }
            let waited = locks.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Turnstile {
    fn drop(&mut self) {
        self.locks.queue().is_closed = true;
        self.locks.changed.notify_all();
    }
}

impl Locks {
    fn queue(&self) -> MutexGuard<'_, QueueState> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters if the room is empty and no process waits.
    fn try_enter(&self) -> io::Result<bool> {
        if !is_taken(self.gate.try_lock())? {
            return Ok(false);
        }
        point("turnstile.gate");
        let entered = is_taken(self.room.try_lock());
        self.gate.unlock()?;
        entered
    }

    /// Waits behind the others without a deadline: that is why it has a thread of its own.
    fn enter(&self) -> io::Result<()> {
        self.gate.lock()?;
        point("turnstile.gate");
        let entered = self.room.lock();
        self.gate.unlock()?;
        entered
    }

    fn stand_in_line(&self) {
        let mut queue = self.queue();
        while !queue.is_closed {
            if !matches!(queue.state, WaitState::Waiting { .. }) {
                queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            drop(queue);
            let entered = self.enter();
            queue = self.queue();
            let is_wanted = matches!(queue.state, WaitState::Waiting { is_wanted: true }) && !queue.is_closed;
            if is_wanted {
                queue.state = WaitState::Done(entered);
                self.changed.notify_all();
            } else {
                let _ = self.room.unlock(); // the next process has waited long enough
                queue.state = WaitState::None;
            }
        }
    }
}

fn is_taken(locked: Result<(), TryLockError>) -> io::Result<bool> {
    match locked {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// The right to write, until it is dropped.
#[derive(Debug)]
pub(crate) struct WriteTurn<'a>(&'a File);

impl Drop for WriteTurn<'_> {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests;
