//! The check of an answer before it counts, where the policy asks for one: against the question and the
//! results of tools, with at most one revision.

use serde_json::Value;

use super::Turn;
use super::asking::{Failed, used};
use super::choosing::{Doubt, PERSON};
use super::state::{Missing, Phase};
use crate::effect::{Outcome, Reply};
use crate::fault::{Code, Fault};
use crate::flow::{Node, Record};
use crate::json::{cut_encoded, parse};
use crate::policy::SelfCheck;
use crate::run::StepKind;

/// The most bytes of a check's finding as it is stored.
const MISSING_BYTES: usize = 1 << 10;
/// The most checks of a turn: one of the answer, one of its only revision.
const MOST_CHECKS: u8 = 2;

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Finding {
    Holds,
    Lacks(String),
    Unreadable,
}

/// Reads the finding of a checking model: an object with `ok` and `missing`, anywhere in the text.
fn finding(text: &str) -> Finding {
    let object = text.find('{').zip(text.rfind('}')).filter(|(from, to)| from < to);
    let Some(value) = object.and_then(|(from, to)| parse(&text[from..=to]).ok()) else {
        return Finding::Unreadable;
    };
    match (value.get("ok").and_then(Value::as_bool), value.get("missing").and_then(Value::as_str)) {
        (Some(true), _) => Finding::Holds,
        (Some(false), missing) => {
            let missing = missing.map(str::trim).filter(|missing| !missing.is_empty());
            let missing = missing.unwrap_or("the answer does not fit the question");
            Finding::Lacks(cut_encoded(missing, MISSING_BYTES).to_owned())
        }
        (None, _) => Finding::Unreadable,
    }
}

impl Turn {
    /// Checks the answer of effect `answer`, or ends the turn if no check is due.
    pub(super) fn check_or_end(&mut self, answer: u32, record: &mut Record) {
        let wanted = match self.setting.definition.decision.self_check {
            SelfCheck::Never => false,
            SelfCheck::AfterTools => self.state.used_tools,
            SelfCheck::Always => true,
        };
        if !wanted || self.state.checks >= MOST_CHECKS {
            return self.respond(record);
        }
        self.state.checks += 1;
        let n = self.state.number();
        self.state.phase = Phase::Checking { n, head: record.head, answer };
    }

    pub(super) fn checked(&mut self, n: u32, answer: u32, result: Outcome, record: &mut Record) {
        record.node = Node::Reasoning;
        let reply = match result {
            Outcome::Reply(reply) => reply,
            Outcome::ModelFailed { fault, used, .. } => {
                return self.unchecked(Failed { used, ..Failed::of(n, fault) }, record);
            }
            _ => {
                let fault = Fault::new(Code::Internal, "the model call ended without an outcome");
                return self.unchecked(Failed::of(n, fault), record);
            }
        };
        match self.found(n, &reply, record) {
            Finding::Lacks(missing) if self.state.checks < MOST_CHECKS => {
                self.revise(answer, missing, record)
            }
            Finding::Lacks(missing) => {
                let metadata = [
                    ("error", Value::from(Code::VerificationFailed.as_str())),
                    ("reason", Value::from("self_check")),
                    ("escalated_to", Value::from(PERSON)),
                ];
                let why = format!("the answer was revised once and still lacks something: {missing}");
                record.warn_about(Code::VerificationFailed, why, metadata);
                self.respond(record);
            }
            Finding::Holds | Finding::Unreadable => self.respond(record),
        }
    }

    /// Lets the answer stand, because the check failed.
    fn unchecked(&mut self, failed: Failed, record: &mut Record) {
        let metadata = [
            ("span_id", self.span(failed.n)),
            ("model_role", Value::from(self.inner_role().0)),
            ("error", Value::from(failed.fault.code.as_str())),
            ("reason", Value::from("self_check")),
            ("usage", failed.usage()),
        ];
        let why = format!("the answer could not be checked ({}); it stands as it is", failed.fault.message);
        record.warn_about(failed.fault.code, why, metadata);
        self.respond(record);
    }

    fn found(&self, n: u32, reply: &Reply, record: &mut Record) -> Finding {
        let found = finding(&reply.text);
        let said = match &found {
            Finding::Holds => "it holds".to_owned(),
            Finding::Lacks(missing) => format!("it lacks something: {missing}"),
            Finding::Unreadable => "what it said could not be read, so the answer stands".to_owned(),
        };
        let metadata = [
            ("span_id", self.span(n)),
            ("model_role", Value::from(self.inner_role().0)),
            ("model", Value::from(reply.model.clone())),
            ("reason", Value::from("self_check")),
            ("usage", used(&reply.usage)),
        ];
        record.account(StepKind::LlmCall, format!("{} checked the answer: {said}", reply.model), metadata);
        found
    }

    /// Asks for the answer once more.
    fn revise(&mut self, answer: u32, missing: String, record: &mut Record) {
        self.state.missing = Some(Missing { what: missing.clone(), answer });
        if self.escalates(answer, Doubt::SelfCheck, Value::Null, record) {
            return;
        }
        let metadata = [
            ("error", Value::from(Code::VerificationFailed.as_str())),
            ("reason", Value::from("self_check")),
        ];
        let why = format!("the answer lacks something ({missing}); answering once more");
        record.warn_about(Code::VerificationFailed, why, metadata);
        self.ask(record);
    }

    /// Lets the first answer stand, because the revision failed.
    pub(super) fn first_answer_stands(&mut self, failed: Failed, record: &mut Record) {
        let metadata = self.about_model([
            ("span_id", self.span(failed.n)),
            ("error", Value::from(failed.fault.code.as_str())),
            ("reason", Value::from("self_check")),
            ("escalated_to", Value::from(PERSON)),
            ("usage", failed.usage()),
        ]);
        let missing = self.state.missing.take().map(|missing| missing.what).unwrap_or_default();
        let why = format!(
            "the answer lacks something ({missing}) and could not be revised: {}",
            failed.fault.message
        );
        record.warn_about(failed.fault.code, why, metadata);
        self.respond(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_read_wherever_it_stands() {
        let lacks = |missing: &str| Finding::Lacks(missing.to_owned());
        let rows = [
            (r#"{"ok": true}"#, Finding::Holds),
            (r#"{"ok": true, "missing": "nothing"}"#, Finding::Holds),
            (r#"{"ok": false, "missing": " the price "}"#, lacks("the price")),
            ("Here you are:\n```json\n{\"ok\": false, \"missing\": \"x\"}\n```", lacks("x")),
            (r#"{"ok": false}"#, lacks("the answer does not fit the question")),
            (r#"{"ok": "yes"}"#, Finding::Unreadable),
            ("looks good to me", Finding::Unreadable),
            ("}{", Finding::Unreadable),
            ("", Finding::Unreadable),
        ];
        for (text, found) in rows {
            assert_eq!(finding(text), found, "{text:?}");
        }
        let Finding::Lacks(cut) = finding(&format!(r#"{{"ok": false, "missing": "{}"}}"#, "x".repeat(5000)))
        else {
            panic!("it lacks something");
        };
        assert!(cut.len() <= MISSING_BYTES);
    }
}
