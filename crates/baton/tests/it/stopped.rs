//! A process that is stopped while it holds the turn to write: no other process waits for it for ever, and each one's
//! error names it.

use std::os::unix::fs::MetadataExt;
use std::process::Child;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::{Value, json};

use crate::world::World;

/// Asks, and returns when the process has stopped itself at a point.
fn stopped_at(world: &World, model: &str, point: &str) -> Child {
    let mut command = world.command(&["ask", "--thread", "t", "--model", model, "go"]);
    let child = command.env("BATON_FAILPOINT", format!("{point}:stop")).spawn().unwrap();
    let (_, status) = waitpid(Some(Pid::from_child(&child)), WaitOptions::UNTRACED).unwrap().unwrap();
    assert!(status.stopped(), "{point}: {status:?}");
    child
}

/// A machine with an agent that says two things and calls a tool in between.
fn world() -> (World, String) {
    let world = World::new();
    let arguments = json!({"file": world.path("ledger"), "line": "x", "class": "unsafe"});
    let model = world.script(&json!({"v": 1, "replies": [
        {"do": [{"text": "I begin. "}, {"call": {"name": "test_effect", "arguments": arguments}}]},
        {"do": [{"text": "It is done."}]},
    ]}));
    (world, model)
}

/// A process that stopped itself in its turn to write, once its run had begun; and the run. The services beside the run
/// write, too, so the number of writes before it is not known.
fn stopped_in_its_turn(world: &World, model: &str) -> (Child, String) {
    world.baton(&["threads", "ls"]).ok(); // the data is there
    for hit in 2..99 {
        let mut owner = stopped_at(world, model, &format!("store.pre_commit:{hit}"));
        if let Some(run) = only_run(world)["id"].as_str() {
            return (owner, run.to_owned()); // reading works
        }
        owner.kill().unwrap();
        owner.wait().unwrap();
    }
    panic!("no run began");
}

fn only_run(world: &World) -> Value {
    let listed: Value = serde_json::from_str(&world.baton(&["runs", "ls", "--json"]).ok()).unwrap();
    listed["items"][0].clone()
}

/// Waits until a process queues for the turn.
fn wait_in_line(world: &World, pid: u32) {
    let live = world.path("home/data/baton/live");
    let place = |name: &str| format!(":{} ", std::fs::metadata(live.join(name)).unwrap().ino());
    let places = [place("gate"), place("room")];
    let waits = |line: &str| {
        line.contains("->") && line.contains(&format!(" {pid} ")) && places.iter().any(|at| line.contains(at))
    };
    while !std::fs::read_to_string("/proc/locks").unwrap().lines().any(waits) {
        std::thread::yield_now();
    }
}

#[test]
fn a_process_that_is_stopped_in_its_turn_is_named_and_blocks_nobody_for_ever() {
    let (world, model) = world();
    let (owner, run) = stopped_in_its_turn(&world, &model);
    let pid = owner.id();
    let expected = format!(
        "process {pid} (baton ask) is stopped and keeps everybody else from writing for more than 5 s"
    );
    let hint = format!("kill -CONT {pid}");
    let commands = [
        vec!["ask", "--thread", "u", "--model", &model, "hello"],
        vec!["runs", "resume", "--take", &run],
        vec!["threads", "rm", "t"],
    ];
    std::thread::scope(|scope| {
        for args in &commands {
            let (world, expected, hint) = (&world, &expected, &hint);
            scope.spawn(move || {
                let refused = world.baton(args);
                assert_eq!(refused.code, 1, "{args:?}: {refused:?}");
                assert!(
                    refused.err.contains(expected) && refused.err.contains(hint),
                    "{args:?}: {refused:?}"
                );
            });
        }
        for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
            let (world, model) = (&world, &model);
            scope.spawn(move || {
                let waiting = world.start(&["ask", "--thread", "v", "--model", model, "hello"]);
                wait_in_line(world, waiting.pid());
                waiting.signal(signal);
                let left = waiting.end();
                assert_eq!(left.code, code, "{left:?}");
                assert!(left.err.contains("left before the message was taken"), "{left:?}");
            });
        }
    });
    kill_process(Pid::from_child(&owner), Signal::CONT).unwrap();
    let output = owner.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(only_run(&world)["status"], "ok");
    assert_eq!(std::fs::read_to_string(world.path("ledger")).unwrap().lines().count(), 1);
    assert_eq!(world.baton(&["ask", "--thread", "u", "--model", &model, "hello"]).code, 0);
}
