//! The entries that runs knew of their branches when they ended, for the next run on each.
//!
//! The entries up to the last one of an ended run never change, so that run and the index of the entry identify them: a
//! branch that ends with that entry goes on from here. A thread that was deleted and comes back by an import, perhaps
//! with other texts, has entries that no run wrote.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_core::id::RunId;

use super::Known;

/// The most that all runs together may leave, in bytes of text.
const MOST: usize = 8 << 20;

/// The entries left by ended runs; see the module.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<Shelf>);

#[derive(Debug, Default)]
struct Shelf {
    /// The entries that each run left, and their place in the order.
    left: HashMap<RunId, (u64, Known)>,
    in_order: BTreeMap<u64, RunId>,
    next: u64,
    weight: usize,
}

impl Kept {
    fn lock(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the entries that a run leaves; above the limit the oldest are dropped.
    pub(super) fn put(&self, run: RunId, known: Known) {
        let mut shelf = self.lock();
        shelf.take(run);
        let at = shelf.next;
        shelf.next += 1;
        shelf.weight += known.weight;
        shelf.left.insert(run, (at, known));
        shelf.in_order.insert(at, run);
        while shelf.weight > MOST
            && let Some((_, oldest)) = shelf.in_order.first_key_value()
        {
            let oldest = *oldest;
            shelf.take(oldest);
        }
    }

    /// Takes the entries that a run left.
    pub(super) fn take(&self, run: RunId) -> Option<Known> {
        self.lock().take(run)
    }
}

impl Shelf {
    fn take(&mut self, run: RunId) -> Option<Known> {
        let (at, known) = self.left.remove(&run)?;
        self.in_order.remove(&at);
        self.weight -= known.weight;
        Some(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(n: u128) -> RunId {
        RunId(uuid::Uuid::from_u128(n))
    }

    fn heavy(weight: usize) -> Known {
        Known { first: 0, entries: Vec::new(), weight }
    }

    #[test]
    fn what_was_left_the_longest_ago_goes_first() {
        let kept = Kept::default();
        for n in 0..4 {
            kept.put(run(n), heavy(MOST / 4));
        }
        let again = kept.take(run(0)).unwrap();
        kept.put(run(0), again);
        kept.put(run(4), heavy(MOST / 2));
        let is_there = |n| kept.take(run(n)).is_some();
        assert_eq!([0, 1, 2, 3, 4].map(is_there), [true, false, false, true, true]);
        let shelf = kept.lock();
        assert_eq!((shelf.weight, shelf.left.len(), shelf.in_order.len()), (0, 0, 0));
    }
}
