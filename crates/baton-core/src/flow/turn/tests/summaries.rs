//! A thread that is too long is summarised before the model is asked.

use serde_json::{Value, json};

use super::drive::{Drive, call_id, calls, definition, laddered, no_usage, plain, text, told};
use crate::budget::Limit;
use crate::effect::{Effect, EffectKind, Outcome, Purpose, Reply, Trim, View};
use crate::fault::{Code, Fault};
use crate::flow::{Input, Node};
use crate::run::{Definition, Receipt, Verdict};

/// A turn in which the model was asked once and has too much to read now.
fn too_long(definition: Definition) -> Drive {
    let mut drive = Drive::start_with(definition);
    drive.round(&[("look", json!({}))]);
    drive.outcome(2, Outcome::TooLong { up_to: 0 });
    drive
}

fn summary_call(role: &str, rung: u32) -> Effect {
    let kind = EffectKind::Model {
        role: role.to_owned(),
        rung,
        head: 3,
        tools: false,
        message_id: call_id(3),
        attempt: 1,
        purpose: Purpose::Summary { up_to: 0 },
        view: View { first: Some(0), lowest: Some(0), trim: Trim::None },
        last_resort: true,
    };
    Effect { n: 3, kind }
}

/// The question after a summary, or after none could be made.
fn asked_again(rung: u32, head: i64, view: View, last_resort: bool) -> Effect {
    let kind = EffectKind::Model {
        role: "reasoning".to_owned(),
        rung,
        head,
        tools: true,
        message_id: call_id(4),
        attempt: 1,
        purpose: Purpose::Answer,
        view,
        last_resort,
    };
    Effect { n: 4, kind }
}

const LESS: View = View { first: Some(0), lowest: Some(0), trim: Trim::Compact { fits: None } };

fn failed(fault: Fault) -> Outcome {
    Outcome::ModelFailed { fault, shown: String::new(), used: None }
}

/// The warning in place of a summary, as event and step.
fn without(why: &str, error: &str, [model, role]: [&str; 2], usage: Option<Value>) -> (Value, Value) {
    let message = format!("no summary could be made ({why}); leaving out what does not fit");
    let mut metadata = json!({"error": error, "reason": "compaction", "model": model, "model_role": role});
    if let Some(usage) = usage {
        metadata["usage"] = usage;
    }
    (
        json!({"type": "warning", "code": error, "message": message}),
        json!({"type": "warning", "description": message, "metadata": metadata}),
    )
}

#[test]
fn what_is_too_long_is_summarised_by_the_router_and_asked_about_again() {
    let mut drive = too_long(laddered());
    assert_eq!((drive.said(), drive.shown(), drive.account()), (json!([]), json!([]), json!([])));
    assert_eq!((drive.wants(), drive.last.node), (vec![summary_call("router", 0)], Node::Reasoning));

    drive.outcome(3, Outcome::Reply(Reply { model: "c/small".to_owned(), ..text("in short") }));
    assert_eq!(drive.said(), json!([{"Summary": {"text": "in short", "up_to": 0}}]));
    assert_eq!(drive.shown(), json!([]), "nobody sees it arrive");
    let metadata = json!({"model": "c/small", "model_role": "router", "usage": no_usage()});
    assert_eq!(
        drive.account(),
        json!([{"type": "summary", "description": "c/small summarised the thread", "metadata": metadata}])
    );
    assert_eq!(drive.wants(), [asked_again(0, 4, View::default(), false)], "with the summary in sight");
    drive.reply(text("done"));
    assert_eq!(drive.verdict(), Verdict::Ok);
}

#[test]
fn without_a_router_whoever_answers_summarises() {
    let mut alone = laddered();
    alone.decision.roles = vec!["reasoning".to_owned()];
    assert_eq!(too_long(alone.clone()).wants(), [summary_call("reasoning", 0)]);

    let mut fallen = Drive::start_with(alone);
    fallen.model_fails(Fault::new(Code::LlmServer, "down"));
    fallen.outcome(1, Outcome::TooLong { up_to: 0 });
    let EffectKind::Model { rung, .. } = fallen.wants()[0].kind else { panic!() };
    assert_eq!(rung, 1, "not the one that is down");
    fallen.outcome(2, Outcome::Reply(Reply { model: "b/mid".to_owned(), ..text("in short") }));
    let metadata = json!({"model": "b/mid", "model_role": "reasoning", "usage": no_usage()});
    assert_eq!(
        fallen.account(),
        json!([{"type": "summary", "description": "b/mid summarised the thread", "metadata": metadata}])
    );
}

#[test]
fn without_a_summary_what_does_not_fit_is_left_out() {
    let why = [
        (failed(Fault::new(Code::LlmServer, "down")), "down", "llm_server"),
        (failed(Fault::new(Code::LlmServer, "down").retry_after_ms(5)), "down", "llm_server"),
        (failed(Fault::new(Code::LlmAuth, "no key")), "no key", "llm_auth"),
        (Outcome::Reply(text(" \n")), "it was empty", "llm_invalid_response"),
        (
            Outcome::Reply(Reply { text: String::new(), ..calls(&[("look", json!({}))]) }),
            "it was empty",
            "llm_invalid_response",
        ),
        (Outcome::TooLong { up_to: 0 }, "the model call ended without an outcome", "internal"),
        (Outcome::Unknown, "the model call ended without an outcome", "internal"),
    ];
    for (outcome, why, code) in why {
        let usage = matches!(outcome, Outcome::Reply(_)).then(no_usage);
        let mut drive = too_long(laddered());
        drive.outcome(3, outcome);
        let (event, step) = without(why, code, ["c/small", "router"], usage);
        assert_eq!((drive.said(), drive.shown()), (json!([]), json!([event])));
        assert_eq!(drive.account(), json!([step]));
        assert_eq!(drive.wants(), [asked_again(0, 3, LESS, false)], "and nobody is asked for one again");
        let fault = Fault::new(Code::ContextTooLong, "too much");
        drive.model_fails(fault.clone());
        assert_eq!(drive.verdict(), told(fault), "the one compaction is made");
    }
}

#[test]
fn who_did_not_summarise_in_time_is_not_asked_for_the_answer_either() {
    let slow = Fault::new(Code::LlmTimeout, "too slow");
    let mut routed = too_long(laddered());
    routed.outcome(3, failed(slow.clone()));
    assert_eq!(routed.wants(), [asked_again(0, 3, LESS, false)]);
    routed.model_fails(Fault::new(Code::LlmServer, "down"));
    let EffectKind::Model { rung, last_resort, .. } = routed.wants()[0].kind else { panic!() };
    assert_eq!((rung, last_resort), (1, true), "the router is out of it");

    let mut alone = laddered();
    alone.decision.roles = vec!["reasoning".to_owned()];
    let mut fallen = too_long(alone);
    fallen.outcome(3, failed(slow.clone()));
    let (event, step) = without("too slow", "llm_timeout", ["a/big", "reasoning"], None);
    let message = "too slow; asking b/mid";
    let metadata =
        json!({"error": "llm_timeout", "reason": "fallback", "model": "a/big", "model_role": "reasoning"});
    assert_eq!(
        fallen.shown(),
        json!([event, {"type": "warning", "code": "llm_timeout", "message": message}])
    );
    assert_eq!(
        fallen.account(),
        json!([step, {"type": "warning", "description": message, "metadata": metadata}])
    );
    assert_eq!(fallen.wants(), [asked_again(1, 3, LESS, true)]);

    let mut only = too_long(definition());
    only.outcome(3, failed(slow.clone()));
    assert_eq!((only.verdict(), only.shown()), (told(slow), json!([])), "the one model serves every role");
}

#[test]
fn a_second_time_too_long_is_an_error() {
    let mut drive = too_long(laddered());
    drive.outcome(3, Outcome::Reply(text("in short")));
    drive.outcome(4, Outcome::TooLong { up_to: 2 });
    let fault = Fault::new(Code::ContextTooLong, "the conversation does not fit, even with a summary");
    assert_eq!((drive.verdict(), drive.warnings()), (told(fault), vec![]));
    assert_eq!(
        drive.said(),
        json!([{"AssistantMessage": {"content": "", "meta": "error:context_too_long"}}])
    );
}

#[test]
fn the_next_question_may_be_summarised_again() {
    let mut drive = too_long(laddered());
    drive.outcome(3, Outcome::Reply(text("in short")));
    drive.round(&[("look", json!({}))]);
    let n = drive.model().0;
    drive.outcome(n, Outcome::TooLong { up_to: 3 });
    let EffectKind::Model { purpose, .. } = drive.wants()[0].kind.clone() else { panic!() };
    assert_eq!(purpose, Purpose::Summary { up_to: 3 });
}

#[test]
fn a_summary_is_asked_of_whoever_is_left() {
    let mut drive = Drive::start_with(laddered());
    drive.model_fails(Fault::new(Code::LlmServer, "down"));
    drive.outcome(1, Outcome::TooLong { up_to: 0 });
    drive.outcome(2, Outcome::Reply(text("in short")));
    let EffectKind::Model { rung, attempt, .. } = drive.wants()[0].kind else { panic!() };
    assert_eq!((rung, attempt), (1, 1), "the question stays where it was on the ladder");
}

#[test]
fn a_cancel_while_it_is_summarised_keeps_nothing_of_it() {
    let outcomes = [
        Outcome::Stopped { shown: String::new(), used: None },
        Outcome::Reply(text("in short")),
        failed(Fault::new(Code::LlmTimeout, "too slow")),
        Outcome::Unknown,
    ];
    for outcome in outcomes {
        let mut drive = too_long(laddered());
        drive.apply(Input::Cancel { in_flight: vec![3] });
        assert_eq!((drive.said(), drive.numbers(), drive.last.node), (json!([]), vec![], Node::Reasoning));
        drive.outcome(3, outcome);
        assert_eq!(drive.said(), json!([{"AssistantMessage": {"content": "", "meta": "cancelled"}}]));
        let Verdict::Cancelled(receipt) = drive.verdict() else { panic!() };
        assert_eq!(
            plain(&receipt.finished),
            json!([{"call_id": "#1", "name": "look"}]),
            "a model call is no call of a receipt"
        );
        assert_eq!(Receipt { finished: vec![], ..receipt }, Receipt::default());
    }
    let mut drive = too_long(laddered());
    drive.apply(Input::Cancel { in_flight: vec![] });
    assert!(matches!(drive.verdict(), Verdict::Cancelled(_)), "one that has not begun is not waited for");
}

#[test]
fn a_limit_while_it_is_summarised_ends_the_turn_and_a_summary_is_no_answer() {
    for in_flight in [vec![], vec![3]] {
        let mut drive = too_long(laddered());
        let effect = in_flight.is_empty().then_some(3);
        drive.apply(Input::Limit { limit: Limit::Tokens, effect, in_flight: in_flight.clone() });
        if !in_flight.is_empty() {
            drive.outcome(3, Outcome::Reply(text("in short")));
        }
        let fault = Fault::new(Code::BudgetExceeded, "the token limit was reached");
        assert_eq!((drive.verdict(), drive.warnings()), (Verdict::Error(fault), vec![]));
        assert_eq!(
            drive.said(),
            json!([{"AssistantMessage": {"content": "", "meta": "error:budget_exceeded"}}])
        );
    }
}

#[test]
fn what_is_said_while_it_is_summarised_waits_for_the_answer() {
    let mut drive = too_long(laddered());
    drive.input("hurry");
    assert_eq!((drive.said(), drive.numbers()), (json!([]), vec![3]));
    drive.outcome(3, Outcome::Reply(text("in short")));
    assert_eq!(drive.said(), json!([{"Summary": {"text": "in short", "up_to": 0}}]));
    drive.reply(text("here"));
    assert_eq!(drive.said()[1], json!({"UserMessage": {"text": "hurry", "meta": "steering"}}));
}

#[test]
fn a_history_that_was_cut_is_said_once_with_the_answer() {
    let mut drive = Drive::start();
    let cut = Some(crate::effect::CutReason::TokenBudget);
    drive.reply(Reply { first: 4, lowest: 2, cut, ..calls(&[("look", json!({}))]) });
    assert_eq!(drive.shown()[0], json!({"type": "history_cut", "first": 4, "reason": "token_budget"}));
    drive.outcome(1, super::drive::ok("seen"));
    let EffectKind::Model { view, .. } = drive.wants()[0].kind else { panic!() };
    assert_eq!(
        view,
        View { first: Some(4), lowest: Some(2), trim: Trim::None },
        "the next call begins no earlier"
    );
    drive.reply(Reply { first: 4, ..text("done") });
    assert_eq!(drive.shown(), json!([]));
}
