//! The `reasoning` node: a model is asked, and its answer or failure is handled.

use serde_json::{Value, json};

use super::choosing::Doubt;
use super::ladder::Remedy;
use super::state::{Asking, Phase};
use super::{FAULT_BYTES, Turn};
use crate::chat::{FinishReason, TokenUsage};
use crate::effect::{CutReason, Effect, EffectKind, Outcome, Purpose, Reply, Trim, View};
use crate::event::Event;
use crate::fault::{Code, Fault};
use crate::flow::{NextAction, Node, Record};
use crate::json::cut_encoded;
use crate::render::{COMPACTION, REVISION};
use crate::run::{StepKind, Verdict};
use crate::thread::Entry;
use crate::thread::entry::{AssistantMessage, Custom};
use crate::time::Timestamp;

impl Turn {
    /// Asks the model, with the whole conversation so far.
    pub(super) fn ask(&mut self, record: &mut Record) {
        self.state.question = self.fresh_question();
        self.ask_try(1, record);
    }

    pub(super) fn ask_again(&mut self, attempt: u32, record: &mut Record) {
        record.node = Node::Reasoning;
        self.ask_try(attempt + 1, record);
    }

    pub(super) fn ask_try(&mut self, attempt: u32, record: &Record) {
        let n = self.state.number();
        let tools = self.offers_tools() && !self.state.question.toolless;
        let purpose = self.purpose();
        self.state.phase = Phase::Asking(Asking { n, head: record.head, tools, attempt, purpose });
    }

    /// The purpose of the next model call.
    pub(super) fn purpose(&self) -> Purpose {
        match &self.state.missing {
            Some(missing) => Purpose::Revision { missing: missing.what.clone() },
            None if self.is_choosing() => Purpose::Choice,
            None => Purpose::Answer,
        }
    }

    pub(super) fn model_effect(&self, asking: &Asking) -> Effect {
        let Asking { n, head, tools, attempt, purpose } = asking.clone();
        let kind = EffectKind::Model {
            role: self.role().to_owned(),
            rung: self.state.question.rung,
            head,
            tools,
            message_id: self.call_id(n),
            attempt,
            purpose,
            view: self.view(self.state.question.trim),
            last_resort: self.next_rung(false).is_none(),
        };
        Effect { n, kind }
    }

    fn view(&self, trim: Trim) -> View {
        View { first: self.state.first, lowest: self.state.lowest, trim }
    }

    /// A model call whose text is not for clients: a summary, or a check of the answer.
    pub(super) fn inner_effect(&self, n: u32, head: i64, purpose: Purpose) -> Effect {
        let (role, rung) = self.inner_role();
        let kind = EffectKind::Model {
            role,
            rung,
            head,
            tools: false,
            message_id: self.call_id(n),
            attempt: 1,
            purpose,
            view: self.view(Trim::None),
            last_resort: true,
        };
        Effect { n, kind }
    }

    pub(super) fn answered(&mut self, asking: Asking, result: Outcome, at: Timestamp, record: &mut Record) {
        record.node = Node::Reasoning;
        match result {
            Outcome::Reply(reply) => self.replied(asking, reply, at, record),
            Outcome::ModelFailed { fault, shown, used } => {
                let failed = Failed { n: asking.n, fault, shown, used };
                self.model_failed(asking, failed, at, record);
            }
            Outcome::TooLong { up_to } if !self.state.question.summarised => {
                self.state.question.summarised = true;
                let n = self.state.number();
                self.state.phase = Phase::Summarising { n, up_to, head: asking.head };
            }
            Outcome::TooLong { .. } => {
                let fault =
                    Fault::new(Code::ContextTooLong, "the conversation does not fit, even with a summary");
                self.nothing_helps(&asking.purpose, Failed::of(asking.n, fault), at, record);
            }
            _ => {
                let fault = Fault::new(Code::Internal, "the model call ended without an outcome");
                let failed = Failed::of(asking.n, fault);
                self.model_failed(asking, failed, at, record);
            }
        }
    }

    fn replied(&mut self, asking: Asking, reply: Reply, at: Timestamp, record: &mut Record) {
        self.account_for(asking.n, &reply, record);
        self.note_window(&reply, record);
        if !reply.calls.is_empty() && asking.tools {
            record.next_action = Some(NextAction::CallTool);
            // Text beside a choice was not shown to clients, so it is dropped.
            let text = if asking.purpose.is_shown() { reply.text } else { String::new() };
            return self.take_up(Reply { text, ..reply }, at, record);
        }
        if asking.purpose == Purpose::Choice {
            return self.chose_nothing("the router chose no tool", at, record);
        }
        let (empty, cut_off) = (reply.text.trim().is_empty(), reply.finish == FinishReason::Length);
        if empty {
            if !self.escalates(asking.n, Doubt::Empty, Value::Null, record) {
                let fault = Fault::new(Code::LlmInvalidResponse, "the model gave an empty answer");
                let failed = Failed::of(asking.n, fault);
                self.model_failed(asking, failed, at, record);
            }
            return;
        }
        self.say(asking.n, reply, record);
        if !self.state.steering.is_empty() {
            return self.respond(record);
        }
        if cut_off && self.says_more(asking.n, record) {
            return;
        }
        if cut_off {
            self.cut_off(record);
        }
        self.check_or_end(asking.n, record);
    }

    /// Appends an answer. A revision is shown now, and makes the answer that it replaces void.
    fn say(&mut self, n: u32, reply: Reply, record: &mut Record) {
        let missing = self.state.missing.take();
        if let Some(missing) = &missing {
            record.emit(Event::Restarted { message_id: self.call_id(missing.answer) });
            let (message_id, text) = (self.call_id(n), reply.text.clone());
            record.emit(Event::Delta { effect: n, message_id, text, reasoning: false });
            record.emit(Event::HistoryCut { first: reply.first, reason: CutReason::Revised });
        }
        record.append(Entry::AssistantMessage(AssistantMessage {
            content: reply.text,
            tool_calls: Vec::new(),
            meta: missing.map(|_| REVISION.to_owned()),
            reasoning: reply.reasoning,
        }));
        self.state.said = true;
    }

    /// Ends the turn with the answer that was given, unless steering messages arrived meanwhile.
    pub(super) fn respond(&mut self, record: &mut Record) {
        if !self.state.steering.is_empty() {
            self.state.checks = 0; // the next answer is a new one
            self.take_in_steering(record);
            return self.ask(record);
        }
        record.node = Node::Respond;
        record.next_action = Some(NextAction::Respond);
        self.state.phase = Phase::Ended(Verdict::Ok);
    }

    /// Stores the window for the calls after this one. Entries that a compaction left out stay out, in later turns
    /// too: an entry that models do not see records it.
    fn note_window(&mut self, reply: &Reply, record: &mut Record) {
        let trim = self.state.question.trim;
        let simplified = std::mem::replace(&mut self.state.simplified, trim == Trim::Simple);
        let reason = reply.cut.or(simplified.then_some(CutReason::Simplified));
        if let Some(reason) = reason {
            record.emit(Event::HistoryCut { first: reply.first, reason });
        }
        if trim == Trim::Simple {
            return; // it saw less this once
        }
        (self.state.first, self.state.lowest) = (Some(reply.first), Some(reply.lowest));
        if let Trim::Compact { .. } = trim {
            record.append(compaction(reply.first));
        }
    }

    fn account_for(&self, n: u32, reply: &Reply, record: &mut Record) {
        let said = match reply.calls.len() {
            0 => "answered".to_owned(),
            1 => format!("asked for {}", reply.calls[0].name),
            many => format!("asked for {many} calls"),
        };
        let role = self.asked_role();
        let why = if role == self.role() { self.state.why.as_str() } else { "downgrade" };
        let metadata = [
            ("span_id", self.span(n)),
            ("model_role", Value::from(role)),
            ("model", Value::from(reply.model.clone())),
            ("reason", if why.is_empty() { Value::Null } else { Value::from(why) }),
            ("usage", used(&reply.usage)),
        ];
        record.account(StepKind::LlmCall, format!("{} {said}", reply.model), metadata);
    }

    /// The role in which the current model was asked.
    fn asked_role(&self) -> &str {
        let rung = self.rungs().into_iter().nth(self.state.question.rung as usize);
        rung.map_or_else(|| self.role(), |rung| rung.role)
    }

    /// Adds the role and the model that were asked to the metadata of a line.
    pub(super) fn about_model<const N: usize>(
        &self,
        more: [(&'static str, Value); N],
    ) -> Vec<(&'static str, Value)> {
        let rung = self.rungs().into_iter().nth(self.state.question.rung as usize);
        let known = rung.map(|rung| {
            [
                ("model_role", Value::from(rung.role)),
                ("model", Value::from(rung.candidate.into_owned().model)),
            ]
        });
        more.into_iter().chain(known.into_iter().flatten()).collect()
    }

    pub(super) fn model_failed(
        &mut self,
        asking: Asking,
        failed: Failed,
        at: Timestamp,
        record: &mut Record,
    ) {
        let failed = failed.bounded();
        let fault = &failed.fault;
        if fault.code == Code::LlmTimeout {
            let role = self.role().to_owned();
            self.not_again(&role, self.state.question.rung);
        }
        let unseen = failed.shown.trim().is_empty();
        let remedy = if unseen { self.remedy(asking.attempt, fault) } else { Remedy::None };
        if remedy == Remedy::None {
            return self.nothing_helps(&asking.purpose, failed, at, record);
        }
        self.say_what_helps(remedy, &failed, record);
        let question = &mut self.state.question;
        question.puzzled |= fault.code == Code::LlmInvalidResponse;
        match remedy {
            Remedy::Again { after_ms } => {
                let n = self.state.number();
                self.state.phase = Phase::Pausing { n, until: at.plus_ms(after_ms), attempt: asking.attempt };
                return;
            }
            Remedy::Simpler => {
                question.trim = Trim::Simple;
                // Many small models take none, and their servers say so in their own words.
                question.toolless = fault.message.contains("tools");
            }
            Remedy::Shorter => {
                question.compacted = true;
                question.trim = Trim::Compact { fits: fault.fits_tokens };
            }
            Remedy::Instead { rung } => {
                question.rung = rung;
                return self.ask_try(1, record);
            }
            Remedy::None => {}
        }
        self.ask_try(asking.attempt + 1, record);
    }

    /// Reports a retry, fallback or downgrade: each one is an event and a step.
    pub(super) fn say_what_helps(&self, remedy: Remedy, failed: &Failed, record: &mut Record) {
        let fault = &failed.fault;
        let rungs = self.rungs();
        let role = self.asked_role();
        let (reason, then) = match remedy {
            Remedy::Again { .. } => ("retry", "trying again".to_owned()),
            Remedy::Simpler => ("simplified", "asking again, more simply".to_owned()),
            Remedy::Shorter => ("compaction", "asking again with less of the history".to_owned()),
            Remedy::Instead { rung } => match rungs.get(rung as usize) {
                Some(next) if next.role == role => ("fallback", format!("asking {}", next.candidate.model)),
                Some(next) => ("downgrade", format!("asking {} as {}", next.candidate.model, next.role)),
                None => return,
            },
            Remedy::None => return,
        };
        let metadata = self.about_model([
            ("span_id", self.span(failed.n)),
            ("error", Value::from(fault.code.as_str())),
            ("reason", Value::from(reason)),
            ("usage", failed.usage()),
        ]);
        record.warn_about(fault.code, format!("{}; {then}", fault.message), metadata);
    }
}

/// A model call that failed.
pub(super) struct Failed {
    /// The number of its effect.
    pub(super) n: u32,
    pub(super) fault: Fault,
    /// The part of its text that was shown.
    pub(super) shown: String,
    pub(super) used: Option<TokenUsage>,
}

impl Failed {
    /// A failure before any text was shown.
    pub(super) fn of(n: u32, fault: Fault) -> Self {
        Failed { n, fault, shown: String::new(), used: None }
    }

    /// The same with its message cut to [`FAULT_BYTES`].
    pub(super) fn bounded(mut self) -> Self {
        self.fault.message.truncate(cut_encoded(&self.fault.message, FAULT_BYTES).len());
        self
    }

    /// The tokens that it used, for the account; null where they are not known.
    pub(super) fn usage(&self) -> Value {
        self.used.as_ref().map_or(Value::Null, used)
    }
}

/// The entry that fixes where windows begin from now on, because the entries before did not fit a model.
fn compaction(first: i64) -> Entry {
    let data = serde_json::Map::from_iter([("first".to_owned(), Value::from(first))]);
    Entry::Custom(Custom { t: COMPACTION.to_owned(), v: 1, data })
}

/// The tokens and the cost of a call, for the account.
pub(super) fn used(usage: &TokenUsage) -> Value {
    let cost = usage.cost_micro_usd.map(|cost| cost as f64 / 1e6);
    let mut told = json!({
        "prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens, "cost_usd": cost,
    });
    if usage.estimated {
        told["estimated"] = Value::Bool(true);
    }
    told
}
