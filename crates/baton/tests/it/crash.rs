//! SIGKILL at every point of the step protocol, in the real binary on SQLite; then the run is resumed.
//!
//! The final state is that of an undisturbed run where a tool may run again; where it may not, that call's result is
//! `unknown`, the model gets that result and the run finishes. No effect happens twice, and no acknowledged event is
//! missing.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use serde_json::{Value, json};

use crate::points::{By, passed};
use crate::world::World;

/// One machine with one scripted agent whose tool leaves a line in a file for each effect.
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) model: String,
    class: &'static str,
}

impl Stage {
    pub(crate) fn new(class: &'static str) -> Stage {
        let world = World::new();
        let ledger = world.path("ledger");
        let call = |line: &str| json!({"call": {"name": "test_effect", "arguments": {"file": ledger, "line": line, "class": class, "delay_ms": 1}}});
        let model = world.script(&json!({"v": 1, "replies": [
            {"do": [{"text": "I look at the first thing. "}, call("one")]},
            {"do": [{"text": "I look at two more. "}, call("two"), call("three")]},
            {"do": [{"text": "That was all there was to see."}]},
        ]}));
        Stage { world, model, class }
    }

    pub(crate) fn approving(class: &'static str) -> Stage {
        let stage = Stage::new(class);
        stage.world.settings("[policy]\napprove = [\"test_effect\"]\n");
        stage
    }

    pub(crate) fn run(&self, args: &[&str], failpoint: Option<&str>) -> Output {
        let mut command = self.world.command(args);
        command.envs(failpoint.map(|point| ("BATON_FAILPOINT", point)));
        command.output().unwrap()
    }

    pub(crate) fn ask(&self, failpoint: Option<&str>) -> Output {
        self.run(&["ask", "--json", "--thread", "t", "--model", &self.model, "go"], failpoint)
    }

    /// The only run, if there is one.
    pub(crate) fn only_run(&self) -> Option<String> {
        let list = self.world.baton(&["runs", "ls", "--json"]);
        let list: Value = serde_json::from_str(&list.out).unwrap();
        list["items"][0]["id"].as_str().map(str::to_owned)
    }

    /// Resumes the run until it has ended or suspends.
    fn finish(&self) -> String {
        let Some(run) = self.only_run() else {
            assert_eq!(
                self.ask(None).status.code(),
                Some(0),
                "nothing had happened, so it can be asked again"
            );
            return self.only_run().unwrap();
        };
        if self.status(&run) == "running" {
            self.run(&["runs", "resume", &run], None);
        }
        run
    }

    pub(crate) fn status(&self, run: &str) -> String {
        let shown = self.world.baton(&["runs", "show", run, "--json"]);
        let shown: Value = serde_json::from_str(&shown.out).unwrap();
        shown["status"].as_str().unwrap().to_owned()
    }

    /// The entries of the thread: type, text and how calls were closed. Results of one round in any order.
    pub(crate) fn transcript(&self) -> Vec<String> {
        let shown = self.world.baton(&["threads", "show", "t", "--json"]);
        let shown: Value = serde_json::from_str(&shown.out).unwrap();
        let line = |item: &Value| {
            let data = &item["data"];
            let text = ["text", "content", "result"].iter().find_map(|key| data[key].as_str()).unwrap_or("");
            let text = if data["status"].is_string() { "" } else { text };
            format!("{} {text} {} {}", item["t"].as_str().unwrap(), data["status"], data["meta"])
        };
        let mut lines: Vec<String> = shown["items"].as_array().unwrap().iter().map(line).collect();
        lines.sort();
        lines
    }

    /// How often each effect happened, by its key.
    pub(crate) fn effects(&self) -> BTreeMap<String, u32> {
        let ledger = std::fs::read_to_string(self.world.path("ledger")).unwrap_or_default();
        let mut counts = BTreeMap::new();
        for line in ledger.lines() {
            *counts.entry(line.split('\t').next().unwrap().to_owned()).or_default() += 1;
        }
        counts
    }

    /// Checks that every event acknowledged before the kill is in the log afterwards, under the same number.
    pub(crate) fn keeps(&self, before: &Output, run: &str) {
        let tail = self.world.baton(&["runs", "tail", run, "--json"]);
        let log: BTreeSet<String> =
            numbered(tail.out.as_bytes()).into_iter().map(|event| event.to_string()).collect();
        for event in numbered(&before.stdout) {
            // Pieces of text may be withdrawn by `resumed`, which is no event of the log, and neither is a suspension.
            if event["type"] != "thinking" && event["type"] != "resumed" && event["seq"].is_u64() {
                assert!(log.contains(&event.to_string()), "{event} was seen and is not in the log {log:#?}");
            }
        }
    }

    fn check(&self, at: &str, expected: &[String]) {
        let transcript = self.transcript();
        match self.class {
            "unsafe" => {
                let unknown = transcript.iter().filter(|line| line.contains("\"unknown\"")).count();
                assert_eq!(transcript.len(), expected.len(), "{at}: {transcript:#?}");
                let known = |lines: &[String]| {
                    lines.iter().filter(|line| !line.starts_with("ToolResult")).cloned().collect::<Vec<_>>()
                };
                assert_eq!(known(&transcript), known(expected), "{at}");
                assert!(unknown <= 3, "{at}: {transcript:#?}");
            }
            _ => assert_eq!(transcript, expected, "{at}"),
        }
        let effects = self.effects();
        let most = if self.class == "side_effect_free" { u32::MAX } else { 1 };
        assert!(effects.values().all(|count| *count <= most), "{at}: {effects:?}");
        if self.class != "unsafe" {
            assert_eq!(effects.len(), 3, "{at}: {effects:?}");
        }
    }
}

/// The lines of `--json` that are whole.
pub(crate) fn numbered(out: &[u8]) -> Vec<Value> {
    String::from_utf8_lossy(out).lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

pub(crate) fn was_killed(output: &Output) -> bool {
    output.status.signal() == Some(9)
}

fn undisturbed(class: &'static str) -> Vec<String> {
    let stage = Stage::new(class);
    assert_eq!(stage.ask(None).status.code(), Some(0));
    stage.check("undisturbed", &stage.transcript());
    stage.transcript()
}

fn kill_at_every_point(class: &'static str) {
    let expected = undisturbed(class);
    for point in passed(By::Turn) {
        for hit in 1..=2 {
            let at = format!("{point}:{hit}");
            let stage = Stage::new(class);
            let before = stage.ask(Some(&at));
            let once = matches!(point, "admit.pre_commit" | "admit.post_commit");
            assert_eq!(
                was_killed(&before),
                hit == 1 || !once,
                "{at}: {}",
                String::from_utf8_lossy(&before.stderr)
            );
            let run = stage.finish();
            assert_eq!(stage.status(&run), "ok", "{at}");
            stage.keeps(&before, &run);
            stage.check(&at, &expected);
        }
    }
}

#[test]
fn a_tool_without_side_effects_survives_a_kill_at_every_point() {
    kill_at_every_point("side_effect_free");
}

#[test]
fn an_idempotent_tool_survives_a_kill_at_every_point() {
    kill_at_every_point("idempotent");
}

#[test]
fn a_tool_with_side_effects_survives_a_kill_at_every_point() {
    kill_at_every_point("unsafe");
}

#[test]
fn a_crash_during_recovery_is_recovered_from() {
    for class in ["idempotent", "unsafe"] {
        let expected = undisturbed(class);
        let also = ["step.pre_commit", "step.post_commit", "tool.post_send", "store.post_commit"];
        for point in passed(By::Recovery).chain(also) {
            let stage = Stage::new(class);
            let before = stage.ask(Some("tool.post_send:1"));
            assert!(was_killed(&before), "{point}");
            let run = stage.only_run().unwrap();
            for _ in 0..2 {
                let again = stage.run(&["runs", "resume", &run], Some(&format!("{point}:1")));
                assert!(
                    was_killed(&again) || stage.status(&run) == "ok",
                    "{point}: {}",
                    String::from_utf8_lossy(&again.stderr)
                );
            }
            assert_eq!(stage.status(&stage.finish()), "ok", "{point}");
            stage.keeps(&before, &run);
            stage.check(point, &expected);
        }
    }
}

#[test]
fn an_approval_survives_a_kill_at_every_point() {
    let also = ["tool.post_send", "step.pre_commit", "recover.pre_claim", "claim.post_commit"];
    for point in passed(By::Approval).chain(also) {
        for hit in 1..=2 {
            let at = format!("{point}:{hit}");
            let stage = Stage::approving("unsafe");
            let first = stage.ask((point == "approval.post_request").then_some(&at));
            assert!(was_killed(&first) || first.status.code() == Some(3), "{at}");
            let run = stage.only_run().unwrap();
            let mut killed = was_killed(&first);
            while stage.status(&run) == "suspended" {
                let pending = stage.world.baton(&["approvals", "ls", "--json"]);
                let pending: Value = serde_json::from_str(&pending.out).unwrap();
                let approval = &pending["items"][0];
                let Some(id) = approval["id"].as_str() else {
                    // The decision was recorded, and the deciding process died before the run could go on.
                    stage.run(&["runs", "resume", &run], None);
                    continue;
                };
                let failpoint = (!killed).then_some(at.as_str());
                let edited = approval["args"].to_string();
                let decided = stage.run(&["approvals", "edit", id, "--arguments", &edited], failpoint);
                killed |= was_killed(&decided);
                if stage.status(&run) == "running" {
                    stage.run(&["runs", "resume", &run], None);
                }
            }
            assert_eq!(stage.status(&run), "ok", "{at}");
            assert!(stage.effects().values().all(|count| *count == 1), "{at}: {:?}", stage.effects());
            assert!(killed || hit == 2, "{at} was never passed");
        }
    }
}

#[test]
fn a_cancel_survives_a_kill_at_every_point() {
    let also = ["step.pre_commit", "step.post_commit", "claim.post_commit", "recover.mid"];
    for point in passed(By::Cancel).chain(also) {
        let stage = Stage::new("unsafe");
        assert!(was_killed(&stage.ask(Some("tool.post_send:1"))), "{point}");
        let run = stage.only_run().unwrap();
        stage.run(&["runs", "cancel", &run], Some(&format!("{point}:1")));
        if stage.status(&run) == "running" {
            stage.run(&["runs", "resume", &run], None);
        }
        assert_eq!(stage.status(&run), "cancelled", "{point}");
        let effects = stage.effects();
        assert!(effects.len() <= 1 && effects.values().all(|count| *count == 1), "{point}: {effects:?}");
        let open = stage.transcript().iter().filter(|line| line.starts_with("ToolCall")).count();
        let closed = stage.transcript().iter().filter(|line| line.starts_with("ToolResult")).count();
        assert_eq!((open, closed), (1, 1), "{point}");
    }
}

#[test]
fn a_prune_that_is_killed_is_all_or_nothing() {
    let stage = Stage::new("idempotent");
    stage.ask(None);
    let before = stage.transcript();
    stage.world.baton(&["threads", "rewind", "t", "--index", "1"]);
    let kept = stage.transcript();
    for point in passed(By::Prune) {
        let killed = stage.run(&["threads", "prune", "t"], Some(&format!("{point}:1")));
        assert!(was_killed(&killed), "{point}");
        assert_eq!(stage.transcript(), kept, "{point}");
    }
    let pruned = stage.world.baton(&["threads", "prune", "t", "--json"]);
    let pruned: Value = serde_json::from_str(&pruned.out).unwrap();
    assert_eq!(pruned["entries"], before.len() - 2, "{pruned}");
}

#[test]
fn a_kill_while_letting_go_leaves_the_run_to_others() {
    for failpoint in std::iter::once(None).chain(passed(By::Leaving).map(Some)) {
        let stage = Stage::new("idempotent");
        stage.world.settings("[engine]\nshutdown_s = 0\n");
        let slow = json!({"file": stage.world.path("ledger"), "line": "x", "class": "idempotent", "delay_ms": 25_000});
        let model = stage.world.script(&json!({"v": 1, "replies": [
            {"do": [{"call": {"name": "test_effect", "arguments": slow}}]},
            {"do": [{"text": "done"}]},
        ]}));
        let mut command = stage.world.command(&["ask", "--thread", "t", "--model", &model, "go"]);
        command.envs(failpoint.map(|point| ("BATON_FAILPOINT", format!("{point}:1"))));
        let mut running = stage.world.start_command(command);
        running.until_noted("→ test_effect");
        running.signal(rustix::process::Signal::TERM);
        running.end();
        let run = stage.only_run().unwrap();
        assert_eq!(stage.status(&run), "running", "{failpoint:?}");
        // Cancelled, not resumed: the call would take its time again.
        stage.run(&["runs", "cancel", &run], None);
        assert_eq!(stage.status(&run), "cancelled", "{failpoint:?}");
        assert!(stage.effects().values().all(|count| *count == 1), "{failpoint:?}");
    }
}
