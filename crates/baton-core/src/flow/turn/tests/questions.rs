//! Questions to the user.

use serde_json::{Value, json};

use super::drive::{Drive, NOW, PATIENCE_MS, call_id, calls, checked, refused, text};
use crate::effect::{Effect, EffectKind, Outcome, Reply, Wait};
use crate::flow::{Node, WaitingOn};
use crate::run::Verdict;
use crate::thread::WaitingKind;
use crate::tool::ASK_USER;

fn asking() -> Drive {
    let mut drive = Drive::start();
    drive.reply(calls(&[(ASK_USER, json!({"question": "which one?"}))]));
    drive
}

#[test]
fn a_question_is_waited_for() {
    let drive = asking();
    let deadline = NOW.plus_ms(PATIENCE_MS);
    assert_eq!(
        drive.said(),
        json!([
            {"AssistantMessage": {"content": "on it", "tool_calls": [{"id": "#1", "name": "ask_user", "arguments": {"question": "which one?"}}]}},
            {"ToolCall": {"id": "#1", "function_name": "ask_user", "arguments": {"question": "which one?"}, "provider_id": "p-ask_user"}},
            {"Waiting": {"kind": "user_input", "deadline": deadline.as_seconds(), "correlation_id": "#1"}},
        ])
    );
    assert_eq!(
        drive.shown(),
        json!([{"type": "tool_start", "name": "ask_user", "args": {"question": "which one?"}, "call_id": "#1"}])
    );
    let kind = EffectKind::Wait { what: Wait::Answer { call_id: call_id(1) }, deadline };
    assert_eq!(drive.wants(), [Effect { n: 2, kind }]);
    let waiting = WaitingOn {
        kind: WaitingKind::UserInput,
        id: call_id(1),
        deadline,
        question: Some("which one?".to_owned()),
    };
    assert_eq!(drive.waiting(), [waiting]);
}

#[test]
fn the_answer_is_a_response_and_a_result() {
    let mut drive = asking();
    drive.input("the red one");
    assert_eq!(
        drive.said(),
        json!([
            {"UserResponse": {"text": "the red one"}},
            {"ToolResult": {"tool_call_id": "#1", "tool_name": "ask_user", "result": "the red one"}},
        ])
    );
    assert_eq!(
        drive.shown(),
        json!([
            {"type": "tool_result", "name": "ask_user", "result": "the red one", "call_id": "#1", "status": "ok"},
            {"type": "input", "input_id": "in-the red one"},
        ])
    );
    assert_eq!((drive.last.node, drive.model(), drive.waiting().len()), (Node::ToolCall, (3, 5, true), 0));
    drive.outcome(2, Outcome::Expired);
    assert_eq!((drive.last.entries.len(), drive.model()), (0, (3, 5, true)), "a late alarm changes nothing");
    drive.reply(text("red it is"));
    assert_eq!((drive.verdict(), drive.warnings()), (Verdict::Ok, vec![]));
}

#[test]
fn a_question_that_nobody_answers_expires_with_a_warning() {
    let mut drive = asking();
    drive.outcome(2, Outcome::Expired);
    assert_eq!(
        drive.said(),
        json!([{"ToolResult": {"tool_call_id": "#1", "tool_name": "ask_user", "result": "nobody answered in time", "status": "expired"}}])
    );
    assert_eq!(
        drive.shown(),
        json!([
            {"type": "warning", "code": "deadline", "message": "nobody answered in time; going on with the best answer"},
            {"type": "tool_result", "name": "ask_user", "result": "nobody answered in time", "call_id": "#1", "status": "expired"},
        ])
    );
    assert_eq!(drive.model(), (3, 4, true));
    drive.input("the red one");
    assert_eq!(drive.said(), json!([]), "the answer comes too late and steers");
    drive.reply(text("I took blue"));
    assert_eq!(drive.said()[1], json!({"UserMessage": {"text": "the red one", "meta": "steering"}}));
}

#[test]
fn answers_go_to_the_oldest_question_and_then_steer() {
    let mut drive = Drive::start();
    let ask = |text: &str| (ASK_USER, json!({"question": text}));
    drive.reply(calls(&[ask("size?"), ask("colour?")]));
    let asked: Vec<_> = drive.waiting().into_iter().map(|waiting| waiting.question.unwrap()).collect();
    assert_eq!(asked, ["size?", "colour?"]);
    let answer = |n: u32, text: &str| {
        json!([{"UserResponse": {"text": text}},
            {"ToolResult": {"tool_call_id": format!("#{n}"), "tool_name": "ask_user", "result": text}}])
    };
    drive.input("large");
    assert_eq!(drive.said(), answer(1, "large"));
    drive.input("red");
    assert_eq!((drive.said(), drive.model()), (answer(2, "red"), (5, 9, true)));
    drive.input("quick");
    assert_eq!((drive.said(), drive.numbers()), (json!([]), vec![5]), "no question is open any more");
    drive.reply(text("a large red one"));
    assert_eq!(drive.said()[1], json!({"UserMessage": {"text": "quick", "meta": "steering"}}));
}

#[test]
fn a_question_runs_alone() {
    let mut drive = Drive::start();
    drive.reply(calls(&[
        ("look", json!({"n": 1})),
        (ASK_USER, json!({"question": "which?"})),
        ("write", json!({})),
        ("look", json!({"n": 2})),
        ("look", json!({"n": 3})),
    ]));
    let why = "a question to the person runs alone, so this call was not run; call it again when you have the answer";
    let closed = |n: u32, name: &str| json!({"type": "tool_result", "name": name, "result": why, "call_id": format!("#{n}"), "status": "error"});
    let started = |n: u32, name: &str, args: Value| json!({"type": "tool_start", "name": name, "args": args, "call_id": format!("#{n}")});
    assert_eq!(
        drive.shown(),
        json!([
            started(1, "look", json!({"n": 1})),
            closed(1, "look"),
            started(2, "ask_user", json!({"question": "which?"})),
            started(3, "write", json!({})),
            closed(3, "write"),
            started(4, "look", json!({"n": 2})),
            closed(4, "look"),
            started(5, "look", json!({"n": 3})),
            closed(5, "look"),
        ]),
        "and nobody is asked about what does not run"
    );
    assert_eq!((drive.numbers(), drive.asked.len()), (vec![6], 0), "only the question is waited for");
    drive.input("this one");
    assert_eq!(drive.model(), (7, 13, true), "three calls that were put off are no failures of one");
}

#[test]
fn a_question_that_cannot_be_asked_stops_nothing() {
    let mut drive = Drive::start();
    let odd = refused(ASK_USER, "question is missing");
    drive.reply(Reply { calls: vec![odd, checked("look", json!({}))], ..calls(&[]) });
    assert_eq!((drive.numbers(), drive.waiting().len()), (vec![2], 0));
}

#[test]
fn a_question_without_words_is_still_asked() {
    for odd in [json!({}), json!({"question": 7}), json!({"question": ""})] {
        let mut drive = Drive::start();
        drive.reply(calls(&[(ASK_USER, odd)]));
        assert_eq!(drive.waiting().len(), 1);
    }
}
