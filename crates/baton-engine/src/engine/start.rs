//! Beginning a run: where its branch ends, what it is pinned to, and its first transition.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use baton_core::event::Event;
use baton_core::flow::{Flow, Input, Node, Record, Setting};
use baton_core::id::{BranchName, FramePath, RunId, ThreadId};
use baton_core::policy::CallRule;
use baton_core::run::{Definition, RUN_VERSION};
use baton_core::thread::{Closing, TreeError};
use baton_core::tool::ToolSpec;
use baton_store::{BranchEnd, Intent, NewRun, NewThread, Pinned, RunRow, StoreError};
use serde_json::Value;
use uuid::Uuid;

use super::{Engine, RunHandle};
use crate::driver::{Driver, Queued};
use crate::error::EngineError;
use crate::patience::patiently;
use crate::plan::{Look, Plan};
use crate::request::{RunRequest, Submitted};
use crate::spans::PARENT;
use crate::template;

/// The longest message of a person.
pub(super) const MOST_TEXT: usize = 1 << 20;
/// How many definitions are kept in memory.
const MOST_PINNED: usize = 256;

impl Engine {
    /// Takes a person's message: the answer to the run that waits for one on the branch, or a new run.
    pub async fn submit(&self, request: RunRequest) -> Result<Submitted, EngineError> {
        match self.start(request.clone()).await {
            Err(EngineError::Store(StoreError::Busy { branch, run })) => {
                if self.is_overdue(&request.tenant, run).await? {
                    // Nobody answered in time: it goes on without an answer, and this is a message of its own.
                    if let Some(mut handle) = self.drive(&request.tenant, run).await? {
                        handle.rested().await;
                    }
                    return self.start(request).await.map(Submitted::Started);
                }
                match self.answer(&request.tenant, run, &request.text).await? {
                    Some(answered) => Ok(answered),
                    None => Err(StoreError::Busy { branch, run }.into()),
                }
            }
            other => other.map(Submitted::Started),
        }
    }

    /// Begins a run. Its first transition is committed when this returns.
    pub async fn start(&self, request: RunRequest) -> Result<RunHandle, EngineError> {
        if self.shared.closing.is_cancelled() {
            return Err(EngineError::ShuttingDown);
        }
        if request.text.len() > MOST_TEXT {
            return Err(too_long());
        }
        let thread = match &request.thread {
            Some(id) => id.clone(),
            None => Uuid::now_v7().to_string().parse().map_err(|e| EngineError::Invalid(format!("{e}")))?,
        };
        let definition = self.pinned(&request)?;
        let run = RunId(Uuid::now_v7());
        loop {
            match self.try_start(&request, &thread, run, definition.clone()).await {
                Err(EngineError::Store(StoreError::Moved { .. })) => {} // look again where the branch ends
                other => return other,
            }
        }
    }

    /// Where the branch ends; a thread that is not there is made together with the run.
    async fn end(
        &self,
        request: &RunRequest,
        id: &ThreadId,
    ) -> Result<(BranchEnd, Option<NewThread>), EngineError> {
        let shared = &self.shared;
        let fresh = request.thread.is_none();
        let found = match fresh {
            true => Err(StoreError::NotFound { what: "thread", id: id.to_string() }),
            false => patiently!(shared, shared.store.end(&request.tenant, id, request.branch.as_ref())),
        };
        match found {
            Err(StoreError::NotFound { what: "thread", .. }) => {
                let main = BranchName::main();
                if let Some(branch) = request.branch.as_ref().filter(|branch| **branch != main) {
                    return Err(StoreError::Tree(TreeError::NoBranch(branch.to_string())).into());
                }
                let new =
                    NewThread { id: id.clone(), at: shared.clock.now(), ttl_at: None, meta: Value::Null };
                Ok((
                    BranchEnd { branch: main, head: -1, tail: Default::default(), untrusted: None },
                    Some(new),
                ))
            }
            found => Ok((found?, None)),
        }
    }

    /// What a request is pinned to. Equal requests share it.
    fn pinned(&self, request: &RunRequest) -> Result<Arc<Pinned>, EngineError> {
        let RunRequest {
            model, roles, system, behavior_template, mode, channel, last_n, render, roots, ..
        } = request;
        let key = format!(
            "{mode:?}\n{last_n:?}\n{render:?}\n{channel:?}\n{model:?}\n{roles:?}\n{system:?}\n{behavior_template:?}\n{roots:?}"
        );
        let known = self.shared.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pinned) = known.get(&key) {
            return Ok(pinned.clone());
        }
        drop(known); // a template takes its time
        let pinned = Pinned::new(self.definition(request)?);
        let mut known = self.shared.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_PINNED {
            known.clear();
        }
        known.insert(key, pinned.clone());
        Ok(pinned)
    }

    fn definition(&self, request: &RunRequest) -> Result<Definition, EngineError> {
        let decision = self.shared.decision(request.mode, &request.channel);
        let decision = decision.map_err(|error| EngineError::Invalid(error.to_string()))?;
        let offered = |name: &str| decision.call(name) != CallRule::Denied;
        let tools: Arc<[ToolSpec]> =
            self.shared.tools.specs().into_iter().filter(|spec| offered(&spec.name)).collect();
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
            decision: (*decision).clone(),
            tools,
            last_n: request.last_n,
            render: request.render.clone(),
            roots: roots_of(request)?,
        })
    }

    async fn try_start(
        &self,
        request: &RunRequest,
        thread: &ThreadId,
        run: RunId,
        pinned: Arc<Pinned>,
    ) -> Result<RunHandle, EngineError> {
        let definition = Arc::new(pinned.definition.clone());
        let (shared, tenant) = (&self.shared, &request.tenant);
        let (end, new_thread) = self.end(request, thread).await?;
        let mut record = Record::at(end.tail.clone(), end.head, Node::Start);
        let started = Event::Started {
            thread: thread.clone(),
            branch: end.branch.clone(),
            flow: definition.flow.clone(),
        };
        record.emit(started);
        for closing in end.tail.closing(Closing::Cancelled, "the conversation went on without it") {
            record.append(closing);
        }
        let setting = Setting { run, path: FramePath::root(), definition: definition.clone() };
        let mut flow = Flow::begin(setting)?;
        let at = shared.clock.now();
        flow.apply(Input::Start { text: request.text.clone(), untrusted: end.untrusted }, at, &mut record);
        if let Some(refused) = record.refused {
            return Err(StoreError::Order(refused).into());
        }
        let metadata = metadata_of(request)?;
        let row =
            RunRow { metadata: metadata.clone(), ..RunRow::begun(run, thread, &end.branch, end.head, at) };
        let mut driver = self.driver(row, tenant, definition, flow);
        let new = NewRun {
            owner: shared.owner.id,
            branch: end.branch,
            expected_head: end.head,
            definition: pinned,
            at,
            metadata,
            new_thread,
        };
        let intents = driver.first_intents();
        driver.first(new, record, intents).await?;
        Ok(self.spawn(driver))
    }
}

/// The folders as they are stored: exactly those, or none of them.
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

/// The caller's remarks, and the span that the run is started in: it has to outlive this process. A remark
/// under that name would put the run into a trace that nobody vouches for.
fn metadata_of(request: &RunRequest) -> Result<Value, EngineError> {
    if request.metadata.get(PARENT).is_some() {
        let why = format!("the metadata of a run hold no {PARENT:?}: give it as the request's own");
        return Err(EngineError::Invalid(why));
    }
    let Some(parent) = &request.traceparent else { return Ok(request.metadata.clone()) };
    let mut fields = match &request.metadata {
        Value::Null => serde_json::Map::new(),
        Value::Object(fields) => fields.clone(),
        _ => return Err(EngineError::Invalid("the metadata of a run are an object".to_owned())),
    };
    fields.insert(PARENT.to_owned(), Value::String(parent.to_string()));
    Ok(Value::Object(fields))
}

impl Driver {
    /// What a new run starts with.
    fn first_intents(&mut self) -> Vec<Intent> {
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
