//! What tools and calls are called at a provider, and back.
//!
//! Providers take `[A-Za-z0-9_-]`, at most 64 of them for a tool and, the strictest of them, 40 for a call.
//! Ours may have dots, and a history may hold whatever a model once made up or another program wrote, so
//! each is mapped: a name that fits stays, `exec.calculator` becomes `exec__calculator`, and where that is
//! taken, too long, or has other characters, its beginning gets a hash. No two of ours ever become one of
//! theirs.
//!
//! The mapping is the same each time: offered tools come first, and among them those whose names fit; then
//! the history in order. So the same tools are called the same whatever was said, and what was said is
//! called the same when more is said after it. Nothing here is stored: entries, events and policies know
//! only our names.

use std::collections::BTreeMap;

use baton_core::chat::ChatMessage;
use baton_core::json::sha256_hex;
use baton_core::tool::ToolSpec;

/// The longest name of a tool.
const TOOL: usize = 64;

/// The longest id of a call: Chat Completions takes no more, though others do.
const CALL: usize = 40;

/// The names of one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    tools: Mapping,
    calls: Mapping,
}

impl Names {
    /// The names for these tools and messages.
    pub fn of(tools: &[ToolSpec], messages: &[ChatMessage]) -> Self {
        let mut names = Names::default();
        let offered = || tools.iter().map(|tool| tool.name.as_str());
        offered().filter(|name| fits(name, TOOL)).for_each(|name| names.tools.add(name, TOOL));
        offered().for_each(|name| names.tools.add(name, TOOL));
        for message in messages {
            for call in &message.tool_calls {
                names.tools.add(&call.name, TOOL);
                names.calls.add(&call.id, CALL);
            }
            message.tool_call_id.iter().for_each(|id| names.calls.add(id, CALL));
        }
        names
    }

    /// What a tool of ours is called there; a name that was not among them stays as it is.
    pub fn theirs<'a>(&'a self, ours: &'a str) -> &'a str {
        self.tools.theirs.get(ours).map_or(ours, String::as_str)
    }

    /// Which tool of ours they mean; a name that is none stays as it is.
    pub fn ours<'a>(&'a self, theirs: &'a str) -> &'a str {
        self.tools.ours.get(theirs).map_or(theirs, String::as_str)
    }

    /// What a call of ours is called there.
    pub fn call_id(&self, ours: &str) -> String {
        let known = self.calls.theirs.get(ours).cloned();
        known.or_else(|| spellings(ours, CALL).next()).unwrap_or_default()
    }
}

/// Names in both directions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Mapping {
    theirs: BTreeMap<String, String>,
    ours: BTreeMap<String, String>,
}

impl Mapping {
    /// Takes a name in, unless it is known: it gets the first of its spellings that nobody has.
    fn add(&mut self, name: &str, longest: usize) {
        if self.theirs.contains_key(name) {
            return;
        }
        if let Some(free) = spellings(name, longest).find(|theirs| !self.ours.contains_key(theirs)) {
            self.theirs.insert(name.to_owned(), free.clone());
            self.ours.insert(free, name.to_owned());
        }
    }
}

/// How a name may be spelled there, best first. There is always one more: of hashes nobody has them all.
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
    (1..=longest).contains(&name.len()) && name.chars().all(is_plain)
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

#[cfg(test)]
mod tests;
