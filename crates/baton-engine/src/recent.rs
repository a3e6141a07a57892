//! The newest entries of a run's branch, as far as this process knows them.
//!
//! A model call renders entries that were just written; this spares reading them back. The entries that a run knew at
//! its end are left for the next one on its branch ([`Kept`]). It is only a cache: entries that are not here are read
//! from the store, and dropping all of it costs only time.

mod kept;

use std::sync::{Mutex, MutexGuard, PoisonError};

use baton_core::id::RunId;
use baton_core::thread::Entry;
use serde_json::Value;

pub(crate) use kept::Kept;

/// The most that a run may cache, in bytes of text.
const MOST: usize = 512 << 10;

/// The cached entries of one run's branch.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    known: Mutex<Known>,
    /// The index of the run's first entry.
    begins: i64,
    /// The run that wrote the entry before that.
    after: Option<RunId>,
}

#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The index of the first entry that is known.
    first: i64,
    entries: Vec<Entry>,
    weight: usize,
}

impl Known {
    /// The index of the entry that would come next.
    fn next(&self) -> i64 {
        self.first + self.entries.len() as i64
    }
}

impl Recent {
    /// For a run that begins after the entry `head`, which the run `after` wrote.
    pub(crate) fn begun(head: i64, after: Option<RunId>) -> Recent {
        let begins = head + 1;
        Recent { known: Mutex::new(Known { first: begins, ..Known::default() }), begins, after }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes up the entries that the run before left, if entries from `from` on are wanted and not all of them are
    /// known.
    pub(crate) fn recall(&self, from: i64, kept: &Kept) {
        let mut known = self.lock();
        // A cache that no longer holds the run's own beginning cannot be joined to them.
        let Some(run) = self.after.filter(|_| from < known.first && known.first == self.begins) else {
            return;
        };
        let Some(mut left) = kept.take(run).filter(|left| left.next() == self.begins) else { return };
        left.entries.append(&mut known.entries);
        left.weight += known.weight;
        *known = left;
    }

    /// Leaves the known entries for the next run. A thread's first run leaves none: many threads are never continued,
    /// and their entries would crowd out the others.
    pub(crate) fn leave(&self, run: RunId, kept: &Kept) {
        let known = std::mem::take(&mut *self.lock());
        if self.begins > 0 && !known.entries.is_empty() {
            kept.put(run, known);
        }
    }

    /// Adds entries whose last one has the index `head`. Entries that do not join on replace the known ones.
    pub(crate) fn append(&self, head: i64, entries: impl ExactSizeIterator<Item = Entry>) {
        let mut known = self.lock();
        let first = head - entries.len() as i64 + 1;
        if known.next() != first {
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

    /// Reads the entries `first..=last`, if all of them are known.
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

/// About how much memory an entry takes: itself, its ids, and all parts that may be long.
fn weight(entry: &Entry) -> usize {
    let remarks = |meta: &Option<String>| meta.as_ref().map_or(0, String::len);
    let text = match entry {
        Entry::UserMessage(m) => m.text.len() + remarks(&m.meta),
        Entry::UserResponse(m) => m.text.len(),
        Entry::AssistantMessage(m) => {
            let calls: usize = m.tool_calls.iter().map(|call| 200 + value(&call.arguments)).sum();
            let thought: usize = m.reasoning.iter().flat_map(|said| &said.blocks).map(value).sum();
            m.content.len() + remarks(&m.meta) + calls + thought
        }
        Entry::ToolCall(call) => value(&call.arguments),
        Entry::ToolResult(result) => value(&result.result),
        Entry::AgentCall(call) => call.message.len(),
        Entry::AgentResult(result) => value(&result.result),
        Entry::Summary(summary) => summary.text.len(),
        Entry::Waiting(_) | Entry::Finished => 0,
        Entry::Custom(custom) => custom.data.values().map(value).sum(),
    };
    text + 400
}

fn value(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 24,
        Value::Array(items) => items.iter().map(self::value).sum::<usize>() + 24,
        Value::Object(map) => {
            map.iter().map(|(key, item)| key.len() + self::value(item) + 48).sum::<usize>() + 600
        }
        _ => 24,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::chat::Reasoning;
    use baton_core::thread::entry::{AssistantMessage, SaidCall, UserMessage};

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

    /// All entries that are known from an index on.
    fn known(recent: &Recent, first: i64, last: i64) -> Option<Vec<Entry>> {
        recent.look(first, last, <[Entry]>::to_vec)
    }

    #[test]
    fn a_run_goes_on_from_what_the_one_before_left() {
        let (kept, [one, other, next]) =
            (Kept::default(), [1, 2, 3].map(|n| RunId(uuid::Uuid::from_u128(n))));
        let recent = Recent::begun(1, None);
        recent.append(3, [said("2"), said("3")].into_iter());
        recent.leave(one, &kept);
        assert_eq!(known(&recent, 2, 3), None, "it was left to others");

        let elsewhere = Recent::begun(3, Some(other));
        elsewhere.recall(2, &kept);
        assert_eq!(known(&elsewhere, 2, 3), None, "another run wrote its branch's end");
        let recent = Recent::begun(3, Some(one));
        recent.append(4, [said("4")].into_iter());
        recent.recall(4, &kept);
        assert_eq!(known(&recent, 2, 4), None, "nothing before was wanted");
        recent.recall(2, &kept);
        assert_eq!(known(&recent, 2, 4), Some(vec![said("2"), said("3"), said("4")]));
        recent.append(5, [said("5")].into_iter());
        recent.leave(next, &kept);

        let rewound = Recent::begun(4, Some(next));
        rewound.recall(2, &kept);
        assert_eq!(known(&rewound, 2, 4), None, "the branch ends elsewhere than the run did");
        let late = Recent::begun(5, Some(next));
        late.recall(2, &kept);
        assert_eq!(known(&late, 2, 5), None, "whoever came first took it");
    }

    #[test]
    fn what_a_run_took_back_does_not_stand_for_what_was_too_long_to_keep() {
        let (kept, run) = (Kept::default(), RunId(uuid::Uuid::from_u128(1)));
        let before = Recent::begun(1, None);
        before.append(5, ["2", "3", "4", "5"].map(said).into_iter());
        before.leave(run, &kept);
        let rewound = Recent::begun(4, Some(run));
        rewound.append(5, [said(&"x".repeat(MOST + 1))].into_iter());
        rewound.recall(2, &kept);
        assert_eq!(known(&rewound, 2, 5), None);
    }

    #[test]
    fn whatever_may_be_long_has_its_weight() {
        let long = "x".repeat(10_000);
        let reasoning =
            Reasoning { model: "m".into(), wire: "w".into(), blocks: vec![Value::from(long.clone())] };
        let plain =
            AssistantMessage { content: String::new(), tool_calls: Vec::new(), meta: None, reasoning: None };
        let call = SaidCall { id: "c".into(), name: "n".into(), arguments: Value::from(long.clone()) };
        for heavy in [
            Entry::UserMessage(UserMessage { text: String::new(), meta: Some(long.clone()) }),
            Entry::AssistantMessage(AssistantMessage { content: long.clone(), ..plain.clone() }),
            Entry::AssistantMessage(AssistantMessage { meta: Some(long), ..plain.clone() }),
            Entry::AssistantMessage(AssistantMessage { tool_calls: vec![call], ..plain.clone() }),
            Entry::AssistantMessage(AssistantMessage { reasoning: Some(reasoning), ..plain }),
        ] {
            assert!(weight(&heavy) > 10_000, "{heavy:?}");
        }
    }

    #[test]
    fn the_first_run_of_a_thread_leaves_nothing() {
        let (kept, run) = (Kept::default(), RunId(uuid::Uuid::from_u128(1)));
        let recent = Recent::begun(-1, None);
        recent.append(0, [said("0")].into_iter());
        recent.leave(run, &kept);
        assert_eq!(kept.take(run).map(|known| known.entries), None);
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
