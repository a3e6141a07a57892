//! Every line of the account about an effect names its span.

use serde_json::{Value, json};

use super::decisions::{chat, decide, fails_by, fault, health, routed_says};
use super::drive::{Drive, call_id, calls, definition, laddered, ok, refused, setting, text};
use crate::budget::Limit;
use crate::effect::{Outcome, Reply, ToolOutcome};
use crate::fault::Code;
use crate::flow::Input;
use crate::id::{EffectId, FramePath};
use crate::policy::{OnUnknown, SelfCheck};
use crate::run::{Choice, Step};
use crate::thread::Closing;
use crate::tool::Cause;

/// The account: the kind of each line, and the number of the effect whose span it names, a hundred more for
/// each try after its first.
fn spans(drive: &Drive) -> Vec<(String, Option<u32>)> {
    let run = setting(drive.definition()).run;
    let span_of = |n: u32| EffectId { run, path: FramePath::root(), n: n % 100 }.span_id_of(n / 100);
    let numbers = |span: &Value| (0..300).find(|n| span_of(*n) == *span.as_str().unwrap());
    let line = |step: &Step| {
        let kind = serde_json::to_value(step.kind).unwrap().as_str().unwrap().to_owned();
        (
            kind,
            step.metadata.get("span_id").map(|span| numbers(span).expect("the span of an effect of the run")),
        )
    };
    drive.steps.iter().map(line).collect()
}

fn expect(drive: &Drive, expected: &[(&str, Option<u32>)]) {
    let expected: Vec<_> = expected.iter().map(|(kind, n)| ((*kind).to_owned(), *n)).collect();
    assert_eq!(spans(drive), expected);
}

#[test]
fn of_model_calls_and_tools() {
    let mut drive = Drive::start();
    drive.reply(calls(&[("look", json!({})), ("peek", json!({}))]));
    drive.outcome(2, fails_by(Cause::Tool, "no answer"));
    drive.outcome(1, ok("seen"));
    drive.outcome(2, ok("seen"));
    drive.reply(text("done"));
    expect(
        &drive,
        &[
            ("llm_call", Some(0)),
            ("tool_call", Some(2)),
            ("tool_call", Some(1)),
            ("tool_call", Some(102)),
            ("llm_call", Some(3)),
        ],
    );
}

#[test]
fn of_a_second_try_that_was_not_made_it_is_that_of_the_first() {
    let mut drive = Drive::start();
    drive.reply(calls(&[("look", json!({}))]));
    drive.outcome(1, fails_by(Cause::Tool, "no answer"));
    drive.apply(Input::Limit { limit: Limit::ToolCalls, effect: Some(1), in_flight: vec![] });
    expect(&drive, &[("llm_call", Some(0)), ("tool_call", Some(1)), ("tool_call", Some(1))]);
}

/// A call with an unknown outcome that a user lets run again.
fn approved_again() -> Drive {
    let mut definition = definition();
    definition.decision.on_unknown = OnUnknown::AskPerson;
    let mut drive = Drive::start_with(definition);
    drive.reply(calls(&[("write", json!({}))]));
    decide(&mut drive, format!("ap-{}", call_id(1)), Choice::Approve, Some(json!({})));
    drive.outcome(1, Outcome::Unknown);
    decide(&mut drive, format!("ou-{}-0", call_id(1)), Choice::Approve, None);
    drive
}

#[test]
fn of_a_call_that_a_person_let_run_again_it_is_that_of_its_last_run() {
    let mut drive = approved_again();
    drive.outcome(1, ok("written"));
    expect(&drive, &[("llm_call", Some(0)), ("tool_call", Some(101))]);

    let mut unmade = approved_again();
    unmade.apply(Input::Cancel { in_flight: vec![] });
    expect(&unmade, &[("llm_call", Some(0)), ("tool_call", Some(1))]);
}

#[test]
fn of_what_was_not_allowed_there_is_none() {
    let mut drive = Drive::start();
    drive.reply(calls(&[("forbidden", json!({}))]));
    expect(&drive, &[("llm_call", Some(0)), ("tool_call", None), ("warning", None)]);
}

#[test]
fn a_call_that_never_ran_has_none() {
    let mut drive = Drive::start();
    drive.reply(Reply { calls: vec![refused("look", "at is missing")], ..calls(&[]) });
    drive.reply(calls(&[("look", json!({}))]));
    drive.outcome(3, Outcome::Tool(ToolOutcome::unrun(Closing::Denied, "not allowed any more")));
    expect(&drive, &[("llm_call", Some(0)), ("tool_call", None), ("llm_call", Some(2)), ("tool_call", None)]);
}

#[test]
fn of_calls_that_a_person_decided_about_it_is_that_of_the_call_and_not_of_the_wait() {
    let mut drive = Drive::start();
    drive.reply(calls(&[("write", json!({}))]));
    decide(&mut drive, format!("ap-{}", call_id(1)), Choice::Approve, Some(json!({})));
    drive.outcome(1, ok("written"));
    expect(&drive, &[("llm_call", Some(0)), ("tool_call", Some(1))]);
}

#[test]
fn of_failures_retries_and_ends() {
    let mut drive = Drive::start_with(laddered());
    drive.model_fails(fault(Code::LlmServer).retry_after_ms(5));
    drive.outcome(1, Outcome::Expired);
    drive.model_fails(fault(Code::LlmTimeout));
    drive.outcome(3, Outcome::TooLong { up_to: 0 });
    drive.model_fails(fault(Code::LlmServer));
    drive.model_fails(fault(Code::LlmAuth));
    expect(&drive, &[("warning", Some(0)), ("warning", Some(2)), ("warning", Some(4)), ("warning", Some(5))]);
}

#[test]
fn of_summaries() {
    let mut drive = Drive::start();
    drive.outcome(0, Outcome::TooLong { up_to: 0 });
    drive.outcome(1, Outcome::Reply(text("in short")));
    drive.reply(text("done"));
    expect(&drive, &[("summary", Some(1)), ("llm_call", Some(2))]);
}

#[test]
fn of_what_a_rule_called() {
    let mut search = Drive::told(chat(), "Look up K2");
    search.outcome(0, ok("8611 m"));
    expect(&search, &[("tool_call", Some(0))]);

    let mut required = Drive::start_with(health());
    required.reply(routed_says("no tool"));
    required.outcome(1, ok("fine"));
    expect(&required, &[("llm_call", Some(0)), ("warning", None), ("tool_call", Some(1))]);

    let mut failing = Drive::start_with(health());
    failing.model_fails(fault(Code::LlmAuth));
    expect(&failing, &[("warning", Some(0)), ("warning", None)]);
}

#[test]
fn of_an_escalation_and_a_check() {
    let mut definition = chat();
    definition.decision.self_check = SelfCheck::Always;
    let mut drive = Drive::told(definition, "Who?");
    drive.reply(routed_says(""));
    drive.reply(text("forty"));
    drive.reply(routed_says(r#"{"ok": false, "missing": "two"}"#));
    drive.model_fails(fault(Code::LlmAuth));
    expect(
        &drive,
        &[
            ("llm_call", Some(0)),
            ("warning", Some(0)),
            ("llm_call", Some(1)),
            ("llm_call", Some(2)),
            ("warning", None),
            ("warning", Some(3)),
        ],
    );
}
