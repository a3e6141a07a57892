//! Finding work: messages from other processes for runs that are driven here, and runs without a living owner.

use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::PoisonError;
use std::sync::atomic::Ordering::SeqCst;

use baton_core::id::{OwnerId, RunId, Tenant};
use baton_core::run::{Definition, RunStatus};
use baton_core::turns::by_turns;
use baton_store::{ClaimMode, Claimed, Due, DueFrom, Pulse, StoreError};
use futures_util::StreamExt;
use tokio::time::Instant;

use super::attention::{Attention, Refusal};
use super::{CLAIMS_AT_ONCE, Engine, RunHandle, Shared};
use crate::error::EngineError;
use crate::patience::patiently;

/// How many due runs are read at once.
const PAGE: u32 = 256;
/// How many such pages are looked at together: among their runs tenants take turns.
const PAGES_AT_ONCE: u32 = 64;
/// How many runs are tried before the due runs are read again.
const TRIED_AT_ONCE: usize = 1024;
/// How many runs are adopted side by side.
const AT_ONCE: usize = 8;

/// Every so many looks at messages, all runs of this process are read, and not only those that were written to: so it
/// finds out which runs it lost, and which became its own.
const ALL_EVERY: u64 = 10;

/// Whether a run may be adopted, as far as its definition tells.
type May<'a> = dyn Fn(&Definition) -> Result<(), String> + Send + Sync + 'a;

/// Why a run was not adopted.
struct Unadopted(Refusal, EngineError);

/// The result of a try.
enum Tried {
    Taken,
    /// No process will begin it; the reason why it could not be begun here.
    Hopeless(EngineError),
    Left,
}

/// The state of the adopting task from one look to the next.
#[derive(Default)]
struct Looked {
    from: DueFrom,
    attention: Attention,
    /// Whether more runs may be due than were tried the last time.
    has_more: bool,
}

impl Engine {
    /// Listens for messages from other processes: one query for all runs, and none while there are none.
    pub(super) fn listen(&self) {
        let (engine, shared) = (self.clone(), self.shared.clone());
        let listening = async move {
            for look in 0_u64.. {
                tokio::time::sleep(shared.settings.poll).await;
                let driven: Vec<RunId> = shared.lives().keys().copied().collect();
                let has_unsettled = shared.has_unsettled();
                if driven.is_empty() && !has_unsettled {
                    continue;
                }
                // A store that does not answer is handled by the drivers; here it is only asked again.
                if has_unsettled || look.is_multiple_of(ALL_EVERY) {
                    let Ok(pulses) = shared.store.pulses(shared.owner.id).await else { continue };
                    engine.compare(driven, pulses);
                } else if let Ok(news) = shared.store.news(shared.owner.id).await {
                    news.into_iter().for_each(|pulse| shared.felt(pulse));
                }
            }
        };
        let shared = self.shared.clone();
        // Runs as long as any run is driven: a run that a shutdown waits for can be cancelled. Not tracked, as a
        // shutdown does not wait for this task.
        tokio::spawn(async move {
            tokio::select! {
                () = listening => {}
                () = shared.has_left() => {}
            }
        });
    }

    /// Compares the runs driven here with those that this process owns in the store.
    fn compare(&self, driven: Vec<RunId>, pulses: Vec<Pulse>) {
        let held: HashSet<RunId> = pulses.iter().map(|pulse| pulse.run).collect();
        for run in driven.into_iter().filter(|run| !held.contains(run)) {
            self.shared.missed(run);
        }
        for pulse in pulses {
            self.take_up(pulse.run);
            self.shared.felt(pulse);
        }
    }

    /// Adopts orphaned and due runs from now on, until the engine is shut down; only those whose definitions `may`
    /// accepts.
    pub fn adopt(&self, may: impl Fn(&Definition) -> Result<(), String> + Send + Sync + 'static) {
        let engine = self.clone();
        let adopting = async move {
            let mut attention = Looked::default();
            while !engine.shared.closing.is_cancelled() {
                let taken = engine.adopt_due(&may, &mut attention).await;
                if attention.has_more && !taken.is_empty() {
                    continue;
                }
                let moment = tokio::time::sleep(engine.shared.settings.adopt_every);
                tokio::select! {
                    () = moment => {}
                    () = engine.shared.turn_came.notified() => {}
                    () = engine.shared.went_down() => {}
                }
            }
        };
        // A shutdown waits for claims under way: a run that was claimed and is not driven could not be taken up by any
        // process.
        self.shared.before_leaving(adopting);
    }

    /// Adopts all runs that are orphaned or due now, except those whose next try is later; answers the adopted runs.
    pub async fn adopt_once(&self) -> Vec<RunId> {
        self.adopt_due(&|_| Ok(()), &mut Looked::default()).await
    }

    /// Adopts due runs like `adopt_once`; a run that cannot be adopted is logged once.
    async fn adopt_due(&self, may: &May<'_>, looked: &mut Looked) -> Vec<RunId> {
        let shared = &self.shared;
        let (due, is_all) = self.look(looked).await;
        let is_alone = !shared.drives_a_suspect();
        let attention = &mut looked.attention;
        let mut chosen = attention.choose(due, is_alone, &shared.settings, Instant::now());
        // Each process has an order of its own, so that several do not try for the same run at the same moment.
        let place = |due: &Due| {
            let hasher = BuildHasherDefault::<DefaultHasher>::default();
            (due.is_queued, if due.is_queued { 0 } else { hasher.hash_one((shared.owner.id, due.run)) })
        };
        chosen.sort_by_cached_key(place);
        let mut chosen = by_turns(chosen, |due| due.tenant.clone());
        looked.has_more = !is_all || chosen.len() > TRIED_AT_ONCE;
        chosen.truncate(TRIED_AT_ONCE);
        let mut tried = futures_util::stream::iter(chosen)
            .map(|due| async move { (self.adopt_one(&due, may).await, due) })
            .buffer_unordered(AT_ONCE);
        let mut taken = Vec::new();
        while let Some((adopted, due)) = tried.next().await {
            match self.judge(adopted, &due, attention) {
                Tried::Taken => taken.push(due.run),
                Tried::Hopeless(why) => self.cannot_begin(&due, &why).await,
                Tried::Left => {}
            }
        }
        if is_all {
            attention.swept(shared.generation.load(SeqCst), Instant::now());
        }
        taken
    }

    /// Reads due runs from where the last look ended; answers whether that was the rest of them.
    async fn look(&self, looked: &mut Looked) -> (Vec<Due>, bool) {
        let (shared, now) = (&self.shared, self.shared.clock.now());
        let mut due = Vec::new();
        for _ in 0..PAGES_AT_ONCE {
            if shared.closing.is_cancelled() {
                break;
            }
            let Ok(page) = shared.store.due_page(now, looked.from, PAGE).await else { break };
            looked.from = page.rest.unwrap_or_default();
            due.extend(page.runs);
            if page.rest.is_none() {
                return (due, true);
            }
        }
        (due, false)
    }

    /// Tries to adopt a run; none: another process takes care of it.
    async fn adopt_one(&self, due: &Due, may: &May<'_>) -> Result<Option<RunHandle>, Unadopted> {
        if self.shared.closing.is_cancelled() {
            return Ok(None);
        }
        let (tenant, run) = (&due.tenant, due.run);
        let status = self.may_adopt(due, may).await?;
        let adopted = match status {
            RunStatus::Queued => self.begin_queued(tenant, run).await,
            _ => self.resume(tenant, run, ClaimMode::IfFree).await.map(Some),
        };
        use StoreError::{Busy, Ended, Fenced, Held, NotFound};
        match adopted {
            // Another process was faster.
            Err(EngineError::Store(
                Held { .. } | Ended { .. } | Busy { .. } | NotFound { .. } | Fenced { .. },
            )) => Ok(None),
            Err(error @ EngineError::MissingTools { .. }) => Err(Unadopted(Refusal::Definition, error)),
            other => other.map_err(|error| Unadopted(Refusal::Run, error)),
        }
    }

    /// Notes the result of a try.
    fn judge(
        &self,
        adopted: Result<Option<RunHandle>, Unadopted>,
        due: &Due,
        attention: &mut Attention,
    ) -> Tried {
        match adopted {
            Ok(Some(_)) => {
                attention.taken(due);
                return Tried::Taken;
            }
            // A store that does not answer is no evidence about the run.
            Err(Unadopted(_, EngineError::Store(error))) if error.is_transient() => {}
            Err(Unadopted(why, error)) => {
                let (settings, now) = (&self.shared.settings, Instant::now());
                let is_news = attention.refused(due, why, settings, now);
                if attention.is_hopeless(due, settings, now) {
                    return Tried::Hopeless(error);
                }
                if is_news {
                    tracing::warn!(run = %due.run, %error, "this run is left alone");
                }
            }
            Ok(None) => {}
        }
        Tried::Left
    }

    /// The status of a run that may be driven here, as far as its definition tells. A cancelled run may be: ending it
    /// needs none of the missing tools.
    async fn may_adopt(&self, due: &Due, may: &May<'_>) -> Result<RunStatus, Unadopted> {
        let (store, tenant, run) = (&self.shared.store, &due.tenant, due.run);
        let failed = |error: StoreError| Unadopted(Refusal::Run, error.into());
        let row = store.run(tenant, run).await.map_err(failed)?;
        let definition = store.definition(tenant, &row.definition).await.map_err(failed)?;
        let Err(why) = may(&definition) else { return Ok(row.status) };
        let is_cancelled = due.inbox > 0 && self.is_cancelled(tenant, run).await.unwrap_or_default();
        match is_cancelled {
            true => Ok(row.status),
            false => Err(Unadopted(Refusal::Definition, EngineError::Invalid(why))),
        }
    }
}

impl Shared {
    /// A run of this process waits for its turn: the adopting task looks again when a run rests here.
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

    /// Locks the claims of a run in this process while the guard lives.
    pub(super) async fn claiming(&self, run: RunId) -> tokio::sync::MutexGuard<'_, ()> {
        let which = (run.0.as_u128() % CLAIMS_AT_ONCE as u128) as usize;
        self.claiming[which].lock().await
    }

    /// Whether a suspect is driven here: other suspects wait.
    fn drives_a_suspect(&self) -> bool {
        self.lives().values().any(|live| live.is_suspect)
    }

    /// A run that is driven here lived long enough, or made progress: it is not to blame, and other suspects may be
    /// tried.
    pub(crate) fn cleared(&self, run: RunId, epoch: u32) {
        let mut lives = self.lives();
        if let Some(live) = lives.get_mut(&run).filter(|live| live.hub.epoch == epoch) {
            live.is_suspect = false;
        }
        drop(lives);
        self.turn_came.notify_one();
    }

    /// Stores the pulse of a run that is driven here, and wakes its driver if it changed.
    pub(super) fn felt(&self, pulse: Pulse) {
        if let Some(live) = self.lives().get_mut(&pulse.run)
            && live.pulse.replace(pulse) != Some(pulse)
        {
            live.wake.notify_one();
        }
    }

    /// A run that is driven here is not owned by this process in the store: its driver is woken to find out.
    fn missed(&self, run: RunId) {
        if let Some(live) = self.lives().get_mut(&run) {
            live.missed = true;
            live.wake.notify_one();
        }
    }

    /// Claims a run. A claim with an ambiguous outcome is made again: the next epoch is as good.
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
            // Ours already, from a claim whose answer was lost.
            Err(StoreError::Held { owner, .. }) if owner == me && !self.lives().contains_key(&run) => {
                self.store.claim(tenant, run, me, ClaimMode::Take, self.clock.now()).await
            }
            other => other,
        }
    }
}
