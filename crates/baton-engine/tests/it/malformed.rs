//! Malformed input: models and tools that break every rule.
//!
//! Each case has exactly one outcome, written down beside it: the events, whether a tool ran, the text that the model
//! or the user gets. After each the promises hold and the thread takes the next turn, and no model ever sees a history
//! that a provider would refuse.

mod arguments;
mod calls;
mod endings;
mod outputs;
mod sizes;
mod text;
mod usage;

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_core::chat::{ChatMessage, FinishReason, Role, TokenUsage};
use baton_core::event::{Event, NumberedEvent};
use baton_core::fault::Fault;
use baton_core::id::Cursor;
use baton_core::tool::{EffectClass, ToolSpec};
use baton_engine::{Engine, Rested};
use baton_model::{Delta, DeltaStream, Model, ModelRequest};
use baton_store::ClaimMode;
use baton_tools::{CallContext, Output, Tool, ToolError};
use futures_util::future::BoxFuture;
use futures_util::stream;
use serde_json::{Value, json};

use crate::check::check;
use crate::world::{Kept, Mode, TENANT, World, kinds, watch};

/// The stream of a model in one call.
type Reply = Vec<Result<Delta, Fault>>;

/// One malformed input and its expected outcome.
struct Case {
    name: String,
    /// The model's streams, a list a call; after the last one it answers in words.
    replies: Vec<Reply>,
    /// The kinds of events, all of them.
    kinds: Vec<String>,
    /// How many calls reached a tool.
    ran: usize,
    /// A text that a tool's result or the error contains.
    told: String,
}

impl Case {
    fn new<S: AsRef<str>>(name: impl Into<String>, reply: Reply, kinds: &[S], ran: usize) -> Case {
        let kinds = kinds.iter().map(|kind| kind.as_ref().to_owned()).collect();
        Case { name: name.into(), replies: vec![reply], kinds, ran, told: String::new() }
    }

    /// A call that runs although it looks odd.
    fn runs(name: impl Into<String>, tool: &str, reply: Reply) -> Case {
        let kinds = ["started", &format!("tool_start {tool}"), &format!("tool_result {tool} Ok")];
        Case::new(name, reply, &[&kinds[..], &["delta", "ended ok"]].concat(), 1)
    }

    /// A call that never runs; the model gets the reason, and goes on.
    fn refused(name: impl Into<String>, tool: &str, reply: Reply, told: &str) -> Case {
        let kinds = ["started", &format!("tool_start {tool}"), &format!("tool_result {tool} Error")];
        Case::new(name, reply, &[&kinds[..], &["delta", "ended ok"]].concat(), 0).told(told)
    }

    /// A reply that cannot stand: the turn ends with an error, and nothing ran. A reply that could not be parsed, and
    /// of which no text was shown, gets one more try; the model does the same again.
    fn fails(name: impl Into<String>, reply: Reply, shows: bool, code: &str, told: &str) -> Case {
        let ended = format!("ended error {code}");
        let has_words =
            |delta: &Result<Delta, Fault>| matches!(delta, Ok(Delta::Text(text)) if !text.trim().is_empty());
        let shown: &[&str] = if shows { &["delta"] } else { &[] };
        let read = shows && reply.iter().any(has_words);
        if code != "llm_invalid_response" || read {
            let voided: &[&str] = if shows && !read { &["restarted"] } else { &[] };
            let kinds = [&["started"], shown, voided, &[&ended]].concat();
            return Case::new(name, reply, &kinds, 0).told(told);
        }
        let voided: &[&str] = if shows { &["delta", "restarted"] } else { &[] };
        let ended_well =
            reply.iter().any(|delta| matches!(delta, Ok(Delta::Finish(_)))) && told.contains("empty");
        let seen: &[&str] = if ended_well { &["history_cut 0 Simplified"] } else { &[] };
        let warning = format!("warning {code}");
        let kinds = [&["started"], voided, &[&warning], voided, seen, &[&ended]].concat();
        let again = reply.clone();
        let mut case = Case::new(name, reply, &kinds, 0).told(told);
        case.replies.push(again);
        case
    }

    fn told(mut self, told: &str) -> Case {
        self.told = told.to_owned();
        self
    }
}

fn text(text: &str) -> Result<Delta, Fault> {
    Ok(Delta::Text(text.to_owned()))
}

fn start(index: u32, name: &str) -> Result<Delta, Fault> {
    Ok(Delta::CallStart { index, id: Some(format!("call_{index}")), name: name.to_owned() })
}

fn arguments(index: u32, text: &str) -> Result<Delta, Fault> {
    Ok(Delta::CallArguments { index, text: text.to_owned() })
}

fn finish(reason: FinishReason) -> Result<Delta, Fault> {
    Ok(Delta::Finish(reason))
}

/// One whole call.
fn call(name: &str, written: &str) -> Reply {
    vec![start(0, name), arguments(0, written), finish(FinishReason::ToolCalls)]
}

/// A model that plays its given replies, and records its requests.
struct Played {
    replies: Mutex<VecDeque<Reply>>,
    heard: Mutex<Vec<Vec<ChatMessage>>>,
}

impl Played {
    fn new(replies: Vec<Reply>) -> Arc<Played> {
        Arc::new(Played { replies: Mutex::new(replies.into()), heard: Mutex::default() })
    }

    /// Its requests, a history a call.
    fn heard(&self) -> Vec<Vec<ChatMessage>> {
        self.heard.lock().unwrap().clone()
    }
}

impl Model for Played {
    fn name(&self) -> String {
        "played".to_owned()
    }

    fn stream(&self, request: ModelRequest) -> DeltaStream {
        self.heard.lock().unwrap().push(request.messages);
        let next = self.replies.lock().unwrap().pop_front();
        let reply = next.unwrap_or_else(|| vec![text("fine"), finish(FinishReason::Stop)]);
        Box::pin(stream::iter(reply))
    }

    fn cost(&self, _: &TokenUsage) -> Option<u64> {
        Some(0)
    }
}

/// A tool that takes any object, counts its calls, and returns a configured output.
pub(crate) struct Anything {
    spec: ToolSpec,
    answer: Box<dyn Fn() -> Output + Send + Sync>,
    got: Arc<Mutex<Vec<Value>>>,
}

impl Anything {
    fn new() -> Arc<Anything> {
        Anything::named("anything", || Output::Json(json!({"did": "it"})))
    }

    pub(crate) fn named(name: &str, answer: impl Fn() -> Output + Send + Sync + 'static) -> Arc<Anything> {
        let spec = ToolSpec {
            name: name.to_owned(),
            description: "a tool that takes anything".to_owned(),
            input_schema: json!({"type": "object"}),
            output_schema: None,
            class: EffectClass::SideEffectFree,
            timeout_ms: 60_000,
            ..ToolSpec::default()
        };
        Arc::new(Anything { spec, answer: Box::new(answer), got: Arc::default() })
    }

    fn got(&self) -> Vec<Value> {
        self.got.lock().unwrap().clone()
    }
}

impl Tool for Anything {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, arguments: Value, _: CallContext) -> BoxFuture<'static, Result<Output, ToolError>> {
        self.got.lock().unwrap().push(arguments);
        let answer = (self.answer)();
        Box::pin(async move { Ok(answer) })
    }
}

/// Plays every case on a store of its own; one that hangs has failed.
async fn play(kept: Kept, cases: Vec<Case>) {
    for case in cases {
        let name = case.name.clone();
        let played = tokio::time::timeout(Duration::from_secs(300), play_one(kept, case)).await;
        assert!(played.is_ok(), "{name} hangs");
    }
}

async fn play_one(kept: Kept, case: Case) {
    let Case { name, replies, kinds: expected, ran, told } = case;
    let world = World::new(kept, Mode::Plain);
    let (model, tool) = (Played::new(replies), Anything::new());
    let engine = world.engine_of(model.clone(), vec![tool.clone()]);
    let (handle, mut rested, _) = world.turn(&engine, "hi").await;
    while rested == Rested::Suspended {
        rested = engine.resume(&TENANT, handle.run, ClaimMode::IfFree).await.unwrap().rested().await;
    }
    let events = world.events(handle.run).await;
    assert_eq!(kinds(&events), expected, "{name}");
    assert!(matches!(rested, Rested::Ended(status) if status.has_ended()), "{name}: {rested:?}");
    assert_eq!(world.ledger.calls().len() + tool.got().len(), ran, "{name}");
    let said = what_was_told(&events);
    assert!(
        said.iter().any(|text| text.to_lowercase().contains(&told.to_lowercase())) || told.is_empty(),
        "{name}: {told:?} in {said:?}"
    );
    let seen = watch(&engine, handle.run, Cursor::default()).await;
    check(&world, handle.run, &seen).await.unwrap_or_else(|broken| panic!("{name}: {broken}"));
    goes_on(&world, &engine, &model, &name).await;
}

/// The thread takes the next turn, and every history that a model saw on the way is valid.
async fn goes_on(world: &World, engine: &Engine, model: &Played, name: &str) {
    model.replies.lock().unwrap().clear();
    let (handle, _, events) = world.turn(engine, "go on").await;
    assert_eq!(kinds(&events), ["started", "delta", "ended ok"], "{name}, the next turn");
    check(world, handle.run, &[]).await.unwrap_or_else(|broken| panic!("{name}, the next turn: {broken}"));
    for history in model.heard() {
        if let Err(why) = is_history(&history) {
            panic!("{name}: {why} in {history:?}");
        }
    }
}

/// The texts of the tools' results and of the run's end.
fn what_was_told(events: &[NumberedEvent]) -> Vec<String> {
    let told = |event: &NumberedEvent| match &event.event {
        Event::ToolResult { result, .. } => Some(result.clone()),
        Event::Ended { error: Some(fault), .. } => Some(fault.message.clone()),
        _ => None,
    };
    events.iter().filter_map(told).collect()
}

/// The one instruction that Baton adds by itself: after an answer that could not be parsed.
const PLAINLY: &str = "Your last answer could not be read. Answer in plain text";

/// The rules of all providers for a history: each call has an object for its arguments, a plain name and an id of its
/// own, and right after its message come the results, one each.
fn is_history(messages: &[ChatMessage]) -> Result<(), String> {
    let mut ids = HashSet::new();
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        if message.role == Role::Tool {
            let answered = message.tool_call_id.as_deref().unwrap_or_default();
            let at = open.iter().position(|id| *id == answered).ok_or("a result without its call")?;
            open.remove(at);
            continue;
        }
        if !open.is_empty() {
            return Err(format!("{open:?} have no results"));
        }
        if message.role == Role::System && !message.content.starts_with(PLAINLY) {
            return Err("somebody else's instructions".to_owned());
        }
        for call in &message.tool_calls {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
            if !(1..=64).contains(&call.name.len()) || !call.name.bytes().all(plain) {
                return Err(format!("the name {:?}", call.name));
            }
            if !call.arguments.is_object() {
                return Err(format!("the arguments {}", call.arguments));
            }
            if !ids.insert(&call.id) {
                return Err(format!("{:?} twice", call.id));
            }
            open.push(&call.id);
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} have no results")) }
}
