//! Tool calls in the audit trail: also after a crash in the middle of a call, and when the thread is deleted at once.

use serde_json::{Value, json};

use super::audit::{rows, verified};
use crate::points::{By, passed};
use crate::world::World;

/// A world in which one call with effects was made on the thread `t`, and no event was sealed since.
fn furnished() -> (World, [String; 6]) {
    let world = World::new();
    let arguments = json!({"file": world.path("ledger"), "line": "one", "class": "unsafe", "delay_ms": 0});
    let model = world.script(&json!({"v": 1, "replies": [
        {"do": [{"call": {"name": "test_effect", "arguments": arguments}}]},
        {"do": [{"text": "It is done."}]},
    ]}));
    (world, ["ask", "--thread", "t", "--model", &model, "go"].map(str::to_owned))
}

/// A world in which that call was made.
fn called() -> World {
    let (world, ask) = furnished();
    world.baton(&ask.each_ref().map(String::as_str)).ok();
    world
}

fn ours(kinds: &[&str]) -> Vec<Value> {
    kinds.iter().map(|kind| json!([kind, "baton", false])).collect()
}

const RUN: [&str; 3] = ["agent.started", "agent.completed", "tool.called"];

#[test]
fn a_crash_while_the_trail_is_told_of_a_call_neither_loses_nor_doubles_its_row() {
    let (world, ask) = furnished();
    // The trail is told of the call when `ask` has answered and leaves.
    let point = passed(By::Trail).next().unwrap();
    let mut command = world.command(&ask.each_ref().map(String::as_str));
    let killed = command.env("BATON_FAILPOINT", format!("{point}:1")).output().unwrap();
    assert_eq!(killed.status.code(), None, "it was killed at {point}");
    for _ in 0..2 {
        assert_eq!(rows(&world), ours(&RUN));
    }
    assert_eq!(verified(&world).0, 0);
}

#[test]
fn a_call_is_in_the_trail_of_a_thread_that_is_removed_at_once() {
    let world = called();
    world.baton(&["threads", "rm", "t"]).ok();
    assert_eq!(rows(&world), ours(&[&RUN[..], &["thread.deleted"]].concat()));
    assert_eq!(verified(&world).0, 0);
}

#[test]
fn a_service_that_is_opened_again_leaves_a_row() {
    let world = World::new();
    world.baton(&["tokens", "reopen"]).ok(); // it was open
    let added = world.baton(&["tokens", "add", "ci", "--json"]).json();
    assert_eq!(world.baton(&["tokens", "reopen"]).code, 1, "there is a token");
    world.baton(&["tokens", "revoke", added["id"].as_str().unwrap()]).ok();
    for _ in 0..2 {
        world.baton(&["tokens", "reopen"]).ok();
    }
    assert_eq!(rows(&world), ours(&["token.added", "token.revoked", "tokens.reopened"]));
}

#[test]
fn what_is_said_of_a_tool_is_a_part_of_the_policy_that_changes() {
    let world = World::new();
    let approve = "[tools.calculator]\napprove = true\n";
    let other = "[tools.calculator]\napprove = false\n";
    for settings in ["", approve, approve, other, ""] {
        world.settings(settings);
        world.baton(&["ask", "--model", "offline", "Hello"]).ok();
    }
    let (run, changed) = (ours(&RUN[..2]), ours(&["policy.changed"]));
    let expected = [&run[..], &changed, &run, &run, &changed, &run, &changed, &run].concat();
    assert_eq!(rows(&world), expected);
}
