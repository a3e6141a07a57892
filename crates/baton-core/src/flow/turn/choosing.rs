//! The choice of the role, its tools and the calls by rule, from the request and the decision alone.
//!
//! No model is asked only to decide. A router's answer that cannot stand goes once to `reasoning`; a question
//! that still fails, and one that the decision keeps from `reasoning`, goes to the user.

use serde_json::{Value, json};

use super::Turn;
use super::asking::Failed;
use super::state::{Missing, Phase, Question};
use crate::effect::{Admission, CheckedCall, Purpose};
use crate::event::Event;
use crate::fault::Code;
use crate::flow::Record;
use crate::policy::ToolRule;
use crate::role::select::{Selected, look_up, select};
use crate::role::{REASONING, ROUTER, Rung};
use crate::run::StepKind;
use crate::time::Timestamp;
use crate::tool::{Egress, ToolSpec};

/// The value of `escalated_to` for things that no model can settle: the user.
pub(super) const PERSON: &str = "person";

/// The reason for asking `reasoning` the router's question.
const ESCALATED: &str = "escalated";

/// Why an answer cannot stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    Empty,
    CutOff,
    Refused,
    SelfCheck,
    Failed(Code),
}

impl Doubt {
    fn reason(self) -> &'static str {
        match self {
            Doubt::Empty => "empty",
            Doubt::CutOff => "cut_off",
            Doubt::Refused => "refused",
            Doubt::SelfCheck => "self_check",
            Doubt::Failed(_) => "failed",
        }
    }

    fn in_words(self) -> &'static str {
        match self {
            Doubt::Empty => "the router gave an empty answer",
            Doubt::CutOff => "the router's answer was cut off",
            Doubt::Refused => "the router refused",
            Doubt::SelfCheck => "the router's answer did not hold",
            Doubt::Failed(_) => "the router could not answer",
        }
    }

    fn code(self) -> Code {
        match self {
            Doubt::Empty => Code::LlmInvalidResponse,
            Doubt::CutOff => Code::BudgetExceeded,
            Doubt::Refused => Code::Refused,
            Doubt::SelfCheck => Code::VerificationFailed,
            Doubt::Failed(code) => code,
        }
    }
}

impl Turn {
    /// Starts the turn: selects the role, then searches by rule or asks a model.
    pub(super) fn begin(&mut self, text: &str, at: Timestamp, record: &mut Record) {
        let decision = self.setting.definition.decision.clone();
        let Selected { role, reason } = select(&decision, text);
        (self.state.role, self.state.why) = (Some(role), reason);
        if self.is_choosing() && decision.allows_role(ROUTER) {
            self.turn_to(ROUTER, "the channel requires a tool");
        }
        let search = decision.search_first.as_deref().filter(|_| decision.tool_rule == ToolRule::Auto);
        match (search.and_then(|tool| self.spec(tool).cloned()), look_up(text)) {
            (Some(tool), Some(query)) => {
                let why = "the request asks to look something up";
                self.call_by_rule(&tool, json!({ "query": query }), why, at, record);
            }
            _ => self.ask(record),
        }
    }

    pub(super) fn spec(&self, tool: &str) -> Option<&ToolSpec> {
        self.setting.definition.tools.iter().find(|spec| spec.name == tool)
    }

    /// The tool that runs where one is required and none was chosen, if it is there.
    fn first_tool(&self) -> Option<&ToolSpec> {
        self.setting.definition.decision.first_tool.as_deref().and_then(|tool| self.spec(tool))
    }

    fn turn_to(&mut self, role: &str, why: &str) {
        (self.state.role, self.state.why) = (Some(role.to_owned()), why.to_owned());
    }

    /// Turns to the role that writes the answer after a round of calls, whether or not one of them could run.
    pub(super) fn turn_to_answering(&mut self) {
        if self.state.rounds == 0 && !self.state.by_rule {
            return; // the only calls so far were questions to the user
        }
        let decision = &self.setting.definition.decision;
        let role = decision.after_tools.clone().filter(|role| decision.allows_role(role));
        if let Some(role) = role.filter(|role| *role != self.role()) {
            self.turn_to(&role, if self.state.used_tools { "tools have run" } else { "no tool has run" });
        }
    }

    /// Whether the next call has to choose a tool.
    pub(super) fn is_choosing(&self) -> bool {
        let definition = &self.setting.definition;
        let required = definition.decision.tool_rule == ToolRule::Required && !definition.tools.is_empty();
        required && self.state.rounds == 0 && !self.state.by_rule
    }

    /// Whether the next call is offered tools.
    pub(super) fn offers_tools(&self) -> bool {
        if self.setting.definition.tools.is_empty() || self.state.missing.is_some() {
            return false;
        }
        match self.setting.definition.decision.tool_rule {
            ToolRule::None => false,
            ToolRule::Required => self.is_choosing(),
            ToolRule::Auto => {
                let rounds = self.setting.definition.decision.limits.iterations;
                self.state.rounds < rounds && !self.state.last_answer
            }
        }
    }

    pub(super) fn is_out_of_rounds(&self) -> bool {
        let decision = &self.setting.definition.decision;
        decision.tool_rule == ToolRule::Auto && self.state.rounds >= decision.limits.iterations
    }

    /// Whether the channel requires a tool, and no call that was asked for could run.
    pub(super) fn tool_is_due(&self) -> bool {
        let decision = &self.setting.definition.decision;
        decision.tool_rule == ToolRule::Required
            && self.state.rounds > 0
            && !self.state.admitted
            && !self.state.by_rule
    }

    /// Runs the channel's first tool, because the router chose none.
    pub(super) fn chose_nothing(&mut self, why: &str, at: Timestamp, record: &mut Record) {
        let tool = self.first_tool().map(|tool| tool.name.clone());
        let then =
            tool.as_ref().map_or_else(String::new, |tool| format!("; {tool} runs by the channel's rule"));
        let metadata =
            [("reason", Value::from("required_tool")), ("tool_name", tool.map_or(Value::Null, Value::from))];
        record.account(StepKind::Warning, format!("{why}{then}"), metadata);
        self.state.phase = Phase::Calling;
        self.call_first_tool(at, record);
    }

    /// Runs the channel's first tool, because none of the router's calls could run.
    pub(super) fn call_required(&mut self, at: Timestamp, record: &mut Record) {
        self.chose_nothing("nothing that the router chose could run", at, record);
    }

    fn call_first_tool(&mut self, at: Timestamp, record: &mut Record) {
        self.state.by_rule = true;
        if let Some(tool) = self.first_tool().cloned() {
            self.call_by_rule(&tool, json!({}), "the channel requires a tool", at, record);
        }
    }

    fn call_by_rule(
        &mut self,
        tool: &ToolSpec,
        arguments: Value,
        why: &str,
        at: Timestamp,
        record: &mut Record,
    ) {
        let admission = Admission::Fits { class: tool.class, egress: tool.trust.egress != Egress::No };
        let call = CheckedCall { provider_id: None, name: tool.name.clone(), arguments, admission };
        self.state.by_rule = true;
        self.called_by_rule(call, why, at, record);
    }

    /// Passes the router's question on to `reasoning`, if that is another model and may be asked; false if not.
    pub(super) fn escalates(&mut self, n: u32, doubt: Doubt, usage: Value, record: &mut Record) -> bool {
        let Some(rung) = self.somebody_else() else { return false };
        let (code, to) = (doubt.code(), Value::from(REASONING));
        let metadata = self.about_model([
            ("span_id", self.span(n)),
            ("error", Value::from(code.as_str())),
            ("reason", Value::from(doubt.reason())),
            ("escalated_to", to),
            ("usage", usage),
        ]);
        record.warn_about(code, format!("{}; asking {REASONING}", doubt.in_words()), metadata);
        self.state.escalated = true;
        self.turn_to(REASONING, ESCALATED);
        self.state.question = Question { rung, ..Question::default() };
        self.ask_try(1, record);
        true
    }

    /// The first `reasoning` candidate that is not the model just asked, by its place on the ladder.
    fn somebody_else(&self) -> Option<u32> {
        let definition = &self.setting.definition;
        if self.role() != ROUTER || self.state.escalated || !definition.decision.allows_role(REASONING) {
            return None;
        }
        let asked = self.rungs().into_iter().nth(self.state.question.rung as usize);
        let asked = asked.map(|rung| rung.candidate.into_owned().model);
        let is_else = |rung: &Rung<'_>| {
            rung.role == REASONING && self.may_be_asked(rung) && Some(&rung.candidate.model) != asked.as_ref()
        };
        definition.ladder(REASONING).iter().position(is_else).map(|at| at as u32)
    }

    /// Asks `reasoning` for a whole answer, because the router's was cut off and stands only until then; false if
    /// it cannot be asked.
    pub(super) fn says_more(&mut self, n: u32, record: &mut Record) -> bool {
        if self.somebody_else().is_none() {
            return false;
        }
        self.state.missing = Some(Missing { what: "it was cut off before its end".to_owned(), answer: n });
        self.state.checks += 1; // this is its one revision
        self.escalates(n, Doubt::CutOff, Value::Null, record)
    }

    /// Lets an answer that was cut off stand, with a warning.
    pub(super) fn cut_off(&self, record: &mut Record) {
        let decision = &self.setting.definition.decision;
        let forbidden = self.role() == ROUTER && !decision.allows_role(REASONING);
        let then = match forbidden {
            true => format!(
                "; the role `{REASONING}`, which may say more, is not allowed (rule {:?})",
                decision.rule
            ),
            false => String::new(),
        };
        let code = Code::BudgetExceeded;
        let metadata = [
            ("error", Value::from(code.as_str())),
            ("escalated_to", if forbidden { Value::from(PERSON) } else { Value::Null }),
        ];
        let why = format!("the answer was cut off at the limit of tokens for one answer{then}");
        record.warn_about(code, why, metadata);
    }

    /// Handles a failed model call that no other try of the same question helps.
    pub(super) fn nothing_helps(
        &mut self,
        purpose: &Purpose,
        failed: Failed,
        at: Timestamp,
        record: &mut Record,
    ) {
        let code = failed.fault.code;
        if let Purpose::Revision { .. } = purpose {
            return self.first_answer_stands(failed, record);
        }
        if *purpose == Purpose::Choice {
            let metadata = self.about_model([
                ("span_id", self.span(failed.n)),
                ("error", Value::from(code.as_str())),
                ("usage", failed.usage()),
            ]);
            record.warn_about(code, failed.fault.message.clone(), metadata);
            return self.chose_nothing("the router could not choose a tool", at, record);
        }
        let doubt = doubt(&failed);
        if !doubt.is_some_and(|doubt| self.escalates(failed.n, doubt, failed.usage(), record)) {
            return self.fail(failed, record);
        }
        if !failed.shown.is_empty() {
            record.emit(Event::Restarted { message_id: self.call_id(failed.n) }); // it refused after some words
        }
    }

    /// Why a failure is not passed on, or that it was already, in words for the user; none if neither applies.
    pub(super) fn no_further(&self, failed: &Failed) -> Option<String> {
        if self.state.why == ESCALATED {
            return Some("Both the router and the reasoning model were asked.".to_owned());
        }
        let decision = &self.setting.definition.decision;
        if doubt(failed).is_none() || self.role() != ROUTER {
            return None;
        }
        if self.state.escalated {
            return Some("It was passed on to the reasoning model once already.".to_owned());
        }
        if decision.allows_role(REASONING) {
            return None; // there is no other model
        }
        Some(format!(
            "It was not passed on: the role `{REASONING}` is not allowed (rule {:?}); allow it in `roles` of the policy.",
            decision.rule
        ))
    }
}

/// The doubt that lets a failure be passed on to `reasoning`. A timeout is not passed on, because that model
/// would take even longer.
fn doubt(failed: &Failed) -> Option<Doubt> {
    match failed.fault.code {
        Code::Refused => Some(Doubt::Refused),
        code @ (Code::LlmInvalidResponse | Code::LlmConnection | Code::LlmServer | Code::LlmRateLimited)
            if failed.shown.trim().is_empty() =>
        {
            Some(Doubt::Failed(code))
        }
        _ => None,
    }
}
