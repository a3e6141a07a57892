//! Properties of any thread: a call begins as the last one did, or states that it does not; and no call
//! stands without its result.

use std::cell::Cell;
use std::collections::BTreeSet;

use proptest::prelude::*;

use super::threads::{
    Growing, Piece, any_aside, any_piece, any_round, bytes, for_any, look, rendered, says, summary, user,
};
use crate::effect::{CutReason, Trim, View};
use crate::render::{Look, RenderPolicy, Window, chosen, messages};
use crate::thread::Entry;

/// One turn: its question, the calls that the models ask for, and how it ends.
#[derive(Debug, Clone)]
struct Turn {
    /// The entries that other clients write before it.
    before: Vec<Piece>,
    question: usize,
    rounds: Vec<Piece>,
    /// Whether its last model call fails.
    fails: bool,
    summary: usize,
}

fn any_turn() -> impl Strategy<Value = Turn> {
    let before = prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(any_aside(), 0..3)];
    let rounds = prop::collection::vec(any_round(), 0..6);
    (before, 0usize..60, rounds, prop::bool::weighted(0.2), 0usize..150).prop_map(
        |(before, question, rounds, fails, summary)| Turn { before, question, rounds, fails, summary },
    )
}

/// A conversation, as the flow and the engine hold it.
struct Talk {
    policy: RenderPolicy,
    last_n: Option<u32>,
    room: Option<u64>,
    thread: Growing,
    /// The first entry that the last call of this turn saw.
    first: Option<i64>,
    /// The messages of the last answered call, and the length of the thread then.
    answered: Option<(Vec<String>, usize)>,
    /// Calls so far, and how many of them were cut.
    calls: usize,
    cuts: usize,
}

impl Talk {
    fn look(&self, trim: Trim) -> Look<'_> {
        let view = View { first: self.first, lowest: self.first, trim };
        Look { last_n: self.last_n, view, ..look(&self.thread.entries, self.policy, self.room) }
    }

    /// Decides the window, after a summary if one is needed.
    fn window(&mut self, length: usize) -> Window {
        let window = self.look(Trim::None).window();
        let Window::Summarise { up_to } = window else { return window };
        assert_eq!(self.policy, RenderPolicy::Summary);
        self.thread.push(summary(&self.thread.text(length), Some(up_to)));
        self.first = None;
        let window = self.look(Trim::None).window();
        assert!(matches!(window, Window::From { .. }), "a second summary of the same: {window:?}");
        window
    }

    /// Renders for a model, and checks whether the window continues that of the last answered call.
    fn call(&mut self, is_answered: bool, length: usize) {
        let window = self.window(length);
        let Window::From { first, cut, .. } = window else { panic!("{window:?}") };
        let shown = bytes(&rendered(&self.look(Trim::None), &window));
        assert_eq!(cut.is_none(), self.goes_on(&shown), "{cut:?}\n{:?}\n{shown:?}", self.answered);
        self.fits(&window);
        self.calls += 1;
        if is_answered {
            self.cuts += usize::from(cut.is_some());
            self.answered = Some((shown, self.thread.entries.len()));
            self.first = Some(first);
        }
    }

    /// Whether the messages are those of the last answered call, byte for byte, and all entries after them.
    fn goes_on(&self, shown: &[String]) -> bool {
        let Some((before, length)) = &self.answered else { return true };
        let since = chosen(&self.thread.entries, 0, *length as i64, [None, None], &[]);
        *shown == [before.as_slice(), &bytes(&messages("", since))].concat()
    }

    /// Checks that the window exceeds the room only where no entry can be left out.
    fn fits(&self, window: &Window) {
        let Window::From { first, summary, question, .. } = window else { panic!("{window:?}") };
        let Some(room) = self.room.filter(|_| self.policy == RenderPolicy::TokenBudget) else { return };
        let shown = chosen(&self.thread.entries, 0, *first, [*summary, *question], &[]);
        let weight: usize = shown.into_iter().map(weight).sum();
        let view = View { first: Some(*first), lowest: Some(*first), trim: Trim::Compact { fits: None } };
        let fuller = Look { view, ..self.look(Trim::None) }.window();
        assert!(weight as u64 <= room || fuller == Window::Full, "{weight} in {room}: {fuller:?}");
    }

    fn turn(&mut self, turn: &Turn) {
        for piece in &turn.before {
            self.thread.grow(piece);
        }
        self.first = None;
        self.thread.push(user(&self.thread.text(turn.question)));
        for round in &turn.rounds {
            self.call(true, turn.summary);
            self.thread.grow(round);
            if matches!(round, Piece::Answer(_)) {
                self.thread.grow(&Piece::Steering(3));
            }
        }
        self.call(!turn.fails, turn.summary);
        let text = self.thread.text(9);
        self.thread.grow(&if turn.fails { Piece::Failure } else { Piece::Answer(text.len()) });
    }
}

/// The weight of an entry, counted apart from the code under test.
fn weight(entry: &Entry) -> usize {
    match entry {
        Entry::UserMessage(m) => 4 + m.text.len(),
        Entry::AssistantMessage(m) => 4 + m.content.len(),
        Entry::ToolCall(_) => 4 + "look{}".len(),
        Entry::AgentCall(_) => 4 + "am".len(),
        Entry::ToolResult(m) => 4 + m.result.as_str().unwrap().len(),
        Entry::AgentResult(m) => 4 + m.result.as_str().unwrap().len(),
        Entry::Summary(m) => 4 + m.text.len(),
        _ => 0,
    }
}

/// Plays random conversations. At most `most` calls in a hundred are cut: a window moves seldom.
fn play(policy: RenderPolicy, last_n: impl Strategy<Value = Option<u32>>, room: bool, most: usize) {
    let sum = Cell::new((0, 0));
    let rooms = if room { (0u64..900).prop_map(Some).boxed() } else { Just(None).boxed() };
    let turns = prop::collection::vec(any_turn(), 1..12);
    for_any(64, (turns, last_n, rooms), |(turns, last_n, room)| {
        let thread = Growing::default();
        let mut talk = Talk { policy, last_n, room, thread, first: None, answered: None, calls: 0, cuts: 0 };
        turns.iter().for_each(|turn| talk.turn(turn));
        let (calls, cuts) = sum.get();
        sum.set((calls + talk.calls, cuts + talk.cuts));
    });
    let (calls, cuts) = sum.get();
    assert!(calls > 1_000 && cuts > 0 && cuts * 100 < calls * most, "{cuts} cuts in {calls} calls");
}

#[test]
fn a_call_begins_as_the_last_one_did_where_all_is_seen() {
    play(RenderPolicy::Full, Just(None), false, 10);
}

#[test]
fn a_call_begins_as_the_last_one_did_or_what_did_not_fit_is_cut() {
    play(RenderPolicy::TokenBudget, Just(None), true, 40);
    play(RenderPolicy::TokenBudget, (0u32..12).prop_map(Some), true, 60);
}

#[test]
fn a_call_begins_as_the_last_one_did_or_with_a_new_summary() {
    play(RenderPolicy::Summary, Just(None), true, 60);
    play(RenderPolicy::Summary, (0u32..12).prop_map(Some), true, 60);
}

#[test]
fn a_call_begins_as_the_last_one_did_within_a_turn_where_entries_are_counted() {
    play(RenderPolicy::Full, (0u32..12).prop_map(Some), false, 40);
}

fn ids(entries: &[&Entry]) -> (Vec<String>, Vec<String>) {
    let called = |entry: &&Entry| match entry {
        Entry::ToolCall(call) => Some(call.id.clone()),
        Entry::AgentCall(call) => call.correlation_id.clone(),
        _ => None,
    };
    let closed = |entry: &&Entry| match entry {
        Entry::ToolResult(result) => Some(result.tool_call_id.clone()),
        Entry::AgentResult(result) => Some(result.correlation_id.clone()),
        _ => None,
    };
    let (mut calls, mut results): (Vec<String>, Vec<String>) =
        (entries.iter().filter_map(called).collect(), entries.iter().filter_map(closed).collect());
    calls.sort();
    results.sort();
    (calls, results)
}

fn any_look() -> impl Strategy<Value = (RenderPolicy, Option<u32>, Option<u64>, Trim, Option<u64>)> {
    let policy =
        prop_oneof![Just(RenderPolicy::Full), Just(RenderPolicy::TokenBudget), Just(RenderPolicy::Summary)];
    let fits = prop::option::of(0u64..900).prop_map(|fits| Trim::Compact { fits });
    let trim = prop_oneof![Just(Trim::None), Just(Trim::Simple), fits];
    let earlier = prop::option::of(0u64..900);
    (policy, prop::option::of(0u32..12), prop::option::of(0u64..900), trim, earlier)
}

/// Any thread, any policy, any trim, also after an earlier call with another room.
#[test]
fn no_window_has_a_call_without_its_result_or_shows_more_than_was_wanted() {
    for_any(300, (prop::collection::vec(any_piece(), 0..40), any_look()), |(pieces, wanted)| {
        let (policy, last_n, room, trim, earlier) = wanted;
        let mut thread = Growing::default();
        pieces.iter().for_each(|piece| thread.grow(piece));
        let entries = &thread.entries;
        let plain = |room, view| Look { last_n, view, ..look(entries, policy, room) }.window();
        let first = earlier.and_then(|room| match plain(Some(room), View::default()) {
            Window::From { first, .. } => Some(first),
            _ => None,
        });
        let window = plain(room, View { first, lowest: first, trim });
        let untrimmed = plain(room, View { first, lowest: first, trim: Trim::None });
        let Window::From { first, summary, question, cut } = window else { return };
        let shown = chosen(entries, 0, first, [summary, question], &[]);
        let (calls, results) = ids(&shown);
        assert_eq!(calls, results);
        assert_eq!(calls.iter().collect::<BTreeSet<_>>().len(), calls.len(), "nothing twice");
        let less = matches!(untrimmed, Window::From { .. }).then(|| {
            let all = rendered(&look(entries, policy, room), &untrimmed);
            (rendered(&look(entries, policy, room), &window).len(), all.len())
        });
        match trim {
            Trim::None => assert!(!matches!(cut, Some(CutReason::ContextTooLong | CutReason::Simplified))),
            Trim::Compact { .. } => {
                assert_eq!(cut, Some(CutReason::ContextTooLong));
                assert!(less.is_none_or(|(now, before)| now < before), "{less:?}");
            }
            Trim::Simple => assert_eq!(cut, Some(CutReason::Simplified)),
        }
    });
}

/// The rooms of two models in one turn may differ; a later call still begins no earlier.
#[test]
fn a_later_call_of_a_turn_begins_no_earlier() {
    let rooms = prop::collection::vec(prop::option::of(0u64..600), 1..12);
    for_any(300, (rooms, prop::collection::vec(any_turn(), 1..8)), |(rooms, turns)| {
        let mut thread = Growing::default();
        let mut rooms = rooms.iter().cycle();
        for turn in &turns {
            thread.push(user(&thread.text(turn.question)));
            let mut first = None;
            for round in &turn.rounds {
                let view = View { first, lowest: first, trim: Trim::None };
                let room = rooms.next().copied().flatten();
                let window = Look { view, ..look(&thread.entries, RenderPolicy::TokenBudget, room) }.window();
                let Window::From { first: seen, .. } = window else { panic!("{window:?}") };
                assert!(first.is_none_or(|first| first <= seen), "{first:?} {seen}");
                first = Some(seen);
                thread.grow(round);
            }
            thread.push(says(&thread.text(5)));
        }
    });
}
