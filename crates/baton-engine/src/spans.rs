//! The telemetry of a run: every span with its name, its ids and its attributes, in one place.
//!
//! The names ([`names`]) follow OpenTelemetry's conventions for generative AI, which are still being developed: a name
//! that they change is changed here. The ids follow from those of the run and its effects (`baton_core::trace`), so
//! they are the same in the account, in another process and in `runs trace`.
//!
//! It promises to cost next to nothing where the target [`TARGET`] has no subscriber, and to hold back content: neither
//! messages nor the texts of failures are in a span unless the operator asked for content. It does not send anything;
//! subscribers of the target do.

mod content;
pub mod names;

use std::time::{SystemTime, UNIX_EPOCH};

use baton_core::effect::{EffectKind, Outcome};
use baton_core::fault::Code;
use baton_core::id::{EffectId, FramePath, RunId};
use baton_core::run::Definition;
use baton_core::thread::Closing;
use baton_core::trace::{TraceParent, short_hash};
use baton_model::{Model, ModelRequest};
use baton_store::{Intent, RunRow, StoreError};
use serde_json::Value;
use tracing::field::Empty;
use tracing::{Level, Span, info_span};

use crate::driver::Rested;
use crate::error::EngineError;

/// The tracing target of all spans of runs.
pub const TARGET: &str = "baton::span";

/// Which data spans hold beyond names, ids and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Telling {
    /// Whether spans hold content: messages, arguments, results.
    pub content: bool,
    /// Whether the trace header is sent to models.
    pub propagate: bool,
}

/// The metadata key of the span that a run was started in.
pub(crate) const PARENT: &str = "traceparent";

/// The trace that a run belongs to: the caller's if it gave one, else the run's own.
pub fn trace_id_of(row: &RunRow) -> String {
    parent_of(row).map_or_else(|| row.id.trace_id(), |parent| parent.trace_id)
}

/// The span that a run was started in. A header that cannot be parsed counts as none, as the standard has it.
pub(crate) fn parent_of(row: &RunRow) -> Option<TraceParent> {
    row.metadata.get(PARENT)?.as_str()?.parse().ok()
}

/// The time now as spans have it: in nanoseconds since 1970.
#[allow(
    clippy::disallowed_methods,
    reason = "spans of many processes meet by the time of day, finer than ours"
)]
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A run in its trace, as this process drives it.
#[derive(Debug, Clone)]
pub(crate) struct Track {
    run: RunId,
    epoch: u32,
    parent: Option<TraceParent>,
}

impl Track {
    pub(crate) fn of(row: &RunRow) -> Track {
        Track { run: row.id, epoch: row.epoch, parent: parent_of(row) }
    }

    /// Whether spans are made: the target has a subscriber, and the caller's trace, if any, is recorded.
    fn is_seen(&self) -> bool {
        let is_recorded = self.parent.as_ref().is_none_or(|parent| parent.sampled);
        is_recorded && tracing::enabled!(target: TARGET, Level::INFO)
    }

    fn trace_id(&self) -> String {
        self.parent.as_ref().map_or_else(|| self.run.trace_id(), |parent| parent.trace_id.clone())
    }

    /// The id of the span of this process's work on the run.
    fn span_id(&self) -> String {
        self.run.span_id(self.epoch)
    }

    /// The id of the span of one try of an effect.
    fn span_of(&self, intent: &Intent) -> String {
        let effect = EffectId { run: self.run, path: FramePath::root(), n: intent.effect.n };
        effect.span_id_of(intent.effect.kind.again())
    }

    /// The time now, if spans are made.
    pub(crate) fn now(&self) -> Option<u64> {
        self.is_seen().then(now)
    }

    /// The trace header for a model call. Where no span is made here, the caller's own header is passed on, if there is
    /// one.
    pub(crate) fn outgoing(&self, intent: &Intent) -> Option<String> {
        if !self.is_seen() {
            return self.parent.as_ref().map(TraceParent::to_string);
        }
        let (trace_id, span_id) = (self.trace_id(), self.span_of(intent));
        Some(TraceParent { trace_id, span_id, sampled: true }.to_string())
    }

    /// The span of a model or tool call.
    pub(crate) fn call(&self, intent: &Intent, definition: &Definition) -> CallSpan {
        if !self.is_seen() {
            return CallSpan { span: Span::none(), is_over: true };
        }
        let (effect, parent) = (self.span_of(intent), self.span_id());
        let span = match &intent.effect.kind {
            EffectKind::Model { role, rung, .. } => {
                let ladder = definition.ladder(role);
                let asked = ladder.get(*rung as usize).or(ladder.first());
                let (provider, model) = asked.map_or(("", ""), |rung| parts(&rung.candidate.model));
                info_span!(
                    target: TARGET, parent: None, "chat",
                    { names::TRACE_ID } = self.trace_id(),
                    { names::SPAN_ID } = effect,
                    { names::PARENT_SPAN_ID } = parent,
                    { names::NAME } = format!("chat {model}"),
                    { names::KIND } = names::CLIENT,
                    { names::OPERATION } = "chat",
                    { names::PROVIDER } = provider,
                    { names::REQUEST_MODEL } = model,
                    { names::MAX_TOKENS } = Empty,
                    { names::TEMPERATURE } = Empty,
                    { names::STREAM } = true,
                    { names::FINISH_REASONS } = Empty,
                    { names::INPUT_TOKENS } = Empty,
                    { names::OUTPUT_TOKENS } = Empty,
                    { names::SERVER_ADDRESS } = Empty,
                    { names::SERVER_PORT } = Empty,
                    { names::SYSTEM } = Empty,
                    { names::INPUT_MESSAGES } = Empty,
                    { names::OUTPUT_MESSAGES } = Empty,
                    { names::ROLE } = asked.map_or(role.as_str(), |rung| rung.role),
                    { names::ATTEMPT } = intent.attempt,
                    { names::OUTCOME } = Empty,
                    { names::ERROR_TYPE } = Empty,
                )
            }
            EffectKind::Tool { call_id, name, .. } => info_span!(
                target: TARGET, parent: None, "execute_tool",
                { names::TRACE_ID } = self.trace_id(),
                { names::SPAN_ID } = effect,
                { names::PARENT_SPAN_ID } = parent,
                { names::NAME } = format!("execute_tool {name}"),
                { names::KIND } = names::INTERNAL,
                { names::OPERATION } = "execute_tool",
                { names::TOOL_NAME } = name.as_str(),
                { names::TOOL_CALL_ID } = call_id.as_str(),
                { names::TOOL_TYPE } = "function",
                { names::TOOL_ARGUMENTS } = Empty,
                { names::TOOL_RESULT } = Empty,
                { names::ATTEMPT } = intent.attempt,
                { names::ERROR_TYPE } = Empty,
            ),
            EffectKind::Wait { .. } => Span::none(),
        };
        CallSpan { span, is_over: false }
    }

    /// The span of a commit, once its outcome is known. A commit that only found unread messages has no span: the same
    /// step is committed after they were read.
    pub(crate) fn committed(&self, since: Option<u64>, step: u32, error: Option<&EngineError>) {
        let error = match error {
            Some(EngineError::Store(StoreError::Unread { .. })) => return,
            Some(EngineError::Store(StoreError::Fenced { .. })) => Some("fenced"),
            Some(_) => Some(Code::StoreUnavailable.as_str()),
            None => None,
        };
        let Some(since) = since else { return };
        drop(info_span!(
            target: TARGET, parent: None, "commit",
            { names::TRACE_ID } = self.trace_id(),
            { names::SPAN_ID } = short_hash(&format!("{}#{}/{step}", self.run, self.epoch)),
            { names::PARENT_SPAN_ID } = self.span_id(),
            { names::NAME } = "commit",
            { names::KIND } = names::INTERNAL,
            { names::SINCE } = since,
            { names::STEP } = step,
            { names::ERROR_TYPE } = error,
        ));
    }
}

/// The span of one process's work on a run, from one claim to the next rest.
#[derive(Debug)]
pub(crate) struct RunSpan {
    since: Option<u64>,
    span: Span,
}

impl RunSpan {
    /// A span that starts now and is made only when the run is driven: a run that is refused leaves no span.
    pub(crate) fn planned(track: &Track) -> RunSpan {
        RunSpan { since: track.now(), span: Span::none() }
    }

    /// Makes the span, as the run is driven.
    pub(crate) fn begin(&mut self, track: &Track, row: &RunRow, definition: &Definition) {
        let Some(since) = self.since else { return };
        self.span = info_span!(
            target: TARGET, parent: None, "invoke_agent",
            { names::TRACE_ID } = track.trace_id(),
            { names::SPAN_ID } = track.span_id(),
            { names::PARENT_SPAN_ID } = track.parent.as_ref().map(|parent| parent.span_id.as_str()),
            { names::LINK_SPAN_ID } = (track.epoch > 1).then(|| track.run.span_id(track.epoch - 1)),
            { names::NAME } = names::RUN,
            { names::KIND } = names::INTERNAL,
            { names::SINCE } = since,
            { names::OPERATION } = "invoke_agent",
            { names::AGENT } = names::AGENT_NAME,
            { names::CONVERSATION } = row.thread.as_str(),
            { names::RUN_ID } = row.id.to_string(),
            { names::EPOCH } = row.epoch,
            { names::MODE } = definition.mode.as_str(),
            { names::CHANNEL } = definition.channel.as_str(),
            { names::STATUS } = Empty,
            { names::ERROR_TYPE } = Empty,
        );
    }

    /// Records why the run failed.
    pub(crate) fn failed(&self, code: Code) {
        self.span.record(names::ERROR_TYPE, code.as_str());
    }

    /// Records how the run came to rest here.
    pub(crate) fn rested(&self, rested: &Rested) {
        let status = match rested {
            Rested::Ended(status) => status.as_str(),
            Rested::Suspended => "suspended",
            Rested::Released => "released",
            Rested::Lost => "lost",
            Rested::Failed(_) => "failed",
        };
        self.span.record(names::STATUS, status);
        if let Rested::Failed(_) = rested {
            self.failed(Code::StoreUnavailable);
        }
    }
}

/// The span of one call while it lasts. Dropped without an outcome, it is recorded as interrupted.
#[derive(Debug)]
pub(crate) struct CallSpan {
    span: Span,
    is_over: bool,
}

impl CallSpan {
    /// Records the request to a model.
    pub(crate) fn asked(&self, request: &ModelRequest, model: &dyn Model, telling: Telling) {
        if self.span.is_disabled() {
            return;
        }
        self.span.record(names::MAX_TOKENS, request.max_tokens);
        self.span.record(names::TEMPERATURE, request.temperature);
        if let Some((address, port)) = model.server() {
            self.span.record(names::SERVER_ADDRESS, address);
            self.span.record(names::SERVER_PORT, port);
        }
        if telling.content {
            let (system, messages) = content::asked(&request.messages);
            self.span.record(names::SYSTEM, system);
            self.span.record(names::INPUT_MESSAGES, messages);
        }
    }

    /// Records the arguments of a tool call.
    pub(crate) fn called(&self, arguments: &Value, telling: Telling) {
        if telling.content && !self.span.is_disabled() {
            self.span.record(names::TOOL_ARGUMENTS, content::value(arguments));
        }
    }

    /// Records the outcome and ends the span.
    pub(crate) fn ended(mut self, outcome: &Outcome, telling: Telling) {
        self.is_over = true;
        if self.span.is_disabled() {
            return;
        }
        let span = &self.span;
        let used = match outcome {
            Outcome::Reply(reply) => Some(reply.usage),
            Outcome::ModelFailed { used, .. } | Outcome::Stopped { used, .. } => *used,
            _ => None,
        };
        span.record(names::INPUT_TOKENS, used.map(|used| used.prompt_tokens));
        span.record(names::OUTPUT_TOKENS, used.map(|used| used.completion_tokens));
        match outcome {
            Outcome::Reply(reply) => {
                span.record(names::FINISH_REASONS, names::finish(reply.finish));
                if telling.content {
                    span.record(names::OUTPUT_MESSAGES, content::answered(reply));
                }
            }
            Outcome::Tool(ran) if telling.content => {
                span.record(names::TOOL_RESULT, content::value(&ran.result));
            }
            Outcome::TooLong { .. } => {
                span.record(names::OUTCOME, "too_long");
            }
            _ => {}
        }
        span.record(names::ERROR_TYPE, error_type(outcome));
    }
}

impl Drop for CallSpan {
    fn drop(&mut self) {
        if !self.is_over {
            self.span.record(names::ERROR_TYPE, names::INTERRUPTED);
        }
    }
}

/// The kind of failure of an outcome, if it is one.
fn error_type(outcome: &Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Tool(ran) if ran.status != Closing::Ok => Some(names::closing(ran.status)),
        Outcome::Reply(_) | Outcome::Tool(_) | Outcome::TooLong { .. } => None,
        Outcome::ModelFailed { fault, .. } => Some(fault.code.as_str()),
        Outcome::Stopped { .. } => Some("stopped"),
        Outcome::Expired => Some("expired"),
        Outcome::Unknown => Some("unknown"),
    }
}

/// Splits `provider/name`. A name without a provider stands for both.
pub(crate) fn parts(model: &str) -> (&str, &str) {
    model.split_once('/').unwrap_or((model, model))
}

#[cfg(test)]
mod tests;
