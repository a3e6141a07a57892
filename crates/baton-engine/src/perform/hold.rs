//! Checks that this process still owns a run just before a call that may not be made twice.
//!
//! Between the commit of an intent and the call, the process may have been suspended: for longer than its lease, so
//! that another process took its runs, or until an operator moved the run by name. A commit that went through proves
//! that the run was ours then. It still is if the lease cannot have lapsed since, which is known without a query, and
//! too little time went by for an operator. Otherwise the store is asked; and where that does not confirm it either,
//! nothing is sent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use baton_core::id::{RunId, Tenant};
use baton_tools::CallPermit;
use futures_util::FutureExt;
use tokio::time::Instant;

use crate::engine::Shared;
use crate::patience::patiently;

/// How long a commit counts as proof without another check.
const BELIEVED: Duration = Duration::from_millis(100);

/// The proof that a run was held at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hold {
    epoch: u32,
    at: Instant,
    lapses: u64,
}

impl Hold {
    /// Taken before a commit: if the commit goes through, the run was held at this moment.
    pub(crate) fn of(shared: &Shared, epoch: u32) -> Hold {
        Hold { epoch, at: Instant::now(), lapses: shared.owner.lapses() }
    }

    /// Whether the lease cannot have lapsed since, as far as is known without a query.
    fn is_unbroken(&self, shared: &Shared) -> bool {
        shared.owner.is_current() && shared.owner.lapses() == self.lapses
    }

    async fn holds(&self, shared: &Shared, tenant: &Tenant, run: RunId) -> bool {
        if self.is_unbroken(shared) && self.at.elapsed() < BELIEVED {
            return true;
        }
        // An answer of the store counts however long it took, unless the lease may have lapsed meanwhile.
        loop {
            let now = Hold::of(shared, self.epoch);
            if !shared.owner.is_current() {
                return false;
            }
            match patiently!(shared, shared.store.run(tenant, run)) {
                Ok(row) if row.epoch == self.epoch && row.owner == Some(shared.owner.id) => {}
                _ => return false,
            }
            if now.is_unbroken(shared) {
                return true;
            }
        }
    }
}

/// The permit of one call, and whether it was refused.
pub(crate) struct Held {
    pub(crate) permit: CallPermit,
    is_lost: Arc<AtomicBool>,
}

impl Held {
    /// For a call that may not be made again.
    pub(crate) fn once(shared: &Arc<Shared>, tenant: &Tenant, run: RunId, hold: Hold) -> Held {
        let is_lost = Arc::new(AtomicBool::new(false));
        let (shared, tenant, told) = (shared.clone(), tenant.clone(), is_lost.clone());
        let permit = CallPermit::new(move || {
            let (shared, tenant, told) = (shared.clone(), tenant.clone(), told.clone());
            async move {
                let holds = hold.holds(&shared, &tenant, run).await;
                told.fetch_or(!holds, SeqCst);
                holds
            }
            .boxed()
        });
        Held { permit, is_lost }
    }

    /// For a call that does no harm when it is made twice.
    pub(crate) fn freely() -> Held {
        Held { permit: CallPermit::default(), is_lost: Arc::default() }
    }

    /// Whether the run was found to be lost, so that nothing was sent.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(SeqCst)
    }
}
