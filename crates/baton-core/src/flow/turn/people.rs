//! Waits for users: a question, a decision about a call, and the question whether a call happened.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Turn;
use super::closing::Close;
use super::state::{OpenCall, Stage};
use crate::effect::Admission;
use crate::event::Event;
use crate::flow::{Node, Record};
use crate::json::{as_text, call_digest, cut_encoded};
use crate::policy::{CallRule, UntrustedEgress};
use crate::run::{Approval, ApprovalKind, ApprovalStatus, Choice, DECISION};
use crate::thread::entry::{Custom, UserResponse, Waiting};
use crate::thread::{Closing, Entry, WaitingKind};
use crate::time::Timestamp;
use crate::tool::EffectClass;

const TOO_MANY_QUESTIONS: &str = "too many questions are open already; ask fewer at once";
/// The most bytes of one question as it is stored, and of all open ones together: a state is at most 64 KiB.
const QUESTION_BYTES: usize = 4 << 10;
const QUESTIONS_BYTES: usize = 12 << 10;

struct Question<'a> {
    id: &'a str,
    kind: ApprovalKind,
    args: Value,
    reason: String,
}

impl Turn {
    pub(super) fn ask_person(
        &mut self,
        mut open: OpenCall,
        arguments: &Value,
        at: Timestamp,
        record: &mut Record,
    ) {
        let question = arguments.get("question").map(as_text).unwrap_or_default();
        let question = cut_encoded(&question, QUESTION_BYTES).to_owned();
        if self.questions_bytes() + Value::from(question.as_str()).to_string().len() > QUESTIONS_BYTES {
            return self.close(open, Close::saying(Closing::Error, TOO_MANY_QUESTIONS), record);
        }
        let deadline = at.plus_ms(self.setting.definition.decision.patience_ms);
        record.append(waiting(WaitingKind::UserInput, deadline, &open.call_id));
        open.stage = Stage::Question { n: self.state.number(), question, deadline };
        self.state.calls.push(open);
    }

    /// The bytes that open questions take in the state.
    fn questions_bytes(&self) -> usize {
        let length = |call: &OpenCall| match &call.stage {
            Stage::Question { question, .. } => Value::from(question.as_str()).to_string().len(),
            _ => 0,
        };
        self.state.calls.iter().map(length).sum()
    }

    /// Why a call needs approval before it runs; none if it needs none.
    pub(super) fn reason_to_ask(&self, tool: &str, rule: CallRule, admission: &Admission) -> Option<String> {
        let decision = &self.setting.definition.decision;
        if self.spec(tool).is_some_and(|spec| spec.trust.approve) {
            return Some(format!("[tools.{tool}] asks before it runs"));
        }
        if rule == CallRule::NeedsApproval {
            return Some(format!("rule {:?} asks before {tool} runs", decision.rule));
        }
        if decision.untrusted_egress == UntrustedEgress::Allow {
            return None;
        }
        let says_anything = matches!(admission, Admission::Fits { egress: true, .. });
        if let Some(entry) = self.state.untrusted.filter(|_| says_anything) {
            return Some(beside("untrusted content is", entry, tool));
        }
        // The words of a search, and the choice among the found addresses, can carry data out, too.
        let sends = says_anything || self.spec(tool).is_some_and(|spec| spec.trust.sends_out());
        self.state.private.filter(|_| sends).map(|entry| beside("private data is", entry, tool))
    }

    pub(super) fn ask_approval(
        &mut self,
        mut open: OpenCall,
        args: Value,
        reason: String,
        at: Timestamp,
        record: &mut Record,
    ) {
        // A call that was open where a run was forked keeps its id; its new approval gets an id of its own.
        let id = format!("ap-{}", self.call_id(open.n));
        let (n, deadline) =
            self.ask_about(&open, Question { id: &id, kind: ApprovalKind::Call, args, reason }, at, record);
        open.stage = Stage::Asked { n, approval_id: id, deadline };
        self.state.calls.push(open);
    }

    /// Continues the turn as another run: every open question and call is asked about again, and earlier answers
    /// or starts do not count.
    pub(in crate::flow) fn forked(
        &mut self,
        arguments: &BTreeMap<i64, Value>,
        at: Timestamp,
        record: &mut Record,
    ) {
        for mut open in std::mem::take(&mut self.state.calls) {
            if let Stage::Question { question, .. } = open.stage {
                let deadline = at.plus_ms(self.setting.definition.decision.patience_ms);
                record.append(waiting(WaitingKind::UserInput, deadline, &open.call_id));
                open.stage = Stage::Question { n: self.state.number(), question, deadline };
                self.state.calls.push(open);
                continue;
            }
            let args = arguments.get(&open.entry).cloned().unwrap_or_default();
            let reason = format!("{} was open at the step that this run was forked from", open.name);
            self.ask_approval(open, args, reason, at, record);
        }
    }

    /// Asks a user whether a call happened whose outcome is not known.
    pub(super) fn ask_outcome(&mut self, mut open: OpenCall, at: Timestamp, record: &mut Record) {
        let id = format!("ou-{}-{}", open.call_id, open.again);
        let reason = format!("{} was interrupted, and nobody knows whether it took effect", open.name);
        let edited_by = match &open.stage {
            Stage::Ready { edited_by } => edited_by.clone(),
            _ => None,
        };
        let question = Question { id: &id, kind: ApprovalKind::Outcome, args: Value::Null, reason };
        let (n, deadline) = self.ask_about(&open, question, at, record);
        open.stage = Stage::Outcome { n, approval_id: id, deadline, edited_by };
        self.state.calls.push(open);
    }

    /// Asks a user about a call; returns the number of the wait and its deadline.
    fn ask_about(
        &mut self,
        open: &OpenCall,
        question: Question<'_>,
        at: Timestamp,
        record: &mut Record,
    ) -> (u32, Timestamp) {
        let expires_at = at.plus_ms(self.setting.definition.decision.patience_ms);
        record.append(waiting(WaitingKind::Approval, expires_at, &open.call_id));
        let digest = call_digest(&open.name, &question.args);
        record.emit(Event::ApprovalRequired {
            approval_id: question.id.to_owned(),
            call_id: open.call_id.clone(),
            name: open.name.clone(),
            args: question.args.clone(),
            digest: digest.clone(),
            reason: question.reason.clone(),
            expires_at,
        });
        record.asked.push(Approval {
            id: question.id.to_owned(),
            run_id: self.setting.run,
            call_id: open.call_id.clone(),
            kind: question.kind,
            name: open.name.clone(),
            digest,
            args: question.args,
            reason: question.reason,
            created: at,
            expires_at,
            status: ApprovalStatus::Pending,
            by: None,
            at: None,
            original_args: None,
            decision_reason: None,
        });
        (self.state.number(), expires_at)
    }

    /// Applies a decision from the inbox. A decision about a call that no longer waits for one changes nothing.
    pub(super) fn decided(
        &mut self,
        approval_id: &str,
        choice: Choice,
        arguments: Option<Value>,
        reason: Option<String>,
        record: &mut Record,
    ) {
        record.node = Node::ToolCall;
        let asked = |call: &OpenCall| match &call.stage {
            Stage::Asked { approval_id: id, .. } | Stage::Outcome { approval_id: id, .. } => {
                id == approval_id
            }
            _ => false,
        };
        let Some(at) = self.state.calls.iter().position(asked) else { return };
        if let Stage::Outcome { edited_by, .. } = self.state.calls[at].stage.clone() {
            return self.outcome_decided(at, choice, arguments, edited_by, record);
        }
        if choice == Choice::Deny {
            let call = self.state.calls.remove(at);
            let why = reason.unwrap_or_else(|| "a person said no".to_owned());
            return self.close(call, Close::saying(Closing::Denied, why), record);
        }
        let said = remark(&self.state.calls[at].call_id, choice, arguments.as_ref(), reason);
        said.into_iter().for_each(|said| {
            record.append(said);
        });
        let call = &mut self.state.calls[at];
        if choice == Choice::Edit {
            call.class = EffectClass::Unsafe; // the class was declared for other arguments
        }
        call.stage = Stage::Ready { edited_by: (choice == Choice::Edit).then(|| approval_id.to_owned()) };
        let (name, call_id) = (call.name.clone(), call.call_id.clone());
        record.emit(Event::ToolStart { name, args: arguments.unwrap_or_default(), call_id });
    }

    /// Applies a user's decision about an unknown outcome: the call runs again, gets the stated outcome, or stays
    /// unknown.
    fn outcome_decided(
        &mut self,
        at: usize,
        choice: Choice,
        found: Option<Value>,
        edited_by: Option<String>,
        record: &mut Record,
    ) {
        if choice == Choice::Approve {
            let call = &mut self.state.calls[at];
            call.again += 1;
            call.stage = Stage::Ready { edited_by };
            return;
        }
        let call = self.state.calls.remove(at);
        match found.as_ref().and_then(|found| found.get("output")) {
            Some(output) if choice == Choice::Edit => {
                self.state.receipt.finished.push((call.n, call.name.clone()));
                let close = Close { result: output.clone(), ..Close::saying(Closing::Ok, "").after_start() };
                self.close(call, close, record);
            }
            _ => self.close_unknown(call, record),
        }
    }

    /// Gives an answer from the inbox to the oldest question; false if there is none.
    pub(super) fn answer_question(&mut self, text: &str, record: &mut Record) -> bool {
        let asks = |call: &OpenCall| matches!(call.stage, Stage::Question { .. });
        let Some(at) = self.state.calls.iter().position(asks) else { return false };
        let call = self.state.calls.remove(at);
        record.node = Node::ToolCall;
        record.append(Entry::UserResponse(UserResponse { text: text.to_owned() }));
        self.close(call, Close::saying(Closing::Ok, text), record);
        true
    }
}

/// Why a call needs approval because of an entry on the branch.
fn beside(what: &str, entry: i64, tool: &str) -> String {
    format!("{what} in this conversation (entry {entry}), and {tool} sends something out")
}

fn waiting(kind: WaitingKind, deadline: Timestamp, call_id: &str) -> Entry {
    Entry::Waiting(Waiting { kind, deadline: deadline.as_seconds(), correlation_id: call_id.to_owned() })
}

/// The entry with a user's remarks on a decision, for readers of the thread and for the model.
fn remark(call_id: &str, choice: Choice, arguments: Option<&Value>, reason: Option<String>) -> Option<Entry> {
    let edited = arguments.filter(|_| choice == Choice::Edit);
    if edited.is_none() && reason.is_none() {
        return None;
    }
    let said = [
        ("call_id", Some(Value::from(call_id))),
        ("arguments", edited.cloned()),
        ("reason", reason.map(Value::from)),
    ];
    let data = said.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    Some(Entry::Custom(Custom { t: DECISION.to_owned(), v: 1, data }))
}
