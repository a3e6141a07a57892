//! The budget of a run tree: reserved before an effect starts, settled after it ended.

use serde::{Deserialize, Serialize};

use crate::chat::TokenUsage;

/// The limits of a run tree. An absent one is no limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Rounds of one model call with tools and the tools it asked for.
    pub iterations: u32,
    /// Time spent on anything but waiting for users.
    pub active_ms: u64,
    /// Tokens read and written.
    pub tokens: Option<u64>,
    /// Tool calls started.
    pub tool_calls: Option<u32>,
    /// Cost in millionths of a US dollar.
    pub cost_micro_usd: Option<u64>,
    /// Tokens that one answer may have, which a model call reserves.
    pub answer_tokens: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            iterations: 8,
            active_ms: 600_000,
            tokens: None,
            tool_calls: None,
            cost_micro_usd: None,
            answer_tokens: 4096,
        }
    }
}

/// A limit that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// See [`Limits::iterations`].
    Iterations,
    /// See [`Limits::active_ms`].
    ActiveTime,
    /// See [`Limits::tokens`].
    Tokens,
    /// See [`Limits::tool_calls`].
    ToolCalls,
    /// See [`Limits::cost_micro_usd`].
    Cost,
    /// A cost limit is set and the cost of a call is not known.
    UnknownPrice,
}

impl Limit {
    /// In words, for warnings and errors.
    pub fn in_words(self) -> &'static str {
        match self {
            Limit::Iterations => "the limit of tool rounds",
            Limit::ActiveTime => "the time limit",
            Limit::Tokens => "the token limit",
            Limit::ToolCalls => "the limit of tool calls",
            Limit::Cost => "the cost limit",
            Limit::UnknownPrice => "a cost limit for a model whose price is not known",
        }
    }
}

/// The consumption and the reservations of a run tree.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Budget {
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
    /// Model calls started.
    pub model_calls: u32,
    /// Tool calls started.
    pub tool_calls: u32,
    /// Time spent, without waiting for users.
    pub active_ms: u64,
    /// Cost so far.
    pub cost_micro_usd: u64,
    /// Model calls whose price is not known.
    pub unpriced: u32,
    /// Tokens set aside for calls in flight.
    pub reserved_tokens: u64,
    /// Tokens that the last call read: the next one will read about as many.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub last_prompt: u64,
    /// Steps of the account that name an error.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub errors: u32,
    /// Model calls whose tokens were estimated, because their provider did not report them.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub estimated: u32,
}

impl Budget {
    /// Reserves the tokens that a model call may write; it may start if the tokens that it will read fit, too.
    pub fn reserve_model(&mut self, limits: &Limits) -> Result<(), Limit> {
        let set_aside = self.reserved_tokens.saturating_add(limits.answer_tokens);
        let total = self.tokens().saturating_add(set_aside).saturating_add(self.last_prompt);
        if limits.tokens.is_some_and(|most| total > most) {
            return Err(Limit::Tokens);
        }
        if let Some(most) = limits.cost_micro_usd {
            if self.unpriced > 0 {
                return Err(Limit::UnknownPrice);
            }
            if self.cost_micro_usd >= most {
                return Err(Limit::Cost);
            }
        }
        self.reserved_tokens = set_aside;
        self.model_calls += 1;
        Ok(())
    }

    /// Replaces a reservation by the tokens used. A provider may report any number, so sums saturate.
    pub fn settle_model(&mut self, limits: &Limits, usage: Option<&TokenUsage>) {
        self.reserved_tokens = self.reserved_tokens.saturating_sub(limits.answer_tokens);
        let Some(usage) = usage else { return };
        self.prompt_tokens = self.prompt_tokens.saturating_add(usage.prompt_tokens);
        self.completion_tokens = self.completion_tokens.saturating_add(usage.completion_tokens);
        self.last_prompt = usage.prompt_tokens;
        self.estimated = self.estimated.saturating_add(u32::from(usage.estimated));
        match usage.cost_micro_usd {
            Some(cost) => self.cost_micro_usd = self.cost_micro_usd.saturating_add(cost),
            None => self.unpriced += 1,
        }
    }

    /// Takes back the reservation of a model call that was not made.
    pub fn unreserve_model(&mut self, limits: &Limits) {
        self.settle_model(limits, None);
        self.model_calls = self.model_calls.saturating_sub(1);
    }

    /// Counts a tool call that is about to start.
    pub fn reserve_tool(&mut self, limits: &Limits) -> Result<(), Limit> {
        if limits.tool_calls.is_some_and(|most| self.tool_calls >= most) {
            return Err(Limit::ToolCalls);
        }
        self.tool_calls += 1;
        Ok(())
    }

    /// Milliseconds of activity that are left.
    pub fn active_left_ms(&self, limits: &Limits) -> u64 {
        limits.active_ms.saturating_sub(self.active_ms)
    }

    fn tokens(&self) -> u64 {
        self.prompt_tokens.saturating_add(self.completion_tokens)
    }

    /// The totals for a `done` event.
    pub fn usage(&self) -> crate::run::Usage {
        crate::run::Usage {
            tokens: self.tokens(),
            prompt_tokens: self.prompt_tokens,
            completion_tokens: self.completion_tokens,
            cost_usd: (self.unpriced == 0).then(|| self.cost_micro_usd as f64 / 1e6),
            estimated: self.estimated > 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_the_budget_cannot_cover_is_not_begun() {
        let limits = Limits { tokens: Some(100), answer_tokens: 60, ..Limits::default() };
        let mut budget = Budget::default();
        assert_eq!(budget.reserve_model(&limits), Ok(()));
        assert_eq!(budget.reserve_model(&limits), Err(Limit::Tokens), "60 are already set aside");
        let usage =
            TokenUsage { prompt_tokens: 30, completion_tokens: 5, cost_micro_usd: Some(0), estimated: false };
        budget.settle_model(&limits, Some(&usage));
        assert_eq!((budget.reserved_tokens, budget.usage().tokens), (0, 35));
        assert_eq!(
            budget.reserve_model(&limits),
            Err(Limit::Tokens),
            "35 used, 30 to read again, 60 to write"
        );
        let roomier = Limits { tokens: Some(125), ..limits };
        assert_eq!(budget.reserve_model(&roomier), Ok(()));
    }

    #[test]
    fn a_call_that_was_not_made_costs_nothing() {
        let limits = Limits { tokens: Some(100), answer_tokens: 60, ..Limits::default() };
        let mut budget = Budget::default();
        budget.reserve_model(&limits).unwrap();
        budget.unreserve_model(&limits);
        assert_eq!(budget, Budget::default());
    }

    #[test]
    fn the_next_call_is_expected_to_read_what_the_last_one_did() {
        let limits = Limits { tokens: Some(100), answer_tokens: 10, ..Limits::default() };
        let used = |prompt_tokens| TokenUsage {
            prompt_tokens,
            completion_tokens: 1,
            cost_micro_usd: Some(0),
            estimated: false,
        };
        let mut budget = Budget::default();
        budget.reserve_model(&limits).unwrap();
        budget.settle_model(&limits, Some(&used(40)));
        assert_eq!((budget.last_prompt, budget.clone().reserve_model(&limits)), (40, Ok(())), "41 + 40 + 10");
        budget.reserve_model(&limits).unwrap();
        budget.settle_model(&limits, None);
        assert_eq!(budget.last_prompt, 40, "one that nothing is known of changes nothing");
        budget.reserve_model(&limits).unwrap();
        budget.unreserve_model(&limits);
        assert_eq!((budget.last_prompt, budget.reserved_tokens), (40, 0));

        let mut shorter = budget.clone();
        shorter.settle_model(&limits, Some(&used(5)));
        assert_eq!(
            shorter.reserve_model(&limits),
            Ok(()),
            "47 + 5 + 10: after a summary there is less to read"
        );
        budget.settle_model(&limits, Some(&used(9)));
        budget.last_prompt = 40;
        let before = budget.clone();
        assert_eq!(budget.reserve_model(&limits), Err(Limit::Tokens), "51 + 40 + 10");
        assert_eq!(budget, before, "what was refused is not set aside");
    }

    #[test]
    fn a_cost_limit_ends_with_the_call_that_reaches_it() {
        let limits = Limits { cost_micro_usd: Some(10), ..Limits::default() };
        let used = |cost| TokenUsage { cost_micro_usd: Some(cost), ..TokenUsage::default() };
        let mut budget = Budget::default();
        budget.settle_model(&limits, Some(&used(9)));
        assert_eq!(budget.reserve_model(&limits), Ok(()));
        budget.settle_model(&limits, Some(&used(1)));
        assert_eq!(budget.reserve_model(&limits), Err(Limit::Cost));
        assert_eq!(budget.usage().cost_usd, Some(0.00001));
    }

    #[test]
    fn what_was_stored_before_the_last_prompt_was_kept_is_read() {
        let stored = serde_json::json!({
            "prompt_tokens": 1, "completion_tokens": 2, "model_calls": 3, "tool_calls": 4, "active_ms": 5,
            "cost_micro_usd": 6, "unpriced": 7, "reserved_tokens": 8,
        });
        let budget: Budget = serde_json::from_value(stored.clone()).unwrap();
        assert_eq!((budget.last_prompt, serde_json::to_value(&budget).unwrap()), (0, stored));
    }

    #[test]
    fn an_estimate_counts_like_a_report_and_says_so() {
        let limits = Limits { tokens: Some(100), answer_tokens: 10, ..Limits::default() };
        let told = TokenUsage { prompt_tokens: 40, completion_tokens: 5, ..TokenUsage::default() };
        let mut budget = Budget::default();
        budget.settle_model(&limits, Some(&told));
        assert!(!budget.usage().estimated);
        assert_eq!(serde_json::to_value(&budget).unwrap().get("estimated"), None, "stored as it always was");
        budget.settle_model(&limits, Some(&TokenUsage { estimated: true, ..told }));
        assert_eq!((budget.estimated, budget.usage().estimated, budget.usage().tokens), (1, true, 90));
        assert_eq!(budget.reserve_model(&limits), Err(Limit::Tokens));
    }

    #[test]
    fn no_number_of_a_provider_is_too_large() {
        let limits = Limits { tokens: Some(100), cost_micro_usd: Some(1), ..Limits::default() };
        let most = TokenUsage {
            prompt_tokens: u64::MAX,
            completion_tokens: u64::MAX,
            cost_micro_usd: Some(u64::MAX),
            estimated: false,
        };
        let mut budget = Budget::default();
        budget.settle_model(&limits, Some(&most));
        budget.settle_model(&limits, Some(&most));
        assert_eq!((budget.usage().tokens, budget.cost_micro_usd), (u64::MAX, u64::MAX));
        assert_eq!(budget.reserve_model(&limits), Err(Limit::Tokens));
        let free = Limits { answer_tokens: u64::MAX, ..Limits::default() };
        assert_eq!(budget.reserve_model(&free), Ok(()));
    }

    #[test]
    fn calls_are_counted_exactly() {
        let limits = Limits { tool_calls: Some(2), ..Limits::default() };
        let mut budget = Budget::default();
        let taken: Vec<_> = (0..3).map(|_| budget.reserve_tool(&limits)).collect();
        assert_eq!(taken, [Ok(()), Ok(()), Err(Limit::ToolCalls)]);
        assert_eq!(budget.tool_calls, 2);
    }

    #[test]
    fn an_unknown_price_is_never_zero() {
        let mut budget = Budget::default();
        let limits = Limits { cost_micro_usd: Some(10), ..Limits::default() };
        budget.settle_model(&limits, Some(&TokenUsage::default()));
        assert_eq!(budget.usage().cost_usd, None);
        assert_eq!(budget.reserve_model(&limits), Err(Limit::UnknownPrice));
    }
}
