//! The first write of a run, which makes it.

use std::sync::atomic::Ordering::Relaxed;

use baton_core::flow::Record;
use baton_core::id::{RunId, Tenant};
use baton_core::run::RunStatus;
use baton_store::failpoint::point;
use baton_store::{Intent, NewRun, RunHalt, Store, StoreError, Transition};
use tokio::time::Instant;

use super::Driver;
use crate::audit::Told;
use crate::error::EngineError;
use crate::patience::patiently;
use crate::perform::Hold;

impl Driver {
    /// Writes the first transition, which makes the run.
    pub(crate) async fn first(
        &mut self,
        new: NewRun,
        mut record: Record,
        intents: Vec<Intent>,
        text: Option<&str>,
        inbox: Option<u32>,
    ) -> Result<(), EngineError> {
        let events = std::mem::take(&mut record.events);
        let in_flight = self.in_flight(None, &intents);
        let (budget, state) = (self.budget.clone(), self.state.clone());
        let mut transition = self.transition(record, events, budget, 0, in_flight, state);
        transition.inbox = inbox;
        transition.audit.push(self.audit_line(transition.checkpoint.at, &Told::Started(text), None));
        point("admit.pre_commit");
        let (tenant, run, store) = (self.performer.tenant.clone(), self.run(), self.shared.store.clone());
        let since = self.performer.track.now();
        let (began, hold) = (Instant::now(), Hold::of(&self.shared, self.row.epoch));
        let lane = patiently!(self.shared, begin(&store, &tenant, run, &new, &transition))?;
        self.shared.figures.committed(began.elapsed());
        self.shared.figures.started.fetch_add(1, Relaxed);
        self.performer.track.committed(since, transition.step, None);
        point("admit.post_commit");
        self.hold = hold;
        self.row.lane = lane;
        self.remember(transition);
        self.reload().await?;
        self.start(intents);
        // The started tasks run once before the caller is answered.
        tokio::task::yield_now().await;
        Ok(())
    }
}

/// Begins the run; answers the lane that it writes to. After an ambiguous error, or an error that a second try gets
/// because the first went through, the run is read back: it exists, it has begun, and it is ours. A queued run existed
/// before, so that its existence proves nothing.
pub(super) async fn begin(
    store: &Store,
    tenant: &Tenant,
    run: RunId,
    new: &NewRun,
    first: &Transition,
) -> Result<u32, StoreError> {
    match store.start(tenant, new.clone(), first.clone()).await {
        Err(StoreError::Busy { run: holder, .. }) if holder == run && !new.queued => {}
        Err(StoreError::KeyUsed(known)) if known.run == Some(run) => {}
        Err(StoreError::Fenced { .. } | StoreError::Ended { .. }) if new.queued => {}
        Err(StoreError::Ambiguous(_) | StoreError::Exists { .. }) => {}
        other => return other,
    }
    let row = match Box::pin(store.run(tenant, run)).await {
        Err(StoreError::NotFound { .. }) if !new.queued => {
            return Err(StoreError::Unavailable("the run was not written".to_owned()));
        }
        found => found?,
    };
    let ends = matches!(first.rest, RunHalt::Ended(_));
    let is_ours = row.owner == Some(new.owner) || (ends && row.status.has_ended());
    match row.status {
        _ if row.step >= first.step && is_ours => Ok(row.lane),
        RunStatus::Queued => Err(StoreError::Unavailable("the run was not begun".to_owned())),
        _ => Err(StoreError::Fenced { run, epoch: row.epoch }),
    }
}
