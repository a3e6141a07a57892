//! The check of an answer before it counts.

use serde_json::{Value, json};

use super::decisions::{asks, by, fault, model_failed, only, routed_says};
use super::drive::{Drive, calls, laddered, no_usage, ok, text};
use crate::budget::Limit;
use crate::effect::{Outcome, Purpose};
use crate::fault::Code;
use crate::flow::{Input, Node};
use crate::policy::SelfCheck;
use crate::run::{Definition, Receipt, Verdict};
use crate::tool::ASK_USER;

const HOLDS: &str = r#"{"ok": true}"#;
const LACKS: &str = r#"{"ok": false, "missing": "two"}"#;

fn checked(self_check: SelfCheck) -> Definition {
    let mut definition = laddered();
    definition.decision.self_check = self_check;
    definition
}

/// An answer under check: effect 1 checks the answer of effect 0.
fn checking() -> Drive {
    let mut drive = Drive::start_with(checked(SelfCheck::Always));
    drive.reply(by("a/big", text("forty")));
    drive
}

/// An answer that lacked something: effect 2 gives it once more.
fn revising() -> Drive {
    let mut drive = checking();
    drive.reply(routed_says(LACKS));
    drive
}

/// The account line of a check.
fn looked(said: &str) -> Value {
    let metadata =
        json!({"model": "c/small", "model_role": "router", "reason": "self_check", "usage": no_usage()});
    json!({"type": "llm_call", "description": format!("c/small checked the answer: {said}"), "metadata": metadata})
}

fn warning(code: &str, message: &str) -> Value {
    json!({"type": "warning", "code": code, "message": message})
}

#[test]
fn the_policy_says_when() {
    let used = |drive: &mut Drive| drive.round(&[("look", json!({}))]);
    let asked = |drive: &mut Drive| {
        drive.reply(calls(&[(ASK_USER, json!({"question": "which?"}))]));
        drive.input("this");
    };
    let denied = |drive: &mut Drive| drive.reply(calls(&[("forbidden", json!({}))]));
    let plain = |_: &mut Drive| {};
    type Play<'a> = (&'a str, &'a dyn Fn(&mut Drive));
    let before: [Play<'_>; 4] =
        [("nothing", &plain), ("a tool", &used), ("a question", &asked), ("a denied call", &denied)];
    for (self_check, looks) in [
        (SelfCheck::Never, &[] as &[&str]),
        (SelfCheck::AfterTools, &["a tool"]),
        (SelfCheck::Always, &["nothing", "a tool", "a question", "a denied call"]),
    ] {
        for (what, play) in before {
            let mut drive = Drive::start_with(checked(self_check));
            play(&mut drive);
            drive.reply(text("so it is"));
            if looks.contains(&what) {
                assert_eq!(drive.asked_for(), "router: check", "{self_check:?} after {what}");
            } else {
                assert_eq!(drive.verdict(), Verdict::Ok, "{self_check:?} after {what}");
            }
        }
    }
}

#[test]
fn an_answer_that_holds_is_the_end() {
    let mut drive = checking();
    assert_eq!(drive.said(), json!([{"AssistantMessage": {"content": "forty"}}]));
    assert_eq!((drive.last.node, drive.shown()), (Node::Reasoning, json!([])));
    assert_eq!(drive.wants(), [asks(1, "router", 1, false, Purpose::Check, true)]);
    drive.reply(routed_says(HOLDS));
    assert_eq!((drive.said(), drive.shown()), (json!([]), json!([])), "nobody sees it");
    assert_eq!(drive.account(), json!([looked("it holds")]));
    assert_eq!((drive.last.node, drive.verdict()), (Node::Respond, Verdict::Ok));
}

#[test]
fn without_a_router_whoever_answered_looks() {
    let mut drive = Drive::start_with(only(checked(SelfCheck::Always), &["reasoning"]));
    drive.reply(text("forty"));
    assert_eq!(drive.wants(), [asks(1, "reasoning", 1, false, Purpose::Check, true)]);
}

#[test]
fn an_answer_that_lacks_something_is_given_once_more_and_looked_at_again() {
    let mut drive = revising();
    let why = "the answer lacks something (two); answering once more";
    assert_eq!(drive.shown(), json!([warning("verification_failed", why)]));
    let metadata = json!({"error": "verification_failed", "reason": "self_check"});
    assert_eq!(
        drive.account(),
        json!([looked("it lacks something: two"), {"type": "warning", "description": why, "metadata": metadata}])
    );
    assert_eq!(drive.said(), json!([]));
    let missing = "two".to_owned();
    assert_eq!(drive.wants(), [asks(2, "reasoning", 1, false, Purpose::Revision { missing }, false)]);

    drive.reply(by("a/big", text("forty-two")));
    assert_eq!(drive.said(), json!([{"AssistantMessage": {"content": "forty-two", "meta": "revision"}}]));
    assert_eq!(
        drive.shown(),
        json!([
            {"type": "restarted", "message_id": "#0"},
            {"type": "delta", "effect": 2, "message_id": "#2", "text": "forty-two"},
            {"type": "history_cut", "first": 0, "reason": "revised"},
        ]),
        "only now, and whole"
    );
    assert_eq!(drive.wants(), [asks(3, "router", 2, false, Purpose::Check, true)]);
    drive.reply(routed_says(HOLDS));
    assert_eq!((drive.account(), drive.verdict()), (json!([looked("it holds")]), Verdict::Ok));
}

#[test]
fn what_a_revision_still_lacks_goes_to_the_person() {
    let mut drive = revising();
    drive.reply(text("forty-one"));
    drive.reply(routed_says(r#"{"ok": false, "missing": "one"}"#));
    let why = "the answer was revised once and still lacks something: one";
    let metadata = json!({"error": "verification_failed", "reason": "self_check", "escalated_to": "person"});
    assert_eq!(
        drive.account(),
        json!([looked("it lacks something: one"), {"type": "warning", "description": why, "metadata": metadata}])
    );
    assert_eq!(drive.shown(), json!([warning("verification_failed", why)]));
    assert_eq!(drive.verdict(), Verdict::Ok);
}

#[test]
fn a_revision_has_no_tools_and_obeys_none() {
    let mut drive = revising();
    drive.reply(calls(&[("look", json!({}))]));
    assert_eq!(drive.said(), json!([{"AssistantMessage": {"content": "on it", "meta": "revision"}}]));
    assert_eq!(drive.asked_for(), "router: check");
}

#[test]
fn what_cannot_be_read_leaves_the_answer_as_it_is() {
    for said in ["looks fine", "", "{\"ok\": \"maybe\"}"] {
        let mut drive = checking();
        drive.reply(routed_says(said));
        let read = "what it said could not be read, so the answer stands";
        assert_eq!((drive.account(), drive.shown()), (json!([looked(read)]), json!([])));
        assert_eq!((drive.said(), drive.verdict()), (json!([]), Verdict::Ok));
    }
}

#[test]
fn where_nobody_can_look_the_answer_stands_and_it_is_said() {
    let rows = [
        (model_failed(Code::LlmServer, ""), "llm_server", "so it said"),
        (model_failed(Code::LlmTimeout, ""), "llm_timeout", "so it said"),
        (model_failed(Code::Refused, "No"), "refused", "so it said"),
        (Outcome::TooLong { up_to: 0 }, "internal", "the model call ended without an outcome"),
        (Outcome::Unknown, "internal", "the model call ended without an outcome"),
    ];
    for (outcome, code, said) in rows {
        let mut drive = checking();
        drive.outcome(1, outcome);
        let why = format!("the answer could not be checked ({said}); it stands as it is");
        let metadata = json!({"error": code, "reason": "self_check", "model_role": "router"});
        assert_eq!(drive.shown(), json!([warning(code, &why)]));
        assert_eq!(drive.account(), json!([{"type": "warning", "description": why, "metadata": metadata}]));
        assert_eq!((drive.said(), drive.verdict()), (json!([]), Verdict::Ok));
    }
}

/// Checks the warning of a revision that failed.
fn stands(drive: &Drive, code: &str, said: &str, model: [&str; 2]) {
    let why = format!("the answer lacks something (two) and could not be revised: {said}");
    let [model, role] = model;
    let metadata = json!({"error": code, "reason": "self_check", "escalated_to": "person", "model": model, "model_role": role});
    let steps = drive.account();
    let last = steps.as_array().unwrap().last().unwrap();
    assert_eq!(*last, json!({"type": "warning", "description": why, "metadata": metadata}));
    assert_eq!(drive.shown().as_array().unwrap().last(), Some(&warning(code, &why)));
    assert_eq!((drive.said(), drive.verdict()), (json!([]), Verdict::Ok), "the first answer stands");
}

#[test]
fn where_no_revision_can_be_had_the_first_answer_stands() {
    for code in [Code::LlmAuth, Code::Refused, Code::Internal] {
        let mut drive = revising();
        drive.model_fails(fault(code));
        stands(&drive, code.as_str(), "so it said", ["a/big", "reasoning"]);
    }
    let mut drive = revising();
    for _ in 0..3 {
        assert!(drive.asked_for().ends_with(": revision"), "the whole ladder is tried");
        drive.model_fails(fault(Code::LlmServer));
    }
    stands(&drive, "llm_server", "so it said", ["c/small", "router"]);
    let mut empty = revising();
    for _ in 0..2 {
        empty.reply(text(""));
    }
    stands(&empty, "llm_invalid_response", "the model gave an empty answer", ["b/mid", "reasoning"]);
}

#[test]
fn a_revision_that_has_too_much_to_read_is_no_reason_to_lose_the_answer() {
    let mut drive = revising();
    drive.outcome(2, Outcome::TooLong { up_to: 0 });
    drive.outcome(3, Outcome::Reply(text("in short")));
    assert_eq!(drive.asked_for(), "reasoning: revision");
    drive.outcome(4, Outcome::TooLong { up_to: 1 });
    stands(
        &drive,
        "context_too_long",
        "the conversation does not fit, even with a summary",
        ["a/big", "reasoning"],
    );

    let mut slow = Drive::start_with({
        let mut one = super::drive::definition();
        one.decision.self_check = SelfCheck::Always;
        one
    });
    slow.reply(text("forty"));
    slow.reply(text(LACKS));
    slow.outcome(2, Outcome::TooLong { up_to: 0 });
    slow.model_fails(fault(Code::LlmTimeout));
    stands(&slow, "llm_timeout", "so it said", ["m/x", "reasoning"]);
}

fn ending(meta: &str, shown: &str) -> Value {
    json!([{"AssistantMessage": {"content": shown, "meta": meta}}])
}

#[test]
fn a_cancel_while_it_is_looked_at_or_revised_ends_the_turn() {
    let stopped = |shown: &str| Outcome::Stopped { shown: shown.to_owned(), used: None };
    let rows = [
        (checking(), 1, stopped("{\"ok\""), ""),
        (checking(), 1, Outcome::Reply(text(LACKS)), ""),
        (revising(), 2, stopped("forty-"), ""),
        (revising(), 2, Outcome::Reply(text("forty-two")), ""),
    ];
    for (mut drive, n, outcome, shown) in rows {
        drive.apply(Input::Cancel { in_flight: vec![n] });
        assert_eq!((drive.said(), drive.numbers()), (json!([]), vec![]));
        drive.outcome(n, outcome);
        assert_eq!(drive.said(), ending("cancelled", shown));
        assert_eq!(drive.verdict(), Verdict::Cancelled(Receipt::default()));
    }
    for mut drive in [checking(), revising()] {
        drive.apply(Input::Cancel { in_flight: vec![] });
        assert_eq!(drive.said(), ending("cancelled", ""), "what has not begun is not waited for");
    }
}

#[test]
fn a_limit_while_it_is_looked_at_or_revised_leaves_the_answer() {
    for mut drive in [checking(), revising()] {
        let n = drive.numbers()[0];
        drive.apply(Input::Limit { limit: Limit::Tokens, effect: Some(n), in_flight: vec![] });
        assert_eq!(drive.said(), json!([]));
        let why = "the token limit was reached; this is the best answer so far";
        assert_eq!((drive.shown(), drive.verdict()), (json!([warning("budget_exceeded", why)]), Verdict::Ok));
    }
    let stopped = Outcome::Stopped { shown: "forty-".to_owned(), used: None };
    let rows = [(checking(), 1, Outcome::Reply(text(LACKS))), (revising(), 2, stopped)];
    for (mut slow, n, outcome) in rows {
        slow.apply(Input::Limit { limit: Limit::ActiveTime, effect: None, in_flight: vec![n] });
        slow.outcome(n, outcome);
        assert_eq!((slow.said(), slow.verdict()), (json!([]), Verdict::Ok), "the answer stands as it is");
    }
}

#[test]
fn an_answer_that_somebody_has_more_to_say_to_is_not_looked_at() {
    let mut drive = Drive::start_with(checked(SelfCheck::Always));
    drive.input("and tests");
    drive.reply(text("forty"));
    assert_eq!(drive.said()[1], json!({"UserMessage": {"text": "and tests", "meta": "steering"}}));
    assert_eq!(drive.asked_for(), "reasoning: answer with tools");
    drive.reply(text("with tests"));
    assert_eq!(drive.asked_for(), "router: check", "the last one is");
}

#[test]
fn what_is_said_while_it_is_looked_at_is_answered() {
    let steered = json!([{"UserMessage": {"text": "hurry", "meta": "steering"}}]);
    for outcome in [Outcome::Reply(text(HOLDS)), Outcome::Reply(text("?")), model_failed(Code::LlmServer, "")]
    {
        let mut drive = checking();
        drive.input("hurry");
        assert_eq!((drive.said(), drive.numbers()), (json!([]), vec![1]));
        drive.outcome(1, outcome);
        assert_eq!(
            (drive.said(), drive.asked_for().as_str()),
            (steered.clone(), "reasoning: answer with tools")
        );
        drive.reply(text("here"));
        drive.reply(routed_says(LACKS));
        assert_eq!(drive.asked_for(), "reasoning: revision", "another answer is looked at anew");
    }
    let mut drive = checking();
    drive.input("hurry");
    drive.reply(routed_says(LACKS));
    assert_eq!(drive.asked_for(), "reasoning: revision", "first what was asked first");
    drive.reply(text("forty-two"));
    assert_eq!(drive.said()[1], steered[0]);
    assert_eq!(drive.asked_for(), "reasoning: answer with tools");
}

#[test]
fn tools_that_ran_before_are_looked_at_with_the_answer() {
    let mut drive = Drive::start_with(checked(SelfCheck::AfterTools));
    drive.reply(calls(&[("look", json!({}))]));
    drive.outcome(1, ok("seen"));
    drive.reply(text("done"));
    assert_eq!(drive.wants(), [asks(3, "router", 4, false, Purpose::Check, true)], "it sees all of it");
}
