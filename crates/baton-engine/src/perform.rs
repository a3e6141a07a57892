//! Doing what was decided: asking models and running tools, each on a task of its own.
//!
//! A task sends pieces of text and one outcome to its driver, and nothing to anybody else. It is told to
//! stop by a token; dropping it stops it for good.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use baton_core::chat::{ChatMessage, RawReply};
use baton_core::effect::{EffectKind, Outcome, Reply, ToolOutcome};
use baton_core::fault::{Code, Fault};
use baton_core::id::{BranchName, EffectId, FramePath, RunId, Tenant, ThreadId};
use baton_core::render;
use baton_core::run::Definition;
use baton_core::thread::Entry;
use baton_core::tool::EffectClass;
use baton_model::{Collector, Delta, Model, ModelRequest};
use baton_store::failpoint::point;
use baton_store::{Intent, Slice, Store, StoreError};
use baton_tools::{CallContext, Registry};
use futures_util::{FutureExt, StreamExt};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::patience::patiently;
use crate::recent::Recent;
use crate::settings::Settings;

/// Finds a model by name.
pub type ModelSource = Arc<dyn Fn(&str) -> Result<Arc<dyn Model>, Fault> + Send + Sync>;

/// How many entries beyond those asked for are read, so that a group of calls is not cut.
const GROUP_ROOM: u32 = 4 * 64;

/// What a task tells its driver.
#[derive(Debug)]
pub(crate) struct Signal {
    pub(crate) n: u32,
    pub(crate) attempt: u32,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    /// A piece of text.
    Piece { text: String, reasoning: bool },
    /// It ended.
    Done(Outcome),
}

/// Everything that an effect may touch.
pub(crate) struct Performer {
    pub(crate) store: Store,
    pub(crate) tools: Registry,
    pub(crate) models: ModelSource,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Settings,
    pub(crate) tenant: Tenant,
    pub(crate) run: RunId,
    pub(crate) path: FramePath,
    pub(crate) thread: ThreadId,
    pub(crate) branch: BranchName,
    pub(crate) definition: Arc<Definition>,
    /// Whether the policy of now forbids a tool that the run's decision allowed.
    pub(crate) denied_now: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    pub(crate) signals: mpsc::Sender<Signal>,
    /// What was just written, so that it need not be read back.
    pub(crate) recent: Recent,
}

impl Performer {
    /// Performs one effect to its end and reports it.
    pub(crate) async fn perform(self: Arc<Self>, intent: Intent, cancel: CancellationToken) {
        let (n, attempt) = (intent.effect.n, intent.attempt);
        let outcome = match intent.effect.kind.clone() {
            EffectKind::Model { .. } => self.ask(&intent, &cancel).await,
            EffectKind::Tool { .. } => self.call(&intent, &cancel).await,
            EffectKind::Wait { .. } => return,
        };
        let _ = self.signals.send(Signal { n, attempt, what: What::Done(outcome) }).await;
    }

    async fn ask(&self, intent: &Intent, cancel: &CancellationToken) -> Outcome {
        let mut collector = Collector::new();
        point("llm.post_intent");
        let asked = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            reply = AssertUnwindSafe(self.reply(intent, &mut collector)).catch_unwind() => {
                // What the panic said may hold anything, so it is not passed on.
                let broken = |_| Err(Fault::new(Code::Internal, "the model's own code broke down"));
                Some(reply.unwrap_or_else(broken))
            }
        };
        point("llm.post_response");
        let shown = collector.text().to_owned();
        match asked {
            None => Outcome::Stopped { shown },
            Some(Err(fault)) => Outcome::ModelFailed { fault, shown },
            Some(Ok(model)) => match collector.finish() {
                Ok(raw) => Outcome::Reply(self.checked(raw, model)),
                Err(fault) => Outcome::ModelFailed { fault, shown },
            },
        }
    }

    /// Streams a model's answer into the collector and to the driver; answers who spoke.
    async fn reply(&self, intent: &Intent, collector: &mut Collector) -> Result<String, Fault> {
        let EffectKind::Model { role, head, tools, attempt, .. } = &intent.effect.kind else {
            return Err(Fault::new(Code::Internal, "not a model call"));
        };
        let model = (self.models)(&self.definition.model)?;
        let messages = self.rendered(*head).await?;
        let tools = if *tools { self.definition.tools.clone() } else { Arc::default() };
        let max_tokens = self.definition.decision.limits.answer_tokens;
        let request = ModelRequest { role: role.clone(), messages, tools, max_tokens, attempt: *attempt };
        let mut stream = model.stream(request);
        while let Some(delta) = stream.next().await {
            let delta = delta?;
            collector.push(&delta)?;
            let piece = match delta {
                // Without this, pieces of nothing would fill the log: no bound counts them.
                Delta::Text(text) | Delta::Reasoning(text) if text.is_empty() => continue,
                Delta::Text(text) => What::Piece { text, reasoning: false },
                Delta::Reasoning(text) => What::Piece { text, reasoning: true },
                _ => continue,
            };
            let signal = Signal { n: intent.effect.n, attempt: intent.attempt, what: piece };
            if self.signals.send(signal).await.is_err() {
                break; // nobody drives the run any more
            }
            point("llm.mid_stream");
        }
        Ok(model.name())
    }

    /// What the model sees: everything up to an index, or the last so many entries of it.
    async fn rendered(&self, head: i64) -> Result<Vec<ChatMessage>, Fault> {
        let most = self.definition.last_n.map(|n| n.saturating_add(GROUP_ROOM));
        let first = most.map_or(0, |n| (head + 1 - i64::from(n)).max(0));
        if let Some(messages) = self.recent.look(first, head, |entries| self.messages(entries)) {
            return Ok(messages);
        }
        let slice = Slice { before: Some(head + 1), last_n: most };
        let entries =
            patiently!(self, self.store.entries(&self.tenant, &self.thread, Some(&self.branch), slice));
        let entries: Vec<Entry> =
            entries.map_err(unavailable)?.into_iter().map(|placed| placed.entry).collect();
        let messages = self.messages(&entries);
        self.recent.append(head, entries.into_iter());
        Ok(messages)
    }

    fn messages(&self, entries: &[Entry]) -> Vec<ChatMessage> {
        let first = self.definition.last_n.map_or(0, |n| render::whole_groups(entries, n as usize));
        render::messages(&self.definition.system, &entries[first..])
    }

    fn checked(&self, raw: RawReply, model: String) -> Reply {
        let offered = |name: &str| self.definition.tools.iter().any(|tool| tool.name == name);
        Reply {
            text: raw.text,
            calls: raw.calls.iter().map(|call| self.tools.check(call, &offered)).collect(),
            finish: raw.finish,
            usage: raw.usage,
            model,
        }
    }

    async fn call(&self, intent: &Intent, cancel: &CancellationToken) -> Outcome {
        let EffectKind::Tool { call_id, name, entry, class, edited_by } = &intent.effect.kind else {
            return Outcome::Unknown;
        };
        if (self.denied_now)(name) {
            let (status, why) = self.definition.decision.refusal(name);
            return Outcome::Tool(ToolOutcome { status, result: Value::String(why), blob: None });
        }
        let arguments = match self.arguments(*entry, edited_by.as_deref()).await {
            Ok(arguments) => arguments,
            Err(error) => {
                return Outcome::Tool(ToolOutcome::error(format!("it could not be started: {error}")));
            }
        };
        let effect = EffectId { run: self.run, path: self.path.clone(), n: intent.effect.n };
        let context =
            CallContext { call_id: call_id.clone(), key: effect.to_string(), cancel: cancel.clone() };
        point("tool.post_intent");
        let mut call = Box::pin(self.tools.call(name, arguments, context));
        if let std::task::Poll::Ready(ran) = futures_util::poll!(&mut call) {
            return self.ran(ran, *class, cancel).await;
        }
        point("tool.post_send");
        let ran = call.await;
        self.ran(ran, *class, cancel).await
    }

    async fn ran(&self, ran: baton_tools::Ran, class: EffectClass, cancel: &CancellationToken) -> Outcome {
        point("tool.post_reply");
        let failed = ran.outcome.status == baton_core::thread::Closing::Error;
        if ran.timed_out && !class.may_run_again() && !ran.before_start {
            return Outcome::Unknown;
        }
        if failed && cancel.is_cancelled() {
            return Outcome::Stopped { shown: String::new() };
        }
        if let (Some(bytes), Some(blob)) = (ran.blob, &ran.outcome.blob)
            && let Err(error) = patiently!(
                self,
                self.store.put_blob(&self.tenant, &blob.hash, bytes.clone(), self.clock.now())
            )
        {
            tracing::warn!(run = %self.run, %error, "a long result could not be kept whole");
            return Outcome::Tool(ToolOutcome { blob: None, ..ran.outcome });
        }
        Outcome::Tool(ran.outcome)
    }

    /// The exact arguments of a call: those that a person put in their place, or the entry's.
    async fn arguments(&self, entry: i64, edited_by: Option<&str>) -> Result<Value, StoreError> {
        if let Some(approval) = edited_by {
            return Ok(patiently!(self, self.store.approval(&self.tenant, approval))?.args);
        }
        let known = self.recent.look(entry, entry, |entries| entries.first().cloned()).flatten();
        if let Some(Entry::ToolCall(call)) = known {
            return Ok(call.arguments);
        }
        let slice = Slice { before: Some(entry + 1), last_n: Some(1) };
        let found =
            patiently!(self, self.store.entries(&self.tenant, &self.thread, Some(&self.branch), slice))?
                .pop();
        match found.map(|placed| placed.entry) {
            Some(Entry::ToolCall(call)) => Ok(call.arguments),
            _ => Err(StoreError::Corrupt {
                what: "entry",
                id: format!("{}[{entry}]", self.thread),
                why: "expected a ToolCall".to_owned(),
            }),
        }
    }
}

fn unavailable(error: StoreError) -> Fault {
    Fault::new(Code::StoreUnavailable, error.to_string())
}
