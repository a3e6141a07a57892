//! A plan that was made or changed is stored and reported.

use serde_json::{Value, json};

use super::decisions::{add, decide, fails_by};
use super::drive::{Drive, call_id, calls, definition, ok};
use crate::effect::{Outcome, ToolOutcome};
use crate::flow::Input;
use crate::run::{Choice, Definition};
use crate::thread::Closing;
use crate::tool::{Cause, Trust, UPDATE_PLAN};

fn planning() -> Definition {
    let mut definition = definition();
    add(&mut definition, UPDATE_PLAN, Trust::BUILT_IN);
    definition
}

fn planned(plan: Value) -> Outcome {
    Outcome::Tool(ToolOutcome::new(Closing::Ok, plan))
}

#[test]
fn a_plan_is_an_entry_and_a_step() {
    let plan = json!([{"step": "look", "status": "done"}, {"step": "leap", "status": "pending"}]);
    let mut drive = Drive::start_with(planning());
    drive.reply(calls(&[(UPDATE_PLAN, json!({"plan": plan}))]));
    drive.outcome(1, planned(json!({"plan": plan})));
    assert_eq!(
        drive.said(),
        json!([
            {"ToolResult": {"tool_call_id": "#1", "tool_name": "update_plan", "result": {"plan": plan}}},
            {"baton.plan": {"plan": plan}},
        ])
    );
    let metadata = json!({"tool_name": "update_plan", "call_id": "#1"});
    assert_eq!(
        drive.account(),
        json!([
            {"type": "tool_call", "description": "update_plan worked", "metadata": metadata},
            {"type": "plan", "description": "the plan has 2 steps", "metadata": metadata},
        ])
    );
    assert_eq!(drive.model(), (2, 4, true));
}

#[test]
fn every_change_is_another_entry() {
    let mut drive = Drive::start_with(planning());
    for (n, plan) in [(1, json!(["a"])), (3, json!(["a", "b"]))] {
        drive.reply(calls(&[(UPDATE_PLAN, json!({}))]));
        drive.outcome(n, planned(json!({"plan": plan})));
        assert_eq!(drive.said()[1], json!({"baton.plan": {"plan": plan}}));
    }
}

#[test]
fn a_plan_stands_where_it_was_made_even_beside_open_calls() {
    let mut drive = Drive::start_with(planning());
    drive.reply(calls(&[(UPDATE_PLAN, json!({})), ("look", json!({}))]));
    drive.outcome(1, planned(json!({"plan": ["a"]})));
    assert_eq!((drive.last.entries.len(), drive.numbers()), (2, vec![2]));
    drive.outcome(2, ok("seen"));
    assert_eq!(drive.model().1, 6);
}

#[test]
fn a_plan_that_was_not_made_is_none() {
    let none = |drive: &Drive| {
        let plans = drive.entries.iter().filter(|entry| entry.type_name() == "baton.plan").count();
        let lines = drive.told_steps().iter().filter(|line| line.starts_with("plan")).count();
        assert_eq!((plans, lines), (0, 0));
    };
    let called = || {
        let mut drive = Drive::start_with(planning());
        drive.reply(calls(&[(UPDATE_PLAN, json!({}))]));
        drive
    };
    for outcome in [fails_by(Cause::Asked, "a plan has steps"), Outcome::Unknown] {
        let mut drive = called();
        drive.outcome(1, outcome);
        none(&drive);
    }
    let mut cancelled = called();
    cancelled.apply(Input::Cancel { in_flight: vec![] });
    none(&cancelled);

    let mut asked = planning();
    asked.decision.approvals.push(UPDATE_PLAN.to_owned());
    let mut denied = Drive::start_with(asked);
    denied.reply(calls(&[(UPDATE_PLAN, json!({}))]));
    decide(&mut denied, format!("ap-{}", call_id(1)), Choice::Deny, None);
    none(&denied);

    let mut other = Drive::start_with(planning());
    other.reply(calls(&[("look", json!({}))]));
    other.outcome(1, planned(json!({"plan": ["a"]})));
    none(&other);
}
