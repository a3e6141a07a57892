//! The window of a model call: the entries that it sees under a policy.
//!
//! A window is a function of the thread, the room and the policy, and of the windows of earlier calls of the
//! same turn; nothing else is remembered. It moves seldom: a thread that no longer fits is cut down to
//! half the room at once, so that the calls after it begin with the same bytes until it is full again.
//! Providers cache prompts by their beginning, and a beginning that moves with every call is paid anew.
//! So a window also states whether it continues the last call that was answered, and if not, why.

use super::policy::RenderPolicy;
use super::weight::{Weights, weight_of_text};
use super::whole_groups;
use crate::effect::{CutReason, Trim, View};
use crate::thread::Entry;

/// The type of the entries that fix where windows begin: `{first}`. Models do not see them.
pub const COMPACTION: &str = "baton.compaction";

/// The entries that a window is cut from, and the room that it has.
pub struct Look<'a> {
    /// The entries that are known, oldest first, without a gap.
    pub entries: &'a [Entry],
    /// The index of the first of them.
    pub from: i64,
    /// The policy that decides how much of the thread is rendered.
    pub policy: RenderPolicy,
    /// The most entries; absent: all.
    pub last_n: Option<u32>,
    /// How many tokens of history fit; absent: not known.
    pub room: Option<u64>,
    /// The flow's constraints on this call.
    pub view: View,
    /// Counts the tokens of a text.
    pub count: &'a dyn Fn(&str) -> u64,
}

/// The decision for one model call.
#[derive(Debug, Clone, PartialEq)]
pub enum Window {
    /// The call sees these entries.
    From {
        /// The first of them.
        first: i64,
        /// The summary that stands for the entries before it.
        summary: Option<i64>,
        /// The user's question of the turn that it begins in, if that is before it.
        question: Option<i64>,
        /// Why it is no continuation of the call before.
        cut: Option<CutReason>,
    },
    /// The entries up to here have to be summarised first.
    Summarise {
        /// The last index that the summary stands for.
        up_to: i64,
    },
    /// It does not fit, and no more entries can be left out.
    Full,
}

/// The beginning of a thread for a reader that reads it up to some place.
#[derive(Clone, Copy)]
struct Ground {
    /// The summary that stands for the entries before `base`.
    summary: Option<usize>,
    /// The weight of the summary.
    weight: u64,
    /// The first entry that it does not stand for.
    base: usize,
}

/// The beginning of a call's window, by place. Two equal ones begin with the same bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Seen {
    first: usize,
    summary: Option<usize>,
    question: Option<usize>,
}

impl Look<'_> {
    /// Decides the window.
    pub fn window(&self) -> Window {
        let end = self.entries.len();
        let ground = self.ground(end);
        let start = match self.view.first {
            Some(first) => self.place(first).max(ground.base),
            None => self.start(ground, end),
        };
        let counted = if self.view.first.is_some() { start } else { ground.base };
        let weights = Weights::of(self.entries, counted, self.counts().then_some(self.count));
        let start = weights.shown_from(start, end);
        let first = match self.view.trim {
            Trim::Simple => weights.asked(end).unwrap_or(start).max(start),
            Trim::Compact { fits } => match self.compacted(&weights, ground, start, fits) {
                Some(first) => first,
                None => return Window::Full,
            },
            Trim::None => match self.to_be_summarised(&weights, ground, start) {
                Some(up_to) => return Window::Summarise { up_to },
                None => self.fitting(&weights, ground, start, end),
            },
        };
        let now = self.seen(&weights, ground, first, end);
        let cut = match self.view.trim {
            Trim::Simple => Some(CutReason::Simplified),
            Trim::Compact { .. } => Some(CutReason::ContextTooLong),
            Trim::None => self.cut(&weights, ground, start, now),
        };
        let index = |at: usize| self.index(at);
        Window::From {
            first: self.index(now.first),
            summary: now.summary.map(index),
            question: now.question.map(index),
            cut,
        }
    }

    fn index(&self, at: usize) -> i64 {
        self.from + at as i64
    }

    fn place(&self, index: i64) -> usize {
        usize::try_from(index.saturating_sub(self.from)).unwrap_or(0).min(self.entries.len())
    }

    /// Whether tokens have to be counted.
    fn counts(&self) -> bool {
        let compacts = matches!(self.view.trim, Trim::Compact { .. });
        compacts || (self.room.is_some() && self.policy != RenderPolicy::Full)
    }

    /// The newest summary before a place that stands for other entries, and the entries that a compaction left
    /// out for good. A summary never stands for entries after it or for half of a group, even if its `up_to` does.
    fn ground(&self, end: usize) -> Ground {
        let ground = self.summarised(end);
        let known = self.entries[..end].iter().enumerate().rev();
        let left_out = known.clone().find_map(|(at, entry)| match entry {
            Entry::Custom(custom) if custom.t == COMPACTION => {
                let first = custom.data.get("first")?.as_i64()?;
                Some(whole_groups(&self.entries[..end], end - self.place(first).min(at)))
            }
            _ => None,
        });
        Ground { base: left_out.map_or(ground.base, |first| first.max(ground.base)), ..ground }
    }

    fn summarised(&self, end: usize) -> Ground {
        let replaces = |(at, entry): (usize, &Entry)| match entry {
            Entry::Summary(summary) => {
                let next = self.place(summary.up_to?.saturating_add(1)).min(at);
                let base = whole_groups(&self.entries[..end], end - next);
                let weight = if self.counts() { weight_of_text(&summary.text, self.count) } else { 0 };
                Some(Ground { summary: Some(at), weight, base })
            }
            _ => None,
        };
        let newest = self.entries[..end].iter().enumerate().rev().find_map(replaces);
        newest.unwrap_or(Ground { summary: None, weight: 0, base: 0 })
    }

    /// Where the first call of a turn begins, if everything fits.
    fn start(&self, ground: Ground, end: usize) -> usize {
        let counted = self.last_n.map(|n| whole_groups(&self.entries[..end], n as usize));
        counted.unwrap_or(0).max(ground.base)
    }

    /// The room beside the summary.
    fn room_beside(&self, ground: Ground) -> Option<u64> {
        let room = self.room.filter(|_| self.policy != RenderPolicy::Full)?;
        Some(room.saturating_sub(ground.weight))
    }

    /// Where a window up to a place begins, so that it fits. A summary that has just been made is not made again:
    /// the oldest entries beside it are left out instead.
    fn fitting(&self, weights: &Weights, ground: Ground, start: usize, end: usize) -> usize {
        let just_made = ground.summary.is_some_and(|at| weights.between(at, end) == 0);
        match self.room_beside(ground) {
            Some(room) if self.policy == RenderPolicy::TokenBudget || just_made => {
                weights.walk(start, end, room)
            }
            _ => start,
        }
    }

    /// Where a compaction begins: at half of the size that the model states as fitting, or half of the last window.
    fn compacted(&self, weights: &Weights, ground: Ground, start: usize, fits: Option<u64>) -> Option<usize> {
        let end = self.entries.len();
        let saw = self.fitting(weights, ground, start, end);
        let all = weights.total(saw, end).saturating_add(ground.weight);
        let most = fits.into_iter().chain(self.room).fold(all, u64::min);
        let first = weights.lightened(saw, end, (most / 2).saturating_sub(ground.weight));
        (weights.total(first, end) < weights.total(saw, end)).then_some(first)
    }

    /// The last index that a summary would stand for, if the window is too large.
    fn to_be_summarised(&self, weights: &Weights, ground: Ground, start: usize) -> Option<i64> {
        let end = self.entries.len();
        let just_made = ground.summary.is_some_and(|at| weights.between(at, end) == 0);
        let room = self.room_beside(ground).filter(|_| self.policy == RenderPolicy::Summary && !just_made)?;
        if weights.total(start, end) <= room {
            return None;
        }
        let first = weights.lightened(start, end, room / 2);
        (weights.total(first, end) < weights.total(start, end)).then(|| self.index(first) - 1)
    }

    /// The window of a call that begins at a place, with the question of that turn; with `last_n`, only with the
    /// question of the current turn. Windows with the same entries get the same value.
    fn seen(&self, weights: &Weights, ground: Ground, first: usize, end: usize) -> Seen {
        let first = weights.shown_from(first, end);
        let summary = ground.summary;
        let is_missing = |at: &usize| self.last_n.is_none() || weights.asked(end) == Some(*at);
        match weights.missing_question(first).filter(is_missing) {
            Some(at) if weights.between(at + 1, first) == 0 => Seen { first: at, summary, question: None },
            question => Seen { first, summary, question },
        }
    }

    /// Why the window does not begin with that of the last answered call, if it does not.
    fn cut(&self, weights: &Weights, ground: Ground, start: usize, now: Seen) -> Option<CutReason> {
        let before = self.before(weights, ground)?;
        if now == before {
            None
        } else if now.summary != before.summary {
            Some(CutReason::Summary)
        } else if self.last_n.is_none() || now != self.seen(weights, ground, start, self.entries.len()) {
            Some(CutReason::TokenBudget)
        } else {
            Some(CutReason::LastN)
        }
    }

    /// The window of the last answered call: within a turn the flow states it, for earlier turns it follows from
    /// the entries.
    fn before(&self, weights: &Weights, ground: Ground) -> Option<Seen> {
        if let Some(first) = self.view.first {
            let first = self.place(first).max(ground.base);
            return Some(self.seen(weights, ground, first, self.entries.len()));
        }
        let answers = |entry: &Entry| matches!(entry, Entry::AssistantMessage(m) if m.meta.is_none());
        let end = self.entries.iter().rposition(answers)?;
        let ground = self.ground(end);
        // Entries are counted once a turn, by its first call or by the one after its summary.
        let begun = weights.asked(end).max(ground.summary).map_or(end, |at| at + 1);
        let start = weights.shown_from(self.start(ground, begun), end);
        let first = self.fitting(weights, ground, start, end);
        Some(self.seen(weights, ground, first, end))
    }
}
