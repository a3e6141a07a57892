//! Names, ids and places of calls that no tool has and no provider should send.

use baton_core::chat::FinishReason::{Length, Refused, Stop, ToolCalls};
use baton_core::fault::Fault;
use baton_core::thread::Entry;
use baton_model::Delta;
use serde_json::json;

use crate::world::{Kept, Mode, World, kinds};

use super::{Anything, Case, Played, Reply, arguments, call, finish, play, start, text};

const OK: &str = r#"{"do": "ok"}"#;

/// Names that no tool has, and their replacements in the history.
fn odd_names() -> Vec<(String, String)> {
    let plain = |name: &str, kept: &str| (name.to_owned(), kept.to_owned());
    vec![
        plain("teleport", "teleport"),
        plain("ONCE", "ONCE"),
        plain("", "_"),
        plain(" ", "_"),
        plain("on ce", "on_ce"),
        plain("once ", "once_"),
        plain("once\n", "once_"),
        plain("once\0", "once_"),
        plain("once()", "once__"),
        plain("functions.once", "functions.once"),
        plain("multi_tool_use.parallel", "multi_tool_use.parallel"),
        plain("../once", "___once"),
        plain("<|call|>once", "__call__once"),
        plain("'; DROP TABLE entries; --", "___DROP_TABLE_entries__--"),
        plain("\u{202e}ecno", "_ecno"),
        plain("once\u{200b}", "once_"),
        plain("ｏｎｃｅ", "____"),
        plain("🚀", "_"),
        plain("\u{1b}[31monce", "__31monce"),
        ("x".repeat(500), "x".repeat(64)),
        ("é".repeat(500), "_".repeat(64)),
    ]
}

fn names() -> Vec<Case> {
    let case = |(name, kept): &(String, String)| {
        Case::refused(format!("the name {name:?}"), kept, call(name, OK), "There is no tool")
    };
    odd_names().iter().map(case).collect()
}

/// A call with this id from the provider.
fn with_id(index: u32, id: Option<&str>) -> Reply {
    let id = id.map(str::to_owned);
    vec![Ok(Delta::CallStart { index, id, name: "once".to_owned() }), arguments(index, OK)]
}

fn odd_ids() -> Vec<Option<String>> {
    let mut ids = vec![None, Some("x".repeat(10 << 10)), Some("é".repeat(300))];
    let odd = ["", " ", "a b", "call\n1", "call\0", "\u{202e}", "🚀", "\u{1b}[0m"];
    ids.extend(odd.map(|id| Some(id.to_owned())));
    ids
}

fn ids() -> Vec<Case> {
    let case = |id: Option<String>| {
        let short: Option<String> = id.as_ref().map(|id| id.chars().take(9).collect());
        let reply = [with_id(0, id.as_deref()), vec![finish(ToolCalls)]].concat();
        Case::runs(format!("the id {short:?}"), "once", reply)
    };
    odd_ids().into_iter().map(case).collect()
}

/// The events of two calls of a tool.
fn both(tool: &str) -> [String; 6] {
    let (start, result) = (format!("tool_start {tool}"), format!("tool_result {tool} Ok"));
    ["started".into(), start.clone(), start, result.clone(), result, "delta".into()]
}

fn two(name: &str, deltas: Reply) -> Case {
    let reply = [deltas, vec![finish(ToolCalls)]].concat();
    Case::new(name, reply, &[&both("once")[..], &["ended ok".to_owned()]].concat(), 2)
}

fn places() -> Vec<Case> {
    let one = |index: u32| vec![start(index, "once"), arguments(index, OK)];
    let bytes: Reply = OK.chars().map(|c| arguments(0, &c.to_string())).collect();
    let invalid =
        |name: &str, reply: Reply, told: &str| Case::fails(name, reply, false, "llm_invalid_response", told);
    let (second, unknown) = ("began call 0 twice", "which it had not begun");
    vec![
        two("two calls with one id", [with_id(0, Some("same")), with_id(1, Some("same"))].concat()),
        two("two calls without ids", [with_id(0, None), with_id(1, None)].concat()),
        two("a gap", [one(0), one(7)].concat()),
        two("backwards and far apart", [one(u32::MAX), one(3)].concat()),
        two(
            "interleaved",
            vec![start(0, "once"), start(1, "once"), arguments(1, r#"{"do""#), arguments(0, r#"{"do": "#)]
                .into_iter()
                .chain([arguments(1, r#": "ok"}"#), arguments(0, r#""ok"}"#)])
                .collect(),
        ),
        Case::runs(
            "a piece for each byte",
            "once",
            [vec![start(0, "once")], bytes, vec![finish(Stop)]].concat(),
        ),
        Case::runs(
            "empty pieces",
            "once",
            vec![start(0, "once"), arguments(0, ""), arguments(0, OK), arguments(0, ""), finish(ToolCalls)],
        ),
        Case::runs("calls that end with stop", "once", [one(0), vec![finish(Stop)]].concat()),
        invalid("one place twice", [one(0), one(0), vec![finish(ToolCalls)]].concat(), second),
        invalid("one place twice, other tools", vec![start(0, "once"), start(0, "safe")], second),
        invalid("arguments of nothing", vec![arguments(0, OK), finish(ToolCalls)], unknown),
        invalid("arguments too early", vec![arguments(0, OK), start(0, "once"), finish(ToolCalls)], unknown),
        invalid("arguments elsewhere", vec![start(0, "once"), arguments(1, OK), finish(ToolCalls)], unknown),
        Case::refused("no arguments at all", "once", vec![start(0, "once"), finish(ToolCalls)], "required"),
        Case::runs(
            "no arguments for a tool without",
            "anything",
            vec![start(0, "anything"), finish(ToolCalls)],
        ),
    ]
}

fn cut_off() -> Vec<Case> {
    let half = vec![start(0, "once"), arguments(0, r#"{"do": "#)];
    let whole = vec![start(0, "once"), arguments(0, OK)];
    let with = |reply: &Reply, last: &[Result<Delta, Fault>]| [reply.as_slice(), last].concat();
    let early = "stream ended early";
    vec![
        Case::refused(
            "cut at the limit",
            "once",
            with(&half, &[finish(Length)]),
            "cut off at the token limit",
        ),
        Case::refused(
            "whole, and cut",
            "once",
            with(&whole, &[finish(Length)]),
            "cut off at the token limit",
        ),
        Case::refused("no end, limit", "once", vec![start(0, "once"), finish(Length)], "cut off"),
        Case::fails("a call and a refusal", with(&whole, &[finish(Refused)]), false, "refused", "no reason"),
        Case::fails("no finish", whole.clone(), false, "llm_invalid_response", early),
        Case::fails("no finish in a call", half.clone(), false, "llm_invalid_response", early),
        Case::fails(
            "a call after the finish",
            [vec![text("done"), finish(Stop)], whole.clone()].concat(),
            true,
            "llm_invalid_response",
            "went on after it had finished",
        ),
        Case::fails(
            "arguments after the finish",
            [with(&half, &[finish(ToolCalls)]), vec![arguments(0, r#""ok"}"#)]].concat(),
            false,
            "llm_invalid_response",
            "went on after it had finished",
        ),
    ]
}

fn many() -> Vec<Case> {
    let calls = |count: u32| -> Reply {
        let calls =
            (0..count).flat_map(|n| [start(n, "anything"), arguments(n, &json!({"n": n}).to_string())]);
        calls.chain([finish(ToolCalls)]).collect()
    };
    let mut all = vec!["started"];
    all.extend(["tool_start anything"; 64]);
    all.extend(["tool_result anything Ok"; 64]);
    all.extend(["delta", "ended ok"]);
    let too_many = |count| {
        Case::fails(format!("{count} calls"), calls(count), false, "llm_invalid_response", "more than 64")
    };
    vec![Case::new("64 calls", calls(64), &all, 64), too_many(65), too_many(10_000)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_no_tool_has_is_told_and_kept_in_a_usable_form() {
    play(Kept::Memory, names()).await;
    play(Kept::Sqlite, names().into_iter().step_by(5).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ids_of_providers_are_never_relied_on() {
    play(Kept::Memory, ids()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_odd_id_is_not_kept() {
    for id in odd_ids() {
        let world = World::new(Kept::Memory, Mode::Plain);
        let model = Played::new(vec![[with_id(0, id.as_deref()), vec![finish(ToolCalls)]].concat()]);
        world.turn(&world.engine_of(model, vec![]), "hi").await;
        let kept = world.entries().await.into_iter().find_map(|placed| match placed.entry {
            Entry::ToolCall(call) => Some(call.provider_id),
            _ => None,
        });
        assert_eq!(kept, Some(None), "{id:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_may_have_gaps_but_no_doubles() {
    play(Kept::Memory, places()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_cut_off_never_runs() {
    play(Kept::Memory, cut_off()).await;
    play(Kept::Sqlite, cut_off().into_iter().step_by(3).collect()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn so_many_calls_and_no_more() {
    play(Kept::Memory, many()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_good_call_runs_beside_bad_ones() {
    let tool = Anything::new();
    let world = World::new(Kept::Sqlite, Mode::Plain);
    let reply = vec![
        start(0, "teleport"),
        arguments(0, "{"),
        start(1, "anything"),
        arguments(1, r#"{"a":1}"#),
        start(2, "once"),
        arguments(2, "[]"),
        finish(ToolCalls),
    ];
    let engine = world.engine_of(Played::new(vec![reply]), vec![tool.clone()]);
    let (_, _, events) = world.turn(&engine, "hi").await;
    assert_eq!(tool.got(), [json!({"a": 1})]);
    let mut results: Vec<String> =
        kinds(&events).into_iter().filter(|k| k.starts_with("tool_result")).collect();
    results.sort_unstable();
    assert_eq!(results, ["tool_result anything Ok", "tool_result once Error", "tool_result teleport Error"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_bad_call_three_times_ends_the_turn() {
    let round = ["tool_start once", "tool_result once Error"];
    let ends = ["warning no_progress", "delta", "ended ok"];
    let expected = [&["started"][..], &round, &round, &round, &ends].concat();
    for written in ["", "{", "[]", r#"{"raw": 1}"#] {
        let mut case = Case::new(format!("three times {written:?}"), Vec::new(), &expected, 0);
        case.replies = vec![call("once", written); 3];
        play(Kept::Memory, vec![case]).await;
    }
    let round = ["tool_start teleport", "tool_result teleport Error"];
    let mut case = Case::new(
        "three times nothing",
        Vec::new(),
        &[&["started"][..], &round, &round, &round, &ends].concat(),
        0,
    );
    case.replies = vec![call("teleport", "{"), call("teleport", ""), call("teleport", "[]")];
    play(Kept::Memory, vec![case]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_where_words_were_asked_for_is_no_answer() {
    let rounds = ["tool_start once", "tool_result once Error"].repeat(3);
    let ends = [
        "warning no_progress",
        "warning llm_invalid_response",
        "history_cut 0 Simplified",
        "ended error llm_invalid_response",
    ];
    let mut case = Case::new("stubborn", Vec::new(), &[&["started"][..], &rounds, &ends].concat(), 0);
    case.replies = vec![call("once", "{"); 5];
    play(Kept::Memory, vec![case]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ever_new_bad_calls_end_with_the_rounds() {
    let rounds = ["tool_start once", "tool_result once Error"].repeat(8);
    let expected = [&["started"][..], &rounds, &["warning budget_exceeded", "delta", "ended ok"]].concat();
    let mut case = Case::new("eight bad calls", Vec::new(), &expected, 0);
    // Each gets another reason.
    case.replies = (0..8).map(|n| call("once", &format!("{{\"{}", "x".repeat(n)))).collect();
    play(Kept::Memory, vec![case]).await;
}
