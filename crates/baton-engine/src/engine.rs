//! The engine: one per process. It starts runs, resumes them, and finds runs that no process drives.

mod adopt;
mod attention;
mod build;
mod execute;
mod fork;
mod leaving;
mod operate;
mod queue;
mod start;
mod trail;
mod unsettled;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use baton_core::flow::{Flow, Setting};
use baton_core::id::{FramePath, OwnerId, RunId, Tenant, ThreadId};
use baton_core::policy::{Decision, Mode, Policy, Request, TableError};
use baton_core::run::{Definition, Message};
use baton_core::tool::ToolSpec;
use baton_store::failpoint::point;
use baton_store::{ClaimMode, Owner, PinnedDefinition, Pulse, SeenSet, Store};
use baton_tools::Registry;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::afar::Afar;
use crate::clock::Clock;
use crate::driver::Rested;
use crate::error::EngineError;
use crate::figures::{Counters, Figures};
use crate::hub::Hub;
use crate::loads::{LoadGuard, Loads};
use crate::patience::patiently;
use crate::perform::{ModelSource, Renderers};
use crate::reader::EventReader;
use crate::recent::{Kept, Recent};
use crate::request::RunRequest;
use crate::settings::Settings;
pub(crate) use attention::{is_poison, is_suspect};
use execute::Making;
pub(crate) use start::started;
use unsettled::Unsettled;

/// How many runs are claimed side by side, at most.
const CLAIMS_AT_ONCE: usize = 32;
/// How many decisions are kept in memory.
const MOST_DECISIONS: usize = 256;

/// The dependencies of an engine.
pub struct Parts {
    /// The store of all durable state.
    pub store: Store,
    /// The tools.
    pub tools: Registry,
    /// Finds models by name.
    pub models: ModelSource,
    /// The registered rendering policies, by name.
    pub renderers: Renderers,
    /// The policy that decides about modes, channels and tools.
    pub policy: Policy,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Times and limits.
    pub settings: Settings,
}

/// The handle of a process's engine. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) store: Store,
    tools: RwLock<Registry>,
    pub(crate) models: ModelSource,
    pub(crate) renderers: Renderers,
    pub(crate) policy: Arc<Policy>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Shared by all runs: they hold lists of names, which are not copied for each run.
    pub(crate) settings: Arc<Settings>,
    pub(crate) owner: Owner,
    pub(crate) live: Mutex<HashMap<RunId, Live>>,
    /// The definitions that requests are pinned to, by request.
    pinned: Mutex<Vec<(RunRequest, Arc<PinnedDefinition>)>>,
    /// Threads that are known to exist.
    threads: SeenSet<(Tenant, ThreadId)>,
    /// The entries that runs knew of their branches when they ended.
    pub(crate) kept: Arc<Kept>,
    /// Tool calls outside runs that are under way.
    executing: AtomicU64,
    pub(crate) loads: Loads,
    /// How often the tools were changed: a definition that was made of older tools is not cached.
    generation: AtomicU64,
    /// The decisions of the current policy, by mode and channel.
    decisions: Mutex<BTreeMap<(Mode, String), Arc<Decision>>>,
    /// Runs that this process enqueued, and that may still wait for their turn.
    waiting: Mutex<HashSet<RunId>>,
    turn_came: Notify,
    unsettled: Unsettled,
    /// How often the driver of a run panicked in this process.
    broken: Mutex<HashMap<RunId, u32>>,
    making: Mutex<Making>,
    pub(crate) figures: Counters,
    pub(crate) afar: Afar,
    /// Held from the lookup in `live` to the entry in it, so that a process claims a run only once.
    claiming: [tokio::sync::Mutex<()>; CLAIMS_AT_ONCE],
    /// Cancelled when the process shuts down.
    pub(crate) closing: CancellationToken,
    closing_at: OnceLock<Instant>,
    tasks: TaskTracker,
}

/// A run that is driven in this process.
pub(crate) struct Live {
    pub(crate) hub: Arc<Hub>,
    /// Its tenant: other tenants do not learn that it is driven here.
    pub(crate) tenant: Tenant,
    thread: ThreadId,
    wake: Arc<Notify>,
    pulse: Option<Pulse>,
    /// Whether the store no longer names this process as its owner.
    missed: bool,
    /// Whether it is driven alone, as its process died too often.
    is_suspect: bool,
    rested: watch::Receiver<Option<Rested>>,
    _load: LoadGuard,
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
    /// Its tenant.
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
    /// Starts an engine, and with it the lease of an owner of runs.
    pub fn new(parts: Parts) -> Result<Engine, EngineError> {
        let owner = parts.store.enlist()?;
        let shared = Shared {
            store: parts.store,
            tools: RwLock::new(parts.tools),
            models: parts.models,
            renderers: parts.renderers,
            policy: Arc::new(parts.policy),
            clock: parts.clock,
            settings: Arc::new(parts.settings),
            owner,
            live: Mutex::default(),
            pinned: Mutex::default(),
            threads: SeenSet::default(),
            kept: Arc::default(),
            executing: AtomicU64::new(0),
            loads: Loads::default(),
            generation: AtomicU64::new(0),
            decisions: Mutex::default(),
            waiting: Mutex::default(),
            turn_came: Notify::new(),
            unsettled: Unsettled::default(),
            broken: Mutex::default(),
            making: Mutex::default(),
            figures: Counters::default(),
            afar: Afar::default(),
            claiming: Default::default(),
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

    /// The current tools.
    pub fn tools(&self) -> Registry {
        self.shared.tools()
    }

    /// Replaces the current tools: runs that begin from now on are offered the new ones, and runs that are under way
    /// use them for their next calls.
    pub fn set_tools(&self, tools: Registry) {
        *self.shared.tools.write().unwrap_or_else(PoisonError::into_inner) = tools;
        self.shared.generation.fetch_add(1, SeqCst);
        self.shared.decisions.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.shared.pinned.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The metrics of this process.
    pub fn figures(&self) -> Figures {
        let live = self.shared.lives().len();
        let executing = self.shared.executing.load(SeqCst);
        Figures { executing, ..self.shared.figures.read(live) }
    }

    /// The owner id of this process.
    pub fn owner(&self) -> OwnerId {
        self.shared.owner.id
    }

    /// Resumes a run without a living owner, or takes it from its owner, depending on `mode`.
    pub async fn resume(
        &self,
        tenant: &Tenant,
        run: RunId,
        mode: ClaimMode,
    ) -> Result<RunHandle, EngineError> {
        let attempt = self.attempt(tenant, run);
        attempt.ended(self.try_resume(tenant, run, mode).await)
    }

    async fn try_resume(
        &self,
        tenant: &Tenant,
        run: RunId,
        mode: ClaimMode,
    ) -> Result<RunHandle, EngineError> {
        let shared = &self.shared;
        let _claiming = shared.claiming(run).await;
        if let Some(handle) = shared.handle(tenant, run) {
            return Ok(handle);
        }
        let row = patiently!(shared, shared.store.run(tenant, run))?;
        let definition = patiently!(shared, shared.store.definition(tenant, &row.definition))?;
        if let Err(missing) = self.has_tools(run, &definition)
            && !self.is_cancelled(tenant, run).await?
        {
            return Err(missing);
        }
        if let Some(last) =
            patiently!(shared, shared.store.steps(tenant, run, row.step.saturating_sub(1), 1))?.pop()
        {
            let setting = Setting { run, path: FramePath::root(), definition: Arc::new(definition) };
            Flow::restore(setting, last.checkpoint.state)?; // an unknown flow is refused before the claim
        }
        point("recover.pre_claim");
        let claimed = shared.claim(tenant, run, mode).await?;
        point("claim.post_commit");
        shared.figures.resumed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let definition = Arc::new(claimed.definition);
        let setting = Setting { run, path: FramePath::root(), definition: definition.clone() };
        let flow = Flow::restore(setting, claimed.checkpoint.state)?;
        let mut driver = self.driver(claimed.row, tenant, definition, flow, Recent::default());
        driver.tail = claimed.checkpoint.tail;
        driver.inbox_read = claimed.checkpoint.inbox_read;
        driver.again = claimed.checkpoint.in_flight;
        Ok(self.spawn(driver))
    }

    /// Checks that the tools of a run are here, or come from a service that is configured here.
    pub(super) fn has_tools(&self, run: RunId, definition: &Definition) -> Result<(), EngineError> {
        let (tools, services) = (self.shared.tools(), &self.shared.settings.services);
        let known = |tool: &&ToolSpec| {
            let is_from = |service: &String| services.contains(service);
            tools.get(&tool.name).is_some() || tool.service.as_ref().is_some_and(is_from)
        };
        let missing: Vec<String> =
            definition.tools.iter().filter(|tool| !known(tool)).map(|tool| tool.name.clone()).collect();
        if missing.is_empty() { Ok(()) } else { Err(EngineError::MissingTools { run, missing }) }
    }

    /// Whether a run was asked to stop: stopping needs none of its tools.
    pub(super) async fn is_cancelled(&self, tenant: &Tenant, run: RunId) -> Result<bool, EngineError> {
        let posted = patiently!(self.shared, self.shared.store.inbox(tenant, run, 0))?;
        Ok(posted.iter().any(|posted| posted.message == Message::Cancel))
    }

    /// Reads a run's events after a cursor, on any process.
    pub async fn events(
        &self,
        tenant: &Tenant,
        run: RunId,
        from: baton_core::id::Cursor,
    ) -> Result<EventReader, EngineError> {
        EventReader::open(self.shared.clone(), tenant.clone(), run, from).await
    }
}

impl Shared {
    /// The current tools.
    pub(crate) fn tools(&self) -> Registry {
        self.tools.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The decision of the current policy for the current tools.
    pub(crate) fn decision(&self, mode: Mode, channel: &str) -> Result<Arc<Decision>, TableError> {
        let key = (mode, channel.to_owned());
        let mut known = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(decision) = known.get(&key) {
            return Ok(decision.clone());
        }
        // Under the lock: a decision made of tools that are replaced meanwhile is cleared after it.
        let decision = self.policy.evaluate(&Request { mode, channel }, &self.tools().specs())?;
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
        let live = lives.get(&run).filter(|live| live.tenant == *tenant)?;
        let (thread, rested) = (live.thread.clone(), live.rested.clone());
        Some(RunHandle { run, thread, tenant: tenant.clone(), rested })
    }

    /// The live end of a run's log, while it is driven here.
    pub(crate) fn hub(&self, tenant: &Tenant, run: RunId) -> Option<Arc<Hub>> {
        let lives = self.lives();
        lives.get(&run).filter(|live| live.tenant == *tenant).map(|live| live.hub.clone())
    }

    fn ended(&self, run: RunId, epoch: u32) {
        let mut lives = self.lives();
        if lives.get(&run).is_some_and(|live| live.hub.epoch == epoch) {
            lives.remove(&run);
        }
    }

    /// Counts a panic of a run's driver: it may panic again, and is not retried for ever.
    pub(crate) fn broke_down(&self, run: RunId) {
        *self.broken.lock().unwrap_or_else(PoisonError::into_inner).entry(run).or_default() += 1;
    }

    /// Forgets the panics of a run that is over.
    pub(crate) fn mended(&self, run: RunId) {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).remove(&run);
    }

    /// How often the run's driver panicked in this process.
    pub(crate) fn breakdowns(&self, run: RunId) -> u32 {
        self.broken.lock().unwrap_or_else(PoisonError::into_inner).get(&run).copied().unwrap_or_default()
    }

    pub(crate) fn pulse(&self, run: RunId) -> Option<Pulse> {
        self.lives().get(&run)?.pulse
    }

    /// Whether the store no longer names this process as the owner of a run that is driven here; reading it resets it.
    pub(crate) fn seems_lost(&self, run: RunId) -> bool {
        self.lives().get_mut(&run).is_some_and(|live| std::mem::take(&mut live.missed))
    }
}
