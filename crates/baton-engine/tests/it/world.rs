//! The environment of a scenario: a store, engines on it, a scripted model, and tools whose effects are counted.

mod source;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_core::event::{Event, NumberedEvent};
use baton_core::fault::Fault;
use baton_core::id::{Cursor, RunId, Tenant, ThreadId};
use baton_core::policy::{Decision, Policy, default_decision};
use baton_core::thread::PlacedEntry;
use baton_core::time::Timestamp;
use baton_core::tool::{EffectClass, ToolSpec};
use baton_engine::{
    Clock, Engine, ManualClock, ModelSource, Parts, Renderers, Rested, RunHandle, RunRequest, Seen, Settings,
};
use baton_model::{Model, Scripted};
use baton_store::{FaultyStore, Slice, SqliteStore, Store};
use baton_tools::{CallContext, Output, Registry, Tool, ToolError};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::Notify;

pub(crate) use source::source;

pub(crate) const NOW: Timestamp = Timestamp(1_767_225_600_000);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    Memory,
    Sqlite,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Plain,
    /// All state that can be read back is dropped after every transition.
    Forgetting,
    /// One store call in a hundred fails, or is done and reports that the outcome is unknown.
    Failing,
}

pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) clock: Arc<ManualClock>,
    /// The clock of engines instead of that one.
    pub(crate) other_clock: Option<Arc<dyn Clock>>,
    pub(crate) settings: Settings,
    pub(crate) decision: Decision,
    /// The policy that decides instead of that decision.
    pub(crate) policy: Option<Policy>,
    script: Mutex<String>,
    _folder: tempfile::TempDir,
}

impl World {
    pub(crate) fn new(kept: Kept, mode: Mode) -> World {
        let folder = tempfile::tempdir().unwrap();
        let store = match kept {
            Kept::Memory => Store::memory(),
            Kept::Sqlite => Store::Sqlite(SqliteStore::open(folder.path()).unwrap().store),
        };
        static SEED: AtomicU64 = AtomicU64::new(1);
        let store = match mode {
            Mode::Failing => {
                let seed = SEED.fetch_add(1, Ordering::Relaxed) * 7919 + u64::from(std::process::id());
                Store::Faulty(Arc::new(FaultyStore::new(store, 10, seed)))
            }
            _ => store,
        };
        World::on(store, Settings { reload: mode == Mode::Forgetting, ..quick() }, folder)
    }

    pub(crate) fn on(store: Store, settings: Settings, folder: tempfile::TempDir) -> World {
        World {
            store,
            ledger: Arc::default(),
            clock: Arc::new(ManualClock::at(NOW)),
            other_clock: None,
            settings,
            decision: default_decision(),
            policy: None,
            script: Mutex::new(String::new()),
            _folder: folder,
        }
    }

    /// Sets the model's script, one list of things to do a call.
    pub(crate) fn script(&self, replies: Value) {
        let replies: Vec<Value> = replies.as_array().unwrap().iter().map(|r| json!({ "do": r })).collect();
        *self.script.lock().unwrap() = json!({"v": 1, "replies": replies}).to_string();
    }

    /// The model that plays the script.
    pub(crate) fn scripted(&self) -> Arc<dyn Model> {
        Arc::new(Scripted::parse(&self.script.lock().unwrap()).unwrap())
    }

    pub(crate) fn engine(&self) -> Engine {
        self.engine_of(self.scripted(), Vec::new())
    }

    /// An engine with another model, and more tools than the usual ones.
    pub(crate) fn engine_of(&self, model: Arc<dyn Model>, more: Vec<Arc<dyn Tool>>) -> Engine {
        self.engine_with(Arc::new(move |_| Ok::<_, Fault>(model.clone())), Default::default(), more)
    }

    /// An engine with many models and rendering policies of its own.
    pub(crate) fn engine_with(
        &self,
        models: ModelSource,
        renderers: Renderers,
        more: Vec<Arc<dyn Tool>>,
    ) -> Engine {
        let tools = ["safe", "idem", "once"]
            .map(|name| Arc::new(Probe::new(name, self.ledger.clone())) as Arc<dyn Tool>);
        let mut tools: Vec<Arc<dyn Tool>> = tools.into_iter().chain(more).collect();
        let ask = baton_tools::builtin(baton_tools::Builtin {
            secrets: Default::default(),
            roots: vec![],
            blobs: None,
            now: || NOW,
        })
        .unwrap();
        tools.extend(ask.into_iter().filter(|tool| tool.spec().name == "ask_user"));
        let parts = Parts {
            renderers,
            store: self.store.clone(),
            tools: Registry::new(tools).unwrap(),
            models,
            policy: self.policy.clone().unwrap_or_else(|| Policy::fixed(self.decision.clone())),
            clock: self.other_clock.clone().unwrap_or_else(|| self.clock.clone()),
            settings: self.settings.clone(),
        };
        Engine::new(parts).unwrap()
    }

    pub(crate) fn request(&self, text: &str) -> RunRequest {
        RunRequest { thread: Some("t".parse().unwrap()), ..RunRequest::new(text, "scripted") }
    }

    /// Runs one message to its rest; answers how it rested and its events.
    pub(crate) async fn turn(&self, engine: &Engine, text: &str) -> (RunHandle, Rested, Vec<NumberedEvent>) {
        let mut handle = engine.start(self.request(text)).await.unwrap();
        let rested = handle.rested().await;
        let events = self.events(handle.run).await;
        (handle, rested, events)
    }

    /// All committed events of a run.
    pub(crate) async fn events(&self, run: RunId) -> Vec<NumberedEvent> {
        insist(|| self.store.events(&TENANT, run, 1, 10_000)).await
    }

    pub(crate) async fn entries(&self) -> Vec<PlacedEntry> {
        let id: ThreadId = "t".parse().unwrap();
        insist(|| self.store.entries(&TENANT, &id, None, Slice::default())).await
    }

    /// The entries as `Type: text` lines.
    pub(crate) async fn transcript(&self) -> Vec<String> {
        self.entries()
            .await
            .iter()
            .map(|placed| {
                let data = placed.entry.data();
                let pick = |key: &str| data.get(key).map(baton_core::json::as_text);
                let text =
                    ["text", "content", "function_name", "result", "kind"].iter().find_map(|key| pick(key));
                let status = pick("status").map(|s| format!(" ({s})")).unwrap_or_default();
                let meta = pick("meta").map(|m| format!(" [{m}]")).unwrap_or_default();
                format!("{}: {}{status}{meta}", placed.entry.type_name(), text.unwrap_or_default())
            })
            .collect()
    }
}

/// Times so small that nothing waits for long.
pub(crate) fn quick() -> Settings {
    Settings {
        grace: Duration::from_millis(300),
        shutdown: Duration::from_millis(300),
        flush_after: Duration::from_millis(20),
        flush_watched: Duration::from_millis(5),
        poll: Duration::from_millis(5),
        adopt_every: Duration::from_millis(5),
        most_back_off: Duration::from_millis(5),
        ..Settings::default()
    }
}

pub(crate) static TENANT: std::sync::LazyLock<Tenant> = std::sync::LazyLock::new(Tenant::local);

/// The store below one that fails on purpose: for a test's own writes, which are not recovered if they are done and
/// reported as failed.
pub(crate) fn sure(store: &Store) -> &Store {
    match store {
        Store::Faulty(faulty) => faulty.inner(),
        other => other,
    }
}

/// Reads through a store that fails on purpose.
pub(crate) async fn insist<T, F: Future<Output = Result<T, baton_store::StoreError>>>(
    call: impl Fn() -> F,
) -> T {
    loop {
        match call().await {
            Ok(value) => return value,
            Err(error) if error.is_transient() => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// The items that a reader sees from a place to the end or the next suspension.
pub(crate) async fn watch(engine: &Engine, run: RunId, from: Cursor) -> Vec<Seen> {
    let mut reader = engine.events(&TENANT, run, from).await.unwrap();
    let mut seen = Vec::new();
    while let Some(next) = reader.next().await.unwrap() {
        let stops = next == Seen::Suspended;
        seen.push(next);
        if stops {
            break;
        }
    }
    seen
}

/// The kinds of events, in order; neighbouring deltas count once.
pub(crate) fn kinds(events: &[NumberedEvent]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for event in events {
        let kind = match &event.event {
            Event::Started { .. } => "started".to_owned(),
            Event::Delta { .. } => "delta".to_owned(),
            Event::ToolStart { name, .. } => format!("tool_start {name}"),
            Event::ToolResult { name, status, .. } => format!("tool_result {name} {status:?}"),
            Event::ApprovalRequired { name, .. } => format!("approval_required {name}"),
            Event::Input { .. } => "input".to_owned(),
            Event::Warning { code, .. } => format!("warning {}", code.as_str()),
            Event::Restarted { .. } => "restarted".to_owned(),
            Event::HistoryCut { first, reason } => format!("history_cut {first} {reason:?}"),
            Event::Ended { status, error, .. } => {
                let why = error.as_ref().map(|e| format!(" {}", e.code.as_str())).unwrap_or_default();
                format!("ended {}{why}", status.as_str())
            }
        };
        if kind != "delta" || out.last().is_none_or(|last| last != "delta") {
            out.push(kind);
        }
    }
    out
}

/// Every call that a tool really received, by its key, and the gates that hold some of them.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    calls: Mutex<Vec<(String, String)>>,
    arrived: Notify,
    opened: Notify,
    open: Mutex<bool>,
}

impl Ledger {
    /// `(key, tool)` of every call, in order of arrival.
    pub(crate) fn calls(&self) -> Vec<(String, String)> {
        self.calls.lock().unwrap().clone()
    }

    /// Records a call; one that may run again counts once for each key.
    pub(crate) fn note(&self, key: &str, tool: &str, class: EffectClass) {
        let mut calls = self.calls.lock().unwrap();
        if !class.may_run_again() || !calls.iter().any(|(there, _)| there == key) {
            calls.push((key.to_owned(), tool.to_owned()));
        }
        drop(calls);
        self.arrived.notify_waiters();
    }

    pub(crate) fn count(&self, tool: &str) -> usize {
        self.calls().iter().filter(|(_, name)| name == tool).count()
    }

    /// Waits until so many calls have arrived.
    pub(crate) async fn arrived(&self, count: usize) {
        loop {
            let notified = self.arrived.notified();
            if self.calls().len() >= count {
                return;
            }
            notified.await;
        }
    }

    /// Lets every held call go on, now and later.
    pub(crate) fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_waiters();
    }

    /// Holds calls again.
    pub(crate) fn shut(&self) {
        *self.open.lock().unwrap() = false;
    }

    pub(crate) async fn held(&self) {
        loop {
            let notified = self.opened.notified();
            if *self.open.lock().unwrap() {
                return;
            }
            notified.await;
        }
    }
}

/// A tool that records its call first and then does as its arguments say: `ok`, `fail`, `hold` (until the gate opens or
/// it is cancelled), `flaky` (fails the first time, then holds), `deaf` (holds and ignores cancels), `panic`, `long`.
struct Probe {
    spec: ToolSpec,
    ledger: Arc<Ledger>,
}

impl Probe {
    fn new(name: &str, ledger: Arc<Ledger>) -> Probe {
        let class = match name {
            "safe" => EffectClass::SideEffectFree,
            "idem" => EffectClass::Idempotent,
            _ => EffectClass::Unsafe,
        };
        let input_schema = json!({
            "type": "object", "additionalProperties": false, "required": ["do"],
            "properties": {"do": {"enum": ["ok", "fail", "hold", "flaky", "deaf", "panic", "long"]}, "n": {"type": "integer"}}
        });
        let spec = ToolSpec {
            name: name.to_owned(),
            description: "a tool of the tests".to_owned(),
            input_schema,
            output_schema: None,
            class,
            timeout_ms: 60_000,
            ..ToolSpec::default()
        };
        Probe { spec, ledger }
    }
}

impl Tool for Probe {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, arguments: Value, context: CallContext) -> BoxFuture<'static, Result<Output, ToolError>> {
        let (ledger, name) = (self.ledger.clone(), self.spec.name.clone());
        Box::pin(async move {
            let told = arguments["do"].as_str().unwrap().to_owned();
            let is_first = {
                let mut calls = ledger.calls.lock().unwrap();
                let is_first = !calls.iter().any(|(key, _)| *key == context.key);
                if is_first || name != "idem" {
                    calls.push((context.key.clone(), name.clone()));
                }
                is_first
            };
            ledger.arrived.notify_waiters();
            match told.as_str() {
                "flaky" if is_first => return Err(ToolError::new("it failed at first")),
                "fail" => return Err(ToolError::new("it failed as told")),
                "panic" => panic!("as told"),
                "long" => return Ok(Output::Text("x".repeat(100_000))),
                "deaf" => ledger.held().await,
                "hold" | "flaky" => tokio::select! {
                    () = ledger.held() => {}
                    () = context.cancel.cancelled() => return Err(ToolError::new("stopped")),
                },
                _ => {}
            }
            Ok(Output::Json(json!({ "did": told, "n": arguments["n"] })))
        })
    }
}
