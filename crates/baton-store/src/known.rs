//! Definitions that are known to be stored, so that a start need not write them again.
//!
//! A guess that is often right: who relies on it looks again in its write. It never holds more than a few
//! thousand, whatever passes through; then it forgets all of them, and learns those that are in use anew.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use baton_core::id::Tenant;

/// How many are known at most.
const MOST: usize = 4096;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Known {
    definitions: Mutex<HashSet<(Tenant, String)>>,
}

impl Known {
    pub(crate) fn knows(&self, definition: &(Tenant, String)) -> bool {
        self.definitions.lock().unwrap_or_else(PoisonError::into_inner).contains(definition)
    }

    pub(crate) fn learn(&self, definition: (Tenant, String)) {
        let mut known = self.definitions.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST && !known.contains(&definition) {
            known.clear();
        }
        known.insert(definition);
    }
}

#[cfg(test)]
mod tests;
