//! Runs as fast as they go: a model and a tool that answer at once, three tool rounds, eight transitions.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_core::chat::{FinishReason, Role, TokenUsage};
use baton_core::fault::Fault;
use baton_core::policy::{Policy, default_decision};
use baton_core::tool::{EffectClass, ToolSpec};
use baton_engine::{Engine, Parts, RunRequest, Settings, SystemClock};
use baton_model::{Delta, DeltaStream, Model, ModelRequest};
use baton_store::{SqliteStore, Store};
use baton_tools::{CallContext, Output, Registry, Tool, ToolError};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

/// An answer of 32 pieces.
const WORDS: &str = "The quick answer to the question that was asked is found by looking at what the tools have \
    said about it so far and then putting it into words that are easy to read";

/// Asks for a tool in the first rounds of a turn, then answers.
pub(crate) struct Quick {
    pub(crate) rounds: usize,
}

impl Model for Quick {
    fn name(&self) -> String {
        "quick".to_owned()
    }

    fn stream(&self, request: ModelRequest) -> DeltaStream {
        let since = request.messages.iter().rev().take_while(|m| m.role != Role::User);
        let round = since.filter(|m| m.role == Role::Assistant).count();
        let mut deltas = Vec::new();
        if round == self.rounds {
            deltas.extend(WORDS.split_inclusive(' ').map(|word| Delta::Text(word.to_owned())));
        } else {
            deltas.push(Delta::CallStart { index: 0, id: None, name: "echo".to_owned() });
            let text = json!({"text": WORDS, "round": round}).to_string();
            deltas.push(Delta::CallArguments { index: 0, text });
        }
        deltas.push(Delta::Usage(TokenUsage {
            prompt_tokens: 100,
            completion_tokens: 20,
            cost_micro_usd: Some(0),
            estimated: false,
        }));
        deltas.push(Delta::Finish(if round < self.rounds {
            FinishReason::ToolCalls
        } else {
            FinishReason::Stop
        }));
        Box::pin(futures_util::stream::iter(deltas.into_iter().map(Ok)))
    }

    fn cost(&self, _: &TokenUsage) -> Option<u64> {
        Some(0)
    }
}

struct Echo(ToolSpec);

impl Tool for Echo {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn call(&self, arguments: Value, _: CallContext) -> BoxFuture<'static, Result<Output, ToolError>> {
        Box::pin(async move { Ok(Output::Json(arguments)) })
    }
}

pub(crate) fn engine(store: Store, rounds: usize) -> Engine {
    let echo = Echo(ToolSpec {
        name: "echo".to_owned(),
        description: "gives back what it is given".to_owned(),
        input_schema: json!({"type": "object"}),
        output_schema: None,
        class: EffectClass::SideEffectFree,
        timeout_ms: 1000,
        ..ToolSpec::default()
    });
    let model: Arc<dyn Model> = Arc::new(Quick { rounds });
    let parts = Parts {
        renderers: Default::default(),
        store,
        tools: Registry::new(vec![Arc::new(echo)]).unwrap(),
        models: Arc::new(move |_| Ok::<_, Fault>(model.clone())),
        policy: Policy::fixed(default_decision()),
        clock: Arc::new(SystemClock),
        settings: Settings::default(),
    };
    Engine::new(parts).unwrap()
}

pub(crate) async fn memory(runs: usize, time: Duration) -> f64 {
    measure(&engine(Store::memory(), 3), runs, time).await
}

pub(crate) async fn sqlite(folder: &Path, runs: usize, time: Duration) -> f64 {
    let store = Store::Sqlite(SqliteStore::open(folder).unwrap().store);
    measure(&engine(store, 3), runs, time).await
}

/// Keeps so many runs going, each on a thread of its own; answers transitions a second.
async fn measure(engine: &Engine, runs: usize, time: Duration) -> f64 {
    let begun = Instant::now();
    let one = |engine: Engine| async move {
        let mut turns = 0u64;
        while begun.elapsed() < time {
            let mut handle = engine.start(RunRequest::new("how are things?", "quick")).await.unwrap();
            handle.rested().await;
            turns += 1;
        }
        turns
    };
    let all: Vec<_> = (0..runs).map(|_| tokio::spawn(one(engine.clone()))).collect();
    let mut turns = 0;
    for one in all {
        turns += one.await.unwrap();
    }
    turns as f64 * 8.0 / begun.elapsed().as_secs_f64()
}
