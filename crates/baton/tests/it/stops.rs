//! SIGSTOP at every point of the step protocol, in the real binary; another process claims the run and ends it; then
//! the stopped one goes on. No effect twice, one end for every run, and no event that was shown is missing.
//!
//! On SQLite a stopped process counts as alive for ever, so its run is claimed with `--take`: that is as if its lease
//! had run out.
//! The same on PostgreSQL, with leases, is in `serve/many/points.rs`.

use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Output};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use serde_json::{Value, json};

use crate::crash::{Stage, numbered, was_killed};
use crate::points::{By, passed};
use crate::serve::several::rounds;
use crate::world::Running;

/// The points at which a stopped process keeps others from writing, and the hit at which it gets there for its run.
const IN_ITS_TURN: [(&str, u32); 5] = [
    ("turnstile.gate", 4),
    ("store.pre_commit", 4),
    ("store.post_commit", 4),
    ("migrate.mid", 1),
    ("prune.mid", 1),
];

/// A process that is stopped at a point.
struct Stopped {
    child: Child,
    at: String,
}

impl Stopped {
    /// Starts a command; `None` if it never gets there.
    fn at(stage: &Stage, args: &[&str], point: &str, hit: u32) -> Option<Stopped> {
        let at = format!("{point}:{hit}");
        let mut command = stage.world.command(args);
        let child = command.env("BATON_FAILPOINT", format!("{at}:stop")).spawn().unwrap();
        let pid = Pid::from_child(&child);
        stands_still(pid).then(|| {
            leaves_the_ledger(stage, pid);
            Stopped { child, at }
        })
    }

    /// Lets it go on to its end.
    fn goes_on(self) -> Output {
        kill_process(Pid::from_child(&self.child), Signal::CONT).unwrap();
        let output = self.child.wait_with_output().unwrap();
        assert_eq!(output.status.signal(), None, "{}: {output:?}", self.at);
        output
    }
}

/// Waits until a process is stopped, or ends.
fn stands_still(pid: Pid) -> bool {
    waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap().1.stopped()
}

/// Lets a process that has the file of effects locked go on until it has released it: the others could not write to it.
fn leaves_the_ledger(stage: &Stage, pid: Pid) {
    let ledger = File::options().append(true).create(true).open(stage.world.path("ledger")).unwrap();
    while ledger.try_lock().is_err() {
        kill_process(pid, Signal::CONT).unwrap();
        kill_process(pid, Signal::STOP).unwrap();
        assert!(stands_still(pid));
    }
}

fn ask(stage: &Stage) -> [&str; 7] {
    ["ask", "--json", "--thread", "t", "--model", &stage.model, "go"]
}

fn runs(stage: &Stage) -> Vec<(String, String)> {
    let listed = stage.world.baton(&["runs", "ls", "--json"]).json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    listed["items"].as_array().unwrap().iter().map(|run| (text(&run["id"]), text(&run["status"]))).collect()
}

/// Another process makes the run end, or begins one if there is none.
fn take_over(stage: &Stage) {
    match runs(stage).into_iter().next() {
        Some((run, status)) if status == "running" || status == "suspended" => {
            stage.run(&["runs", "resume", "--take", &run], None);
        }
        Some(_) => {}
        None => assert_eq!(stage.ask(None).status.code(), Some(0)),
    }
}

/// Checks that no effect happened twice, and that every run came to its one end.
fn check(stage: &Stage, at: &str, end: &str) {
    let effects = stage.effects();
    assert!(effects.values().all(|count| *count == 1), "{at}: {effects:?}");
    for (run, status) in runs(stage) {
        assert_eq!(status, end, "{at}");
        let log = numbered(stage.world.baton(&["runs", "tail", &run, "--json"]).out.as_bytes());
        let ends = log.iter().filter(|event| event["type"] == "done").count();
        assert_eq!(ends, 1, "{at}: {log:#?}");
    }
    let transcript = stage.transcript();
    let of = |kind: &str| transcript.iter().filter(|line| line.split(' ').next() == Some(kind)).count();
    assert_eq!(of("ToolCall"), of("ToolResult"), "{at}: {transcript:#?}");
    let done =
        transcript.iter().filter(|line| line.starts_with("ToolResult") && line.contains("\"ok\"")).count();
    assert!(done <= effects.len(), "{at}: what is said to be done was done: {transcript:#?} {effects:?}");
}

/// The run of a stopped process is taken and ended by another; then it goes on.
fn stop_and_take(stage: &Stage, args: &[&str], point: &str, hit: u32, end: &str) -> bool {
    let Some(stopped) = Stopped::at(stage, args, point, hit) else { return false };
    let at = stopped.at.clone();
    take_over(stage);
    let seen = stopped.goes_on();
    for (run, status) in runs(stage) {
        if status == "running" {
            stage.run(&["runs", "resume", &run], None); // the other process could not claim it: there was no run yet
        }
        if seen.stdout.windows(run.len()).any(|part| part == run.as_bytes()) {
            stage.keeps(&seen, &run);
        }
    }
    check(stage, &at, end);
    true
}

/// The hits that are tried: the first, or with `BATON_FULL=1` several.
fn hits() -> std::ops::RangeInclusive<u32> {
    1..=rounds(1, 4) as u32
}

fn is_in_its_turn(point: &str) -> bool {
    IN_ITS_TURN.iter().any(|(inside, _)| *inside == point)
}

fn stopped_in_a_turn(class: &'static str) {
    for point in passed(By::Turn).filter(|point| !is_in_its_turn(point)) {
        for hit in hits() {
            let stage = Stage::new(class);
            let passed = stop_and_take(&stage, &ask(&stage), point, hit, "ok");
            assert!(passed || hit > 1, "{point} was never passed");
            if (point, hit, class) == ("tool.post_intent", 1, "unsafe") {
                assert_eq!(stage.effects().len(), 2, "what was not sent by then is not sent any more");
            }
        }
    }
}

#[test]
fn a_run_that_is_taken_from_a_process_stopped_at_any_point_of_a_turn_does_nothing_twice() {
    stopped_in_a_turn("unsafe");
}

#[test]
fn an_idempotent_tool_of_a_process_stopped_at_any_point_takes_effect_once() {
    if rounds(0, 1) == 1 {
        stopped_in_a_turn("idempotent");
    }
}

#[test]
fn a_run_that_is_taken_from_a_process_stopped_in_its_recovery_does_nothing_twice() {
    for point in passed(By::Recovery) {
        let stage = Stage::new("unsafe");
        assert!(was_killed(&stage.ask(Some("tool.post_send:1"))), "{point}");
        let run = stage.only_run().unwrap();
        assert!(stop_and_take(&stage, &["runs", "resume", &run], point, 1, "ok"), "{point}");
    }
}

#[test]
fn a_run_that_is_taken_from_a_process_stopped_around_an_approval_does_nothing_twice() {
    for point in passed(By::Approval) {
        let stage = Stage::approving("unsafe");
        let asking = ask(&stage);
        let mut stopped =
            (point == "approval.post_request").then(|| Stopped::at(&stage, &asking, point, 1).unwrap());
        if stopped.is_none() {
            assert_eq!(stage.run(&asking, None).status.code(), Some(3), "{point}");
        }
        let run = stage.only_run().unwrap();
        while let Some((id, arguments)) = pending(&stage) {
            let edits = ["approvals", "edit", &id, "--arguments", &arguments];
            if stopped.is_some() {
                stage.run(&edits, None);
            } else {
                stopped = Some(Stopped::at(&stage, &edits, point, 1).unwrap());
                stage.run(&["runs", "resume", "--take", &run], None);
            }
        }
        stopped.unwrap().goes_on();
        check(&stage, point, "ok");
    }
}

/// The next call that waits for a decision, with its arguments.
fn pending(stage: &Stage) -> Option<(String, String)> {
    let listed = stage.world.baton(&["approvals", "ls", "--json"]).json();
    let first = &listed["items"][0];
    Some((first["id"].as_str()?.to_owned(), first["args"].to_string()))
}

/// A process that asks, with a slow call under way, and that will stop at a point.
fn calling(stage: &Stage, point: &str) -> Running {
    stage.world.settings("[engine]\nshutdown_s = 0\n");
    let slow =
        json!({"file": stage.world.path("ledger"), "line": "x", "class": "unsafe", "delay_ms": 25_000});
    let call = json!({"call": {"name": "test_effect", "arguments": slow}});
    stage.world.script(&json!({"v": 1, "replies": [{"do": [call]}, {"do": [{"text": "done"}]}]}));
    let mut command = stage.world.command(&["ask", "--thread", "t", "--model", &stage.model, "go"]);
    command.env("BATON_FAILPOINT", format!("{point}:1:stop"));
    let mut running = stage.world.start_command(command);
    running.until_noted("→ test_effect");
    while stage.effects().is_empty() {
        std::thread::yield_now();
    }
    running
}

/// The process is stopped; its run is claimed; it goes on.
fn is_taken_meanwhile(stage: &Stage, running: Running) {
    let pid = Pid::from_raw(running.pid().try_into().unwrap()).unwrap();
    assert!(stands_still(pid));
    leaves_the_ledger(stage, pid);
    take_over(stage);
    running.signal(Signal::CONT);
    running.end();
}

#[test]
fn a_run_that_is_taken_from_a_process_stopped_in_a_cancel_does_nothing_twice() {
    for point in passed(By::Cancel) {
        let stage = Stage::new("unsafe");
        let running = calling(&stage, point);
        let run = stage.only_run().unwrap();
        let cancelling = stage.world.start(&["runs", "cancel", &run]);
        is_taken_meanwhile(&stage, running);
        cancelling.end();
        check(&stage, point, "cancelled");
    }
}

#[test]
fn a_run_that_is_taken_from_a_process_stopped_in_leaving_does_nothing_twice() {
    for point in passed(By::Leaving) {
        let stage = Stage::new("unsafe");
        let running = calling(&stage, point);
        running.signal(Signal::TERM);
        is_taken_meanwhile(&stage, running);
        check(&stage, point, "ok");
    }
}

/// A process that waits for the turn of a stopped process gets an error that names it, and nothing is written
/// meanwhile.
#[test]
fn a_process_that_is_stopped_in_its_turn_at_any_point_is_named_and_loses_nothing() {
    std::thread::scope(|scope| {
        for (point, hit) in IN_ITS_TURN {
            scope.spawn(move || {
                let stage = Stage::new("unsafe");
                let prunes = point == "prune.mid";
                if prunes {
                    stage.ask(None);
                    stage.world.baton(&["threads", "rewind", "t", "--index", "1"]).ok();
                }
                let turn = ask(&stage);
                let args: &[&str] = if prunes { &["threads", "prune", "t"] } else { &turn };
                let stopped = Stopped::at(&stage, args, point, hit).unwrap();
                let refused = stage.world.baton(&["ask", "--thread", "u", "--model", &stage.model, "go"]);
                let told = format!("process {} (baton {}) is stopped", stopped.child.id(), args[0]);
                assert!(refused.code == 1 && refused.err.contains(&told), "{point}: {refused:?}");
                let output = stopped.goes_on();
                assert_eq!(output.status.code(), Some(0), "{point}: {output:?}");
                check(&stage, point, "ok");
            });
        }
    });
}
