//! Models and tools that fail.

use serde_json::json;

use super::drive::{Drive, NOW, call_id, calls, definition, failed, no_usage, ok, said, text, told};
use crate::effect::{Effect, EffectKind, Outcome, Trim, View, Wait};
use crate::fault::{Code, Fault};
use crate::flow::{Node, WaitingOn};
use crate::run::Verdict;

fn model_failed(fault: Fault, shown: &str) -> Outcome {
    Outcome::ModelFailed { fault, shown: shown.to_owned(), used: None }
}

fn slow_down() -> Fault {
    Fault::new(Code::LlmRateLimited, "slow down").retry_after_ms(500)
}

#[test]
fn a_failure_worth_another_try_pauses_and_asks_again_twice() {
    let mut drive = Drive::start();
    for (asked, pause) in [(0, 1), (2, 3)] {
        drive.outcome(asked, model_failed(slow_down(), ""));
        assert_eq!(
            drive.shown(),
            json!([{"type": "warning", "code": "llm_rate_limited", "message": "slow down; trying again"}])
        );
        assert_eq!(
            drive.account(),
            json!([{"type": "warning", "description": "slow down; trying again", "metadata": {"error": "llm_rate_limited", "reason": "retry", "model": "m/x", "model_role": "reasoning"}}])
        );
        assert_eq!(drive.last.node, Node::Reasoning);
        let kind = EffectKind::Wait { what: Wait::Time, deadline: NOW.plus_ms(500) };
        assert_eq!(drive.wants(), [Effect { n: pause, kind }]);
        assert_eq!(drive.waiting(), [] as [WaitingOn; 0], "no person is waited for");
        drive.outcome(pause, Outcome::Expired);
        assert_eq!((drive.last.entries.len(), drive.last.node), (0, Node::Reasoning));
        assert_eq!(drive.model(), (pause + 1, 0, true));
        let EffectKind::Model { attempt, message_id, .. } = &drive.wants()[0].kind else { panic!() };
        assert_eq!((*attempt, message_id), (pause.div_ceil(2) + 1, &call_id(pause + 1)));
    }
    drive.outcome(4, model_failed(slow_down(), ""));
    assert_eq!(
        drive.said(),
        json!([{"AssistantMessage": {"content": "", "meta": "error:llm_rate_limited"}}])
    );
    assert_eq!(drive.verdict(), told(slow_down()));
}

#[test]
fn a_later_model_call_has_tries_of_its_own() {
    let mut drive = Drive::start();
    drive.outcome(0, model_failed(slow_down(), ""));
    drive.outcome(1, Outcome::Expired);
    drive.round(&[("look", json!({}))]);
    let EffectKind::Model { attempt, .. } = drive.wants()[0].kind else { panic!() };
    assert_eq!(attempt, 1);
}

#[test]
fn what_was_shown_is_not_said_twice() {
    let mut drive = Drive::start();
    drive.outcome(0, model_failed(slow_down(), "Once upon"));
    assert_eq!(
        drive.said(),
        json!([{"AssistantMessage": {"content": "Once upon", "meta": "error:llm_rate_limited"}}])
    );
    assert_eq!((drive.last.node, drive.verdict()), (Node::Respond, told(slow_down())));
}

#[test]
fn a_failure_that_is_final_ends_the_turn_and_is_remembered() {
    let fault = Fault::new(Code::LlmAuth, "the key was not accepted");
    let mut drive = Drive::start();
    drive.outcome(0, model_failed(fault.clone(), ""));
    assert_eq!(drive.said(), json!([{"AssistantMessage": {"content": "", "meta": "error:llm_auth"}}]));
    assert_eq!(
        drive.account(),
        json!([{"type": "warning", "description": "the key was not accepted", "metadata": {"error": "llm_auth", "model": "m/x", "model_role": "reasoning"}}])
    );
    let message = "The key was not accepted. Check the key and the account; `baton doctor` says where the key is read from.";
    let said = Verdict::Error(Fault::new(Code::LlmAuth, message));
    assert_eq!((drive.events.len(), drive.verdict()), (0, said), "the end itself says it");
}

#[test]
fn a_server_that_wants_more_than_a_minute_is_not_waited_for() {
    for (after_ms, waits) in [(60_000, true), (60_001, false), (u64::MAX, false)] {
        let mut drive = Drive::start();
        let fault = slow_down().retry_after_ms(after_ms);
        drive.outcome(0, model_failed(fault.clone(), ""));
        if waits {
            let kind = EffectKind::Wait { what: Wait::Time, deadline: NOW.plus_ms(after_ms) };
            assert_eq!(drive.wants(), [Effect { n: 1, kind }]);
        } else {
            assert_eq!((drive.verdict(), drive.warnings()), (told(fault), vec![]));
        }
    }
}

#[test]
fn a_second_empty_answer_is_an_error() {
    for empty in ["", " \n\t"] {
        let mut drive = Drive::start();
        drive.reply(text(empty));
        let asked = json!({"type": "llm_call", "description": "m/x answered", "metadata": {"model": "m/x", "model_role": "reasoning", "usage": no_usage()}});
        let message = "the model gave an empty answer; asking again, more simply";
        let warned = json!({"type": "warning", "description": message, "metadata": {"error": "llm_invalid_response", "reason": "simplified", "model": "m/x", "model_role": "reasoning"}});
        assert_eq!((drive.said(), drive.account()), (json!([]), json!([asked, warned])));
        assert_eq!(
            drive.shown(),
            json!([{"type": "warning", "code": "llm_invalid_response", "message": message}])
        );
        let EffectKind::Model { attempt, view, .. } = drive.wants()[0].kind else { panic!() };
        assert_eq!((attempt, view), (2, View { first: Some(0), lowest: Some(0), trim: Trim::Simple }));

        drive.reply(text(empty));
        let fault = Fault::new(Code::LlmInvalidResponse, "the model gave an empty answer");
        assert_eq!(drive.verdict(), told(fault));
        assert_eq!(
            drive.said(),
            json!([{"AssistantMessage": {"content": "", "meta": "error:llm_invalid_response"}}])
        );
    }
}

#[test]
fn a_model_call_without_an_outcome_is_a_fault_of_ours() {
    for odd in [
        Outcome::Unknown,
        Outcome::Expired,
        Outcome::Stopped { shown: String::new(), used: None },
        ok("a tool's"),
    ] {
        let mut drive = Drive::start();
        drive.outcome(0, odd);
        let fault = Fault::new(Code::Internal, "the model call ended without an outcome");
        assert_eq!(drive.verdict(), Verdict::Error(fault));
    }
}

#[test]
fn an_unknown_outcome_is_told_to_the_model() {
    let mut drive = Drive::start();
    drive.reply(calls(&[("look", json!({}))]));
    drive.outcome(1, Outcome::Unknown);
    let why = "it was interrupted, and nobody knows whether it took effect; check before you call it again";
    assert_eq!(
        drive.said(),
        json!([{"ToolResult": {"tool_call_id": "#1", "tool_name": "look", "result": why, "status": "unknown"}}])
    );
    assert_eq!(drive.model(), (2, 3, true));
}

#[test]
fn the_same_call_that_fails_three_times_ends_the_rounds() {
    let mut patient = definition();
    patient.decision.limits.iterations = 99;
    let mut drive = Drive::start_with(patient);
    for (round, wanted) in [(1, 1), (2, 3), (3, 5)] {
        assert!(drive.model().2, "round {round} has tools");
        drive.reply(calls(&[("look", json!({"at": 1}))]));
        drive.outcome(wanted, failed("not there"));
    }
    assert_eq!(
        drive.shown(),
        json!([
            {"type": "tool_result", "name": "look", "result": "not there", "call_id": "#5", "status": "error"},
            {"type": "warning", "code": "no_progress", "message": "the same call of look failed 3 times; the next answer is the last, without tools"},
        ])
    );
    assert_eq!(drive.model(), (6, 9, false));
    drive.reply(text("I could not"));
    assert_eq!((drive.verdict(), drive.warnings()), (Verdict::Ok, vec!["no_progress"]));
}

#[test]
fn other_arguments_and_other_ends_are_not_the_same_failure() {
    let mut patient = definition();
    patient.decision.limits.iterations = 99;
    let mut drive = Drive::start_with(patient);
    for at in 1..=5 {
        drive.reply(calls(&[("look", json!({"at": at})), ("look", json!({"at": 0}))]));
        let [one, two] = drive.numbers()[..] else { panic!() };
        drive.outcome(one, failed("not there"));
        drive.outcome(two, Outcome::Unknown);
    }
    assert_eq!((drive.warnings(), drive.model().2), (vec![], true));
}

#[test]
fn equal_calls_side_by_side_are_warned_about_once() {
    let mut drive = Drive::start();
    drive.reply(calls(&[("look", json!({})), ("look", json!({})), ("look", json!({})), ("look", json!({}))]));
    for n in [1, 2, 3, 4] {
        drive.outcome(n, failed("no"));
    }
    assert_eq!((drive.warnings(), drive.model().2), (vec!["no_progress"], false));
    assert_eq!(said(&drive.entries).as_array().unwrap().len(), 10);
}
