//! Building a driver and spawning it: the same for a new run, a resumed one and one taken over.

use std::sync::Arc;

use baton_core::flow::Flow;
use baton_core::id::{FramePath, RunId, Tenant};
use baton_core::policy::CallRule;
use baton_core::run::Definition;
use baton_store::RunRow;
use tokio::sync::{Notify, mpsc, watch};

use super::{Engine, Live, RunHandle, is_suspect};
use crate::audit::said_of;
use crate::driver::Driver;
use crate::hub::Hub;
use crate::perform::{Hold, Performer};
use crate::recent::Recent;
use crate::spans::{RunSpan, Track};

/// How many pieces of text may wait for a driver before the models are slowed down.
const SIGNALS: usize = 256;

impl Engine {
    pub(super) fn driver(
        &self,
        row: RunRow,
        tenant: &Tenant,
        definition: Arc<Definition>,
        flow: Flow,
        recent: Recent,
    ) -> Driver {
        let shared = self.shared.clone();
        let (sender, signals) = mpsc::channel(SIGNALS);
        let (now, pinned) = (shared.clone(), definition.clone());
        let denied_now = move |tool: &str| {
            let now = now.decision(pinned.mode, &pinned.channel);
            match now.map_or(CallRule::Denied, |now| now.call(tool)) {
                CallRule::Allowed => false,
                CallRule::NeedsApproval => pinned.decision.call(tool) == CallRule::Allowed,
                CallRule::Denied => true,
            }
        };
        let track = Track::of(&row);
        let span = RunSpan::planned(&track);
        let performer = Performer {
            shared: shared.clone(),
            store: shared.store.clone(),
            tools: {
                let shared = shared.clone();
                Arc::new(move || shared.tools())
            },
            models: shared.models.clone(),
            renderers: shared.renderers.clone(),
            clock: shared.clock.clone(),
            settings: shared.settings.clone(),
            tenant: tenant.clone(),
            run: row.id,
            path: FramePath::root(),
            thread: row.thread.clone(),
            branch: row.branch.clone(),
            definition: definition.clone(),
            denied_now: Arc::new(denied_now),
            metadata: said_of(&row),
            signals: sender,
            recent,
            kept: shared.kept.clone(),
            track,
        };
        Driver {
            span,
            hub: Arc::new(Hub::new(row.epoch, row.seq, shared.settings.ring)),
            performer: Arc::new(performer),
            signals,
            wake: Arc::new(Notify::new()),
            definition,
            state: flow.record(),
            flow,
            waits: Vec::new(),
            tail: Default::default(),
            budget: row.budget.clone(),
            inbox_read: 0,
            inbox_known: row.inbox,
            flying: Default::default(),
            again: Vec::new(),
            queue: Default::default(),
            unsaved: Vec::new(),
            unsaved_bytes: 0,
            unsaved_since: None,
            hold: Hold::of(&shared, row.epoch),
            is_lost: false,
            active_since: None,
            row,
            shared,
        }
    }

    pub(super) fn spawn(&self, driver: Driver) -> RunHandle {
        let (tell, rested) = watch::channel(None);
        let (run, thread) = (driver.run(), driver.row.thread.clone());
        let tenant = driver.performer.tenant.clone();
        let is_suspect = is_suspect(driver.row.attempts);
        let (epoch, hub, wake) = (driver.row.epoch, driver.hub.clone(), driver.wake.clone());
        let mut lives = self.shared.lives(); // held while spawning: the task cannot end before it is known
        let shared = self.shared.clone();
        let driving = Box::pin(driver.drive()); // it is large, and a task is moved several times before it runs
        let task = self.shared.tasks.spawn(async move {
            tracing::info!(%run, epoch, "driving a run");
            let end = driving.await;
            tracing::info!(%run, epoch, ?end, "the run rests");
            shared.ended(run, epoch);
            shared.figures.rested(&end);
            shared.tell_those_who_wait();
            tell.send_replace(Some(end));
        });
        #[cfg(not(feature = "failpoints"))]
        drop(task);
        let live = Live {
            hub,
            tenant: tenant.clone(),
            thread: thread.clone(),
            wake,
            pulse: None,
            missed: false,
            is_suspect,
            rested: rested.clone(),
            _load: self.shared.loads.count(&tenant),
            #[cfg(feature = "failpoints")]
            task: task.abort_handle(),
        };
        lives.insert(run, live);
        drop(lives);
        if is_suspect {
            self.clear_later(&tenant, run, epoch);
        }
        RunHandle { run, thread, tenant, rested }
    }

    /// A suspect that runs for long enough is not to blame for the crashes of its processes.
    fn clear_later(&self, tenant: &Tenant, run: RunId, epoch: u32) {
        let (shared, tenant) = (self.shared.clone(), tenant.clone());
        let clearing = async move {
            tokio::time::sleep(shared.settings.cleared_after).await;
            let is_driven = || shared.lives().get(&run).is_some_and(|live| live.hub.epoch == epoch);
            while is_driven() {
                match shared.store.forgive(&tenant, run, epoch).await {
                    Err(error) if error.is_transient() => {
                        tokio::time::sleep(shared.settings.adopt_every).await;
                    }
                    _ => break,
                }
            }
            shared.cleared(run, epoch);
        };
        let closing = self.shared.closing.clone();
        tokio::spawn(async move { closing.run_until_cancelled(clearing).await });
    }
}
