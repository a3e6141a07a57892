//! The weights of a thread's entries in tokens, and the places where a window may begin.
//!
//! Everything is by place among the entries that are known, and takes one pass over them however they
//! are grouped.

use crate::json::{canonical, text_of};
use crate::thread::Entry;

/// The weight of an entry beside its text.
const FRAME: u64 = 4;
/// The highest weight of a text, so that sums of weights do not overflow.
const MOST: u64 = u32::MAX as u64;

/// How many tokens a text is.
pub(super) type Count<'a> = &'a dyn Fn(&str) -> u64;

/// The weights of a thread.
pub(super) struct Weights {
    /// The total weight before each place; the last element is the weight of all entries.
    sums: Vec<u64>,
    /// The places where a window may begin, in order.
    begins: Vec<usize>,
    /// The place of the user's question of each place's turn; the last element is that of the current turn.
    questions: Vec<Option<usize>>,
}

impl Weights {
    /// Weighs entries. The texts before `from` are not counted, but for the questions among them; without
    /// `count` none is.
    pub(super) fn of(entries: &[Entry], from: usize, count: Option<Count<'_>>) -> Self {
        let mut sums = Vec::with_capacity(entries.len() + 1);
        let (mut begins, mut questions) = (Vec::new(), Vec::with_capacity(entries.len() + 1));
        sums.push(0);
        let (mut sum, mut question, mut just_asked) = (0, None, false);
        for (at, entry) in entries.iter().enumerate() {
            let asks = asks(entry);
            if asks {
                question = Some(at);
            }
            // The first answer to a question begins nothing: without it the question would be left alone.
            if asks || (begins_group(entry) && !just_asked) {
                begins.push(at);
            }
            let weight = weight(entry, count.filter(|_| at >= from || asks));
            just_asked = asks || (just_asked && weight == 0);
            sum += weight;
            sums.push(sum);
            questions.push(question);
        }
        questions.push(question);
        Weights { sums, begins, questions }
    }

    /// The place of the user's question of a place's turn.
    pub(super) fn asked(&self, at: usize) -> Option<usize> {
        self.questions.get(at).copied().flatten()
    }

    /// The place of the user's question, if a window that begins here does not contain it.
    pub(super) fn missing_question(&self, first: usize) -> Option<usize> {
        self.asked(first).filter(|question| *question < first)
    }

    /// The first place from here on with something that is shown.
    pub(super) fn shown_from(&self, first: usize, end: usize) -> usize {
        (first..end).find(|at| self.between(*at, at + 1) > 0).unwrap_or(end)
    }

    /// The weight of the entries between two places.
    pub(super) fn between(&self, first: usize, end: usize) -> u64 {
        self.before(end).saturating_sub(self.before(first))
    }

    fn before(&self, at: usize) -> u64 {
        self.sums.get(at).or(self.sums.last()).copied().unwrap_or_default()
    }

    /// The weight of a window, with the question that it does not contain.
    pub(super) fn total(&self, first: usize, end: usize) -> u64 {
        let question = self.missing_question(first).map_or(0, |at| self.between(at, at + 1));
        self.between(first, end) + question
    }

    /// Walks through the thread as its calls did: whenever the window outgrows the room, it is cut down to half
    /// of the room. A later call begins where an earlier one did, or where a walk from there leads.
    pub(super) fn walk(&self, start: usize, end: usize, room: u64) -> usize {
        let mut first = start;
        let mut ahead = self.begins_after(start);
        for at in start..end {
            if self.total(first, at + 1) > room {
                first = self.lighter(first, at + 1, room / 2, &mut ahead);
            }
        }
        first
    }

    /// The earliest beginning from which the window fits the room; else the last one.
    pub(super) fn lightened(&self, start: usize, end: usize, room: u64) -> usize {
        self.lighter(start, end, room, &mut self.begins_after(start))
    }

    fn begins_after(&self, start: usize) -> &[usize] {
        &self.begins[self.begins.partition_point(|begin| *begin <= start)..]
    }

    /// The same, where `ahead` skips the beginnings that an earlier search passed over.
    fn lighter(&self, start: usize, end: usize, room: u64, ahead: &mut &[usize]) -> usize {
        let mut first = start;
        while let Some((begin, rest)) = ahead.split_first().filter(|(begin, _)| **begin < end) {
            (first, *ahead) = (*begin, rest);
            if self.total(first, end) <= room {
                break;
            }
        }
        first
    }
}

/// The weight of a text with its frame.
pub(super) fn weight_of_text(text: &str, count: Count<'_>) -> u64 {
    FRAME + count(text).min(MOST)
}

/// The weight of an entry where it stands. An entry that is not shown there weighs nothing.
fn weight(entry: &Entry, count: Option<Count<'_>>) -> u64 {
    let Some(count) = count else { return if is_shown(entry) { FRAME } else { 0 } };
    let text = |text: &str| weight_of_text(text, count);
    match entry {
        Entry::UserMessage(m) => text(&m.text),
        Entry::UserResponse(m) => text(&m.text),
        Entry::AssistantMessage(m) => {
            // Only its own model reads the reasoning again. For any other it is counted in vain, which errs on the safe
            // side.
            let thought =
                m.reasoning.as_ref().and_then(|thought| serde_json::to_string(&thought.blocks).ok());
            text(&m.content) + thought.map_or(0, |thought| count(&thought).min(MOST))
        }
        Entry::ToolCall(call) => text(&call.function_name) + count(&canonical(&call.arguments)).min(MOST),
        Entry::ToolResult(result) => text(&text_of(&result.result)),
        Entry::AgentCall(call) => text(&call.agent_id) + count(&call.message).min(MOST),
        Entry::AgentResult(result) => text(&text_of(&result.result)),
        Entry::Summary(summary) if is_shown(entry) => text(&summary.text),
        Entry::Summary(_) | Entry::Waiting(_) | Entry::Finished | Entry::Custom(_) => 0,
    }
}

/// Whether an entry is shown where it stands.
pub fn is_shown(entry: &Entry) -> bool {
    match entry {
        Entry::Summary(summary) => summary.up_to.is_none(),
        Entry::Waiting(_) | Entry::Finished | Entry::Custom(_) => false,
        _ => true,
    }
}

/// Whether a turn begins with this entry.
fn asks(entry: &Entry) -> bool {
    matches!(entry, Entry::UserMessage(message) if message.meta.is_none())
}

/// Whether this entry begins a group, so that a cut before it separates no call from its results.
fn begins_group(entry: &Entry) -> bool {
    matches!(entry, Entry::UserMessage(_) | Entry::AssistantMessage(_))
}
