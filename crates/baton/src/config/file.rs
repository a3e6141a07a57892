//! Reading `baton.toml`. What is not understood is refused with its file, its line and the nearest
//! setting that there is. Values never stand in an error: one of them might be a secret.

use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::table::{self, SETTINGS};
use super::value::{self, Value};
use crate::failure::Failure;

/// The largest file that is read.
const MOST_BYTES: u64 = 1 << 20;

/// One setting of the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    pub(super) key: &'static str,
    pub(super) value: Value,
    pub(super) file: PathBuf,
    pub(super) number: usize,
}

/// Reads a file; one that must be there was named by somebody.
pub(super) fn read(path: &Path, must_exist: bool) -> Result<Vec<Line>, Failure> {
    match text(path) {
        Ok(text) => parse(path, &text),
        Err(error) if error.kind() == ErrorKind::NotFound && !must_exist => Ok(Vec::new()),
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

/// Reads the text of a file.
pub(super) fn parse(path: &Path, text: &str) -> Result<Vec<Line>, Failure> {
    let reading = Reading { path, text };
    let document = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        reading.wrong(at, &format!("this is not TOML: {}", error.message()))
    })?;
    let mut lines = Vec::new();
    reading.table("", document.get_ref(), &mut lines)?;
    Ok(lines)
}

struct Reading<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Reading<'_> {
    fn table(&self, prefix: &str, table: &DeTable<'_>, lines: &mut Vec<Line>) -> Result<(), Failure> {
        for (name, value) in table {
            let key = if prefix.is_empty() {
                name.get_ref().to_string()
            } else {
                format!("{prefix}.{}", name.get_ref())
            };
            let at = name.span().start;
            let is_section =
                SETTINGS.iter().any(|s| s.key.strip_prefix(&key).is_some_and(|rest| rest.starts_with('.')));
            match (table::setting(&key), value.get_ref()) {
                (Some(setting), _) if setting.is_place() => return Err(self.wrong(at, &place(setting))),
                (Some(setting), found) => {
                    let value = value::from_toml(setting.kind, found).map_err(|why| {
                        self.wrong(at, &format!("`{key}`: {why}, like {}", setting.example))
                    })?;
                    lines.push(Line {
                        key: setting.key,
                        value,
                        file: self.path.to_owned(),
                        number: self.line(at),
                    });
                }
                (None, DeValue::Table(inner)) if is_section => self.table(&key, inner, lines)?,
                (None, found) => return Err(self.unknown(&key, at, found)),
            }
        }
        Ok(())
    }

    fn unknown(&self, key: &str, at: usize, value: &DeValue<'_>) -> Failure {
        if let Some((name, at)) = secret(key, at, value) {
            let why = format!("`{name}`: secrets are never values in this file");
            let hint = "name where it is kept instead: key_env = \"VARIABLE\" or key_file = \"FILE\"";
            return self.wrong(at, &why).hint(hint);
        }
        let key = baton_core::id::excerpt(key);
        let nearest =
            SETTINGS.iter().filter(|s| !s.is_place()).min_by_key(|s| strsim::levenshtein(&key, s.key));
        let nearest = nearest.map(|s| format!("; did you mean `{}`?", s.key)).unwrap_or_default();
        self.wrong(at, &format!("there is no setting `{key}`{nearest}"))
            .hint("baton --config /dev/null config show lists all of them")
    }

    fn wrong(&self, at: usize, why: &str) -> Failure {
        Failure::usage(format!("{}:{}: {why}", self.path.display(), self.line(at)))
    }

    fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
    }
}

fn place(setting: &table::Setting) -> String {
    let (flag, env) = (setting.flag.unwrap_or_default(), setting.env.unwrap_or_default());
    format!("`{}` is not set in this file: use {flag} or {env}", setting.key)
}

/// The first entry that looks like a secret, here or further in.
fn secret(key: &str, at: usize, value: &DeValue<'_>) -> Option<(String, usize)> {
    if let DeValue::Table(table) = value {
        let further = |(name, value): (&Spanned<std::borrow::Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
            secret(name.get_ref(), name.span().start, value.get_ref())
        };
        return table.iter().find_map(further);
    }
    let leaf = key.rsplit('.').next().unwrap_or(key).to_ascii_lowercase();
    let names_a_place = leaf.ends_with("_env") || leaf.ends_with("_file");
    let looks_secret = leaf == "key"
        || ["api_key", "apikey", "api-key", "token", "secret", "password"].iter().any(|s| leaf.contains(s));
    (looks_secret && !names_a_place).then(|| (baton_core::id::excerpt(key), at))
}
