//! The place of a provider's key, and whether it is there. The key itself is never shown.

use std::ffi::OsString;
use std::io::Read;

use baton_model::Secret;

use crate::config::{KeyPlace, ValueOrigin};
use crate::failure::Failure;

/// The longest key that is read from a file.
const MOST_BYTES: u64 = 64 << 10;

/// The result of looking for a key.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    /// The place where it is looked for, in words; empty where none is needed.
    pub(crate) place: String,
    found: KeyState,
}

#[derive(Debug, Clone)]
enum KeyState {
    NotNeeded,
    There(Secret),
    /// The file and line that name it, and the problem.
    Missing(Option<ValueOrigin>, String),
}

/// Looks for a key at its place.
pub(crate) fn look_for(place: &KeyPlace, environment: &dyn Fn(&str) -> Option<OsString>) -> Key {
    match place {
        KeyPlace::None => Key { place: String::new(), found: KeyState::NotNeeded },
        KeyPlace::Variable(name) => {
            let found = match environment(name).filter(|value| !value.is_empty()) {
                None => KeyState::Missing(None, "it is not set".to_owned()),
                Some(value) => match value.to_str().map(str::trim) {
                    None => KeyState::Missing(None, "it is not UTF-8 text".to_owned()),
                    Some("") => KeyState::Missing(None, "it is empty".to_owned()),
                    Some(text) => KeyState::There(Secret::new(text)),
                },
            };
            Key { place: name.clone(), found }
        }
        KeyPlace::File(path, origin) => {
            let found = match read(&path.0) {
                Ok(text) if text.trim().is_empty() => {
                    KeyState::Missing(Some(origin.clone()), "it is empty".to_owned())
                }
                Ok(text) => KeyState::There(Secret::new(&text)),
                Err(error) => KeyState::Missing(Some(origin.clone()), format!("it cannot be read: {error}")),
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
        matches!(self.found, KeyState::There(_))
    }

    /// The key, for the catalog.
    pub(crate) fn secret(&self) -> Option<Secret> {
        match &self.found {
            KeyState::There(secret) => Some(secret.clone()),
            KeyState::NotNeeded | KeyState::Missing(..) => None,
        }
    }

    /// The state in a word: `not needed`, the place, or the problem with it.
    pub(crate) fn in_words(&self) -> String {
        match &self.found {
            KeyState::NotNeeded => "not needed".to_owned(),
            KeyState::There(secret) if secret.is_too_short() => {
                format!("{} is set, too short to be hidden where a server repeats it", self.place)
            }
            KeyState::There(_) => format!("{} is set", self.place),
            KeyState::Missing(_, why) if why == "it is not set" => format!("{} is not set", self.place),
            KeyState::Missing(_, why) => format!("{}: {why}", self.place),
        }
    }

    /// The expected place, and why the key is not there.
    pub(crate) fn lacking(&self) -> Option<String> {
        match &self.found {
            KeyState::Missing(_, why) => Some(format!("it is expected in {}; {why}", self.place)),
            KeyState::NotNeeded | KeyState::There(_) => None,
        }
    }

    /// The failure for a missing key.
    pub(crate) fn missing(&self, provider: &str) -> Option<Failure> {
        let KeyState::Missing(origin, why) = &self.found else { return None };
        let failure = match origin {
            Some(ValueOrigin::File(file, line)) => {
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
