//! The queue of writes, and the rule when a worker writes them.
//!
//! While a worker writes, another begins only if a whole group waits: writes that wait for the first to finish are
//! committed with more of their kind, and so cost less each. A group that takes too long is not waited for.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::QueuedWrite;

/// The largest size of a group.
const MOST: usize = 64;
/// A group that takes longer than this is no longer waited for.
const OVERDUE: Duration = Duration::from_millis(20);

/// The queue of writes; see the module.
pub(super) struct WriteQueue {
    waiting: Mutex<PendingWrites>,
    arrived: Notify,
}

struct PendingWrites {
    members: VecDeque<QueuedWrite>,
    /// When the present group of each worker began.
    writing: Vec<Option<Instant>>,
    closed: bool,
}

impl PendingWrites {
    /// The time at which a worker should write the waiting members.
    fn due(&self, now: Instant) -> Option<Instant> {
        let waited_for =
            self.writing.iter().flatten().map(|began| *began + OVERDUE).filter(|until| now < *until);
        match self.members.len() {
            0 => None,
            MOST.. => Some(now),
            _ => Some(waited_for.max().unwrap_or(now)),
        }
    }
}

/// A worker's turn, until it is dropped.
pub(super) struct WorkerTurn<'a> {
    queue: &'a WriteQueue,
    worker: usize,
}

impl Drop for WorkerTurn<'_> {
    fn drop(&mut self) {
        self.queue.lock().writing[self.worker] = None;
    }
}

impl fmt::Debug for WriteQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteQueue").field("waiting", &self.lock().members.len()).finish()
    }
}

impl WriteQueue {
    /// A queue for this many workers.
    pub(super) fn of(workers: usize) -> WriteQueue {
        let waiting = PendingWrites { members: VecDeque::new(), writing: vec![None; workers], closed: false };
        WriteQueue { waiting: Mutex::new(waiting), arrived: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, PendingWrites> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next group of a worker; `None` once the store is gone.
    pub(super) async fn take(&self, worker: usize) -> Option<(Vec<QueuedWrite>, WorkerTurn<'_>)> {
        loop {
            let arrived = self.arrived.notified();
            let due = {
                let mut waiting = self.lock();
                let now = Instant::now();
                match waiting.due(now) {
                    Some(due) if due <= now => {
                        waiting.writing[worker] = Some(now);
                        let most = waiting.members.len().min(MOST);
                        return Some((
                            waiting.members.drain(..most).collect(),
                            WorkerTurn { queue: self, worker },
                        ));
                    }
                    None if waiting.closed => return None,
                    due => due,
                }
            };
            match due {
                Some(due) => drop(tokio::time::timeout_at(due.into(), arrived).await),
                None => arrived.await,
            }
        }
    }

    pub(super) fn push(&self, member: QueuedWrite) {
        let mut waiting = self.lock();
        waiting.members.push_back(member);
        let nobody_writes = waiting.writing.iter().all(Option::is_none);
        // A worker that writes looks here when it is done; no other is woken for each member.
        if nobody_writes || waiting.members.len() == 1 || waiting.members.len() >= MOST {
            self.arrived.notify_last(); // the worker whose connection was in use just now
        }
    }

    /// Pushes several members at once, so that one worker finds them together.
    #[cfg(test)]
    pub(super) fn push_all(&self, members: Vec<QueuedWrite>) {
        self.lock().members.extend(members);
        self.arrived.notify_one();
    }

    /// Lets the workers end when the queue is empty.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.arrived.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(members: usize, writing: Vec<Option<Instant>>) -> PendingWrites {
        let member =
            |_| QueuedWrite { work: super::super::tests::post(1), answer: tokio::sync::oneshot::channel().0 };
        PendingWrites { members: (0..members).map(member).collect(), writing, closed: false }
    }

    #[test]
    fn what_waits_waits_for_one_that_writes_but_not_for_one_that_takes_long() {
        let start = Instant::now();
        let (now, long_ago) = (start + Duration::from_secs(9), Some(start));
        let just_now = now - Duration::from_millis(5);
        let due = |members, writing: [Option<Instant>; 2]| waiting(members, writing.to_vec()).due(now);
        assert_eq!(due(0, [None, None]), None);
        assert_eq!(due(1, [None, None]), Some(now), "nobody writes");
        assert_eq!(due(1, [Some(just_now), None]), Some(just_now + OVERDUE));
        assert_eq!(due(MOST - 1, [Some(just_now), long_ago]), Some(just_now + OVERDUE));
        assert_eq!(due(MOST, [Some(just_now), None]), Some(now), "a whole group");
        assert_eq!(due(1, [long_ago, None]), Some(now), "it takes long");
    }

    #[test]
    fn a_turn_ends_with_its_worker() {
        let queue = WriteQueue::of(2);
        queue.lock().writing[1] = Some(Instant::now());
        drop(WorkerTurn { queue: &queue, worker: 1 });
        assert_eq!(queue.lock().writing, [None, None]);
    }
}
