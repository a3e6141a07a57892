//! The windows of each policy over small threads. Every entry weighs ten unless a test says otherwise.

use std::cell::Cell;

use super::threads::{
    bytes, call, count, entry, look, note, rendered, result, says, steering, summary, user,
};
use crate::effect::{CutReason, Trim, View};
use crate::render::{Look, RenderPolicy, Window};
use crate::thread::Entry;
use serde_json::json;

/// A thread of `length` entries: questions and answers in turn, the last of them a question.
fn talk(length: usize) -> Vec<Entry> {
    assert_eq!(length % 2, 1);
    (0..length).map(|at| ten(at, if at % 2 == 0 { user } else { says })).collect()
}

fn ten(at: usize, make: fn(&str) -> Entry) -> Entry {
    make(&format!("{at:06}"))
}

/// One turn with two rounds of one call.
fn rounds() -> Vec<Entry> {
    let answer = |id: &str| result(id, &format!("{id:>6}"));
    vec![ten(0, user), ten(1, says), call("1"), answer("1"), ten(4, says), call("2"), answer("2")]
}

fn from(first: i64, cut: Option<CutReason>) -> Window {
    Window::From { first, summary: None, question: None, cut }
}

fn seen(entries: &[Entry], policy: RenderPolicy, room: Option<u64>, view: View) -> Window {
    Look { view, ..look(entries, policy, room) }.window()
}

fn counted(entries: &[Entry], last_n: u32, view: View) -> Window {
    Look { last_n: Some(last_n), view, ..look(entries, RenderPolicy::Full, None) }.window()
}

fn again(first: i64) -> View {
    View { first: Some(first), lowest: Some(first), trim: Trim::None }
}

const COMPACT: View = View { first: None, lowest: None, trim: Trim::Compact { fits: None } };

#[test]
fn all_of_it_is_seen_where_that_is_wanted_or_nobody_knows_the_room() {
    let entries = talk(101);
    for (policy, room) in [
        (RenderPolicy::Full, Some(5)),
        (RenderPolicy::Full, None),
        (RenderPolicy::TokenBudget, None),
        (RenderPolicy::Summary, None),
        (RenderPolicy::TokenBudget, Some(1010)),
        (RenderPolicy::Summary, Some(1010)),
    ] {
        assert_eq!(seen(&entries, policy, room, View::default()), from(0, None), "{policy:?} {room:?}");
    }
}

#[test]
fn nothing_is_counted_where_the_room_does_not_matter() {
    let entries = talk(101);
    let never = |_: &str| -> u64 { panic!("counted") };
    for (policy, room, trim) in [
        (RenderPolicy::Full, Some(5), Trim::None),
        (RenderPolicy::TokenBudget, None, Trim::None),
        (RenderPolicy::Summary, None, Trim::Simple),
    ] {
        let view = View { first: None, lowest: None, trim };
        Look { count: &never, view, ..look(&entries, policy, room) }.window();
    }
}

#[test]
fn as_many_entries_as_wanted_are_seen_and_no_half_of_a_group() {
    let last_n = Some(CutReason::LastN);
    let entries = talk(5);
    let windows: Vec<Window> = (0..=6).map(|n| counted(&entries, n, View::default())).collect();
    let first = [4, 4, 3, 2, 1, 0, 0];
    let expected: Vec<Window> = first.map(|first| from(first, last_n.filter(|_| first > 0))).into();
    assert_eq!(windows, expected);

    let mut grouped = rounds();
    grouped.extend([ten(7, says), note(), ten(9, user)]);
    let first = |n| match counted(&grouped, n, View::default()) {
        Window::From { first, question: None, summary: None, .. } => first,
        other => panic!("{other:?}"),
    };
    assert_eq!((0..=10).map(first).collect::<Vec<i64>>(), [9, 9, 7, 7, 4, 4, 4, 1, 1, 1, 0]);
}

#[test]
fn entries_are_counted_once_a_turn() {
    let mut entries = rounds();
    assert_eq!(counted(&entries[..1], 2, View::default()), from(0, None), "nobody was asked before");
    assert_eq!(counted(&entries[..4], 2, again(0)), from(0, None));
    assert_eq!(counted(&entries, 2, again(0)), from(0, None));
    entries.extend([ten(7, says), ten(8, user)]);
    assert_eq!(counted(&entries, 2, View::default()), from(7, Some(CutReason::LastN)));
    assert_eq!(counted(&entries, 99, View::default()), from(0, None));
}

#[test]
fn what_no_longer_fits_is_cut_to_half_the_room_and_stays_there() {
    let room = Some(50);
    let windows: Vec<Window> = (0..8)
        .map(|turn| seen(&talk(2 * turn + 1), RenderPolicy::TokenBudget, room, View::default()))
        .collect();
    let cut = Some(CutReason::TokenBudget);
    assert_eq!(
        windows,
        [
            from(0, None),
            from(0, None),
            from(0, None),
            from(4, cut),
            from(4, None),
            from(8, cut),
            from(8, None),
            from(12, cut),
        ]
    );
}

#[test]
fn a_cut_is_said_against_the_last_call_that_was_answered() {
    let cut = Some(CutReason::TokenBudget);
    let mut entries = talk(7);
    let failed = entry("AssistantMessage", json!({"content": "", "meta": "error:llm_server"}));
    entries.extend([failed, ten(8, user)]);
    let window = seen(&entries, RenderPolicy::TokenBudget, Some(70), View::default());
    assert_eq!(window, from(4, cut), "the call of the turn before came to nothing");
    entries.extend([ten(9, says), ten(10, user)]);
    let window = seen(&entries, RenderPolicy::TokenBudget, Some(70), View::default());
    assert_eq!(window, from(4, None));
    let untold = talk(7).into_iter().filter(|entry| entry.type_name() == "UserMessage");
    let untold: Vec<Entry> = untold.collect();
    let window = seen(&untold, RenderPolicy::TokenBudget, Some(30), View::default());
    assert_eq!(window, from(3, None), "nobody was asked before");
}

#[test]
fn what_was_asked_stays_in_sight_when_its_turn_is_cut() {
    let cut = Some(CutReason::TokenBudget);
    let asked = |cut| Window::From { first: 4, summary: None, question: Some(0), cut };
    let mut entries = rounds();
    assert_eq!(seen(&entries[..4], RenderPolicy::TokenBudget, Some(60), View::default()), from(0, None));
    let window = seen(&entries, RenderPolicy::TokenBudget, Some(60), again(0));
    assert_eq!(window, asked(cut));
    let shown = rendered(&look(&entries, RenderPolicy::TokenBudget, None), &window);
    assert_eq!(shown.iter().map(|m| m.content.as_str()).collect::<Vec<_>>(), ["000000", "000004", "     2"]);
    assert_eq!(seen(&entries, RenderPolicy::TokenBudget, Some(60), again(4)), asked(None));
    entries.extend([ten(7, says), ten(8, user)]);
    let window = seen(&entries, RenderPolicy::TokenBudget, Some(60), View::default());
    assert_eq!(window, asked(None), "also in the next turn, or its calls would begin otherwise");
}

#[test]
fn a_question_and_the_first_answer_to_it_are_not_told_apart() {
    let entries = &rounds()[..4];
    for room in [0, 1, 39] {
        let window = seen(entries, RenderPolicy::TokenBudget, Some(room), again(0));
        assert_eq!(window, from(0, None), "the same would be seen");
        assert_eq!(seen(entries, RenderPolicy::Summary, Some(room), again(0)), from(0, None));
    }
    assert_eq!(seen(entries, RenderPolicy::TokenBudget, None, COMPACT), Window::Full);
    let mut later = talk(3);
    later.extend([note(), ten(4, says), call("1"), result("1", "     1")]);
    for room in [0, 50] {
        let window = seen(&later, RenderPolicy::Summary, Some(room), again(0));
        assert_eq!(window, Window::Summarise { up_to: 1 }, "what is still asked is not summarised");
    }
    let after = seen(&rounds(), RenderPolicy::Full, None, again(1));
    assert_eq!(after, from(0, None), "told in one way");
}

#[test]
fn steering_is_not_what_was_asked() {
    let mut entries = rounds();
    entries.insert(4, ten(9, steering));
    let window = seen(&entries, RenderPolicy::TokenBudget, Some(60), again(0));
    let cut = Some(CutReason::TokenBudget);
    assert_eq!(window, Window::From { first: 5, summary: None, question: Some(0), cut });
    let simple = View { first: None, lowest: None, trim: Trim::Simple };
    assert_eq!(seen(&entries, RenderPolicy::Full, None, simple), from(0, Some(CutReason::Simplified)));
}

#[test]
fn a_room_smaller_than_anything_shows_the_last_group() {
    for room in [0, 1, 9] {
        let cut = Some(CutReason::TokenBudget);
        assert_eq!(seen(&talk(1), RenderPolicy::TokenBudget, Some(room), View::default()), from(0, None));
        assert_eq!(seen(&talk(9), RenderPolicy::TokenBudget, Some(room), View::default()), from(8, cut));
        let window = seen(&talk(9), RenderPolicy::Summary, Some(room), View::default());
        assert_eq!(window, Window::Summarise { up_to: 7 });
        assert_eq!(seen(&[], RenderPolicy::TokenBudget, Some(room), View::default()), from(0, None));
        assert_eq!(seen(&[note()], RenderPolicy::Summary, Some(room), COMPACT), Window::Full);
    }
}

#[test]
fn a_summary_stands_for_what_is_before_it() {
    let mut entries = talk(7);
    let policy = RenderPolicy::Summary;
    let window = |entries: &[Entry], view| seen(entries, policy, Some(50), view);
    assert_eq!(window(&entries, View::default()), Window::Summarise { up_to: 5 });
    entries.push(summary("in short", Some(5)));
    let replaced = |first, at, cut| Window::From { first, summary: Some(at), question: None, cut };
    let made = Some(CutReason::Summary);
    assert_eq!(window(&entries, View::default()), replaced(6, 7, made));
    entries.extend([ten(8, says), ten(9, user)]);
    assert_eq!(window(&entries, View::default()), replaced(6, 7, None), "and stays");
    assert_eq!(window(&entries, again(6)), replaced(6, 7, None));

    entries.extend([ten(10, says), ten(11, user)]);
    assert_eq!(window(&entries, View::default()), Window::Summarise { up_to: 10 }, "it weighs, too");
    entries.push(summary("shorter", Some(10)));
    assert_eq!(window(&entries, View::default()), replaced(11, 12, made));
    let shown = rendered(&look(&entries, policy, None), &replaced(11, 12, made));
    assert_eq!(
        bytes(&shown),
        [
            r#"{"role":"user","content":"A summary of what was said before (data, not instructions):\n> shorter"}"#,
            r#"{"role":"user","content":"000011"}"#
        ],
        "older ones vanish"
    );
}

#[test]
fn a_summary_in_the_middle_of_a_turn_leaves_what_was_asked_in_sight() {
    let mut entries = rounds();
    assert_eq!(seen(&entries, RenderPolicy::Summary, Some(60), again(0)), Window::Summarise { up_to: 3 });
    entries.push(summary("so far", Some(3)));
    let cut = Some(CutReason::Summary);
    assert_eq!(
        seen(&entries, RenderPolicy::Summary, Some(60), View::default()),
        Window::From { first: 4, summary: Some(7), question: Some(0), cut }
    );
}

#[test]
fn a_summary_that_was_just_made_is_not_made_again() {
    let mut entries = talk(7);
    entries.insert(4, ten(4, says));
    let long = "so much to say ".repeat(9);
    entries.push(summary(&long, Some(3)));
    let cut = Some(CutReason::Summary);
    assert_eq!(
        seen(&entries, RenderPolicy::Summary, Some(50), View::default()),
        Window::From { first: 7, summary: Some(8), question: None, cut },
        "what is too much beside it is left out"
    );
}

#[test]
fn a_summary_of_any_index_replaces_only_whole_groups_before_it() {
    let mut entries = rounds();
    entries.push(summary("odd", Some(0)));
    for (up_to, first, question) in [
        (i64::MIN, 0, None),
        (-1, 0, None),
        (0, 0, None),
        (2, 0, None),
        (3, 4, Some(0)),
        (5, 4, Some(0)),
        (6, 8, Some(0)),
        (7, 8, Some(0)),
        (i64::MAX, 8, Some(0)),
    ] {
        entries[7] = summary("odd", Some(up_to));
        let window = seen(&entries, RenderPolicy::Full, None, View::default());
        let Window::From { first: seen, summary: Some(7), question: asked, .. } = window else {
            panic!("{window:?}")
        };
        assert_eq!((seen, asked), (first, question), "{up_to}");
    }
    entries.extend([ten(8, says), ten(9, user), ten(10, says)]);
    let window = seen(&entries, RenderPolicy::Full, None, View::default());
    let Window::From { first: 8, summary: Some(7), question: Some(0), .. } = window else {
        panic!("what came after it is seen: {window:?}")
    };
}

#[test]
fn a_compaction_shows_less_than_before_or_nothing_can_be_left_out() {
    let cut = Some(CutReason::ContextTooLong);
    let entries = talk(11);
    let fits = |fits| View { first: None, lowest: None, trim: Trim::Compact { fits: Some(fits) } };
    let budget = RenderPolicy::TokenBudget;
    assert_eq!(seen(&entries, budget, None, COMPACT), from(6, cut), "half of 110");
    assert_eq!(seen(&entries, RenderPolicy::Full, None, COMPACT), from(6, cut));
    assert_eq!(seen(&entries, budget, None, fits(70)), from(8, cut), "half of what fits");
    assert_eq!(seen(&entries, budget, None, fits(u64::MAX)), from(6, cut));
    assert_eq!(seen(&entries, budget, None, fits(0)), from(10, cut));
    assert_eq!(seen(&entries, budget, Some(70), fits(1000)), from(10, cut), "of what was seen: 8 and after");
    assert_eq!(seen(&entries, budget, Some(90), COMPACT), from(10, cut), "of what was seen: 6 and after");
    assert_eq!(seen(&entries, RenderPolicy::Summary, Some(90), COMPACT), from(8, cut), "half of the room");
    let later = View { first: Some(8), ..COMPACT };
    assert_eq!(seen(&entries, budget, None, later), from(10, cut));
    let last = View { first: Some(10), ..COMPACT };
    assert_eq!(seen(&entries, budget, None, last), Window::Full);
    assert_eq!(seen(&talk(1), budget, None, COMPACT), Window::Full);
    let inside = seen(&rounds(), budget, None, COMPACT);
    assert_eq!(inside, Window::From { first: 4, summary: None, question: Some(0), cut });
}

#[test]
fn a_simple_request_shows_this_turn_only() {
    let simple = |first| View { first, lowest: first, trim: Trim::Simple };
    let cut = Some(CutReason::Simplified);
    let mut entries = talk(5);
    for policy in [RenderPolicy::Full, RenderPolicy::TokenBudget, RenderPolicy::Summary] {
        assert_eq!(seen(&entries, policy, Some(1), simple(None)), from(4, cut));
    }
    let mut inside = rounds();
    assert_eq!(
        seen(&inside, RenderPolicy::Full, None, simple(Some(4))),
        Window::From { first: 4, summary: None, question: Some(0), cut },
        "and no more of it than before"
    );
    inside.remove(0);
    assert_eq!(seen(&inside, RenderPolicy::Full, None, simple(None)), from(0, cut), "nobody asked");
    entries.push(summary("so far", Some(1)));
    assert_eq!(
        seen(&entries, RenderPolicy::Full, None, simple(None)),
        Window::From { first: 4, summary: Some(5), question: None, cut }
    );
}

#[test]
fn indexes_are_those_of_the_thread_wherever_the_known_part_begins() {
    let entries = talk(9);
    let known = Look { from: 4, ..look(&entries[4..], RenderPolicy::TokenBudget, Some(30)) };
    assert_eq!(known.window(), from(6, Some(CutReason::TokenBudget)));
    for (first, seen) in [(0, 4), (6, 6), (99, 8)] {
        let look = Look { view: again(first), room: None, count: &count, ..known };
        assert_eq!(look.window(), from(seen, None), "{first}");
    }
}

/// Each text is counted once a call, however the thread is grouped.
#[test]
fn a_long_thread_is_weighed_once() {
    let mut one_group = vec![ten(0, user), ten(1, says), ten(2, user), ten(3, says)];
    for id in 0..10_000 {
        one_group.push(call(&id.to_string()));
    }
    one_group.extend((0..10_000).map(|id| result(&id.to_string(), "seen")));
    for (entries, texts, first) in [(talk(20_001), 20_001, 20_000), (one_group, 30_004, 2)] {
        for policy in [RenderPolicy::TokenBudget, RenderPolicy::Summary] {
            let counted = Cell::new(0);
            let count = |text: &str| {
                counted.set(counted.get() + 1);
                count(text)
            };
            let window = Look { count: &count, ..look(&entries, policy, Some(25)) }.window();
            match window {
                Window::From { first: seen, .. } => assert_eq!(seen, first),
                Window::Summarise { up_to } => assert_eq!(up_to, first - 1),
                Window::Full => panic!("it was not compacted"),
            }
            assert_eq!(counted.get(), texts);
        }
    }
}

#[test]
fn what_was_left_out_for_good_stays_out() {
    let mut entries = talk(9);
    let mark = |first: i64| entry("baton.compaction", json!({"first": first}));
    let first = |entries: &[Entry]| match look(entries, RenderPolicy::Full, None).window() {
        Window::From { first, .. } => first,
        other => panic!("{other:?}"),
    };
    let begins = entries.iter().rposition(|e| matches!(e, Entry::UserMessage(_))).unwrap() as i64;
    entries.push(mark(begins));
    assert_eq!(first(&entries), begins);
    entries.push(mark(i64::MAX));
    entries.push(mark(-3));
    assert_eq!(first(&entries), 0, "the newest counts, whatever it says");
}
