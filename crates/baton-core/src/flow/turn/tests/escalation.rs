//! A router's answer that cannot stand goes once to `reasoning`; a question that still fails goes to the user.

use serde_json::{Value, json};

use super::decisions::{asks, by, fault, model_failed, only, routed, routed_says};
use super::drive::{Drive, calls, definition, no_usage, ok, text, told};
use crate::chat::FinishReason;
use crate::effect::{Outcome, Purpose, Reply};
use crate::fault::{Code, Fault};
use crate::flow::Next;
use crate::policy::SelfCheck;
use crate::run::Verdict;

/// The warning of an escalation, as event and step.
fn passed_on(code: Code, reason: &str, words: &str) -> (Value, Value) {
    let message = format!("{words}; asking reasoning");
    let metadata = json!({"error": code.as_str(), "reason": reason, "escalated_to": "reasoning",
        "model": "c/small", "model_role": "router"});
    (
        json!({"type": "warning", "code": code.as_str(), "message": message}),
        json!({"type": "warning", "description": message, "metadata": metadata}),
    )
}

fn answered() -> Value {
    let metadata = json!({"model": "c/small", "model_role": "router", "reason": "the channel's role", "usage": no_usage()});
    json!({"type": "llm_call", "description": "c/small answered", "metadata": metadata})
}

fn restarted(n: u32) -> Value {
    json!({"type": "restarted", "message_id": format!("#{n}")})
}

/// `reasoning` answers, and the turn ends.
fn answers(drive: &mut Drive) {
    drive.reply(by("a/big", text("well then")));
    assert_eq!(drive.said(), json!([{"AssistantMessage": {"content": "well then"}}]));
    let metadata =
        json!({"model": "a/big", "model_role": "reasoning", "reason": "escalated", "usage": no_usage()});
    assert_eq!(
        drive.account(),
        json!([{"type": "llm_call", "description": "a/big answered", "metadata": metadata}])
    );
    assert_eq!(drive.verdict(), Verdict::Ok);
}

#[test]
fn an_answer_that_is_cut_off_stands_until_reasoning_has_given_a_whole_one() {
    let cut = || Reply { finish: FinishReason::Length, ..routed_says("so far") };
    let begin = || {
        let mut drive = Drive::start_with(routed());
        drive.reply(cut());
        drive
    };
    let mut drive = begin();
    assert_eq!(drive.said(), json!([{"AssistantMessage": {"content": "so far"}}]));
    let (event, step) = passed_on(Code::BudgetExceeded, "cut_off", "the router's answer was cut off");
    assert_eq!((drive.shown(), drive.account()), (json!([event]), json!([answered(), step])));
    let missing = "it was cut off before its end".to_owned();
    assert_eq!(drive.wants(), [asks(1, "reasoning", 1, false, Purpose::Revision { missing }, false)]);
    drive.reply(by("a/big", text("all of it")));
    assert_eq!(drive.said(), json!([{"AssistantMessage": {"content": "all of it", "meta": "revision"}}]));
    let whole = json!({"type": "delta", "effect": 1, "message_id": "#1", "text": "all of it"});
    let cut_event = json!({"type": "history_cut", "first": 0, "reason": "revised"});
    assert_eq!(drive.shown(), json!([restarted(0), whole, cut_event]));
    assert_eq!(drive.verdict(), Verdict::Ok);

    let mut fails = begin();
    while matches!(fails.flow.next(), Next::Want(_)) {
        fails.model_fails(fault(Code::LlmTimeout));
    }
    assert_eq!((fails.said(), fails.verdict()), (json!([]), Verdict::Ok), "what there is stands");
}

#[test]
fn an_answer_that_cannot_stand_goes_to_reasoning() {
    let rows = [
        (
            Outcome::Reply(routed_says(" \n")),
            passed_on(Code::LlmInvalidResponse, "empty", "the router gave an empty answer"),
            true,
            false,
        ),
        (
            model_failed(Code::Refused, "I would"),
            passed_on(Code::Refused, "refused", "the router refused"),
            false,
            true,
        ),
        (
            model_failed(Code::Refused, ""),
            passed_on(Code::Refused, "refused", "the router refused"),
            false,
            false,
        ),
    ];
    for (outcome, (event, step), is_answer, voids) in rows {
        let mut drive = Drive::start_with(routed());
        assert_eq!(drive.wants(), [asks(0, "router", 0, true, Purpose::Answer, true)]);
        drive.outcome(0, outcome);
        assert_eq!(drive.said(), json!([]), "nothing of it is kept");
        assert_eq!(drive.shown(), if voids { json!([event, restarted(0)]) } else { json!([event]) });
        assert_eq!(drive.account(), if is_answer { json!([answered(), step]) } else { json!([step]) });
        assert_eq!(drive.asked_for(), "reasoning: answer with tools");
        answers(&mut drive);
    }
}

#[test]
fn an_answer_that_does_not_hold_is_revised_by_reasoning() {
    let mut definition = routed();
    definition.decision.self_check = SelfCheck::Always;
    let mut drive = Drive::start_with(definition);
    drive.reply(routed_says("forty"));
    drive.reply(routed_says(r#"{"ok": false, "missing": "two"}"#));
    let (event, step) = passed_on(Code::VerificationFailed, "self_check", "the router's answer did not hold");
    assert_eq!(drive.shown(), json!([event]));
    assert_eq!(drive.account()[1], step);
    let missing = "two".to_owned();
    assert_eq!(drive.wants(), [asks(2, "reasoning", 1, false, Purpose::Revision { missing }, false)]);
    drive.reply(by("a/big", text("forty-two")));
    assert_eq!(drive.said(), json!([{"AssistantMessage": {"content": "forty-two", "meta": "revision"}}]));
    assert_eq!(drive.asked_for(), "router: check", "and it is looked at once more");
    drive.reply(routed_says(r#"{"ok": true}"#));
    assert_eq!(drive.verdict(), Verdict::Ok);
}

#[test]
fn a_router_that_fails_is_followed_by_reasoning_when_nothing_else_helps() {
    for code in [Code::LlmConnection, Code::LlmServer, Code::LlmRateLimited] {
        let mut drive = Drive::start_with(routed());
        for _ in 0..2 {
            drive.model_fails(fault(code).retry_after_ms(500));
            drive.outcome(drive.numbers()[0], Outcome::Expired);
            assert_eq!(drive.asked_for(), "router: answer with tools", "first the same model again");
        }
        drive.model_fails(fault(code).retry_after_ms(500));
        let (event, step) = passed_on(code, "failed", "the router could not answer");
        assert_eq!((drive.shown(), drive.account()), (json!([event]), json!([step])));
        answers(&mut drive);
    }
    let mut drive = Drive::start_with(routed());
    drive.model_fails(fault(Code::LlmInvalidResponse));
    assert_eq!(drive.asked_for(), "router: answer with tools", "first in other words");
    drive.model_fails(fault(Code::LlmInvalidResponse));
    let (_, step) = passed_on(Code::LlmInvalidResponse, "failed", "the router could not answer");
    assert_eq!(drive.account(), json!([step]));
    answers(&mut drive);
}

#[test]
fn who_was_not_in_time_is_not_followed_by_somebody_who_takes_longer() {
    for code in [Code::LlmTimeout, Code::LlmAuth, Code::PriceUnknown, Code::Internal] {
        let mut drive = Drive::start_with(routed());
        drive.model_fails(fault(code));
        assert_eq!(drive.verdict(), told(fault(code)));
        let metadata = json!({"error": code.as_str(), "model": "c/small", "model_role": "router"});
        assert_eq!(
            drive.account(),
            json!([{"type": "warning", "description": "so it said", "metadata": metadata}])
        );
    }
}

#[test]
fn an_answer_that_broke_off_is_kept_as_it_was_shown() {
    for code in [Code::LlmConnection, Code::LlmServer, Code::LlmRateLimited, Code::LlmInvalidResponse] {
        let mut drive = Drive::start_with(routed());
        drive.outcome(0, model_failed(code, "Once upon"));
        assert_eq!((drive.verdict(), drive.shown()), (told(fault(code)), json!([])));
    }
}

/// The verdict of a failure that went to the user.
fn to_the_person(fault: Fault, words: &str) -> Verdict {
    Verdict::Error(Fault { message: format!("{} {words}", fault.for_people()), ..fault })
}

#[test]
fn where_reasoning_is_not_allowed_the_person_hears_what_would_help() {
    let words = "It was not passed on: the role `reasoning` is not allowed (rule \"tests\"); allow it in `roles` of the policy.";
    let codes = [Code::Refused, Code::LlmConnection, Code::LlmServer, Code::LlmRateLimited];
    for code in codes {
        let mut drive = Drive::start_with(only(routed(), &["router"]));
        drive.model_fails(fault(code));
        assert_eq!(drive.verdict(), to_the_person(fault(code), words));
        let metadata = json!({"error": code.as_str(), "model": "c/small", "model_role": "router", "escalated_to": "person"});
        assert_eq!(
            drive.account(),
            json!([{"type": "warning", "description": "so it said", "metadata": metadata}])
        );
        let meta = format!("error:{}", code.as_str());
        assert_eq!(drive.said(), json!([{"AssistantMessage": {"content": "", "meta": meta}}]));
    }
    let mut drive = Drive::start_with(only(routed(), &["router"]));
    for _ in 0..2 {
        drive.reply(routed_says(""));
    }
    let empty = Fault::new(Code::LlmInvalidResponse, "the model gave an empty answer");
    assert_eq!(drive.verdict(), to_the_person(empty, words));

    let mut drive = Drive::start_with(only(routed(), &["router"]));
    drive.model_fails(fault(Code::LlmTimeout));
    assert_eq!(drive.verdict(), told(fault(Code::LlmTimeout)), "it would not have been passed on");
}

#[test]
fn a_cut_answer_stands_where_nobody_else_may_be_asked() {
    let mut drive = Drive::start_with(only(routed(), &["router"]));
    drive.reply(Reply { finish: FinishReason::Length, ..routed_says("so far") });
    assert_eq!(drive.said(), json!([{"AssistantMessage": {"content": "so far"}}]));
    assert_eq!((drive.verdict(), drive.warnings()), (Verdict::Ok, vec!["budget_exceeded"]));
}

#[test]
fn the_same_model_is_not_asked_in_another_role() {
    let mut one = definition();
    one.decision.default_role = Some("router".to_owned());
    let mut drive = Drive::start_with(one);
    for _ in 0..2 {
        assert_eq!(drive.asked_for(), "router: answer with tools");
        drive.reply(text(""));
    }
    let empty = Fault::new(Code::LlmInvalidResponse, "the model gave an empty answer");
    assert_eq!(drive.verdict(), told(empty));
}

#[test]
fn it_happens_once() {
    let mut drive = Drive::start_with(routed());
    drive.reply(routed_says(""));
    drive.model_fails(fault(Code::Refused));
    assert_eq!(
        drive.verdict(),
        to_the_person(fault(Code::Refused), "Both the router and the reasoning model were asked.")
    );
    let metadata =
        json!({"error": "refused", "model": "a/big", "model_role": "reasoning", "escalated_to": "person"});
    assert_eq!(
        drive.account(),
        json!([{"type": "warning", "description": "so it said", "metadata": metadata}])
    );
}

#[test]
fn nor_does_it_when_the_router_is_asked_again_later() {
    let mut definition = routed();
    definition.decision.after_tools = Some("router".to_owned());
    let mut drive = Drive::start_with(definition);
    drive.reply(routed_says(""));
    drive.round(&[("look", json!({}))]);
    assert_eq!(drive.asked_for(), "router: answer with tools");
    drive.model_fails(fault(Code::Refused));
    let words = "It was passed on to the reasoning model once already.";
    assert_eq!(drive.verdict(), to_the_person(fault(Code::Refused), words));
}

#[test]
fn who_was_passed_on_to_stays() {
    let mut drive = Drive::start_with(routed());
    drive.reply(routed_says(""));
    drive.reply(calls(&[("look", json!({}))]));
    drive.outcome(drive.numbers()[0], ok("seen"));
    assert_eq!(drive.asked_for(), "reasoning: answer with tools");
}

#[test]
fn only_the_router_is_passed_on_from() {
    let mut drive = Drive::start_with(super::drive::laddered());
    drive.model_fails(fault(Code::LlmServer));
    drive.model_fails(fault(Code::LlmServer));
    drive.model_fails(fault(Code::Refused));
    assert_eq!(drive.verdict(), told(fault(Code::Refused)), "a router that stands in for reasoning is not");
}
