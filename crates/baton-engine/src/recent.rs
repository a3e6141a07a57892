//! The newest entries of a run's branch, as far as this process knows them.
//!
//! A model call renders what was just written; this spares reading it back. It is only a cache: what is
//! not here is read from the store, and forgetting all of it changes nothing but the time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_core::thread::Entry;
use serde_json::Value;

/// What a run may keep here, in bytes of text.
const MOST: usize = 512 << 10;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The index of the first entry that is known.
    first: i64,
    entries: Vec<Entry>,
    weight: usize,
}

impl Recent {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in entries whose last one has the index `head`. What does not join on replaces what is known.
    pub(crate) fn append(&self, head: i64, entries: impl ExactSizeIterator<Item = Entry>) {
        let mut known = self.lock();
        let first = head - entries.len() as i64 + 1;
        if known.first + known.entries.len() as i64 != first {
            *known = Known { first, ..Known::default() };
        }
        for entry in entries {
            known.weight += weight(&entry);
            known.entries.push(entry);
        }
        if known.weight > MOST {
            *known = Known { first: head + 1, ..Known::default() };
        }
    }

    /// Looks at the entries `first..=last`, if all of them are known.
    pub(crate) fn look<T>(&self, first: i64, last: i64, look: impl FnOnce(&[Entry]) -> T) -> Option<T> {
        let known = self.lock();
        let from = usize::try_from(first - known.first).ok()?;
        let to = usize::try_from(last - known.first + 1).ok()?;
        known.entries.get(from..to).map(look)
    }

    pub(crate) fn forget(&self) {
        *self.lock() = Known::default();
    }
}

/// About how much an entry keeps in memory.
fn weight(entry: &Entry) -> usize {
    let text = match entry {
        Entry::UserMessage(m) => m.text.len(),
        Entry::UserResponse(m) => m.text.len(),
        Entry::AssistantMessage(m) => {
            m.content.len() + m.tool_calls.iter().map(|call| value(&call.arguments)).sum::<usize>()
        }
        Entry::ToolCall(call) => value(&call.arguments),
        Entry::ToolResult(result) => value(&result.result),
        Entry::AgentCall(call) => call.message.len(),
        Entry::AgentResult(result) => value(&result.result),
        Entry::Summary(summary) => summary.text.len(),
        Entry::Waiting(_) | Entry::Finished => 0,
        Entry::Custom(custom) => custom.data.values().map(value).sum(),
    };
    text + 200
}

fn value(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 24,
        Value::Array(items) => items.iter().map(self::value).sum::<usize>() + 24,
        Value::Object(map) => map.iter().map(|(key, item)| key.len() + self::value(item) + 48).sum(),
        _ => 24,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::thread::entry::UserMessage;

    fn said(text: &str) -> Entry {
        Entry::UserMessage(UserMessage { text: text.to_owned(), meta: None })
    }

    #[test]
    fn only_what_is_wholly_known_is_seen() {
        let recent = Recent::default();
        recent.append(6, [said("5"), said("6")].into_iter());
        recent.append(7, [said("7")].into_iter());
        assert_eq!(recent.look(5, 7, <[Entry]>::len), Some(3));
        assert_eq!(recent.look(6, 6, <[Entry]>::to_vec), Some(vec![said("6")]));
        assert_eq!(recent.look(4, 7, <[Entry]>::len), None);
        assert_eq!(recent.look(5, 8, <[Entry]>::len), None);
        recent.append(20, [said("20")].into_iter());
        assert_eq!((recent.look(7, 7, <[Entry]>::len), recent.look(20, 20, <[Entry]>::len)), (None, Some(1)));
    }

    #[test]
    fn it_never_grows_beyond_its_bound() {
        let recent = Recent::default();
        recent.append(0, [said(&"x".repeat(MOST + 1))].into_iter());
        assert_eq!(recent.look(0, 0, <[Entry]>::len), None);
        recent.append(1, [said("small")].into_iter());
        assert_eq!(recent.look(1, 1, <[Entry]>::len), Some(1));
    }
}
