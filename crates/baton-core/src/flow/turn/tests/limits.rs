//! Limits: rounds, time, tokens, calls.

use serde_json::{Value, json};

use super::drive::{Drive, calls, definition, ok, refused, text, told};
use crate::budget::Limit;
use crate::effect::{Outcome, Reply};
use crate::fault::{Code, Fault};
use crate::flow::{Input, Node};
use crate::run::{Definition, Verdict};
use crate::tool::ASK_USER;

fn limit(drive: &mut Drive, limit: Limit, effect: Option<u32>, in_flight: &[u32]) {
    drive.apply(Input::Limit { limit, effect, in_flight: in_flight.to_vec() });
}

fn rounds(iterations: u32) -> Definition {
    let mut definition = definition();
    definition.decision.limits.iterations = iterations;
    definition
}

#[test]
fn after_the_last_round_the_model_answers_without_tools() {
    for iterations in 1..=3 {
        let mut drive = Drive::start_with(rounds(iterations));
        for round in 1..=iterations {
            assert!(drive.model().2, "round {round} of {iterations}");
            drive.round(&[("look", json!({"at": round}))]);
        }
        let why = "the limit of tool rounds was reached; the next answer is the last, without tools";
        assert_eq!(drive.shown()[1], json!({"type": "warning", "code": "budget_exceeded", "message": why}));
        assert!(!drive.model().2);
        drive.reply(text("as far as I got"));
        assert_eq!((drive.verdict(), drive.warnings()), (Verdict::Ok, vec!["budget_exceeded"]));
    }
}

#[test]
fn no_rounds_are_no_tools() {
    let mut drive = Drive::start_with(rounds(0));
    assert_eq!(drive.model(), (0, 0, false));
    drive.reply(text("from memory"));
    assert_eq!((drive.verdict(), drive.warnings()), (Verdict::Ok, vec![]));
}

#[test]
fn a_model_that_calls_tools_in_its_last_answer_is_not_obeyed() {
    let mut drive = Drive::start_with(rounds(1));
    drive.round(&[("look", json!({}))]);
    drive.reply(calls(&[("look", json!({})), ("write", json!({}))]));
    assert_eq!(drive.said(), json!([{"AssistantMessage": {"content": "on it"}}]), "its text is the answer");
    assert_eq!((drive.verdict(), drive.asked.len()), (Verdict::Ok, 0));

    let mut drive = Drive::start_with(rounds(1));
    drive.round(&[("look", json!({}))]);
    for again in [true, false] {
        drive.reply(Reply { text: String::new(), ..calls(&[("look", json!({}))]) });
        if again {
            assert_eq!(drive.model(), (3, 3, false), "asked once more, and still without tools");
        }
    }
    let fault = Fault::new(Code::LlmInvalidResponse, "the model gave an empty answer");
    assert_eq!(drive.verdict(), told(fault), "no text is no answer");
}

#[test]
fn a_question_costs_no_round_and_anything_else_does() {
    let question = |drive: &mut Drive| {
        drive.reply(calls(&[(ASK_USER, json!({"question": "which?"}))]));
        drive.input("this one");
    };
    let mut drive = Drive::start_with(rounds(1));
    for _ in 0..5 {
        question(&mut drive);
        assert!(drive.model().2);
    }
    drive.reply(calls(&[(ASK_USER, json!({"question": "which?"})), ("look", json!({}))]));
    drive.input("this one");
    assert!(!drive.model().2, "a question beside a call costs the round that the call would have");
}

/// A model that keeps making calls that are refused must not go on for ever.
#[test]
fn a_question_that_was_not_asked_is_a_round() {
    let mut silent = rounds(2);
    silent.decision.tools.retain(|name| name != ASK_USER);
    let mut denied = Drive::start_with(silent);
    let mut refused_ = Drive::start_with(rounds(2));
    for round in 1..=2 {
        denied.reply(calls(&[(ASK_USER, json!({"question": "which?"}))]));
        let bad = refused(ASK_USER, &format!("{round} is not a question"));
        refused_.reply(Reply { calls: vec![bad], ..calls(&[]) });
    }
    assert_eq!((denied.model().2, refused_.model().2), (false, false));
    assert_eq!(denied.warnings(), ["refused", "refused", "budget_exceeded"]);
    assert_eq!(refused_.warnings(), ["budget_exceeded"]);
}

#[test]
fn a_limit_ends_the_turn_with_the_text_that_there_is() {
    for (which, code, words) in [
        (Limit::ActiveTime, "deadline", "the time limit"),
        (Limit::Tokens, "budget_exceeded", "the token limit"),
        (Limit::Cost, "budget_exceeded", "the cost limit"),
        (Limit::UnknownPrice, "price_unknown", "a cost limit for a model whose price is not known"),
        (Limit::ToolCalls, "budget_exceeded", "the limit of tool calls"),
    ] {
        let mut drive = Drive::start();
        limit(&mut drive, which, None, &[0]);
        assert_eq!((drive.numbers(), drive.last.entries.len()), (vec![], 0), "it waits for what was started");
        drive.outcome(0, Outcome::Stopped { shown: "Once upon".to_owned(), used: None });
        assert_eq!(
            drive.said(),
            json!([{"AssistantMessage": {"content": "Once upon", "meta": format!("error:{code}")}}])
        );
        let message = format!("{words} was reached; this is the best answer so far");
        assert_eq!(drive.shown(), json!([{"type": "warning", "code": code, "message": message}]));
        assert_eq!((drive.last.node, drive.verdict()), (Node::Respond, Verdict::Ok));
    }
}

#[test]
fn a_limit_without_any_text_is_an_error() {
    for (result, shown) in [
        (None, ""),
        (Some(Outcome::Stopped { shown: String::new(), used: None }), ""),
        (Some(Outcome::Stopped { shown: " \n".to_owned(), used: None }), " \n"),
        (Some(Outcome::Unknown), ""),
    ] {
        let mut drive = Drive::start();
        let in_flight: &[u32] = if result.is_some() { &[0] } else { &[] };
        limit(&mut drive, Limit::ActiveTime, None, in_flight);
        if let Some(result) = result {
            drive.outcome(0, result);
        }
        assert_eq!(drive.said(), json!([{"AssistantMessage": {"content": shown, "meta": "error:deadline"}}]));
        let fault = Fault::new(Code::Deadline, "the time limit was reached");
        assert_eq!((drive.verdict(), drive.warnings()), (Verdict::Error(fault), vec![]));
    }
}

/// An earlier answer stands as the last one when the budget does not cover the next model call.
#[test]
fn an_earlier_answer_is_the_best_there_is() {
    let mut drive = Drive::start();
    drive.input("and then?");
    drive.reply(text("first this"));
    limit(&mut drive, Limit::Tokens, Some(1), &[]);
    assert_eq!((drive.verdict(), drive.warnings()), (Verdict::Ok, vec!["budget_exceeded"]));
}

#[test]
fn a_limit_closes_what_has_not_started_and_waits_for_the_rest() {
    let mut drive = Drive::start();
    drive.reply(calls(&[("look", json!({})), ("peek", json!({})), ("write", json!({}))]));
    limit(&mut drive, Limit::ActiveTime, None, &[1]);
    let why = "it was cancelled before it started";
    let cancelled = |n: u32, name: &str| json!({"ToolResult": {"tool_call_id": format!("#{n}"), "tool_name": name, "result": why, "status": "cancelled"}});
    assert_eq!(drive.said(), json!([cancelled(2, "peek"), cancelled(3, "write")]));
    assert_eq!(drive.numbers(), [0; 0], "nothing is wanted any more");
    drive.outcome(1, ok("just in time"));
    assert_eq!(
        drive.said(),
        json!([
            {"ToolResult": {"tool_call_id": "#1", "tool_name": "look", "result": "just in time"}},
            {"AssistantMessage": {"content": "", "meta": "error:deadline"}},
        ])
    );
    let fault = Fault::new(Code::Deadline, "the time limit was reached");
    assert_eq!(drive.verdict(), Verdict::Error(fault));
}

#[test]
fn a_call_over_the_limit_is_not_made_and_the_next_answer_is_the_last() {
    let mut drive = Drive::start();
    drive.reply(calls(&[("look", json!({})), ("peek", json!({}))]));
    limit(&mut drive, Limit::ToolCalls, Some(2), &[1]);
    let why = "the limit of tool calls was reached";
    assert_eq!(
        drive.said(),
        json!([{"ToolResult": {"tool_call_id": "#2", "tool_name": "peek", "result": why, "status": "cancelled"}}])
    );
    assert_eq!(
        drive.shown()[1],
        json!({"type": "warning", "code": "budget_exceeded", "message": format!("{why}; the next answer is the last, without tools")})
    );
    assert_eq!((drive.numbers(), drive.last.node), (vec![1], Node::ToolCall), "its sibling goes on");
    drive.outcome(1, ok("seen"));
    assert_eq!(drive.model(), (3, 5, false));
    drive.reply(text("half of it"));
    assert_eq!((drive.verdict(), drive.warnings()), (Verdict::Ok, vec!["budget_exceeded"]));
}

#[test]
fn a_second_limit_changes_nothing() {
    let mut drive = Drive::start();
    limit(&mut drive, Limit::ActiveTime, None, &[0]);
    let before = drive.flow.record();
    limit(&mut drive, Limit::Tokens, None, &[0]);
    drive.apply(Input::Cancel { in_flight: vec![0] });
    limit(&mut drive, Limit::ToolCalls, Some(9), &[0]);
    assert_eq!((drive.flow.record(), drive.last.entries.len()), (before, 0));
    drive.outcome(0, Outcome::Reply(text("done after all")));
    assert_eq!(drive.verdict(), Verdict::Ok);
}

/// One answer may have 64 calls.
#[test]
fn as_many_calls_as_a_model_may_make_fit_the_state() {
    let mut drive = Drive::start();
    let wanted: Vec<(&str, Value)> = (0..64).map(|n| (["look", "write"][n % 2], json!({"n": n}))).collect();
    drive.reply(calls(&wanted));
    assert_eq!((drive.wants().len(), drive.waiting().len()), (64, 32));
    for n in drive.numbers() {
        drive.outcome(n, if n <= 64 { ok("seen") } else { Outcome::Expired });
    }
    assert_eq!(drive.model(), (97, 161, true));
}

/// Half of the calls are questions to the user of the greatest length.
#[test]
fn as_many_questions_as_a_model_may_ask_fit_the_state() {
    let mut drive = Drive::start();
    let mut wanted: Vec<(&str, Value)> = (0..32).map(|n| ("look", json!({"n": n}))).collect();
    wanted.extend((0..32).map(|n| (ASK_USER, json!({"question": format!("{n}?{}", "\u{0}".repeat(9_000))}))));
    drive.reply(calls(&wanted));
    let asked: Vec<String> = drive.waiting().into_iter().filter_map(|waiting| waiting.question).collect();
    assert_eq!(asked.iter().map(|question| &question[..2]).collect::<Vec<_>>(), ["0?", "1?", "2?"]);
    let told = &drive.last.entries.last().unwrap().data()["result"];
    assert_eq!(told, "too many questions are open already; ask fewer at once");
    for answer in ["a", "b", "c"] {
        drive.input(answer);
    }
    assert_eq!(drive.model(), (68, 135, true));
}
