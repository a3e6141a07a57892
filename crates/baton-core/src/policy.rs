//! What a request may do: readable rules, and the decision that they make.
//!
//! The rules are data, the engine is a first match, and every decision names its rule. A decision is
//! taken at the start of a run and kept with it; each effect is also checked against the policy of the
//! moment, so a run only ever gets stricter.

use serde::{Deserialize, Serialize};

use crate::budget::Limits;
use crate::thread::Closing;

/// How much a caller lets an agent do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Mode {
    /// As little as possible.
    Conservative,
    /// The default.
    #[default]
    Moderate,
    /// As much as the operator allows.
    Exploratory,
}

impl Mode {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Conservative => "CONSERVATIVE",
            Mode::Moderate => "MODERATE",
            Mode::Exploratory => "EXPLORATORY",
        }
    }
}

/// What is known of a request when it is judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request<'a> {
    /// How much the caller allows.
    pub mode: Mode,
    /// Where it came in: `CHAT`, `CODE_TASK`, `SYSTEM_HEALTH` or the operator's own.
    pub channel: &'a str,
}

/// What is done about an effect that nobody knows the outcome of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknown {
    /// The model is told.
    #[default]
    TellModel,
}

/// What one request may do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// The rule that made it.
    pub rule: String,
    /// The roles that may be asked.
    pub roles: Vec<String>,
    /// The tools that may be offered and run, as names or patterns with `*`.
    pub tools: Vec<String>,
    /// The calls that need a person's approval, as names or patterns with `*`.
    pub approvals: Vec<String>,
    /// How much it may use.
    pub limits: Limits,
    /// How long a person has to answer or decide.
    pub patience_ms: u64,
    /// What is done about an unknown outcome.
    #[serde(default)]
    pub on_unknown: OnUnknown,
}

/// What a decision says of one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallRule {
    /// It runs.
    Allowed,
    /// It runs when a person has approved it.
    NeedsApproval,
    /// It does not run.
    Denied,
}

impl Decision {
    /// What is said of a tool.
    pub fn call(&self, tool: &str) -> CallRule {
        if !any_matches(&self.tools, tool) {
            CallRule::Denied
        } else if any_matches(&self.approvals, tool) {
            CallRule::NeedsApproval
        } else {
            CallRule::Allowed
        }
    }

    /// What the model is told of a call outside the decision.
    pub fn refusal(&self, tool: &str) -> (Closing, String) {
        (Closing::Denied, format!("{tool} is not allowed here (rule {:?})", self.rule))
    }
}

fn any_matches(patterns: &[String], name: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, name))
}

/// Whether a name fits a pattern in which `*` stands for any text.
pub fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut rest = rest;
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// One line of the policy: when it applies, and what it decides.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// The modes that it applies to; empty: all.
    pub modes: Vec<Mode>,
    /// The channels that it applies to; empty: all.
    pub channels: Vec<String>,
    /// What it decides.
    pub decision: Decision,
}

/// The operator's rules, in order.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    /// The rules; the first that applies decides.
    pub rules: Vec<Rule>,
    /// What is decided where none applies.
    pub otherwise: Decision,
}

impl Policy {
    /// Judges a request.
    pub fn evaluate(&self, request: &Request<'_>) -> &Decision {
        let applies = |rule: &&Rule| {
            (rule.modes.is_empty() || rule.modes.contains(&request.mode))
                && (rule.channels.is_empty() || rule.channels.iter().any(|c| c == request.channel))
        };
        self.rules.iter().find(applies).map_or(&self.otherwise, |rule| &rule.decision)
    }
}

/// The built-in decision: every tool that is there, nothing to approve, eight rounds.
pub fn default_decision() -> Decision {
    Decision {
        rule: "default".to_owned(),
        roles: vec!["reasoning".to_owned(), "router".to_owned(), "coding".to_owned()],
        tools: vec!["*".to_owned()],
        approvals: Vec::new(),
        limits: Limits::default(),
        patience_ms: 24 * 60 * 60 * 1000,
        on_unknown: OnUnknown::TellModel,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        let yes = [
            ("*", "a"),
            ("*", ""),
            ("a*", "abc"),
            ("*c", "abc"),
            ("a*c", "abc"),
            ("a*b*c", "aXbYc"),
            ("abc", "abc"),
            ("a*", "a"),
        ];
        let no = [("", "a"), ("a", "ab"), ("a*c", "ab"), ("b*", "abc"), ("a*b*c", "acb"), ("abc", "ab")];
        assert!(yes.iter().all(|(p, n)| matches(p, n)), "{:?}", yes.iter().find(|(p, n)| !matches(p, n)));
        assert!(!no.iter().any(|(p, n)| matches(p, n)), "{:?}", no.iter().find(|(p, n)| matches(p, n)));
    }

    #[test]
    fn the_first_rule_that_applies_decides_and_is_named() {
        let rule = |name: &str, modes: Vec<Mode>, channels: &[&str]| Rule {
            modes,
            channels: channels.iter().map(|c| (*c).to_owned()).collect(),
            decision: Decision { rule: name.to_owned(), ..default_decision() },
        };
        let policy = Policy {
            rules: vec![rule("careful", vec![Mode::Conservative], &[]), rule("code", vec![], &["CODE_TASK"])],
            otherwise: default_decision(),
        };
        let named = |mode, channel| policy.evaluate(&Request { mode, channel }).rule.clone();
        assert_eq!(named(Mode::Conservative, "CODE_TASK"), "careful");
        assert_eq!(named(Mode::Moderate, "CODE_TASK"), "code");
        assert_eq!(named(Mode::Moderate, "CHAT"), "default");
    }

    #[test]
    fn a_call_is_allowed_asked_about_or_denied() {
        let decision = Decision {
            tools: vec!["read_*".to_owned(), "write".to_owned()],
            approvals: vec!["write".to_owned()],
            ..default_decision()
        };
        assert_eq!(decision.call("read_file"), CallRule::Allowed);
        assert_eq!(decision.call("write"), CallRule::NeedsApproval);
        assert_eq!(decision.call("delete"), CallRule::Denied);
    }
}
