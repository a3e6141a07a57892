//! How a process leaves what it drives: finished, let go of, or, in tests, as it is.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Engine, Shared};

/// How long it takes at most to let go of runs that nobody drove.
const LAST_LOOK: Duration = Duration::from_millis(500);

impl Engine {
    /// Dies as a killed process does: nothing is finished, nothing is let go. For tests.
    #[cfg(feature = "failpoints")]
    pub async fn crash(self) {
        self.shared.closing.cancel();
        for live in self.shared.lives().values() {
            live.task.abort();
            live.hub.close();
        }
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        self.shared.store.bury(self.shared.owner.id);
    }

    /// Counts as dead from now on although it goes on: as a process that was stopped for too long. For tests.
    #[cfg(feature = "failpoints")]
    pub fn bury(&self) {
        self.shared.store.bury(self.shared.owner.id);
    }

    /// Finishes or lets go of everything; returns when nothing is driven here any more.
    pub async fn shutdown(&self) {
        let _ = self.shared.closing_at.set(Instant::now() + self.shared.settings.shutdown);
        self.shared.closing.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        self.let_go_of_the_rest().await;
    }

    /// Lets go of runs that became this process's without being driven: nobody else may take them up while it lives.
    async fn let_go_of_the_rest(&self) {
        let (shared, me) = (&self.shared, self.owner());
        let letting_go = async {
            for (tenant, run) in shared.unsettled.all() {
                if let Ok(row) = shared.store.run(&tenant, run).await
                    && row.owner == Some(me)
                {
                    let _ = shared.store.release(&tenant, run, row.epoch).await;
                }
            }
        };
        let _ = tokio::time::timeout(LAST_LOOK, letting_go).await;
    }
}

impl Shared {
    /// Does something that a stop waits for, but no longer than for the runs.
    pub(crate) fn before_leaving(self: &Arc<Self>, work: impl Future<Output = ()> + Send + 'static) {
        let shared = self.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = work => {}
                () = shared.ran_out_of_time() => {}
            }
        });
    }

    /// Completes when nothing is driven here any more and nothing will be.
    pub(super) async fn has_left(&self) {
        self.went_down().await;
        self.tasks.wait().await;
    }

    /// Completes when a process that goes down lets go of what is still in flight.
    async fn ran_out_of_time(&self) {
        self.went_down().await;
        if let Some(at) = self.goes_down_at() {
            tokio::time::sleep_until(at).await;
        }
    }

    /// Completes when the process begins to go down.
    pub(crate) async fn went_down(&self) {
        self.closing.cancelled().await;
    }

    /// When a process that goes down lets go of what is still in flight.
    pub(crate) fn goes_down_at(&self) -> Option<Instant> {
        self.closing_at.get().copied()
    }

    pub(crate) fn is_out_of_time(&self) -> bool {
        self.goes_down_at().is_some_and(|at| at <= Instant::now())
    }
}
