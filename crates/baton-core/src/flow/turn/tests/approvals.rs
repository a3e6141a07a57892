//! Calls that need a user's approval.

use serde_json::{Value, json};

use super::drive::{Drive, NOW, PATIENCE_MS, call_id, calls, ok, text};
use crate::effect::{Effect, EffectKind, Outcome, Wait};
use crate::flow::{Node, WaitingOn};
use crate::json::call_digest;
use crate::run::{Approval, ApprovalStatus, Choice, Message, Verdict};
use crate::thread::WaitingKind;
use crate::tool::EffectClass;

fn decide(drive: &mut Drive, n: u32, choice: Choice, arguments: Option<Value>, reason: Option<&str>) {
    let approval_id = format!("ap-{}", call_id(n));
    drive.message(Message::Decision { approval_id, choice, arguments, reason: reason.map(str::to_owned) });
}

fn approve(drive: &mut Drive, n: u32) {
    decide(drive, n, Choice::Approve, Some(json!({"to": n})), None);
}

/// A reply with `write` calls, each with its number among the calls as argument.
fn asked(count: u32) -> Drive {
    let mut drive = Drive::start();
    let wanted: Vec<_> = (1..=count).map(|n| ("write", json!({"to": n}))).collect();
    drive.reply(calls(&wanted));
    drive
}

fn write(n: u32, entry: i64, edited_by: Option<String>) -> Effect {
    let class = EffectClass::Unsafe;
    let kind =
        EffectKind::Tool { call_id: call_id(n), name: "write".to_owned(), entry, class, edited_by, again: 0 };
    Effect { n, kind }
}

fn wait(n: u32, call: u32) -> Effect {
    let what = Wait::Approval { approval_id: format!("ap-{}", call_id(call)) };
    Effect { n, kind: EffectKind::Wait { what, deadline: NOW.plus_ms(PATIENCE_MS) } }
}

#[test]
fn a_call_that_needs_approval_is_asked_about_and_does_not_start() {
    let drive = asked(1);
    let deadline = NOW.plus_ms(PATIENCE_MS);
    let digest = call_digest("write", &json!({"to": 1}));
    let reason = "rule \"tests\" asks before write runs";
    assert_eq!(
        drive.said()[2],
        json!({"Waiting": {"kind": "approval", "deadline": deadline.as_seconds(), "correlation_id": "#1"}})
    );
    assert_eq!(
        drive.shown(),
        json!([{"type": "approval_required", "approval_id": "ap-#1", "call_id": "#1", "name": "write", "args": {"to": 1},
            "digest": digest, "reason": reason, "expires_at": deadline}]),
        "and no tool_start"
    );
    let approval = Approval {
        id: format!("ap-{}", call_id(1)),
        run_id: crate::id::RunId(uuid::Uuid::from_u128(1)),
        call_id: call_id(1),
        kind: crate::run::ApprovalKind::Call,
        name: "write".to_owned(),
        args: json!({"to": 1}),
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
    assert_eq!(drive.asked, std::slice::from_ref(&approval));
    assert_eq!(drive.wants(), [wait(2, 1)]);
    let waiting = WaitingOn { kind: WaitingKind::Approval, id: approval.id, deadline, question: None };
    assert_eq!(drive.waiting(), [waiting]);
}

#[test]
fn an_approved_call_starts_with_what_was_approved() {
    let mut drive = asked(1);
    approve(&mut drive, 1);
    assert_eq!((drive.said(), drive.last.node), (json!([]), Node::ToolCall));
    assert_eq!(
        drive.shown(),
        json!([{"type": "tool_start", "name": "write", "args": {"to": 1}, "call_id": "#1"}])
    );
    assert_eq!((drive.wants(), drive.waiting().len()), (vec![write(1, 2, None)], 0));
    drive.outcome(2, Outcome::Expired);
    assert_eq!(drive.wants(), [write(1, 2, None)], "a late alarm changes nothing");
    drive.outcome(1, ok("written"));
    assert_eq!(drive.model(), (3, 4, true));
    assert_eq!(drive.settled, [], "the decision itself settled it");
}

#[test]
fn an_edited_call_runs_with_the_arguments_of_the_approval() {
    let mut drive = asked(1);
    decide(&mut drive, 1, Choice::Edit, Some(json!({"to": "elsewhere"})), None);
    assert_eq!(
        drive.shown(),
        json!([{"type": "tool_start", "name": "write", "args": {"to": "elsewhere"}, "call_id": "#1"}])
    );
    assert_eq!(drive.wants(), [write(1, 2, Some(format!("ap-{}", call_id(1))))]);
}

#[test]
fn a_denied_call_is_told_to_the_model_with_the_reason() {
    for (reason, told) in [(Some("too risky"), "too risky"), (None, "a person said no")] {
        let mut drive = asked(1);
        decide(&mut drive, 1, Choice::Deny, None, reason);
        assert_eq!(
            drive.said(),
            json!([{"ToolResult": {"tool_call_id": "#1", "tool_name": "write", "result": told, "status": "denied"}}])
        );
        assert_eq!(
            drive.shown(),
            json!([{"type": "tool_result", "name": "write", "result": told, "call_id": "#1", "status": "denied"}])
        );
        assert_eq!(drive.model(), (3, 4, true));
        drive.reply(text("then not"));
        assert_eq!(drive.verdict(), Verdict::Ok);
    }
}

#[test]
fn an_approval_that_nobody_decides_expires() {
    let mut drive = asked(1);
    drive.outcome(2, Outcome::Expired);
    assert_eq!(
        drive.said(),
        json!([{"ToolResult": {"tool_call_id": "#1", "tool_name": "write", "result": "nobody decided in time", "status": "expired"}}])
    );
    assert_eq!(drive.settled, [(format!("ap-{}", call_id(1)), ApprovalStatus::Expired)]);
    assert_eq!(drive.model(), (3, 4, true));
    let before = drive.flow.record();
    approve(&mut drive, 1);
    assert_eq!((drive.flow.record(), drive.last.events.len()), (before, 0), "the decision comes too late");
}

#[test]
fn two_approvals_are_decided_in_either_order() {
    for (first, second) in [(1, 2), (2, 1)] {
        let mut drive = asked(2);
        assert_eq!(drive.wants(), [wait(3, 1), wait(4, 2)]);
        approve(&mut drive, first);
        let mut expected = [wait(3, 1), wait(4, 2)];
        expected[first as usize - 1] = write(first, i64::from(first) + 1, None);
        assert_eq!(drive.wants(), expected, "one runs while the other waits");
        drive.outcome(first, ok("written"));
        decide(&mut drive, second, Choice::Deny, None, None);
        assert_eq!(drive.model(), (5, 7, true));
        let statuses: Vec<_> =
            drive.entries[6..].iter().map(|entry| entry.data()["status"].clone()).collect();
        assert_eq!(statuses, [Value::Null, json!("denied")], "worked, then denied");
    }
}

#[test]
fn a_call_waits_while_its_sibling_runs() {
    let mut drive = Drive::start();
    drive.reply(calls(&[("write", json!({"to": 1})), ("look", json!({}))]));
    assert_eq!(drive.numbers(), [3, 2]);
    drive.outcome(2, ok("seen"));
    assert_eq!(drive.wants(), [wait(3, 1)]);
    approve(&mut drive, 1);
    drive.outcome(1, ok("written"));
    assert_eq!(drive.model().1, 6);
}

#[test]
fn a_decision_about_something_else_changes_nothing() {
    let mut drive = asked(1);
    let before = drive.flow.record();
    for choice in [Choice::Approve, Choice::Deny, Choice::Edit] {
        decide(&mut drive, 9, choice, Some(json!({})), None);
        assert_eq!(
            (drive.flow.record(), drive.said(), drive.shown()),
            (before.clone(), json!([]), json!([]))
        );
    }
    approve(&mut drive, 1);
    let running = drive.flow.record();
    decide(&mut drive, 1, Choice::Deny, None, None);
    assert_eq!(drive.flow.record(), running, "nor does a second one");
}

#[test]
fn text_does_not_decide_an_approval() {
    let mut drive = asked(1);
    drive.input("yes, do it");
    assert_eq!(
        (drive.wants(), drive.shown()),
        (vec![wait(2, 1)], json!([{"type": "input", "input_id": "in-yes, do it"}]))
    );
    decide(&mut drive, 1, Choice::Deny, None, None);
    assert_eq!(drive.said()[1], json!({"UserMessage": {"text": "yes, do it", "meta": "steering"}}));
}

#[test]
fn what_a_person_said_beside_a_decision_is_kept() {
    let remark = |said: Value| json!([{ "baton.decision": said }]);
    let mut edited = asked(1);
    decide(&mut edited, 1, Choice::Edit, Some(json!({"to": 9})), Some("not there"));
    assert_eq!(
        edited.said(),
        remark(json!({"call_id": "#1", "arguments": {"to": 9}, "reason": "not there"}))
    );
    let mut approved = asked(1);
    decide(&mut approved, 1, Choice::Approve, Some(json!({"to": 1})), Some("just once"));
    assert_eq!(approved.said(), remark(json!({"call_id": "#1", "reason": "just once"})));
    let mut silent = asked(1);
    approve(&mut silent, 1);
    assert_eq!(silent.said(), json!([]));
}
