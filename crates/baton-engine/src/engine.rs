//! The engine: what a process has one of. It starts runs, goes on with them, and finds those that need it.

mod adopt;
mod operate;
mod start;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use baton_core::flow::{Flow, Setting};
use baton_core::id::{FramePath, OwnerId, RunId, Tenant, ThreadId};
use baton_core::policy::{CallRule, Decision, Mode, Policy, Request, TableError};
use baton_core::run::{Definition, Message};
use baton_store::failpoint::point;
use baton_store::{ClaimMode, Owner, Pinned, Pulse, RunRow, Store};
use baton_tools::Registry;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::driver::{Driver, Rested};
use crate::error::EngineError;
use crate::hub::Hub;
use crate::patience::patiently;
use crate::perform::{ModelSource, Performer, Renderers};
use crate::reader::EventReader;
use crate::recent::Recent;
use crate::settings::Settings;
use crate::spans::{RunSpan, Track};

/// How many pieces of text may wait for a driver before the models are slowed down.
const SIGNALS: usize = 256;
/// How many decisions are kept in memory.
const MOST_DECISIONS: usize = 256;

/// What an engine is made of.
pub struct Parts {
    /// Where everything is kept.
    pub store: Store,
    /// What can be called.
    pub tools: Registry,
    /// Who can be asked.
    pub models: ModelSource,
    /// The rendering policies that somebody registered, by name.
    pub renderers: Renderers,
    /// What is allowed.
    pub policy: Policy,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Times and limits.
    pub settings: Settings,
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) tools: Registry,
    pub(crate) models: ModelSource,
    pub(crate) renderers: Renderers,
    pub(crate) policy: Arc<Policy>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    pub(crate) owner: Owner,
    pub(crate) live: Mutex<HashMap<RunId, Live>>,
    /// What requests are pinned to, by what they ask for.
    pinned: Mutex<HashMap<String, Arc<Pinned>>>,
    /// What the policy of now decides, by mode and channel.
    decisions: Mutex<BTreeMap<(Mode, String), Arc<Decision>>>,
    /// Held from the look at `live` to the entry in it, so that a process claims a run only once.
    claiming: tokio::sync::Mutex<()>,
    /// Cancelled when the process goes down.
    pub(crate) closing: CancellationToken,
    closing_at: OnceLock<Instant>,
    tasks: TaskTracker,
}

/// A run that is driven in this process.
pub(crate) struct Live {
    pub(crate) hub: Arc<Hub>,
    thread: ThreadId,
    wake: Arc<Notify>,
    pulse: Option<Pulse>,
    /// Whether the store no longer names this process as its owner.
    missed: bool,
    rested: watch::Receiver<Option<Rested>>,
    #[cfg(feature = "failpoints")]
    task: tokio::task::AbortHandle,
}

/// A run that this process drives.
#[derive(Debug, Clone)]
pub struct RunHandle {
    /// The run.
    pub run: RunId,
    /// Its thread.
    pub thread: ThreadId,
    pub(crate) tenant: Tenant,
    rested: watch::Receiver<Option<Rested>>,
}

impl RunHandle {
    /// Whose it is.
    pub fn tenant(&self) -> &Tenant {
        &self.tenant
    }

    /// Waits until the run rests in this process.
    pub async fn rested(&mut self) -> Rested {
        match self.rested.wait_for(Option::is_some).await {
            Ok(rested) => rested.clone().unwrap_or(Rested::Released),
            Err(_) => Rested::Released,
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("owner", &self.shared.owner.id).finish_non_exhaustive()
    }
}

impl Engine {
    /// An engine, and with it a living owner of runs.
    pub fn new(parts: Parts) -> Result<Engine, EngineError> {
        let owner = parts.store.enlist()?;
        let shared = Shared {
            store: parts.store,
            tools: parts.tools,
            models: parts.models,
            renderers: parts.renderers,
            policy: Arc::new(parts.policy),
            clock: parts.clock,
            settings: parts.settings,
            owner,
            live: Mutex::default(),
            pinned: Mutex::default(),
            decisions: Mutex::default(),
            claiming: tokio::sync::Mutex::default(),
            closing: CancellationToken::new(),
            closing_at: OnceLock::new(),
            tasks: TaskTracker::new(),
        };
        let engine = Engine { shared: Arc::new(shared) };
        engine.listen();
        Ok(engine)
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// The tools.
    pub fn tools(&self) -> &Registry {
        &self.shared.tools
    }

    /// This process, as the holder of runs.
    pub fn owner(&self) -> OwnerId {
        self.shared.owner.id
    }

    /// Goes on with a run that nobody living drives, or takes it from whoever does.
    pub async fn resume(
        &self,
        tenant: &Tenant,
        run: RunId,
        mode: ClaimMode,
    ) -> Result<RunHandle, EngineError> {
        let shared = &self.shared;
        let _claiming = shared.claiming.lock().await;
        if let Some(handle) = shared.handle(tenant, run) {
            return Ok(handle);
        }
        let row = patiently!(shared, shared.store.run(tenant, run))?;
        let definition = patiently!(shared, shared.store.definition(tenant, &row.definition))?;
        let known = |name: &String| shared.tools.get(name).is_some();
        let missing: Vec<String> =
            definition.tools.iter().map(|tool| tool.name.clone()).filter(|name| !known(name)).collect();
        if !missing.is_empty() && !self.is_cancelled(tenant, run).await? {
            return Err(EngineError::MissingTools { run, missing });
        }
        if let Some(last) =
            patiently!(shared, shared.store.steps(tenant, run, row.step.saturating_sub(1), 1))?.pop()
        {
            let setting = Setting { run, path: FramePath::root(), definition: Arc::new(definition) };
            Flow::restore(setting, last.checkpoint.state)?; // one that is not known here is left alone
        }
        point("recover.pre_claim");
        let claimed = shared.claim(tenant, run, mode).await?;
        point("claim.post_commit");
        let definition = Arc::new(claimed.definition);
        let setting = Setting { run, path: FramePath::root(), definition: definition.clone() };
        let flow = Flow::restore(setting, claimed.checkpoint.state)?;
        let mut driver = self.driver(claimed.row, tenant, definition, flow);
        driver.tail = claimed.checkpoint.tail;
        driver.inbox_read = claimed.checkpoint.inbox_read;
        driver.again = claimed.checkpoint.in_flight;
        Ok(self.spawn(driver))
    }

    /// Whether a run was asked to stop: that needs none of its tools.
    async fn is_cancelled(&self, tenant: &Tenant, run: RunId) -> Result<bool, EngineError> {
        let posted = patiently!(self.shared, self.shared.store.inbox(tenant, run, 0))?;
        Ok(posted.iter().any(|posted| posted.message == Message::Cancel))
    }

    fn driver(&self, row: RunRow, tenant: &Tenant, definition: Arc<Definition>, flow: Flow) -> Driver {
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
            store: shared.store.clone(),
            tools: shared.tools.clone(),
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
            signals: sender,
            recent: Recent::default(),
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
            active_since: None,
            row,
            shared,
        }
    }

    fn spawn(&self, driver: Driver) -> RunHandle {
        let (tell, rested) = watch::channel(None);
        let (run, thread) = (driver.run(), driver.row.thread.clone());
        let tenant = driver.performer.tenant.clone();
        let (epoch, hub, wake) = (driver.row.epoch, driver.hub.clone(), driver.wake.clone());
        let mut lives = self.shared.lives(); // held while spawning: the task cannot end before it is known
        let shared = self.shared.clone();
        let task = self.shared.tasks.spawn(async move {
            tracing::info!(%run, epoch, "driving a run");
            let end = driver.drive().await;
            tracing::info!(%run, epoch, ?end, "the run rests");
            shared.ended(run, epoch);
            tell.send_replace(Some(end));
        });
        #[cfg(not(feature = "failpoints"))]
        drop(task);
        let live = Live {
            hub,
            thread: thread.clone(),
            wake,
            pulse: None,
            missed: false,
            rested: rested.clone(),
            #[cfg(feature = "failpoints")]
            task: task.abort_handle(),
        };
        lives.insert(run, live);
        drop(lives);
        RunHandle { run, thread, tenant, rested }
    }

    /// Reads a run's events from a place on, whoever drives it.
    pub async fn events(
        &self,
        tenant: &Tenant,
        run: RunId,
        from: baton_core::id::Cursor,
    ) -> Result<EventReader, EngineError> {
        EventReader::open(self.shared.clone(), tenant.clone(), run, from).await
    }

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

    /// Finishes or lets go of everything; returns when nothing is driven here any more.
    pub async fn shutdown(&self) {
        let _ = self.shared.closing_at.set(Instant::now() + self.shared.settings.shutdown);
        self.shared.closing.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

impl Shared {
    /// What the policy of now decides; the policy and the tools of a process do not change.
    pub(crate) fn decision(&self, mode: Mode, channel: &str) -> Result<Arc<Decision>, TableError> {
        let key = (mode, channel.to_owned());
        let mut known = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(decision) = known.get(&key) {
            return Ok(decision.clone());
        }
        let decision = self.policy.evaluate(&Request { mode, channel }, &self.tools.specs())?;
        let decision = Arc::new(decision);
        if known.len() >= MOST_DECISIONS {
            known.clear();
        }
        known.insert(key, decision.clone());
        Ok(decision)
    }

    pub(crate) fn lives(&self) -> MutexGuard<'_, HashMap<RunId, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle(&self, tenant: &Tenant, run: RunId) -> Option<RunHandle> {
        let lives = self.lives();
        let live = lives.get(&run)?;
        let (thread, rested) = (live.thread.clone(), live.rested.clone());
        Some(RunHandle { run, thread, tenant: tenant.clone(), rested })
    }

    fn ended(&self, run: RunId, epoch: u32) {
        let mut lives = self.lives();
        if lives.get(&run).is_some_and(|live| live.hub.epoch == epoch) {
            lives.remove(&run);
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

    pub(crate) fn pulse(&self, run: RunId) -> Option<Pulse> {
        self.lives().get(&run)?.pulse
    }

    /// Whether a run that is driven here seems to be somebody else's; asked once.
    pub(crate) fn seems_lost(&self, run: RunId) -> bool {
        self.lives().get_mut(&run).is_some_and(|live| std::mem::take(&mut live.missed))
    }
}
