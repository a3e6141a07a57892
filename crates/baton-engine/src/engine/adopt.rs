//! Finding work: messages from other processes for runs that are driven here, and runs that nobody drives.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::PoisonError;
use std::sync::atomic::Ordering::SeqCst;

use baton_core::id::{OwnerId, RunId, Tenant};
use baton_core::run::{Definition, RunStatus};
use baton_store::{ClaimMode, Claimed, Due, DueFrom, Pulse, StoreError};
use futures_util::StreamExt;
use tokio::time::Instant;

use super::attention::{Attention, Refusal};
use super::{CLAIMS_AT_ONCE, Engine, RunHandle, Shared};
use crate::error::EngineError;
use crate::patience::patiently;

/// How many due runs are read at once.
const PAGE: u32 = 256;
/// How many such pages are looked at before the rest waits for the next moment.
const PAGES_AT_ONCE: u32 = 16;
/// How many runs are adopted side by side.
const AT_ONCE: usize = 8;

/// Whether a run may be adopted, as far as its definition tells.
type May<'a> = dyn Fn(&Definition) -> Result<(), String> + Send + Sync + 'a;

/// Why a run was not adopted.
struct Unadopted(Refusal, EngineError);

/// What whoever adopts remembers from one look to the next.
#[derive(Default)]
struct Looked {
    from: DueFrom,
    attention: Attention,
}

impl Engine {
    /// Listens for messages from other processes: one query for all runs, and none while there are none.
    pub(super) fn listen(&self) {
        let (engine, shared) = (self.clone(), self.shared.clone());
        let listening = async move {
            loop {
                tokio::time::sleep(shared.settings.poll).await;
                let driven: Vec<RunId> = shared.lives().keys().copied().collect();
                if driven.is_empty() && !shared.has_unsettled() {
                    continue;
                }
                // A store that does not answer is the drivers' business; here it is only asked again.
                let Ok(pulses) = shared.store.pulses(shared.owner.id).await else { continue };
                let held: HashSet<RunId> = pulses.iter().map(|pulse| pulse.run).collect();
                for run in driven.into_iter().filter(|run| !held.contains(run)) {
                    shared.missed(run);
                }
                for pulse in pulses {
                    engine.take_up(pulse.run);
                    shared.felt(pulse);
                }
            }
        };
        let shared = self.shared.clone();
        // For as long as something is driven: a run that is waited for while the process goes down can be cancelled. Not
        // tracked, as a stop does not wait for it.
        tokio::spawn(async move {
            tokio::select! {
                () = listening => {}
                () = shared.has_left() => {}
            }
        });
    }

    /// Adopts orphaned and due runs from now on, until the engine is shut down; those that it may, as far
    /// as their definitions tell.
    pub fn adopt(&self, may: impl Fn(&Definition) -> Result<(), String> + Send + Sync + 'static) {
        let engine = self.clone();
        let adopting = async move {
            let mut attention = Looked::default();
            while !engine.shared.closing.is_cancelled() {
                engine.adopt_due(&may, &mut attention).await;
                let moment = tokio::time::sleep(engine.shared.settings.adopt_every);
                tokio::select! {
                    () = moment => {}
                    () = engine.shared.turn_came.notified() => {}
                    () = engine.shared.went_down() => {}
                }
            }
        };
        // A stop waits for what is being claimed: claimed and not driven, nobody could take it up.
        self.shared.before_leaving(adopting);
    }

    /// Adopts what is orphaned or due now, but for runs that are tried only after a while; answers what it took.
    pub async fn adopt_once(&self) -> Vec<RunId> {
        self.adopt_due(&|_| Ok(()), &mut Looked::default()).await
    }

    /// The same; what cannot be adopted is told of once.
    async fn adopt_due(&self, may: &May<'_>, looked: &mut Looked) -> Vec<RunId> {
        let (shared, now) = (&self.shared, self.shared.clock.now());
        let mut taken = Vec::new();
        for _ in 0..PAGES_AT_ONCE {
            if shared.closing.is_cancelled() {
                break;
            }
            let Ok(page) = shared.store.due_page(now, looked.from, PAGE).await else { break };
            looked.from = page.rest.unwrap_or_default();
            let is_alone = !shared.drives_a_suspect();
            let attention = &mut looked.attention;
            let mut chosen = attention.choose(page.runs, is_alone, &shared.settings, Instant::now());
            // Each process in an order of its own, so that several do not try for the same run at the same moment.
            let place = |due: &Due| {
                let hasher = BuildHasherDefault::<DefaultHasher>::default();
                (due.is_queued, if due.is_queued { 0 } else { hasher.hash_one((shared.owner.id, due.run)) })
            };
            chosen.sort_by_cached_key(place);
            let tried = futures_util::stream::iter(chosen)
                .map(|due| async move { (self.adopt_one(&due, may).await, due) })
                .buffer_unordered(AT_ONCE)
                .collect::<Vec<_>>();
            for (adopted, due) in tried.await {
                if self.judge(adopted, &due, attention) {
                    taken.push(due.run);
                }
            }
            if page.rest.is_none() {
                attention.swept(shared.generation.load(SeqCst), Instant::now());
                break;
            }
        }
        taken
    }

    /// Tries to adopt a run; none: somebody else sees to it.
    async fn adopt_one(&self, due: &Due, may: &May<'_>) -> Result<Option<RunHandle>, Unadopted> {
        if self.shared.closing.is_cancelled() {
            return Ok(None);
        }
        let (tenant, run) = (&due.tenant, due.run);
        let status = self.may_adopt(tenant, run, may).await?;
        let adopted = match status {
            RunStatus::Queued => self.begin_queued(tenant, run).await,
            _ => self.resume(tenant, run, ClaimMode::IfFree).await.map(Some),
        };
        use StoreError::{Busy, Ended, Fenced, Held, NotFound};
        match adopted {
            // Somebody was faster.
            Err(EngineError::Store(
                Held { .. } | Ended { .. } | Busy { .. } | NotFound { .. } | Fenced { .. },
            )) => Ok(None),
            Err(error @ EngineError::MissingTools { .. }) => Err(Unadopted(Refusal::Definition, error)),
            other => other.map_err(|error| Unadopted(Refusal::Run, error)),
        }
    }

    /// Notes what came of a try; whether the run was adopted.
    fn judge(
        &self,
        adopted: Result<Option<RunHandle>, Unadopted>,
        due: &Due,
        attention: &mut Attention,
    ) -> bool {
        match adopted {
            Ok(Some(_)) => {
                attention.taken(due);
                return true;
            }
            // A store that does not answer says nothing about the run.
            Err(Unadopted(_, EngineError::Store(error))) if error.is_transient() => {}
            Err(Unadopted(why, error)) => {
                if attention.refused(due, why, &self.shared.settings, Instant::now()) {
                    tracing::warn!(run = %due.run, %error, "this run is left alone");
                }
            }
            Ok(None) => {}
        }
        false
    }

    async fn may_adopt(&self, tenant: &Tenant, run: RunId, may: &May<'_>) -> Result<RunStatus, Unadopted> {
        let store = &self.shared.store;
        let failed = |error: StoreError| Unadopted(Refusal::Run, error.into());
        let row = store.run(tenant, run).await.map_err(failed)?;
        let definition = store.definition(tenant, &row.definition).await.map_err(failed)?;
        let refused = |why| Unadopted(Refusal::Definition, EngineError::Invalid(why));
        may(&definition).map(|()| row.status).map_err(refused)
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

    /// Nobody else claims this run here while the guard lives.
    pub(super) async fn claiming(&self, run: RunId) -> tokio::sync::MutexGuard<'_, ()> {
        let which = (run.0.as_u128() % CLAIMS_AT_ONCE as u128) as usize;
        self.claiming[which].lock().await
    }

    /// Whether a suspect is driven here: others wait.
    fn drives_a_suspect(&self) -> bool {
        self.lives().values().any(|live| live.is_suspect)
    }

    /// A run that is driven here lived long enough, or got somewhere: it is not to blame, and others may be tried.
    pub(crate) fn cleared(&self, run: RunId, epoch: u32) {
        let mut lives = self.lives();
        if let Some(live) = lives.get_mut(&run).filter(|live| live.hub.epoch == epoch) {
            live.is_suspect = false;
        }
        drop(lives);
        self.turn_came.notify_one();
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
