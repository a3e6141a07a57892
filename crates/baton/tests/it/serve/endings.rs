//! However a run ends, every stream of it shows the same end: one `done`, the last frame, and `error` right before it
//! where it failed. That holds for the stream that began the run, for watchers from the start on either process, and
//! for late ones.

use serde_json::{Value, json};

use super::served::{Served, until};
use super::several::{Kept, Several, ask, get, post, status, watch};
use super::wire::Frame;

const SETTINGS: &str = r#"
[engine]
poll_ms = 10
adopt_ms = 50

[policy.channels.POOR]
tokens = 10

[policy.channels.CAREFUL]
approve = ["test_effect"]

[policy.channels.HURRY]
approve = ["test_effect"]
patience_s = 1
"#;

/// The act that ends a run.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Act {
    /// Nothing.
    Wait,
    /// It is cancelled while it is queued.
    CancelInLine,
    /// It is cancelled once an event was seen.
    CancelAfter(&'static str),
    /// Another message takes its place once an event was seen.
    InterruptAfter(&'static str),
    /// It is cancelled while it waits for a decision.
    CancelAtRest,
    /// A decision is made.
    Decide(&'static str),
    /// A question is asked and not answered.
    SayNothing,
}

impl Act {
    /// Whether the run is suspended before it ends.
    fn rests(self) -> bool {
        matches!(self, Act::CancelAtRest | Act::Decide(_) | Act::SayNothing)
    }
}

/// One ending of a run.
struct Ending {
    /// The message, and the reply that it gets.
    said: &'static str,
    config: Value,
    act: Act,
    status: &'static str,
    error: Option<&'static str>,
    warnings: &'static [&'static str],
}

impl Ending {
    fn new(said: &'static str, act: Act, status: &'static str) -> Ending {
        Ending { said, config: json!({}), act, status, error: None, warnings: &[] }
    }

    fn failing(said: &'static str, code: &'static str) -> Ending {
        Ending { error: Some(code), ..Ending::new(said, Act::Wait, "error") }
    }

    fn with(self, config: Value) -> Ending {
        Ending { config, ..self }
    }

    fn warned(self, warnings: &'static [&'static str]) -> Ending {
        Ending { warnings, ..self }
    }
}

fn endings() -> Vec<Ending> {
    let on = |channel: &str| json!({"channel": channel});
    vec![
        Ending::new("plain", Act::Wait, "ok"),
        Ending::new("look", Act::Wait, "ok"),
        Ending::new("half", Act::Wait, "ok").with(json!({"timeout_s": 1})).warned(&["deadline"]),
        Ending::new("again", Act::Wait, "ok").with(json!({"mode": "EXPLORATORY"})).warned(&["no_progress"]),
        Ending::failing("auth", "llm_auth"),
        Ending::failing("connection", "llm_connection"),
        Ending::failing("timeout", "llm_timeout"),
        Ending::failing("rate", "llm_rate_limited"),
        Ending::failing("refusal", "refused"),
        Ending::failing("length", "context_too_long").warned(&["context_too_long"]),
        Ending::failing("nothing is scripted for this", "llm_invalid_response")
            .warned(&["llm_invalid_response"]),
        Ending::failing("poor", "budget_exceeded").with(on("POOR")),
        Ending::failing("silence", "deadline").with(json!({"timeout_s": 1})),
        Ending::new("stream", Act::CancelAfter("thinking"), "cancelled"),
        Ending::new("replaced", Act::InterruptAfter("thinking"), "cancelled"),
        Ending::new("work", Act::CancelAfter("tool_start"), "cancelled"),
        Ending::new("in line", Act::CancelInLine, "cancelled"),
        Ending::new("asked, cancelled", Act::CancelAtRest, "cancelled").with(on("CAREFUL")),
        Ending::new("asked, denied", Act::Decide("deny"), "ok").with(on("CAREFUL")),
        Ending::new("asked, approved", Act::Decide("approve"), "ok").with(on("CAREFUL")),
        Ending::new("asked, forgotten", Act::SayNothing, "ok").with(on("HURRY")),
        Ending::new("question", Act::SayNothing, "ok").with(on("HURRY")).warned(&["deadline"]),
    ]
}

fn script(several: &Several) -> Value {
    let effect = |delay_ms: u32| {
        json!({"call": {"name": "test_effect", "arguments": {
        "file": several.path("effects"), "line": "done", "class": "unsafe", "delay_ms": delay_ms}}})
    };
    let calculator =
        |expression: &str| json!({"call": {"name": "calculator", "arguments": {"expression": expression}}});
    let fails = |said: &str, code: &str| json!({"match": said, "do": [{"error": {"code": code, "message": "as told"}}]});
    let says = |said: &str, text: &str| json!({"match": said, "do": [{"text": text}]});
    let stalls = |said: &str| json!({"match": said, "do": [{"text": "Half an answer "}, {"stall": true}]});
    let mut replies = vec![
        stalls("block"),
        says("plain", "Just this."),
        json!({"match": "look", "do": [{"text": "Let me see. "}, calculator("6*7")]}),
        says("look", "It is {last_result}."),
        stalls("half"),
        json!({"match": "silence", "do": [{"stall": true}]}),
        says("poor", "Never said."),
        stalls("stream"),
        stalls("replaced"),
        says("instead", "Another."),
        json!({"match": "work", "do": [effect(600_000)]}),
        says("in line", "Never said."),
        json!({"match": "asked", "do": [{"text": "I have to ask. "}, effect(0)]}),
        says("asked", "So: {last_result}"),
        json!({"match": "question", "do": [{"call": {"name": "ask_user", "arguments": {"question": "Which?"}}}]}),
        says("question", "Then I guess."),
        fails("auth", "llm_auth"),
        fails("connection", "llm_connection"),
        fails("timeout", "llm_timeout"),
        fails("rate", "llm_rate_limited"),
        fails("refusal", "refused"),
        fails("length", "context_too_long"),
    ];
    replies.extend(
        (0..5).map(|_| json!({"match": "again", "do": [{"text": "Once more. "}, calculator("1/0")]})),
    );
    json!({"v": 1, "replies": replies})
}

fn cancel(served: &Served, run: &str) {
    let answer = post(served, &format!("/v1/runs/{run}/cancel"), json!({}));
    assert_eq!(answer.status, 202, "{answer:?}");
}

/// Plays one ending while it is watched; returns the run, the frames of its own stream and those of the watchers.
fn played(ending: &Ending, owner: &Served, other: &Served) -> (String, Vec<Frame>, [Vec<Frame>; 2]) {
    let thread = ending.said.replace([' ', ','], "-");
    // Another run is before it, so that both watchers are there before its first event.
    let mut before = ask(owner, json!({"input": "block", "thread_id": thread}));
    before.until("thinking");
    let mut config = ending.config.clone();
    config["on_busy"] = json!("enqueue");
    let mut own = ask(owner, json!({"input": ending.said, "thread_id": thread, "config": config}));
    let run = own.head.header("x-run-id").to_owned();
    assert_eq!(status(owner, &run), "queued", "{}", ending.said);
    let mut watchers = [owner, other].map(|served| watch(served, &run, None));
    if ending.act == Act::CancelInLine {
        cancel(owner, &run);
    } else {
        cancel(owner, before.head.header("x-run-id"));
    }
    let mut shown = Vec::new();
    if let Act::CancelAfter(event) | Act::InterruptAfter(event) = ending.act {
        while shown.last().is_none_or(|frame: &Frame| frame.event != event) {
            shown.push(own.next().unwrap());
        }
    }
    match ending.act {
        Act::CancelAfter(_) => cancel(owner, &run),
        Act::InterruptAfter(_) => {
            let config = json!({"on_busy": "interrupt"});
            ask(owner, json!({"input": "instead", "thread_id": thread, "config": config})).rest();
        }
        _ => {}
    }
    shown.extend(own.rest());
    match ending.act {
        Act::CancelAtRest => cancel(owner, &run),
        Act::Decide(decision) => {
            let asked = shown.iter().find(|frame| frame.event == "approval_required").unwrap();
            let path = format!("/v1/runs/{run}/approvals/{}", asked.data["approval_id"].as_str().unwrap());
            assert_eq!(post(owner, &path, json!({"decision": decision})).status, 200);
        }
        _ => {}
    }
    (run, shown, watchers.each_mut().map(|watcher| watcher.rest()))
}

/// Checks a whole log.
fn check(ending: &Ending, all: &[Frame]) {
    let said = ending.said;
    let at = |event: &str| -> Vec<usize> {
        all.iter().enumerate().filter(|(_, frame)| frame.event == event).map(|(n, _)| n).collect()
    };
    let last = all.len() - 1;
    assert_eq!(at("done"), [last], "{said}: {all:#?}");
    assert!(all[last].id.is_some(), "{said}: it has its number");
    assert_eq!(all[last].data["status"], ending.status, "{said}: {all:#?}");
    let errors = at("error");
    let expected: Vec<usize> = ending.error.map(|_| last - 1).into_iter().collect();
    assert_eq!(errors, expected, "{said}: {all:#?}");
    for n in errors {
        let code = all[n].data["code"].as_str();
        assert_eq!((code, &all[n].id), (ending.error, &None), "{said}");
    }
    let warnings: Vec<&str> =
        at("warning").into_iter().map(|n| all[n].data["code"].as_str().unwrap()).collect();
    assert_eq!(warnings, ending.warnings, "{said}: {all:#?}");
}

#[test]
fn a_run_ends_once_and_the_same_for_everybody_who_watches() {
    let several = Several::new(Kept::Sqlite);
    several.play(&script(&several), SETTINGS);
    let (owner, other) = (several.start(), several.start());
    let endings = endings();
    assert!(endings.len() >= 14);
    for ending in &endings {
        let said = ending.said;
        let (run, mut own, [here, there]) = played(ending, &owner, &other);
        let late = watch(&owner, &run, None).rest();
        check(ending, &late);
        assert_eq!(here, late, "{said}: a watcher beside it");
        assert_eq!(there, late, "{said}: a watcher on another process");
        assert_eq!(watch(&other, &run, None).rest(), late, "{said}: a late watcher on another process");
        if ending.act.rests() {
            let done = own.pop().unwrap();
            let closed = (done.event.as_str(), &done.data["status"], &done.id);
            assert_eq!(closed, ("done", &json!("suspended"), &None), "{said}");
            assert!(own.iter().all(|frame| frame.event != "done"), "{said}");
            assert_eq!(own, late[..own.len()], "{said}: its own stream, until it waited");
        } else {
            assert_eq!(own, late, "{said}: its own stream");
        }
        let after_the_end = watch(&other, &run, late.last().unwrap().id.as_deref()).rest();
        assert_eq!(after_the_end, [], "{said}: nothing comes after the end");
        let document = get(&other, &format!("/v1/runs/{run}")).json();
        let code = document["error"]["code"].as_str();
        assert_eq!(
            (document["status"].as_str(), code),
            (Some(ending.status), ending.error),
            "{said}: {document}"
        );
    }
}

#[test]
fn a_run_whose_thread_is_deleted_ends_for_those_who_watch_and_is_gone_for_those_who_come_late() {
    let several = Several::new(Kept::Sqlite);
    several.play(&script(&several), SETTINGS);
    let (owner, other) = (several.start(), several.start());
    let mut own = ask(&owner, json!({"input": "stream", "thread_id": "t"}));
    let first = own.until("thinking");
    let run = own.head.header("x-run-id").to_owned();
    let mut watcher = watch(&owner, &run, first.id.as_deref());
    assert_eq!(other.send("DELETE", "/v1/threads/t", &[], None).status, 204);
    let (own, seen) = (own.rest(), watcher.rest());
    assert_eq!(own, seen);
    assert_eq!(own.iter().filter(|frame| frame.event == "done").count(), 1);
    assert_eq!(own.last().unwrap().data["status"], "cancelled");
    for served in [&owner, &other] {
        let late = watch(served, &run, None).whole();
        assert_eq!(late.problem(), (404, "not_found".to_owned()));
    }
}

#[test]
fn a_run_that_brings_its_process_down_again_and_again_ends_once() {
    let several = Several::new(Kept::Sqlite);
    several.play(&script(&several), "[engine]\npoll_ms = 10\nadopt_ms = 50\nmost_attempts = 1\n");
    let variables = [("BATON_FAILPOINT", "tool.post_intent:1")];
    let begin = |victim: &Served| {
        use std::io::Write;
        let body = r#"{"input": "look", "thread_id": "t"}"#;
        let head = format!("content-type: application/json\r\ncontent-length: {}", body.len());
        let text = format!("POST /v1/runs HTTP/1.1\r\nhost: {}\r\n{head}\r\n\r\n{body}", victim.address);
        let mut socket = victim.connect();
        socket.write_all(text.as_bytes()).unwrap();
        socket // kept open: the request of a client that leaves may be lost
    };
    let mut first = several.start_with(&[], &variables);
    let asking = begin(&first);
    first.ended();
    drop(asking);
    for _ in 0..2 {
        several.start_with(&[], &variables).ended();
    }
    let last = several.start();
    let listed = || get(&last, "/v1/runs?thread=t").json()["items"][0].clone();
    until("it was given up", || listed()["status"] == "error");
    let run = listed()["id"].as_str().unwrap().to_owned();
    let other = several.start();
    let late = watch(&last, &run, None).rest();
    assert_eq!(watch(&other, &run, None).rest(), late);
    check(&Ending::failing("look", "poisoned"), &late);
}
