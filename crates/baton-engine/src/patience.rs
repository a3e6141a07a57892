//! Retrying a store that does not answer, for a while.

use std::time::Duration;

use baton_store::StoreError;
use tokio::time::Instant;

/// The state of one retry loop: its deadline and its backoff.
pub(crate) struct Patience {
    over: Instant,
    pause: Duration,
    /// Whether a retry was logged as a warning: once is enough.
    told: bool,
}

impl Patience {
    pub(crate) fn of(patience: Duration) -> Self {
        Patience { over: Instant::now() + patience, pause: Duration::from_millis(2), told: false }
    }

    /// Whether another try is worth it; if so, waits until it is due. An error that the operator can resolve (another
    /// process blocks all writes, the disk is full) is returned to the caller at once.
    pub(crate) async fn another(&mut self, error: &StoreError) -> bool {
        !matches!(error, StoreError::Blocked { .. }) && self.one_more(error).await
    }

    /// Decides like `another`, but retries `Blocked` errors, too: a run that is driven is not given up so soon.
    pub(crate) async fn one_more(&mut self, error: &StoreError) -> bool {
        if !error.is_transient() || Instant::now() >= self.over {
            return false;
        }
        match std::mem::replace(&mut self.told, true) {
            false => tracing::warn!(%error, "the store is tried again"),
            true => tracing::debug!(%error, "the store is tried again"),
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(Duration::from_secs(1));
        true
    }
}

/// Retries a store call until it is answered or its deadline has passed. A macro, because the call is made anew each
/// time and a closure that returns a borrowing future cannot be sent between threads.
macro_rules! patiently {
    ($shared:expr, $call:expr) => {{
        let mut patience = $crate::patience::Patience::of($shared.settings.store_patience);
        loop {
            match $call.await {
                Err(error) if patience.another(&error).await => {}
                answer => break answer,
            }
        }
    }};
}
pub(crate) use patiently;
