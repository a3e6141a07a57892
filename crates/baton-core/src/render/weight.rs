//! What the entries of a thread weigh, and where a window may begin.
//!
//! Everything is by place among the entries that are known, and takes one pass over them however they
//! are grouped.

use crate::json::{canonical, text_of};
use crate::thread::Entry;

/// What an entry weighs beside its text.
const FRAME: u64 = 4;
/// No text weighs more: sums of weights are sums.
const MOST: u64 = u32::MAX as u64;

/// How many tokens a text is.
pub(super) type Count<'a> = &'a dyn Fn(&str) -> u64;

/// The weights of a thread.
pub(super) struct Weights {
    /// What is before each place, and last: all of it.
    sums: Vec<u64>,
    /// Where a window may begin, in order.
    begins: Vec<usize>,
    /// What was asked in the turn of each place, and last: in the turn of now.
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

    /// What was asked in the turn of a place.
    pub(super) fn asked(&self, at: usize) -> Option<usize> {
        self.questions.get(at).copied().flatten()
    }

    /// What was asked, if a window that begins here is without it.
    pub(super) fn missing_question(&self, first: usize) -> Option<usize> {
        self.asked(first).filter(|question| *question < first)
    }

    /// The first place from here on with something that is shown.
    pub(super) fn shown_from(&self, first: usize, end: usize) -> usize {
        (first..end).find(|at| self.between(*at, at + 1) > 0).unwrap_or(end)
    }

    /// What the entries between two places weigh.
    pub(super) fn between(&self, first: usize, end: usize) -> u64 {
        self.before(end).saturating_sub(self.before(first))
    }

    fn before(&self, at: usize) -> u64 {
        self.sums.get(at).or(self.sums.last()).copied().unwrap_or_default()
    }

    /// What a window weighs, with the question that it is without.
    pub(super) fn total(&self, first: usize, end: usize) -> u64 {
        let question = self.missing_question(first).map_or(0, |at| self.between(at, at + 1));
        self.between(first, end) + question
    }

    /// Walks through the thread as its calls did: whenever what is seen is more than the room, it is cut
    /// down to half of it. Where a later call begins is where an earlier one did, or where a walk from
    /// there leads.
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

    /// The earliest beginning from which there is no more than the room; else the last one.
    pub(super) fn lightened(&self, start: usize, end: usize, room: u64) -> usize {
        self.lighter(start, end, room, &mut self.begins_after(start))
    }

    fn begins_after(&self, start: usize) -> &[usize] {
        &self.begins[self.begins.partition_point(|begin| *begin <= start)..]
    }

    /// What was passed over once is not looked at again.
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

/// What a text that stands for others weighs.
pub(super) fn weight_of_text(text: &str, count: Count<'_>) -> u64 {
    FRAME + count(text).min(MOST)
}

/// What an entry weighs where it stands. What is not shown there weighs nothing.
fn weight(entry: &Entry, count: Option<Count<'_>>) -> u64 {
    let Some(count) = count else { return if is_shown(entry) { FRAME } else { 0 } };
    let text = |text: &str| weight_of_text(text, count);
    match entry {
        Entry::UserMessage(m) => text(&m.text),
        Entry::UserResponse(m) => text(&m.text),
        Entry::AssistantMessage(m) => {
            // Its model reads it again; for any other it is counted in vain, which is the safe way to err.
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

/// Whether a call and its results can be told apart from what is before this entry.
fn begins_group(entry: &Entry) -> bool {
    matches!(entry, Entry::UserMessage(_) | Entry::AssistantMessage(_))
}
