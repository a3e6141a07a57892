//! The `tool_call` node: calls are taken up, asked about, run and closed.

use serde_json::Value;

use super::state::{OpenCall, Phase, Stage};
use super::{SAME_FAILURES, Turn};
use crate::chat::FinishReason;
use crate::effect::{Admission, BlobRef, CheckedCall, Outcome, Reply};
use crate::event::Event;
use crate::fault::Code;
use crate::flow::{Node, Record};
use crate::json::{as_text, call_digest, cut, cut_encoded};
use crate::policy::CallRule;
use crate::run::{Approval, ApprovalStatus, Choice, StepKind};
use crate::thread::entry::{AssistantMessage, SaidCall, ToolCall, ToolResult, UserResponse, Waiting};
use crate::thread::{Closing, Entry, WaitingKind};
use crate::time::Timestamp;
use crate::tool::{ASK_USER, EffectClass};

/// How a call was closed, and what the model is told.
struct Close {
    status: Closing,
    result: Value,
    blob: Option<BlobRef>,
}

impl Close {
    fn saying(status: Closing, why: impl Into<String>) -> Self {
        Close { status, result: Value::String(why.into()), blob: None }
    }
}

const CUT_OFF: &str =
    "the answer was cut off at the token limit, so this call was not run; ask for less at once";
const TOO_MANY_QUESTIONS: &str = "too many questions are open already; ask fewer at once";
/// How long one question may be as it is stored, and all open ones together: a state is at most 64 KiB.
const QUESTION_BYTES: usize = 4 << 10;
const QUESTIONS_BYTES: usize = 12 << 10;
const UNKNOWN: &str =
    "it was interrupted, and nobody knows whether it took effect; check before you call it again";

impl Turn {
    /// Writes a reply and its calls, and takes up each: refused, asked about, or ready.
    pub(super) fn take_up(&mut self, reply: Reply, at: Timestamp, record: &mut Record) {
        let cut_off = reply.finish == FinishReason::Length;
        let numbered: Vec<(u32, CheckedCall)> =
            reply.calls.into_iter().map(|call| (self.state.number(), call)).collect();
        let said = |(n, call): &(u32, CheckedCall)| SaidCall {
            id: self.call_id(*n),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        };
        let tool_calls = numbered.iter().map(said).collect();
        record.append(Entry::AssistantMessage(AssistantMessage {
            content: reply.text,
            tool_calls,
            meta: None,
            reasoning: reply.reasoning,
        }));
        let placed: Vec<(u32, i64, CheckedCall)> = numbered
            .into_iter()
            .map(|(n, call)| (n, record.append(self.call_entry(n, &call)), call))
            .collect();
        self.state.phase = Phase::Calling;
        let wanted = placed.len();
        for (n, entry, call) in placed {
            self.admit(n, entry, call, cut_off, at, record);
        }
        // Waiting for a person costs no round; whatever was not really asked does.
        let asks = |call: &&OpenCall| matches!(call.stage, Stage::Question { .. });
        if self.state.calls.iter().filter(asks).count() < wanted {
            self.state.rounds += 1;
        }
    }

    fn call_entry(&self, n: u32, call: &CheckedCall) -> Entry {
        Entry::ToolCall(ToolCall {
            id: self.call_id(n),
            function_name: call.name.clone(),
            arguments: call.arguments.clone(),
            provider_id: call.provider_id.clone(),
        })
    }

    fn admit(
        &mut self,
        n: u32,
        entry: i64,
        call: CheckedCall,
        cut_off: bool,
        at: Timestamp,
        record: &mut Record,
    ) {
        let CheckedCall { name, arguments, admission, .. } = call;
        let refusal = match &admission {
            _ if cut_off => Some(Close::saying(Closing::Error, CUT_OFF)),
            Admission::Refused { reason } => Some(Close::saying(Closing::Error, reason.clone())),
            Admission::Fits { .. } => None,
        };
        let class = match admission {
            Admission::Fits { class } => class,
            Admission::Refused { .. } => EffectClass::Unsafe,
        };
        let full_digest = call_digest(&name, &arguments);
        let mut open = OpenCall {
            n,
            call_id: self.call_id(n),
            digest: full_digest[..16].to_owned(),
            name,
            entry,
            class,
            stage: Stage::Ready { edited_by: None },
        };
        let args = arguments.clone();
        let rule = self.setting.definition.decision.call(&open.name);
        let (denied, why_denied) = self.setting.definition.decision.refusal(&open.name);
        let started = |open: &OpenCall| Event::ToolStart {
            name: open.name.clone(),
            args,
            call_id: open.call_id.clone(),
        };
        if let Some(close) = refusal {
            open.digest = call_digest(&open.name, &close.result)[..16].to_owned();
            record.emit(started(&open));
            self.close(open, close, record);
        } else if rule == CallRule::Denied {
            record.emit(started(&open));
            self.close(open, Close::saying(denied, why_denied), record);
        } else if open.name == ASK_USER {
            record.emit(started(&open));
            self.ask_person(open, &arguments, at, record);
        } else if rule == CallRule::NeedsApproval {
            self.ask_approval(open, arguments, full_digest, at, record);
        } else {
            record.emit(started(&open));
            self.state.calls.push(open);
        }
    }

    fn ask_person(&mut self, mut open: OpenCall, arguments: &Value, at: Timestamp, record: &mut Record) {
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

    /// How much of the state is questions.
    fn questions_bytes(&self) -> usize {
        let length = |call: &OpenCall| match &call.stage {
            Stage::Question { question, .. } => Value::from(question.as_str()).to_string().len(),
            _ => 0,
        };
        self.state.calls.iter().map(length).sum()
    }

    fn ask_approval(
        &mut self,
        mut open: OpenCall,
        args: Value,
        digest: String,
        at: Timestamp,
        record: &mut Record,
    ) {
        let decision = &self.setting.definition.decision;
        let expires_at = at.plus_ms(decision.patience_ms);
        let reason = format!("rule {:?} asks before {} runs", decision.rule, open.name);
        let approval_id = format!("ap-{}", open.call_id);
        record.append(waiting(WaitingKind::Approval, expires_at, &open.call_id));
        record.emit(Event::ApprovalRequired {
            approval_id: approval_id.clone(),
            call_id: open.call_id.clone(),
            name: open.name.clone(),
            args: args.clone(),
            digest: digest.clone(),
            reason: reason.clone(),
            expires_at,
        });
        record.asked.push(Approval {
            id: approval_id.clone(),
            run_id: self.setting.run,
            call_id: open.call_id.clone(),
            kind: "call".to_owned(),
            name: open.name.clone(),
            args,
            digest,
            reason,
            created: at,
            expires_at,
            status: ApprovalStatus::Pending,
            by: None,
            at: None,
        });
        open.stage = Stage::Asked { n: self.state.number(), approval_id, deadline: expires_at };
        self.state.calls.push(open);
    }

    /// A decision from the inbox. One about a call that is no longer asked about changes nothing.
    pub(super) fn decided(
        &mut self,
        approval_id: &str,
        choice: Choice,
        arguments: Option<Value>,
        reason: Option<String>,
        record: &mut Record,
    ) {
        record.node = Node::ToolCall;
        let asked = |call: &OpenCall| matches!(&call.stage, Stage::Asked { approval_id: id, .. } if id == approval_id);
        let Some(at) = self.state.calls.iter().position(asked) else { return };
        if choice == Choice::Deny {
            let call = self.state.calls.remove(at);
            let why = reason.unwrap_or_else(|| "a person said no".to_owned());
            return self.close(call, Close::saying(Closing::Denied, why), record);
        }
        let call = &mut self.state.calls[at];
        if choice == Choice::Edit {
            call.class = EffectClass::Unsafe; // what was declared was declared of other arguments
        }
        call.stage = Stage::Ready { edited_by: (choice == Choice::Edit).then(|| approval_id.to_owned()) };
        let (name, call_id) = (call.name.clone(), call.call_id.clone());
        record.emit(Event::ToolStart { name, args: arguments.unwrap_or_default(), call_id });
    }

    /// An answer from the inbox goes to the oldest question; false if there is none.
    pub(super) fn answer_question(&mut self, text: &str, record: &mut Record) -> bool {
        let asks = |call: &OpenCall| matches!(call.stage, Stage::Question { .. });
        let Some(at) = self.state.calls.iter().position(asks) else { return false };
        let call = self.state.calls.remove(at);
        record.node = Node::ToolCall;
        record.append(Entry::UserResponse(UserResponse { text: text.to_owned() }));
        self.close(call, Close::saying(Closing::Ok, text), record);
        true
    }

    /// What came of a call, or of the wait before it.
    pub(super) fn call_outcome(&mut self, n: u32, result: Outcome, record: &mut Record) {
        record.node = Node::ToolCall;
        let concerns = |call: &OpenCall| call.effect().n == n;
        let Some(at) = self.state.calls.iter().position(concerns) else { return };
        let call = self.state.calls.remove(at);
        match &call.stage {
            Stage::Ready { .. } => self.ran(call, result, record),
            Stage::Asked { approval_id, .. } => {
                record.settled.push((approval_id.clone(), ApprovalStatus::Expired));
                self.close(call, Close::saying(Closing::Expired, "nobody decided in time"), record);
            }
            Stage::Question { .. } => {
                record.warn(Code::Deadline, "nobody answered in time; going on with the best answer");
                self.close(call, Close::saying(Closing::Expired, "nobody answered in time"), record);
            }
        }
    }

    fn ran(&mut self, call: OpenCall, result: Outcome, record: &mut Record) {
        let tally = &mut self.state.receipt;
        let noted = (call.n, call.name.clone());
        let close = match result {
            Outcome::Tool(done) => {
                tally.finished.push(noted);
                Close { status: done.status, result: done.result, blob: done.blob }
            }
            Outcome::Stopped { .. } => {
                tally.stopped.push(noted);
                Close::saying(Closing::Cancelled, "it was stopped")
            }
            _ => {
                tally.unknown.push(noted);
                Close::saying(Closing::Unknown, UNKNOWN)
            }
        };
        self.close(call, close, record);
    }

    /// Closes a call: its result, its event, its line in the account; and counts its failures.
    fn close(&mut self, call: OpenCall, close: Close, record: &mut Record) {
        let Close { status, result, blob } = close;
        let text = as_text(&result);
        let failed = status != Closing::Ok;
        let error = if failed { Value::from(cut(&text, 500)) } else { Value::Null };
        let metadata = [
            ("tool_name", Value::from(call.name.clone())),
            ("call_id", Value::from(call.call_id.clone())),
            ("error", error),
        ];
        let how = if failed { "did not work" } else { "worked" };
        record.account(StepKind::ToolCall, format!("{} {how}", call.name), metadata);
        record.append(Entry::ToolResult(ToolResult {
            tool_call_id: call.call_id.clone(),
            tool_name: call.name.clone(),
            result,
            status,
            reward: None,
            blob: blob.clone(),
        }));
        record.emit(Event::ToolResult {
            name: call.name.clone(),
            result: text,
            call_id: call.call_id,
            status,
            blob,
        });
        if status == Closing::Error {
            let failures = self.state.failures.entry(call.digest).or_default();
            *failures += 1;
            if *failures >= SAME_FAILURES {
                let why = format!("the same call of {} failed {SAME_FAILURES} times", call.name);
                self.make_last(Code::NoProgress, why, record);
            }
        }
    }

    /// A call that the budget does not cover: the model is told, and asked for its last answer.
    pub(super) fn over_calls(&mut self, n: u32, record: &mut Record) {
        record.node = Node::ToolCall;
        let Some(at) = self.state.calls.iter().position(|call| call.n == n) else { return };
        let call = self.state.calls.remove(at);
        let why = format!("{} was reached", crate::budget::Limit::ToolCalls.in_words());
        self.state.receipt.not_started.push((call.n, call.name.clone()));
        self.close(call, Close::saying(Closing::Cancelled, why.clone()), record);
        self.make_last(Code::BudgetExceeded, why, record);
    }

    /// Closes what has not started, because the turn ends.
    pub(super) fn close_unstarted(&mut self, in_flight: &[u32], record: &mut Record) {
        let started =
            |call: &OpenCall| matches!(call.stage, Stage::Ready { .. }) && in_flight.contains(&call.n);
        let (keep, close): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.state.calls).into_iter().partition(started);
        self.state.calls = keep;
        for call in close {
            if let Stage::Asked { approval_id, .. } = &call.stage {
                record.settled.push((approval_id.clone(), ApprovalStatus::Cancelled));
            }
            self.state.receipt.not_started.push((call.n, call.name.clone()));
            self.close(call, Close::saying(Closing::Cancelled, "it was cancelled before it started"), record);
        }
    }
}

fn waiting(kind: WaitingKind, deadline: Timestamp, call_id: &str) -> Entry {
    Entry::Waiting(Waiting { kind, deadline: deadline.as_seconds(), correlation_id: call_id.to_owned() })
}
