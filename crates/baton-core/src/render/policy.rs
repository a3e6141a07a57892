//! How much of a thread a model sees: the policies, and the window that they come to.
//!
//! A window is a function of the entries alone, and it moves seldom: what no longer fits is cut down to
//! half the room at once, so that the calls after it begin with the same bytes until it is full again.
//! Providers keep what they read by its beginning, and a beginning that moves with every call is paid anew.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::effect::{CutReason, Trim, View};
use crate::json::as_text;
use crate::thread::Entry;

/// How a thread is rendered.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rendering {
    /// How much of it.
    #[serde(default)]
    pub policy: RenderPolicy,
    /// Entry types that are left out, beside those that always are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// What is done with the messages afterwards, in order, by policies that somebody registered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<Registered>,
}

impl Rendering {
    /// Whether nothing was said about it.
    pub fn is_plain(&self) -> bool {
        *self == Rendering::default()
    }
}

/// How much of a thread a model sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RenderPolicy {
    /// As much as fits its context window, if that is known; the oldest is left out first.
    #[default]
    TokenBudget,
    /// The same, but a summary stands for what is left out.
    Summary,
    /// All of it, whether it fits or not.
    Full,
}

/// A policy that somebody registered, with its options.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registered {
    /// Its name.
    pub name: String,
    /// What it is told.
    #[serde(default)]
    pub options: Value,
}

/// What a window is cut from, and the room that it has.
pub struct Look<'a> {
    /// The entries that are known, oldest first, without a gap.
    pub entries: &'a [Entry],
    /// The index of the first of them.
    pub from: i64,
    /// How much of the thread is wanted.
    pub policy: RenderPolicy,
    /// At most so many entries.
    pub last_n: Option<u32>,
    /// How many tokens of history fit; absent: not known.
    pub room: Option<u64>,
    /// What the flow says of this call.
    pub view: View,
    /// How many tokens a text is.
    pub count: &'a dyn Fn(&str) -> u64,
}

/// What a model sees.
#[derive(Debug, Clone, PartialEq)]
pub enum Window {
    /// These entries.
    From {
        /// The first of them.
        first: i64,
        /// The summary that stands for what is before it.
        summary: Option<i64>,
        /// What the person asked, if that stands before it.
        question: Option<i64>,
        /// Why it is no continuation of the call before.
        cut: Option<CutReason>,
    },
    /// First, what is up to here has to be summarised.
    Summarise {
        /// The last index that the summary stands for.
        up_to: i64,
    },
    /// Nothing can be left out any more, and it does not fit.
    Full,
}

/// What an entry costs beside its text.
const FRAME: u64 = 4;

impl Look<'_> {
    /// Decides what is seen.
    pub fn window(&self) -> Window {
        let summary = self.latest_summary();
        let base = summary.map_or(self.from, |(_, up_to)| up_to + 1).max(self.from);
        let summary = summary.map(|(index, _)| index);
        let kept = self.view.first.unwrap_or(base).max(base);
        let start = match (self.last_n, self.view.first) {
            (Some(n), None) => base.max(self.from + self.boundary_for(n)),
            _ => kept,
        };
        let by_count = (start > base && self.view.first.is_none()).then_some(CutReason::LastN);
        let turn = self.this_turn();
        let from = |first, cut| {
            let question = (first > turn).then_some(turn);
            Window::From { first, summary, question, cut }
        };
        match self.view.trim {
            Trim::Simple => from(turn.max(start), Some(CutReason::Simplified)),
            Trim::Compact { fits } => match self.compacted(start, fits) {
                Some(first) => from(first, Some(CutReason::ContextTooLong)),
                None => Window::Full,
            },
            Trim::None => match (self.policy, self.room) {
                (RenderPolicy::Full, _) | (_, None) => from(start, by_count),
                (RenderPolicy::TokenBudget, Some(room)) => {
                    let (first, moved) = self.fitting(start, room);
                    let cut = if moved { Some(CutReason::TokenBudget) } else { by_count };
                    from(first, cut)
                }
                (RenderPolicy::Summary, Some(room)) => match self.worth_a_summary(start, room) {
                    Some(up_to) => Window::Summarise { up_to },
                    None => from(start, by_count),
                },
            },
        }
    }

    /// Where the newest summary stands that replaces what is before it, and the last index it stands for.
    fn latest_summary(&self) -> Option<(i64, i64)> {
        let replaced = |(at, entry): (usize, &Entry)| match entry {
            Entry::Summary(summary) => Some((self.from + at as i64, summary.up_to?)),
            _ => None,
        };
        self.entries.iter().enumerate().rev().find_map(replaced)
    }

    fn boundary_for(&self, last_n: u32) -> i64 {
        super::whole_groups(self.entries, last_n as usize) as i64
    }

    /// The first entry of the turn that is being answered.
    fn this_turn(&self) -> i64 {
        let asks = |entry: &Entry| matches!(entry, Entry::UserMessage(message) if message.meta.is_none());
        self.from + self.entries.iter().rposition(asks).unwrap_or(0) as i64
    }

    fn costs(&self, start: i64) -> impl DoubleEndedIterator<Item = (i64, &Entry, u64)> {
        let skipped = usize::try_from(start - self.from).unwrap_or(0);
        let cost = move |(at, entry)| (self.from + at as i64, entry, self.cost(entry));
        self.entries.iter().enumerate().skip(skipped).map(cost)
    }

    fn cost(&self, entry: &Entry) -> u64 {
        let count = self.count;
        FRAME
            + match entry {
                Entry::UserMessage(m) => count(&m.text),
                Entry::UserResponse(m) => count(&m.text),
                Entry::AssistantMessage(m) => count(&m.content),
                Entry::ToolCall(call) => count(&call.function_name) + count(&call.arguments.to_string()),
                Entry::ToolResult(result) => count(&as_text(&result.result)),
                Entry::AgentCall(call) => count(&call.agent_id) + count(&call.message),
                Entry::AgentResult(result) => count(&as_text(&result.result)),
                Entry::Summary(summary) => count(&summary.text),
                Entry::Waiting(_) | Entry::Finished | Entry::Custom(_) => return 0,
            }
    }

    /// Walks through the thread as its calls did: whenever what is seen is more than the room, it is cut
    /// down to half of it. Answers where that leads, and whether the last cut belongs to this call.
    fn fitting(&self, start: i64, room: u64) -> (i64, bool) {
        let (mut first, mut sum, mut moved) = (start, 0u64, false);
        let costs: Vec<(i64, bool, u64)> =
            self.costs(start).map(|(at, entry, cost)| (at, begins_group(entry), cost)).collect();
        let turn = self.this_turn();
        for (at, _, cost) in &costs {
            sum = sum.saturating_add(*cost);
            if sum > room {
                let seen = costs.iter().filter(|(index, ..)| (first..=*at).contains(index));
                let (cut, left) = halved(seen, sum, room / 2);
                if cut > first {
                    (first, sum) = (cut, left);
                    moved = *at >= turn && self.view.first.is_none_or(|seen| seen < first);
                }
            }
        }
        (first, moved)
    }

    /// Where a compaction leads: to what the model said that fits, or to half of what it saw.
    fn compacted(&self, start: i64, fits: Option<u64>) -> Option<i64> {
        let costs: Vec<(i64, bool, u64)> =
            self.costs(start).map(|(at, entry, cost)| (at, begins_group(entry), cost)).collect();
        let sum: u64 = costs.iter().map(|(.., cost)| cost).sum();
        let room = fits.map_or(sum / 2, |fits| fits.min(self.room.unwrap_or(fits)) / 2).min(sum / 2);
        let (first, _) = halved(costs.iter(), sum, room);
        (first > start).then_some(first)
    }

    /// The last index that a summary would stand for, if what is seen is too much.
    fn worth_a_summary(&self, start: i64, room: u64) -> Option<i64> {
        let costs: Vec<(i64, bool, u64)> =
            self.costs(start).map(|(at, entry, cost)| (at, begins_group(entry), cost)).collect();
        let sum: u64 = costs.iter().map(|(.., cost)| cost).sum();
        if sum <= room {
            return None;
        }
        let (first, _) = halved(costs.iter(), sum, room / 2);
        (first > start).then_some(first - 1)
    }
}

/// Whether a call and its results can be told apart from what is before this entry.
fn begins_group(entry: &Entry) -> bool {
    matches!(entry, Entry::UserMessage(_) | Entry::AssistantMessage(_))
}

/// The earliest group from which what is left is at most `room`; the last group stays in any case.
fn halved<'a>(costs: impl Iterator<Item = &'a (i64, bool, u64)>, sum: u64, room: u64) -> (i64, u64) {
    let (mut left, mut best) = (sum, (i64::MIN, sum));
    for (at, begins, cost) in costs {
        if *begins {
            best = (*at, left);
            if left <= room {
                break;
            }
        }
        left = left.saturating_sub(*cost);
    }
    best
}
