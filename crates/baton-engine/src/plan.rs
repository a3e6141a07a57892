//! The plan of a driver, from the effects that a flow wants: a decision without I/O.

use std::collections::BTreeSet;

use baton_core::budget::{Budget, Limit, Limits};
use baton_core::effect::{Effect, EffectKind, Wait};
use baton_core::flow::Next;
use baton_core::run::Verdict;
use baton_core::time::Timestamp;
use baton_store::Intent;

/// The result of a decision.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Plan {
    /// Start these (none, if it only waits for effects in flight).
    Go(Vec<Intent>),
    /// Only waits are outstanding: suspend until then.
    Suspend(Timestamp),
    /// It is over.
    End(Verdict),
    /// The flow wants nothing and nothing is in flight: an internal fault.
    Stuck,
}

/// The input of a decision: the wanted effects, those in flight, and the budget's limits.
pub(crate) struct Look<'a> {
    pub(crate) next: Next,
    /// The numbers of the effects in flight.
    pub(crate) flying: &'a BTreeSet<u32>,
    /// The intents that a crash interrupted and that may run again.
    pub(crate) again: &'a [Intent],
    pub(crate) limits: &'a Limits,
    /// How many tokens a model call may write.
    pub(crate) answer: &'a dyn Fn(&EffectKind) -> u64,
    pub(crate) at_once: usize,
    /// Start nothing and end nothing: there are inputs to apply first.
    pub(crate) hold: bool,
}

impl Look<'_> {
    /// Decides, and reserves the decision's cost. The second answer is the effect that the budget
    /// does not cover, if there is one.
    pub(crate) fn decide(self, budget: &mut Budget) -> (Plan, Option<(Limit, u32)>) {
        let wanted = match self.next {
            Next::Finish(verdict) if !self.hold => return (Plan::End(verdict), None),
            Next::Finish(_) => return (Plan::Go(Vec::new()), None),
            Next::Want(_) if self.hold => return (Plan::Go(Vec::new()), None),
            Next::Want(ref wanted) => wanted,
        };
        let room = self.at_once.saturating_sub(self.flying.len());
        let fresh = |effect: &&Effect| !effect.kind.is_wait() && !self.flying.contains(&effect.n);
        let mut start = Vec::new();
        for effect in wanted.iter().filter(fresh).take(room) {
            match self.reserve(effect, budget) {
                Ok(intent) => start.push(intent),
                Err(limit) => return (Plan::Go(start), Some((limit, effect.n))),
            }
        }
        (self.rest_or_go(wanted, start), None)
    }

    fn reserve(&self, effect: &Effect, budget: &mut Budget) -> Result<Intent, Limit> {
        if let Some(before) = self.again.iter().find(|before| before.effect.n == effect.n) {
            // Its cost was reserved when it started first.
            return Ok(Intent { effect: effect.clone(), attempt: before.attempt + 1, shown: false });
        }
        match effect.kind {
            EffectKind::Model { .. } => {
                let answer_tokens = (self.answer)(&effect.kind);
                budget.reserve_model(&Limits { answer_tokens, ..self.limits.clone() })?;
            }
            EffectKind::Tool { .. } => budget.reserve_tool(self.limits)?,
            EffectKind::Wait { .. } => {}
        }
        Ok(Intent { effect: effect.clone(), attempt: 1, shown: false })
    }

    fn rest_or_go(&self, wanted: &[Effect], start: Vec<Intent>) -> Plan {
        let is_person = |effect: &Effect| {
            matches!(&effect.kind, EffectKind::Wait { what: Wait::Approval { .. } | Wait::Answer { .. }, .. })
        };
        let queued = wanted.iter().any(|effect| !is_person(effect)); // a pause is sat out, not suspended
        if !start.is_empty() || !self.flying.is_empty() || !self.again.is_empty() || queued {
            return Plan::Go(start);
        }
        let deadline = |effect: &Effect| match &effect.kind {
            EffectKind::Wait { deadline, .. } => Some(*deadline),
            _ => None,
        };
        match wanted.iter().filter_map(deadline).min() {
            Some(wake_at) => Plan::Suspend(wake_at),
            None => Plan::Stuck,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::tool::EffectClass;

    fn tool(n: u32) -> Effect {
        let kind = EffectKind::Tool {
            call_id: n.to_string(),
            name: "t".to_owned(),
            entry: 0,
            class: EffectClass::Unsafe,
            edited_by: None,
            again: 0,
        };
        Effect { n, kind }
    }

    fn wait(n: u32, at: i64) -> Effect {
        let what = Wait::Answer { call_id: n.to_string() };
        Effect { n, kind: EffectKind::Wait { what, deadline: Timestamp(at) } }
    }

    fn intent(n: u32, attempt: u32) -> Intent {
        Intent { effect: tool(n), attempt, shown: false }
    }

    fn decide(
        wanted: Vec<Effect>,
        flying: &[u32],
        again: &[Intent],
        limits: &Limits,
        hold: bool,
    ) -> (Plan, Option<(Limit, u32)>) {
        let flying = flying.iter().copied().collect();
        let answer = |_: &EffectKind| limits.answer_tokens;
        Look { next: Next::Want(wanted), flying: &flying, again, limits, answer: &answer, at_once: 2, hold }
            .decide(&mut Budget::default())
    }

    #[test]
    fn starts_what_is_wanted_up_to_the_limit() {
        let limits = Limits::default();
        let all = || vec![tool(1), tool(2), tool(3)];
        assert_eq!(
            decide(all(), &[], &[], &limits, false),
            (Plan::Go(vec![intent(1, 1), intent(2, 1)]), None)
        );
        assert_eq!(decide(all(), &[1], &[], &limits, false), (Plan::Go(vec![intent(2, 1)]), None));
        assert_eq!(decide(all(), &[1, 2], &[], &limits, false), (Plan::Go(vec![]), None));
        assert_eq!(decide(all(), &[], &[], &limits, true), (Plan::Go(vec![]), None), "held");
    }

    #[test]
    fn rests_when_only_waits_are_left() {
        let limits = Limits::default();
        assert_eq!(
            decide(vec![wait(1, 50), wait(2, 40)], &[], &[], &limits, false),
            (Plan::Suspend(Timestamp(40)), None)
        );
        assert_eq!(decide(vec![wait(1, 50)], &[7], &[], &limits, false), (Plan::Go(vec![]), None));
        assert_eq!(decide(vec![], &[], &[], &limits, false), (Plan::Stuck, None));
        let pause = Effect { n: 9, kind: EffectKind::Wait { what: Wait::Time, deadline: Timestamp(30) } };
        assert_eq!(
            decide(vec![pause], &[], &[], &limits, false),
            (Plan::Go(vec![]), None),
            "a pause is sat out"
        );
        let unsettled = decide(vec![wait(1, 50)], &[], &[intent(7, 1)], &limits, false);
        assert_eq!(unsettled, (Plan::Go(vec![]), None), "what a crash interrupted is settled first");
    }

    #[test]
    fn what_the_budget_does_not_cover_is_named_and_not_started() {
        let limits = Limits { tool_calls: Some(1), ..Limits::default() };
        let found = decide(vec![tool(1), tool(2)], &[], &[], &limits, false);
        assert_eq!(found, (Plan::Go(vec![intent(1, 1)]), Some((Limit::ToolCalls, 2))));
    }

    #[test]
    fn what_a_crash_interrupted_keeps_its_number_and_costs_nothing_more() {
        let limits = Limits { tool_calls: Some(0), ..Limits::default() };
        let found = decide(vec![tool(1)], &[], &[intent(1, 2)], &limits, false);
        assert_eq!(found, (Plan::Go(vec![intent(1, 3)]), None));
    }
}
