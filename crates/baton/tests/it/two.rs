//! Two processes on one file: a dead process's run is adopted at once, a stopped one's can be taken.

use std::io::{BufRead, BufReader};
use std::process::Child;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::{Value, json};

use crate::stage::Did;
use crate::world::World;

/// A machine with a script of one call, and a process that stops itself in the middle of it.
struct Two {
    world: World,
    model: String,
}

impl Two {
    fn new(class: &str) -> Two {
        let world = World::new();
        let arguments = json!({"file": world.path("ledger"), "line": "x", "class": class});
        let model = world.script(&json!({"v": 1, "replies": [
            {"do": [{"text": "I begin. "}, {"call": {"name": "test_effect", "arguments": arguments}}]},
            {"do": [{"text": "It was {last_result}"}]},
        ]}));
        Two { world, model }
    }

    /// Asks, and returns when the process has stopped itself after the tool's reply.
    fn stopped_in_a_call(&self) -> Child {
        let mut command = self.world.command(&["ask", "--thread", "t", "--model", &self.model, "go"]);
        let child = command.env("BATON_FAILPOINT", "tool.post_reply:1:stop").spawn().unwrap();
        let (_, status) = waitpid(Some(Pid::from_child(&child)), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped(), "{status:?}");
        child
    }

    fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.world.baton(args).ok()).unwrap()
    }

    fn run(&self) -> String {
        self.json(&["runs", "ls", "--json"])["items"][0]["id"].as_str().unwrap().to_owned()
    }

    /// Everything that is stored of the run.
    fn stored(&self, run: &str) -> (Value, Value, Did) {
        (
            self.json(&["runs", "show", run, "--json"]),
            self.json(&["threads", "show", "t", "--json"]),
            self.world.baton(&["runs", "tail", run, "--json"]),
        )
    }

    fn effects(&self) -> usize {
        std::fs::read_to_string(self.world.path("ledger")).unwrap_or_default().lines().count()
    }
}

#[test]
fn a_killed_process_leaves_its_run_to_another_at_once() {
    let two = Two::new("idempotent");
    let mut chat = two
        .world
        .command(&["chat", "--model", &two.model])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(chat.stderr.take().unwrap()).lines();
    assert!(said.any(|line| line.unwrap().starts_with("/help")), "it is there");
    let mut owner = two.stopped_in_a_call();
    owner.kill().unwrap();
    owner.wait().unwrap();
    let run = two.run();
    let tail = two.world.baton(&["runs", "tail", &run, "--json"]);
    assert_eq!(tail.code, 0, "{tail:?}");
    assert_eq!(
        (two.json(&["runs", "show", &run, "--json"])["status"].clone(), two.effects()),
        (json!("ok"), 1)
    );
    drop(chat.stdin.take());
    assert!(chat.wait().unwrap().success());
}

#[test]
fn a_stopped_owner_whose_run_was_taken_writes_nothing() {
    for class in ["idempotent", "unsafe"] {
        let two = Two::new(class);
        let owner = two.stopped_in_a_call();
        let run = two.run();
        let held = two.world.baton(&["runs", "resume", &run]);
        assert_eq!(held.code, 1, "{held:?}");
        assert!(held.err.contains("is held by a living process") && held.err.contains("--take"), "{held:?}");
        assert_eq!(two.world.baton(&["runs", "resume", "--take", &run]).code, 0);
        let before = two.stored(&run);
        assert_eq!(before.0["status"], "ok");
        kill_process(Pid::from_child(&owner), Signal::CONT).unwrap();
        let output = owner.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(two.stored(&run), before, "the old owner wrote nothing");
        assert!(two.effects() <= 1);
    }
}
