//! One property of a tool's input schema, and the values that fit it.
//!
//! It uses the few keywords that help to find a value. It is no validator: the registry checks every call.

use serde_json::{Number as JsonNumber, Value};

use super::clues::{Clues, NumberClue, split_words};

/// A property.
#[derive(Debug)]
pub(super) struct Property<'a> {
    pub(super) name: &'a str,
    pub(super) required: bool,
    pub(super) about: Option<&'a str>,
    /// Its schema, an optional's `null` left aside.
    schema: &'a Value,
    words: Vec<String>,
}

/// The kind of value to look for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PropertyKind<'a> {
    Choice(Vec<&'a str>),
    Number,
    Flag,
    Path,
    Sum,
    Query,
    Url,
    Zone,
    Text,
    Other,
}

const PATHS: [&str; 7] = ["path", "file", "filename", "filepath", "folder", "directory", "dir"];
const FOLDERS: [&str; 3] = ["folder", "directory", "dir"];
const SUMS: [&str; 4] = ["expression", "expr", "formula", "calculation"];
const QUERIES: [&str; 9] =
    ["query", "pattern", "search", "needle", "term", "regex", "q", "keyword", "contain"];
const COUNTS: [&str; 9] = ["limit", "count", "max", "line", "top", "n", "last", "tail", "number"];
const UNITS: [(&str, u64); 4] = [("second", 1), ("minute", 60), ("hour", 3_600), ("day", 86_400)];

impl<'a> Property<'a> {
    /// The properties of an object's schema, in the order of their names.
    pub(super) fn all(schema: &'a Value) -> Vec<Property<'a>> {
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let properties = schema["properties"].as_object().into_iter().flatten();
        properties
            .map(|(name, schema)| Property {
                name,
                required: required.contains(&name.as_str()),
                about: schema["description"].as_str(),
                schema: without_null(schema),
                words: split_words(name).collect(),
            })
            .collect()
    }

    /// The kind of value to look for.
    pub(super) fn kind(&self) -> PropertyKind<'a> {
        if let Some(values) = self.choices() {
            return PropertyKind::Choice(values);
        }
        match self.type_name() {
            Some("integer" | "number") => PropertyKind::Number,
            Some("boolean") => PropertyKind::Flag,
            Some("string") | None => self.text_kind(),
            Some(_) => PropertyKind::Other,
        }
    }

    fn text_kind(&self) -> PropertyKind<'a> {
        let about = |names: &[&str]| self.words.iter().any(|word| names.contains(&word.as_str()));
        match () {
            () if about(&SUMS) => PropertyKind::Sum,
            () if about(&QUERIES) => PropertyKind::Query,
            () if about(&["url", "uri", "link"]) => PropertyKind::Url,
            () if about(&["timezone", "tz", "zone"]) => PropertyKind::Zone,
            () if about(&PATHS) => PropertyKind::Path,
            () => PropertyKind::Text,
        }
    }

    fn choices(&self) -> Option<Vec<&'a str>> {
        let plain =
            self.schema["enum"].as_array().map(|values| values.iter().filter_map(Value::as_str).collect());
        // Documented variants of a Rust enum come as `oneOf` constants.
        let constants = || -> Option<Vec<&'a str>> {
            self.schema["oneOf"].as_array()?.iter().map(|one| one["const"].as_str()).collect()
        };
        plain.or_else(constants)
    }

    fn type_name(&self) -> Option<&'a str> {
        match &self.schema["type"] {
            Value::String(name) => Some(name),
            Value::Array(names) => names.iter().filter_map(Value::as_str).find(|name| *name != "null"),
            _ => None,
        }
    }

    /// Whether a word is one of the property's name.
    pub(super) fn is_about(&self, word: &str) -> bool {
        !word.is_empty() && self.words.iter().any(|own| own == word)
    }

    /// Whether it names a folder rather than a file.
    pub(super) fn is_folder(&self) -> bool {
        self.words.iter().any(|word| FOLDERS.contains(&word.as_str()))
    }

    /// Whether its schema has a pattern.
    pub(super) fn has_pattern(&self) -> bool {
        self.schema["pattern"].is_string()
    }

    /// Whether it takes a regular expression.
    pub(super) fn is_regex(&self) -> bool {
        self.is_about("regex")
            || self.about.is_some_and(|about| about.to_lowercase().contains("regular expression"))
    }

    /// Whether it is a count and the number is one, as in "the last 20 errors" or "2 hours".
    pub(super) fn counts(&self, number: &NumberClue) -> bool {
        let is_count = self.words.iter().any(|word| COUNTS.contains(&word.as_str()));
        let few = ["last", "first", "top", "latest", "newest"].contains(&number.before.as_str());
        let of_bytes = self.about.is_some_and(|about| about.contains("byte"));
        match self.unit() {
            None if of_bytes => number.after == "byte",
            Some(_) => seconds(&number.after).is_some(),
            None => is_count && seconds(&number.after).is_none() && (few || is_thing(&number.after)),
        }
    }

    /// A number in the property's own unit, if it fits the schema.
    pub(super) fn number(&self, number: &NumberClue) -> Option<Value> {
        let parsed: JsonNumber = number.text.parse().ok()?;
        let converted = match (self.unit(), seconds(&number.after), parsed.as_u64()) {
            (Some(own), Some(said), Some(n)) => {
                let all = n.checked_mul(said)?;
                (all % own == 0).then(|| JsonNumber::from(all / own))?
            }
            _ => parsed,
        };
        if self.type_name() == Some("integer") && !converted.is_i64() && !converted.is_u64() {
            return None;
        }
        Some(Value::Number(converted))
    }

    fn unit(&self) -> Option<u64> {
        self.words.iter().find_map(|word| seconds(word))
    }

    /// Whether a value keeps to the bounds of the schema.
    pub(super) fn admits(&self, value: &Value) -> bool {
        let bound = |name: &str| self.schema[name].as_f64();
        match value {
            Value::Number(n) => {
                let n = n.as_f64().unwrap_or_default();
                bound("minimum").is_none_or(|min| n >= min) && bound("maximum").is_none_or(|max| n <= max)
            }
            Value::String(text) => {
                let length = text.chars().count() as f64;
                bound("minLength").is_none_or(|min| length >= min)
                    && bound("maxLength").is_none_or(|max| length <= max)
            }
            _ => true,
        }
    }

    /// An answer to a question about this property alone.
    pub(super) fn read(&self, answer: &str) -> Option<Value> {
        let text = answer.trim().trim_matches(['"', '\'', '`', '“', '”']);
        let value = match self.kind() {
            PropertyKind::Choice(values) => values
                .into_iter()
                .find(|value| value.eq_ignore_ascii_case(text))
                .map(|v| Value::String(v.to_owned())),
            PropertyKind::Number => Clues::of(text).numbers.first().and_then(|number| self.number(number)),
            PropertyKind::Flag => match text.to_lowercase().as_str() {
                "yes" | "true" | "y" => Some(Value::Bool(true)),
                "no" | "false" | "n" => Some(Value::Bool(false)),
                _ => None,
            },
            PropertyKind::Sum => Some(Value::String(Clues::of(text).sum.unwrap_or_else(|| text.to_owned()))),
            PropertyKind::Other => None,
            _ => Some(Value::String(text.to_owned())),
        };
        value.filter(|value| self.admits(value) && *value != Value::String(String::new()))
    }
}

/// The part of an `anyOf` that is not `null`.
fn without_null(schema: &Value) -> &Value {
    let parts = schema["anyOf"].as_array();
    parts.and_then(|parts| parts.iter().find(|part| part["type"] != "null")).unwrap_or(schema)
}

fn seconds(word: &str) -> Option<u64> {
    UNITS.iter().find(|(unit, _)| *unit == word).map(|(_, seconds)| *seconds)
}

fn is_thing(word: &str) -> bool {
    [
        "line", "result", "entry", "entrie", "hit", "item", "error", "warning", "file", "match", "matche",
        "message",
    ]
    .contains(&word)
}
