//! `baton policy show`: prints the whole table as it holds.

use baton_core::policy::table::{FIELDS, LIMITS, Place, Table};
use serde_json::{Map, Value, json};

use crate::failure::{Failure, exit};
use crate::shape::pretty;
use crate::terminal::{DIM, line, styled};

/// A table of the file.
struct TomlTable {
    head: String,
    fields: Vec<PolicyField>,
}

struct PolicyField {
    name: &'static str,
    value: Value,
    stated: bool,
    lifted: Option<String>,
}

pub(super) fn run(table: &Table, json: bool) -> Result<u8, Failure> {
    let shown: Vec<TomlTable> = table.rows().places().flat_map(|place| rows(table, &place)).collect();
    if json {
        line(pretty(&json!({ "rows": shown.iter().map(object).collect::<Vec<_>>() })))?;
        return Ok(exit::OK);
    }
    line(styled(
        DIM,
        "# What each request may do. Any part of this can be pasted into baton.toml and changed there.",
    ))?;
    for row in &shown {
        line(text(row))?;
    }
    Ok(exit::OK)
}

/// The rows of a place. The row for everywhere is two tables of the file, `[policy]` and `[limits]`, every other row
/// one.
fn rows(table: &Table, place: &Place) -> Vec<TomlTable> {
    let fields = FIELDS.iter().filter_map(|name| field(table, place, name));
    if *place != Place::Everywhere {
        return vec![TomlTable { head: place.to_string(), fields: fields.collect() }];
    }
    let limit = |name: &str| LIMITS.iter().find(|(field, _)| *field == name).map(|(_, limit)| *limit);
    let (mut policy, mut limits) = (Vec::new(), Vec::new());
    for field in fields {
        match limit(field.name) {
            Some(name) => limits.push(PolicyField { name, ..field }),
            None => policy.push(field),
        }
    }
    let tables = [("[policy]", policy), ("[limits]", limits)].into_iter();
    let shown = tables.map(|(head, fields)| TomlTable { head: head.to_owned(), fields });
    shown.filter(|shown| !shown.fields.is_empty()).collect()
}

fn field(table: &Table, place: &Place, name: &'static str) -> Option<PolicyField> {
    let value = table.rows().at(place)?.get(name)?;
    let stated = table.stated().at(place).is_some_and(|row| row.get(name).is_some());
    let lifted = table.lifted(place, name).map(ToString::to_string);
    Some(PolicyField { name, value, stated, lifted })
}

fn text(row: &TomlTable) -> String {
    let built_in = row.fields.iter().all(|field| !field.stated && field.lifted.is_none());
    let remark = |remark: String| styled(DIM, format!("  # {remark}"));
    let head_remark = if built_in { remark("built in".to_owned()) } else { String::new() };
    let mut lines = vec![String::new(), format!("{}{head_remark}", row.head)];
    lines.extend(row.fields.iter().map(|field| {
        let from = match &field.lifted {
            Some(by) => remark(format!("built in, lifted to what {by} has")),
            None if !field.stated && !built_in => remark("built in".to_owned()),
            None => String::new(),
        };
        format!("{} = {}{from}", field.name, toml(&field.value))
    }));
    lines.join("\n")
}

fn toml(value: &Value) -> String {
    toml::Value::try_from(value).map(|value| value.to_string()).unwrap_or_default()
}

fn object(row: &TomlTable) -> Value {
    let values: Map<String, Value> =
        row.fields.iter().map(|field| (field.name.to_owned(), field.value.clone())).collect();
    let names = |of: fn(&PolicyField) -> bool| -> Vec<&str> {
        row.fields.iter().filter(|field| of(field)).map(|field| field.name).collect()
    };
    json!({
        "row": row.head,
        "values": values,
        "stated": names(|field| field.stated),
        "lifted": names(|field| field.lifted.is_some()),
    })
}
