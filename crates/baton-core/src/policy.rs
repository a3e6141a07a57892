//! Policy: the table of permissions, and the decision that it makes for one request.
//!
//! The [`table`] is data: modes, channels, and their permissions. [`Policy::evaluate`] makes one
//! [`Decision`] of it, which names the cell that made it. A decision is taken at the start of a run and
//! stored with it. Only tools are also checked against the current policy, each time one is about to run: a
//! tool that the current policy denies, or would ask about where the decision does not, is refused; and its
//! output is untrusted if it was declared so when the run began or is now. Roles and limits stay as they were.

mod built_in;
pub mod explain;
pub mod table;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::budget::Limits;
use crate::thread::Closing;
use crate::tool::ToolSpec;
pub use table::{Row, Table, TableError};

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
    /// All of them, the strictest first.
    pub const ALL: [Mode; 3] = [Mode::Conservative, Mode::Moderate, Mode::Exploratory];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Conservative => "CONSERVATIVE",
            Mode::Moderate => "MODERATE",
            Mode::Exploratory => "EXPLORATORY",
        }
    }
}

/// The facts about a request that the policy judges by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request<'a> {
    /// How much the caller allows.
    pub mode: Mode,
    /// The channel that it came in on: `CHAT`, `CODE_TASK`, `SYSTEM_HEALTH` or one of the operator's.
    pub channel: &'a str,
}

/// How an effect with an unknown outcome is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUnknown {
    /// The model gets the outcome as unknown.
    #[default]
    TellModel,
    /// A user is asked whether it happened.
    AskPerson,
}

/// When an answer is checked before it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SelfCheck {
    /// Never.
    #[default]
    Never,
    /// If tools were used for it.
    AfterTools,
    /// Always.
    Always,
}

/// How a call that sends data out is handled once untrusted content or private data is on the branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UntrustedEgress {
    /// It runs.
    Allow,
    /// A user is asked first.
    #[default]
    Ask,
}

/// How a channel uses tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolRule {
    /// The model that is asked may call them.
    #[default]
    Auto,
    /// The router has to choose one first; then the answer is written without them.
    Required,
    /// No tools are used.
    None,
}

/// The channel of tools that are called outside any run.
pub const EXECUTE: &str = "EXECUTE";

/// The default role of a channel that selects the role by the question; see [`crate::role::select`].
pub const BY_QUESTION: &str = "auto";

/// The permissions and limits of one request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// The rule that made it.
    pub rule: String,
    /// The roles that may be asked.
    pub roles: Vec<String>,
    /// The tools that may be offered and run, as names or patterns with `*`.
    pub tools: Vec<String>,
    /// The calls that need a user's approval, as names or patterns with `*`.
    pub approvals: Vec<String>,
    /// How much it may use.
    pub limits: Limits,
    /// How long a user has to answer or decide.
    pub patience_ms: u64,
    /// How an unknown outcome is handled.
    #[serde(default)]
    pub on_unknown: OnUnknown,
    /// The role that answers, or [`BY_QUESTION`]; absent: the first of `roles`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_role: Option<String>,
    /// The role that answers once tools have run; absent: the role that was asked first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_tools: Option<String>,
    /// How tools are used.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub tool_rule: ToolRule,
    /// The tool that runs where one is required and none was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_tool: Option<String>,
    /// The tool that runs first if the request asks to look something up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search_first: Option<String>,
    /// The highest temperature; also the temperature of models that have none of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// When an answer is checked.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub self_check: SelfCheck,
    /// How calls that send data out are handled beside untrusted content or private data.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub untrusted_egress: UntrustedEgress,
    /// The tools that exist and are not allowed, each with the change that would allow it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub denied: BTreeMap<String, String>,
}

/// A decision's rule for one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallRule {
    /// It runs.
    Allowed,
    /// It runs when a user has approved it.
    NeedsApproval,
    /// It does not run.
    Denied,
}

impl Decision {
    /// The rule for calls of a tool.
    pub fn call(&self, tool: &str) -> CallRule {
        if !any_matches(&self.tools, tool) {
            CallRule::Denied
        } else if any_matches(&self.approvals, tool) {
            CallRule::NeedsApproval
        } else {
            CallRule::Allowed
        }
    }

    /// The status and the message to the model of a call outside the decision.
    pub fn refusal(&self, tool: &str) -> (Closing, String) {
        (Closing::Denied, format!("{tool} is not allowed here (rule {:?})", self.rule))
    }

    /// The change that would allow a tool that exists and is not allowed, in words for the user.
    pub fn would_allow(&self, tool: &str) -> Option<&str> {
        self.denied.get(tool).map(String::as_str)
    }

    /// Whether a role may be asked.
    pub fn allows_role(&self, role: &str) -> bool {
        self.roles.iter().any(|allowed| allowed == role)
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

/// The source of decisions.
#[derive(Debug, Clone, PartialEq)]
pub enum Policy {
    /// A table of modes and channels.
    Table(Table),
    /// The same decision for every request.
    Fixed(Box<Decision>),
}

impl Policy {
    /// The same decision for every request.
    pub fn fixed(decision: Decision) -> Self {
        Policy::Fixed(Box::new(decision))
    }

    /// Judges a request, given the tools that exist.
    pub fn evaluate(&self, request: &Request<'_>, tools: &[ToolSpec]) -> Result<Decision, TableError> {
        match self {
            Policy::Table(table) => table.evaluate(request, tools),
            Policy::Fixed(decision) => Ok((**decision).clone()),
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy::Table(Table::built_in())
    }
}

/// A decision that allows every tool, with no approvals and eight rounds.
pub fn default_decision() -> Decision {
    Decision {
        rule: "default".to_owned(),
        roles: vec!["reasoning".to_owned(), "router".to_owned(), "coding".to_owned()],
        tools: vec!["*".to_owned()],
        approvals: Vec::new(),
        limits: Limits::default(),
        patience_ms: 24 * 60 * 60 * 1000,
        on_unknown: OnUnknown::TellModel,
        default_role: None,
        after_tools: None,
        tool_rule: ToolRule::Auto,
        first_tool: None,
        search_first: None,
        temperature: None,
        self_check: SelfCheck::Never,
        untrusted_egress: UntrustedEgress::Ask,
        denied: BTreeMap::new(),
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
