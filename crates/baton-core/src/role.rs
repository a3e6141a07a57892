//! Roles that models are asked in, and the candidates that may answer in each.
//!
//! A role is an ordered list of candidates. The first is asked; the rest stand in for it when it fails.
//! When no candidate of a role can answer, a lesser role may: that is the downgrade to [`ROUTER`].

pub mod select;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::tool::ToolSpec;

/// The quick and small role: short facts, choices, checks, summaries.
pub const ROUTER: &str = "router";
/// The role for questions that need thought.
pub const REASONING: &str = "reasoning";
/// The role that writes code.
pub const CODING: &str = "coding";

/// A model that may answer in a role, and how it is asked.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// The model, as `provider/name`.
    pub model: String,
    /// Its temperature; absent: the provider's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The most tokens of one answer; absent: the limit of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// The size of its context window in tokens, for input and output together; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
}

impl Candidate {
    /// A candidate with a model and no settings.
    pub fn of(model: impl Into<String>) -> Self {
        Candidate { model: model.into(), ..Candidate::default() }
    }

    /// How many tokens one answer may have: at most the run's limit, and never over a quarter of the window.
    pub fn answer_tokens(&self, allowed: u64) -> u64 {
        let most = self.max_tokens.unwrap_or(allowed).min(allowed);
        self.context_window.map_or(most, |window| most.min((window / 4).max(1)))
    }

    /// How many tokens of history fit beside the answer, the instructions and the tools; none where the window is
    /// not known. A tenth is left over: a tokenizer that is only guessed is wrong by about that much.
    pub fn room(
        &self,
        answer: u64,
        system: &str,
        tools: &[ToolSpec],
        count: &dyn Fn(&str) -> u64,
    ) -> Option<u64> {
        let window = self.context_window?;
        let tool = |tool: &ToolSpec| {
            count(&tool.name) + count(&tool.description) + count(&tool.input_schema.to_string())
        };
        let fixed = count(system) + tools.iter().map(tool).sum::<u64>();
        Some(window.saturating_sub(answer + fixed) / 10 * 9)
    }
}

/// The candidates of every role that has its own.
pub type Roles = BTreeMap<String, Vec<Candidate>>;

/// One rung of the ladder that a question goes down when models fail.
#[derive(Debug, Clone, PartialEq)]
pub struct Rung<'a> {
    /// The role that the candidate is asked in.
    pub role: &'a str,
    /// The candidate.
    pub candidate: Cow<'a, Candidate>,
}

/// The candidates that may be asked in a role, best first: its own, then those of the router, if that role is
/// allowed. Each model is on the ladder once.
pub fn ladder<'a>(roles: &'a Roles, otherwise: &str, allowed: &[String], role: &'a str) -> Vec<Rung<'a>> {
    let own = |role: &str| roles.get(role).map(Vec::as_slice).unwrap_or_default();
    let lesser = (role != ROUTER && allowed.iter().any(|role| role == ROUTER)).then_some(ROUTER);
    let mut rungs: Vec<Rung<'a>> = Vec::new();
    for role in [role].into_iter().chain(lesser) {
        let stands = |rungs: &[Rung<'_>], model: &str| rungs.iter().any(|rung| rung.candidate.model == model);
        if own(role).is_empty() && !stands(&rungs, otherwise) {
            rungs.push(Rung { role, candidate: Cow::Owned(Candidate::of(otherwise)) });
        }
        for candidate in own(role) {
            if !stands(&rungs, &candidate.model) {
                rungs.push(Rung { role, candidate: Cow::Borrowed(candidate) });
            }
        }
    }
    rungs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rungs(roles: &[(&str, &[&str])], allowed: &[&str], role: &str) -> Vec<(String, String)> {
        let of = |models: &[&str]| models.iter().map(|model| Candidate::of(*model)).collect();
        let roles = roles.iter().map(|(role, models)| ((*role).to_owned(), of(models))).collect();
        let allowed: Vec<String> = allowed.iter().map(|role| (*role).to_owned()).collect();
        let named = |rung: Rung<'_>| (rung.role.to_owned(), rung.candidate.model.clone());
        ladder(&roles, "else", &allowed, role).into_iter().map(named).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(role, model)| ((*role).to_owned(), (*model).to_owned())).collect()
    }

    #[test]
    fn a_role_comes_before_the_router_and_nobody_twice() {
        let roles: &[(&str, &[&str])] =
            &[("reasoning", &["big", "mid", "big"]), ("router", &["mid", "small"])];
        let both = rungs(roles, &["reasoning", "router"], "reasoning");
        assert_eq!(both, pairs(&[("reasoning", "big"), ("reasoning", "mid"), ("router", "small")]));
        assert_eq!(
            rungs(roles, &["reasoning"], "reasoning"),
            pairs(&[("reasoning", "big"), ("reasoning", "mid")])
        );
        assert_eq!(rungs(roles, &["router"], "router"), pairs(&[("router", "mid"), ("router", "small")]));
    }

    #[test]
    fn an_answer_and_the_history_share_the_window() {
        let count = |text: &str| text.len() as u64;
        let asked = |max_tokens, context_window| {
            let candidate = Candidate { max_tokens, context_window, ..Candidate::of("m") };
            let answer = candidate.answer_tokens(100);
            (answer, candidate.room(answer, "sys", &[], &count))
        };
        assert_eq!(asked(None, None), (100, None));
        assert_eq!(asked(Some(30), None), (30, None));
        assert_eq!(asked(Some(300), Some(1003)), (100, Some(810)));
        assert_eq!(asked(None, Some(200)), (50, Some(126)), "a quarter for the answer");
        assert_eq!(asked(None, Some(1)), (1, Some(0)));
    }

    #[test]
    fn a_role_without_a_list_is_answered_by_the_one_model() {
        assert_eq!(rungs(&[], &["reasoning", "router"], "reasoning"), pairs(&[("reasoning", "else")]));
        let roles: &[(&str, &[&str])] = &[("router", &["small"]), ("coding", &[])];
        assert_eq!(rungs(roles, &["router"], "coding"), pairs(&[("coding", "else"), ("router", "small")]));
    }
}
