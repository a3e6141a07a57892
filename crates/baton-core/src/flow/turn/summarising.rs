//! Handling of a thread that is too long: it is summarised, or the oldest entries are left out.

use serde_json::Value;

use super::Turn;
use super::asking::{Failed, used};
use super::ladder::Remedy;
use super::state::Question;
use crate::effect::{Outcome, Trim};
use crate::fault::{Code, Fault};
use crate::flow::{Node, Record};
use crate::run::StepKind;
use crate::thread::Entry;
use crate::thread::entry::Summary;
use crate::time::Timestamp;

impl Turn {
    /// Appends the summary as an entry and asks again; without one, goes on with a shorter history.
    pub(super) fn summarised(
        &mut self,
        n: u32,
        up_to: i64,
        result: Outcome,
        at: Timestamp,
        record: &mut Record,
    ) {
        record.node = Node::Reasoning;
        let failed = match result {
            Outcome::Reply(reply) if !reply.text.trim().is_empty() => {
                let metadata = [
                    ("span_id", self.span(n)),
                    ("model_role", Value::from(self.inner_role().0)),
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
                Failed { used: Some(reply.usage), ..Failed::of(n, fault) }
            }
            Outcome::ModelFailed { fault, used, .. } => Failed { used, ..Failed::of(n, fault) },
            _ => Failed::of(n, Fault::new(Code::Internal, "the model call ended without an outcome")),
        };
        self.go_without_summary(failed.bounded(), at, record);
    }

    /// Leaves the entries out that do not fit, for lack of a summary. A model that timed out on the summary is not
    /// asked for the answer, either.
    fn go_without_summary(&mut self, failed: Failed, at: Timestamp, record: &mut Record) {
        let fault = &failed.fault;
        let (role, place) = self.inner_role();
        let asked = self.setting.definition.ladder(&role).into_iter().nth(place as usize);
        let model = asked.map_or(Value::Null, |rung| Value::from(rung.candidate.into_owned().model));
        if fault.code == Code::LlmTimeout {
            self.not_again(&role, place);
        }
        let Some(rung) = self.rung_or_next() else {
            return self.nothing_helps(&self.purpose(), failed, at, record);
        };
        let why = format!("no summary could be made ({}); leaving out what does not fit", fault.message);
        let metadata = [
            ("span_id", self.span(failed.n)),
            ("error", Value::from(fault.code.as_str())),
            ("reason", Value::from("compaction")),
            ("model_role", Value::from(role)),
            ("model", model),
            ("usage", failed.usage()),
        ];
        record.warn_about(fault.code, why, metadata);
        if rung != self.state.question.rung {
            self.say_what_helps(Remedy::Instead { rung }, &Failed::of(failed.n, failed.fault), record);
        }
        let question = self.state.question;
        self.state.question =
            Question { rung, compacted: true, trim: Trim::Compact { fits: None }, ..question };
        self.ask_try(1, record);
    }
}
