//! Reading `baton.toml`. Unknown settings are refused with their file, their line and the nearest existing setting, if
//! one is near; all of them at once, in the order of the file. Values never stand in an error: one of them might be a
//! secret.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::ValueOrigin;
use super::groups::NamedTable;
use super::named::{self, SECTIONS};
use super::nearest::{asked, nearest, question};
use super::table::{self, SETTINGS};
use super::value::{self, Value};
use crate::failure::Failure;

/// The largest file that is read.
const MOST_BYTES: u64 = 1 << 20;

/// One setting of the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FileLine {
    pub(super) key: &'static str,
    pub(super) value: Value,
    pub(super) origin: ValueOrigin,
}

/// The content of a file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Contents {
    /// The settings of the fixed table.
    pub(super) lines: Vec<FileLine>,
    /// The tables of sections with chosen names, in the order of the file.
    pub(super) groups: Vec<NamedTable>,
}

/// Reads a file; one that the user named must exist.
pub(super) fn read(path: &Path, must_exist: bool) -> Result<Contents, Failure> {
    match text(path) {
        Ok(text) => parse(path, &text),
        Err(error) if error.kind() == ErrorKind::NotFound && !must_exist => Ok(Contents::default()),
        Err(error) => Err(Failure::usage(format!("{} cannot be read: {error}", path.display()))
            .hint("baton init writes a commented one; --config FILE names another")),
    }
}

fn text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(io::Error::other(format!("it is larger than {} MiB", MOST_BYTES >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8 text"))
}

/// The most mistakes that are reported: a user reads no further, and neither does this.
const MOST_MISTAKES: usize = 50;

/// Reads the text of a file.
pub(super) fn parse(path: &Path, text: &str) -> Result<Contents, Failure> {
    let mut reading = Reading { path, text, mistakes: RefCell::default() };
    let document = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        reading.wrong(at, &format!("this is not TOML: {}", error.message()))
    })?;
    let mut contents = Contents::default();
    reading.table("", document.get_ref(), &mut contents);
    let mut mistakes = std::mem::take(reading.mistakes.get_mut());
    mistakes.sort_by_key(|(at, _)| *at);
    Failure::of_all(mistakes.into_iter().map(|(_, failure)| failure).collect())?;
    let number = |group: &NamedTable| match &group.origin {
        ValueOrigin::File(_, number) => *number,
        _ => 0,
    };
    contents.groups.sort_by_key(number);
    Ok(contents)
}

/// A file that is being read.
pub(super) struct Reading<'a> {
    path: &'a Path,
    text: &'a str,
    /// The mistakes so far, each with its place.
    mistakes: RefCell<Vec<(usize, Failure)>>,
}

impl Reading<'_> {
    fn table(&self, prefix: &str, table: &DeTable<'_>, contents: &mut Contents) {
        for (name, value) in table {
            if self.mistakes.borrow().len() >= MOST_MISTAKES {
                return;
            }
            let key = if prefix.is_empty() {
                name.get_ref().to_string()
            } else {
                format!("{prefix}.{}", name.get_ref())
            };
            let at = name.span().start;
            if let Some(section) = named::section(&key) {
                self.section(section, at, value.get_ref(), &mut contents.groups);
                continue;
            }
            let is_section =
                SETTINGS.iter().any(|s| s.key.strip_prefix(&key).is_some_and(|rest| rest.starts_with('.')));
            match (table::setting(&key), value.get_ref()) {
                (Some(setting), _) if setting.is_place() => self.refuse(at, self.wrong(at, &place(setting))),
                (Some(setting), found) => match value::from_toml(setting.kind, found) {
                    Ok(value) => {
                        contents.lines.push(FileLine { key: setting.key, value, origin: self.origin(at) });
                    }
                    Err(why) => {
                        self.refuse(at, self.wrong(at, &format!("`{key}`: {why}, like {}", setting.example)));
                    }
                },
                (None, DeValue::Table(inner)) if is_section => self.table(&key, inner, contents),
                (None, found) => self.refuse(at, self.unknown(&key, at, found)),
            }
        }
    }

    /// Records a mistake, and goes on: all of them are reported at once.
    pub(super) fn refuse(&self, at: usize, failure: Failure) {
        self.mistakes.borrow_mut().push((at, failure));
    }

    fn unknown(&self, key: &str, at: usize, value: &DeValue<'_>) -> Failure {
        if let Some((name, at)) = secret(key, at, value) {
            return self.refuse_secret(&name, at);
        }
        let (meant, hint) = alternatives(key);
        let key = baton_core::id::excerpt(key);
        self.wrong(at, &format!("there is no setting `{key}`{meant}")).hint(hint)
    }

    pub(super) fn refuse_secret(&self, name: &str, at: usize) -> Failure {
        let hint = "name where it is kept instead: key_env = \"VARIABLE\" or key_file = \"FILE\"";
        self.wrong(at, &format!("`{name}`: secrets are never values in this file")).hint(hint)
    }

    pub(super) fn wrong(&self, at: usize, why: &str) -> Failure {
        Failure::usage(format!("{}:{}: {why}", self.path.display(), self.line(at)))
    }

    pub(super) fn origin(&self, at: usize) -> ValueOrigin {
        ValueOrigin::File(self.path.to_owned(), self.line(at))
    }

    fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
    }
}

/// The nearest setting to an unknown key, and the existing ones: in its section, or at the top.
fn alternatives(key: &str) -> (String, String) {
    let fixed = || SETTINGS.iter().filter(|setting| !setting.is_place());
    if let Some((section, name)) = key.split_once('.') {
        let within =
            |key: &'static str| key.split_once('.').filter(|(of, _)| *of == section).map(|(_, name)| name);
        let tables = SECTIONS.iter().filter_map(|it| within(it.key));
        let names: Vec<&str> =
            fixed().filter(|s| s.section() == section).map(|s| s.name()).chain(tables).collect();
        let meant = nearest(name, names.iter().copied()).map(|name| asked(format!("{section}.{name}")));
        return (meant.unwrap_or_default(), format!("[{section}] takes {}", names.join(", ")));
    }
    let tables: Vec<String> = SECTIONS.iter().map(|section| section.head("NAME")).collect();
    let hint = format!(
        "baton --config /dev/null config show lists all settings; {} are tables beside them",
        tables.join(", ")
    );
    // The user may have left out the section of an existing setting.
    let meant = match fixed().find(|setting| setting.name() == key) {
        Some(setting) => asked(setting.key),
        None => {
            let tops = fixed().map(|s| if s.section().is_empty() { s.key } else { s.section() });
            question(key, tops.chain(SECTIONS.iter().map(|section| section.key)))
        }
    };
    (meant, hint)
}

fn place(setting: &table::SettingSpec) -> String {
    let (flag, env) = (setting.flag.unwrap_or_default(), setting.env.unwrap_or_default());
    format!("`{}` is not set in this file: use {flag} or {env}", setting.key)
}

/// The first entry that looks like a secret, here or in a nested table.
pub(super) fn secret(key: &str, at: usize, value: &DeValue<'_>) -> Option<(String, usize)> {
    if let DeValue::Table(table) = value {
        let further = |(name, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
            secret(name.get_ref(), name.span().start, value.get_ref())
        };
        return table.iter().find_map(further);
    }
    if let DeValue::Array(items) = value
        && let Some(found) = items.iter().find_map(|item| secret("", at, item.get_ref()))
    {
        return Some(found);
    }
    let leaf = key.rsplit('.').next().unwrap_or(key).to_ascii_lowercase();
    // A setting for a number of tokens holds no secret token.
    let is_count = leaf.contains("token") && matches!(value, DeValue::Integer(_));
    let names_a_place = leaf.ends_with("_env") || leaf.ends_with("_file");
    let looks_secret = leaf == "key"
        || ["api_key", "apikey", "api-key", "token", "secret", "password"].iter().any(|s| leaf.contains(s));
    (looks_secret && !names_a_place && !is_count).then(|| (baton_core::id::excerpt(key), at))
}
