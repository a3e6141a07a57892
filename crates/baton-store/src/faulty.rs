//! A store that fails now and then, for tests: every call may say that it did not happen, and every write
//! may say that it does not know although it happened.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_core::event::Event;
use baton_core::id::Tenant;

use crate::error::StoreError;
use crate::{Rest, Store, Transition};

/// A fault of a store that a checker of the promises has to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreBug {
    /// Whoever writes is believed.
    SkipFence,
    /// A commit is acknowledged and not written.
    LoseCommit,
    /// An event gets the number of the one before it.
    ReuseNumber,
    /// An entry is left out.
    DropEntry,
    /// Unread messages do not matter.
    IgnoreInbox,
    /// The last event is written twice.
    EndTwice,
}

/// Wraps a store. The same seed fails the same calls.
#[derive(Debug)]
pub struct FaultyStore {
    inner: Store,
    per_mille: u64,
    state: AtomicU64,
    bug: Option<StoreBug>,
    /// How often each method was called.
    calls: Mutex<BTreeMap<String, u64>>,
}

impl FaultyStore {
    /// Fails about `per_mille` of a thousand calls.
    pub fn new(inner: Store, per_mille: u64, seed: u64) -> Self {
        FaultyStore { inner, per_mille, state: AtomicU64::new(seed), bug: None, calls: Mutex::default() }
    }

    /// Never fails, but has a fault.
    pub fn with_bug(inner: Store, bug: StoreBug) -> Self {
        FaultyStore { bug: Some(bug), ..FaultyStore::new(inner, 0, 0) }
    }

    pub(crate) fn inner(&self) -> &Store {
        &self.inner
    }

    /// How often this method was called.
    pub fn called(&self, method: &str) -> u64 {
        self.lock().get(method).copied().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn before(&self, method: &str) -> Result<(), StoreError> {
        *self.lock().entry(method.to_owned()).or_default() += 1;
        if self.strikes() {
            return Err(StoreError::Unavailable(format!("{method} was made to fail")));
        }
        Ok(())
    }

    /// A write that worked may be reported as one that nobody knows of.
    pub(crate) fn after<T>(&self, method: &str, result: Result<T, StoreError>) -> Result<T, StoreError> {
        if matches!(method, "commit" | "start" | "claim" | "post") && result.is_ok() && self.strikes() {
            return Err(StoreError::Ambiguous(format!("{method} was done but made to time out")));
        }
        result
    }

    /// What a commit comes to under the planted fault; none where it does not show.
    pub(crate) async fn sabotaged(
        &self,
        tenant: &Tenant,
        transition: &Transition,
    ) -> Option<Result<(), StoreError>> {
        let mut bad = transition.clone();
        match self.bug? {
            StoreBug::SkipFence => {
                let Store::Memory(store) = &self.inner else { return None };
                return Some(store.commit_unfenced(tenant, bad));
            }
            StoreBug::LoseCommit if transition.checkpoint.events.iter().any(is_result) => {
                return Some(Ok(()));
            }
            StoreBug::ReuseNumber if transition.step == 2 => {
                // The fence would see the gap, so this too goes around it.
                let Store::Memory(store) = &self.inner else { return None };
                bad.last_seq -= 1;
                return Some(store.commit_unfenced(tenant, bad));
            }
            StoreBug::DropEntry if !bad.entries.is_empty() => {
                bad.entries.pop();
                bad.checkpoint.head -= 1;
            }
            StoreBug::IgnoreInbox => bad.inbox = None,
            StoreBug::EndTwice if matches!(bad.rest, Rest::Ended(_)) => {
                let last: Option<Event> = bad.checkpoint.events.last().cloned();
                bad.checkpoint.events.extend(last);
                bad.last_seq += 1;
            }
            _ => return None,
        }
        Some(Box::pin(self.inner.commit(tenant, &bad)).await)
    }

    /// SplitMix64: a good enough die, the same on every machine.
    fn strikes(&self) -> bool {
        let mut z = self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % 1000 < self.per_mille
    }
}

fn is_result(event: &Event) -> bool {
    matches!(event, Event::ToolResult { .. })
}
