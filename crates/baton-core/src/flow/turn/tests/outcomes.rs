//! Calls with an unknown outcome that a user is asked about.

use serde_json::{Value, json};

use super::decisions::decide;
use super::drive::{Drive, NOW, PATIENCE_MS, call_id, calls, definition, ok, plain, text};
use crate::effect::{Effect, EffectKind, Outcome, ToolOutcome, Wait};
use crate::flow::{Input, Node, WaitingOn};
use crate::id::RunId;
use crate::json::call_digest;
use crate::policy::{OnUnknown, SelfCheck};
use crate::run::{Approval, ApprovalStatus, Choice, Definition, Receipt, ReceiptCall, Verdict};
use crate::thread::{Closing, WaitingKind};
use crate::tool::EffectClass;

const UNKNOWN: &str =
    "it was interrupted, and nobody knows whether it took effect; check before you call it again";

fn careful() -> Definition {
    let mut definition = definition();
    definition.decision.on_unknown = OnUnknown::AskPerson;
    definition
}

fn approval(again: u32) -> String {
    format!("ou-{}-{again}", call_id(1))
}

/// A call of `write` that a user approved and whose outcome is not known.
fn asked() -> Drive {
    let mut drive = Drive::start_with(careful());
    drive.reply(calls(&[("write", json!({"to": 1}))]));
    decide(&mut drive, format!("ap-{}", call_id(1)), Choice::Approve, Some(json!({"to": 1})));
    drive.outcome(1, Outcome::Unknown);
    drive
}

fn write(again: u32, edited_by: Option<String>) -> Effect {
    let (call_id, name, class) = (call_id(1), "write".to_owned(), EffectClass::Unsafe);
    Effect { n: 1, kind: EffectKind::Tool { call_id, name, entry: 2, class, edited_by, again } }
}

fn wait(n: u32, again: u32) -> Effect {
    let what = Wait::Approval { approval_id: approval(again) };
    Effect { n, kind: EffectKind::Wait { what, deadline: NOW.plus_ms(PATIENCE_MS) } }
}

fn closed(result: Value, status: &str) -> Value {
    let mut result = json!({"tool_call_id": "#1", "tool_name": "write", "result": result});
    if status != "ok" {
        result["status"] = json!(status);
    }
    json!([{"ToolResult": result}])
}

#[test]
fn a_person_is_asked_whether_it_happened() {
    let drive = asked();
    let deadline = NOW.plus_ms(PATIENCE_MS);
    let reason = "write was interrupted, and nobody knows whether it took effect";
    let digest = call_digest("write", &Value::Null);
    assert_eq!(
        drive.said(),
        json!([{"Waiting": {"kind": "approval", "deadline": deadline.as_seconds(), "correlation_id": "#1"}}])
    );
    assert_eq!(
        drive.shown(),
        json!([{"type": "approval_required", "approval_id": "ou-#1-0", "call_id": "#1", "name": "write", "args": null,
            "digest": digest, "reason": reason, "expires_at": deadline}])
    );
    let approval = Approval {
        id: approval(0),
        run_id: RunId(uuid::Uuid::from_u128(1)),
        call_id: call_id(1),
        kind: crate::run::ApprovalKind::Outcome,
        name: "write".to_owned(),
        args: Value::Null,
        digest,
        reason: reason.to_owned(),
        created: NOW,
        expires_at: deadline,
        status: ApprovalStatus::Pending,
        by: None,
        at: None,
        original_args: None,
        decision_reason: None,
    };
    assert_eq!(drive.last.asked, [approval]);
    assert_eq!((drive.account(), drive.last.node), (json!([]), Node::ToolCall), "nothing came of it yet");
    assert_eq!(drive.wants(), [wait(3, 0)]);
    let id = self::approval(0);
    assert_eq!(drive.waiting(), [WaitingOn { kind: WaitingKind::Approval, id, deadline, question: None }]);
}

#[test]
fn one_that_did_not_happen_runs_again_under_the_same_number() {
    let mut drive = asked();
    decide(&mut drive, approval(0), Choice::Approve, None);
    assert_eq!(drive.wants(), [write(1, None)]);
    assert_eq!((drive.said(), drive.shown(), drive.account()), (json!([]), json!([]), json!([])));
    drive.outcome(3, Outcome::Expired);
    assert_eq!(drive.wants(), [write(1, None)], "a late alarm changes nothing");
    drive.outcome(1, ok("written"));
    assert_eq!(drive.said(), closed(json!("written"), "ok"));
    assert_eq!((drive.model(), drive.settled.len()), ((4, 5, true), 0));
}

#[test]
fn one_that_a_person_edited_runs_again_as_it_was_edited() {
    let mut drive = Drive::start_with(careful());
    drive.reply(calls(&[("write", json!({"to": 1}))]));
    let edited_by = format!("ap-{}", call_id(1));
    decide(&mut drive, edited_by.clone(), Choice::Edit, Some(json!({"to": 2})));
    drive.outcome(1, Outcome::Unknown);
    decide(&mut drive, approval(0), Choice::Approve, None);
    assert_eq!(drive.wants(), [write(1, Some(edited_by))]);
}

#[test]
fn what_came_of_it_may_be_said_by_the_person() {
    let mut drive = asked();
    decide(&mut drive, approval(0), Choice::Edit, Some(json!({"output": {"rows": 3}})));
    assert_eq!(drive.said(), closed(json!({"rows": 3}), "ok"));
    assert_eq!(
        drive.shown(),
        json!([{"type": "tool_result", "name": "write", "result": "{\"rows\":3}", "call_id": "#1", "status": "ok"}])
    );
    assert_eq!(
        drive.account(),
        json!([{"type": "tool_call", "description": "write worked", "metadata": {"tool_name": "write", "call_id": "#1"}}])
    );
    assert_eq!(drive.model(), (4, 5, true));
    drive.apply(Input::Cancel { in_flight: vec![] });
    let call = ReceiptCall { call_id: call_id(1), name: "write".to_owned() };
    let receipt = Receipt { finished: vec![call], ..Receipt::default() };
    assert_eq!(drive.verdict(), Verdict::Cancelled(receipt), "so it happened");
}

#[test]
fn one_that_nobody_can_tell_of_is_told_to_the_model() {
    let rows = [(Choice::Deny, None), (Choice::Edit, None), (Choice::Edit, Some(json!({"other": 1})))];
    for (choice, arguments) in rows {
        let mut drive = asked();
        decide(&mut drive, approval(0), choice, arguments);
        assert_eq!(drive.said(), closed(json!(UNKNOWN), "unknown"));
        assert_eq!((drive.model(), drive.settled.len()), ((4, 5, true), 0));
    }
    let mut drive = asked();
    drive.outcome(3, Outcome::Expired);
    assert_eq!(drive.said(), closed(json!(UNKNOWN), "unknown"));
    assert_eq!(drive.settled, [(approval(0), ApprovalStatus::Expired)]);
    drive.reply(text("I do not know"));
    assert_eq!(drive.verdict(), Verdict::Ok);
}

#[test]
fn a_second_time_is_asked_about_again() {
    let mut drive = asked();
    for (again, alarm) in [(1, 4), (2, 5)] {
        decide(&mut drive, approval(again - 1), Choice::Approve, None);
        assert_eq!(drive.wants(), [write(again, None)]);
        drive.outcome(1, Outcome::Unknown);
        assert_eq!(drive.wants(), [wait(alarm, again)]);
        let before = drive.flow.record();
        decide(&mut drive, approval(again - 1), Choice::Approve, None);
        assert_eq!(drive.flow.record(), before, "an old decision changes nothing");
    }
    decide(&mut drive, approval(2), Choice::Deny, None);
    assert_eq!(drive.said(), closed(json!(UNKNOWN), "unknown"));
}

fn unknown() -> Verdict {
    let call = ReceiptCall { call_id: call_id(1), name: "write".to_owned() };
    Verdict::Cancelled(Receipt { unknown: vec![call], ..Receipt::default() })
}

#[test]
fn a_cancel_while_it_is_asked_leaves_it_unknown() {
    let mut drive = asked();
    drive.apply(Input::Cancel { in_flight: vec![3] });
    assert_eq!(drive.said()[0], closed(json!(UNKNOWN), "unknown")[0]);
    assert_eq!(drive.last.settled, [(approval(0), ApprovalStatus::Cancelled)]);
    assert_eq!(drive.verdict(), unknown());

    let mut again = asked();
    decide(&mut again, approval(0), Choice::Approve, None);
    again.apply(Input::Cancel { in_flight: vec![] });
    assert_eq!(again.said()[0], closed(json!(UNKNOWN), "unknown")[0], "its first run may have happened");
    assert_eq!(again.verdict(), unknown());
}

#[test]
fn while_it_ends_nobody_is_asked() {
    let mut drive = Drive::start_with(careful());
    drive.reply(calls(&[("look", json!({}))]));
    drive.apply(Input::Cancel { in_flight: vec![1] });
    drive.outcome(1, Outcome::Unknown);
    let Verdict::Cancelled(receipt) = drive.verdict() else { panic!() };
    assert_eq!(plain(&receipt.unknown), json!([{"call_id": "#1", "name": "look"}]));
    assert_eq!(drive.asked, []);
}

/// A call that the current policy refused did not run: its outcome stays as it was known before.
#[test]
fn one_that_was_not_run_leaves_what_was_known() {
    let unrun = || Outcome::Tool(ToolOutcome::unrun(Closing::Denied, "not allowed any more"));
    let mut definition = careful();
    definition.decision.self_check = SelfCheck::AfterTools;
    let mut first = Drive::start_with(definition);
    first.reply(calls(&[("look", json!({}))]));
    first.outcome(1, unrun());
    let closed = json!([{"ToolResult": {"tool_call_id": "#1", "tool_name": "look", "result": "not allowed any more", "status": "denied"}}]);
    assert_eq!(first.said(), closed);
    let mut answered = first.clone();
    answered.reply(text("I cannot look"));
    assert_eq!(answered.verdict(), Verdict::Ok, "no tool was used, so there is nothing to compare it with");
    first.apply(Input::Cancel { in_flight: vec![] });
    let call = ReceiptCall { call_id: call_id(1), name: "look".to_owned() };
    let receipt = Receipt { not_started: vec![call], ..Receipt::default() };
    assert_eq!(first.verdict(), Verdict::Cancelled(receipt));

    let mut again = asked();
    decide(&mut again, approval(0), Choice::Approve, None);
    again.outcome(1, unrun());
    assert_eq!(again.said(), self::closed(json!(UNKNOWN), "unknown"), "its first run may have happened");
}

#[test]
fn one_that_is_asked_about_does_not_hold_up_the_others() {
    let mut drive = Drive::start_with(careful());
    drive.reply(calls(&[("look", json!({})), ("peek", json!({}))]));
    drive.outcome(1, Outcome::Unknown);
    assert_eq!(drive.numbers(), [2, 3]);
    drive.outcome(2, ok("seen"));
    assert_eq!(drive.numbers(), [3]);
}
