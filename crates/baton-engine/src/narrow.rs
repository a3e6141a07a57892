//! The limits that a caller requests below those of the policy.

use baton_core::policy::Decision;

/// The limits that a caller requests below those of the policy. A limit above the policy's is capped, with a warning.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Narrow {
    /// Rounds of one model call and the tools it asked for.
    pub iterations: Option<u32>,
    /// Time spent on anything but waiting for users.
    pub active_ms: Option<u64>,
    /// The most tokens of one answer.
    pub answer_tokens: Option<u64>,
    /// The sampling temperature of models.
    pub temperature: Option<f64>,
}

impl Narrow {
    /// Lowers the limits of a decision to the requested ones.
    pub(crate) fn apply(&self, decision: &mut Decision) {
        let limits = &mut decision.limits;
        limits.iterations = self.iterations.map_or(limits.iterations, |n| n.min(limits.iterations));
        limits.active_ms = self.active_ms.map_or(limits.active_ms, |n| n.min(limits.active_ms));
        limits.answer_tokens =
            self.answer_tokens.map_or(limits.answer_tokens, |n| n.min(limits.answer_tokens));
        if let Some(wanted) = self.temperature {
            decision.temperature = Some(decision.temperature.map_or(wanted, |most| wanted.min(most)));
        }
    }

    /// The requested limits that are above the allowed ones, in words.
    pub(crate) fn above(&self, decision: &Decision) -> Vec<String> {
        let limits = &decision.limits;
        let told = |what: &str, wanted: f64, most: f64| {
            let rule = &decision.rule;
            (wanted > most)
                .then(|| format!("{what} {wanted} is more than rule {rule:?} allows: it is {most}"))
        };
        let number = |n: u64| n as f64;
        [
            self.iterations.and_then(|n| told("max_iterations", n.into(), limits.iterations.into())),
            self.active_ms
                .and_then(|n| told("timeout_s", number(n) / 1000.0, number(limits.active_ms) / 1000.0)),
            self.answer_tokens.and_then(|n| told("max_tokens", number(n), number(limits.answer_tokens))),
            self.temperature.zip(decision.temperature).and_then(|(n, most)| told("temperature", n, most)),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::policy::default_decision;

    #[test]
    fn less_is_taken_and_more_is_capped_and_told() {
        let decision = Decision { temperature: Some(0.5), ..default_decision() };
        let less = Narrow {
            iterations: Some(2),
            active_ms: Some(1),
            answer_tokens: Some(9),
            temperature: Some(0.1),
        };
        let mut narrowed = decision.clone();
        less.apply(&mut narrowed);
        let mut expected = Decision { temperature: Some(0.1), ..decision.clone() };
        (expected.limits.iterations, expected.limits.active_ms, expected.limits.answer_tokens) = (2, 1, 9);
        assert_eq!((narrowed, less.above(&decision)), (expected, vec![]));

        let more = Narrow {
            iterations: Some(99),
            active_ms: Some(600_001),
            answer_tokens: Some(5000),
            temperature: Some(0.6),
        };
        let mut capped = decision.clone();
        more.apply(&mut capped);
        let told = [
            "max_iterations 99 is more than rule \"default\" allows: it is 8",
            "timeout_s 600.001 is more than rule \"default\" allows: it is 600",
            "max_tokens 5000 is more than rule \"default\" allows: it is 4096",
            "temperature 0.6 is more than rule \"default\" allows: it is 0.5",
        ];
        assert_eq!((capped, more.above(&decision)), (decision, told.map(str::to_owned).to_vec()));
    }
}
