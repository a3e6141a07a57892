//! Where connections rest between two requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::link::Link;

/// How many may rest: each holds a file and some memory.
const MOST: usize = 4096;

/// See the module.
#[derive(Debug)]
pub(super) struct Resting {
    keep: Duration,
    links: Mutex<Links>,
}

#[derive(Debug, Default)]
struct Links {
    /// With the moment since when they rest; the last was laid down last.
    all: VecDeque<(Instant, Link)>,
    /// Whether somebody lets go of those that nobody uses.
    is_swept: bool,
}

impl Resting {
    pub(super) fn new(keep: Duration) -> Self {
        Resting { keep, links: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that can be used.
    pub(super) fn wake(&self) -> Option<Link> {
        loop {
            let (since, mut link) = self.lock().all.pop_back()?;
            if since.elapsed() < self.keep && link.is_idle() {
                return Some(link);
            }
        }
    }

    /// Keeps one, if it can be used again.
    pub(super) fn lay(self: &Arc<Self>, mut link: Link) {
        if self.keep.is_zero() || !link.is_idle() {
            return;
        }
        let mut links = self.lock();
        if links.all.len() >= MOST {
            links.all.pop_front();
        }
        links.all.push_back((Instant::now(), link));
        if !std::mem::replace(&mut links.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self), self.keep));
        }
    }

    /// Lets go of those that nobody used for too long; answers whether any are left.
    fn sweep(&self) -> bool {
        let mut links = self.lock();
        links.all.retain(|(since, _)| since.elapsed() < self.keep);
        links.is_swept = !links.all.is_empty();
        links.is_swept
    }
}

/// Comes by until nobody rests any more.
async fn sweep(resting: Weak<Resting>, every: Duration) {
    loop {
        sleep(every).await;
        match resting.upgrade() {
            Some(resting) if resting.sweep() => {}
            _ => return,
        }
    }
}
