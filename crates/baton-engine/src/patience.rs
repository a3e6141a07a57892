//! Trying a store again that does not answer, for a while.

use std::time::Duration;

use baton_store::StoreError;
use tokio::time::Instant;

/// How long a store is tried, and how far apart.
pub(crate) struct Patience {
    over: Instant,
    pause: Duration,
    /// Whether it was said that the store is tried again: once is enough.
    told: bool,
}

impl Patience {
    pub(crate) fn of(patience: Duration) -> Self {
        Patience { over: Instant::now() + patience, pause: Duration::from_millis(2), told: false }
    }

    /// Whether another try is worth it; if so, waits until it is. Where a person can do something about it (another
    /// process keeps everybody from writing, the disk is full), whoever asked is told at once.
    pub(crate) async fn another(&mut self, error: &StoreError) -> bool {
        !matches!(error, StoreError::Blocked { .. }) && self.one_more(error).await
    }

    /// The same for what goes on in any case: a run that is driven is not given up so soon.
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

/// Makes a store call until it is answered or patience is over. A macro, because the call is made anew
/// each time and a closure that returns a borrowing future cannot be sent between threads.
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
