//! A store that fails now and then, for tests: every call may say that it did not happen, and every write
//! may say that it does not know although it happened.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Store;
use crate::error::StoreError;

/// Wraps a store. The same seed fails the same calls.
#[derive(Debug)]
pub struct FaultyStore {
    inner: Store,
    per_mille: u64,
    state: AtomicU64,
}

impl FaultyStore {
    /// Fails about `per_mille` of a thousand calls.
    pub fn new(inner: Store, per_mille: u64, seed: u64) -> Self {
        FaultyStore { inner, per_mille, state: AtomicU64::new(seed) }
    }

    pub(crate) fn inner(&self) -> &Store {
        &self.inner
    }

    pub(crate) fn before(&self, method: &str) -> Result<(), StoreError> {
        if self.strikes() {
            return Err(StoreError::Unavailable(format!("{method} was made to fail")));
        }
        Ok(())
    }

    /// A write that worked may be reported as one that nobody knows of.
    pub(crate) fn after<T>(&self, method: &str, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if matches!(method, "commit" | "start" | "claim") && result.is_ok() && self.strikes() {
            return Err(StoreError::Ambiguous(format!("{method} was done but made to time out")));
        }
        result
    }

    /// SplitMix64: a good enough die, the same on every machine.
    fn strikes(&self) -> bool {
        let mut z = self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % 1000 < self.per_mille
    }
}
