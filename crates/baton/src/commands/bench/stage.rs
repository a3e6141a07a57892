//! The setup of a benchmark: an engine on a fresh store, and a script that calls one tool a number of times and then
//! answers.

use std::sync::Arc;

use baton_core::fault::Fault;
use baton_core::id::Tenant;
use baton_core::policy::{Policy, default_decision};
use baton_core::run::RunStatus;
use baton_engine::{Clock, Engine, EngineError, Parts, Rested, RunRequest, Settings, SystemClock};
use baton_model::{Model, Scripted};
use baton_store::{PgOptions, PgStore, SqliteStore, Store};
use baton_tools::{Builtin, Registry, Tool, builtin};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::config::DatabaseUrl;
use crate::failure::Failure;

/// The message of every run; the script recognises a turn by it.
const QUESTION: &str = "How are things?";
const ANSWER: &str = "Everything that was asked for has been looked at: the figures are what the tool made of them, and \
    nothing else has been found that would have to be said about it today.";

/// An engine for a benchmark, and the folder of its data.
pub(super) struct BenchStage {
    pub(super) engine: Engine,
    pub(super) tenant: Tenant,
    is_local: bool,
    /// The data folder; dropping it removes it with everything in it.
    _folder: TempDir,
}

impl BenchStage {
    /// Opens an engine on SQLite in a new folder, or on a database that holds nothing else.
    pub(super) async fn open(database: Option<&DatabaseUrl>, tools: u32) -> Result<BenchStage, Failure> {
        let folder = tempfile::Builder::new().prefix("baton-bench-").tempdir()?;
        let store = match database {
            None => {
                let opened =
                    SqliteStore::open(folder.path()).map_err(|error| Failure::failed(error.to_string()))?;
                Store::Sqlite(opened.store)
            }
            Some(url) => {
                let connected = PgStore::connect(url.expose(), PgOptions::new(folder.path())).await;
                Store::Postgres(connected.map_err(|error| Failure::failed(error.to_string()))?)
            }
        };
        if database.is_some() {
            unused(&store).await?;
        }
        let tenant: Tenant = "bench".parse().map_err(|error| Failure::failed(format!("{error}")))?;
        let engine = engine(store, tools)?;
        Ok(BenchStage { engine, tenant, is_local: database.is_none(), _folder: folder })
    }

    /// The name of the store in the report.
    pub(super) fn name(&self) -> &'static str {
        if self.is_local { "sqlite" } else { "postgresql" }
    }

    /// Whether the store writes to files of this process.
    pub(super) fn is_local(&self) -> bool {
        self.is_local
    }

    /// Makes one turn, on a new thread or on this one.
    pub(super) async fn turn(&self, thread: Option<&str>) -> Result<baton_core::id::RunId, Failure> {
        let mut request = RunRequest::new(QUESTION, "scripted");
        request.tenant = self.tenant.clone();
        request.last_n = Some(20);
        request.thread =
            thread.map(str::parse).transpose().map_err(|error| Failure::failed(format!("{error}")))?;
        let mut handle = self.engine.start(request).await?;
        match handle.rested().await {
            Rested::Ended(RunStatus::Ok) => Ok(handle.run),
            other => Err(Failure::failed(format!("a run that was to be measured came to {other:?}"))),
        }
    }

    /// Shuts the engine down.
    pub(super) async fn close(self) {
        self.engine.shutdown().await;
    }
}

/// Refuses a database that holds any data.
async fn unused(store: &Store) -> Result<(), Failure> {
    let is_empty = store.threads(&Tenant::local(), 1, None).await?.is_empty()
        && store.tokens().await?.is_empty()
        && store.audit(None, 0, 1).await?.is_empty();
    if is_empty {
        return Ok(());
    }
    Err(Failure::usage("somebody keeps something in this database, and a measurement would fill it")
        .hint("make one for nothing else, as with createdb bench, and name that"))
}

fn engine(store: Store, tools: u32) -> Result<Engine, EngineError> {
    let failed = |error: &dyn std::fmt::Display| EngineError::Invalid(error.to_string());
    let options =
        Builtin { secrets: Default::default(), roots: Vec::new(), blobs: None, now: || SystemClock.now() };
    let all = builtin(options).map_err(|error| failed(&error))?;
    let calculator: Vec<Arc<dyn Tool>> =
        all.into_iter().filter(|tool| tool.spec().name == "calculator").collect();
    let script = Scripted::parse(&script(tools).to_string()).map_err(|error| failed(&error))?;
    let model: Arc<dyn Model> = Arc::new(script);
    let mut decision = default_decision();
    decision.limits.iterations = tools + 1;
    Engine::new(Parts {
        store,
        tools: Registry::new(calculator).map_err(|error| failed(&error))?,
        models: Arc::new(move |_| Ok::<_, Fault>(model.clone())),
        renderers: Default::default(),
        policy: Policy::fixed(decision),
        clock: Arc::new(SystemClock),
        settings: Settings::default(),
    })
}

/// The script that calls the tool that many times, one call after the other, and then answers.
fn script(tools: u32) -> Value {
    let call = |n: u32| {
        let arguments = json!({"expression": format!("({n} + 17) * 23 / 4")});
        json!({"match": QUESTION, "do": [{"call": {"name": "calculator", "arguments": arguments}}]})
    };
    let replies: Vec<Value> =
        (0..tools).map(call).chain([json!({"match": QUESTION, "do": [{"text": ANSWER}]})]).collect();
    json!({"v": 1, "replies": replies})
}
