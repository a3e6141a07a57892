//! Beginning a run: the end of its branch, its pinned definition, and its first transition.

use std::path::PathBuf;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, PoisonError};

use baton_core::event::Event;
use baton_core::fault::Code;
use baton_core::flow::{Flow, Input, Node, Record, Setting};
use baton_core::id::{BranchName, FramePath, RunId, Tenant, ThreadId};
use baton_core::policy::{CallRule, Decision};
use baton_core::run::{Definition, RUN_VERSION};
use baton_core::thread::{Closing, TreeError};
use baton_core::tool::ToolSpec;
use baton_store::{
    BranchEnd, Intent, KeyRow, NewKey, NewRun, NewThread, PinnedDefinition, RunRow, StoreError,
};
use serde_json::Value;
use uuid::Uuid;

use super::{Engine, RunHandle};
use crate::audit::metadata_of;
use crate::driver::{Driver, Queued};
use crate::error::EngineError;
use crate::patience::patiently;
use crate::plan::{Look, Plan};
use crate::recent::Recent;
use crate::request::{RunRequest, Submitted};
use crate::template;

/// The longest message of a user.
pub(super) const MOST_TEXT: usize = 1 << 20;
/// How many definitions are kept in memory.
const MOST_PINNED: usize = 64;

/// A run that is about to begin.
pub(super) struct Beginning {
    pub(super) run: RunId,
    pub(super) tenant: Tenant,
    pub(super) thread: ThreadId,
    /// Whether the thread's id was made for this request, so that the thread cannot exist yet.
    pub(super) fresh: bool,
    pub(super) branch: Option<BranchName>,
    pub(super) text: String,
    pub(super) pinned: Arc<PinnedDefinition>,
    pub(super) metadata: Value,
    pub(super) key: Option<NewKey>,
    /// Whether it waited for its turn.
    pub(super) queued: bool,
    /// How many messages had been posted to it by then.
    pub(super) inbox: u32,
    /// The requested limits that were above the policy's, as warnings.
    pub(super) capped: Vec<String>,
}

impl Engine {
    /// Takes a user's message: the answer to the run that waits for one on the branch, or a new run. A message whose
    /// key was used before leads to the same run as then.
    pub async fn submit(&self, request: RunRequest) -> Result<Submitted, EngineError> {
        if let Some(before) = self.before(&request).await? {
            return Ok(before);
        }
        loop {
            let beginning = self.beginning(&request)?;
            match self.begin(&beginning).await {
                Err(EngineError::Store(StoreError::Busy { branch, run })) => {
                    if let Some(submitted) =
                        Box::pin(self.when_busy(&request, beginning, branch, run)).await?
                    {
                        return Ok(submitted);
                    }
                }
                begun => return submitted(begun, request.key.as_ref()),
            }
        }
    }

    /// Begins a run. Its first transition is committed when this returns.
    pub async fn start(&self, request: RunRequest) -> Result<RunHandle, EngineError> {
        let beginning = self.beginning(&request)?;
        self.begin(&beginning).await
    }

    /// Prepares a run from a request, without I/O on the store.
    pub(super) fn beginning(&self, request: &RunRequest) -> Result<Beginning, EngineError> {
        if self.shared.closing.is_cancelled() {
            return Err(EngineError::ShuttingDown);
        }
        if request.text.len() > MOST_TEXT {
            return Err(too_long());
        }
        let run = RunId(Uuid::now_v7());
        let pinned = self.pinned(request)?;
        let metadata = metadata_of(request)?;
        let decision = self.decision_of(request)?;
        let fresh = request.thread.is_none();
        let thread = match &request.thread {
            Some(id) => id.clone(),
            None => Uuid::now_v7().to_string().parse().map_err(|e| EngineError::Invalid(format!("{e}")))?,
        };
        Ok(Beginning {
            run,
            tenant: request.tenant.clone(),
            thread,
            fresh,
            branch: request.branch.clone(),
            text: request.text.clone(),
            pinned,
            metadata,
            key: request.key.clone(),
            queued: false,
            inbox: 0,
            capped: request.narrow.above(&decision),
        })
    }

    /// Begins a run at the current end of its branch.
    pub(super) async fn begin(&self, beginning: &Beginning) -> Result<RunHandle, EngineError> {
        let mut is_new = self.seems_new(beginning);
        let attempt = self.attempt(&beginning.tenant, beginning.run);
        loop {
            match self.try_begin(beginning, is_new).await {
                // The branch moved: its end is read again.
                Err(EngineError::Store(StoreError::Moved { .. })) => is_new = false,
                begun => {
                    if begun.is_ok() {
                        self.shared.threads.insert((beginning.tenant.clone(), beginning.thread.clone()));
                    }
                    return attempt.ended(begun);
                }
            }
        }
    }

    /// Whether a thread is probably made with this run, so that it is not looked for: if it exists, the store refuses
    /// the run, and it is looked for then.
    fn seems_new(&self, beginning: &Beginning) -> bool {
        let Beginning { tenant, thread, branch, fresh, queued, .. } = beginning;
        let is_main = branch.as_ref().is_none_or(|branch| *branch == BranchName::main());
        *fresh || (is_main && !queued && !self.shared.threads.contains(&(tenant.clone(), thread.clone())))
    }

    fn decision_of(&self, request: &RunRequest) -> Result<Arc<Decision>, EngineError> {
        let decision = self.shared.decision(request.mode, &request.channel);
        decision.map_err(|error| EngineError::Invalid(error.to_string()))
    }

    /// The end of the branch; a thread that does not exist is made together with the run.
    async fn end(
        &self,
        beginning: &Beginning,
        is_new: bool,
    ) -> Result<(BranchEnd, Option<NewThread>), EngineError> {
        let Beginning { tenant, thread, branch, .. } = beginning;
        let shared = &self.shared;
        let found = match is_new {
            true => Err(StoreError::NotFound { what: "thread", id: thread.to_string() }),
            false => patiently!(shared, shared.store.end(tenant, thread, branch.as_ref())),
        };
        match found {
            Err(StoreError::NotFound { what: "thread", .. }) => {
                let main = BranchName::main();
                if let Some(branch) = branch.as_ref().filter(|branch| **branch != main) {
                    return Err(StoreError::Tree(TreeError::NoBranch(branch.to_string())).into());
                }
                let (at, meta) = (shared.clock.now(), Value::Null);
                let new = NewThread { id: thread.clone(), at, ttl_at: None, meta };
                Ok((BranchEnd::without_entries(main), Some(new)))
            }
            found => Ok((found?, None)),
        }
    }

    /// The definition that a request is pinned to. Equal requests share it.
    fn pinned(&self, request: &RunRequest) -> Result<Arc<PinnedDefinition>, EngineError> {
        let known = self.shared.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, pinned)) = known.iter().rev().find(|(like, _)| is_alike(like, request)) {
            return Ok(pinned.clone());
        }
        drop(known); // rendering a template takes time
        let generation = self.shared.generation.load(SeqCst);
        let pinned = PinnedDefinition::new(self.definition(request)?);
        let mut known = self.shared.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        if generation != self.shared.generation.load(SeqCst) {
            return Ok(pinned);
        }
        if known.len() >= MOST_PINNED {
            known.clear();
        }
        let like = RunRequest { text: String::new(), metadata: Value::Null, ..request.clone() };
        known.push((like, pinned.clone()));
        Ok(pinned)
    }

    fn definition(&self, request: &RunRequest) -> Result<Definition, EngineError> {
        let mut decision = (*self.decision_of(request)?).clone();
        request.narrow.apply(&mut decision);
        let offered = |name: &str| decision.call(name) != CallRule::Denied;
        let tools: Arc<[ToolSpec]> =
            self.shared.tools().specs().into_iter().filter(|spec| offered(&spec.name)).collect();
        let known = |name: &str| self.shared.renderers.contains_key(name);
        if let Some(unknown) = request.render.then.iter().find(|then| !known(&then.name)) {
            let why = format!("there is no rendering policy {:?}: register it with the engine", unknown.name);
            return Err(EngineError::Invalid(why));
        }
        let system = match &request.behavior_template {
            None => request.system.clone(),
            Some(text) => {
                let (mode, channel) = (request.mode, request.channel.as_str());
                let known = template::Known { system: &request.system, mode, channel, tools: &tools };
                template::render(text, &known).map_err(|error| EngineError::Invalid(error.to_string()))?
            }
        };
        Ok(Definition {
            v: RUN_VERSION,
            flow: "turn".to_owned(),
            system,
            model: request.model.clone(),
            roles: request.roles.clone(),
            mode: request.mode,
            channel: request.channel.clone(),
            decision,
            tools,
            last_n: request.last_n,
            render: request.render.clone(),
            roots: roots_of(request)?,
        })
    }

    async fn try_begin(&self, beginning: &Beginning, is_new: bool) -> Result<RunHandle, EngineError> {
        let Beginning { run, tenant, thread, pinned, .. } = beginning;
        let definition = pinned.definition.clone();
        let shared = &self.shared;
        let (end, new_thread) = self.end(beginning, is_new).await?;
        let mut record = Record::at(end.tail.clone(), end.head, Node::Start);
        record.emit(started(thread, &end.branch, &definition));
        for closing in end.tail.closing(Closing::Cancelled, "the conversation went on without it") {
            record.append(closing);
        }
        for capped in &beginning.capped {
            record.warn(Code::BudgetExceeded, capped);
        }
        let setting = Setting { run: *run, path: FramePath::root(), definition: definition.clone() };
        let mut flow = Flow::begin(setting)?;
        let at = shared.clock.now();
        flow.apply(
            Input::Start { text: beginning.text.clone(), untrusted: end.untrusted, private: end.private },
            at,
            &mut record,
        );
        if let Some(refused) = record.refused {
            return Err(StoreError::Order(refused).into());
        }
        let metadata = beginning.metadata.clone();
        let row = RunRow {
            metadata: metadata.clone(),
            inbox: beginning.inbox,
            ..RunRow::begun(*run, thread, &end.branch, end.head, at)
        };
        let mut driver = self.driver(row, tenant, definition, flow, Recent::begun(end.head, end.written_by));
        let new = NewRun {
            owner: shared.owner.id,
            branch: end.branch,
            expected_head: end.head,
            after: end.written_by,
            definition: pinned.clone(),
            at,
            metadata,
            new_thread,
            lane: end.lane,
            key: beginning.key.clone(),
            queued: beginning.queued,
        };
        let intents = driver.first_intents();
        // Messages posted to a queued run come before its first effect.
        let inbox = beginning.queued.then_some(beginning.inbox);
        driver.first(new, record, intents, Some(&beginning.text), inbox).await?;
        Ok(self.spawn(driver))
    }
}

/// The first event of a run.
pub(crate) fn started(thread: &ThreadId, branch: &BranchName, definition: &Definition) -> Event {
    Event::Started { thread: thread.clone(), branch: branch.clone(), flow: definition.flow.clone() }
}

/// Whether two requests are pinned to the same definition: compares all parts of one.
fn is_alike(one: &RunRequest, other: &RunRequest) -> bool {
    let of = |request: &RunRequest| (request.mode, request.last_n, request.narrow);
    of(one) == of(other)
        && one.channel == other.channel
        && one.model == other.model
        && one.roles == other.roles
        && one.system == other.system
        && one.behavior_template == other.behavior_template
        && one.render == other.render
        && one.roots == other.roots
}

/// The result of a run that was to begin: if its key was used meanwhile, the run that the key led to.
pub(super) fn submitted(
    begun: Result<RunHandle, EngineError>,
    key: Option<&NewKey>,
) -> Result<Submitted, EngineError> {
    match (begun, key) {
        (Err(EngineError::Store(StoreError::KeyUsed(known))), Some(new)) => repeated(&known, new),
        (begun, _) => begun.map(Submitted::Started),
    }
}

/// The run that a key led to before, if the request was the same.
pub(super) fn repeated(known: &KeyRow, new: &NewKey) -> Result<Submitted, EngineError> {
    match known.run {
        Some(run) if known.body_hash == new.body_hash => Ok(Submitted::Repeated(run)),
        _ => Err(EngineError::KeyMismatch),
    }
}

/// The folders as they are stored: exactly as given, or an error.
fn roots_of(request: &RunRequest) -> Result<Vec<String>, EngineError> {
    let stored = |root: &PathBuf| match root.to_str() {
        Some(text) if root.is_absolute() => Ok(text.to_owned()),
        Some(_) => Err(EngineError::Invalid(format!("the folder {root:?} is not given by its whole path"))),
        None => Err(EngineError::Invalid(format!(
            "the name of the folder {root:?} is not UTF-8, so a run cannot be pinned to it: use another folder"
        ))),
    };
    request.roots.iter().map(stored).collect()
}

pub(super) fn too_long() -> EngineError {
    EngineError::Invalid("the message is longer than 1 MiB: send less at once".to_owned())
}

impl Driver {
    /// The first effects of a new run.
    pub(super) fn first_intents(&mut self) -> Vec<Intent> {
        let look = Look {
            next: self.flow.next(),
            flying: &Default::default(),
            again: &[],
            limits: &self.definition.decision.limits,
            answer: &|kind| self.definition.answer_tokens(kind),
            at_once: self.shared.settings.effects_at_once,
            hold: false,
        };
        match look.decide(&mut self.budget) {
            (Plan::Go(intents), over) => {
                let limit = over.map(|(limit, n)| Queued::Limit(limit, Some(n)));
                self.queue.extend(limit);
                intents
            }
            _ => Vec::new(),
        }
    }
}
