//! The rows of the table, and their places in it.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Serialize, Serializer};

use crate::policy::{Mode, OnUnknown, SelfCheck, ToolRule, UntrustedEgress};

/// The settings of one row; a setting that it leaves open comes from another row.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Row {
    /// The roles that may be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roles: Option<Vec<String>>,
    /// The role that answers, or `auto`: by the question.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_role: Option<String>,
    /// The role that answers once tools have run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after_tools: Option<String>,
    /// The tools that may be used: names, patterns with `*`, `@side_effect_free`, `@built_in`, `@configured`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// How tools are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_rule: Option<ToolRule>,
    /// The tool that runs where one is required and none was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_tool: Option<String>,
    /// The tool that runs first if the request asks to look something up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search_first: Option<String>,
    /// The tools whose calls a user has to approve, written as `tools` are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approve: Option<Vec<String>>,
    /// Rounds of one model call with tools and the tools it asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
    /// Seconds of activity; waiting for users is not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_s: Option<u64>,
    /// Tokens read and written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Tokens of one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_tokens: Option<u64>,
    /// Tool calls started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u32>,
    /// Cost in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// The highest temperature.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// When an answer is checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_check: Option<SelfCheck>,
    /// How an unknown outcome is handled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_unknown: Option<OnUnknown>,
    /// How calls that send data out are handled beside untrusted content or private data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untrusted_egress: Option<UntrustedEgress>,
    /// Seconds that a user has to answer or decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience_s: Option<u64>,
}

impl Row {
    /// The value of a field, as it is written in the file.
    pub fn get(&self, field: &str) -> Option<serde_json::Value> {
        serde_json::to_value(self).ok()?.get(field).cloned()
    }

    /// This row, completed from the other where it leaves a setting open.
    pub fn or(self, other: Row) -> Row {
        Row {
            roles: self.roles.or(other.roles),
            default_role: self.default_role.or(other.default_role),
            after_tools: self.after_tools.or(other.after_tools),
            tools: self.tools.or(other.tools),
            tool_rule: self.tool_rule.or(other.tool_rule),
            first_tool: self.first_tool.or(other.first_tool),
            search_first: self.search_first.or(other.search_first),
            approve: self.approve.or(other.approve),
            rounds: self.rounds.or(other.rounds),
            time_s: self.time_s.or(other.time_s),
            tokens: self.tokens.or(other.tokens),
            answer_tokens: self.answer_tokens.or(other.answer_tokens),
            tool_calls: self.tool_calls.or(other.tool_calls),
            cost_usd: self.cost_usd.or(other.cost_usd),
            temperature: self.temperature.or(other.temperature),
            self_check: self.self_check.or(other.self_check),
            on_unknown: self.on_unknown.or(other.on_unknown),
            untrusted_egress: self.untrusted_egress.or(other.untrusted_egress),
            patience_s: self.patience_s.or(other.patience_s),
        }
    }
}

/// All rows.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Rows {
    /// The row for everywhere: a ceiling for all others.
    pub everywhere: Row,
    /// By mode.
    pub modes: BTreeMap<Mode, Row>,
    /// By channel.
    pub channels: BTreeMap<String, Row>,
    /// By channel and mode.
    #[serde(serialize_with = "by_name")]
    pub cells: BTreeMap<(String, Mode), Row>,
}

/// Cells by the names that they have in the file.
fn by_name<S: Serializer>(cells: &BTreeMap<(String, Mode), Row>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(cells.iter().map(|((channel, mode), row)| (format!("{channel}-{}", mode.as_str()), row)))
}

impl Rows {
    /// The row at a place.
    pub fn at(&self, place: &Place) -> Option<&Row> {
        match place {
            Place::Everywhere => Some(&self.everywhere),
            Place::Mode(mode) => self.modes.get(mode),
            Place::Channel(channel) => self.channels.get(channel),
            Place::Cell(channel, mode) => self.cells.get(&(channel.clone(), *mode)),
        }
    }

    /// The places that have a row.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        let cell = |(channel, mode): &(String, Mode)| Place::Cell(channel.clone(), *mode);
        std::iter::once(Place::Everywhere)
            .chain(self.modes.keys().copied().map(Place::Mode))
            .chain(self.channels.keys().cloned().map(Place::Channel))
            .chain(self.cells.keys().map(cell))
    }
}

/// The place of a row in the table.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The row for everywhere.
    Everywhere,
    /// A mode's row.
    Mode(Mode),
    /// A channel's row.
    Channel(String),
    /// One cell.
    Cell(String, Mode),
}

/// As the head of its table in `baton.toml`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Everywhere => f.write_str("[policy]"),
            Place::Mode(mode) => write!(f, "[policy.modes.{}]", mode.as_str()),
            Place::Channel(channel) => write!(f, "[policy.channels.{channel}]"),
            Place::Cell(channel, mode) => write!(f, "[policy.cells.{channel}-{}]", mode.as_str()),
        }
    }
}

/// The fields of a row, in reading order.
pub const FIELDS: [&str; 19] = [
    "roles",
    "default_role",
    "after_tools",
    "tools",
    "tool_rule",
    "first_tool",
    "search_first",
    "approve",
    "rounds",
    "time_s",
    "tokens",
    "answer_tokens",
    "tool_calls",
    "cost_usd",
    "temperature",
    "self_check",
    "on_unknown",
    "untrusted_egress",
    "patience_s",
];

/// The settings of the row for everywhere that are limits of a run, with their names among the limits.
pub const LIMITS: [(&str, &str); 6] = [
    ("rounds", "iterations"),
    ("time_s", "active_s"),
    ("tokens", "tokens"),
    ("tool_calls", "tool_calls"),
    ("cost_usd", "cost_usd"),
    ("answer_tokens", "answer_tokens"),
];
