//! Stored states of every version are read and resumed.
//!
//! The file of an older version never changes. That of the newest one may until it is released: delete
//! it and run this module with `UPDATE=1` to write it anew.

mod older;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::drive::{Drive, call_id, calls, definition, failed, laddered, ok, setting, text};
use crate::budget::Limit;
use crate::effect::{EffectKind, Outcome, Reply, ToolOutcome};
use crate::fault::{Code, Fault};
use crate::flow::{Flow, FlowRecord, Input, UnknownFlow};
use crate::policy::{OnUnknown, SelfCheck, ToolRule};
use crate::run::{Choice, Definition, Message, Verdict};
use crate::tool::{ASK_USER, Cause};

/// The version of the newest golden file.
const NEWEST: u32 = 3;

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
    let mut questioning = Drive::start();
    questioning.reply(calls(&[(ASK_USER, json!({"question": "which one?"}))]));
    let mut steered = calling();
    steered.input("hurry");
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
        ("questioning", questioning),
        ("steered", steered),
        ("ending", ending),
        ("limited", limited),
        ("last_answer", last),
        ("ended", ended),
        ("erred", erred),
        ("summarising", summarising()),
        ("unseen", unseen),
        ("down_the_ladder", down_the_ladder()),
        ("choosing", Drive::start_with(governed(ToolRule::Required))),
        ("by_rule", by_rule()),
        ("checking", checking()),
        ("revising", revising()),
        ("unknown", unknown()),
    ]
    .into()
}

/// One call that runs, one that a user edited, and one that waits for approval.
fn calling() -> Drive {
    let mut drive = Drive::start();
    drive.reply(calls(&[("look", json!({}))]));
    drive.outcome(1, failed("no"));
    drive.reply(calls(&[("look", json!({})), ("write", json!({"n": 1})), ("write", json!({"n": 2}))]));
    decide(&mut drive, 4, Choice::Edit);
    drive
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

/// A question for which every remedy was used.
fn down_the_ladder() -> Drive {
    let mut drive = summarising();
    drive.outcome(4, Outcome::Reply(text("in short")));
    drive.reply(Reply { first: 1, ..text("") });
    drive.model_fails(Fault { fits_tokens: Some(900), ..Fault::new(Code::ContextTooLong, "too much") });
    drive
}

/// A decision with as many demands as possible.
fn governed(tool_rule: ToolRule) -> Definition {
    let mut definition = laddered();
    definition.decision.tool_rule = tool_rule;
    definition.decision.first_tool = Some("look".to_owned());
    definition.decision.default_role = Some("auto".to_owned());
    definition.decision.self_check = SelfCheck::Always;
    definition.decision.on_unknown = OnUnknown::AskPerson;
    for tool in std::sync::Arc::make_mut(&mut definition.tools) {
        tool.trust.untrusted_output = true;
    }
    definition
}

/// A tool that a rule called, which failed once and is tried again.
fn by_rule() -> Drive {
    let mut drive = Drive::start_with(governed(ToolRule::Required));
    drive.reply(text("no tool for me"));
    drive.outcome(1, Outcome::Tool(ToolOutcome { cause: Some(Cause::Tool), ..ToolOutcome::error("down") }));
    drive
}

/// An answer after a tool, under check.
fn checking() -> Drive {
    let mut drive = Drive::start_with(governed(ToolRule::Auto));
    drive.round(&[("look", json!({}))]);
    drive.reply(text("forty"));
    drive
}

/// The same after the check found a gap: the answer is given once more.
fn revising() -> Drive {
    let mut drive = checking();
    drive.reply(text(r#"{"ok": false, "missing": "two"}"#));
    drive
}

/// A call that a user edited and whose outcome is not known.
fn unknown() -> Drive {
    let mut drive = Drive::start_with(governed(ToolRule::Auto));
    drive.reply(calls(&[("write", json!({}))]));
    decide(&mut drive, 1, Choice::Edit);
    drive.outcome(1, Outcome::Unknown);
    drive
}

fn stored(v: u32) -> BTreeMap<String, FlowRecord> {
    serde_json::from_slice(&std::fs::read(file(v)).unwrap()).unwrap()
}

#[test]
fn a_state_of_version_3_is_what_is_stored_today() {
    let today: BTreeMap<&str, FlowRecord> =
        phases().iter().map(|(name, drive)| (*name, drive.flow.record())).collect();
    assert_eq!(serde_json::to_value(stored(NEWEST)).unwrap(), serde_json::to_value(today).unwrap());
}

/// Resumes a stored state, at the end of the branch that it was stored with.
fn go_on(name: &str) -> Drive {
    let before = &phases()[name];
    let flow = Flow::restore(setting(before.definition()), stored(NEWEST).remove(name).unwrap()).unwrap();
    assert_eq!(flow.next(), before.flow.next(), "{name}");
    let mut drive = Drive::on(flow, before.definition(), before.tail.clone(), before.head);
    drive.entries = before.entries.clone();
    drive.events = before.events.clone();
    drive
}

#[test]
fn a_state_of_version_3_goes_on() {
    let choosing = go_on("choosing");
    assert_eq!(choosing.asked_for(), "router: choice with tools");
    let mut by_rule = go_on("by_rule");
    let EffectKind::Tool { again, .. } = by_rule.wants()[0].kind else { panic!() };
    assert_eq!(again, 1);
    by_rule.outcome(1, ok("seen"));
    assert_eq!(by_rule.asked_for(), "router: answer");
    let mut checking = go_on("checking");
    checking.reply(text(r#"{"ok": true}"#));
    assert_eq!(checking.verdict(), Verdict::Ok);
    let mut revising = go_on("revising");
    assert_eq!(revising.asked_for(), "reasoning: revision");
    revising.reply(text("forty-two"));
    assert_eq!(revising.said(), json!([{"AssistantMessage": {"content": "forty-two", "meta": "revision"}}]));
    let mut unknown = go_on("unknown");
    let approval_id = format!("ou-{}-0", call_id(1));
    unknown.message(Message::Decision {
        approval_id,
        choice: Choice::Approve,
        arguments: None,
        reason: None,
    });
    let EffectKind::Tool { edited_by, again, .. } = unknown.wants().remove(0).kind else { panic!() };
    assert_eq!((edited_by, again), (Some(format!("ap-{}", call_id(1))), 1));
}

#[test]
fn every_state_of_version_3_wants_what_it_did() {
    for name in phases().keys() {
        go_on(name);
    }
}

#[test]
fn a_state_that_this_build_does_not_know_is_refused() {
    let whole = stored(NEWEST).remove("asking").unwrap();
    let why = |record: FlowRecord| Flow::restore(setting(definition()), record).unwrap_err();
    let newer = FlowRecord { v: 5, ..whole.clone() };
    assert_eq!(
        why(newer).to_string(),
        "the state of flow \"turn\" has version 5, and this build knows up to 4"
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
