//! The `tool_call` node: calls are accepted, run and closed. Questions to users are in [`super::people`].

use serde_json::Value;

use super::choosing::PERSON;
use super::closing::Close;
use super::state::{OpenCall, Phase, Stage};
use super::{SAME_FAILURES, Turn};
use crate::chat::{FinishReason, TokenUsage};
use crate::effect::{Admission, CheckedCall, Outcome, Reply};
use crate::event::Event;
use crate::fault::Code;
use crate::flow::{Node, Record};
use crate::json::{as_text, call_digest, cut_encoded};
use crate::policy::{CallRule, OnUnknown};
use crate::run::ApprovalStatus;
use crate::thread::entry::{AssistantMessage, SaidCall, ToolCall};
use crate::thread::{Closing, Entry};
use crate::time::Timestamp;
use crate::tool::{ASK_USER, Cause, EffectClass};

const CUT_OFF: &str =
    "the answer was cut off at the token limit, so this call was not run; ask for less at once";
const ASKED_BESIDE: &str =
    "a question to the person runs alone, so this call was not run; call it again when you have the answer";
/// How much of a first failure's message is stored for a second try.
const FIRST_FAILURE_BYTES: usize = 200;
impl Turn {
    /// Appends a reply and its calls, and admits each: refused, waiting for a user, or ready.
    pub(super) fn take_up(&mut self, reply: Reply, at: Timestamp, record: &mut Record) {
        let wanted = reply.calls.len();
        self.place(reply, None, at, record);
        // Questions to the user cost no round; a reply with any other call does.
        let asks = |call: &&OpenCall| matches!(call.stage, Stage::Question { .. });
        if self.state.calls.iter().filter(asks).count() < wanted {
            self.state.rounds += 1;
        }
    }

    /// Accepts a call that a rule makes, as if a model had asked for it.
    pub(super) fn called_by_rule(
        &mut self,
        call: CheckedCall,
        why: &str,
        at: Timestamp,
        record: &mut Record,
    ) {
        let reply = Reply {
            text: String::new(),
            calls: vec![call],
            finish: FinishReason::ToolCalls,
            usage: TokenUsage::default(),
            model: String::new(),
            reasoning: None,
            first: 0,
            lowest: 0,
            cut: None,
        };
        self.place(reply, Some(why), at, record);
    }

    fn place(&mut self, reply: Reply, rule: Option<&str>, at: Timestamp, record: &mut Record) {
        let cut_off = reply.finish == FinishReason::Length;
        let is_question = |call: &CheckedCall| {
            call.name == ASK_USER && matches!(call.admission, Admission::Fits { .. }) && !cut_off
        };
        let has_question = reply.calls.iter().any(is_question);
        let mut opened: Vec<(OpenCall, CheckedCall)> =
            reply.calls.into_iter().map(|call| (self.open(rule, &call), call)).collect();
        let said = |(open, call): &(OpenCall, CheckedCall)| SaidCall {
            id: open.call_id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        };
        let tool_calls = opened.iter().map(said).collect();
        record.append(Entry::AssistantMessage(AssistantMessage {
            content: reply.text,
            tool_calls,
            meta: rule.map(|_| "rule".to_owned()),
            reasoning: reply.reasoning,
        }));
        for (open, call) in &mut opened {
            open.entry = record.append(call_entry(open, call));
        }
        self.state.phase = Phase::Calling;
        for (open, call) in opened {
            let not_now = match () {
                () if cut_off => Some(CUT_OFF),
                () if has_question && !is_question(&call) => Some(ASKED_BESIDE),
                () => None,
            };
            self.admit(open, call, not_now, at, record);
        }
    }

    /// A call with its number, before its entry is appended.
    fn open(&mut self, rule: Option<&str>, call: &CheckedCall) -> OpenCall {
        let n = self.state.number();
        let class = match call.admission {
            Admission::Fits { class, .. } => class,
            Admission::Refused { .. } => EffectClass::Unsafe,
        };
        OpenCall {
            n,
            call_id: self.call_id(n),
            digest: call_digest(&call.name, &call.arguments)[..16].to_owned(),
            name: call.name.clone(),
            entry: -1,
            class,
            again: 0,
            failed: None,
            rule: rule.map(str::to_owned),
            stage: Stage::Ready { edited_by: None },
        }
    }

    fn admit(
        &mut self,
        mut open: OpenCall,
        call: CheckedCall,
        not_now: Option<&str>,
        at: Timestamp,
        record: &mut Record,
    ) {
        let CheckedCall { arguments, admission, .. } = call;
        let refusal = match (not_now, &admission) {
            (Some(why), _) => Some(Close::saying(Closing::Error, why)),
            (None, Admission::Refused { reason }) => Some(Close::saying(Closing::Error, reason.clone())),
            (None, Admission::Fits { .. }) => None,
        };
        let rule = self.setting.definition.decision.call(&open.name);
        let started = |open: &OpenCall, args: Value| Event::ToolStart {
            name: open.name.clone(),
            args,
            call_id: open.call_id.clone(),
        };
        if let Some(close) = refusal {
            // A call beside a question is not wrong in itself, so only the very same call counts as failing again.
            if not_now != Some(ASKED_BESIDE) {
                open.digest = call_digest(&open.name, &close.result)[..16].to_owned();
            }
            record.emit(started(&open, arguments));
            return self.close(open, close, record);
        }
        if rule == CallRule::Denied {
            record.emit(started(&open, arguments));
            return self.forbid(open, record);
        }
        if open.name == ASK_USER {
            record.emit(started(&open, arguments.clone()));
            return self.ask_person(open, &arguments, at, record);
        }
        self.state.admitted = true;
        match self.reason_to_ask(&open.name, rule, &admission) {
            Some(reason) => self.ask_approval(open, arguments, reason, at, record),
            None => {
                record.emit(started(&open, arguments));
                self.state.calls.push(open);
            }
        }
    }

    /// Closes a call outside the decision: the model gets the refusal, the user also the change that would allow it.
    fn forbid(&mut self, open: OpenCall, record: &mut Record) {
        let decision = &self.setting.definition.decision;
        let (status, why) = decision.refusal(&open.name);
        let helps = decision.would_allow(&open.name).map(|helps| format!("; {helps} would allow it"));
        let said = format!("{why}{}", helps.unwrap_or_default());
        let metadata = [
            ("tool_name", Value::from(open.name.clone())),
            ("call_id", Value::from(open.call_id.clone())),
            ("reason", Value::from(decision.rule.clone())),
            ("escalated_to", Value::from(PERSON)),
        ];
        self.close(open, Close::saying(status, why), record);
        record.warn_about(Code::Refused, said, metadata);
    }

    /// Applies the outcome of a call, or of the wait before it.
    pub(super) fn call_outcome(&mut self, n: u32, result: Outcome, at: Timestamp, record: &mut Record) {
        record.node = Node::ToolCall;
        let concerns = |call: &OpenCall| call.effect().n == n;
        let Some(place) = self.state.calls.iter().position(concerns) else { return };
        if matches!(self.state.calls[place].stage, Stage::Ready { .. }) {
            return self.ran(place, result, at, record);
        }
        let call = self.state.calls.remove(place);
        match &call.stage {
            Stage::Ready { .. } => {}
            Stage::Outcome { approval_id, .. } => {
                record.settled.push((approval_id.clone(), ApprovalStatus::Expired));
                self.close_unknown(call, record);
            }
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

    fn ran(&mut self, place: usize, result: Outcome, at: Timestamp, record: &mut Record) {
        let goes_on = self.state.phase == Phase::Calling;
        if let Outcome::Tool(done) = &result
            && done.never_ran
        {
            let call = self.state.calls.remove(place);
            return self.close_unrun(call, Close::saying(done.status, as_text(&done.result)), record);
        }
        self.state.used_tools = true;
        if goes_on && self.runs_again(place, &result, record) {
            return;
        }
        let call = self.state.calls.remove(place);
        let noted = (call.n, call.name.clone());
        match result {
            Outcome::Tool(done) => {
                self.state.receipt.finished.push(noted);
                let untrusted = done.untrusted || self.is_strangers(&call.name);
                let private = done.private || self.is_private(&call.name);
                let (status, result, blob, cause) = (done.status, done.result, done.blob, done.cause);
                let close = Close { status, result, blob, cause, ran: true, untrusted, private };
                self.close(call, close, record);
            }
            Outcome::Stopped { .. } => {
                self.state.receipt.stopped.push(noted);
                self.close(call, Close::saying(Closing::Cancelled, "it was stopped").after_start(), record);
            }
            _ if goes_on && self.setting.definition.decision.on_unknown == OnUnknown::AskPerson => {
                self.ask_outcome(call, at, record);
            }
            _ => self.close_unknown(call, record),
        }
    }

    /// Retries a failed call once if the cause is not in its arguments and another run does no harm.
    fn runs_again(&mut self, place: usize, result: &Outcome, record: &mut Record) -> bool {
        let Outcome::Tool(done) = result else { return false };
        let call = &mut self.state.calls[place];
        let failed = done.status == Closing::Error && done.cause == Some(Cause::Tool);
        let before = self.state.failures.get(&call.digest).copied().unwrap_or_default();
        let is_worth_it = failed && call.again == 0 && before + 1 < SAME_FAILURES;
        if !is_worth_it || !call.class.may_run_again() {
            return false;
        }
        self.state.failures.insert(call.digest.clone(), before + 1);
        let why = as_text(&done.result);
        let tried = call.clone();
        call.again += 1;
        call.failed = Some(cut_encoded(&why, FIRST_FAILURE_BYTES).to_owned());
        let again = [("reason", Value::from("retry"))];
        self.account_for_call(&tried, true, Some(&why), again, record);
        true
    }
}

fn call_entry(open: &OpenCall, call: &CheckedCall) -> Entry {
    Entry::ToolCall(ToolCall {
        id: open.call_id.clone(),
        function_name: call.name.clone(),
        arguments: call.arguments.clone(),
        provider_id: call.provider_id.clone(),
    })
}
