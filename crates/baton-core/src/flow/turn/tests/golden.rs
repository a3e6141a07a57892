//! A state that was stored by every version is read, and goes on.
//!
//! The file of an older version never changes. That of the newest one may until it is released: delete
//! it and run this module with `UPDATE=1` to write it anew.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::drive::{Drive, call_id, calls, definition, failed, laddered, ok, setting, text, told};
use crate::budget::Limit;
use crate::effect::{Effect, EffectKind, Outcome, Purpose, Reply, Trim, View};
use crate::fault::{Code, Fault};
use crate::flow::{Flow, FlowRecord, Input, UnknownFlow};
use crate::run::{Choice, Message, Receipt, ReceiptCall, Verdict};
use crate::thread::Tail;
use crate::tool::ASK_USER;

/// What is stored today.
const NEWEST: u32 = 2;

fn file(v: u32) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden", &format!("turn_v{v}.json")].iter().collect()
}

fn decide(drive: &mut Drive, n: u32, choice: Choice) {
    let approval_id = format!("ap-{}", call_id(n));
    drive.message(Message::Decision { approval_id, choice, arguments: Some(json!({})), reason: None });
}

/// A turn in each of its phases, with everything that a state can hold.
fn phases() -> BTreeMap<&'static str, Drive> {
    let begun = Drive::begin(definition());
    let asking = Drive::start();
    let mut pausing = Drive::start();
    let fault = Fault::new(Code::LlmServer, "down").retry_after_ms(500);
    pausing.outcome(0, Outcome::ModelFailed { fault, shown: String::new(), used: None });
    let calling = || {
        let mut drive = Drive::start();
        drive.reply(calls(&[("look", json!({}))]));
        drive.outcome(1, failed("no"));
        let ask = (ASK_USER, json!({"question": "which one?"}));
        drive.reply(calls(&[
            ("look", json!({})),
            ("write", json!({"n": 1})),
            ("write", json!({"n": 2})),
            ask,
        ]));
        decide(&mut drive, 4, Choice::Edit);
        drive
    };
    let mut answered = calling();
    answered.input("the red one");
    answered.input("hurry");
    let mut ending = calling();
    ending.apply(Input::Cancel { in_flight: vec![3] });
    let mut limited = Drive::start();
    limited.apply(Input::Limit { limit: Limit::ActiveTime, effect: None, in_flight: vec![0] });
    let mut last = Drive::start();
    last.reply(calls(&[("look", json!({})), ("peek", json!({}))]));
    last.apply(Input::Limit { limit: Limit::ToolCalls, effect: Some(2), in_flight: vec![1] });
    last.outcome(1, ok("seen"));
    let mut ended = calling();
    ended.apply(Input::Cancel { in_flight: vec![] });
    let mut erred = Drive::start();
    erred.outcome(0, Outcome::Unknown);
    let mut unseen = summarising();
    unseen.apply(Input::Cancel { in_flight: vec![4] });
    [
        ("begun", begun),
        ("asking", asking),
        ("pausing", pausing),
        ("calling", calling()),
        ("answered", answered),
        ("ending", ending),
        ("limited", limited),
        ("last_answer", last),
        ("ended", ended),
        ("erred", erred),
        ("summarising", summarising()),
        ("unseen", unseen),
        ("down_the_ladder", down_the_ladder()),
    ]
    .into()
}

/// A turn whose first model did not answer in time and whose second has too much to read.
fn summarising() -> Drive {
    let mut drive = Drive::start_with(laddered());
    drive.model_fails(Fault::new(Code::LlmTimeout, "too slow"));
    drive.reply(Reply { first: 0, ..calls(&[("look", json!({}))]) });
    drive.outcome(2, ok("seen"));
    drive.outcome(3, Outcome::TooLong { up_to: 0 });
    drive
}

/// A question for which everything was tried that there is.
fn down_the_ladder() -> Drive {
    let mut drive = summarising();
    drive.outcome(4, Outcome::Reply(text("in short")));
    drive.reply(Reply { first: 1, ..text("") });
    drive.model_fails(Fault { fits_tokens: Some(900), ..Fault::new(Code::ContextTooLong, "too much") });
    drive
}

fn stored(v: u32) -> BTreeMap<String, FlowRecord> {
    serde_json::from_slice(&std::fs::read(file(v)).unwrap()).unwrap()
}

#[test]
fn a_state_of_version_2_is_what_is_stored_today() {
    let today: BTreeMap<&str, FlowRecord> =
        phases().iter().map(|(name, drive)| (*name, drive.flow.record())).collect();
    assert_eq!(serde_json::to_value(stored(NEWEST)).unwrap(), serde_json::to_value(today).unwrap());
}

/// Goes on from a stored state, at the end of the branch that it was stored with.
fn go_on(v: u32, name: &str) -> Drive {
    let before = &phases()[name];
    let flow = Flow::restore(setting(before.definition()), stored(v).remove(name).unwrap()).unwrap();
    let (tail, head): (Tail, i64) = (before.tail.clone(), before.head);
    let mut drive = Drive::on(flow, before.definition(), tail, head);
    drive.entries = before.entries.clone();
    drive.events = before.events.clone();
    drive
}

#[test]
fn an_old_state_goes_on() {
    goes_on(|name| go_on(1, name));
    let fault = Fault::new(Code::LlmInvalidResponse, "the model gave an empty answer");
    assert_eq!(go_on(1, "erred").verdict(), Verdict::Error(fault));
}

#[test]
fn a_state_of_version_2_goes_on() {
    goes_on(|name| go_on(2, name));
    let fault = Fault::new(Code::Internal, "the model call ended without an outcome");
    assert_eq!(go_on(2, "erred").verdict(), Verdict::Error(fault));

    let mut summarising = go_on(2, "summarising");
    summarising.outcome(4, Outcome::Reply(text("in short")));
    assert_eq!(summarising.said(), json!([{"Summary": {"text": "in short", "up_to": 0}}]));
    let mut unseen = go_on(2, "unseen");
    unseen.outcome(4, Outcome::Reply(text("in short")));
    assert_eq!(unseen.said(), json!([{"AssistantMessage": {"content": "", "meta": "cancelled"}}]));
    let mut tried = go_on(2, "down_the_ladder");
    let kind = EffectKind::Model {
        role: "reasoning".to_owned(),
        rung: 1,
        head: 4,
        tools: true,
        message_id: call_id(7),
        attempt: 3,
        purpose: Purpose::Answer,
        view: View { first: Some(1), lowest: Some(0), trim: Trim::Compact { fits: Some(900) } },
        last_resort: false,
    };
    assert_eq!(tried.wants(), [Effect { n: 7, kind }]);
    tried.outcome(7, Outcome::TooLong { up_to: 2 });
    assert_eq!(
        tried.verdict(),
        told(Fault::new(Code::ContextTooLong, "the conversation does not fit, even with a summary"))
    );
}

/// What every version knows.
fn goes_on(go_on: impl Fn(&str) -> Drive) {
    let mut begun = go_on("begun");
    begun.apply(Input::Start { text: "hi".to_owned() });
    let mut pausing = go_on("pausing");
    pausing.outcome(1, Outcome::Expired);
    let mut calling = go_on("calling");
    calling.input("the red one");
    let mut answered = go_on("answered");
    for drive in [&mut calling, &mut answered] {
        decide(drive, 5, Choice::Deny);
        drive.outcome(3, ok("seen"));
        drive.outcome(4, ok("written"));
    }
    for drive in [begun, go_on("asking"), pausing, calling] {
        let mut drive = drive;
        drive.reply(text("done"));
        assert_eq!(drive.verdict(), Verdict::Ok);
    }
    assert_eq!(answered.said()[1], json!({"UserMessage": {"text": "hurry", "meta": "steering"}}));
    answered.reply(text("done"));
    assert_eq!(answered.verdict(), Verdict::Ok);

    let listed = |calls: &[(u32, &str)]| -> Vec<ReceiptCall> {
        calls.iter().map(|(n, name)| ReceiptCall { call_id: call_id(*n), name: (*name).to_owned() }).collect()
    };
    let mut ending = go_on("ending");
    ending.outcome(3, Outcome::Stopped { shown: String::new(), used: None });
    let receipt = Receipt {
        finished: listed(&[(1, "look")]),
        stopped: listed(&[(3, "look")]),
        unknown: vec![],
        not_started: listed(&[(4, "write"), (5, "write"), (6, ASK_USER)]),
    };
    assert_eq!(ending.verdict(), Verdict::Cancelled(receipt));

    let mut limited = go_on("limited");
    limited.outcome(0, Outcome::Stopped { shown: "Once".to_owned(), used: None });
    assert_eq!(limited.verdict(), Verdict::Ok);
    assert!(!go_on("last_answer").model().2);
    assert!(matches!(go_on("ended").verdict(), Verdict::Cancelled(_)));
}

#[test]
fn a_state_that_this_build_does_not_know_is_refused() {
    let whole = stored(NEWEST).remove("asking").unwrap();
    let why = |record: FlowRecord| Flow::restore(setting(definition()), record).unwrap_err();
    let newer = FlowRecord { v: 3, ..whole.clone() };
    assert_eq!(
        why(newer).to_string(),
        "the state of flow \"turn\" has version 3, and this build knows up to 2"
    );
    let other = FlowRecord { flow: "dance".to_owned(), ..whole.clone() };
    assert_eq!(why(other), UnknownFlow::Name("dance".to_owned()));
    let mut odd = whole;
    let mut data: Value = serde_json::from_str(odd.data.get()).unwrap();
    data["surprise"] = Value::Null;
    odd = FlowRecord::new(&odd.flow, odd.v, &data);
    let error = why(odd).to_string();
    assert!(
        error.starts_with("the state of flow \"turn\" cannot be read: unknown field `surprise`"),
        "{error}"
    );
}

/// Writes the file of the version in the making, if it is missing; `UPDATE=1` asks for it.
#[test]
fn write_if_it_is_missing() {
    if std::env::var_os("UPDATE").is_none() {
        return;
    }
    let all: BTreeMap<&str, FlowRecord> =
        phases().iter().map(|(name, drive)| (*name, drive.flow.record())).collect();
    let file = file(NEWEST);
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    if !file.exists() {
        std::fs::write(file, format!("{:#}\n", serde_json::to_value(all).unwrap())).unwrap();
    }
}
