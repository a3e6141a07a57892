//! The place of a provider's key, and whether it is there. The key itself is never shown.

use std::ffi::OsString;
use std::io::Read;

use baton_model::Secret;

use crate::config::{KeyPlace, Origin};
use crate::failure::Failure;

/// The longest key that is read from a file.
const MOST_BYTES: u64 = 64 << 10;

/// The result of looking for a key.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    /// The place where it is looked for, in words; empty where none is needed.
    pub(crate) place: String,
    found: Found,
}

#[derive(Debug, Clone)]
enum Found {
    NotNeeded,
    There(Secret),
    /// The file and line that name it, and the problem.
    Missing(Option<Origin>, String),
}

/// Looks for a key at its place.
pub(crate) fn look_for(place: &KeyPlace, environment: &dyn Fn(&str) -> Option<OsString>) -> Key {
    match place {
        KeyPlace::None => Key { place: String::new(), found: Found::NotNeeded },
        KeyPlace::Variable(name) => {
            let found = match environment(name).filter(|value| !value.is_empty()) {
                None => Found::Missing(None, "it is not set".to_owned()),
                Some(value) => match value.to_str().map(str::trim) {
                    None => Found::Missing(None, "it is not UTF-8 text".to_owned()),
                    Some("") => Found::Missing(None, "it is empty".to_owned()),
                    Some(text) => Found::There(Secret::new(text)),
                },
            };
            Key { place: name.clone(), found }
        }
        KeyPlace::File(path, origin) => {
            let found = match read(&path.0) {
                Ok(text) if text.trim().is_empty() => {
                    Found::Missing(Some(origin.clone()), "it is empty".to_owned())
                }
                Ok(text) => Found::There(Secret::new(&text)),
                Err(error) => Found::Missing(Some(origin.clone()), format!("it cannot be read: {error}")),
            };
            Key { place: "key_file".to_owned(), found }
        }
    }
}

fn read(path: &std::path::Path) -> std::io::Result<String> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MOST_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

impl Key {
    /// Whether there is one.
    pub(crate) fn is_there(&self) -> bool {
        matches!(self.found, Found::There(_))
    }

    /// The key, for the catalog.
    pub(crate) fn secret(&self) -> Option<Secret> {
        match &self.found {
            Found::There(secret) => Some(secret.clone()),
            Found::NotNeeded | Found::Missing(..) => None,
        }
    }

    /// The state in a word: `not needed`, the place, or the problem with it.
    pub(crate) fn in_words(&self) -> String {
        match &self.found {
            Found::NotNeeded => "not needed".to_owned(),
            Found::There(secret) if secret.is_too_short() => {
                format!("{} is set, too short to be hidden where a server repeats it", self.place)
            }
            Found::There(_) => format!("{} is set", self.place),
            Found::Missing(_, why) if why == "it is not set" => format!("{} is not set", self.place),
            Found::Missing(_, why) => format!("{}: {why}", self.place),
        }
    }

    /// The expected place, and why the key is not there.
    pub(crate) fn lacking(&self) -> Option<String> {
        match &self.found {
            Found::Missing(_, why) => Some(format!("it is expected in {}; {why}", self.place)),
            Found::NotNeeded | Found::There(_) => None,
        }
    }

    /// The failure for a missing key.
    pub(crate) fn missing(&self, provider: &str) -> Option<Failure> {
        let Found::Missing(origin, why) = &self.found else { return None };
        let failure = match origin {
            Some(Origin::File(file, line)) => {
                let place = format!("{}:{line}", file.display());
                Failure::usage(format!(
                    "{place}: `providers.{provider}.key_file` names the file of a key; {why}"
                ))
                .hint("put the key alone into that file, and let nobody else read it")
            }
            _ => Failure::usage(format!("the key of {provider} is expected in {}; {why}", self.place)).hint(
                format!("export {}=…; [providers.{provider}] in baton.toml names another place", self.place),
            ),
        };
        Some(failure)
    }
}
