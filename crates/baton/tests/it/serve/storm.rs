//! Decisions of users, many at once and in any order, across restarts and too late: each call that was approved runs
//! once, as it was approved, and nothing else runs.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use baton_core::json::call_digest;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::served::{Served, until};
use super::several::{Die, Kept, Several, ask, get, post, rounds, status, watch};

const SETTINGS: &str = "[policy]\napprove = [\"test_effect\"]\n\n[engine]\npoll_ms = 10\nadopt_ms = 50\n";

/// An agent that makes as many calls at once as the message says: `1 calls`, `3 calls` or `10 calls`.
fn stage(kept: Kept, settings: &str) -> Several {
    let several = Several::new(kept);
    several.play(&script(&several), settings);
    several
}

fn script(several: &Several) -> Value {
    let call = |n: usize| json!({"call": {"name": "test_effect", "arguments": arguments(several, &format!("call {n}"))}});
    let calls = |count: usize| json!({"match": format!("{count} calls"), "do": (0..count).map(call).collect::<Vec<_>>()});
    let done = json!({"match": "calls", "do": [{"text": "Done."}]});
    json!({"v": 1, "replies": [calls(1), calls(3), calls(10), done]})
}

fn arguments(several: &Several, line: &str) -> Value {
    json!({"file": several.path("effects"), "line": line, "class": "unsafe"})
}

/// A call that waits for a decision.
#[derive(Debug, Clone)]
struct Asked {
    approval: String,
    call: String,
    line: String,
    digest: String,
}

/// Begins a run; returns it and its calls that wait.
fn begin(served: &Served, said: &str) -> (String, Vec<Asked>) {
    let mut stream = ask(served, json!({"input": said}));
    let run = stream.head.header("x-run-id").to_owned();
    let frames = stream.rest();
    assert_eq!(frames.last().unwrap().data["status"], "suspended", "{frames:?}");
    let asked = frames.iter().filter(|frame| frame.event == "approval_required").map(|frame| {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let data = &frame.data;
        Asked {
            approval: text(&data["approval_id"]),
            call: text(&data["call_id"]),
            line: text(&data["args"]["line"]),
            digest: text(&data["digest"]),
        }
    });
    (run, asked.collect())
}

fn path(run: &str, asked: &Asked) -> String {
    format!("/v1/runs/{run}/approvals/{}", asked.approval)
}

fn decide(served: &Served, run: &str, asked: &Asked, decision: &str) {
    let answer = post(served, &path(run, asked), json!({"decision": decision}));
    assert_eq!(answer.status, 200, "{} {}", answer.json(), get(served, &format!("/v1/runs/{run}")).json());
}

/// Waits until a call has its result.
fn until_closed(served: &Served, run: &str, asked: &Asked) {
    let mut watcher = watch(served, run, None);
    while watcher.until("tool_result").data["call_id"] != asked.call.as_str() {}
}

fn until_ended(served: &Served, run: &str) {
    let frames = watch(served, run, None).rest();
    assert_eq!(frames.last().unwrap().data["status"], "ok", "{frames:?}");
}

/// A hundred users decide at the same moment, half of them on each process; returns the decision that was accepted.
fn hundred(first: &Served, second: &Served, run: &str, asked: &Asked, decisions: [&str; 2]) -> String {
    let barrier = Barrier::new(100);
    let answers: Vec<_> = std::thread::scope(|scope| {
        let people: Vec<_> = (0..100)
            .map(|n| {
                let (served, barrier) = (if n % 2 == 0 { first } else { second }, &barrier);
                let decision = decisions[n / 2 % 2];
                scope.spawn(move || {
                    barrier.wait();
                    (decision, post(served, &path(run, asked), json!({"decision": decision})))
                })
            })
            .collect();
        people.into_iter().map(|person| person.join().unwrap()).collect()
    });
    let (heard, late): (Vec<_>, Vec<_>) = answers.into_iter().partition(|(_, answer)| answer.status == 200);
    for (_, answer) in &late {
        assert_eq!(answer.problem(), (409, "already_decided".to_owned()));
    }
    assert_eq!((heard.len(), late.len()), (1, 99));
    heard[0].0.to_owned()
}

fn storm(kept: Kept) {
    let several = stage(kept, SETTINGS);
    let (first, second) = (several.start(), several.start());
    for decisions in [["approve"; 2], ["approve", "deny"], ["deny", "approve"]] {
        let (run, asked) = begin(&first, "1 calls");
        let heard = hundred(&first, &second, &run, &asked[0], decisions);
        until_ended(&second, &run);
        let expected: &[&str] = if heard == "approve" { &["call 0"] } else { &[] };
        assert_eq!(several.effects_of(&run), expected, "{heard}");
        let late = post(&first, &path(&run, &asked[0]), json!({"decision": "approve"}));
        assert_eq!(late.problem(), (409, "already_decided".to_owned()));
    }
}

#[test]
fn a_hundred_decisions_at_once_are_one_decision() {
    storm(Kept::Sqlite);
}

#[test]
fn a_hundred_decisions_at_once_are_one_decision_on_postgres() {
    storm(Kept::Postgres);
}

const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

#[test]
fn three_approvals_of_one_step_can_be_given_in_any_order() {
    let several = stage(Kept::Sqlite, SETTINGS);
    let (first, second) = (several.start(), several.start());
    for order in ORDERS {
        let (run, asked) = begin(&first, "3 calls");
        let mut expected = BTreeSet::new();
        for (n, served) in order.into_iter().zip([&first, &second, &first]) {
            decide(served, &run, &asked[n], "approve");
            until_closed(&second, &run, &asked[n]);
            expected.insert(asked[n].line.clone());
            let ran: Vec<String> = expected.iter().cloned().collect();
            assert_eq!(several.effects_of(&run), ran, "{order:?}: only what was approved so far");
        }
        until_ended(&second, &run);
        assert_eq!(several.effects_of(&run).len(), 3, "{order:?}");
    }
}

/// Ends a process, in order or not, and starts it anew.
fn restarted(several: &Several, mut served: Served, gently: bool) -> Served {
    if gently {
        served.signal(Signal::TERM);
        assert_eq!(served.ended(), 0, "{}", served.log());
    }
    drop(served);
    several.start()
}

fn three_across_restarts(kept: Kept) {
    let several = stage(kept, SETTINGS);
    let mut served = several.start();
    let runs: Vec<_> = ORDERS.iter().map(|_| begin(&served, "3 calls")).collect();
    for turn in 0..3 {
        served = restarted(&several, served, turn == 1);
        for (order, (run, asked)) in ORDERS.iter().zip(&runs) {
            assert_eq!(status(&served, run), "suspended");
            decide(&served, run, &asked[order[turn]], "approve");
            until_closed(&served, run, &asked[order[turn]]);
            assert_eq!(several.effects_of(run).len(), turn + 1, "{order:?}");
        }
    }
    for (run, _) in &runs {
        until_ended(&served, run);
        assert_eq!(several.effects_of(run), ["call 0", "call 1", "call 2"]);
    }
}

#[test]
fn decisions_between_restarts_count() {
    three_across_restarts(Kept::Sqlite);
}

#[test]
fn decisions_between_restarts_count_on_postgres() {
    three_across_restarts(Kept::Postgres);
}

#[test]
fn ten_approvals_can_be_decided_in_random_orders() {
    let several = stage(Kept::Sqlite, SETTINGS);
    let (first, second) = (several.start(), several.start());
    for seed in 0..rounds(5, 50) as u64 {
        let mut die = Die(seed);
        let (run, asked) = begin(&first, "10 calls");
        let mut expected = Vec::new();
        for asked in die.shuffled(asked) {
            let served = if die.roll(2) == 0 { &first } else { &second };
            let line = format!("{} edited", asked.line);
            match die.roll(3) {
                0 => decide(served, &run, &asked, "deny"),
                1 => {
                    decide(served, &run, &asked, "approve");
                    expected.push(asked.line);
                }
                _ => {
                    let body = json!({"decision": "edit", "arguments": arguments(&several, &line)});
                    assert_eq!(post(served, &path(&run, &asked), body).status, 200, "seed {seed}");
                    expected.push(line);
                }
            }
        }
        until_ended(&second, &run);
        expected.sort();
        assert_eq!(several.effects_of(&run), expected, "seed {seed}");
    }
}

/// The process is killed as soon as a decision was acknowledged: the call may have begun or not, but the decision stays.
#[test]
fn a_decision_that_was_acknowledged_survives_a_kill() {
    let several = stage(Kept::Sqlite, SETTINGS);
    let mut served = several.start();
    for seed in 0..rounds(2, 20) as u64 {
        let mut die = Die(seed);
        let (run, asked) = begin(&served, "10 calls");
        let (mut approved, mut denied, mut kills) = (BTreeSet::new(), Vec::new(), 0);
        for asked in die.shuffled(asked) {
            let decision = ["approve", "deny"][die.roll(2)];
            decide(&served, &run, &asked, decision);
            if decision == "approve" {
                approved.insert(asked.line.clone());
            } else {
                denied.push(asked.call.clone());
            }
            // A run whose process dies five times without any progress counts as the cause.
            if kills < 4 && die.roll(3) == 0 {
                kills += 1;
                drop(served); // with SIGKILL
                served = several.start();
                let again = post(&served, &path(&run, &asked), json!({"decision": "approve"}));
                assert_eq!(again.problem(), (409, "already_decided".to_owned()), "seed {seed}");
            }
        }
        let frames = watch(&served, &run, None).rest();
        assert_eq!(frames.last().unwrap().data["status"], "ok", "seed {seed}: {frames:?}");
        let ran = several.effects_of(&run);
        let once: BTreeSet<String> = ran.iter().cloned().collect();
        assert!(ran.len() == once.len() && once.is_subset(&approved), "seed {seed}: {ran:?}");
        let results = frames.iter().filter(|frame| frame.event == "tool_result");
        let (mut well, mut closed) = (0, 0);
        for frame in results {
            closed += 1;
            well += usize::from(frame.data["is_error"] == false);
            let is_denied = denied.iter().any(|call| frame.data["call_id"] == call.as_str());
            assert!(!is_denied || frame.data["is_error"] == true, "seed {seed}: {frame:?}");
        }
        assert!(closed == 10 && well <= ran.len(), "seed {seed}: {well} of {closed}: {ran:?}");
    }
}

#[test]
fn a_decision_that_comes_too_late_changes_nothing() {
    let several = stage(Kept::Sqlite, &format!("{SETTINGS}\n[policy.channels.CHAT]\npatience_s = 1\n"));
    // This process does not look for due runs: the decision itself finds that the approval has expired.
    let alone = several.path("alone.toml");
    let settings = std::fs::read_to_string(several.path("home/config/baton/baton.toml")).unwrap();
    std::fs::write(&alone, settings.replace("adopt_ms = 50", "adopt_ms = 3600000")).unwrap();
    let variables = [("BATON_CONFIG", alone.to_str().unwrap())];
    for variables in [&variables[..], &[]] {
        let served = several.start_with(&[], variables);
        let (run, asked) = begin(&served, "1 calls");
        let since = Instant::now();
        if variables.is_empty() {
            until_ended(&served, &run);
        } else {
            until("its time is up", || since.elapsed() > Duration::from_secs(1));
        }
        let late = post(&served, &path(&run, &asked[0]), json!({"decision": "approve"}));
        assert_eq!(late.problem(), (409, "already_decided".to_owned()));
        assert_eq!(late.json()["approval_status"], "expired", "{late:?}");
        until_ended(&served, &run);
        let listed = get(&served, "/v1/approvals?status=expired").json();
        assert!(listed["items"].as_array().unwrap().iter().any(|it| it["id"] == asked[0].approval.as_str()));
    }
    assert_eq!(several.effects().len(), 0);
}

#[test]
fn what_runs_has_the_digest_that_was_approved() {
    let several = stage(Kept::Sqlite, SETTINGS);
    let served = several.start();
    let (run, asked) = begin(&served, "3 calls");
    let digest = |line: &str| call_digest("test_effect", &arguments(&several, line));
    for asked in &asked {
        assert_eq!(asked.digest, digest(&asked.line));
    }
    // An approval is of the call as it was asked for: other arguments are an edit, which has to be sent as one.
    let other = json!({"decision": "approve", "arguments": arguments(&several, "other")});
    assert_eq!(post(&served, &path(&run, &asked[0]), other).problem(), (400, "invalid_request".to_owned()));
    let approved = post(&served, &path(&run, &asked[0]), json!({"decision": "approve"})).json();
    assert_eq!(approved["digest"], asked[0].digest.as_str());
    let edit = |line: &str| json!({"decision": "edit", "arguments": arguments(&several, line)});
    let edited = post(&served, &path(&run, &asked[1]), edit("by a person")).json();
    assert_eq!((&edited["digest"], &edited["status"]), (&json!(digest("by a person")), &json!("edited")));
    // The decisions stay: neither can be changed any more.
    for asked in &asked[..2] {
        let again = post(&served, &path(&run, asked), edit("other"));
        assert_eq!(again.problem(), (409, "already_decided".to_owned()));
    }
    assert_eq!(post(&served, &path(&run, &asked[2]), json!({"decision": "deny"})).status, 200);
    let frames = watch(&served, &run, None).rest();
    let started: Vec<_> = frames.iter().filter(|frame| frame.event == "tool_start").collect();
    let ran: BTreeSet<String> =
        started.iter().map(|frame| call_digest("test_effect", &frame.data["args"])).collect();
    assert_eq!(ran, BTreeSet::from([asked[0].digest.clone(), digest("by a person")]));
    assert_eq!(several.effects_of(&run), ["by a person", "call 0"]);
}

#[test]
fn an_edit_outside_what_is_allowed_now_is_refused_and_the_call_never_runs() {
    let several = stage(Kept::Sqlite, SETTINGS);
    let served = several.start();
    let (run, asked) = begin(&served, "1 calls");
    drop(served);
    several.play(&script(&several), "[policy]\napprove = [\"test_effect\"]\ntools = [\"calculator\"]\n");
    let served = several.start();
    let edit = json!({"decision": "edit", "arguments": arguments(&several, "other")});
    let refused = post(&served, &path(&run, &asked[0]), edit);
    assert_eq!(refused.problem(), (403, "forbidden".to_owned()), "{refused:?}");
    assert_eq!(
        get(&served, "/v1/approvals?status=pending").json()["items"][0]["id"],
        asked[0].approval.as_str()
    );
    decide(&served, &run, &asked[0], "approve");
    let frames = watch(&served, &run, None).rest();
    let result = frames.iter().find(|frame| frame.event == "tool_result").unwrap();
    assert_eq!(result.data["is_error"], true, "{result:?}");
    assert_eq!(several.effects().len(), 0);
}

/// The approved arguments are changed in the file, behind Baton's back, before the call runs: in the entry that holds
/// the call, or in the approval that holds the user's edit.
#[test]
fn arguments_that_were_changed_after_the_approval_never_run() {
    for (decision, table) in [("approve", None), ("approve", Some("entries")), ("edit", Some("approvals"))] {
        let several = stage(Kept::Sqlite, SETTINGS);
        let served = several.start();
        let (run, asked) = begin(&served, "1 calls");
        drop(served);
        let edited = arguments(&several, "call 0").to_string();
        let more: &[&str] = if decision == "edit" { &["--arguments", &edited] } else { &[] };
        several.baton(&[&["approvals", decision, &asked[0].approval, "--detach"], more].concat()).ok();
        let column = if table == Some("entries") { "envelope" } else { "body" };
        if let Some(table) = table {
            let db = rusqlite::Connection::open(several.path("data/baton.db")).unwrap();
            let text = format!("CAST({column} AS TEXT)");
            let sql = format!(
                "UPDATE {table} SET {column} = CAST(replace({text}, 'call 0', 'call 9') AS BLOB) WHERE instr({text}, 'call 0') > 0"
            );
            assert_ne!(db.execute(&sql, []).unwrap(), 0, "something was changed");
        }
        let served = several.start();
        let says = |words: &str| served.log().contains(words);
        until("somebody has taken it up", || says("the run rests") || says("this run is left alone"));
        let expected: &[&str] = if table.is_none() { &["call 0"] } else { &[] };
        assert_eq!(several.effects_of(&run), expected, "{table:?}: {}", served.log());
    }
}
