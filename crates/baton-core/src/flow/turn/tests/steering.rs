//! Messages to a running agent.

use serde_json::json;

use super::drive::{Drive, calls, definition, ok, said, text};
use crate::effect::Outcome;
use crate::fault::{Code, Fault};
use crate::flow::Node;
use crate::run::{Message, Verdict};

#[test]
fn what_is_said_while_the_model_answers_is_taken_in_after_the_answer() {
    let mut drive = Drive::start();
    drive.input("and tests");
    assert_eq!(drive.said(), json!([]));
    assert_eq!(drive.shown(), json!([{"type": "input", "input_id": "in-and tests"}]));
    assert_eq!(
        (drive.last.node, drive.model()),
        (Node::Reasoning, (0, 0, true)),
        "the call goes on as it was"
    );
    drive.input("and docs");
    drive.reply(text("here it is"));
    assert_eq!(
        drive.said(),
        json!([
            {"AssistantMessage": {"content": "here it is"}},
            {"UserMessage": {"text": "and tests", "meta": "steering"}},
            {"UserMessage": {"text": "and docs", "meta": "steering"}},
        ])
    );
    assert_eq!(drive.model(), (1, 3, true));
    drive.reply(text("with both"));
    assert_eq!((drive.verdict(), drive.entries.len()), (Verdict::Ok, 5));
}

#[test]
fn what_is_said_while_tools_run_is_taken_in_after_the_last_of_them() {
    let mut drive = Drive::start();
    drive.reply(calls(&[("look", json!({})), ("peek", json!({}))]));
    drive.input("hurry");
    assert_eq!((drive.said(), drive.last.node), (json!([]), Node::ToolCall));
    drive.outcome(1, ok("one"));
    assert_eq!(drive.last.entries.len(), 1, "not between a call and its sibling");
    drive.outcome(2, ok("two"));
    assert_eq!(
        drive.said(),
        json!([
            {"ToolResult": {"tool_call_id": "#2", "tool_name": "peek", "result": "two"}},
            {"UserMessage": {"text": "hurry", "meta": "steering"}},
        ])
    );
    assert_eq!(drive.model(), (3, 6, true), "the model sees it");
}

#[test]
fn what_is_said_while_the_model_decides_to_call_waits_for_the_tools() {
    let mut drive = Drive::start();
    drive.input("hurry");
    drive.round(&[("look", json!({}))]);
    assert_eq!(drive.said()[1], json!({"UserMessage": {"text": "hurry", "meta": "steering"}}));
}

#[test]
fn what_is_said_during_a_pause_waits_too() {
    let mut drive = Drive::start();
    let fault = Fault::new(Code::LlmServer, "down").retry_after_ms(5);
    drive.outcome(0, Outcome::ModelFailed { fault, shown: String::new(), used: None });
    drive.input("still there?");
    assert_eq!((drive.said(), drive.numbers()), (json!([]), vec![1]));
    drive.outcome(1, Outcome::Expired);
    drive.reply(text("here"));
    assert_eq!(drive.said()[1], json!({"UserMessage": {"text": "still there?", "meta": "steering"}}));
}

#[test]
fn what_is_said_after_the_last_answer_gets_another_without_tools() {
    let mut short = definition();
    short.decision.limits.iterations = 1;
    let mut drive = Drive::start_with(short);
    drive.round(&[("look", json!({}))]);
    drive.input("and?");
    drive.reply(text("that was all"));
    assert!(!drive.model().2);
    drive.reply(text("really"));
    assert_eq!((drive.verdict(), drive.warnings()), (Verdict::Ok, vec!["budget_exceeded"]));
}

#[test]
fn too_much_at_once_is_not_taken_in_and_said_so() {
    let mut drive = Drive::start();
    for n in 1..=6 {
        drive.input(&n.to_string());
    }
    let before = drive.flow.record();
    drive.input("seven");
    assert_eq!(
        drive.shown(),
        json!([{"type": "warning", "code": "budget_exceeded", "message": "a message was not taken in: too much is waiting already"}])
    );
    assert_eq!(drive.flow.record(), before);
    drive.reply(text("one moment"));
    assert_eq!(said(&drive.last.entries).as_array().unwrap().len(), 7);
    drive.input("seven");
    assert_eq!(drive.shown(), json!([{"type": "input", "input_id": "in-seven"}]), "now there is room");
}

#[test]
fn long_messages_do_not_outgrow_the_state() {
    let mut drive = Drive::start();
    for _ in 0..6 {
        drive.input(&"\u{1}é\"".repeat(400));
    }
    assert!(drive.warnings().contains(&"budget_exceeded"));
    drive.reply(text("well"));
    assert!(drive.last.entries.len() > 1, "the first of them was taken in");
}

#[test]
fn a_cancel_among_messages_is_not_one_of_them() {
    let mut drive = Drive::start();
    let before = drive.flow.record();
    drive.message(Message::Cancel);
    assert_eq!((drive.flow.record(), drive.last.events.len()), (before, 0));
}
