//! The table: rows of settings for everywhere, for a mode, for a channel, and for one cell of both.
//!
//! A field of a cell's own row comes before that of its channel, that before that of its mode. Three lists
//! are different: roles and tools have to be allowed by the channel *and* by the mode (or the cell in its
//! place), and a tool needs approval if any of these rows asks for it. The row for everywhere is a ceiling.
//!
//! Modes get stricter in one direction: a mode allows at least as much as every stricter one, and asks for
//! no approval that a stricter one does not ask for. Approvals add up over modes, from loose to strict; every
//! other setting of the operator holds as it is written, or is refused ([`direction`]).

mod cover;
mod direction;
mod row;

use std::collections::{BTreeMap, BTreeSet};

use super::{Decision, Mode, Request, ToolRule, built_in, matches};
use crate::budget::Limits;
use crate::tool::{ASK_USER, EffectClass, ToolSpec};
pub use row::{FIELDS, LIMITS, Place, Row, Rows};

/// A request that cannot be judged, or rows that do not form a table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// There is no such channel.
    #[error("there is no channel {channel:?}; there are {}", known.join(", "))]
    Channel {
        /// The channel of the request.
        channel: String,
        /// The channels that exist.
        known: Vec<String>,
    },
    /// A looser mode would be stricter than a stricter one.
    #[error("`{field}` of {} on {channel} would be stricter than that of {}", looser.as_str(), stricter.as_str())]
    Backwards {
        /// The setting.
        field: &'static str,
        /// The channel.
        channel: String,
        /// The mode that may not be stricter.
        looser: Mode,
        /// The mode that may not be looser.
        stricter: Mode,
    },
    /// A looser mode would not allow a tool that a stricter one does.
    #[error("on {channel}, {} allows {pattern:?}, which {} would not", stricter.as_str(), looser.as_str())]
    LeavesOut {
        /// The row whose list of tools leaves it out.
        place: Place,
        /// The channel.
        channel: String,
        /// The mode that may not be stricter.
        looser: Mode,
        /// The mode that may not be looser.
        stricter: Mode,
        /// The tool that is left out: a name, a pattern, or a word.
        pattern: String,
    },
    /// A channel on which no role may answer.
    #[error("on {channel} in {}, no role may be asked: `roles` of the channel and of the mode have none in common", mode.as_str())]
    NoRole {
        /// The channel.
        channel: String,
        /// The mode.
        mode: Mode,
    },
    /// A channel that requires a tool and does not say which one runs if none is chosen.
    #[error("on {channel} a tool is required, and no `first_tool` says which one runs if none is chosen")]
    NoFirstTool {
        /// The channel.
        channel: String,
    },
    /// A row names a role to answer that may not be asked there.
    #[error("`{field}` of {place} is {role:?}, which may not be asked there; {} may", allowed.join(", "))]
    NotAllowed {
        /// The setting.
        field: &'static str,
        /// The row that names it.
        place: Place,
        /// The role.
        role: String,
        /// The roles that may be asked.
        allowed: Vec<String>,
    },
}

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    rows: Box<Rows>,
    /// The rows that the operator stated.
    stated: Box<Rows>,
    /// The built-in values that were lifted, by row and field, with the row that they were lifted to.
    lifted: BTreeMap<(Place, &'static str), Place>,
}

impl Table {
    /// The built-in table, for an operator who states nothing.
    pub fn built_in() -> Table {
        Table { rows: Box::new(built_in::rows()), stated: Box::default(), lifted: BTreeMap::new() }
    }

    /// The operator's rows over the built-in ones, if they go in one direction.
    pub fn new(stated: Rows) -> Result<Table, TableError> {
        let mut rows = built_in::rows();
        rows.everywhere = stated.everywhere.clone();
        rows.cells = stated.cells.clone();
        for (mode, row) in &mut rows.modes {
            // A ceiling for these in the row for everywhere replaces the built-in value of the mode.
            row.answer_tokens = row.answer_tokens.filter(|_| stated.everywhere.answer_tokens.is_none());
            row.patience_s = row.patience_s.filter(|_| stated.everywhere.patience_s.is_none());
            *row = stated.modes.get(mode).cloned().unwrap_or_default().or(std::mem::take(row));
        }
        let named = stated.channels.keys().chain(stated.cells.keys().map(|(channel, _)| channel));
        for channel in named {
            let below = rows.channels.remove(channel).unwrap_or_else(built_in::any_channel);
            let row = stated.channels.get(channel).cloned().unwrap_or_default();
            rows.channels.insert(channel.clone(), row.or(below));
        }
        let mut table = Table { rows: Box::new(rows), stated: Box::new(stated), lifted: BTreeMap::new() };
        direction::settle(&mut table)?;
        Ok(table)
    }

    /// The merged rows: every setting is stated in at least one of them.
    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    /// The rows that the operator stated.
    pub fn stated(&self) -> &Rows {
        &self.stated
    }

    /// The row that a built-in value had to be lifted to.
    pub fn lifted(&self, place: &Place, field: &str) -> Option<&Place> {
        let found = self.lifted.iter().find(|((at, name), _)| at == place && *name == field);
        found.map(|(_, by)| by)
    }

    /// The names of all channels.
    pub fn channels(&self) -> impl Iterator<Item = &str> {
        self.rows.channels.keys().map(String::as_str)
    }

    /// Judges a request, given the tools that exist.
    pub fn evaluate(&self, request: &Request<'_>, tools: &[ToolSpec]) -> Result<Decision, TableError> {
        let (mode, channel) = (request.mode, request.channel);
        let Some(row) = self.rows.channels.get(channel) else {
            let known = self.channels().map(str::to_owned).collect();
            return Err(TableError::Channel { channel: channel.to_owned(), known });
        };
        let cell = self.cell(channel, mode);
        let (allowed, denied) = self.sorted(channel, mode, tools);
        let allowed_tool = |name: Option<&String>| name.filter(|name| allowed.contains(*name)).cloned();
        let everywhere = &self.rows.everywhere;
        let asks = |spec: &&ToolSpec| spec.trust.approve || self.asks(channel, mode, spec).is_some();
        let patience_s = ceiling(everywhere.patience_s, cell.patience_s).unwrap_or_default();
        Ok(Decision {
            rule: format!("{channel}/{}", mode.as_str()),
            roles: self.roles(channel, mode),
            approvals: tools.iter().filter(asks).map(|spec| spec.name.clone()).collect(),
            limits: limits(everywhere, &cell),
            patience_ms: patience_s.saturating_mul(1000),
            on_unknown: cell.on_unknown.unwrap_or_default(),
            default_role: cell.default_role.clone(),
            after_tools: cell.after_tools.clone(),
            tool_rule: self.tool_rule(channel),
            first_tool: allowed_tool(row.first_tool.as_ref()),
            search_first: allowed_tool(row.search_first.as_ref()),
            temperature: ceiling(everywhere.temperature, cell.temperature),
            self_check: cell.self_check.unwrap_or_default(),
            untrusted_egress: cell.untrusted_egress.unwrap_or_default(),
            tools: allowed.into_iter().collect(),
            denied,
        })
    }

    /// The settings of one cell, completed from its channel and then its mode.
    fn cell(&self, channel: &str, mode: Mode) -> Row {
        let own = self.rows.cells.get(&(channel.to_owned(), mode)).cloned().unwrap_or_default();
        let of_channel = self.rows.channels.get(channel).cloned().unwrap_or_default();
        own.or(of_channel).or(self.rows.modes.get(&mode).cloned().unwrap_or_default())
    }

    /// The row that a field of a cell comes from.
    pub(super) fn source(&self, channel: &str, mode: Mode, is_said: impl Fn(&Row) -> bool) -> Option<Place> {
        let places =
            [Place::Cell(channel.to_owned(), mode), Place::Channel(channel.to_owned()), Place::Mode(mode)];
        places.into_iter().find(|place| self.rows.at(place).is_some_and(&is_said))
    }

    /// The row that supplies a mode's part of a list that the channel restricts too: the cell's, or else the
    /// mode's.
    pub(super) fn of_mode(
        &self,
        channel: &str,
        mode: Mode,
        is_said: impl Fn(&Row) -> bool,
    ) -> Option<(Place, &Row)> {
        let places = [Place::Cell(channel.to_owned(), mode), Place::Mode(mode)];
        let place = places.into_iter().find(|place| self.rows.at(place).is_some_and(&is_said))?;
        let row = self.rows.at(&place)?;
        Some((place, row))
    }

    /// How a channel uses tools, which is the same in every mode.
    pub(super) fn tool_rule(&self, channel: &str) -> ToolRule {
        self.rows.channels.get(channel).and_then(|row| row.tool_rule).unwrap_or_default()
    }

    /// The roles of the channel that this mode allows.
    fn roles(&self, channel: &str, mode: Mode) -> Vec<String> {
        let own = self.rows.channels.get(channel).and_then(|row| row.roles.clone()).unwrap_or_default();
        let by_mode = self.of_mode(channel, mode, |row| row.roles.is_some());
        let by_mode = by_mode.and_then(|(_, row)| row.roles.as_ref());
        own.into_iter().filter(|role| by_mode.is_none_or(|roles| roles.contains(role))).collect()
    }

    /// The row that makes calls of a tool need approval: this mode's or a looser one's, the channel's, or that
    /// for everywhere.
    pub(super) fn asks(&self, channel: &str, mode: Mode, spec: &ToolSpec) -> Option<Place> {
        let said = |row: &Row| row.approve.is_some();
        let by_mode = Mode::ALL.into_iter().filter(|it| *it >= mode);
        let by_mode = by_mode.filter_map(|mode| self.of_mode(channel, mode, said).map(|(place, _)| place));
        let wide = [Place::Everywhere, Place::Channel(channel.to_owned())];
        let wants = |place: &Place| {
            let list = self.rows.at(place).and_then(|row| row.approve.as_ref());
            list.is_some_and(|list| list.iter().any(|pattern| fits(pattern, spec)))
        };
        wide.into_iter().chain(by_mode).find(wants)
    }

    /// The row by which a mode allows a tool on a channel: that of the cell, or else the mode's.
    pub(super) fn allows(&self, channel: &str, mode: Mode, spec: &ToolSpec) -> Option<Place> {
        let (place, row) = self.of_mode(channel, mode, |row| row.tools.is_some())?;
        fits_any(row, spec).then_some(place)
    }

    /// The tools that are allowed, and the others with the change that would allow each.
    fn sorted(
        &self,
        channel: &str,
        mode: Mode,
        tools: &[ToolSpec],
    ) -> (BTreeSet<String>, BTreeMap<String, String>) {
        let (mut allowed, mut denied) = (BTreeSet::new(), BTreeMap::new());
        for spec in tools {
            match self.obstacle(channel, mode, spec) {
                None => {
                    allowed.insert(spec.name.clone());
                }
                Some(what_helps) => {
                    denied.insert(spec.name.clone(), what_helps);
                }
            }
        }
        // The tool that asks the user is offered only beside other tools.
        if allowed.iter().all(|name| name == ASK_USER) && allowed.remove(ASK_USER) {
            denied.insert(ASK_USER.to_owned(), format!("a tool that is allowed on {channel}"));
        }
        (allowed, denied)
    }

    /// The change that would allow a tool; none if it is allowed.
    fn obstacle(&self, channel: &str, mode: Mode, spec: &ToolSpec) -> Option<String> {
        if self.tool_rule(channel) == ToolRule::None {
            return Some(format!("`tool_rule = \"auto\"` in [policy.channels.{channel}]"));
        }
        if spec.name == ASK_USER {
            return None;
        }
        let missing = |place: &Place| format!("`{}` in `tools` of {place}", spec.name);
        for place in [Place::Everywhere, Place::Channel(channel.to_owned())] {
            if !self.rows.at(&place).is_none_or(|row| fits_any(row, spec)) {
                return Some(missing(&place));
            }
        }
        if self.allows(channel, mode, spec).is_some() {
            return None;
        }
        let looser = Mode::ALL.into_iter().find(|mode| self.allows(channel, *mode, spec).is_some());
        if let Some(looser) = looser {
            return Some(format!("mode {}", looser.as_str()));
        }
        let own = self.of_mode(channel, mode, |row| row.tools.is_some());
        Some(missing(&own.map_or(Place::Mode(mode), |(place, _)| place)))
    }
}

fn limits(everywhere: &Row, cell: &Row) -> Limits {
    let fallback = Limits::default();
    let time_s = ceiling(everywhere.time_s, cell.time_s);
    let cost = ceiling(everywhere.cost_usd, cell.cost_usd);
    Limits {
        iterations: ceiling(everywhere.rounds, cell.rounds).unwrap_or(fallback.iterations),
        active_ms: time_s.map_or(fallback.active_ms, |s| s.saturating_mul(1000)),
        tokens: ceiling(everywhere.tokens, cell.tokens),
        tool_calls: ceiling(everywhere.tool_calls, cell.tool_calls),
        cost_micro_usd: cost.map(|usd| (usd * 1e6).round() as u64),
        answer_tokens: ceiling(everywhere.answer_tokens, cell.answer_tokens)
            .unwrap_or(fallback.answer_tokens),
    }
}

/// The smaller of two limits; an absent one is no limit.
fn ceiling<T: PartialOrd>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b < a { b } else { a }),
        (a, b) => a.or(b),
    }
}

/// Whether a row's list of tools contains this one; a row without a list contains all.
fn fits_any(row: &Row, spec: &ToolSpec) -> bool {
    row.tools.as_ref().is_none_or(|patterns| patterns.iter().any(|pattern| fits(pattern, spec)))
}

/// Whether a tool matches a name, a pattern or one of [`WORDS`].
pub fn fits(pattern: &str, spec: &ToolSpec) -> bool {
    match pattern {
        "@side_effect_free" => spec.class == EffectClass::SideEffectFree,
        "@built_in" => spec.trust.built_in,
        "@configured" => !spec.trust.built_in,
        name => matches(name, &spec.name),
    }
}

/// The words that stand for a kind of tools in lists of tools.
pub const WORDS: [&str; 3] = ["@side_effect_free", "@built_in", "@configured"];

#[cfg(test)]
mod tests;
