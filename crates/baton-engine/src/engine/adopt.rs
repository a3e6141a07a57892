//! Finding work: messages from other processes for runs that are driven here, and runs that nobody drives.

use std::collections::HashSet;
use std::sync::PoisonError;
use std::time::Duration;

use baton_core::id::{OwnerId, RunId, Tenant};
use baton_core::run::{Definition, RunStatus};
use baton_store::{ClaimMode, Claimed, Pulse, StoreError};
use tokio::time::Instant;

use super::{Engine, Shared};
use crate::error::EngineError;
use crate::patience::patiently;

/// How long a write that nobody waits for any more may still be on its way to the store.
const ON_ITS_WAY: Duration = Duration::from_secs(60);

impl Engine {
    /// Listens for messages from other processes: one query for all runs, and none while there are none.
    pub(super) fn listen(&self) {
        let shared = self.shared.clone();
        let listening = async move {
            loop {
                tokio::time::sleep(shared.settings.poll).await;
                let driven: Vec<RunId> = shared.lives().keys().copied().collect();
                if driven.is_empty() {
                    continue;
                }
                // A store that does not answer is the drivers' business; here it is only asked again.
                let Ok(pulses) = shared.store.pulses(shared.owner.id).await else { continue };
                let held: HashSet<RunId> = pulses.iter().map(|pulse| pulse.run).collect();
                for run in driven.into_iter().filter(|run| !held.contains(run)) {
                    shared.missed(run);
                }
                for pulse in pulses {
                    shared.felt(pulse);
                }
            }
        };
        let closing = self.shared.closing.clone();
        // Not tracked: it ends with the process, and a shutdown does not wait for it.
        tokio::spawn(async move { closing.run_until_cancelled(listening).await });
    }

    /// Adopts orphaned and due runs from now on, until the engine is shut down; those that it may, as far
    /// as their definitions tell.
    pub fn adopt(&self, may: impl Fn(&Definition) -> Result<(), String> + Send + Sync + 'static) {
        let engine = self.clone();
        let closing = self.shared.closing.clone();
        let adopting = async move {
            let mut left_alone = HashSet::new();
            loop {
                engine.adopt_due(&may, &mut left_alone).await;
                let moment = tokio::time::sleep(engine.shared.settings.adopt_every);
                tokio::select! {
                    () = moment => {}
                    () = engine.shared.turn_came.notified() => {}
                }
            }
        };
        tokio::spawn(async move { closing.run_until_cancelled(adopting).await });
    }

    /// Adopts what is orphaned or due now; answers what it took.
    pub async fn adopt_once(&self) -> Vec<RunId> {
        self.adopt_due(&|_| Ok(()), &mut HashSet::new()).await
    }

    /// The same; what cannot be adopted is told of once.
    async fn adopt_due(
        &self,
        may: &(dyn Fn(&Definition) -> Result<(), String> + Send + Sync),
        left_alone: &mut HashSet<RunId>,
    ) -> Vec<RunId> {
        let now = self.shared.clock.now();
        let mut taken = Vec::new();
        let Ok(due) = self.shared.store.due(now).await else { return taken };
        left_alone.retain(|run| due.iter().any(|(_, left)| left == run));
        for (tenant, run) in due {
            let tenant = &tenant;
            let adopted = match self.may_adopt(tenant, run, may).await {
                Ok(RunStatus::Queued) => self.begin_queued(tenant, run).await,
                Ok(_) => self.resume(tenant, run, ClaimMode::IfFree).await.map(Some),
                Err(error) => Err(error),
            };
            use StoreError::{Busy, Ended, Fenced, Held, NotFound};
            match adopted {
                Ok(Some(_)) => taken.push(run),
                Ok(None) => {}
                // Somebody was faster.
                Err(EngineError::Store(
                    Held { .. } | Ended { .. } | Busy { .. } | NotFound { .. } | Fenced { .. },
                )) => {}
                Err(error) if left_alone.insert(run) => {
                    tracing::warn!(%run, %error, "this run is left alone");
                }
                Err(_) => {}
            }
        }
        taken
    }

    /// Sees to a run whose start or claim failed and may have been written all the same: then it is ours, we live,
    /// and nobody would ever drive it. It is gone on with as soon as the store says so.
    pub(super) fn see_to(&self, tenant: &Tenant, run: RunId, error: &EngineError) {
        if !matches!(error, EngineError::Store(error) if error.is_transient()) {
            return;
        }
        let (engine, tenant, closing) = (self.clone(), tenant.clone(), self.shared.closing.clone());
        let over = Instant::now() + ON_ITS_WAY;
        let seeing = async move {
            loop {
                tokio::time::sleep(engine.shared.settings.adopt_every).await;
                let is_ours = match engine.shared.store.run(&tenant, run).await {
                    Ok(row) if row.status.has_ended() => return,
                    Ok(row) => row.owner == Some(engine.shared.owner.id),
                    Err(error) if error.is_transient() => continue,
                    Err(_) => false,
                };
                if is_ours {
                    match engine.try_resume(&tenant, run, ClaimMode::IfFree).await {
                        Err(EngineError::Store(error)) if error.is_transient() => {}
                        _ => return, // it goes on
                    }
                } else if Instant::now() >= over {
                    return;
                }
            }
        };
        tokio::spawn(async move { closing.run_until_cancelled(seeing).await });
    }

    async fn may_adopt(
        &self,
        tenant: &Tenant,
        run: RunId,
        may: &(dyn Fn(&Definition) -> Result<(), String> + Send + Sync),
    ) -> Result<RunStatus, EngineError> {
        let row = self.shared.store.run(tenant, run).await?;
        let definition = self.shared.store.definition(tenant, &row.definition).await?;
        may(&definition).map(|()| row.status).map_err(EngineError::Invalid)
    }
}

impl Shared {
    /// A run of this process waits for its turn: whoever adopts looks again when a run rests here.
    pub(super) fn wait_for_turn(&self, run: RunId) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(run);
        self.turn_came.notify_one();
    }

    /// A run waits no longer: it has begun, here or elsewhere, or never will.
    pub(super) fn waits_no_longer(&self, run: RunId) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&run);
    }

    /// A run rests here: the turn of one that waits may have come.
    pub(super) fn tell_those_who_wait(&self) {
        if !self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty() {
            self.turn_came.notify_one();
        }
    }

    /// Takes in what is known of a run that is driven here, and wakes its driver if that is news.
    pub(super) fn felt(&self, pulse: Pulse) {
        if let Some(live) = self.lives().get_mut(&pulse.run)
            && live.pulse.replace(pulse) != Some(pulse)
        {
            live.wake.notify_one();
        }
    }

    /// A run that is driven here is held by somebody else, or by nobody: its driver should find out.
    fn missed(&self, run: RunId) {
        if let Some(live) = self.lives().get_mut(&run) {
            live.missed = true;
            live.wake.notify_one();
        }
    }

    /// Claims a run. A claim that nobody knows of is made again: the next epoch is as good.
    pub(super) async fn claim(
        &self,
        tenant: &Tenant,
        run: RunId,
        mode: ClaimMode,
    ) -> Result<Claimed, StoreError> {
        let me = self.owner.id;
        patiently!(self, self.try_claim(tenant, run, me, mode))
    }

    async fn try_claim(
        &self,
        tenant: &Tenant,
        run: RunId,
        me: OwnerId,
        mode: ClaimMode,
    ) -> Result<Claimed, StoreError> {
        match self.store.claim(tenant, run, me, mode, self.clock.now()).await {
            // Ours already, from a claim that was done but not told.
            Err(StoreError::Held { owner, .. }) if owner == me && !self.lives().contains_key(&run) => {
                self.store.claim(tenant, run, me, ClaimMode::Take, self.clock.now()).await
            }
            other => other,
        }
    }
}
