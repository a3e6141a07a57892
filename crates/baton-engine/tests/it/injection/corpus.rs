//! The attacks, as `attacks.json` writes them.
//!
//! An attack goes along a path of calls that the person's request leads to; what they return, or what a
//! person or a tool's description says, tells the model to make `calls`. `{CALLS}` in a text stands for the
//! lines that say so: those of the next call of the path, and at its end those of the attack. What has to
//! come of each call is written beside it, once for all modes or for each, the strictest first:
//!
//! - `ran`: nobody was asked;
//! - `asked: untrusted`, `asked: approve`, `asked: tool`: a person was asked, because of untrusted content, of a rule,
//!   or of what is said of the tool itself;
//! - `refused: denied`, `refused: unknown`, `refused: arguments`, `refused: beside`: it is outside the
//!   decision, there is no such tool, its arguments do not fit, it stands beside a question;
//! - `question`: the person was asked a question; `over`: the limit of calls was reached;
//! - `ignored`: no tools were offered, so it is no call.

use std::collections::{BTreeMap, VecDeque};

use baton_core::policy::table::{Row, Rows};
use baton_core::policy::{Mode, Policy, Table};
use serde::Deserialize;
use serde_json::Value;

/// A tool and its arguments; those that are text are sent as they are.
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
    /// What the operator says everywhere; absent: the built-in table holds.
    policy: Option<Everywhere>,
    /// The tools whose results the operator trusts.
    #[serde(default)]
    pub(super) trusts: Vec<String>,
    /// What tools say of themselves.
    #[serde(default)]
    pub(super) describes: BTreeMap<String, String>,
    /// What the person says; absent: the first call.
    says: Option<String>,
    /// The calls that lead to the attack, and what they return.
    #[serde(default)]
    path: Vec<(String, Value, Value)>,
    /// Whether the path is an earlier turn, and the attack a later one.
    #[serde(default)]
    pub(super) later: bool,
    /// Whether what the earlier turn left is a summary with the attack in it.
    #[serde(default)]
    pub(super) summarised: bool,
    calls: Vec<(String, Value, Ends)>,
    /// How often the calls are told.
    #[serde(default = "once")]
    times: usize,
    /// What runs in the end because of a rule.
    #[serde(default)]
    pub(super) by_rule: Vec<Call>,
    /// Whether text that says yes is sent to the run that waits.
    #[serde(default)]
    pub(super) says_yes: bool,
    /// Whether the model says nothing where it may call nothing.
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

/// All of them.
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

/// The same value with something else in the place of `{CALLS}`.
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

    /// The calls that the model is told to make, and what has to come of each.
    pub(super) fn calls(&self, mode: Mode) -> Vec<(String, Value, &str)> {
        let calls = std::iter::repeat_n(&self.calls, self.times).flatten();
        calls.map(|(name, arguments, ends)| (name.clone(), arguments.clone(), ends.of(mode))).collect()
    }

    /// The calls that lead there.
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

    /// What the person says first.
    pub(super) fn first_words(&self) -> String {
        let lead = self.path.first().map(|(name, arguments, _)| told([(name, arguments)].into_iter()));
        match (&self.says, lead) {
            (Some(says), lead) if !self.later || lead.is_none() => self.filled(says),
            (_, Some(lead)) => lead,
            (_, None) => self.lines(),
        }
    }

    /// What the person says in the later turn.
    pub(super) fn later_words(&self) -> String {
        self.says.as_ref().map_or_else(|| self.lines(), |says| self.filled(says))
    }

    /// What one tool returns, in order; the person is a tool here, too.
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
