//! A cancel, in every phase.

use serde_json::json;

use super::drive::{Drive, call_id, calls, failed, ok, plain, text};
use crate::effect::Outcome;
use crate::fault::{Code, Fault};
use crate::flow::{Input, Node};
use crate::run::{ApprovalStatus, Choice, Message, Receipt, ReceiptCall, Verdict};
use crate::tool::ASK_USER;

fn cancel(drive: &mut Drive, in_flight: &[u32]) {
    drive.apply(Input::Cancel { in_flight: in_flight.to_vec() });
}

fn listed(calls: &[(u32, &str)]) -> Vec<ReceiptCall> {
    calls.iter().map(|(n, name)| ReceiptCall { call_id: call_id(*n), name: (*name).to_owned() }).collect()
}

fn cancelled(drive: &Drive) -> Receipt {
    assert_eq!(drive.last.node, Node::Respond);
    match drive.verdict() {
        Verdict::Cancelled(receipt) => receipt,
        other => panic!("{other:?}"),
    }
}

fn last_words(shown: &str) -> serde_json::Value {
    json!({"AssistantMessage": {"content": shown, "meta": "cancelled"}})
}

#[test]
fn before_the_model_was_asked_it_ends_at_once() {
    let mut drive = Drive::start();
    cancel(&mut drive, &[]);
    assert_eq!((drive.said(), drive.shown()), (json!([last_words("")]), json!([])));
    assert_eq!(cancelled(&drive), Receipt::default());
}

#[test]
fn while_the_model_answers_it_keeps_what_was_shown() {
    let outcomes = [
        (Outcome::Stopped { shown: "Once".to_owned(), used: None }, "Once"),
        (Outcome::Stopped { shown: String::new(), used: None }, ""),
        (Outcome::Reply(text("Once upon a time")), "Once upon a time"),
        (Outcome::Reply(calls(&[("look", json!({}))])), "on it"),
        (
            Outcome::ModelFailed {
                fault: Fault::new(Code::LlmServer, "down"),
                shown: "On".to_owned(),
                used: None,
            },
            "On",
        ),
        (Outcome::Unknown, ""),
    ];
    for (outcome, shown) in outcomes {
        let mut drive = Drive::start();
        cancel(&mut drive, &[0]);
        assert_eq!((drive.said(), drive.numbers(), drive.last.node), (json!([]), vec![], Node::Reasoning));
        drive.outcome(0, outcome);
        assert_eq!(drive.said(), json!([last_words(shown)]));
        assert_eq!(cancelled(&drive), Receipt::default(), "a model call is no call of a receipt");
    }
}

#[test]
fn during_a_pause_it_ends_at_once() {
    let mut drive = Drive::start();
    let fault = Fault::new(Code::LlmServer, "down").retry_after_ms(5);
    drive.outcome(0, Outcome::ModelFailed { fault, shown: String::new(), used: None });
    cancel(&mut drive, &[1]);
    assert_eq!((drive.said(), cancelled(&drive)), (json!([last_words("")]), Receipt::default()));
}

/// One call of every kind: ended before, running, ready but not started, waiting for approval.
#[test]
fn while_tools_run_every_call_is_accounted_for_once() {
    let mut drive = Drive::start();
    drive.round(&[("look", json!({"n": 1}))]);
    drive.reply(calls(&[
        ("look", json!({"n": 3})),
        ("peek", json!({"n": 4})),
        ("look", json!({"n": 5})),
        ("peek", json!({"n": 6})),
        ("look", json!({"n": 7})),
        ("write", json!({"n": 8})),
    ]));
    assert_eq!(drive.numbers(), [3, 4, 5, 6, 7, 9]);
    drive.outcome(7, failed("broken"));
    cancel(&mut drive, &[3, 4, 5, 9]);
    let why = "it was cancelled before it started";
    let closed = |n: u32, name: &str| json!({"ToolResult": {"tool_call_id": format!("#{n}"), "tool_name": name, "result": why, "status": "cancelled"}});
    assert_eq!(drive.said(), json!([closed(6, "peek"), closed(8, "write")]));
    assert_eq!(drive.last.settled, [(format!("ap-{}", call_id(8)), ApprovalStatus::Cancelled)]);
    assert_eq!((drive.numbers(), drive.waiting().len()), (vec![], 0));

    drive.outcome(4, Outcome::Stopped { shown: String::new(), used: None });
    assert_eq!(
        drive.said(),
        json!([{"ToolResult": {"tool_call_id": "#4", "tool_name": "peek", "result": "it was stopped", "status": "cancelled"}}])
    );
    drive.outcome(5, Outcome::Unknown);
    drive.outcome(3, ok("just in time"));
    assert_eq!(
        drive.said(),
        json!([{"ToolResult": {"tool_call_id": "#3", "tool_name": "look", "result": "just in time"}}, last_words("")])
    );
    assert_eq!(
        cancelled(&drive),
        Receipt {
            finished: listed(&[(1, "look"), (7, "look"), (3, "look")]),
            stopped: listed(&[(4, "peek")]),
            unknown: listed(&[(5, "look")]),
            not_started: listed(&[(6, "peek"), (8, "write")]),
        }
    );
}

#[test]
fn a_question_is_not_waited_for_any_more() {
    let mut drive = Drive::start();
    drive.reply(calls(&[(ASK_USER, json!({"question": "which?"}))]));
    cancel(&mut drive, &[2]);
    let why = "it was cancelled before it started";
    assert_eq!(
        drive.said(),
        json!([{"ToolResult": {"tool_call_id": "#1", "tool_name": "ask_user", "result": why, "status": "cancelled"}}, last_words("")])
    );
    let receipt = Receipt { not_started: listed(&[(1, ASK_USER)]), ..Receipt::default() };
    assert_eq!((cancelled(&drive), drive.waiting().len()), (receipt, 0));
}

#[test]
fn a_call_that_was_approved_and_not_started_never_starts() {
    let mut drive = Drive::start();
    drive.reply(calls(&[("write", json!({}))]));
    let approval_id = format!("ap-{}", call_id(1));
    drive.message(Message::Decision {
        approval_id,
        choice: Choice::Approve,
        arguments: Some(json!({})),
        reason: None,
    });
    cancel(&mut drive, &[]);
    assert_eq!(drive.settled, [], "it was decided, and stays so");
    let receipt = Receipt { not_started: listed(&[(1, "write")]), ..Receipt::default() };
    assert_eq!((cancelled(&drive), drive.said()[1].clone()), (receipt, last_words("")));
}

#[test]
fn a_refused_call_is_in_no_receipt() {
    let mut drive = Drive::start();
    drive.reply(calls(&[("forbidden", json!({}))]));
    cancel(&mut drive, &[]);
    assert_eq!(cancelled(&drive), Receipt::default());
}

#[test]
fn what_comes_while_it_ends_is_not_taken_in() {
    let mut drive = Drive::start();
    drive.reply(calls(&[("look", json!({})), ("write", json!({}))]));
    cancel(&mut drive, &[1]);
    let before = drive.flow.record();
    drive.input("wait");
    assert_eq!((drive.flow.record(), drive.shown()), (before.clone(), json!([])));
    let approval_id = format!("ap-{}", call_id(2));
    drive.message(Message::Decision { approval_id, choice: Choice::Approve, arguments: None, reason: None });
    cancel(&mut drive, &[1]);
    assert_eq!((drive.flow.record(), plain(&drive.last.entries.len())), (before, json!(0)));
    drive.outcome(1, ok("seen"));
    let receipt = cancelled(&drive);
    assert_eq!((receipt.finished.len(), receipt.not_started.len()), (1, 1));
}

#[test]
fn a_failure_while_it_ends_warns_of_nothing() {
    let mut drive = Drive::start();
    drive.reply(calls(&[("look", json!({})), ("look", json!({})), ("look", json!({}))]));
    cancel(&mut drive, &[1, 2, 3]);
    for n in [1, 2, 3] {
        drive.outcome(n, failed("no"));
    }
    assert_eq!((drive.warnings(), cancelled(&drive).finished.len()), (vec![], 3));
}

#[test]
fn what_was_accepted_and_not_taken_in_yet_is_not_lost() {
    let mut drive = Drive::start();
    drive.input("and tests");
    cancel(&mut drive, &[0]);
    drive.outcome(0, Outcome::Stopped { shown: "Here".to_owned(), used: None });
    assert_eq!(
        drive.said(),
        json!([{"UserMessage": {"text": "and tests", "meta": "steering"}}, last_words("Here")])
    );
}
