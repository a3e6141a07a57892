//! Performing effects: calls of models and tools, each in a task of its own.
//!
//! A task sends pieces of text and one outcome to its driver, and to no other receiver. It is cancelled by a token;
//! dropping it stops it for good.

mod asked;
mod call;
mod check;
mod found;
mod hold;
mod view;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use baton_core::chat::{RawReply, Reasoning, TokenUsage};
use baton_core::effect::{EffectKind, Outcome, Purpose, Reply};
use baton_core::fault::{Code, Fault};
use baton_core::id::{BranchName, FramePath, RunId, Tenant, ThreadId};
use baton_core::run::Definition;
use baton_core::tool::EffectClass;
use baton_model::{Delta, Model, ModelRequest, ToolChoice};
use baton_store::failpoint::point;
use baton_store::{Intent, Store, StoreError};
use baton_tools::{Registry, VisibleTools};
use futures_util::{FutureExt, StreamExt};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::engine::Shared;
use crate::recent::{Kept, Recent};
use crate::settings::Settings;
use crate::spans::{CallSpan, Track};
use asked::{Asked, about_tokens};
pub(crate) use hold::Hold;
use view::{Extent, Showing, Sight};
pub use view::{Renderer, Renderers};

/// Finds a model by name.
pub type ModelSource = Arc<dyn Fn(&str) -> Result<Arc<dyn Model>, Fault> + Send + Sync>;

/// A message of a task to its driver.
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
    /// It ended. Boxed: a queue has room for many signals, and nearly all are pieces.
    Done(Box<Outcome>),
    /// It was not begun: another process may own the run by now.
    Lost,
}

/// How a model call ended without a failure.
enum Spoke {
    /// The stream is over.
    Ended(Extent),
    /// The model was not called: the messages are too long.
    NotYet { up_to: i64 },
}

/// A prepared model call.
struct Question {
    model: Arc<dyn Model>,
    request: ModelRequest,
    seen: Extent,
    /// Whether the answer is shown to users: only the turn's own is.
    is_shown: bool,
}

/// The result of preparing a model call.
enum Prepared {
    Ask(Box<Question>),
    /// The thread is too long: it has to be summarised first.
    Summarise {
        up_to: i64,
    },
}

/// The dependencies of effects, shared by all effects of a run.
pub(crate) struct Performer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) store: Store,
    /// Returns the current tools: a service may come back while a run waits for it.
    pub(crate) tools: Arc<dyn Fn() -> Registry + Send + Sync>,
    /// The caller's metadata of the run, for tools that ask for it.
    pub(crate) metadata: Value,
    pub(crate) models: ModelSource,
    pub(crate) renderers: Renderers,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) tenant: Tenant,
    pub(crate) run: RunId,
    pub(crate) path: FramePath,
    pub(crate) thread: ThreadId,
    pub(crate) branch: BranchName,
    pub(crate) definition: Arc<Definition>,
    /// Whether the current policy forbids a tool that the run's decision allowed.
    pub(crate) denied_now: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    pub(crate) signals: mpsc::Sender<Signal>,
    /// The newest entries, so that they need not be read back.
    pub(crate) recent: Recent,
    /// The entries that ended runs left for the next one on their branch.
    pub(crate) kept: Arc<Kept>,
    /// The run's place in its trace.
    pub(crate) track: Track,
}

impl Performer {
    /// Performs one effect to its end and reports it.
    pub(crate) async fn perform(self: Arc<Self>, intent: Intent, cancel: CancellationToken, hold: Hold) {
        let (n, attempt) = (intent.effect.n, intent.attempt);
        let span = self.track.call(&intent, &self.definition);
        let outcome = match intent.effect.kind {
            EffectKind::Model { .. } => Some(self.ask(&intent, &cancel, &span).await),
            EffectKind::Tool { .. } => self.call(&intent, &cancel, &span, hold).await,
            EffectKind::Wait { .. } => return,
        };
        let what = match outcome {
            Some(outcome) => {
                span.ended(&outcome, self.settings.telling);
                What::Done(Box::new(outcome))
            }
            None => What::Lost,
        };
        let _ = self.signals.send(Signal { n, attempt, what }).await;
    }

    async fn ask(&self, intent: &Intent, cancel: &CancellationToken, span: &CallSpan) -> Outcome {
        let mut asked = Asked::default();
        point("llm.post_intent");
        let ended = tokio::select! {
            biased;
            () = cancel.cancelled() => None,
            reply = AssertUnwindSafe(self.reply(intent, &mut asked, span)).catch_unwind() => {
                // The message of a panic may hold any data, so it is not passed on.
                let broken = |_| Err(Fault::new(Code::Internal, "what asks the model broke down"));
                Some(reply.unwrap_or_else(broken))
            }
        };
        point("llm.post_response");
        let shown = asked.shown();
        match ended {
            None => Outcome::Stopped { shown, used: asked.used() },
            Some(Err(fault)) => Outcome::ModelFailed { fault, shown, used: asked.used() },
            Some(Ok(Spoke::NotYet { up_to })) => Outcome::TooLong { up_to },
            Some(Ok(Spoke::Ended(seen))) => {
                let (used, usage) = (asked.used(), asked.used_in_all());
                match std::mem::take(&mut asked.collector).finish() {
                    Ok(raw) => {
                        let raw = RawReply { usage, ..raw };
                        let reply = self.checked(raw, asked.model.as_deref(), seen);
                        Outcome::Reply(self.without_found(reply, &intent.effect.kind).await)
                    }
                    Err(fault) => Outcome::ModelFailed { fault, shown, used },
                }
            }
        }
    }

    /// Streams a model's answer into the collector and to the driver.
    async fn reply(&self, intent: &Intent, asked: &mut Asked, span: &CallSpan) -> Result<Spoke, Fault> {
        let prepared = Box::pin(self.question(&intent.effect.kind)).await.map_err(Fault::unsent)?;
        let Question { model, request, seen, is_shown } = match prepared {
            Prepared::Ask(question) => *question,
            Prepared::Summarise { up_to } => return Ok(Spoke::NotYet { up_to }),
        };
        let request = ModelRequest { traceparent: self.told_of(intent), ..request };
        span.asked(&request, model.as_ref(), self.settings.telling);
        asked.begin(model.clone(), &request);
        let mut stream = model.stream(request);
        while let Some(delta) = stream.next().await {
            let delta = delta?;
            asked.collector.push(&delta)?;
            let piece = match delta {
                // Without this, empty pieces would fill the log: no bound counts them.
                Delta::Text(text) | Delta::Reasoning(text) if text.is_empty() => continue,
                Delta::Text(text) => What::Piece { text, reasoning: false },
                Delta::Reasoning(text) => What::Piece { text, reasoning: true },
                _ => continue,
            };
            if !is_shown {
                continue;
            }
            let is_first = !std::mem::replace(&mut asked.seen, true);
            let signal = Signal { n: intent.effect.n, attempt: intent.attempt, what: piece };
            if self.signals.send(signal).await.is_err() {
                break; // the run is no longer driven here
            }
            point("llm.mid_stream");
            if is_first {
                // More may come at once: the first piece is sent before more is read.
                tokio::task::yield_now().await;
            }
        }
        Ok(Spoke::Ended(seen))
    }

    /// The trace header sent to a model, where the operator wants that.
    fn told_of(&self, intent: &Intent) -> Option<String> {
        self.settings.telling.propagate.then(|| self.track.outgoing(intent)).flatten()
    }

    /// Prepares a model call: the model at the flow's place in the fallback ladder, with the messages that it may see.
    async fn question(&self, kind: &EffectKind) -> Result<Prepared, Fault> {
        let EffectKind::Model { role, rung, head, tools, attempt, purpose, view, last_resort, .. } = kind
        else {
            return Err(Fault::new(Code::Internal, "not a model call"));
        };
        let ladder = self.definition.ladder(role);
        let rung = ladder.get(*rung as usize).or(ladder.first());
        let Some(rung) = rung else { return Err(Fault::new(Code::Internal, "nobody can be asked")) };
        let candidate = &rung.candidate;
        let model = (self.models)(&candidate.model)?;
        let limits = &self.definition.decision.limits;
        if limits.cost_micro_usd.is_some() && model.cost(&TokenUsage::default()).is_none() {
            let why = format!("a cost limit is set, and nobody knows what {} costs", candidate.model);
            return Err(Fault::new(Code::PriceUnknown, why));
        }
        let tools = if *tools { self.definition.tools.clone() } else { Arc::default() };
        let max_tokens = candidate.answer_tokens(limits.answer_tokens);
        let (head, view) = (*head, *view);
        let showing =
            Showing { model: model.as_ref(), candidate, tools: &tools, max_tokens, head, purpose, view };
        let (messages, seen) = match self.seen(&showing).await? {
            Sight::Summarise { up_to } => return Ok(Prepared::Summarise { up_to }),
            Sight::Messages { messages, seen } => (messages, seen),
        };
        let must_call = *purpose == Purpose::Choice && !tools.is_empty();
        let request = ModelRequest {
            tenant: self.tenant.clone(),
            tools,
            tool_choice: if must_call { ToolChoice::Required } else { ToolChoice::Auto },
            schema: (*purpose == Purpose::Check).then(check::schema),
            temperature: self.definition.temperature(candidate),
            max_tokens,
            context_window: candidate.context_window,
            attempt: *attempt,
            last_resort: *last_resort,
            ..ModelRequest::new(rung.role, messages)
        };
        let reads = about_tokens(&request);
        if limits.tokens.is_some_and(|most| reads.saturating_add(max_tokens) > most) {
            let why = format!("the token limit does not cover this call: it reads about {reads} tokens");
            return Err(Fault::new(Code::BudgetExceeded, why));
        }
        let is_shown = purpose.is_shown();
        Ok(Prepared::Ask(Box::new(Question { model, request, seen, is_shown })))
    }

    fn checked(&self, raw: RawReply, model: Option<&dyn Model>, seen: Extent) -> Reply {
        let (model, wire) = model.map_or_else(Default::default, |model| (model.name(), model.wire()));
        let thought = (!raw.reasoning.is_empty()).then(|| Reasoning {
            model: model.clone(),
            wire: wire.to_owned(),
            blocks: raw.reasoning,
        });
        // A tool that exists and is not allowed is refused by the flow, which knows why.
        let offered = |name: &str| self.definition.tools.iter().any(|tool| tool.name == name);
        let known = |name: &str| offered(name) || self.definition.decision.would_allow(name).is_some();
        let tools = VisibleTools { known: &known, offered: &offered };
        let registry = (self.tools)();
        Reply {
            text: raw.text,
            calls: raw.calls.iter().map(|call| registry.check(call, &tools)).collect(),
            finish: raw.finish,
            usage: raw.usage,
            model,
            reasoning: thought,
            first: seen.first,
            lowest: seen.lowest,
            cut: seen.cut,
        }
    }
}

/// The outcome of an effect that was given up: stopped if it has no side effects, otherwise unknown.
pub(crate) fn given_up(kind: &EffectKind) -> Outcome {
    match kind {
        EffectKind::Model { .. } | EffectKind::Tool { class: EffectClass::SideEffectFree, .. } => {
            Outcome::Stopped { shown: String::new(), used: None }
        }
        EffectKind::Tool { .. } | EffectKind::Wait { .. } => Outcome::Unknown,
    }
}

fn unavailable(error: StoreError) -> Fault {
    Fault::new(Code::StoreUnavailable, error.to_string())
}
