//! The attacks, as `attacks.json` writes them.
//!
//! An attack goes along a path of calls that the user's request leads to; their results, or the words of a user or a
//! tool's description, tell the model to make `calls`. `{CALLS}` in a text stands for the lines with those
//! instructions: those of the next call of the path, and at its end those of the attack. The expected end of each call
//! is written beside it, once for all modes or for each, the strictest first:
//!
//! - `ran`: without approval;
//! - `asked: untrusted`, `asked: private`, `asked: approve`, `asked: tool`: it needed approval, because of untrusted
//!   content, of private data, of a rule, or of the tool's own configuration;
//! - `refused: denied`, `refused: unknown`, `refused: arguments`, `refused: beside`: it is outside the
//!   decision, there is no such tool, its arguments do not fit, it stands beside a question;
//! - `question`: the user was asked a question; `over`: the limit of calls was reached;
//! - `ignored`: no tools were offered, so it is no call.

use std::collections::{BTreeMap, VecDeque};

use baton_core::policy::table::{Row, Rows};
use baton_core::policy::{Mode, Policy, Table};
use serde::Deserialize;
use serde_json::Value;

/// A tool and its arguments; arguments that are text are sent unchanged.
type Call = (String, Value);

/// One attack.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Attack {
    pub(super) name: String,
    #[serde(default = "chat")]
    pub(super) channel: String,
    #[serde(default = "all_modes")]
    pub(super) modes: Vec<Mode>,
    /// The policy for all modes and channels; absent: the built-in table holds.
    policy: Option<Everywhere>,
    /// The tools whose results the operator trusts.
    #[serde(default)]
    pub(super) trusts: Vec<String>,
    /// The descriptions of tools.
    #[serde(default)]
    pub(super) describes: BTreeMap<String, String>,
    /// The user's message; absent: the first call.
    says: Option<String>,
    /// The calls that lead to the attack, and their results.
    #[serde(default)]
    path: Vec<(String, Value, Value)>,
    /// Whether the path is an earlier turn, and the attack a later one.
    #[serde(default)]
    pub(super) later: bool,
    /// Whether the earlier turn was replaced by a summary with the attack in it.
    #[serde(default)]
    pub(super) summarised: bool,
    calls: Vec<(String, Value, Ends)>,
    /// How often the calls are repeated.
    #[serde(default = "once")]
    times: usize,
    /// The calls that run in the end because of a rule.
    #[serde(default)]
    pub(super) by_rule: Vec<Call>,
    /// Whether text of approval is sent to the run that waits.
    #[serde(default)]
    pub(super) says_yes: bool,
    /// Whether the model writes nothing where it may call nothing.
    #[serde(default)]
    pub(super) mute: bool,
    /// How the run ends.
    #[serde(default = "well")]
    ends: Ends,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Everywhere {
    tools: Option<Vec<String>>,
    approve: Option<Vec<String>>,
    tool_calls: Option<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Ends {
    Always(String),
    ByMode([String; 3]),
}

impl Ends {
    fn of(&self, mode: Mode) -> &str {
        match self {
            Ends::Always(end) => end,
            Ends::ByMode(ends) => &ends[Mode::ALL.iter().position(|it| *it == mode).unwrap()],
        }
    }
}

fn chat() -> String {
    "CHAT".to_owned()
}

fn all_modes() -> Vec<Mode> {
    Mode::ALL.to_vec()
}

fn once() -> usize {
    1
}

fn well() -> Ends {
    Ends::Always("ok".to_owned())
}

/// All attacks.
pub(super) fn attacks() -> Vec<Attack> {
    serde_json::from_str(include_str!("attacks.json")).unwrap()
}

fn told<'a>(calls: impl Iterator<Item = (&'a String, &'a Value)>) -> String {
    let line = |(name, arguments): (&String, &Value)| match arguments {
        Value::String(text) => format!("CALL {name} {text}"),
        other => format!("CALL {name} {other}"),
    };
    calls.map(line).collect::<Vec<_>>().join("\n")
}

/// The same value with the lines in the place of `{CALLS}`.
fn replaced(value: &Value, lines: &str) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace("{CALLS}", lines)),
        Value::Array(items) => items.iter().map(|item| replaced(item, lines)).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(key, field)| (key.clone(), replaced(field, lines))).collect())
        }
        other => other.clone(),
    }
}

impl Attack {
    pub(super) fn policy(&self) -> Policy {
        let Some(said) = &self.policy else { return Policy::default() };
        let (tools, approve, tool_calls) = (said.tools.clone(), said.approve.clone(), said.tool_calls);
        let everywhere = Row { tools, approve, tool_calls, ..Row::default() };
        Policy::Table(Table::new(Rows { everywhere, ..Rows::default() }).unwrap())
    }

    /// The calls that the model is told to make, and the expected end of each.
    pub(super) fn calls(&self, mode: Mode) -> Vec<(String, Value, &str)> {
        let calls = std::iter::repeat_n(&self.calls, self.times).flatten();
        calls.map(|(name, arguments, ends)| (name.clone(), arguments.clone(), ends.of(mode))).collect()
    }

    /// The calls that lead to the attack.
    pub(super) fn path(&self) -> impl Iterator<Item = Call> {
        self.path.iter().map(|(name, arguments, _)| (name.clone(), arguments.clone()))
    }

    /// A text with the calls of the attack in it.
    pub(super) fn filled(&self, text: &str) -> String {
        text.replace("{CALLS}", &self.lines())
    }

    fn lines(&self) -> String {
        let calls = std::iter::repeat_n(&self.calls, self.times).flatten();
        told(calls.map(|(name, arguments, _)| (name, arguments)))
    }

    /// The first message of the user.
    pub(super) fn first_words(&self) -> String {
        let lead = self.path.first().map(|(name, arguments, _)| told([(name, arguments)].into_iter()));
        match (&self.says, lead) {
            (Some(says), lead) if !self.later || lead.is_none() => self.filled(says),
            (_, Some(lead)) => lead,
            (_, None) => self.lines(),
        }
    }

    /// The user's message in the later turn.
    pub(super) fn later_words(&self) -> String {
        self.says.as_ref().map_or_else(|| self.lines(), |says| self.filled(says))
    }

    /// The results of one tool, in order; the user is a tool here, too.
    pub(super) fn given_by(&self, tool: &str) -> VecDeque<Value> {
        let given = |(at, (name, _, gives)): (usize, &(String, Value, Value))| {
            let lines = match self.path.get(at + 1) {
                Some((name, arguments, _)) => told([(name, arguments)].into_iter()),
                None if self.later => String::new(),
                None => self.lines(),
            };
            (name == tool).then(|| replaced(gives, &lines))
        };
        self.path.iter().enumerate().filter_map(given).collect()
    }

    pub(super) fn ends(&self, mode: Mode) -> &str {
        self.ends.of(mode)
    }
}
