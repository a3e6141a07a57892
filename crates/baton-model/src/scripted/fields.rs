//! The fields of hand-written JSON, with errors that name the place and the nearest known field.
//!
//! `serde` would parse the same, but cannot name the place in a list of lists.

use baton_core::id::excerpt;
use serde_json::{Map, Value};

use super::BadScript;

/// An error at a place.
pub(super) fn wrong(place: &str, problem: impl Into<String>) -> BadScript {
    let place = if place.is_empty() { "the script" } else { place };
    BadScript::Item { place: place.to_owned(), problem: problem.into() }
}

/// The fields of one object; each is taken once.
pub(super) struct ScriptFields<'a> {
    place: String,
    map: &'a Map<String, Value>,
}

impl<'a> ScriptFields<'a> {
    /// The fields of a value that must be an object with no other fields than the known ones.
    pub(super) fn of(value: &'a Value, place: &str, known: &[&str]) -> Result<Self, BadScript> {
        let Value::Object(map) = value else {
            return Err(wrong(place, format!("expected an object, found {}", kind(value))));
        };
        for name in map.keys() {
            if !known.contains(&name.as_str()) {
                return Err(wrong(place, format!("unknown field `{}`{}", excerpt(name), hint(name, known))));
            }
        }
        Ok(ScriptFields { place: place.to_owned(), map })
    }

    /// The names that are there.
    pub(super) fn names(&self) -> Vec<&'a str> {
        self.map.keys().map(String::as_str).collect()
    }

    /// A field that may be left out.
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name)
    }

    /// A field that must be there.
    pub(super) fn need(&self, name: &str) -> Result<&'a Value, BadScript> {
        self.get(name).ok_or_else(|| wrong(&self.place, format!("`{name}` is missing")))
    }

    /// Where a field stands.
    pub(super) fn place(&self, name: &str) -> String {
        if self.place.is_empty() { name.to_owned() } else { format!("{}.{name}", self.place) }
    }

    /// A text that may be left out.
    pub(super) fn text(&self, name: &str) -> Result<Option<String>, BadScript> {
        self.get(name).map(|value| text(value, &self.place(name))).transpose()
    }

    /// A text that must be there.
    pub(super) fn need_text(&self, name: &str) -> Result<String, BadScript> {
        text(self.need(name)?, &self.place(name))
    }

    /// A whole number that may be left out.
    pub(super) fn number(&self, name: &str) -> Result<Option<u64>, BadScript> {
        self.get(name).map(|value| number(value, &self.place(name))).transpose()
    }

    /// A whole number that must be there.
    pub(super) fn need_number(&self, name: &str) -> Result<u64, BadScript> {
        number(self.need(name)?, &self.place(name))
    }
}

/// A text.
pub(super) fn text(value: &Value, place: &str) -> Result<String, BadScript> {
    let Value::String(text) = value else {
        return Err(wrong(place, format!("expected a text, found {}", kind(value))));
    };
    Ok(text.clone())
}

/// A whole number, 0 or more.
pub(super) fn number(value: &Value, place: &str) -> Result<u64, BadScript> {
    value.as_u64().ok_or_else(|| {
        let found = if value.is_number() { value.to_string() } else { kind(value).to_owned() };
        wrong(place, format!("expected a whole number, 0 or more, found {found}"))
    })
}

/// A list.
pub(super) fn list<'a>(value: &'a Value, place: &str) -> Result<&'a [Value], BadScript> {
    let Value::Array(items) = value else {
        return Err(wrong(place, format!("expected a list, found {}", kind(value))));
    };
    Ok(items)
}

/// The type of a value, for a message.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The known name nearest to a wrong one, and all of them.
pub(super) fn hint(name: &str, known: &[&str]) -> String {
    match known.iter().min_by_key(|known| distance(name, known)) {
        Some(nearest) => format!("; did you mean `{nearest}`? (known here: {})", known.join(", ")),
        None => String::new(),
    }
}

/// How many letters must change to make one word of another.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let swap = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = swap.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
