use baton_core::budget::Budget;
use baton_core::effect::Effect;
use baton_core::flow::{FlowRecord, Node};
use baton_core::id::{BranchName, FramePath, RunId, ThreadId};
use baton_core::run::{RunStatus, Usage};
use baton_store::{CHECKPOINT_VERSION, Checkpoint};

use super::*;

fn tool(name: &str, class: EffectClass) -> ToolSpec {
    ToolSpec { name: name.to_owned(), class, ..ToolSpec::default() }
}

fn step(n: u32, in_flight: Vec<Intent>, events: Vec<Event>) -> StepRow {
    let checkpoint = Checkpoint {
        v: CHECKPOINT_VERSION,
        at: Timestamp(i64::from(n)),
        node: Node::ToolCall,
        next_action: None,
        state: FlowRecord::new("turn", 1, &json!({})),
        in_flight,
        inbox_read: 0,
        head: 0,
        budget: Budget::default(),
        tail: Default::default(),
        waiting: Vec::new(),
        account: Vec::new(),
        events,
    };
    StepRow { step: n, epoch: 1, frame: FramePath::root(), first_seq: 1, last_seq: 1, checkpoint }
}

fn start(name: &str) -> Event {
    Event::ToolStart { name: name.to_owned(), args: json!({"of": name}), call_id: format!("c-{name}") }
}

fn end(name: &str, status: Closing) -> Event {
    let (name, call_id) = (name.to_owned(), format!("c-{name}"));
    Event::ToolResult { name, result: String::new(), call_id, status, blob: None }
}

fn flies(name: &str, class: EffectClass, again: u32, attempt: u32) -> Intent {
    let (call_id, name) = (format!("c-{name}"), name.to_owned());
    let kind = EffectKind::Tool { call_id, name, entry: 0, class, edited_by: None, again };
    Intent { effect: Effect { n: 1, kind }, attempt, shown: false }
}

fn closed(steps: &[StepRow]) -> Vec<(u32, String, EffectClass, Closing, usize)> {
    let tools = [tool("free", EffectClass::SideEffectFree), tool("pay", EffectClass::Unsafe)];
    let mut trail = CallTrail::new(&tools);
    steps.iter().for_each(|step| trail.step(step));
    let brief = |call: ClosedCall| (call.step, call.name, call.class, call.outcome, call.attempts);
    trail.closed().into_iter().map(brief).collect()
}

#[test]
fn each_try_counts_once_however_many_steps_it_is_in() {
    let pay = |again, attempt| vec![flies("pay", EffectClass::Idempotent, again, attempt)];
    let steps = [
        step(1, pay(0, 1), vec![start("pay")]),
        step(2, pay(0, 1), vec![]),
        step(3, pay(0, 2), vec![]),
        step(4, pay(1, 1), vec![]),
        step(5, vec![], vec![end("pay", Closing::Error)]),
    ];
    assert_eq!(closed(&steps), [(5, "pay".to_owned(), EffectClass::Idempotent, Closing::Error, 3)]);
}

#[test]
fn calls_without_effects_and_of_tools_that_there_are_not_leave_no_row() {
    let steps = [
        step(1, vec![flies("free", EffectClass::SideEffectFree, 0, 1)], vec![start("free"), start("nope")]),
        step(
            2,
            vec![],
            vec![end("free", Closing::Ok), end("nope", Closing::Error), end("other", Closing::Ok)],
        ),
    ];
    assert_eq!(closed(&steps), []);
    // The class of the call that ran counts: a user's edit replaced the arguments that were declared harmless.
    let edited = [
        step(1, vec![flies("free", EffectClass::Unsafe, 0, 1)], vec![start("free")]),
        step(2, vec![], vec![end("free", Closing::Ok)]),
    ];
    assert_eq!(closed(&edited), [(2, "free".to_owned(), EffectClass::Unsafe, Closing::Ok, 1)]);
}

#[test]
fn a_call_that_a_run_ended_over_is_unknown() {
    let ended =
        Event::Ended { status: RunStatus::Error, error: None, usage: Usage::default(), receipt: None };
    let steps = [
        step(1, vec![flies("pay", EffectClass::Unsafe, 0, 1)], vec![start("pay")]),
        step(2, vec![], vec![ended]),
    ];
    assert_eq!(closed(&steps), [(2, "pay".to_owned(), EffectClass::Unsafe, Closing::Unknown, 1)]);
}

#[test]
fn a_row_has_the_digest_of_all_arguments_and_shows_their_beginning() {
    let (run, thread) = (RunId(uuid::Uuid::from_u128(1)), "t".parse::<ThreadId>().unwrap());
    let row = RunRow::begun(run, &thread, &BranchName::main(), 0, Timestamp(0));
    let long = json!({"text": "é".repeat(4000), "password": "p"});
    let call = ClosedCall {
        step: 1,
        at: Timestamp(7),
        call_id: "c".to_owned(),
        name: "pay".to_owned(),
        class: EffectClass::Unsafe,
        arguments: long.clone(),
        outcome: Closing::Denied,
        attempts: 0,
        approval: Some("ap-c".to_owned()),
    };
    let event = called(&Audit::default(), &row, &call);
    let shown = event.payload["arguments"].as_str().unwrap();
    assert!(shown.len() <= MOST_ARGUMENTS + '…'.len_utf8() && shown.ends_with('…'), "{}", shown.len());
    let mut payload = event.payload.clone();
    payload["arguments"].take();
    let expected = json!({
        "run_id": run, "thread_id": "t", "trace_id": trace_id_of(&row), "at": Timestamp(7), "call_id": "c",
        "name": "pay", "class": "unsafe", "digest": call_digest("pay", &long), "arguments": null,
        "outcome": "denied", "attempts": 0, "approval_id": "ap-c",
    });
    assert_eq!(payload, expected);
    assert_eq!((event.kind.as_str(), event.correlation), ("tool.called", run.to_string()));
}
