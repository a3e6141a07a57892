//! The order of the modes: built-in values that break it are lifted, the operator's are refused.
//!
//! After [`settle`] no more comparison is needed: every cell allows at least as much as the stricter modes
//! on its channel. A list of tools covers every pattern of a stricter one ([`left_out`]).

use super::cover::left_out;
use super::row::{Place, Row};
use super::{Table, TableError};
use crate::policy::{BY_QUESTION, Mode, ToolRule};

/// A field whose values are ordered by strictness.
pub(super) struct Ordered {
    name: &'static str,
    /// Whether the first row has it stricter than the second.
    is_stricter: fn(&Row, &Row) -> bool,
    is_said: fn(&Row) -> bool,
    /// Takes it from another row.
    take: fn(&mut Row, &Row),
}

macro_rules! ordered {
    ($($name:ident: $stricter:ident),* $(,)?) => {
        &[$(Ordered {
            name: stringify!($name),
            is_stricter: |a, b| $stricter(a.$name, b.$name),
            is_said: |row| row.$name.is_some(),
            take: |row, from| row.$name = from.$name,
        }),*]
    };
}

/// All ordered fields.
const ORDERED: &[Ordered] = ordered![
    rounds: less,
    time_s: less,
    tokens: less,
    answer_tokens: less,
    tool_calls: less,
    cost_usd: less,
    temperature: less,
    self_check: more_careful,
    on_unknown: more_careful,
    untrusted_egress: more_careful,
    patience_s: less,
];

/// Whether `a` is the lower limit; an absent one is no limit.
fn less<T: PartialOrd>(a: Option<T>, b: Option<T>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a < b,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

fn more_careful<T: Ord + Default>(a: Option<T>, b: Option<T>) -> bool {
    a.unwrap_or_default() > b.unwrap_or_default()
}

/// Lifts built-in values to those of stricter modes, and refuses values of the operator that would need it.
pub(super) fn settle(table: &mut Table) -> Result<(), TableError> {
    let pairs = || Mode::ALL.into_iter().flat_map(|mode| stricter(mode).map(move |other| (mode, other)));
    for (mode, other) in pairs() {
        lift_mode(table, mode, other);
    }
    let channels: Vec<String> = table.channels().map(str::to_owned).collect();
    for channel in &channels {
        replace_roles(table, channel);
        for (mode, other) in pairs() {
            settle_cell(table, channel, mode, other)?;
            settle_tools(table, channel, mode, other)?;
            same_roles(table, channel, mode, other)?;
        }
        somebody_answers(table, channel)?;
        something_runs(table, channel)?;
    }
    Ok(())
}

fn stricter(mode: Mode) -> impl Iterator<Item = Mode> {
    Mode::ALL.into_iter().filter(move |it| *it < mode)
}

/// Lifts a mode's built-in values to those of a stricter mode where they are less, for all channels at once.
fn lift_mode(table: &mut Table, mode: Mode, other: Mode) {
    let theirs = table.rows.modes.get(&other).cloned().unwrap_or_default();
    for field in ORDERED {
        let Some(row) = table.rows.modes.get_mut(&mode) else { return };
        let is_stated = table.stated.modes.get(&mode).is_some_and(field.is_said);
        if !is_stated && (field.is_stricter)(row, &theirs) {
            (field.take)(row, &theirs);
            table.lifted.insert((Place::Mode(mode), field.name), Place::Mode(other));
        }
    }
    let is_stated = table.stated.modes.get(&mode).is_some_and(|row| row.tools.is_some());
    let Some(row) = table.rows.modes.get_mut(&mode).filter(|_| !is_stated) else { return };
    let missing = left_out(tools(row), tools(&theirs));
    if !missing.is_empty() {
        row.tools.get_or_insert_default().extend(missing);
        table.lifted.insert((Place::Mode(mode), TOOLS), Place::Mode(other));
    }
}

const TOOLS: &str = "tools";

fn tools(row: &Row) -> &[String] {
    row.tools.as_deref().unwrap_or_default()
}

fn settle_cell(table: &mut Table, channel: &str, mode: Mode, other: Mode) -> Result<(), TableError> {
    for field in ORDERED {
        let (own, theirs) = (table.cell(channel, mode), table.cell(channel, other));
        if !(field.is_stricter)(&own, &theirs) {
            continue;
        }
        let from = table.source(channel, mode, field.is_said);
        if from.as_ref().and_then(|place| table.stated.at(place)).is_some_and(field.is_said) {
            return Err(TableError::Backwards {
                field: field.name,
                channel: channel.to_owned(),
                looser: mode,
                stricter: other,
            });
        }
        let by = table.source(channel, other, field.is_said).unwrap_or(Place::Mode(other));
        (field.take)(table.rows.cells.entry((channel.to_owned(), mode)).or_default(), &theirs);
        table.lifted.insert((Place::Cell(channel.to_owned(), mode), field.name), by);
    }
    Ok(())
}

/// Adds the missing patterns to a built-in list of tools; a list of the operator that lacks some is refused.
fn settle_tools(table: &mut Table, channel: &str, mode: Mode, other: Mode) -> Result<(), TableError> {
    let said = |row: &Row| row.tools.is_some();
    let (own, theirs) = (table.of_mode(channel, mode, said), table.of_mode(channel, other, said));
    let (Some((place, own)), Some((by, theirs))) = (own, theirs) else { return Ok(()) };
    let missing = left_out(tools(own), tools(theirs));
    let Some(pattern) = missing.first().cloned() else { return Ok(()) };
    let channel = channel.to_owned();
    if table.stated.at(&place).is_some_and(said) {
        return Err(TableError::LeavesOut { place, channel, looser: mode, stricter: other, pattern });
    }
    let whole = tools(own).iter().cloned().chain(missing).collect();
    table.rows.cells.entry((channel.clone(), mode)).or_default().tools = Some(whole);
    table.lifted.insert((Place::Cell(channel, mode), TOOLS), by);
    Ok(())
}

/// Checks that a mode allows every role that a stricter one allows.
fn same_roles(table: &Table, channel: &str, mode: Mode, other: Mode) -> Result<(), TableError> {
    let (own, theirs) = (table.roles(channel, mode), table.roles(channel, other));
    if theirs.iter().all(|role| own.contains(role)) {
        return Ok(());
    }
    Err(TableError::Backwards { field: "roles", channel: channel.to_owned(), looser: mode, stricter: other })
}

/// Replaces a built-in role that the operator does not allow on a channel by the first allowed one.
fn replace_roles(table: &mut Table, channel: &str) {
    let allowed = table.roles(channel, Mode::Exploratory);
    let stated = table.stated.channels.get(channel).cloned().unwrap_or_default();
    let Some(row) = table.rows.channels.get_mut(channel) else { return };
    let is_gone = |role: &Option<String>| {
        role.as_ref().is_some_and(|role| role != BY_QUESTION && !allowed.contains(role))
    };
    if stated.default_role.is_none() && is_gone(&row.default_role) {
        row.default_role = allowed.first().cloned();
    }
    if stated.after_tools.is_none() && is_gone(&row.after_tools) {
        row.after_tools = None;
    }
}

/// Checks that every mode has a role, and that a role that the operator wants to answer is allowed to.
fn somebody_answers(table: &Table, channel: &str) -> Result<(), TableError> {
    for mode in Mode::ALL {
        if table.roles(channel, mode).is_empty() {
            return Err(TableError::NoRole { channel: channel.to_owned(), mode });
        }
    }
    let of_channel = (Place::Channel(channel.to_owned()), Mode::Exploratory);
    let of_cells = Mode::ALL.map(|mode| (Place::Cell(channel.to_owned(), mode), mode));
    for (place, mode) in std::iter::once(of_channel).chain(of_cells) {
        let Some(row) = table.stated.at(&place) else { continue };
        let allowed = table.roles(channel, mode);
        for (field, role) in [("default_role", &row.default_role), ("after_tools", &row.after_tools)] {
            let Some(role) = role.as_ref().filter(|role| *role != BY_QUESTION) else { continue };
            if !allowed.contains(role) {
                let role = role.clone();
                return Err(TableError::NotAllowed { field, place, role, allowed });
            }
        }
    }
    Ok(())
}

/// Checks that a channel that requires a tool names one to run first.
fn something_runs(table: &Table, channel: &str) -> Result<(), TableError> {
    let first = table.rows.channels.get(channel).and_then(|row| row.first_tool.as_ref());
    if table.tool_rule(channel) == ToolRule::Required && first.is_none_or(String::is_empty) {
        return Err(TableError::NoFirstTool { channel: channel.to_owned() });
    }
    Ok(())
}
