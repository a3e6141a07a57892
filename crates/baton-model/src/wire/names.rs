//! The mapping between our names of tools and calls and a provider's.
//!
//! Providers take `[A-Za-z0-9_-]`, at most 64 characters for a tool and, the strictest of them, 40 for a call.
//! Our names may have dots, and a history may hold any name that a model invented or another program wrote, so
//! each is mapped: a name that fits stays, `exec.calculator` becomes `exec__calculator`, and where that is
//! taken, too long, or has other characters, its beginning gets a hash. No two of our names ever become one of
//! the provider's.
//!
//! The mapping is deterministic: offered tools come first, and among them those whose names fit; then
//! the history in order. So the same tools get the same names for any history, and the history's names
//! stay the same when it grows. Nothing here is stored: entries, events and policies have only our names.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use baton_core::chat::ChatMessage;
use baton_core::json::sha256_hex;
use baton_core::tool::ToolSpec;

use super::offered_tools::OfferedTools;

/// The longest name of a tool.
const MAX_TOOL_NAME: usize = 64;

/// The longest id of a call: Chat Completions takes no more, though others do.
const MAX_CALL_ID: usize = 40;

/// The names of the tools and calls of one request.
#[derive(Debug, Clone, Default)]
pub struct WireNames {
    pub(super) offered: Arc<OfferedTools>,
    /// The tools that are only in the history.
    tools: NameMapping,
    calls: NameMapping,
}

impl WireNames {
    /// The names for these tools and messages; nothing is cached.
    pub fn new(tools: &[ToolSpec], messages: &[ChatMessage]) -> Self {
        WireNames::with_tools(Arc::new(OfferedTools::uncached(tools)), messages)
    }

    /// The names for these messages, with tools that may be cached.
    pub fn with_tools(offered: Arc<OfferedTools>, messages: &[ChatMessage]) -> Self {
        let (mut tools, mut calls) = (NameMapping::default(), NameMapping::default());
        let (first, none) = (&offered.names, &NameMapping::default());
        for message in messages {
            for call in &message.tool_calls {
                tools.add(&call.name, MAX_TOOL_NAME, first);
                calls.add(&call.id, MAX_CALL_ID, none);
            }
            message.tool_call_id.iter().for_each(|id| calls.add(id, MAX_CALL_ID, none));
        }
        WireNames { offered, tools, calls }
    }

    /// The provider's name of one of our tools; an unknown name stays as it is.
    pub fn to_provider<'a>(&'a self, ours: &'a str) -> &'a str {
        let mapped = [&self.offered.names, &self.tools].into_iter().find_map(|names| names.theirs.get(ours));
        mapped.map_or(ours, String::as_str)
    }

    /// Our name of one of the provider's tools; an unknown name stays as it is.
    pub fn from_provider<'a>(&'a self, theirs: &'a str) -> &'a str {
        let mapped = [&self.offered.names, &self.tools].into_iter().find_map(|names| names.ours.get(theirs));
        mapped.map_or(theirs, String::as_str)
    }

    /// The provider's id of one of our calls.
    pub fn call_id(&self, ours: &str) -> String {
        self.id(ours).into_owned()
    }

    /// The provider's id of one of our calls, without a copy where it stays as it is.
    pub(super) fn id<'a>(&'a self, ours: &'a str) -> Cow<'a, str> {
        match self.calls.theirs.get(ours) {
            Some(theirs) => theirs.into(),
            None if fits(ours, MAX_CALL_ID) => ours.into(),
            None => spellings(ours, MAX_CALL_ID).next().unwrap_or_default().into(),
        }
    }
}

/// WireNames in both directions.
#[derive(Debug, Clone, Default)]
pub(super) struct NameMapping {
    /// The names that stay as they are. Nearly all do.
    same: BTreeSet<String>,
    theirs: BTreeMap<String, String>,
    ours: BTreeMap<String, String>,
}

impl NameMapping {
    /// The names of offered tools.
    pub(super) fn of_tools(tools: &[ToolSpec]) -> Self {
        let (mut names, none) = (NameMapping::default(), NameMapping::default());
        let offered = || tools.iter().map(|tool| tool.name.as_str());
        offered()
            .filter(|name| fits(name, MAX_TOOL_NAME))
            .for_each(|name| names.add(name, MAX_TOOL_NAME, &none));
        offered().for_each(|name| names.add(name, MAX_TOOL_NAME, &none));
        names
    }

    /// Adds a name, unless it is known: it gets the first of its spellings that is free, here and in `before`.
    fn add(&mut self, name: &str, longest: usize, before: &NameMapping) {
        if before.knows(name) || self.knows(name) {
            return;
        }
        let is_free = |theirs: &str| !before.has(theirs) && !self.has(theirs);
        // A name that fits is its own first spelling.
        if fits(name, longest) && is_free(name) {
            self.same.insert(name.to_owned());
        } else if let Some(free) = spellings(name, longest).find(|theirs| is_free(theirs)) {
            self.theirs.insert(name.to_owned(), free.clone());
            self.ours.insert(free, name.to_owned());
        }
    }

    /// Whether one of our names is mapped.
    fn knows(&self, ours: &str) -> bool {
        self.same.contains(ours) || self.theirs.contains_key(ours)
    }

    /// Whether one of the provider's names is taken.
    fn has(&self, theirs: &str) -> bool {
        self.same.contains(theirs) || self.ours.contains_key(theirs)
    }
}

/// The provider's possible spellings of a name, best first. There is always one more, with another hash.
fn spellings(name: &str, longest: usize) -> impl Iterator<Item = String> {
    let plain = name.replace('.', "__");
    let mut beginning: String = plain.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    beginning.truncate(longest - 9);
    let name = name.to_owned();
    let hashed = (0_u64..).map(move |n| {
        let salt = if n == 0 { String::new() } else { format!("\n{n}") };
        format!("{beginning}_{}", &sha256_hex(format!("{name}{salt}").as_bytes())[..8])
    });
    Some(plain).filter(|plain| fits(plain, longest)).into_iter().chain(hashed)
}

fn fits(name: &str, longest: usize) -> bool {
    (1..=longest).contains(&name.len()) && name.bytes().all(|byte| is_plain(char::from(byte)))
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

#[cfg(test)]
mod tests;
