//! Too much of anything: each bound holds exactly, and input beyond it is refused with a reason.

use baton_core::chat::FinishReason::{Stop, ToolCalls};
use baton_core::fault::Fault;
use baton_core::thread::Entry;
use baton_model::{Delta, MAX_REPLY_BYTES};
use baton_tools::{MAX_ARGUMENT_BYTES, Output};
use serde_json::json;

use crate::check::check;
use crate::world::{Kept, Mode, World, kinds};

use super::{Anything, Case, Played, Reply, arguments, call, finish, play, start, text};

const MIB: usize = 1 << 20;

/// An object that is so many bytes long.
fn long(bytes: usize) -> String {
    format!("{{\"x\":\"{}\"}}", "y".repeat(bytes - 8))
}

fn reasoning(text: &str) -> Result<Delta, Fault> {
    Ok(Delta::Reasoning(text.to_owned()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_are_bounded_exactly() {
    let told = "at most 1048576 are accepted";
    let reply = |bytes: usize| call("anything", &long(bytes));
    let pieces = |piece: String, count: usize| -> Reply {
        let pieces = std::iter::repeat_n(arguments(0, &piece), count);
        [start(0, "anything")].into_iter().chain(pieces).chain([finish(ToolCalls)]).collect()
    };
    let too_long = |name: &str, reply: Reply| {
        Case::fails(name, reply, false, "llm_invalid_response", "longer than 8 MiB")
    };
    for kept in [Kept::Memory, Kept::Sqlite] {
        play(
            kept,
            vec![
                Case::runs("one byte less", "anything", reply(MAX_ARGUMENT_BYTES - 1)),
                Case::runs("1 MiB", "anything", reply(MAX_ARGUMENT_BYTES)),
                Case::refused("one byte more", "anything", reply(MAX_ARGUMENT_BYTES + 1), told),
                Case::refused("7 MiB of white space", "anything", pieces(" ".repeat(MIB), 7), told),
                too_long("9 MiB", reply(9 * MIB)),
                too_long("9 MiB in pieces", pieces("y".repeat(MIB), 9)),
                too_long("50 MB", reply(50_000_000)),
                too_long("a name of 9 MiB", vec![start(0, &"n".repeat(9 * MIB)), finish(ToolCalls)]),
            ],
        )
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_is_too_long_keeps_what_was_shown() {
    let piece = "é".repeat(MIB / 2);
    for kept in [Kept::Memory, Kept::Sqlite] {
        let world = World::new(kept, Mode::Plain);
        let reply: Reply = std::iter::repeat_n(text(&piece), 9).chain([finish(Stop)]).collect();
        let (handle, _, events) = world.turn(&world.engine_of(Played::new(vec![reply]), vec![]), "hi").await;
        assert_eq!(kinds(&events), ["started", "delta", "ended error llm_invalid_response"]);
        let Entry::AssistantMessage(said) = world.entries().await.swap_remove(1).entry else { panic!() };
        assert_eq!(said.content.len(), MAX_REPLY_BYTES);
        check(&world, handle.run, &[]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reasoning_is_bounded_too() {
    let told = "longer than 8 MiB";
    let most = "x".repeat(MAX_REPLY_BYTES - 4);
    for kept in [Kept::Memory, Kept::Sqlite] {
        let pieces: Reply =
            std::iter::repeat_n(reasoning(&"x".repeat(MIB)), 9).chain([finish(Stop)]).collect();
        let at_once = vec![reasoning(&"\u{1}".repeat(70 * MIB)), text("so"), finish(Stop)];
        play(
            kept,
            vec![
                Case::new(
                    "as much as there may be",
                    vec![reasoning(&most), text("so"), finish(Stop)],
                    &["started", "delta", "ended ok"],
                    0,
                ),
                Case::fails("in pieces", pieces, true, "llm_invalid_response", told),
                Case::fails("at once", at_once, false, "llm_invalid_response", told),
            ],
        )
        .await;
    }
}

/// Control characters are six bytes each where they are stored: it is still read back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_of_control_characters_is_read_back() {
    let words = "\u{1}".repeat(MAX_REPLY_BYTES);
    let reply = vec![text(&words), finish(Stop)];
    let case = Case::new("control characters", reply, &["started", "delta", "ended ok"], 0);
    play(Kept::Sqlite, vec![case]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pieces_of_nothing_leave_nothing() {
    let empty = (0..100_000).flat_map(|_| [text(""), reasoning("")]);
    let reply: Reply = empty.chain([text("a"), finish(Stop)]).collect();
    let world = World::new(Kept::Memory, Mode::Plain);
    let (handle, _, events) = world.turn(&world.engine_of(Played::new(vec![reply]), vec![]), "hi").await;
    assert_eq!(
        (kinds(&events), events.len()),
        (vec!["started".into(), "delta".into(), "ended ok".into()], 3)
    );
    check(&world, handle.run, &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_piece_for_each_character_is_one_answer() {
    let reply: Reply = std::iter::repeat_n(text("é"), 9_000).chain([finish(Stop)]).collect();
    for kept in [Kept::Memory, Kept::Sqlite] {
        let case = Case::new("characters", reply.clone(), &["started", "delta", "ended ok"], 0);
        play(kept, vec![case]).await;
    }
}

/// Eight full rounds of a tool with the longest name: the flow's state stays within its bound.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_calls_as_a_run_may_have() {
    let name = "n".repeat(64);
    let rounds = |bad: bool| -> Vec<Reply> {
        let written = |round: u32, n: u32| match bad {
            true => format!("{{\"{}", "x".repeat((round * 64 + n) as usize)),
            false => json!({"round": round, "n": n}).to_string(),
        };
        let round = |round: u32| {
            let calls = (0..64).flat_map(|n| [start(n, &name), arguments(n, &written(round, n))]);
            calls.chain([finish(ToolCalls)]).collect()
        };
        (0..8).map(round).collect()
    };
    for bad in [false, true] {
        let world = World::new(Kept::Memory, Mode::Plain);
        let tool = Anything::named(&name, || Output::Text("x".to_owned()));
        let engine = world.engine_of(Played::new(rounds(bad)), vec![tool.clone()]);
        let (handle, _, events) = world.turn(&engine, "hi").await;
        assert_eq!(kinds(&events).last().unwrap(), "ended ok", "bad: {bad}");
        assert_eq!(tool.got().len(), if bad { 0 } else { 512 });
        check(&world, handle.run, &[]).await.unwrap();
    }
}
