//! `baton runs`: showing, stopping and resuming runs, from any process.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::mask::Mask;
use crate::stage::Stage;

/// A process that drives a run in the middle of a slow call.
fn at_work(stage: &Stage) -> Child {
    let mut child = stage
        .command(&["ask", "--thread", "t", "slow"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("test_effect") {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "it ended without calling the tool");
    }
    child.stderr = Some(said.into_inner());
    child
}

#[test]
fn a_run_is_listed_and_shown() {
    let stage = Stage::new();
    assert_eq!(stage.baton(&["runs", "ls"]).err, "there are no such runs; baton ask \"…\" starts one\n");
    stage.baton(&["ask", "--thread", "t", "the effect"]).ok();
    let id = stage.newest_run();

    let mut mask = Mask::default();
    mask.text(&id);
    let mut run = mask.value(stage.baton(&["runs", "show", &id[id.len() - 8..], "--json"]).json());
    let steps: Vec<Value> =
        run["steps"].as_array().unwrap().iter().map(|step| step["type"].clone()).collect();
    assert_eq!(steps, ["llm_call", "tool_call", "llm_call"]);
    let (usage, steps) = (run["usage"].take(), run["steps"].take());
    assert_eq!(
        usage["tokens"].as_u64(),
        Some(usage["prompt_tokens"].as_u64().unwrap() + usage["completion_tokens"].as_u64().unwrap())
    );
    let expected = json!({
        "id": "ID1", "thread_id": "t", "branch": "main", "flow": "turn", "definition": "HASH", "status": "ok",
        "result": "Done: wrote as asked", "waiting": [], "usage": null, "limits": {"iterations": 3, "active_s": 120, "answer_tokens": 4096}, "steps": null, "created": "TIME", "ended": "TIME",
    });
    assert_eq!(run, expected);

    let mut listed = mask.value(stage.baton(&["runs", "ls", "--json"]).json());
    (run["usage"], run["steps"]) = (usage, steps);
    assert_eq!(listed["items"].take(), json!([run]));
    let text = mask.text(&stage.baton(&["runs", "ls"]).ok());
    let short = &id[id.len() - 8..];
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["RUN", "STATUS", "CREATED", "TITLE", "MODEL", "COST", "BRANCH", "THREAD"]);
    assert_eq!(
        (&lines[1][..3], &lines[1][lines[1].len() - 4..]),
        (&[short, "ok", "TIME"][..], &["0", "USD", "main", "t"][..])
    );
    let text = mask.text(&stage.baton(&["runs", "show", short]).ok());
    assert!(
        text.starts_with(
            "run ID1\n  thread     t, branch main\n  status     ok\n  flow       turn, answered by scripted/"
        ),
        "{text}"
    );
    assert!(text.ends_with("  result\n    Done: wrote as asked\n"), "{text}");
}

#[test]
fn lists_are_filtered_and_paged() {
    let stage = Stage::careful();
    for (thread, text) in [("a", "hi"), ("b", "hi"), ("b", "the effect")] {
        stage.baton(&["ask", "--thread", thread, text]);
    }
    let threads = |args: &[&str]| -> (Vec<String>, Option<String>) {
        let list = stage.baton(&[&["runs", "ls", "--json"], args].concat()).json();
        let items = list["items"].as_array().unwrap().iter();
        let seen = items
            .map(|run| format!("{} {}", run["thread_id"].as_str().unwrap(), run["status"].as_str().unwrap()));
        (seen.collect(), list["next"].as_str().map(str::to_owned))
    };
    let all = ["b suspended", "b ok", "a ok"].map(str::to_owned);
    assert_eq!(threads(&[]), (all.to_vec(), None));
    assert_eq!(threads(&["--thread", "b"]).0, all[..2]);
    assert_eq!(threads(&["--status", "ok"]).0, all[1..]);
    let (first, next) = threads(&["--limit", "2"]);
    assert_eq!(first, all[..2]);
    assert_eq!(threads(&["--limit", "2", "--after", &next.unwrap()]), (all[2..].to_vec(), None));
    let wrong = stage.baton(&["runs", "ls", "--status", "fine"]);
    assert_eq!(wrong.code, 2);
    assert!(
        wrong.err.contains("expected one of queued, running, suspended, ok, error, cancelled"),
        "{}",
        wrong.err
    );
}

#[test]
fn a_log_is_read_from_any_place() {
    let stage = Stage::new();
    stage.baton(&["ask", "--thread", "t", "the effect"]).ok();
    let id = stage.newest_run();
    let all = stage.baton(&["runs", "tail", &id, "--json"]).ok();
    let objects: Vec<Value> = all.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers: Vec<u64> = objects.iter().map(|object| object["seq"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted(), "{numbers:?}");
    assert!(objects.iter().all(|object| object["run_id"] == json!(id)));
    let last = objects.last().unwrap();
    assert_eq!((&last["type"], &last["status"]), (&json!("done"), &json!("ok")));

    let cut = objects.iter().position(|object| object["type"] == "tool_start").unwrap();
    let from = format!("1.{}", numbers[cut]);
    let rest = stage.baton(&["runs", "tail", &id, "--json", "--from", &from]).ok();
    assert_eq!(rest.lines().collect::<Vec<_>>(), all.lines().skip(cut + 1).collect::<Vec<_>>());

    assert_eq!(stage.baton(&["runs", "tail", &id]).ok(), "I will.\nDone: wrote as asked\n");
    assert_eq!(stage.baton(&["runs", "tail", &id, "--from", "soon"]).code, 2);
    let beyond = stage.baton(&["runs", "tail", &id, "--from", "7.1"]);
    assert_eq!((beyond.code, beyond.err.contains("is not of this run")), (1, true), "{beyond:?}");
}

#[test]
fn a_run_that_waits_is_cancelled_by_whoever_asks() {
    let stage = Stage::careful();
    stage.baton(&["ask", "--thread", "t", "the effect"]);
    let id = stage.newest_run();
    let did = stage.baton(&["runs", "cancel", &id]);
    assert_eq!(did.code, 0, "{did:?}");
    assert_eq!(stage.baton(&["runs", "show", &id, "--json"]).json()["status"], json!("cancelled"));
    assert_eq!(stage.baton(&["approvals", "ls", "--json"]).json(), json!({"items": []}));
    assert_eq!(stage.effects(), [] as [&str; 0]);

    let again = stage.baton(&["runs", "cancel", &id]);
    let short = &id[id.len() - 8..];
    assert_eq!((again.code, again.out), (0, format!("run {short} had already ended (cancelled)\n")));
    assert_eq!(stage.document(&["runs", "cancel", &id]), json!({"status": "cancelled"}));
}

#[test]
fn a_detached_cancel_is_found_by_whoever_goes_on() {
    let stage = Stage::careful();
    stage.baton(&["ask", "--thread", "t", "the effect"]);
    let id = stage.newest_run();
    let did = stage.baton(&["runs", "cancel", &id, "--detach"]);
    let short = &id[id.len() - 8..];
    assert_eq!((did.code, did.out), (0, format!("run {short} is told to stop (suspended)\n")));
    let did = stage.baton(&["runs", "resume", &id, "--json"]);
    assert_eq!((did.code, did.json()["status"].clone()), (130, json!("cancelled")));
}

#[test]
fn a_run_that_still_waits_says_so_when_resumed() {
    let stage = Stage::careful();
    stage.baton(&["ask", "--thread", "t", "the effect"]);
    let did = stage.baton(&["runs", "resume", &stage.newest_run()]);
    assert_eq!((did.code, did.err.contains("baton approvals approve ap-")), (3, true), "{did:?}");
}

#[test]
fn a_run_that_has_ended_is_not_resumed() {
    let stage = Stage::new();
    stage.baton(&["ask", "hi"]).ok();
    let id = stage.newest_run();
    let did = stage.baton(&["runs", "resume", &id]);
    assert_eq!((did.code, did.out, did.err), (1, String::new(), format!("error: run {id} has ended: ok\n")));
}

#[test]
fn a_killed_run_is_resumed_and_does_nothing_twice() {
    let stage = Stage::new();
    let mut child = at_work(&stage);
    child.kill().unwrap();
    child.wait().unwrap();
    let id = stage.newest_run();
    let listed = stage.baton(&["runs", "ls"]).ok();
    assert!(listed.contains("running, nobody drives it"), "{listed}");

    let short = &id[id.len() - 8..];
    let busy = stage.baton(&["ask", "--thread", "t", "hi"]);
    assert_eq!(busy.code, 1, "{busy:?}");
    assert!(busy.err.contains(&format!("baton runs resume {short}")), "{busy:?}");

    let did = stage.baton(&["runs", "resume", short]);
    assert_eq!(did.code, 0, "{did:?}");
    assert!(did.out.starts_with("After all: "), "{did:?}");
    assert!(stage.effects().len() <= 1, "{:?}", stage.effects());
}

#[test]
fn a_held_run_is_left_alone_unless_it_is_taken() {
    let stage = Stage::new();
    let mut child = at_work(&stage);
    let id = stage.newest_run();
    let short = &id[id.len() - 8..];
    let held = stage.baton(&["runs", "resume", &id]);
    let expected = format!(
        "error: run {id} is held by a living process\n  baton runs resume --take {short} takes it over\n"
    );
    assert_eq!((held.code, held.err), (1, expected));

    let taken = stage.baton(&["runs", "resume", "--take", &id]);
    assert_eq!(taken.code, 0, "{taken:?}");
    assert!(taken.out.starts_with("After all: "), "{taken:?}");
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(stage.effects().len() <= 1, "{:?}", stage.effects());
}

#[test]
fn a_cancel_reaches_the_process_that_drives() {
    let stage = Stage::new();
    let mut child = at_work(&stage);
    let id = stage.newest_run();
    let told = stage.baton(&["runs", "cancel", &id]);
    let short = &id[id.len() - 8..];
    assert_eq!((told.code, told.out), (0, format!("run {short} is told to stop (running)\n")));
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(stage.baton(&["runs", "show", &id, "--json"]).json()["status"], json!("cancelled"));
}

#[test]
fn ids_may_be_shortened_but_not_too_much() {
    let stage = Stage::new();
    stage.baton(&["ask", "hi"]).ok();
    stage.baton(&["ask", "hi"]).ok();
    let id = stage.newest_run();
    assert_eq!(stage.baton(&["runs", "show", &id[id.len() - 8..], "--json"]).json()["id"], json!(id));
    let cases = [
        (&id[..4], 2, format!("error: {:?} fits more than one run\n  give more of the id\n", &id[..4])),
        ("abc", 2, "error: \"abc\" is not a run id\n  give the whole id, or at least 4 characters of its beginning or end\n".to_owned()),
        ("ffffffffff", 1, "error: there is no run \"ffffffffff\"\n  baton runs ls shows what there is\n".to_owned()),
        ("00000000-0000-0000-0000-000000000001", 1, "error: there is no run \"00000000-0000-0000-0000-000000000001\"\n  baton runs ls shows what there is\n".to_owned()),
    ];
    for (given, code, err) in cases {
        let did = stage.baton(&["runs", "show", given]);
        assert_eq!((did.code, did.err), (code, err), "{given}");
    }
}
