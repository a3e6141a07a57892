//! `ask` that is told to go (SIGTERM): its last line about its run is true.

use rustix::process::Signal;
use serde_json::json;

use crate::stage::Did;
use crate::world::{Running, World};

/// An agent that sends one word and then stalls.
fn script(world: &World) -> String {
    world.script(&json!({"v": 1, "replies": [{"do": [{"text": "First "}, {"stall": true}]}]}))
}

/// A command that has printed its first word.
fn speaking(world: &World, model: &str) -> Running {
    let mut running = world.start(&["ask", "--thread", "t", "--model", model, "hi"]);
    running.until("First ");
    running
}

fn run_of(did: &Did) -> &str {
    did.err.lines().next().unwrap().rsplit(' ').next().unwrap()
}

#[test]
fn a_run_that_was_let_go_is_told_so_and_can_be_resumed() {
    let world = World::new();
    world.settings("[engine]\nshutdown_s = 0\n");
    let model = script(&world);
    let running = speaking(&world, &model);
    running.signal(Signal::TERM);
    let did = running.end();
    let run = run_of(&did);
    assert_eq!(did.code, 143, "{did:?}");
    let told = format!(
        "let go of run {run}: baton runs resume {run} goes on with it; a baton serve on this data may do so by itself"
    );
    assert_eq!(did.err.lines().last(), Some(told.as_str()));
    world.script(&json!({"v": 1, "replies": [{"do": [{"text": "At last."}]}]}));
    let resumed = world.baton(&["runs", "resume", run]);
    assert_eq!((resumed.code, resumed.out.ends_with("At last.\n")), (0, true), "{resumed:?}");
}

#[test]
fn a_second_signal_leaves_the_run_as_it_is() {
    let world = World::new();
    world.settings("[engine]\nshutdown_s = 3600\n");
    let model = script(&world);
    let mut running = speaking(&world, &model);
    running.signal(Signal::TERM);
    running.until_noted("the run is finished or let go of first");
    running.signal(Signal::TERM);
    let did = running.end();
    let run = run_of(&did);
    assert_eq!(did.code, 143, "{did:?}");
    let told = format!("left run {run} as it was: baton runs resume {run} goes on with it");
    assert_eq!(did.err.lines().last(), Some(told.as_str()));
}
