//! A store with injected faults, for tests: any call may fail, and a write may also be reported as ambiguous, whether
//! it was done or not.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_core::event::Event;
use baton_core::id::Tenant;
use futures_util::future::BoxFuture;
use tokio::sync::watch;

use crate::error::StoreError;
use crate::{NewRun, RunHalt, Store, Transition};

/// A fault that a checker of the store's promises has to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreBug {
    /// The fence is not checked.
    SkipFence,
    /// A commit is acknowledged and not written.
    LoseCommit,
    /// An event gets the number of the one before it.
    ReuseNumber,
    /// An entry is left out.
    DropEntry,
    /// A transition commits although there are unread messages.
    IgnoreInbox,
    /// The last event is written twice.
    EndTwice,
}

/// Every method that writes. A test compares the list with the source.
pub const WRITES: [&str; 36] = [
    "add_calls",
    "add_token",
    "answer_call",
    "begin_key",
    "checkout",
    "claim",
    "collect",
    "commit",
    "create_thread",
    "decide",
    "delete_branch",
    "delete_thread",
    "distrust",
    "enqueue",
    "forgive",
    "fork",
    "note_policy",
    "prune",
    "push",
    "put_blob",
    "receive",
    "release",
    "remember",
    "rename_thread",
    "require_no_tokens",
    "require_tokens",
    "retake_key",
    "revoke_token",
    "rewind",
    "seal",
    "sent",
    "start",
    "tell",
    "trim_outbox",
    "watch",
    "watch_all",
];

/// An injected result of a call.
#[derive(Clone)]
pub enum Mishap {
    /// The call is not done, and fails.
    Refused,
    /// The write is not done, and its result is ambiguous.
    Undone,
    /// The write is done, and its result is ambiguous.
    Untold,
    /// The call is done, then this future runs, and then the result is returned.
    Then(Arc<dyn Fn() -> BoxFuture<'static, ()> + Send + Sync>),
}

impl std::fmt::Debug for Mishap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Mishap::Refused => "Refused",
            Mishap::Undone => "Undone",
            Mishap::Untold => "Untold",
            Mishap::Then(_) => "Then",
        })
    }
}

/// A wrapper of a store. The same seed fails the same calls.
#[derive(Debug)]
pub struct FaultyStore {
    inner: Store,
    per_mille: u64,
    state: AtomicU64,
    bug: Option<StoreBug>,
    /// The number of calls of each method.
    calls: Mutex<BTreeMap<String, u64>>,
    /// The planned mishaps: for a method, at its n-th call.
    planned: Mutex<Vec<(&'static str, u64, Mishap)>>,
    /// Whether starts are held back and land later.
    stalled: watch::Sender<bool>,
}

impl FaultyStore {
    /// A store that fails about `per_mille` of a thousand calls; with 1000 or more, no call is ever done.
    pub fn new(inner: Store, per_mille: u64, seed: u64) -> Self {
        let (state, calls, planned) = (AtomicU64::new(seed), Mutex::default(), Mutex::default());
        FaultyStore { inner, per_mille, state, bug: None, calls, planned, stalled: watch::Sender::new(false) }
    }

    /// Plans a mishap for one call of a method, counted from 1.
    pub fn plan(&self, method: &'static str, nth: u64, mishap: Mishap) {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner).push((method, nth, mishap));
    }

    /// A store that never fails, but has a fault.
    pub fn with_bug(inner: Store, bug: StoreBug) -> Self {
        FaultyStore { bug: Some(bug), ..FaultyStore::new(inner, 0, 0) }
    }

    /// The wrapped store, which does not fail.
    pub fn inner(&self) -> &Store {
        &self.inner
    }

    /// The number of calls of this method.
    pub fn called(&self, method: &str) -> u64 {
        self.lock().get(method).copied().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// While this is set, starts return an ambiguous result; when it is unset, all of them land, one after the other.
    pub fn stall(&self, is_stalled: bool) {
        self.stalled.send_replace(is_stalled);
    }

    /// The error of a start that is held back and lands later.
    pub(crate) fn late(&self, tenant: &Tenant, new: &NewRun, first: &Transition) -> Option<StoreError> {
        if !*self.stalled.borrow() {
            return None;
        }
        let (mut stalled, inner) = (self.stalled.subscribe(), self.inner.clone());
        let (tenant, new, first) = (tenant.clone(), new.clone(), first.clone());
        tokio::spawn(async move {
            if stalled.wait_for(|is_stalled| !is_stalled).await.is_ok() {
                let _ = inner.start(&tenant, new, first).await;
            }
        });
        Some(StoreError::Ambiguous("the start is on its way".to_owned()))
    }

    /// The mishap of this call, if there is one. A write may be done or not and be ambiguous; a read is done or fails.
    pub(crate) fn mishap(&self, method: &str) -> Option<Mishap> {
        let mut calls = self.lock();
        let count = calls.entry(method.to_owned()).or_default();
        *count += 1;
        let planned = self.planned.lock().unwrap_or_else(PoisonError::into_inner);
        let planned = planned.iter().find(|(of, nth, _)| *of == method && nth == count);
        if let Some((_, _, mishap)) = planned {
            return Some(mishap.clone());
        }
        drop(calls);
        let way = self.strikes()?;
        match way % 3 {
            _ if self.per_mille >= 1000 => Some(Mishap::Refused), // no call is ever done
            1 if WRITES.contains(&method) => Some(Mishap::Undone),
            2 if WRITES.contains(&method) => Some(Mishap::Untold),
            _ => Some(Mishap::Refused),
        }
    }

    /// The result of a commit under the planted fault; `None` where the fault does not apply.
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
                // The fence would see the gap, so this fault goes around it as well.
                let Store::Memory(store) = &self.inner else { return None };
                bad.last_seq -= 1;
                return Some(store.commit_unfenced(tenant, bad));
            }
            StoreBug::DropEntry if !bad.entries.is_empty() => {
                bad.entries.pop();
                bad.checkpoint.head -= 1;
            }
            StoreBug::IgnoreInbox => bad.inbox = None,
            StoreBug::EndTwice if matches!(bad.rest, RunHalt::Ended(_)) => {
                let last: Option<Event> = bad.checkpoint.events.last().cloned();
                bad.checkpoint.events.extend(last);
                bad.last_seq += 1;
            }
            _ => return None,
        }
        Some(Box::pin(self.inner.commit(tenant, &bad)).await)
    }

    /// SplitMix64: a good enough die, the same on every machine. Returns a random number if the call is to fail.
    fn strikes(&self) -> Option<u64> {
        let mut z = self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (z % 1000 < self.per_mille).then_some(z / 1000)
    }
}

impl Mishap {
    /// The error that is returned instead of doing the call.
    pub(crate) fn instead(&self, method: &str) -> Option<StoreError> {
        match self {
            Mishap::Refused => Some(StoreError::Unavailable(format!("{method} was made to fail"))),
            Mishap::Undone => {
                Some(StoreError::Ambiguous(format!("{method} was not done and made to time out")))
            }
            Mishap::Untold | Mishap::Then(_) => None,
        }
    }

    /// The result that is returned after the call was done.
    pub(crate) async fn after<T>(self, method: &str, result: Result<T, StoreError>) -> Result<T, StoreError> {
        match self {
            Mishap::Untold if result.is_ok() => {
                Err(StoreError::Ambiguous(format!("{method} was done but made to time out")))
            }
            Mishap::Then(happens) => {
                happens().await;
                result
            }
            _ => result,
        }
    }
}

fn is_result(event: &Event) -> bool {
    matches!(event, Event::ToolResult { .. })
}
