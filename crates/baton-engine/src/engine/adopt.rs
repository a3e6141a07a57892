//! Finding work: messages from other processes for runs that are driven here, and runs that nobody drives.

use std::collections::HashSet;

use baton_core::id::{OwnerId, RunId, Tenant};
use baton_core::run::Definition;
use baton_store::{ClaimMode, Claimed, Pulse, StoreError};

use super::{Engine, Shared};
use crate::error::EngineError;
use crate::patience::patiently;

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
                for run in driven.into_iter().filter(|run| pulses.iter().all(|pulse| pulse.run != *run)) {
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
    pub fn adopt(
        &self,
        tenant: Tenant,
        may: impl Fn(&Definition) -> Result<(), String> + Send + Sync + 'static,
    ) {
        let engine = self.clone();
        let closing = self.shared.closing.clone();
        let adopting = async move {
            let mut left_alone = HashSet::new();
            loop {
                engine.adopt_due(&tenant, &may, &mut left_alone).await;
                tokio::time::sleep(engine.shared.settings.adopt_every).await;
            }
        };
        tokio::spawn(async move { closing.run_until_cancelled(adopting).await });
    }

    /// Adopts what is orphaned or due now; answers what it took.
    pub async fn adopt_once(&self, tenant: &Tenant) -> Vec<RunId> {
        self.adopt_due(tenant, &|_| Ok(()), &mut HashSet::new()).await
    }

    /// The same; what cannot be adopted is told of once.
    async fn adopt_due(
        &self,
        tenant: &Tenant,
        may: &(dyn Fn(&Definition) -> Result<(), String> + Send + Sync),
        left_alone: &mut HashSet<RunId>,
    ) -> Vec<RunId> {
        let now = self.shared.clock.now();
        let mut taken = Vec::new();
        for run in self.shared.store.due(tenant, now).await.unwrap_or_default() {
            let adopted = match self.may_adopt(tenant, run, may).await {
                Ok(()) => self.resume(tenant, run, ClaimMode::IfFree).await,
                Err(error) => Err(error),
            };
            match adopted {
                Ok(_) => taken.push(run),
                Err(EngineError::Store(StoreError::Held { .. } | StoreError::Ended { .. })) => {} // somebody was faster
                Err(error) if left_alone.insert(run) => {
                    tracing::warn!(%run, %error, "this run is left alone");
                }
                Err(_) => {}
            }
        }
        taken
    }

    async fn may_adopt(
        &self,
        tenant: &Tenant,
        run: RunId,
        may: &(dyn Fn(&Definition) -> Result<(), String> + Send + Sync),
    ) -> Result<(), EngineError> {
        let row = self.shared.store.run(tenant, run).await?;
        let definition = self.shared.store.definition(tenant, &row.definition).await?;
        may(&definition).map_err(EngineError::Invalid)
    }
}

impl Shared {
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
