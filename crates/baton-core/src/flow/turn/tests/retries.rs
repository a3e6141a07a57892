//! A call whose failure does not lie in its arguments is tried once more.

use serde_json::{Value, json};

use super::decisions::{decide, fails_by, runs};
use super::drive::{Drive, call_id, calls, checked, failed, ok};
use crate::budget::Limit;
use crate::effect::{Admission, CheckedCall, Effect, EffectKind, Outcome, Reply};
use crate::flow::{Input, Node};
use crate::run::{Choice, Receipt, ReceiptCall, Verdict};
use crate::tool::{Cause, EffectClass};

fn one(class: EffectClass) -> Drive {
    let call =
        CheckedCall { admission: Admission::Fits { class, egress: false }, ..checked("look", json!({})) };
    let mut drive = Drive::start();
    drive.reply(Reply { calls: vec![call], ..calls(&[]) });
    drive
}

/// A call that failed once and runs again.
fn again() -> Drive {
    let mut drive = one(EffectClass::SideEffectFree);
    drive.outcome(1, fails_by(Cause::Tool, "no answer"));
    drive
}

fn line(error: Option<&str>, reason: Option<&str>) -> Value {
    let mut metadata = json!({"tool_name": "look", "call_id": "#1"});
    for (key, value) in [("error", error), ("reason", reason)] {
        if let Some(value) = value {
            metadata[key] = json!(value);
        }
    }
    let how = if error.is_some() { "did not work" } else { "worked" };
    json!({"type": "tool_call", "description": format!("look {how}"), "metadata": metadata})
}

#[test]
fn it_runs_once_more_under_the_same_number() {
    for class in [EffectClass::SideEffectFree, EffectClass::Idempotent] {
        let mut drive = one(class);
        drive.outcome(1, fails_by(Cause::Tool, "no answer"));
        assert_eq!((drive.said(), drive.shown(), drive.last.node), (json!([]), json!([]), Node::ToolCall));
        assert_eq!(drive.account(), json!([line(Some("no answer"), Some("retry"))]));
        let (call_id, name) = (call_id(1), "look".to_owned());
        let kind = EffectKind::Tool { call_id, name, entry: 2, class, edited_by: None, again: 1 };
        assert_eq!(drive.wants(), [Effect { n: 1, kind }]);
        drive.outcome(1, ok("seen"));
        assert_eq!(
            drive.said(),
            json!([{"ToolResult": {"tool_call_id": "#1", "tool_name": "look", "result": "seen"}}])
        );
        assert_eq!(drive.account(), json!([line(None, None)]));
        assert_eq!(drive.model(), (2, 3, true));
    }
}

#[test]
fn a_second_failure_is_told_to_the_model() {
    let mut drive = again();
    drive.outcome(1, fails_by(Cause::Tool, "still none"));
    assert_eq!(
        drive.said(),
        json!([{"ToolResult": {"tool_call_id": "#1", "tool_name": "look", "result": "still none", "status": "error", "cause": "tool"}}])
    );
    assert_eq!(drive.account(), json!([line(Some("still none"), None)]));
    assert_eq!(drive.model(), (2, 3, true));
}

#[test]
fn every_try_counts_as_a_failure_of_the_same_call() {
    let mut drive = Drive::start();
    drive.reply(calls(&[("look", json!({}))]));
    for _ in 0..2 {
        drive.outcome(1, fails_by(Cause::Tool, "no answer"));
    }
    assert_eq!((drive.warnings(), drive.model()), (vec![], (2, 3, true)));
    drive.reply(calls(&[("look", json!({}))]));
    drive.outcome(3, fails_by(Cause::Tool, "no answer"));
    assert_eq!(drive.warnings(), ["no_progress"]);
    assert_eq!(drive.model(), (4, 6, false), "the third is the last, and not tried again");
}

#[test]
fn nothing_else_is_tried_again() {
    let rows = [
        (
            "what was asked",
            EffectClass::SideEffectFree,
            fails_by(Cause::Asked, "no such place"),
            Some("asked"),
        ),
        ("nobody knows why", EffectClass::SideEffectFree, failed("broken"), None),
        ("it may have happened", EffectClass::Unsafe, fails_by(Cause::Tool, "no answer"), Some("tool")),
    ];
    for (what, class, outcome, cause) in rows {
        let mut drive = one(class);
        drive.outcome(1, outcome);
        let closed = drive.said()[0]["ToolResult"].clone();
        assert_eq!((&closed["status"], &closed["cause"]), (&json!("error"), &json!(cause)), "{what}");
        assert_eq!(drive.model(), (2, 3, true), "{what}");
    }
    for outcome in [Outcome::Unknown, Outcome::Stopped { shown: String::new(), used: None }] {
        let mut drive = one(EffectClass::SideEffectFree);
        drive.outcome(1, outcome);
        assert_eq!(drive.model(), (2, 3, true));
    }
}

#[test]
fn what_a_person_edited_is_not_tried_again() {
    let mut definition = super::drive::definition();
    definition.decision.approvals.push("look".to_owned());
    let mut drive = Drive::start_with(definition);
    drive.reply(calls(&[("look", json!({}))]));
    decide(&mut drive, format!("ap-{}", call_id(1)), Choice::Edit, Some(json!({"at": 2})));
    drive.outcome(1, fails_by(Cause::Tool, "no answer"));
    assert_eq!(drive.model().0, 3, "what was declared was declared of other arguments");
}

#[test]
fn siblings_go_on_meanwhile() {
    let mut drive = Drive::start();
    drive.reply(calls(&[("look", json!({})), ("peek", json!({}))]));
    drive.outcome(1, fails_by(Cause::Tool, "no answer"));
    assert_eq!(drive.wants(), [runs(1, "look", 2, 1), runs(2, "peek", 3, 0)]);
    drive.outcome(2, ok("seen"));
    assert_eq!(drive.wants(), [runs(1, "look", 2, 1)]);
}

fn not_tried_again() -> Value {
    let why = "no answer"; // the message of the first failure
    json!({"ToolResult": {"tool_call_id": "#1", "tool_name": "look", "result": why, "status": "error"}})
}

#[test]
fn a_cancel_before_the_second_try_says_that_the_first_was_made() {
    let mut drive = again();
    drive.apply(Input::Cancel { in_flight: vec![] });
    assert_eq!(drive.said()[0], not_tried_again());
    let call = ReceiptCall { call_id: call_id(1), name: "look".to_owned() };
    let receipt = Receipt { finished: vec![call], ..Receipt::default() };
    assert_eq!(drive.verdict(), Verdict::Cancelled(receipt));
}

#[test]
fn a_cancel_during_the_second_try_waits_for_it() {
    let mut drive = again();
    drive.apply(Input::Cancel { in_flight: vec![1] });
    drive.outcome(1, fails_by(Cause::Tool, "no answer"));
    let call = ReceiptCall { call_id: call_id(1), name: "look".to_owned() };
    let receipt = Receipt { finished: vec![call], ..Receipt::default() };
    assert_eq!(drive.verdict(), Verdict::Cancelled(receipt));

    let mut first = one(EffectClass::SideEffectFree);
    first.apply(Input::Cancel { in_flight: vec![1] });
    first.outcome(1, fails_by(Cause::Tool, "no answer"));
    assert!(matches!(first.verdict(), Verdict::Cancelled(_)), "and after a cancel there is none");
}

#[test]
fn a_second_try_that_the_budget_does_not_cover_is_not_made() {
    let mut drive = again();
    drive.apply(Input::Limit { limit: Limit::ToolCalls, effect: Some(1), in_flight: vec![] });
    assert_eq!(drive.said(), json!([not_tried_again()]));
    assert_eq!((drive.warnings(), drive.model()), (vec![], (2, 3, true)), "only that try was not made");
}
