//! The policy's table, as it stands in `baton.toml`: rows for everywhere, for modes, channels and cells.
//!
//! The core decides the meaning of a table, and whether it goes in one direction; this module adds the line and a hint
//! to every refusal.

pub(super) mod fields;

use baton_core::id::excerpt;
use baton_core::policy::Mode;
use baton_core::policy::table::{Place, Row, Rows, Table, TableError, WORDS};
use serde::de::DeserializeOwned;

use super::groups::NamedTable;
use super::nearest::question;
use super::serving::wrong;
use super::{ResolvedConfig, Value, ValueOrigin, narrow};
use crate::failure::Failure;

/// Builds the table from the rows.
pub(super) fn table(resolved: &ResolvedConfig) -> Result<Table, Failure> {
    known_words(resolved)?;
    single_tools(resolved)?;
    let mut rows = Rows { everywhere: everywhere(resolved), ..Rows::default() };
    for group in resolved.rows_of_policy() {
        match place(resolved, group)? {
            Place::Mode(mode) => rows.modes.insert(mode, row(group)),
            Place::Channel(channel) => rows.channels.insert(channel, row(group)),
            Place::Cell(channel, mode) => rows.cells.insert((channel, mode), row(group)),
            Place::Everywhere => None,
        };
    }
    Table::new(rows).map_err(|error| refused(resolved, &error))
}

impl ResolvedConfig {
    /// The rows of the policy's table that stand in the file.
    pub(crate) fn rows_of_policy(&self) -> impl Iterator<Item = &NamedTable> {
        self.groups.iter().filter(|group| group.section.key.starts_with("policy."))
    }

    fn stated(&self, place: &Place, field: &str) -> Option<ValueOrigin> {
        let (section, name) = match place {
            Place::Mode(mode) => ("policy.modes", mode.as_str().to_owned()),
            Place::Channel(channel) => ("policy.channels", channel.clone()),
            Place::Cell(channel, mode) => ("policy.cells", format!("{channel}-{}", mode.as_str())),
            Place::Everywhere => return None,
        };
        let mut groups = self.rows_of_policy();
        let group = groups.find(|group| group.section.key == section && group.name == name)?;
        group.get(field).map(|stated| stated.origin.clone())
    }
}

/// The row for everywhere, which is a ceiling.
fn everywhere(resolved: &ResolvedConfig) -> Row {
    let names = |key: &str| resolved.value(key).and_then(Value::as_names).map(<[String]>::to_vec);
    let whole = |key: &str| resolved.whole(key);
    Row {
        tools: names("policy.tools"),
        approve: names("policy.approve"),
        patience_s: whole("policy.patience_s"),
        rounds: whole("limits.iterations").map(narrow),
        time_s: whole("limits.active_s"),
        tokens: whole("limits.tokens"),
        tool_calls: whole("limits.tool_calls").map(narrow),
        cost_usd: resolved.value("limits.cost_usd").and_then(Value::as_decimal),
        answer_tokens: whole("limits.answer_tokens"),
        ..Row::default()
    }
}

fn row(group: &NamedTable) -> Row {
    let value = |field: &str| group.get(field).map(|stated| &stated.value);
    let names = |field: &str| value(field).and_then(Value::as_names).map(<[String]>::to_vec);
    let text = |field: &str| value(field).and_then(Value::as_text).map(str::to_owned);
    let whole = |field: &str| value(field).and_then(Value::as_whole);
    let decimal = |field: &str| value(field).and_then(Value::as_decimal);
    Row {
        roles: names("roles"),
        default_role: text("default_role"),
        after_tools: text("after_tools"),
        tools: names("tools"),
        tool_rule: word(group, "tool_rule"),
        first_tool: text("first_tool"),
        search_first: text("search_first"),
        approve: names("approve"),
        rounds: whole("rounds").map(narrow),
        time_s: whole("time_s"),
        tokens: whole("tokens"),
        answer_tokens: whole("answer_tokens"),
        tool_calls: whole("tool_calls").map(narrow),
        cost_usd: decimal("cost_usd"),
        temperature: decimal("temperature"),
        self_check: word(group, "self_check"),
        on_unknown: word(group, "on_unknown"),
        untrusted_egress: word(group, "untrusted_egress"),
        patience_s: whole("patience_s"),
    }
}

/// Parses one of the words that the table of fields lists. A test reads every one of them.
fn word<T: DeserializeOwned>(group: &NamedTable, field: &str) -> Option<T> {
    let text = group.get(field)?.value.as_text()?;
    serde_json::from_value(text.into()).ok()
}

/// The place of a row, by its name.
fn place(resolved: &ResolvedConfig, group: &NamedTable) -> Result<Place, Failure> {
    match group.section.key {
        "policy.modes" => mode(group, &group.name).map(Place::Mode),
        "policy.channels" => channel(group).map(Place::Channel),
        _ => {
            let Some((name, of)) = group.name.rsplit_once('-') else {
                let why = format!("`{}` is no cell: its name has no mode", excerpt(&group.key()));
                return Err(wrong(&group.origin, &why)
                    .hint("a cell is named CHANNEL-MODE, like [policy.cells.CHAT-MODERATE]"));
            };
            let mode = mode(group, of)?;
            let known = channels(resolved);
            if !known.iter().any(|known| known == name) {
                let meant = question(name, known.iter().map(String::as_str));
                let why =
                    format!("`{}`: there is no channel {:?}{meant}", excerpt(&group.key()), excerpt(name));
                return Err(wrong(&group.origin, &why)
                    .hint(format!("there are {}; [policy.channels.NAME] adds one", known.join(", "))));
            }
            Ok(Place::Cell(name.to_owned(), mode))
        }
    }
}

fn mode(group: &NamedTable, name: &str) -> Result<Mode, Failure> {
    let names = Mode::ALL.map(Mode::as_str);
    Mode::ALL.into_iter().find(|mode| mode.as_str() == name).ok_or_else(|| {
        let meant = question(name, names);
        let why = format!("`{}`: there is no mode {:?}{meant}", excerpt(&group.key()), excerpt(name));
        wrong(&group.origin, &why).hint(format!("modes are {}", names.join(", ")))
    })
}

fn channel(group: &NamedTable) -> Result<String, Failure> {
    let plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    if (1..=64).contains(&group.name.len()) && group.name.chars().all(plain) {
        return Ok(group.name.clone());
    }
    let why = format!(
        "`{}`: a channel's name is made of at most 64 capital letters, digits and _",
        excerpt(&group.key())
    );
    Err(wrong(&group.origin, &why).hint("choose a name like SUPPORT"))
}

/// The channels that are built in and those that the file adds.
fn channels(resolved: &ResolvedConfig) -> Vec<String> {
    let mut known: Vec<String> = Table::built_in().channels().map(str::to_owned).collect();
    let own = resolved.rows_of_policy().filter(|group| group.section.key == "policy.channels");
    known.extend(own.map(|group| group.name.clone()));
    known.sort();
    known.dedup();
    known
}

/// Refuses unknown `@` words for tools.
fn known_words(resolved: &ResolvedConfig) -> Result<(), Failure> {
    for list in resolved.tool_lists() {
        let unknown = list.names.iter().find(|name| name.starts_with('@') && !WORDS.contains(&name.as_str()));
        let Some(unknown) = unknown else { continue };
        let meant = question(unknown, WORDS);
        let why = format!("`{}`: {:?} stands for no tools{meant}", list.key, excerpt(unknown));
        return Err(wrong(&list.origin, &why).hint(format!("such words are {}", WORDS.join(", "))));
    }
    Ok(())
}

const FIRST_TOOL: &str = "first_tool";

/// Refuses a pattern where one tool has to be named.
fn single_tools(resolved: &ResolvedConfig) -> Result<(), Failure> {
    for group in resolved.rows_of_policy() {
        for field in [FIRST_TOOL, "search_first"] {
            let Some(stated) = group.get(field) else { continue };
            let name = stated.value.as_text().unwrap_or_default();
            if name.starts_with('@') || name.contains('*') {
                let key = excerpt(&group.key());
                let why = format!("`{key}.{field}`: {:?} is not the name of one tool", excerpt(name));
                return Err(wrong(&stated.origin, &why).hint("baton tools ls shows what there is"));
            }
        }
    }
    Ok(())
}

/// Names and patterns of tools in the settings.
#[derive(Debug, Clone)]
pub(crate) struct ToolList {
    /// The whole key.
    pub(crate) key: String,
    /// The names and patterns in it.
    pub(crate) names: Vec<String>,
    /// The origin of the list.
    pub(crate) origin: ValueOrigin,
}

impl ToolList {
    /// Whether calls of the tools that it names wait for an approval.
    pub(crate) fn asks(&self) -> bool {
        self.key.ends_with(".approve")
    }

    /// The file and line of the list, as a prefix for a message.
    pub(crate) fn place(&self) -> String {
        match &self.origin {
            ValueOrigin::File(file, line) => format!("{}:{line}: ", file.display()),
            _ => String::new(),
        }
    }
}

impl ResolvedConfig {
    /// All lists in the policy that name tools.
    pub(crate) fn tool_lists(&self) -> Vec<ToolList> {
        let fixed = ["policy.tools", "policy.approve"].into_iter().filter_map(|key| {
            let names = self.names(key);
            self.get(key).map(|found| ToolList { key: key.to_owned(), names, origin: found.origin.clone() })
        });
        let fields = ["tools", "approve", "first_tool", "search_first"];
        let stated = self.rows_of_policy().flat_map(|group| {
            fields.into_iter().filter_map(move |field| {
                let stated = group.get(field)?;
                let one = || stated.value.as_text().filter(|name| !name.is_empty()).map(str::to_owned);
                let names = match stated.value.as_names() {
                    Some(names) => names.to_vec(),
                    None => one().into_iter().collect(),
                };
                Some(ToolList {
                    key: format!("{}.{field}", group.key()),
                    names,
                    origin: stated.origin.clone(),
                })
            })
        });
        fixed.chain(stated).collect()
    }
}

/// The core's refusal, with the line that caused it and a hint.
fn refused(resolved: &ResolvedConfig, error: &TableError) -> Failure {
    let cell = |channel: &str, mode: Mode| Place::Cell(channel.to_owned(), mode);
    let wide = |channel: &str| Place::Channel(channel.to_owned());
    let (field, places, hint) = match error {
        TableError::Backwards { field, channel, looser, stricter } => (
            *field,
            vec![cell(channel, *looser), wide(channel), Place::Mode(*looser)],
            format!(
                "let it be as strict for {} in {}, or as loose here",
                stricter.as_str(),
                Place::Mode(*stricter)
            ),
        ),
        TableError::LeavesOut { place, channel, stricter, .. } => (
            "tools",
            vec![place.clone()],
            format!("restrict {} too, or use `tools` of [policy] or of {}", stricter.as_str(), wide(channel)),
        ),
        TableError::NoRole { channel, mode } => (
            "roles",
            vec![cell(channel, *mode), Place::Mode(*mode), wide(channel)],
            format!("name one of them in {} as well", wide(channel)),
        ),
        TableError::NoFirstTool { channel } => {
            let field =
                if resolved.stated(&wide(channel), FIRST_TOOL).is_some() { FIRST_TOOL } else { "tool_rule" };
            let hint = format!("add a line like first_tool = \"clock\" below {}", wide(channel));
            (field, vec![wide(channel)], hint)
        }
        TableError::NotAllowed { field, place, .. } => {
            (*field, vec![place.clone()], "name one of those, or add it to `roles`".to_owned())
        }
        TableError::Channel { .. } => ("", Vec::new(), String::new()),
    };
    let origin = places.iter().find_map(|place| resolved.stated(place, field));
    wrong(&origin.unwrap_or(ValueOrigin::Default), &error.to_string()).hint(hint)
}

#[cfg(test)]
mod tests;
