//! What is known to be stored, so that nobody has to ask or to write it again.
//!
//! A guess that is often right: who relies on it looks again in its write. It never holds more than a few
//! thousand, whatever passes through; then it forgets all of them, and learns those that are in use anew.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many are known at most.
const MOST: usize = 4096;

/// See the module.
#[derive(Debug)]
pub struct Known<T>(Mutex<HashSet<T>>);

impl<T> Default for Known<T> {
    fn default() -> Self {
        Known(Mutex::default())
    }
}

impl<T: Eq + Hash> Known<T> {
    fn lock(&self) -> MutexGuard<'_, HashSet<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was learned, and not forgotten since.
    pub fn knows(&self, it: &T) -> bool {
        self.lock().contains(it)
    }

    /// Takes note of it.
    pub fn learn(&self, it: T) {
        let mut known = self.lock();
        if known.len() >= MOST && !known.contains(&it) {
            known.clear();
        }
        known.insert(it);
    }
}

#[cfg(test)]
mod tests;
