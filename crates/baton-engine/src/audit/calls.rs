//! The audit rows of a run's tool calls that have effects: derived from stored steps, without I/O.
//!
//! A row is made where a call was closed, for any reason. Its arguments are those that ran, or were asked for if
//! nothing ran, without secrets and up to [`MOST_ARGUMENTS`] bytes; the digest is that of all of them.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::effect::EffectKind;
use baton_core::event::Event;
use baton_core::json::{call_digest, cut};
use baton_core::run::Definition;
use baton_core::thread::Closing;
use baton_core::time::Timestamp;
use baton_core::tool::{EffectClass, ToolSpec};
use baton_store::{AuditEvent, Intent, RunRow, StepRow};
use serde_json::{Value, json};

use super::correlation_of;
use crate::request::Execute;
use crate::settings::Audit;
use crate::spans::trace_id_of;

/// The longest arguments of a call, as JSON, that are recorded whole.
const MOST_ARGUMENTS: usize = 4 << 10;
/// The event's name.
const KIND: &str = "tool.called";

/// Whether calls of a definition's tools may have effects.
pub(crate) fn may_have_effects(definition: &Definition) -> bool {
    definition.tools.iter().any(|tool| has_effects(tool.class))
}

/// Whether a call of this class leaves a row.
pub(crate) fn has_effects(class: EffectClass) -> bool {
    class != EffectClass::SideEffectFree
}

/// Calls of a run, step by step from the first.
pub(crate) struct CallTrail<'a> {
    tools: &'a [ToolSpec],
    open: BTreeMap<String, OpenCall>,
    closed: Vec<ClosedCall>,
}

/// A call that is requested, awaiting approval or under way.
#[derive(Debug, Default)]
struct OpenCall {
    name: String,
    arguments: Value,
    class: Option<EffectClass>,
    /// The started tries, by the numbers of the flow and of the engine.
    starts: BTreeSet<(u32, u32)>,
    /// Its last approval request.
    approval: Option<String>,
}

/// A call with effects that was closed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClosedCall {
    /// The step that closed it.
    pub(crate) step: u32,
    at: Timestamp,
    call_id: String,
    name: String,
    class: EffectClass,
    arguments: Value,
    outcome: Closing,
    /// How often it was started.
    attempts: usize,
    approval: Option<String>,
}

impl<'a> CallTrail<'a> {
    /// The calls of a run whose definition has these tools; none for a definition that cannot be read.
    pub(crate) fn new(tools: &'a [ToolSpec]) -> Self {
        CallTrail { tools, open: BTreeMap::new(), closed: Vec::new() }
    }

    /// Takes in the next step.
    pub(crate) fn step(&mut self, step: &StepRow) {
        let point = &step.checkpoint;
        point.in_flight.iter().for_each(|intent| self.started(intent));
        for event in &point.events {
            self.event(event, step.step, point.at);
        }
    }

    /// The calls that were closed so far, in order.
    pub(crate) fn closed(self) -> Vec<ClosedCall> {
        self.closed
    }

    fn started(&mut self, intent: &Intent) {
        let EffectKind::Tool { call_id, name, class, again, .. } = &intent.effect.kind else { return };
        let call = self.open.entry(call_id.clone()).or_default();
        call.name.clone_from(name);
        call.class = Some(*class);
        call.starts.insert((*again, intent.attempt));
    }

    fn event(&mut self, event: &Event, step: u32, at: Timestamp) {
        match event {
            Event::ToolStart { name, args, call_id } => {
                let call = self.open.entry(call_id.clone()).or_default();
                (call.name, call.arguments) = (name.clone(), args.clone());
            }
            Event::ApprovalRequired { approval_id, call_id, name, args, .. } => {
                let call = self.open.entry(call_id.clone()).or_default();
                call.approval = Some(approval_id.clone());
                // The arguments of a call that ran are known already.
                if call.starts.is_empty() {
                    (call.name, call.arguments) = (name.clone(), args.clone());
                }
            }
            Event::ToolResult { call_id, status, .. } => self.close(call_id, *status, step, at),
            Event::Ended { .. } => {
                let started =
                    |(id, call): (&String, &OpenCall)| (!call.starts.is_empty()).then(|| id.clone());
                for id in self.open.iter().filter_map(started).collect::<Vec<_>>() {
                    self.close(&id, Closing::Unknown, step, at);
                }
            }
            _ => {}
        }
    }

    fn close(&mut self, call_id: &str, outcome: Closing, step: u32, at: Timestamp) {
        let Some(OpenCall { name, arguments, class, starts, approval }) = self.open.remove(call_id) else {
            return;
        };
        let declared = || self.tools.iter().find(|tool| tool.name == name).map(|tool| tool.class);
        let Some(class) = class.or_else(declared).filter(|class| has_effects(*class)) else { return };
        let (call_id, attempts) = (call_id.to_owned(), starts.len());
        self.closed.push(ClosedCall {
            step,
            at,
            call_id,
            name,
            class,
            arguments,
            outcome,
            attempts,
            approval,
        });
    }
}

/// The row of a run's call.
pub(crate) fn called(audit: &Audit, row: &RunRow, call: &ClosedCall) -> AuditEvent {
    let mut payload = json!({
        "run_id": row.id, "thread_id": row.thread, "trace_id": trace_id_of(row), "at": call.at,
        "call_id": call.call_id, "name": call.name, "class": call.class,
        "digest": call_digest(&call.name, &call.arguments), "arguments": shown(audit, &call.arguments),
        "outcome": call.outcome, "attempts": call.attempts,
    });
    if let Some(approval) = &call.approval {
        payload["approval_id"] = json!(approval);
    }
    audit.event(call.at, KIND, correlation_of(row), payload)
}

/// The row of a call outside of any run: written before the call is made, and again with its outcome.
pub(crate) fn executed(
    audit: &Audit,
    call: &Execute,
    call_id: &str,
    class: EffectClass,
    outcome: Option<Closing>,
    at: Timestamp,
) -> AuditEvent {
    let outcome = outcome.map_or_else(|| json!("started"), |outcome| json!(outcome));
    let payload = json!({
        "at": at, "call_id": call_id, "name": call.name, "class": class, "by": call.by,
        "digest": call_digest(&call.name, &call.arguments), "arguments": shown(audit, &call.arguments),
        "outcome": outcome,
    });
    audit.event(at, KIND, call_id.to_owned(), payload)
}

/// Arguments without secrets, and the beginning of them as text where they are long.
fn shown(audit: &Audit, arguments: &Value) -> Value {
    let shown = audit.secrets.redact(arguments);
    let text = shown.to_string();
    if text.len() <= MOST_ARGUMENTS {
        shown
    } else {
        Value::String(format!("{}…", cut(&text, MOST_ARGUMENTS)))
    }
}

#[cfg(test)]
mod tests;
