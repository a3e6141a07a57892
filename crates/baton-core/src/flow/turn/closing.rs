//! Closing of calls: their result, their event, their line in the account, and the consequences of a failure.

use serde_json::Value;

use super::state::{OpenCall, Stage};
use super::{SAME_FAILURES, Turn};
use crate::effect::BlobRef;
use crate::event::Event;
use crate::fault::Code;
use crate::flow::{Node, Record};
use crate::json::{as_text, cut};
use crate::run::{ApprovalStatus, PLAN, StepKind};
use crate::thread::entry::{Custom, ToolResult};
use crate::thread::{Closing, Entry};
use crate::tool::{Cause, UPDATE_PLAN};

/// The status of a closed call, and the result that the model gets.
pub(super) struct Close {
    pub(super) status: Closing,
    pub(super) result: Value,
    pub(super) blob: Option<BlobRef>,
    pub(super) cause: Option<Cause>,
    /// Whether it had started.
    pub(super) ran: bool,
    /// Whether the result is untrusted.
    pub(super) untrusted: bool,
    /// Whether the result is private.
    pub(super) private: bool,
}

impl Close {
    pub(super) fn saying(status: Closing, why: impl Into<String>) -> Self {
        let result = Value::String(why.into());
        Close { status, result, blob: None, cause: None, ran: false, untrusted: false, private: false }
    }

    /// The same of a call that had started.
    pub(super) fn after_start(self) -> Self {
        Close { ran: true, ..self }
    }
}

const NOT_TRIED_AGAIN: &str = "it did not work, and the second try was not made";
pub(super) const UNKNOWN: &str =
    "it was interrupted, and nobody knows whether it took effect; check before you call it again";

impl Turn {
    /// Whether a tool returns untrusted content, by the definition that the run is pinned to.
    pub(super) fn is_strangers(&self, tool: &str) -> bool {
        self.spec(tool).is_some_and(|spec| spec.trust.untrusted_output)
    }

    /// Whether a tool returns private data, by the definition that the run is pinned to.
    pub(super) fn is_private(&self, tool: &str) -> bool {
        self.spec(tool).is_some_and(|spec| spec.trust.private_output)
    }

    /// Closes a call whose outcome is not known; the model gets this as its result.
    pub(super) fn close_unknown(&mut self, call: OpenCall, record: &mut Record) {
        self.state.receipt.unknown.push((call.n, call.name.clone()));
        self.close(call, Close::saying(Closing::Unknown, UNKNOWN).after_start(), record);
    }

    pub(super) fn account_for_call<const N: usize>(
        &self,
        call: &OpenCall,
        ran: bool,
        error: Option<&str>,
        more: [(&'static str, Value); N],
        record: &mut Record,
    ) {
        let metadata = [
            ("span_id", if ran { self.span_of(call.n, call.again) } else { Value::Null }),
            ("tool_name", Value::from(call.name.clone())),
            ("call_id", Value::from(call.call_id.clone())),
            ("error", error.map_or(Value::Null, |error| Value::from(cut(error, 500)))),
            ("reason", call.rule.clone().map_or(Value::Null, Value::from)),
        ];
        let how = if error.is_some() { "did not work" } else { "worked" };
        let metadata = metadata.into_iter().chain(more);
        record.account(StepKind::ToolCall, format!("{} {how}", call.name), metadata);
    }

    /// Closes a call: its result, its event, its line in the account; and counts its failures.
    pub(super) fn close(&mut self, call: OpenCall, close: Close, record: &mut Record) {
        let Close { status, result, blob, cause, ran, untrusted, private } = close;
        let text = as_text(&result);
        let error = (status != Closing::Ok).then_some(text.as_str());
        self.account_for_call(&call, ran, error, [], record);
        let plan = (call.name == UPDATE_PLAN && status == Closing::Ok).then(|| result.clone());
        let entry = record.append(Entry::ToolResult(ToolResult {
            tool_call_id: call.call_id.clone(),
            tool_name: call.name.clone(),
            result,
            status,
            reward: None,
            blob: blob.clone(),
            untrusted,
            private,
            cause,
        }));
        if untrusted {
            self.state.untrusted.get_or_insert(entry);
        }
        if private {
            self.state.private.get_or_insert(entry);
        }
        record.emit(Event::ToolResult {
            name: call.name.clone(),
            result: text,
            call_id: call.call_id.clone(),
            status,
            blob,
        });
        if let Some(plan) = plan {
            self.keep_plan(&call, plan, record);
        }
        if status == Closing::Error {
            let failures = self.state.failures.entry(call.digest).or_default();
            *failures += 1;
            if *failures >= SAME_FAILURES {
                let why = format!("the same call of {} failed {SAME_FAILURES} times", call.name);
                self.make_last(Code::NoProgress, why, record);
            }
        }
    }

    /// Stores a new or changed plan as an entry, and adds it to the account.
    fn keep_plan(&self, call: &OpenCall, plan: Value, record: &mut Record) {
        let steps = plan.get("plan").and_then(Value::as_array).map_or(0, Vec::len);
        let metadata = [
            ("span_id", self.span_of(call.n, call.again)),
            ("tool_name", Value::from(call.name.clone())),
            ("call_id", Value::from(call.call_id.clone())),
        ];
        record.account(StepKind::Plan, format!("the plan has {steps} steps"), metadata);
        let data =
            serde_json::Map::from_iter([("plan".to_owned(), plan.get("plan").cloned().unwrap_or_default())]);
        record.append(Entry::Custom(Custom { t: PLAN.to_owned(), v: 1, data }));
    }

    /// Closes a call that the budget does not cover, and makes the next answer the last one.
    pub(super) fn over_calls(&mut self, n: u32, record: &mut Record) {
        record.node = Node::ToolCall;
        let Some(at) = self.state.calls.iter().position(|call| call.n == n) else { return };
        let call = self.state.calls.remove(at);
        let why = format!("{} was reached", crate::budget::Limit::ToolCalls.in_words());
        let is_retry = call.again > 0;
        self.close_unrun(call, Close::saying(Closing::Cancelled, why.clone()), record);
        if !is_retry {
            self.make_last(Code::BudgetExceeded, why, record);
        }
    }

    /// Closes the calls that have not started, because the turn ends.
    pub(super) fn close_unstarted(&mut self, in_flight: &[u32], record: &mut Record) {
        let started =
            |call: &OpenCall| matches!(call.stage, Stage::Ready { .. }) && in_flight.contains(&call.n);
        let (keep, close): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.state.calls).into_iter().partition(started);
        self.state.calls = keep;
        for call in close {
            if let Stage::Asked { approval_id, .. } | Stage::Outcome { approval_id, .. } = &call.stage {
                record.settled.push((approval_id.clone(), ApprovalStatus::Cancelled));
            }
            if let Stage::Outcome { .. } = &call.stage {
                self.close_unknown(call, record);
                continue;
            }
            let close = Close::saying(Closing::Cancelled, "it was cancelled before it started");
            self.close_unrun(call, close, record);
        }
    }

    /// Closes a call that does not run, or not again; the result of its last run is then kept.
    pub(super) fn close_unrun(&mut self, mut call: OpenCall, close: Close, record: &mut Record) {
        if call.again == 0 {
            self.state.receipt.not_started.push((call.n, call.name.clone()));
            return self.close(call, close, record);
        }
        call.again -= 1; // the try that was made last
        if call.class.may_run_again() {
            self.state.receipt.finished.push((call.n, call.name.clone()));
            let counted = self.state.failures.get_mut(&call.digest);
            counted.into_iter().for_each(|count| *count = count.saturating_sub(1));
            // The message of the failure is the tool's own text, with the tool's trust.
            let untrusted = call.failed.is_some() && self.is_strangers(&call.name);
            let private = call.failed.is_some() && self.is_private(&call.name);
            let why = call.failed.clone().unwrap_or_else(|| NOT_TRIED_AGAIN.to_owned());
            let close = Close { untrusted, private, ..Close::saying(Closing::Error, why).after_start() };
            self.close(call, close, record);
        } else {
            self.close_unknown(call, record);
        }
    }
}
