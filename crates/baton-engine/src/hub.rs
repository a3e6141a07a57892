//! The live end of a run's log, for readers in the same process.
//!
//! A ring of the newest events, not a channel a reader: a reader keeps only its place, asks for what
//! comes after it, and goes to the store if that is no longer here. So a slow reader costs nothing and
//! delays nobody.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_core::event::{Event, NumberedEvent};
use tokio::sync::watch;

/// See the module.
#[derive(Debug)]
pub(crate) struct Hub {
    pub(crate) epoch: u32,
    most: usize,
    ring: Mutex<Ring>,
    /// The number of the newest event; moves on with every one, and once more when the hub closes.
    newest: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Ring {
    events: VecDeque<NumberedEvent>,
    committed: u64,
    closed: bool,
}

/// What a reader finds.
#[derive(Debug, PartialEq)]
pub(crate) enum Found {
    /// These come next.
    Events(Vec<NumberedEvent>),
    /// They are no longer here: read the store.
    Older,
    /// There is nothing yet.
    Nothing,
    /// There will be nothing any more: read the store.
    Closed,
}

impl Hub {
    pub(crate) fn new(epoch: u32, committed: u64, most: usize) -> Hub {
        let ring = Ring { committed, ..Ring::default() };
        Hub { epoch, most, ring: Mutex::new(ring), newest: watch::Sender::new(committed) }
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows an event that is not committed yet: a piece of text.
    pub(crate) fn show(&self, seq: u64, event: Event) {
        self.lock().events.push_back(NumberedEvent { epoch: self.epoch, seq, event });
        self.newest.send_replace(seq);
    }

    /// Shows events that are committed, and everything before them with them.
    pub(crate) fn commit(&self, first: u64, events: impl IntoIterator<Item = Event>) {
        let mut ring = self.lock();
        let mut last = ring.events.back().map_or(ring.committed, |event| event.seq);
        for (seq, event) in (first..).zip(events) {
            if seq > last {
                ring.events.push_back(NumberedEvent { epoch: self.epoch, seq, event });
                last = seq;
            }
        }
        ring.committed = last;
        while ring.events.len() > self.most && ring.events.front().is_some_and(|e| e.seq <= ring.committed) {
            ring.events.pop_front();
        }
        drop(ring);
        self.newest.send_replace(last);
    }

    /// Ends it: readers go to the store.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.newest.send_modify(|_| {});
    }

    /// What comes after a number, at most `limit`.
    pub(crate) fn after(&self, seq: u64, limit: usize) -> Found {
        let ring = self.lock();
        let nothing = if ring.closed { Found::Closed } else { Found::Nothing };
        match ring.events.front() {
            Some(first) if first.seq <= seq + 1 => {
                let skip = usize::try_from(seq + 1 - first.seq).unwrap_or(usize::MAX);
                let events: Vec<_> = ring.events.iter().skip(skip).take(limit).cloned().collect();
                if events.is_empty() { nothing } else { Found::Events(events) }
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

    fn event(n: u64) -> Event {
        Event::Warning { code: Code::Internal, message: n.to_string() }
    }

    fn numbers(found: Found) -> Vec<u64> {
        match found {
            Found::Events(events) => events.into_iter().map(|event| event.seq).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn readers_keep_their_own_place() {
        let hub = Hub::new(1, 0, 4);
        assert_eq!(hub.after(0, 9), Found::Nothing);
        hub.show(1, event(1));
        hub.show(2, event(2));
        assert_eq!(numbers(hub.after(0, 9)), [1, 2]);
        assert_eq!(numbers(hub.after(0, 1)), [1]);
        assert_eq!(hub.after(2, 9), Found::Nothing);
        hub.commit(1, [event(1), event(2), event(3)]);
        assert_eq!(numbers(hub.after(1, 9)), [2, 3]);
    }

    #[test]
    fn memory_is_bounded_but_for_what_is_not_committed() {
        let hub = Hub::new(1, 10, 4);
        hub.commit(11, (11..=30).map(event));
        assert_eq!(hub.after(11, 9), Found::Older);
        assert_eq!(numbers(hub.after(26, 9)), [27, 28, 29, 30]);
        (31..=50).for_each(|n| hub.show(n, event(n)));
        assert_eq!(numbers(hub.after(30, 99)).len(), 20, "uncommitted ones are kept");
        hub.commit(31, (31..=50).map(event));
        assert_eq!(hub.after(30, 9), Found::Older);
        hub.close();
        assert_eq!(numbers(hub.after(48, 9)), [49, 50], "what is there can still be read");
        assert_eq!(hub.after(50, 9), Found::Closed);
    }
}
