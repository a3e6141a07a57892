//! Metrics of a process since its start, for monitoring.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use baton_core::budget::Budget;
use baton_core::run::RunStatus;

use crate::driver::Rested;

/// The upper ends of the buckets that commits are counted in, in microseconds; the last has none.
pub const COMMIT_BUCKETS_US: [u64; 10] =
    [250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 2_500_000];

/// The metrics of a process, read at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Runs that are driven here now.
    pub live: u64,
    /// Single tool calls that are under way here now.
    pub executing: u64,
    /// Runs that were begun here.
    pub started: u64,
    /// Runs that were resumed here.
    pub resumed: u64,
    /// Runs that ended well here.
    pub ok: u64,
    /// Runs that failed here.
    pub error: u64,
    /// Runs that were cancelled here.
    pub cancelled: u64,
    /// Runs that were suspended here.
    pub suspended: u64,
    /// Runs that another process took, or that could not be driven on.
    pub lost: u64,
    /// Transitions committed, by how long that took.
    pub commits: [u64; COMMIT_BUCKETS_US.len() + 1],
    /// How long all of them took, in microseconds.
    pub commit_us: u64,
    /// Model calls of the runs that ended here.
    pub model_calls: u64,
    /// Tool calls of the runs that ended here.
    pub tool_calls: u64,
    /// Tokens read by the runs that ended here.
    pub prompt_tokens: u64,
    /// Tokens written by the runs that ended here.
    pub completion_tokens: u64,
}

/// The counters behind the metrics.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) started: AtomicU64,
    pub(crate) resumed: AtomicU64,
    ok: AtomicU64,
    error: AtomicU64,
    cancelled: AtomicU64,
    suspended: AtomicU64,
    lost: AtomicU64,
    commits: [AtomicU64; COMMIT_BUCKETS_US.len() + 1],
    commit_us: AtomicU64,
    model_calls: AtomicU64,
    tool_calls: AtomicU64,
    prompt_tokens: AtomicU64,
    completion_tokens: AtomicU64,
}

impl Counters {
    pub(crate) fn rested(&self, rested: &Rested) {
        let counter = match rested {
            Rested::Ended(RunStatus::Ok) => &self.ok,
            Rested::Ended(RunStatus::Cancelled) => &self.cancelled,
            Rested::Ended(_) => &self.error,
            Rested::Suspended => &self.suspended,
            Rested::Lost | Rested::Failed(_) => &self.lost,
            Rested::Released => return,
        };
        counter.fetch_add(1, Relaxed);
    }

    pub(crate) fn committed(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = COMMIT_BUCKETS_US.iter().position(|most| us <= *most).unwrap_or(COMMIT_BUCKETS_US.len());
        self.commits[bucket].fetch_add(1, Relaxed);
        self.commit_us.fetch_add(us, Relaxed);
    }

    /// Adds the usage of a run that ended.
    pub(crate) fn used(&self, budget: &Budget) {
        self.model_calls.fetch_add(budget.model_calls.into(), Relaxed);
        self.tool_calls.fetch_add(budget.tool_calls.into(), Relaxed);
        self.prompt_tokens.fetch_add(budget.prompt_tokens, Relaxed);
        self.completion_tokens.fetch_add(budget.completion_tokens, Relaxed);
    }

    pub(crate) fn read(&self, live: usize) -> Figures {
        let mut commits = [0; COMMIT_BUCKETS_US.len() + 1];
        for (read, counter) in commits.iter_mut().zip(&self.commits) {
            *read = counter.load(Relaxed);
        }
        Figures {
            live: live as u64,
            executing: 0,
            started: self.started.load(Relaxed),
            resumed: self.resumed.load(Relaxed),
            ok: self.ok.load(Relaxed),
            error: self.error.load(Relaxed),
            cancelled: self.cancelled.load(Relaxed),
            suspended: self.suspended.load(Relaxed),
            lost: self.lost.load(Relaxed),
            commits,
            commit_us: self.commit_us.load(Relaxed),
            model_calls: self.model_calls.load(Relaxed),
            tool_calls: self.tool_calls.load(Relaxed),
            prompt_tokens: self.prompt_tokens.load(Relaxed),
            completion_tokens: self.completion_tokens.load(Relaxed),
        }
    }
}
