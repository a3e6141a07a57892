//! How a process leaves what it drives: finished, let go of, or, in tests, as it is.

use tokio::time::Instant;

use super::{Engine, Shared};

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
    }
}

impl Shared {
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
