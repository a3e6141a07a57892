//! The live end of a run's log, for readers in the same process.
//!
//! A ring of the newest events, not a channel a reader: a reader keeps only its place, asks for the events after it,
//! and goes to the store if those are no longer here. So a slow reader costs nothing and delays no other.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_core::event::{Event, NumberedEvent};
use tokio::sync::watch;

/// The newest events of one run; see the module.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) epoch: u32,
    most: usize,
    ring: Mutex<Ring>,
    /// The number of the newest event; moves on with every one, and once more when the hub closes.
    newest: watch::Sender<u64>,
    /// The number of the newest event that is committed; the highest there is when the hub closes.
    kept: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Ring {
    /// Shared with all readers.
    events: VecDeque<Arc<NumberedEvent>>,
    committed: u64,
    closed: bool,
}

impl Ring {
    /// The number of the newest event.
    fn last(&self) -> u64 {
        self.events.back().map_or(self.committed, |event| event.seq)
    }

    /// How many of the events from a number on are here already.
    fn known_from(&self, first: u64) -> usize {
        usize::try_from((self.last() + 1).saturating_sub(first)).unwrap_or(usize::MAX)
    }

    /// Takes in events that come after the newest; answers the number of the last.
    fn append(&mut self, epoch: u32, first: u64, events: impl Iterator<Item = Event>) -> u64 {
        let numbered = |(seq, event)| Arc::new(NumberedEvent { epoch, seq, event });
        self.events.extend((first..).zip(events).map(numbered));
        self.last()
    }
}

/// The result of a read.
#[derive(Debug, PartialEq)]
pub(crate) enum Found {
    /// The next events were handed over.
    Events,
    /// They are no longer here: read the store.
    Older,
    /// There is no newer event yet.
    Nothing,
    /// There will be no newer event here: read the store.
    Closed,
}

impl Hub {
    pub(crate) fn new(epoch: u32, committed: u64, most: usize) -> Hub {
        let ring = Ring { committed, ..Ring::default() };
        let (newest, kept) = (watch::Sender::new(committed), watch::Sender::new(committed));
        Hub { epoch, most, ring: Mutex::new(ring), newest, kept }
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows events that are not committed yet: pieces of text. Those that are here already are not added again.
    pub(crate) fn show(&self, first: u64, events: &[Event]) {
        let mut ring = self.lock();
        let known = ring.known_from(first);
        let Some(fresh @ [_, ..]) = events.get(known..) else { return };
        let last = ring.append(self.epoch, first + known as u64, fresh.iter().cloned());
        drop(ring);
        self.newest.send_replace(last);
    }

    /// Shows events that are committed; all events before them count as committed, too.
    pub(crate) fn commit(&self, first: u64, events: impl IntoIterator<Item = Event>) {
        let mut ring = self.lock();
        let (known, mut count) = (ring.known_from(first), 0);
        let events = events.into_iter().inspect(|_| count += 1).skip(known);
        let last = ring.append(self.epoch, first + known as u64, events);
        // Events shown after them are not committed yet.
        let committed = (first + count).saturating_sub(1);
        ring.committed = committed;
        while ring.events.len() > self.most && ring.events.front().is_some_and(|e| e.seq <= ring.committed) {
            ring.events.pop_front();
        }
        drop(ring);
        self.newest.send_replace(last);
        self.kept.send_replace(committed);
    }

    /// Closes it: readers go to the store.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.newest.send_modify(|_| {});
        self.kept.send_replace(u64::MAX);
    }

    /// Waits until an event is committed, or the hub is closed.
    pub(crate) async fn is_kept(&self, seq: u64) {
        let _ = self.kept.subscribe().wait_for(|kept| *kept >= seq).await;
    }

    /// Hands over the events after a number, at most `limit`.
    pub(crate) fn after(&self, seq: u64, limit: usize, mut take: impl FnMut(Arc<NumberedEvent>)) -> Found {
        let ring = self.lock();
        let nothing = if ring.closed { Found::Closed } else { Found::Nothing };
        match ring.events.front() {
            Some(first) if first.seq <= seq + 1 => {
                let skip = usize::try_from(seq + 1 - first.seq).unwrap_or(usize::MAX);
                if skip >= ring.events.len() {
                    return nothing;
                }
                ring.events.iter().skip(skip).take(limit).cloned().for_each(&mut take);
                Found::Events
            }
            None if seq >= ring.committed => nothing,
            _ => Found::Older,
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::fault::Code;
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;

    fn event(n: u64) -> Event {
        Event::Warning { code: Code::Internal, message: n.to_string() }
    }

    /// The result of a read after a number, and the numbers of the events that were handed over.
    fn after(hub: &Hub, seq: u64, limit: usize) -> (Found, Vec<u64>) {
        let mut numbers = Vec::new();
        let found = hub.after(seq, limit, |event| numbers.push(event.seq));
        (found, numbers)
    }

    #[test]
    fn readers_keep_their_own_place() {
        let hub = Hub::new(1, 0, 4);
        assert_eq!(after(&hub, 0, 9), (Found::Nothing, vec![]));
        hub.show(1, &[event(1)]);
        hub.show(1, &[event(1), event(2)]);
        hub.show(1, &[event(1), event(2)]);
        assert_eq!(after(&hub, 0, 9), (Found::Events, vec![1, 2]), "what is here is not taken again");
        assert_eq!(after(&hub, 0, 1), (Found::Events, vec![1]));
        assert_eq!(after(&hub, 2, 9), (Found::Nothing, vec![]));
        hub.commit(1, [event(1), event(2), event(3)]);
        assert_eq!(after(&hub, 1, 9), (Found::Events, vec![2, 3]));
    }

    #[test]
    fn whoever_waits_for_a_commit_is_not_woken_by_what_is_only_shown() {
        let hub = Hub::new(1, 0, 4);
        let woken = Arc::new(Woken(AtomicBool::new(false)));
        let waker = woken.clone().into();
        let mut cx = std::task::Context::from_waker(&waker);
        let mut kept = std::pin::pin!(hub.is_kept(2));
        assert!(kept.as_mut().poll(&mut cx).is_pending());
        hub.show(1, &[event(1), event(2), event(3)]);
        assert!(!woken.0.load(Relaxed));
        hub.commit(1, [event(1), event(2), event(3)]);
        assert!(woken.0.load(Relaxed) && kept.as_mut().poll(&mut cx).is_ready());
        let mut never = std::pin::pin!(hub.is_kept(9));
        assert!(never.as_mut().poll(&mut cx).is_pending());
        hub.close();
        assert!(never.as_mut().poll(&mut cx).is_ready());
    }

    struct Woken(AtomicBool);

    impl std::task::Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Relaxed);
        }
    }

    #[test]
    fn what_was_shown_while_a_commit_was_under_way_is_not_committed_with_it() {
        let hub = Hub::new(1, 0, 2);
        hub.show(1, &[event(1), event(2)]);
        hub.show(3, &[event(3), event(4), event(5)]);
        hub.commit(1, [event(1), event(2)]);
        assert_eq!((*hub.newest.borrow(), *hub.kept.borrow()), (5, 2));
        assert_eq!(after(&hub, 0, 9), (Found::Older, vec![]), "only what is committed may go");
        assert_eq!(after(&hub, 2, 9), (Found::Events, vec![3, 4, 5]));
        hub.show(3, &[event(3), event(4), event(5), event(6)]);
        hub.commit(3, [event(3), event(4), event(5), event(6), event(7)]);
        assert_eq!((*hub.newest.borrow(), *hub.kept.borrow()), (7, 7));
        assert_eq!(after(&hub, 5, 9), (Found::Events, vec![6, 7]));
    }

    #[test]
    fn memory_is_bounded_but_for_what_is_not_committed() {
        let hub = Hub::new(1, 10, 4);
        hub.commit(11, (11..=30).map(event));
        assert_eq!(after(&hub, 11, 9), (Found::Older, vec![]));
        assert_eq!(after(&hub, 26, 9), (Found::Events, vec![27, 28, 29, 30]));
        (31..=50).for_each(|n| hub.show(n, &[event(n)]));
        assert_eq!(after(&hub, 30, 99), (Found::Events, (31..=50).collect()), "uncommitted ones are kept");
        hub.commit(31, (31..=50).map(event));
        assert_eq!(after(&hub, 30, 9), (Found::Older, vec![]));
        hub.close();
        assert_eq!(after(&hub, 48, 9), (Found::Events, vec![49, 50]), "what is there can still be read");
        assert_eq!(after(&hub, 50, 9), (Found::Closed, vec![]));
    }
}
