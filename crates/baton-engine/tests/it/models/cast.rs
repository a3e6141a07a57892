//! Several scripted models, which record their requests.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use baton_core::chat::{FinishReason, TokenUsage};
use baton_core::fault::{Code, Fault};
use baton_core::role::{Candidate, Roles};
use baton_engine::{Engine, Renderers, RunRequest};
use baton_model::{Delta, DeltaStream, Model, ModelRequest};
use futures_util::stream;
use serde_json::{Value, json};

use crate::world::World;

pub(crate) type Line = Vec<Result<Delta, Fault>>;

type Heard = Arc<Mutex<Vec<(String, ModelRequest)>>>;

pub(crate) struct Cast {
    models: Arc<BTreeMap<String, Arc<Speaker>>>,
    heard: Heard,
}

struct Speaker {
    name: String,
    lines: Mutex<VecDeque<Line>>,
    heard: Heard,
}

impl Model for Speaker {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn stream(&self, request: ModelRequest) -> DeltaStream {
        self.heard.lock().unwrap().push((self.name.clone(), request));
        let line = self.lines.lock().unwrap().pop_front();
        Box::pin(stream::iter(line.unwrap_or_else(|| says("More."))))
    }

    fn cost(&self, _: &TokenUsage) -> Option<u64> {
        (!self.name.starts_with("dear/")).then_some(0)
    }

    fn wire(&self) -> &'static str {
        "told"
    }
}

impl Cast {
    pub(crate) fn new<const N: usize>(lines: [(&str, Vec<Line>); N]) -> Cast {
        let heard = Heard::default();
        let speaker = |(name, lines): (&str, Vec<Line>)| {
            let speaker =
                Speaker { name: name.to_owned(), lines: Mutex::new(lines.into()), heard: heard.clone() };
            (name.to_owned(), Arc::new(speaker))
        };
        Cast { models: Arc::new(lines.into_iter().map(speaker).collect()), heard: heard.clone() }
    }

    pub(crate) fn engine(&self, world: &World) -> Engine {
        self.engine_with(world, Renderers::default())
    }

    pub(crate) fn engine_with(&self, world: &World, renderers: Renderers) -> Engine {
        let models = self.models.clone();
        let find = move |name: &str| match models.get(name) {
            Some(model) => Ok(model.clone() as Arc<dyn Model>),
            None => Err(Fault::new(Code::LlmConnection, format!("there is no {name}"))),
        };
        world.engine_with(Arc::new(find), renderers, Vec::new())
    }

    /// A request in which `a/big` and `b/mid` reason and `c/small` routes, as far as they are there.
    pub(crate) fn request(&self, text: &str) -> RunRequest {
        let of = |names: &[&str]| -> Vec<Candidate> {
            let there = names.iter().filter(|name| self.models.contains_key(**name));
            there.map(|name| Candidate::of(*name)).collect()
        };
        let roles: Roles = [("reasoning", of(&["a/big", "b/mid"])), ("router", of(&["c/small"]))]
            .into_iter()
            .filter(|(_, candidates)| !candidates.is_empty())
            .map(|(role, candidates)| (role.to_owned(), candidates))
            .collect();
        RunRequest { thread: Some("t".parse().unwrap()), roles, ..RunRequest::new(text, "a/big") }
    }

    /// The models that were called, each with its role, in order.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.heard.lock().unwrap().iter().map(|(name, request)| format!("{name} {}", request.role)).collect()
    }

    /// Their requests.
    pub(crate) fn heard(&self) -> Vec<ModelRequest> {
        self.heard.lock().unwrap().iter().map(|(_, request)| request.clone()).collect()
    }
}

fn used() -> Result<Delta, Fault> {
    Ok(Delta::Usage(TokenUsage {
        prompt_tokens: 3,
        completion_tokens: 2,
        cost_micro_usd: Some(0),
        estimated: false,
    }))
}

pub(crate) fn says(text: &str) -> Line {
    vec![Ok(Delta::Text(text.to_owned())), used(), Ok(Delta::Finish(FinishReason::Stop))]
}

pub(crate) fn cut(text: &str) -> Line {
    vec![Ok(Delta::Text(text.to_owned()))]
}

pub(crate) fn fails(fault: Fault) -> Line {
    vec![Err(fault)]
}

pub(crate) fn wants(tool: &str, arguments: Value) -> Line {
    vec![
        Ok(Delta::CallStart { index: 0, id: None, name: tool.to_owned() }),
        Ok(Delta::CallArguments { index: 0, text: arguments.to_string() }),
        used(),
        Ok(Delta::Finish(FinishReason::ToolCalls)),
    ]
}

pub(crate) fn thinks(tool: &str, arguments: Value) -> Line {
    let mut line =
        vec![Ok(Delta::Reasoning("hm".to_owned())), Ok(Delta::ReasoningBlock(json!({"signed": "hm"})))];
    line.extend(wants(tool, arguments));
    line
}
