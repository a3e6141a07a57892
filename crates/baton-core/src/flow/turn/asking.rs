//! The `reasoning` node: a model is asked, and what comes of it.

use serde_json::{Value, json};

use super::ladder::Remedy;
use super::state::{Asking, Phase, Question};
use super::{FAULT_BYTES, Turn};
use crate::chat::{FinishReason, TokenUsage};
use crate::effect::{CutReason, Effect, EffectKind, Outcome, Purpose, Reply, Trim, View};
use crate::event::Event;
use crate::fault::{Code, Fault};
use crate::flow::{NextAction, Node, Record};
use crate::json::cut_encoded;
use crate::render::COMPACTION;
use crate::run::{StepKind, Verdict};
use crate::thread::Entry;
use crate::thread::entry::{AssistantMessage, Custom, Summary};
use crate::time::Timestamp;

impl Turn {
    /// Asks the model, with everything that was said so far.
    pub(super) fn ask(&mut self, record: &mut Record) {
        self.state.question = self.fresh_question();
        self.ask_try(1, record);
    }

    pub(super) fn ask_again(&mut self, attempt: u32, record: &mut Record) {
        record.node = Node::Reasoning;
        self.ask_try(attempt + 1, record);
    }

    fn ask_try(&mut self, attempt: u32, record: &Record) {
        let n = self.state.number();
        let rounds_left = self.state.rounds < self.setting.definition.decision.limits.iterations;
        let has_tools = !self.setting.definition.tools.is_empty() && !self.state.question.toolless;
        let tools = rounds_left && !self.state.last_answer && has_tools;
        self.state.phase = Phase::Asking(Asking { n, head: record.head, tools, attempt });
    }

    pub(super) fn model_effect(&self, asking: &Asking) -> Effect {
        let Asking { n, head, tools, attempt } = *asking;
        let kind = EffectKind::Model {
            role: self.role(),
            rung: self.state.question.rung,
            head,
            tools,
            message_id: self.call_id(n),
            attempt,
            purpose: Purpose::Answer,
            view: self.view(self.state.question.trim),
            last_resort: self.next_rung(false).is_none(),
        };
        Effect { n, kind }
    }

    fn view(&self, trim: Trim) -> View {
        View { first: self.state.first, lowest: self.state.lowest, trim }
    }

    pub(super) fn summary_effect(&self, n: u32, up_to: i64, head: i64) -> Effect {
        let (role, rung) = self.summariser();
        let kind = EffectKind::Model {
            role,
            rung,
            head,
            tools: false,
            message_id: self.call_id(n),
            attempt: 1,
            purpose: Purpose::Summary { up_to },
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
                self.model_failed(asking, Failed { fault, shown, used }, at, record);
            }
            Outcome::TooLong { up_to } if !self.state.question.summarised => {
                self.state.question.summarised = true;
                let n = self.state.number();
                self.state.phase = Phase::Summarising { n, up_to, head: asking.head };
            }
            Outcome::TooLong { .. } => {
                let fault =
                    Fault::new(Code::ContextTooLong, "the conversation does not fit, even with a summary");
                self.fail(Failed::of(fault), record);
            }
            _ => {
                let fault = Fault::new(Code::Internal, "the model call ended without an outcome");
                self.model_failed(asking, Failed::of(fault), at, record);
            }
        }
    }

    fn replied(&mut self, asking: Asking, reply: Reply, at: Timestamp, record: &mut Record) {
        self.account_for(&reply, record);
        self.note_window(&reply, record);
        if !reply.calls.is_empty() && asking.tools {
            record.next_action = Some(NextAction::CallTool);
            return self.take_up(reply, at, record);
        }
        if reply.text.trim().is_empty() {
            let fault = Fault::new(Code::LlmInvalidResponse, "the model gave an empty answer");
            return self.model_failed(asking, Failed::of(fault), at, record);
        }
        if reply.finish == FinishReason::Length {
            record.warn(Code::BudgetExceeded, "the answer was cut off at the limit of tokens for one answer");
        }
        record.append(Entry::AssistantMessage(AssistantMessage {
            content: reply.text,
            tool_calls: Vec::new(),
            meta: None,
            reasoning: reply.reasoning,
        }));
        self.state.said = true;
        if self.state.steering.is_empty() {
            record.node = Node::Respond;
            record.next_action = Some(NextAction::Respond);
            self.state.phase = Phase::Ended(Verdict::Ok);
        } else {
            self.take_in_steering(record);
            self.ask(record);
        }
    }

    /// Remembers what was seen, for the calls after this one. What was left out because the model had no
    /// room for it stays out, in later turns too: an entry that nobody is shown says so.
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

    fn account_for(&self, reply: &Reply, record: &mut Record) {
        let said = match reply.calls.len() {
            0 => "answered".to_owned(),
            1 => format!("asked for {}", reply.calls[0].name),
            many => format!("asked for {many} calls"),
        };
        let metadata = [
            ("model_role", Value::from(self.asked_role())),
            ("model", Value::from(reply.model.clone())),
            ("usage", used(&reply.usage)),
        ];
        record.account(StepKind::LlmCall, format!("{} {said}", reply.model), metadata);
    }

    /// The role in which the model of now was asked.
    fn asked_role(&self) -> String {
        let rung = self.rungs().into_iter().nth(self.state.question.rung as usize);
        rung.map_or_else(|| self.role(), |rung| rung.role)
    }

    /// Adds who was asked to what is said of it.
    pub(super) fn about_model<const N: usize>(
        &self,
        more: [(&'static str, Value); N],
    ) -> Vec<(&'static str, Value)> {
        let rung = self.rungs().into_iter().nth(self.state.question.rung as usize);
        let known = rung.map(|rung| {
            [("model_role", Value::from(rung.role)), ("model", Value::from(rung.candidate.model))]
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
            self.not_again(&self.role(), self.state.question.rung);
        }
        let unseen = failed.shown.trim().is_empty();
        let remedy = if unseen { self.remedy(asking, fault) } else { Remedy::None };
        if remedy == Remedy::None {
            return self.fail(failed, record);
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

    /// Every retry, fallback and downgrade is an event and a step.
    fn say_what_helps(&self, remedy: Remedy, failed: &Failed, record: &mut Record) {
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
            ("error", Value::from(fault.code.as_str())),
            ("reason", Value::from(reason)),
            ("usage", failed.usage()),
        ]);
        record.warn_about(fault.code, format!("{}; {then}", fault.message), metadata);
    }

    /// A summary is kept as an entry.
    pub(super) fn summarised(&mut self, up_to: i64, result: Outcome, record: &mut Record) {
        record.node = Node::Reasoning;
        let failed = match result {
            Outcome::Reply(reply) if !reply.text.trim().is_empty() => {
                let metadata = [
                    ("model_role", Value::from(self.summariser().0)),
                    ("model", Value::from(reply.model.clone())),
                    ("usage", used(&reply.usage)),
                ];
                record.account(StepKind::Summary, format!("{} summarised the thread", reply.model), metadata);
                record.append(Entry::Summary(Summary { text: reply.text, up_to: Some(up_to) }));
                (self.state.first, self.state.lowest) = (None, None);
                return self.ask_try(1, record);
            }
            Outcome::Reply(reply) => {
                let fault = Fault::new(Code::LlmInvalidResponse, "it was empty");
                Failed { used: Some(reply.usage), ..Failed::of(fault) }
            }
            Outcome::ModelFailed { fault, used, .. } => Failed { used, ..Failed::of(fault) },
            _ => Failed::of(Fault::new(Code::Internal, "the model call ended without an outcome")),
        };
        self.go_without_summary(failed.bounded(), record);
    }

    /// Without a summary, what does not fit is left out. Who did not summarise in time is not asked for
    /// the answer, either.
    fn go_without_summary(&mut self, failed: Failed, record: &mut Record) {
        let fault = &failed.fault;
        let (role, place) = self.summariser();
        let asked = self.setting.definition.ladder(&role).into_iter().nth(place as usize);
        if fault.code == Code::LlmTimeout {
            self.not_again(&role, place);
        }
        let Some(rung) = self.rung_or_next() else { return self.fail(failed, record) };
        let why = format!("no summary could be made ({}); leaving out what does not fit", fault.message);
        let metadata = [
            ("error", Value::from(fault.code.as_str())),
            ("reason", Value::from("compaction")),
            ("model_role", Value::from(role)),
            ("model", asked.map_or(Value::Null, |asked| Value::from(asked.candidate.model))),
            ("usage", failed.usage()),
        ];
        record.warn_about(fault.code, why, metadata);
        if rung != self.state.question.rung {
            self.say_what_helps(Remedy::Instead { rung }, &Failed::of(failed.fault), record);
        }
        let question = self.state.question;
        self.state.question =
            Question { rung, compacted: true, trim: Trim::Compact { fits: None }, ..question };
        self.ask_try(1, record);
    }
}

/// A model call that did not end well.
pub(super) struct Failed {
    pub(super) fault: Fault,
    /// What people saw of it.
    pub(super) shown: String,
    pub(super) used: Option<TokenUsage>,
}

impl Failed {
    /// One of which nobody saw anything.
    pub(super) fn of(fault: Fault) -> Self {
        Failed { fault, shown: String::new(), used: None }
    }

    /// The same in words that a state has room for.
    fn bounded(mut self) -> Self {
        self.fault.message.truncate(cut_encoded(&self.fault.message, FAULT_BYTES).len());
        self
    }

    /// What it used, for the account; nothing where that is not known.
    pub(super) fn usage(&self) -> Value {
        self.used.as_ref().map_or(Value::Null, used)
    }
}

/// An entry that says where windows begin from now on, because a model had no room for what is before.
fn compaction(first: i64) -> Entry {
    let data = serde_json::Map::from_iter([("first".to_owned(), Value::from(first))]);
    Entry::Custom(Custom { t: COMPACTION.to_owned(), v: 1, data })
}

/// What a call used, for the account.
fn used(usage: &TokenUsage) -> Value {
    let cost = usage.cost_micro_usd.map(|cost| cost as f64 / 1e6);
    json!({"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens, "cost_usd": cost})
}
