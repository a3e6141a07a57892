//! The `reasoning` node: a model is asked, and what comes of it.

use serde_json::{Value, json};

use super::ladder::Remedy;
use super::state::{Asking, Phase, Question};
use super::{FAULT_BYTES, Turn};
use crate::chat::{FinishReason, TokenUsage};
use crate::effect::{Effect, EffectKind, Outcome, Purpose, Reply, Trim, View};
use crate::event::Event;
use crate::fault::{Code, Fault};
use crate::flow::{NextAction, Node, Record};
use crate::json::cut_encoded;
use crate::run::{StepKind, Verdict};
use crate::thread::Entry;
use crate::thread::entry::{AssistantMessage, Summary};
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
        let tools = rounds_left && !self.state.last_answer && !self.setting.definition.tools.is_empty();
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
            view: View { first: self.state.first, trim: self.state.question.trim },
            last_resort: self.next_rung(false).is_none(),
        };
        Effect { n, kind }
    }

    pub(super) fn summary_effect(&self, n: u32, up_to: i64) -> Effect {
        let (role, rung) = self.summariser();
        let kind = EffectKind::Model {
            role,
            rung,
            head: up_to,
            tools: false,
            message_id: self.call_id(n),
            attempt: 1,
            purpose: Purpose::Summary { up_to },
            view: View { first: self.state.first, trim: Trim::None },
            last_resort: true,
        };
        Effect { n, kind }
    }

    pub(super) fn answered(&mut self, asking: Asking, result: Outcome, at: Timestamp, record: &mut Record) {
        record.node = Node::Reasoning;
        match result {
            Outcome::Reply(reply) => self.replied(asking, reply, at, record),
            Outcome::ModelFailed { fault, shown, .. } => self.model_failed(asking, fault, shown, at, record),
            Outcome::TooLong { up_to } if !self.state.question.summarised => {
                self.state.question.summarised = true;
                let n = self.state.number();
                self.state.phase = Phase::Summarising { n, up_to };
            }
            Outcome::TooLong { .. } => {
                let fault =
                    Fault::new(Code::ContextTooLong, "the conversation does not fit, even with a summary");
                self.fail(fault, String::new(), record);
            }
            _ => {
                let fault = Fault::new(Code::Internal, "the model call ended without an outcome");
                self.model_failed(asking, fault, String::new(), at, record);
            }
        }
    }

    fn replied(&mut self, asking: Asking, reply: Reply, at: Timestamp, record: &mut Record) {
        self.account_for(&reply, record);
        self.state.first = Some(reply.first);
        if let Some(reason) = reply.cut {
            record.emit(Event::HistoryCut { first: reply.first, reason });
        }
        if !reply.calls.is_empty() && asking.tools {
            record.next_action = Some(NextAction::CallTool);
            return self.take_up(reply, at, record);
        }
        if reply.text.trim().is_empty() {
            let fault = Fault::new(Code::LlmInvalidResponse, "the model gave an empty answer");
            return self.model_failed(asking, fault, String::new(), at, record);
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
        mut fault: Fault,
        shown: String,
        at: Timestamp,
        record: &mut Record,
    ) {
        fault.message.truncate(cut_encoded(&fault.message, FAULT_BYTES).len());
        if fault.code == Code::LlmTimeout {
            self.not_again(&self.role(), self.state.question.rung);
        }
        let remedy = if shown.trim().is_empty() { self.remedy(asking, &fault) } else { Remedy::None };
        if remedy == Remedy::None {
            return self.fail(fault, shown, record);
        }
        self.say_what_helps(remedy, &fault, record);
        let question = &mut self.state.question;
        question.puzzled |= fault.code == Code::LlmInvalidResponse;
        match remedy {
            Remedy::Again { after_ms } => {
                let n = self.state.number();
                self.state.phase = Phase::Pausing { n, until: at.plus_ms(after_ms), attempt: asking.attempt };
                return;
            }
            Remedy::Simpler => question.trim = Trim::Simple,
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
    fn say_what_helps(&self, remedy: Remedy, fault: &Fault, record: &mut Record) {
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
        let metadata =
            self.about_model([("error", Value::from(fault.code.as_str())), ("reason", Value::from(reason))]);
        record.warn_about(fault.code, format!("{}; {then}", fault.message), metadata);
    }

    /// A summary is kept as an entry.
    pub(super) fn summarised(&mut self, up_to: i64, result: Outcome, record: &mut Record) {
        record.node = Node::Reasoning;
        let fault = match result {
            Outcome::Reply(reply) if !reply.text.trim().is_empty() => {
                let metadata = [
                    ("model_role", Value::from(self.summariser().0)),
                    ("model", Value::from(reply.model.clone())),
                    ("usage", used(&reply.usage)),
                ];
                record.account(StepKind::Summary, format!("{} summarised the thread", reply.model), metadata);
                record.append(Entry::Summary(Summary { text: reply.text, up_to: Some(up_to) }));
                self.state.first = None;
                return self.ask_try(1, record);
            }
            Outcome::Reply(_) => Fault::new(Code::LlmInvalidResponse, "it was empty"),
            Outcome::ModelFailed { fault, .. } => fault,
            _ => Fault::new(Code::Internal, "the model call ended without an outcome"),
        };
        self.go_without_summary(fault, record);
    }

    /// Without a summary, what does not fit is left out. Who did not summarise in time is not asked for
    /// the answer, either.
    fn go_without_summary(&mut self, mut fault: Fault, record: &mut Record) {
        fault.message.truncate(cut_encoded(&fault.message, FAULT_BYTES).len());
        if fault.code == Code::LlmTimeout {
            let (role, rung) = self.summariser();
            self.not_again(&role, rung);
        }
        let Some(rung) = self.rung_or_next() else { return self.fail(fault, String::new(), record) };
        let why = format!("no summary could be made ({}); leaving out what does not fit", fault.message);
        let metadata = self.about_model([
            ("error", Value::from(Code::ContextTooLong.as_str())),
            ("reason", Value::from("compaction")),
        ]);
        record.warn_about(Code::ContextTooLong, why, metadata);
        if rung != self.state.question.rung {
            self.say_what_helps(Remedy::Instead { rung }, &fault, record);
        }
        let question = self.state.question;
        self.state.question =
            Question { rung, compacted: true, trim: Trim::Compact { fits: None }, ..question };
        self.ask_try(1, record);
    }
}

/// What a call used, for the account.
fn used(usage: &TokenUsage) -> Value {
    let cost = usage.cost_micro_usd.map(|cost| cost as f64 / 1e6);
    json!({"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens, "cost_usd": cost})
}
