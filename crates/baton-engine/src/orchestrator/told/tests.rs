//! Whole results of runs that never ran.

use baton_core::fault::Fault;
use baton_core::flow::WaitingOn;
use baton_core::run::ApprovalStatus;
use baton_core::thread::WaitingKind;
use baton_core::time::Timestamp;
use baton_store::RunRow;
use uuid::Uuid;

use super::*;

const RUN: RunId = RunId(Uuid::from_u128(7));
const TRACE: &str = "00000000000000000000000000000007";
const AT: Timestamp = Timestamp(1_767_225_600_000);

fn view(status: RunStatus, result: Option<&str>, steps: Vec<Step>) -> RunView {
    let row = RunRow::begun(RUN, &"t".parse().unwrap(), &"main".parse().unwrap(), -1, AT);
    let row = RunRow { status, ..row };
    let result = result.map(str::to_owned);
    RunView { row, definition: None, error: None, result, waiting: Vec::new(), steps }
}

fn failed(message: &str, shown: Option<&str>, steps: Vec<Step>) -> RunView {
    let error = Some(Fault::new(Code::Refused, message));
    RunView { error, ..view(RunStatus::Error, shown, steps) }
}

fn step(description: &str) -> Step {
    warning(description.to_owned(), [])
}

fn for_person(description: &str) -> Step {
    warning(description.to_owned(), [("escalated_to", json!("person"))])
}

#[track_caller]
fn told(view: &RunView, lines: usize, reply: &str, steps: Vec<Step>) {
    let expected = OrchestratorResult { reply: reply.to_owned(), steps, trace_id: Some(TRACE.to_owned()) };
    assert_eq!(result(view, lines, &[]), expected);
}

#[test]
fn an_answer_is_told_with_the_steps_of_its_request() {
    let steps = vec![step("a"), step("b"), step("c")];
    let answered = view(RunStatus::Ok, Some("Yes."), steps.clone());
    told(&answered, 0, "Yes.", steps.clone());
    told(&answered, 2, "Yes.", steps[2..].to_vec());
    told(&answered, 9, "Yes.", Vec::new());
    told(&view(RunStatus::Ok, None, Vec::new()), 0, "There was no answer.", Vec::new());
    told(&view(RunStatus::Ok, Some(" \n"), Vec::new()), 0, "There was no answer.", Vec::new());
}

#[test]
fn what_only_a_person_can_settle_is_added_once() {
    let steps = vec![
        for_person("write is not allowed here; mode EXPLORATORY would allow it"),
        warning("asking reasoning".to_owned(), [("escalated_to", json!("reasoning"))]),
        for_person("write is not allowed here; mode EXPLORATORY would allow it"),
        for_person("it lacks a date!"),
    ];
    let reply =
        "I could not.\n\nWrite is not allowed here; mode EXPLORATORY would allow it.\n\nIt lacks a date!";
    told(&view(RunStatus::Ok, Some("I could not."), steps.clone()), 0, reply, steps.clone());
    told(&view(RunStatus::Ok, Some("I could not."), steps.clone()), 3, reply, steps[3..].to_vec());
}

#[test]
fn a_failure_is_told_in_its_own_words_with_what_was_shown() {
    let steps = vec![for_person("no")];
    let why = "The model refused: no. Ask another.";
    told(&failed(why, None, steps.clone()), 0, why, steps.clone());
    told(&failed(why, Some("no"), steps.clone()), 0, why, steps);
    told(
        &failed("the time limit was reached", Some("Once upon"), Vec::new()),
        0,
        "The time limit was reached.\n\nWhat was said until then:\n\nOnce upon",
        Vec::new(),
    );
    told(&view(RunStatus::Error, None, Vec::new()), 0, "The request failed.", Vec::new());
}

#[test]
fn a_cancelled_request_says_so() {
    told(&view(RunStatus::Cancelled, None, Vec::new()), 0, "The request was cancelled.", Vec::new());
    let reply = "The request was cancelled.\n\nWhat was said until then:\n\nOnce";
    told(&view(RunStatus::Cancelled, Some("Once"), Vec::new()), 0, reply, Vec::new());
    let reply = "The request is still being worked on.";
    told(&view(RunStatus::Running, None, Vec::new()), 0, reply, Vec::new());
}

fn waiting(kind: WaitingKind, id: &str, question: Option<&str>) -> WaitingOn {
    WaitingOn { kind, id: id.to_owned(), deadline: AT, question: question.map(str::to_owned) }
}

fn approval(id: &str, kind: ApprovalKind, args: Value) -> Approval {
    Approval {
        id: id.to_owned(),
        run_id: RUN,
        call_id: "c".to_owned(),
        kind,
        name: "write".to_owned(),
        args,
        digest: String::new(),
        reason: "the rule asks".to_owned(),
        created: AT,
        expires_at: AT,
        status: ApprovalStatus::Pending,
        by: None,
        at: None,
        original_args: None,
        decision_reason: None,
    }
}

#[test]
fn a_run_that_waits_asks_everything_it_waits_for() {
    let waits = vec![
        waiting(WaitingKind::UserInput, "q", Some("Which?")),
        waiting(WaitingKind::Approval, "ap-1", None),
        waiting(WaitingKind::Approval, "ou-2", None),
        waiting(WaitingKind::Approval, "gone", None),
    ];
    let before = vec![step("a"), for_person("b")];
    let view = RunView { waiting: waits, ..view(RunStatus::Suspended, Some("Let me see."), before.clone()) };
    let asked = [
        approval("ap-1", ApprovalKind::Call, json!({"to": "x"})),
        approval("ou-2", ApprovalKind::Outcome, json!({})),
    ];
    let decides = |id: &str| {
        format!(
            "No message decides this; `baton approvals approve {id}` or `baton approvals deny {id}` does."
        )
    };
    let found_out = "No message decides this: `baton approvals approve ou-2` runs it again with the same key, \
        `baton approvals deny ou-2` leaves it unknown and tells the agent so, and \
        `baton approvals edit ou-2 --arguments '{\"output\": …}'` says that it happened and what came of it.";
    let reply = format!(
        "Which?\n\nMay write run with {{\"to\":\"x\"}}? The rule asks. {}\n\n\
         Did write take effect, called with {{}}? The rule asks. {}\n\n{}",
        decides("ap-1"),
        found_out,
        decides("gone")
    );
    let at = "2026-01-01T00:00:00.000Z";
    let waits = |about: &str, id: &str| {
        let waiting = json!({"kind": "approval", "run_id": RUN, "deadline": at, "approval_id": id});
        warning(format!("the run waits for a decision about {about}"), [("waiting", waiting)])
    };
    let question = json!({"kind": "user_input", "run_id": RUN, "deadline": at});
    let steps = vec![
        warning("the run waits for an answer".to_owned(), [("waiting", question)]),
        waits("write", "ap-1"),
        waits("write", "ou-2"),
        waits("a call", "gone"),
    ];
    let trace_id = Some(TRACE.to_owned());
    let expected =
        OrchestratorResult { reply: reply.clone(), steps: steps.clone(), trace_id: trace_id.clone() };
    assert_eq!(pending(&view, &asked), expected, "asked again, nothing else is told");
    let steps = [before, steps].concat();
    assert_eq!(result(&view, 0, &asked), OrchestratorResult { reply, steps, trace_id });
}

#[test]
fn long_arguments_are_shortened() {
    let long = approval("ap", ApprovalKind::Call, json!("é".repeat(400)));
    let shown = format!("\"{}…", "é".repeat(249));
    let expected = format!(
        "May write run with {shown}? The rule asks. No message decides this; `baton approvals approve ap` or `baton approvals deny ap` does."
    );
    assert_eq!(may_it(&long), expected);
}

#[test]
fn what_was_not_taken_says_what_to_do() {
    let told = |result: OrchestratorResult| {
        let [step] = &result.steps[..] else { panic!("{result:?}") };
        assert_eq!((step.kind, result.trace_id), (StepKind::Warning, None));
        (result.reply, step.description.clone(), Value::Object(step.metadata.clone()))
    };
    let rows = [
        (
            refused(&EngineError::Invalid("the message is empty: say what you want".to_owned()), None),
            (
                "The message is empty: say what you want.",
                "the message is empty: say what you want",
                json!({"error": "invalid_request"}),
            ),
        ),
        (
            refused(&StoreError::Unavailable("the disk is full".to_owned()).into(), Some(RUN)),
            (
                "The store is not available: the disk is full. Send the message again in a moment; `baton doctor` shows what is wrong. `baton runs resume 00000007` goes on with it.",
                "the store is not available: the disk is full",
                json!({"error": "store_unavailable"}),
            ),
        ),
        (
            refused(&EngineError::ShuttingDown, None),
            (
                "This process is shutting down. What was committed is safe.",
                "this process is shutting down",
                json!({"error": "internal"}),
            ),
        ),
        (
            busy(Some(RUN), Duration::from_secs(120)),
            (
                "The session is still busy with another request; this one waited 120s and was not taken. Send it again later, or end the other one with `baton runs cancel 00000007`.",
                "the session is busy with another request",
                json!({"reason": "busy"}),
            ),
        ),
        (
            busy(None, Duration::from_millis(20)),
            (
                "The session is still busy with another request; this one waited 20ms and was not taken. Send it again later.",
                "the session is busy with another request",
                json!({"reason": "busy"}),
            ),
        ),
        (
            broken(),
            (
                "Something went wrong inside Baton. What was committed is safe; `baton runs ls` shows how far it came.",
                "the request was broken off by a fault",
                json!({"error": "internal"}),
            ),
        ),
    ];
    for (result, (reply, description, metadata)) in rows {
        assert_eq!(told(result), (reply.to_owned(), description.to_owned(), metadata));
    }
}

#[test]
fn the_trace_is_that_of_whoever_asked() {
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let mut view = view(RunStatus::Ok, None, Vec::new());
    view.row.metadata = json!({"traceparent": format!("00-{trace}-00f067aa0ba902b7-01")});
    assert_eq!(result(&view, 0, &[]).trace_id.as_deref(), Some(trace));
}
