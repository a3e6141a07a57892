//! The pool of idle connections: where connections wait between two requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::connection::ClientConnection;

/// How many connections may be idle: each holds a file and some memory.
const MAX_IDLE: usize = 4096;

/// See the module.
#[derive(Debug)]
pub(super) struct IdlePool {
    keep: Duration,
    connections: Mutex<IdleConnections>,
}

#[derive(Debug, Default)]
struct IdleConnections {
    /// Each with the moment since when it is idle; the most recently used is last.
    queue: VecDeque<(Instant, ClientConnection)>,
    /// Whether a task is running that closes the expired ones.
    is_swept: bool,
}

impl IdlePool {
    pub(super) fn new(keep: Duration) -> Self {
        IdlePool { keep, connections: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, IdleConnections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the most recently used connection that is still open.
    pub(super) fn take(&self) -> Option<ClientConnection> {
        loop {
            let (since, mut connection) = self.lock().queue.pop_back()?;
            if since.elapsed() < self.keep && connection.is_idle() {
                return Some(connection);
            }
        }
    }

    /// Puts a connection back, if it can be used again.
    pub(super) fn put(self: &Arc<Self>, mut connection: ClientConnection) {
        if self.keep.is_zero() || !connection.is_idle() {
            return;
        }
        let mut connections = self.lock();
        if connections.queue.len() >= MAX_IDLE {
            connections.queue.pop_front();
        }
        connections.queue.push_back((Instant::now(), connection));
        if !std::mem::replace(&mut connections.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self), self.keep));
        }
    }

    /// Closes the expired connections; returns whether any are left.
    fn sweep(&self) -> bool {
        let mut connections = self.lock();
        connections.queue.retain(|(since, _)| since.elapsed() < self.keep);
        connections.is_swept = !connections.queue.is_empty();
        connections.is_swept
    }
}

/// Closes expired connections until none is idle any more, or the pool is dropped.
async fn sweep(pool: Weak<IdlePool>, every: Duration) {
    loop {
        sleep(every).await;
        match pool.upgrade() {
            Some(pool) if pool.sweep() => {}
            _ => return,
        }
    }
}
