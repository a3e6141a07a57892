//! The choice of the role, its tools and the calls by rule.

use serde_json::{Value, json};

use super::decisions::{add, asks, by, chat, decide, fault, health, only, routed_says, runs, worked};
use super::drive::{Drive, call_id, calls, checked, definition, no_usage, ok, refused, text};
use crate::budget::Limit;
use crate::chat::FinishReason;
use crate::effect::{CheckedCall, EffectKind, Outcome, Purpose, Reply};
use crate::fault::{Code, Fault};
use crate::flow::{Input, Next};
use crate::policy::ToolRule;
use crate::run::{Choice, Verdict};
use crate::tool::{ASK_USER, Trust};

const CHOSE: &str = "llm_call as router: c/small asked for peek (the channel requires a tool)";
const ANSWERED: &str = "llm_call as reasoning: a/big answered (tools have run)";
const LOOKED: &str = "tool_call: look worked (the channel requires a tool)";

/// The rest of a turn that requires a tool, when `reasoning` is asked.
fn answer(drive: &mut Drive) {
    assert_eq!(drive.asked_for(), "reasoning: answer");
    drive.reply(by("a/big", text("all is well")));
    assert_eq!(drive.verdict(), Verdict::Ok);
}

#[test]
fn the_request_decides_who_is_asked_and_the_account_says_why() {
    let all: &[&str] = &["reasoning", "router", "coding"];
    let fact = "What is the capital of France?";
    /// Default role, allowed roles, request; the role that is asked, and why.
    type Row<'a> = (Option<&'a str>, &'a [&'a str], &'a str, &'a str, Option<&'a str>);
    let rows: [Row<'_>; 6] = [
        (Some("auto"), all, fact, "router", Some("a short question for a fact")),
        (Some("auto"), all, "Plan a week in Lisbon", "reasoning", Some("it asks for thought")),
        (
            Some("auto"),
            &["reasoning"],
            fact,
            "reasoning",
            Some("a short question for a fact; router is not allowed here"),
        ),
        (Some("coding"), all, fact, "coding", Some("the channel's role")),
        (Some("coding"), &["router"], fact, "router", Some("the channel's role; coding is not allowed here")),
        (None, all, fact, "reasoning", None),
    ];
    for (default, roles, message, role, reason) in rows {
        let mut definition = only(definition(), roles);
        definition.decision.default_role = default.map(str::to_owned);
        let mut drive = Drive::told(definition, message);
        assert_eq!(drive.asked_for(), format!("{role}: answer with tools"));
        drive.reply(text("so be it"));
        let mut metadata = json!({"model": "m/x", "model_role": role, "usage": no_usage()});
        if let Some(reason) = reason {
            metadata["reason"] = json!(reason);
        }
        assert_eq!(
            (drive.account(), drive.verdict()),
            (json!([{"type": "llm_call", "description": "m/x answered", "metadata": metadata}]), Verdict::Ok)
        );
    }
}

#[test]
fn where_a_tool_is_required_the_router_chooses_and_reasoning_answers() {
    let mut drive = Drive::start_with(health());
    assert_eq!(drive.wants(), [asks(0, "router", 0, true, Purpose::Choice, true)]);
    drive.reply(by("c/small", calls(&[("peek", json!({"at": 1}))])));
    assert_eq!(drive.wants(), [runs(1, "peek", 2, 0)]);
    drive.outcome(1, ok("fine"));
    assert_eq!(drive.wants(), [asks(2, "reasoning", 3, false, Purpose::Answer, false)]);
    answer(&mut drive);
    assert_eq!(drive.told_steps(), [CHOSE, "tool_call: peek worked", ANSWERED]);
    assert_eq!(drive.warnings(), [] as [&str; 0]);
}

#[test]
fn a_required_tool_is_no_matter_of_rounds() {
    for iterations in [0, 1] {
        let mut definition = health();
        definition.decision.limits.iterations = iterations;
        let mut drive = Drive::start_with(definition);
        drive.round(&[("peek", json!({}))]);
        answer(&mut drive);
        assert_eq!(drive.warnings(), [] as [&str; 0]);
    }
}

#[test]
fn where_the_router_may_not_be_asked_whoever_answers_chooses() {
    let mut drive = Drive::start_with(only(health(), &["reasoning"]));
    assert_eq!(drive.wants(), [asks(0, "reasoning", 0, true, Purpose::Choice, false)]);
    drive.round(&[("peek", json!({}))]);
    answer(&mut drive);
}

/// Checks that `look` runs because no tool was chosen: as if a model had called it, and marked as a rule's.
fn look_runs(drive: &Drive, n: u32) {
    let entry = drive.head;
    assert_eq!(drive.wants(), [runs(n, "look", entry, 0)]);
    let written = drive.said();
    let written = written.as_array().unwrap();
    let id = format!("#{n}");
    assert_eq!(
        written[written.len() - 2..],
        [
            json!({"AssistantMessage": {"content": "", "meta": "rule", "tool_calls": [{"id": id, "name": "look", "arguments": {}}]}}),
            json!({"ToolCall": {"id": id, "function_name": "look", "arguments": {}}}),
        ]
    );
    let started = json!({"type": "tool_start", "name": "look", "args": {}, "call_id": id});
    assert_eq!(drive.shown().as_array().unwrap().last(), Some(&started));
    let metadata = json!({"reason": "required_tool", "tool_name": "look"});
    let warned = drive.account();
    let warned = warned.as_array().unwrap().last().unwrap();
    assert_eq!((&warned["type"], &warned["metadata"]), (&json!("warning"), &metadata));
}

#[test]
fn a_router_that_chooses_nothing_leaves_it_to_the_rule() {
    for said in ["I would rather talk", "", " \n"] {
        let mut drive = Drive::start_with(health());
        drive.reply(routed_says(said));
        look_runs(&drive, 1);
        drive.outcome(1, ok("fine"));
        assert_eq!(drive.account(), json!([worked(1, "look", Some("the channel requires a tool"))]));
        answer(&mut drive);
        assert_eq!(
            drive.told_steps(),
            [
                "llm_call as router: c/small answered (the channel requires a tool)",
                "warning: the router chose no tool; look runs by the channel's rule (required_tool)",
                LOOKED,
                ANSWERED,
            ]
        );
        assert_eq!(drive.warnings(), [] as [&str; 0], "nothing went wrong");
    }
}

#[test]
fn a_router_that_chooses_what_cannot_run_leaves_it_to_the_rule() {
    let cut = |call: CheckedCall| Reply { finish: FinishReason::Length, calls: vec![call], ..calls(&[]) };
    let whole = |call: CheckedCall| Reply { calls: vec![call], ..calls(&[]) };
    let forbids = "warning: forbidden is not allowed here (rule \"tests\") (tests) -> person";
    let rows: [(Reply, &str, &[&str]); 3] = [
        (whole(refused("gone", "there is no tool gone")), "gone", &["tool_call: gone did not work"]),
        (
            whole(checked("forbidden", json!({}))),
            "forbidden",
            &["tool_call: forbidden did not work", forbids],
        ),
        (cut(checked("peek", json!({}))), "peek", &["tool_call: peek did not work"]),
    ];
    for (reply, name, between) in rows {
        let mut drive = Drive::start_with(health());
        drive.reply(by("c/small", reply));
        look_runs(&drive, 2);
        drive.outcome(2, ok("fine"));
        answer(&mut drive);
        let chose = format!("llm_call as router: c/small asked for {name} (the channel requires a tool)");
        let ruled = "warning: nothing that the router chose could run; look runs by the channel's rule (required_tool)";
        let expected: Vec<&str> = [chose.as_str()]
            .into_iter()
            .chain(between.iter().copied())
            .chain([ruled, LOOKED, ANSWERED])
            .collect();
        assert_eq!(drive.told_steps(), expected);
    }
}

#[test]
fn one_call_that_can_run_is_a_choice() {
    let mut drive = Drive::start_with(health());
    drive.reply(Reply { calls: vec![refused("gone", "no"), checked("peek", json!({}))], ..calls(&[]) });
    drive.outcome(2, ok("fine"));
    answer(&mut drive);

    let mut denied = Drive::start_with(health());
    denied.reply(calls(&[("write", json!({}))]));
    decide(&mut denied, format!("ap-{}", call_id(1)), Choice::Deny, None);
    answer(&mut denied);
    assert!(!denied.told_steps().iter().any(|line| line.contains("rule")), "what a person denied was chosen");
}

/// The tool runs after every failure of the router.
#[test]
fn a_router_that_fails_leaves_it_to_the_rule() {
    for code in Code::ALL {
        let mut drive = Drive::start_with(health());
        let mut tries = 0;
        let asks = |drive: &Drive| matches!(drive.flow.next(), Next::Want(wants) if matches!(wants[0].kind, EffectKind::Model { .. }));
        while asks(&drive) {
            assert_eq!(drive.asked_for(), "router: choice with tools");
            drive.model_fails(fault(code));
            tries += 1;
        }
        let twice = matches!(code, Code::LlmInvalidResponse | Code::ContextTooLong);
        assert_eq!(tries, if twice { 2 } else { 1 }, "{}", code.as_str());
        look_runs(&drive, drive.numbers()[0]);
        let failed = json!({"type": "warning", "description": "so it said",
            "metadata": {"error": code.as_str(), "model": "c/small", "model_role": "router"}});
        assert_eq!(drive.account()[0], failed);
        assert_eq!(
            drive.shown()[0],
            json!({"type": "warning", "code": code.as_str(), "message": "so it said"})
        );
        let ruled =
            "warning: the router could not choose a tool; look runs by the channel's rule (required_tool)";
        assert_eq!(drive.told_steps().last().map(String::as_str), Some(ruled));
        drive.outcome(drive.numbers()[0], ok("fine"));
        answer(&mut drive);
    }
}

#[test]
fn a_router_may_ask_before_it_chooses() {
    let mut drive = Drive::start_with(health());
    drive.reply(by("c/small", calls(&[(ASK_USER, json!({"question": "which machine?"}))])));
    drive.input("the one upstairs");
    assert_eq!(drive.wants(), [asks(3, "router", 5, true, Purpose::Choice, true)]);
    drive.reply(by("c/small", calls(&[("peek", json!({}))])));
    drive.outcome(4, ok("fine"));
    answer(&mut drive);
    assert_eq!(
        drive.told_steps(),
        [
            "llm_call as router: c/small asked for ask_user (the channel requires a tool)",
            "tool_call: ask_user worked",
            CHOSE,
            "tool_call: peek worked",
            ANSWERED,
        ]
    );
}

#[test]
fn what_a_router_says_while_it_chooses_is_nobodys_answer() {
    let stopped = Outcome::Stopped { shown: "peek".to_owned(), used: None };
    for outcome in [stopped, Outcome::Reply(routed_says("peek, I think"))] {
        let mut drive = Drive::start_with(health());
        drive.apply(Input::Cancel { in_flight: vec![0] });
        drive.outcome(0, outcome.clone());
        assert_eq!(drive.said(), json!([{"AssistantMessage": {"content": "", "meta": "cancelled"}}]));

        let mut drive = Drive::start_with(health());
        drive.apply(Input::Limit { limit: Limit::ActiveTime, effect: None, in_flight: vec![0] });
        drive.outcome(0, outcome);
        let fault = Fault::new(Code::Deadline, "the time limit was reached");
        assert_eq!(drive.verdict(), Verdict::Error(fault));
    }
}

#[test]
fn without_a_tool_for_the_rule_the_answer_is_written_at_once() {
    for first in [None, Some("gone")] {
        let mut bare = health();
        bare.decision.first_tool = first.map(str::to_owned);
        let mut drive = Drive::start_with(bare);
        drive.reply(routed_says("no"));
        answer(&mut drive);
        let expected = [
            "llm_call as router: c/small answered (the channel requires a tool)",
            "warning: the router chose no tool (required_tool)",
            "llm_call as reasoning: a/big answered (no tool has run)",
        ];
        assert_eq!(drive.told_steps(), expected);
    }
    let mut none = health();
    none.tools = [].into();
    assert_eq!(Drive::start_with(none).asked_for(), "reasoning: answer", "and nothing is to be chosen from");
}

#[test]
fn a_rule_does_not_run_what_is_not_allowed() {
    let mut strict = health();
    strict.decision.first_tool = Some("forbidden".to_owned());
    let mut drive = Drive::start_with(strict);
    drive.reply(routed_says("no"));
    assert_eq!(drive.warnings(), ["refused"]);
    answer(&mut drive);

    let mut asked = health();
    asked.decision.first_tool = Some("write".to_owned());
    let mut drive = Drive::start_with(asked);
    drive.reply(routed_says("no"));
    let waiting: Vec<String> = drive.waiting().into_iter().map(|waiting| waiting.id).collect();
    assert_eq!(waiting, [format!("ap-{}", call_id(1))], "nor without approval");
}

#[test]
fn where_there_are_no_tools_none_are_offered_obeyed_or_run() {
    let mut quiet = chat();
    quiet.decision.tool_rule = ToolRule::None;
    let mut drive = Drive::told(quiet, "Look up the height of K2.");
    assert_eq!(drive.asked_for(), "reasoning: answer");
    drive.reply(calls(&[("look", json!({}))]));
    assert_eq!(drive.said(), json!([{"AssistantMessage": {"content": "on it"}}]));
    assert_eq!((drive.verdict(), drive.told_steps().len()), (Verdict::Ok, 1));
}

#[test]
fn once_tools_have_run_reasoning_goes_on_with_tools_while_rounds_are_left() {
    let mut definition = chat();
    definition.decision.limits.iterations = 2;
    let mut drive = Drive::told(definition, "Who is there?");
    assert_eq!(drive.asked_for(), "router: answer with tools");
    drive.reply(calls(&[(ASK_USER, json!({"question": "where?"}))]));
    drive.input("here");
    assert_eq!(drive.asked_for(), "router: answer with tools", "a question is no tool that ran");
    drive.round(&[("look", json!({}))]);
    assert_eq!(drive.asked_for(), "reasoning: answer with tools");
    drive.round(&[("look", json!({}))]);
    assert_eq!(drive.asked_for(), "reasoning: answer");
    drive.reply(text("nobody"));
    assert_eq!((drive.verdict(), drive.warnings()), (Verdict::Ok, vec!["budget_exceeded"]));
}

#[test]
fn a_role_for_later_that_is_not_allowed_is_not_turned_to() {
    let mut drive = Drive::told(only(chat(), &["router"]), "Who is there?");
    drive.round(&[("look", json!({}))]);
    assert_eq!(drive.asked_for(), "router: answer with tools");
}

#[test]
fn a_tool_that_a_rule_calls_needs_no_arguments_of_a_model() {
    let mut definition = health();
    add(&mut definition, "pulse", Trust::BUILT_IN);
    definition.decision.first_tool = Some("pulse".to_owned());
    let mut drive = Drive::start_with(definition);
    drive.reply(routed_says("hm"));
    let called: Vec<Value> = drive.entries.iter().map(|entry| entry.data()["arguments"].clone()).collect();
    assert_eq!(called.last(), Some(&json!({})));
}
