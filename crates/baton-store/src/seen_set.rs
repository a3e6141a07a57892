//! A set of keys that are known to be stored, so that they need not be read or written again.
//!
//! Its answer is a hint, which the write verifies. The set is bounded to a few thousand keys: when it is full it is
//! cleared, and keys in use are added again.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The largest number of keys in the set.
const MOST: usize = 4096;

/// The set of known keys; see the module.
#[derive(Debug)]
pub struct SeenSet<T>(Mutex<HashSet<T>>);

impl<T> Default for SeenSet<T> {
    fn default() -> Self {
        SeenSet(Mutex::default())
    }
}

impl<T: Eq + Hash> SeenSet<T> {
    fn lock(&self) -> MutexGuard<'_, HashSet<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the key was added, and not cleared since.
    pub fn contains(&self, it: &T) -> bool {
        self.lock().contains(it)
    }

    /// Adds a key.
    pub fn insert(&self, it: T) {
        let mut known = self.lock();
        if known.len() >= MOST && !known.contains(&it) {
            known.clear();
        }
        known.insert(it);
    }
}

#[cfg(test)]
mod tests;
