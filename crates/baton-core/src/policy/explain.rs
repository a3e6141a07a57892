//! The explanation of a decision: every setting with the row that it comes from, every tool with its reason.
//!
//! Everything here is read from the table and the decision; nothing is decided again. It is for people: values
//! are in words, and a program takes the numbers from the decision.

mod words;

use serde::Serialize;

use super::table::{FIELDS, LIMITS, Place, Row, Table, TableError};
use super::{CallRule, Decision, Mode, Request, ToolRule, UntrustedEgress};
use crate::role::ROUTER;
use crate::role::select::{Selected, look_up, select};
use crate::tool::{ASK_USER, Egress, ToolSpec};

/// A decision with its reasons.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explained {
    /// The decision.
    pub decision: Decision,
    /// The role that answers.
    pub role: Who,
    /// The role that chooses a tool first, where one is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chooses: Option<Who>,
    /// The query that is searched for before any model is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub searches_for: Option<String>,
    /// Every setting.
    pub settings: Vec<Line>,
    /// Every tool that exists.
    pub tools: Vec<ToolLine>,
}

/// A role, with the reason why it is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Who {
    /// The role.
    pub role: String,
    /// Why.
    pub reason: String,
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    /// Its field name in a row.
    pub name: &'static str,
    /// Its value, in words.
    pub value: String,
    /// The rows that it comes from; none: no row states it.
    pub rows: Vec<From>,
    /// How it was capped, lifted or narrowed, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A row that a setting comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct From {
    /// The head of its table in `baton.toml`.
    pub row: String,
    /// Whether the operator stated it; otherwise it is built in.
    pub stated: bool,
}

/// One tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolLine {
    /// Its name.
    pub name: String,
    /// Whether a call runs.
    pub verdict: Verdict,
    /// Why; for a tool that is not allowed, the change that would allow it.
    pub why: String,
}

/// Whether a call runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It runs.
    Allowed,
    /// A user is asked first.
    NeedsApproval,
    /// It does not run.
    NotAllowed,
}

/// Explains the table's decision about a request.
pub fn explain(
    table: &Table,
    request: &Request<'_>,
    message: &str,
    tools: &[ToolSpec],
) -> Result<Explained, TableError> {
    let decision = table.evaluate(request, tools)?;
    let Selected { role, reason } = select(&decision, message);
    let offered = !decision.tools.is_empty();
    let chooses = decision.tool_rule == ToolRule::Required && offered && decision.allows_role(ROUTER);
    let chooses =
        chooses.then(|| Who { role: ROUTER.to_owned(), reason: "the channel requires a tool".to_owned() });
    let searches = decision.tool_rule == ToolRule::Auto && decision.search_first.is_some();
    let looking = Looking { table, channel: request.channel, mode: request.mode, decision: &decision };
    Ok(Explained {
        role: Who { role, reason },
        chooses,
        searches_for: searches.then(|| look_up(message)).flatten(),
        settings: FIELDS.iter().map(|field| looking.line(field)).collect(),
        tools: tools.iter().map(|spec| looking.tool(spec)).collect(),
        decision,
    })
}

/// The cell that is explained, with its decision.
struct Looking<'a> {
    table: &'a Table,
    channel: &'a str,
    mode: Mode,
    decision: &'a Decision,
}

impl Looking<'_> {
    fn line(&self, name: &'static str) -> Line {
        let (value, (rows, note)) = (words::value(self.decision, name), self.origin(name));
        let value = match name {
            "tools" => self.patterns(name, &rows),
            "approve" if !rows.is_empty() => self.patterns(name, &rows),
            _ => value,
        };
        let rows = rows.into_iter().map(|place| self.from(place, name)).collect();
        Line { name, value, rows, note }
    }

    fn from(&self, place: Place, name: &str) -> From {
        let stated = self.table.stated().at(&place).is_some_and(|row| row.get(name).is_some());
        From { row: words::head(&place, name), stated }
    }

    /// The rows that a setting comes from, and the note about it.
    fn origin(&self, name: &'static str) -> (Vec<Place>, Option<String>) {
        match name {
            "roles" => (self.both(name), None),
            "tools" => self.tools(),
            "approve" => (self.approvals(), None),
            // Only channels state these.
            "tool_rule" => (self.of_channel(name), None),
            "first_tool" | "search_first" => {
                let rows = self.of_channel(name);
                let wanted = rows.first().and_then(|place| self.said(place, name));
                let wanted = wanted.as_ref().and_then(|it| it.as_str()).filter(|it| !it.is_empty());
                let is_there = matches!(
                    (name, &self.decision.first_tool, &self.decision.search_first),
                    ("first_tool", Some(_), _) | ("search_first", _, Some(_))
                );
                let note =
                    wanted.filter(|_| !is_there).map(|tool| format!("{tool} is not allowed or not there"));
                (rows, note)
            }
            _ => self.number(name),
        }
    }

    /// The origin of a field with one value: the row that states it, unless a ceiling is lower.
    fn number(&self, name: &'static str) -> (Vec<Place>, Option<String>) {
        let is_said = |row: &Row| row.get(name).is_some();
        let source = self.table.source(self.channel, self.mode, is_said);
        let value = source.as_ref().and_then(|place| self.said(place, name));
        if let Some(most) = self.said(&Place::Everywhere, name) {
            let Some(value) = value else { return (vec![Place::Everywhere], None) };
            if value.as_f64() > most.as_f64() {
                let from = source.map(|place| place.to_string()).unwrap_or_default();
                let note = format!("capped: {from} has {}", words::amount(name, &value));
                return (vec![Place::Everywhere], Some(note));
            }
        }
        let lifted = source.as_ref().and_then(|place| self.table.lifted(place, name));
        let note = lifted.map(|by| format!("lifted to what {by} has"));
        (source.into_iter().collect(), note)
    }

    /// The rows that restrict a list together: the channel's, and the cell's or else the mode's.
    fn both(&self, name: &str) -> Vec<Place> {
        let is_said = |row: &Row| row.get(name).is_some();
        let of_mode = self.table.of_mode(self.channel, self.mode, is_said).map(|(place, _)| place);
        self.of_channel(name).into_iter().chain(of_mode).collect()
    }

    fn of_channel(&self, name: &str) -> Vec<Place> {
        let place = Place::Channel(self.channel.to_owned());
        if self.said(&place, name).is_some() { vec![place] } else { Vec::new() }
    }

    fn said(&self, place: &Place, name: &str) -> Option<serde_json::Value> {
        self.table.rows().at(place).and_then(|row| row.get(name))
    }

    /// The list of the cell, or else of the mode; additions to it and lists that narrow it go into the note.
    fn tools(&self) -> (Vec<Place>, Option<String>) {
        let row = self.table.of_mode(self.channel, self.mode, |row| row.tools.is_some());
        let row = row.map(|(place, _)| place);
        let lifted = row.as_ref().and_then(|place| self.table.lifted(place, "tools"));
        let lifted = lifted.map(|by| format!("lifted to what {by} has"));
        let narrow = [Place::Everywhere, Place::Channel(self.channel.to_owned())];
        let narrow = narrow.into_iter().filter_map(|place| {
            let list = self.table.rows().at(&place)?.tools.as_ref()?;
            Some(format!("of these only {}, by {place}", words::list(list)))
        });
        let mut notes: Vec<String> = lifted.into_iter().chain(narrow).collect();
        if self.decision.tool_rule == ToolRule::None {
            notes = vec!["none is used: tool_rule is none".to_owned()];
        }
        (row.into_iter().collect(), (!notes.is_empty()).then(|| notes.join("; ")))
    }

    /// The lists that add up, from loose to strict.
    fn approvals(&self) -> Vec<Place> {
        let is_said = |row: &Row| row.approve.is_some();
        let by_mode = Mode::ALL.into_iter().filter(|it| *it >= self.mode);
        let by_mode = by_mode.filter_map(|mode| self.table.of_mode(self.channel, mode, is_said));
        let wide = [Place::Everywhere, Place::Channel(self.channel.to_owned())];
        let wide = wide.into_iter().filter(|place| self.said(place, "approve").is_some());
        wide.chain(by_mode.map(|(place, _)| place)).collect()
    }

    /// The patterns of these rows, each once.
    fn patterns(&self, name: &str, rows: &[Place]) -> String {
        let mut all: Vec<String> = Vec::new();
        for row in rows.iter().filter_map(|place| self.table.rows().at(place)) {
            let list = if name == "tools" { &row.tools } else { &row.approve };
            for pattern in list.iter().flatten().filter(|pattern| !pattern.is_empty()) {
                if !all.contains(pattern) {
                    all.push(pattern.clone());
                }
            }
        }
        words::list(&all)
    }

    fn tool(&self, spec: &ToolSpec) -> ToolLine {
        let allowed_by = || match self.table.allows(self.channel, self.mode, spec) {
            _ if spec.name == ASK_USER => "offered wherever tools are".to_owned(),
            Some(place) => place.to_string(),
            None => String::new(),
        };
        let (verdict, why) = match self.decision.call(&spec.name) {
            CallRule::Denied => {
                let what_helps = self.decision.would_allow(&spec.name).unwrap_or_default();
                (Verdict::NotAllowed, format!("needs {what_helps}"))
            }
            CallRule::NeedsApproval => {
                let by = match self.table.asks(self.channel, self.mode, spec) {
                    Some(place) => format!("`approve` of {place}"),
                    None => "the tool's own configuration".to_owned(),
                };
                (Verdict::NeedsApproval, format!("by {by}"))
            }
            CallRule::Allowed => (Verdict::Allowed, allowed_by() + self.once_untrusted(spec)),
        };
        ToolLine { name: spec.name.clone(), verdict, why }
    }

    /// The additional approval that a tool needs once untrusted content or private data is on the branch.
    fn once_untrusted(&self, spec: &ToolSpec) -> &'static str {
        if self.decision.untrusted_egress == UntrustedEgress::Allow {
            return "";
        }
        match spec.trust.egress {
            Egress::No if spec.trust.to_service => "; beside private data a person is asked",
            Egress::No => "",
            Egress::UnlessFound => {
                "; beside private data a person is asked, and beside untrusted content unless a search found the address"
            }
            Egress::Yes => "; beside untrusted content or private data a person is asked",
        }
    }
}

/// The name of a field of the row for everywhere among the limits.
pub(super) fn among_limits(name: &str) -> Option<&'static str> {
    LIMITS.iter().find(|(field, _)| *field == name).map(|(_, limit)| *limit)
}

#[cfg(test)]
mod tests;
