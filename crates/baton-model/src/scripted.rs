//! The scripted model: plays the replies of a JSON file, for testing agents.
//!
//! It is stateless: the choice of a reply depends on the request alone, so a run that crashes and a call
//! that is retried get the same reply. The format is documented in `docs/scripted-model.md`; users
//! rely on it, so it only grows. Tools' results are used only as placeholders in text, and `max_tokens` is
//! ignored: a script plays exactly as its author wrote it.

mod fields;
mod parse;
mod play;
mod script;

use std::path::Path;

use baton_core::chat::TokenUsage;
use baton_core::json::BadJson;

use crate::playback::{PlaybackItem, play};
use crate::port::{DeltaStream, Model, ModelRequest};
use script::Script;

/// The largest script that is read.
const MAX_SCRIPT_BYTES: u64 = 16 * 1024 * 1024;

/// Why a script cannot be played.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadScript {
    /// The file is not there, is no text, or is too large.
    #[error("cannot read it: {0}")]
    Unreadable(String),
    /// It is no JSON.
    #[error("{0}")]
    Json(BadJson),
    /// An item does not follow `docs/scripted-model.md`.
    #[error("{place}: {problem}")]
    Item {
        /// The place, as `replies[2].do[0]`.
        place: String,
        /// The problem and its remedy.
        problem: String,
    },
    /// Any of these, in a file.
    #[error("script {path}: {problem}")]
    File {
        /// The file.
        path: String,
        /// The problem.
        problem: Box<BadScript>,
    },
}

/// A model that plays a script.
#[derive(Debug, Clone)]
pub struct Scripted {
    name: String,
    script: Script,
}

impl Scripted {
    /// Reads a script from a file. It is read once; later changes of the file are not seen.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, BadScript> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        let script = read(path).and_then(|text| parse::script(&text));
        match script {
            Ok(script) => Ok(Scripted { name: format!("scripted/{shown}"), script }),
            Err(problem) => Err(BadScript::File { path: shown, problem: Box::new(problem) }),
        }
    }

    /// Reads a script from its text.
    pub fn parse(text: &str) -> Result<Self, BadScript> {
        Ok(Scripted { name: "scripted".to_owned(), script: parse::script(text)? })
    }
}

impl Model for Scripted {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn stream(&self, request: ModelRequest) -> DeltaStream {
        play(match self.script.choose(&request.messages) {
            Ok(items) => play::playback(items, &request, self.script.piece),
            Err(fault) => vec![PlaybackItem::Fail(fault)],
        })
    }

    fn cost(&self, _: &TokenUsage) -> Option<u64> {
        Some(0)
    }
}

fn read(path: &Path) -> Result<String, BadScript> {
    use std::io::Read;
    let unreadable = |error: std::io::Error| BadScript::Unreadable(error.to_string());
    let file = std::fs::File::open(path).map_err(unreadable)?;
    let mut text = String::new();
    file.take(MAX_SCRIPT_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > MAX_SCRIPT_BYTES {
        return Err(BadScript::Unreadable(format!("it is larger than {} MiB", MAX_SCRIPT_BYTES >> 20)));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
