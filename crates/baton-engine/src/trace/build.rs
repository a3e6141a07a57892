//! Builds the tree, transition by transition. Without I/O.

use std::collections::BTreeSet;

use baton_core::effect::EffectKind;
use baton_core::event::Event;
use baton_core::flow::WaitingOn;
use baton_core::id::{EffectId, FramePath};
use baton_core::run::{Definition, RunStatus, Step};
use baton_core::thread::{Closing, WaitingKind};
use baton_core::time::Timestamp;
use baton_core::trace::short_hash;
use baton_store::{Intent, RunRow, StepRow};
use serde_json::{Map, Value};

use super::{Trace, TraceSpan};
use crate::spans::{names, parent_of, parts, trace_id_of};

/// The state of a run when it is read.
pub(super) struct Standing {
    pub(super) status: RunStatus,
    /// Whether a living process holds it.
    pub(super) is_held: bool,
}

/// A tree under construction.
pub(super) struct Build<'a> {
    row: &'a RunRow,
    definition: &'a Definition,
    /// Claims and waits, in the order in which they came.
    top: Vec<Top>,
    /// Calls, each with the epoch that it began in.
    calls: Vec<(u32, Call)>,
    seen: BTreeSet<Start>,
}

enum Top {
    /// A claim: its number, and the times of its first and last transition.
    Claim { epoch: u32, first: Timestamp, last: Timestamp, is_waiting: bool, error: Option<&'static str> },
    /// A wait for a user.
    Wait { on: WaitingOn, start: Timestamp, end: Option<Timestamp> },
}

/// Identifies one start of an effect: the effect's number, the flow's try, and the attempt, which a crash increases.
type Start = (u32, u32, u32);

fn start_of(intent: &Intent) -> Start {
    (intent.effect.n, intent.effect.kind.again(), intent.attempt)
}

struct Call {
    start: Start,
    is_open: bool,
    span: TraceSpan,
}

impl<'a> Build<'a> {
    pub(super) fn new(row: &'a RunRow, definition: &'a Definition) -> Self {
        Build { row, definition, top: Vec::new(), calls: Vec::new(), seen: BTreeSet::new() }
    }

    /// Adds the next transition.
    pub(super) fn step(&mut self, step: &StepRow) {
        let (at, point) = (step.checkpoint.at, &step.checkpoint);
        self.claim(step.epoch, at);
        self.wait(&point.waiting, at);
        let flying = |call: &Call| point.in_flight.iter().any(|intent| start_of(intent) == call.start);
        for (_, call) in self.calls.iter_mut().filter(|(_, call)| call.is_open && !flying(call)) {
            call.is_open = false;
            call.span.end = Some(at);
        }
        for intent in &point.in_flight {
            let start = start_of(intent);
            if self.seen.insert(start)
                && let Some(span) = self.begun(step.epoch, intent, at)
            {
                self.calls.push((step.epoch, Call { start, is_open: true, span }));
            }
        }
        point.account.iter().for_each(|said| self.said(said));
        point.events.iter().for_each(|event| self.happened(event));
        let rests = point.in_flight.is_empty() && !point.waiting.is_empty();
        if let Some(Top::Claim { last, is_waiting, .. }) = self.current() {
            (*last, *is_waiting) = (at, rests);
        }
    }

    /// Adds a claim that may have committed nothing.
    pub(super) fn claimed(&mut self, epoch: u32) {
        let is_there = |top: &Top| matches!(top, Top::Claim { epoch: there, .. } if *there == epoch);
        if self.top.iter().any(is_there) {
            return;
        }
        // Its time is not stored: not before the last transition of the claim before it.
        let before =
            self.top.iter().rposition(|top| matches!(top, Top::Claim { epoch: e, .. } if *e < epoch));
        let at = match before.map(|before| &self.top[before]) {
            Some(Top::Claim { last, .. }) => *last,
            _ => self.row.created,
        };
        let place = before.map_or(0, |before| before + 1);
        self.top.insert(place, Top::Claim { epoch, first: at, last: at, is_waiting: false, error: None });
    }

    fn current(&mut self) -> Option<&mut Top> {
        self.top.iter_mut().rfind(|top| matches!(top, Top::Claim { .. }))
    }

    /// Adds a claim with its first transition. Calls that the claim before left in flight are known to be interrupted.
    fn claim(&mut self, epoch: u32, at: Timestamp) {
        let last = match self.current() {
            Some(Top::Claim { epoch: current, .. }) if *current == epoch => return,
            Some(Top::Claim { last, .. }) => *last,
            _ => at,
        };
        self.interrupt(last);
        let first = if self.top.is_empty() { self.row.created.min(at) } else { at };
        self.top.push(Top::Claim { epoch, first, last: at, is_waiting: false, error: None });
    }

    fn interrupt(&mut self, at: Timestamp) {
        for (_, call) in self.calls.iter_mut().filter(|(_, call)| call.is_open) {
            call.is_open = false;
            call.span.end = Some(at.max(call.span.start));
            call.span.attributes.insert(names::ERROR_TYPE.to_owned(), names::INTERRUPTED.into());
        }
    }

    fn wait(&mut self, waiting: &[WaitingOn], at: Timestamp) {
        let mut news: Vec<&WaitingOn> = waiting.iter().collect();
        for top in &mut self.top {
            if let Top::Wait { on, end: end @ None, .. } = top {
                news.retain(|waiting| waiting.id != on.id);
                if !waiting.iter().any(|waiting| waiting.id == on.id) {
                    *end = Some(at);
                }
            }
        }
        self.top.extend(news.into_iter().map(|on| Top::Wait { on: on.clone(), start: at, end: None }));
    }

    fn begun(&self, epoch: u32, intent: &Intent, at: Timestamp) -> Option<TraceSpan> {
        let effect = EffectId { run: self.row.id, path: FramePath::root(), n: intent.effect.n };
        let (name, kind, mut known) = match &intent.effect.kind {
            EffectKind::Wait { .. } => return None,
            EffectKind::Tool { call_id, name, .. } => (
                format!("execute_tool {name}"),
                names::INTERNAL,
                vec![
                    (names::OPERATION, Value::from("execute_tool")),
                    (names::TOOL_NAME, name.clone().into()),
                    (names::TOOL_CALL_ID, call_id.clone().into()),
                    (names::TOOL_TYPE, "function".into()),
                ],
            ),
            EffectKind::Model { role, rung, .. } => {
                let ladder = self.definition.ladder(role);
                let asked = ladder.get(*rung as usize).or(ladder.first());
                let (provider, model) = asked.map_or(("", ""), |rung| parts(&rung.candidate.model));
                let role = asked.map_or(role.as_str(), |rung| rung.role);
                let known = vec![
                    (names::OPERATION, Value::from("chat")),
                    (names::PROVIDER, provider.into()),
                    (names::REQUEST_MODEL, model.into()),
                    (names::ROLE, role.into()),
                ];
                (format!("chat {model}"), names::CLIENT, known)
            }
        };
        known.push((names::ATTEMPT, intent.attempt.into()));
        Some(TraceSpan {
            span_id: effect.span_id_of(intent.effect.kind.again()),
            parent_span_id: Some(self.row.id.span_id(epoch)),
            name,
            kind,
            start: at,
            end: None,
            attributes: map(known),
            children: Vec::new(),
        })
    }

    /// Adds the account's data about a call: its line stands in the transition that ends the call, or in a later one.
    fn said(&mut self, step: &Step) {
        let Some(id) = step.metadata.get("span_id").and_then(Value::as_str) else { return };
        let Some((_, call)) = self.calls.iter_mut().rfind(|(_, call)| call.span.span_id == id) else {
            return;
        };
        let attributes = &mut call.span.attributes;
        let usage = step.metadata.get("usage");
        let used = |name: &str| usage.and_then(|usage| usage.get(name)).filter(|n| n.is_u64()).cloned();
        for (name, key) in
            [(names::INPUT_TOKENS, "prompt_tokens"), (names::OUTPUT_TOKENS, "completion_tokens")]
        {
            attributes.extend(used(key).map(|tokens| (name.to_owned(), tokens)));
        }
        // For a tool the account has the message; the kind of failure is in the log, unless it was tried again.
        let is_model = attributes.contains_key(names::REQUEST_MODEL);
        let is_retried = step.metadata.get("reason").is_some_and(|reason| reason == "retry");
        let kind = match step.metadata.get("error") {
            Some(code) if is_model && code.is_string() => code.clone(),
            Some(_) if !is_model && is_retried => names::closing(Closing::Error).into(),
            _ => return,
        };
        attributes.insert(names::ERROR_TYPE.to_owned(), kind);
    }

    fn happened(&mut self, event: &Event) {
        match event {
            Event::ToolResult { call_id, status, .. } if *status != Closing::Ok => {
                self.closed(call_id, *status);
            }
            // An approval for a call that ran already only asks whether it did.
            Event::ApprovalRequired { call_id, .. } => self.closed(call_id, Closing::Unknown),
            Event::Ended { error: Some(fault), .. } => {
                if let Some(Top::Claim { error, .. }) = self.current() {
                    *error = Some(fault.code.as_str());
                }
            }
            _ => {}
        }
    }

    /// Records how the last try of a call ended, if there was one.
    fn closed(&mut self, call_id: &str, status: Closing) {
        let is_it = |call: &Call| {
            call.span.attributes.get(names::TOOL_CALL_ID).and_then(Value::as_str) == Some(call_id)
        };
        if let Some((_, call)) = self.calls.iter_mut().rfind(|(_, call)| is_it(call)) {
            call.span.attributes.insert(names::ERROR_TYPE.to_owned(), names::closing(status).into());
        }
    }

    /// Finishes the tree.
    pub(super) fn finish(mut self, standing: Standing) -> Trace {
        let goes_on = standing.status == RunStatus::Running && standing.is_held;
        let newest = self.current().map(|top| match top {
            Top::Claim { epoch, last, .. } => (*epoch, *last),
            Top::Wait { start, .. } => (0, *start),
        });
        if let Some((_, last)) = newest.filter(|_| !goes_on) {
            self.interrupt(last);
        }
        let newest = newest.map_or(0, |(epoch, _)| epoch);
        let (trace_id, parent) = (trace_id_of(self.row), parent_of(self.row).map(|parent| parent.span_id));
        let mut spans = Vec::new();
        for top in std::mem::take(&mut self.top) {
            spans.push(match top {
                Top::Wait { on, start, end } => {
                    let end = end.or(standing.status.has_ended().then_some(start));
                    waited(self.row, on, start, end)
                }
                Top::Claim { epoch, first, last, is_waiting, error } => {
                    let status = match epoch == newest {
                        true if standing.status != RunStatus::Running || goes_on => standing.status.as_str(),
                        false if is_waiting => RunStatus::Suspended.as_str(),
                        _ => names::INTERRUPTED,
                    };
                    let end = (epoch != newest || !goes_on).then_some(last);
                    self.driven(epoch, parent.clone(), (first, end), status, error)
                }
            });
        }
        Trace { trace_id, spans }
    }

    fn driven(
        &mut self,
        epoch: u32,
        parent: Option<String>,
        (start, end): (Timestamp, Option<Timestamp>),
        status: &str,
        error: Option<&'static str>,
    ) -> TraceSpan {
        let known = [
            (names::OPERATION, Value::from("invoke_agent")),
            (names::AGENT, names::AGENT_NAME.into()),
            (names::CONVERSATION, self.row.thread.to_string().into()),
            (names::RUN_ID, self.row.id.to_string().into()),
            (names::EPOCH, epoch.into()),
            (names::MODE, self.definition.mode.as_str().into()),
            (names::CHANNEL, self.definition.channel.clone().into()),
            (names::STATUS, status.into()),
        ];
        let mut attributes = map(known);
        attributes.extend(error.map(|code| (names::ERROR_TYPE.to_owned(), Value::from(code))));
        let ours = |(there, _): &mut (u32, Call)| *there == epoch;
        TraceSpan {
            span_id: self.row.id.span_id(epoch),
            parent_span_id: parent,
            name: names::RUN.to_owned(),
            kind: names::INTERNAL,
            start,
            end,
            attributes,
            children: self.calls.extract_if(.., ours).map(|(_, call)| call.span).collect(),
        }
    }
}

fn waited(row: &RunRow, on: WaitingOn, start: Timestamp, end: Option<Timestamp>) -> TraceSpan {
    let kind = match on.kind {
        WaitingKind::Approval => "approval",
        WaitingKind::UserInput => "user_input",
        _ => "other",
    };
    TraceSpan {
        span_id: short_hash(&format!("{}?{}", row.id, on.id)),
        parent_span_id: parent_of(row).map(|parent| parent.span_id),
        name: format!("wait {kind}"),
        kind: names::INTERNAL,
        start,
        end,
        attributes: map([(names::WAITING_FOR, Value::from(kind)), (names::WAITING_ID, on.id.into())]),
        children: Vec::new(),
    }
}

fn map(known: impl IntoIterator<Item = (&'static str, Value)>) -> Map<String, Value> {
    known.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
