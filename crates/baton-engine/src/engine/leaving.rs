//! Shutdown: how the driven runs are finished, released or, in tests, left as they are.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Engine, Shared};

/// The longest time to release runs that this process held without driving them.
const LAST_LOOK: Duration = Duration::from_millis(500);

impl Engine {
    /// Dies as a killed process does: nothing is finished, nothing is released. For tests.
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

    /// Counts as dead from now on although it continues: as a process that was suspended for too long. For tests.
    #[cfg(feature = "failpoints")]
    pub fn bury(&self) {
        self.shared.store.bury(self.shared.owner.id);
    }

    /// Finishes or releases all runs; returns when nothing is driven here any more.
    pub async fn shutdown(&self) {
        let _ = self.shared.closing_at.set(Instant::now() + self.shared.settings.shutdown);
        self.shared.closing.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        self.let_go_of_the_rest().await;
    }

    /// Releases runs that this process owns and does not drive: no other process may claim them while its lease lives.
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
    /// Runs work that a shutdown waits for, but no longer than for the runs.
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

    /// Completes when a process that shuts down releases runs with effects still in flight.
    async fn ran_out_of_time(&self) {
        self.went_down().await;
        if let Some(at) = self.goes_down_at() {
            tokio::time::sleep_until(at).await;
        }
    }

    /// Completes when the process begins to shut down.
    pub(crate) async fn went_down(&self) {
        self.closing.cancelled().await;
    }

    /// When a process that shuts down releases runs with effects still in flight.
    pub(crate) fn goes_down_at(&self) -> Option<Instant> {
        self.closing_at.get().copied()
    }

    pub(crate) fn is_out_of_time(&self) -> bool {
        self.goes_down_at().is_some_and(|at| at <= Instant::now())
    }
}
