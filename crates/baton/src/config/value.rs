//! The kinds of values, and parsing one from a flag, the environment or the file.

use std::fmt;
use std::path::{Path, PathBuf};

use baton_core::redact::without_secrets_in_urls;
use toml::de::DeValue;

use super::database::DatabaseUrl;

/// The levels of the log, from little to much.
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// The kind of a setting's value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum ValueKind {
    /// A path outside the file: only a flag or the environment names it.
    Place,
    /// Text.
    Text,
    /// A level of the log.
    Level,
    /// A whole number from the first to the second.
    Whole(u64, u64),
    /// A number, 0 or more.
    Decimal,
    /// A number from 0 to this.
    UpTo(f64),
    /// A list of texts.
    Names,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Yes or no.
    Switch,
    /// The name of an environment variable. Capital letters alone, so that a key in its place is refused.
    Variable,
    /// The path of a file that holds a key. Never shown: the user might have put the key itself there.
    KeyFile,
    /// The address of a database. Its password is never shown, and never stands in the file.
    Database,
}

impl ValueKind {
    /// In words, for documents and errors.
    pub(crate) fn in_words(self) -> String {
        match self {
            ValueKind::Place => "a path".to_owned(),
            ValueKind::Text | ValueKind::KeyFile => "text".to_owned(),
            ValueKind::Level => format!("one of {}", LEVELS.join(", ")),
            ValueKind::Whole(least, most) => format!("a whole number from {least} to {most}"),
            ValueKind::Decimal => "a number, 0 or more".to_owned(),
            ValueKind::UpTo(most) => format!("a number from 0 to {most}"),
            ValueKind::Names => "a list of texts".to_owned(),
            ValueKind::OneOf(words) => format!("one of {}", words.join(", ")),
            ValueKind::Switch => "true or false".to_owned(),
            ValueKind::Variable => {
                "the name of an environment variable, in capital letters, digits and _".to_owned()
            }
            ValueKind::Database => {
                "an address that begins with postgresql://; in the file it has no password".to_owned()
            }
        }
    }
}

/// A path that is never shown: all output says only that it is set.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Unshown(pub(crate) PathBuf);

const SET: &str = "(set)";

impl fmt::Debug for Unshown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SET)
    }
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    /// See [`ValueKind::Place`].
    Path(PathBuf),
    /// See [`ValueKind::Text`], [`ValueKind::Level`], [`ValueKind::OneOf`] and [`ValueKind::Variable`].
    Text(String),
    /// See [`ValueKind::Whole`].
    Whole(u64),
    /// See [`ValueKind::Decimal`] and [`ValueKind::UpTo`].
    Decimal(f64),
    /// See [`ValueKind::Names`].
    Names(Vec<String>),
    /// See [`ValueKind::Switch`].
    Switch(bool),
    /// See [`ValueKind::KeyFile`].
    KeyFile(Unshown),
    /// See [`ValueKind::Database`].
    Database(DatabaseUrl),
}

impl Value {
    pub(crate) fn as_path(&self) -> Option<&Path> {
        if let Value::Path(path) = self { Some(path) } else { None }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        if let Value::Text(text) = self { Some(text) } else { None }
    }

    pub(crate) fn as_whole(&self) -> Option<u64> {
        if let Value::Whole(number) = self { Some(*number) } else { None }
    }

    pub(crate) fn as_decimal(&self) -> Option<f64> {
        if let Value::Decimal(number) = self { Some(*number) } else { None }
    }

    pub(crate) fn as_names(&self) -> Option<&[String]> {
        if let Value::Names(names) = self { Some(names) } else { None }
    }

    pub(crate) fn as_switch(&self) -> Option<bool> {
        if let Value::Switch(on) = self { Some(*on) } else { None }
    }

    pub(crate) fn as_key_file(&self) -> Option<&Unshown> {
        if let Value::KeyFile(path) = self { Some(path) } else { None }
    }

    pub(crate) fn as_database(&self) -> Option<&DatabaseUrl> {
        if let Value::Database(url) = self { Some(url) } else { None }
    }

    /// The value as JSON, with secrets in URLs removed.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        match self {
            Value::Path(path) => path.to_string_lossy().into(),
            Value::Text(text) => without_secrets_in_urls(text).into_owned().into(),
            Value::Whole(number) => (*number).into(),
            Value::Decimal(number) => (*number).into(),
            Value::Names(names) => shown(names).into(),
            Value::Switch(on) => (*on).into(),
            Value::KeyFile(_) => SET.into(),
            Value::Database(url) => url.shown().into(),
        }
    }
}

/// Names for display: some are URLs, whose secrets are removed.
fn shown(names: &[String]) -> Vec<String> {
    names.iter().map(|name| without_secrets_in_urls(name).into_owned()).collect()
}

/// The value as TOML, with secrets in URLs removed.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Path(path) => path.display().fmt(f),
            Value::Text(text) => toml::Value::from(without_secrets_in_urls(text).into_owned()).fmt(f),
            Value::Whole(number) => number.fmt(f),
            Value::Decimal(number) => toml::Value::from(*number).fmt(f),
            Value::Names(names) => toml::Value::from(shown(names)).fmt(f),
            Value::Switch(on) => on.fmt(f),
            Value::KeyFile(_) => f.write_str(SET),
            Value::Database(url) => toml::Value::from(url.shown()).fmt(f),
        }
    }
}

/// A value from a flag or the environment.
pub(super) fn from_text(kind: ValueKind, text: &str) -> Result<Value, String> {
    let expected = || format!("expected {}", kind.in_words());
    match kind {
        ValueKind::Place => Ok(Value::Path(text.into())),
        ValueKind::Text => Ok(Value::Text(text.to_owned())),
        ValueKind::Level => level(text).ok_or_else(expected),
        ValueKind::Whole(least, most) => {
            let number = text.trim().parse().ok().filter(|n| (least..=most).contains(n));
            number.map(Value::Whole).ok_or_else(expected)
        }
        ValueKind::Decimal => text.trim().parse().ok().and_then(decimal).ok_or_else(expected),
        ValueKind::UpTo(most) => text.trim().parse().ok().and_then(up_to(most)).ok_or_else(expected),
        ValueKind::Names => {
            let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
            Ok(Value::Names(names.map(str::to_owned).collect()))
        }
        ValueKind::OneOf(words) => word(words, text).ok_or_else(expected),
        ValueKind::Switch => text.trim().parse().map(Value::Switch).map_err(|_| expected()),
        ValueKind::Variable => variable(text).ok_or_else(expected),
        ValueKind::KeyFile => Ok(Value::KeyFile(Unshown(text.into()))),
        ValueKind::Database => DatabaseUrl::read(text).map(Value::Database).ok_or_else(expected),
    }
}

/// Parses a value from the file. An error does not repeat the value: it might be a secret.
pub(super) fn from_toml(kind: ValueKind, value: &DeValue<'_>) -> Result<Value, String> {
    let expected = || format!("expected {}", kind.in_words());
    let found = match (kind, value) {
        (ValueKind::Text, DeValue::String(text)) => Some(Value::Text(text.to_string())),
        (ValueKind::Level, DeValue::String(text)) => level(text),
        (ValueKind::OneOf(words), DeValue::String(text)) => word(words, text),
        (ValueKind::Variable, DeValue::String(text)) => variable(text),
        (ValueKind::KeyFile, DeValue::String(text)) => Some(Value::KeyFile(Unshown(text.as_ref().into()))),
        (ValueKind::Database, DeValue::String(text)) => {
            DatabaseUrl::read(text).filter(|url| !url.has_password()).map(Value::Database)
        }
        (ValueKind::Switch, DeValue::Boolean(on)) => Some(Value::Switch(*on)),
        (ValueKind::Whole(least, most), DeValue::Integer(number)) => {
            let number = u64::from_str_radix(number.as_str(), number.radix()).ok();
            number.filter(|n| (least..=most).contains(n)).map(Value::Whole)
        }
        (ValueKind::Decimal, DeValue::Float(number)) => number.as_str().parse().ok().and_then(decimal),
        (ValueKind::Decimal, DeValue::Integer(number)) => number.as_str().parse().ok().and_then(decimal),
        (ValueKind::UpTo(most), DeValue::Float(number)) => number.as_str().parse().ok().and_then(up_to(most)),
        (ValueKind::UpTo(most), DeValue::Integer(number)) => {
            number.as_str().parse().ok().and_then(up_to(most))
        }
        (ValueKind::Names, DeValue::Array(items)) => {
            let name = |item: &toml::Spanned<DeValue<'_>>| match item.get_ref() {
                DeValue::String(text) => Some(text.to_string()),
                _ => None,
            };
            items.iter().map(name).collect::<Option<_>>().map(Value::Names)
        }
        _ => None,
    };
    found.ok_or_else(expected)
}

fn decimal(number: f64) -> Option<Value> {
    (number.is_finite() && number >= 0.0).then_some(Value::Decimal(number))
}

fn up_to(most: f64) -> impl Fn(f64) -> Option<Value> {
    move |number| decimal(number).filter(|_| number <= most)
}

fn word(words: &[&str], text: &str) -> Option<Value> {
    words.contains(&text).then(|| Value::Text(text.to_owned()))
}

fn variable(text: &str) -> Option<Value> {
    let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let begins = text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    (begins && text.bytes().all(fits)).then(|| Value::Text(text.to_owned()))
}

/// Parses a level: any case, and the names that other programs have for the same levels.
fn level(text: &str) -> Option<Value> {
    let name = match text.to_ascii_lowercase().as_str() {
        "warning" => "warn".to_owned(),
        "critical" | "fatal" => "error".to_owned(),
        other => other.to_owned(),
    };
    LEVELS.contains(&name.as_str()).then_some(Value::Text(name))
}
