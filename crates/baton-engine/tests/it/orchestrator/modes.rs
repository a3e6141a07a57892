//! A caller with a low mode does not answer a run with a higher one, at any moment.

use baton_core::policy::Mode;
use baton_core::run::{OrchestratorResult, RunStatus};
use baton_engine::{Engine, EngineError, OnBusy, RunRequest};
use serde_json::{Value, json};

use super::{orchestrator, seen, warning};
use crate::everywhere;
use crate::world::{TENANT, World, insist};

everywhere!(
    a_message_that_waited_does_not_answer_a_run_that_may_do_more,
    a_submitted_message_does_not_either
);

const WHY: &str = "this run is allowed what MODERATE allows, and the caller may allow at most CONSERVATIVE";

/// A run that works until the ledger is opened, and then asks.
fn works_and_asks() -> Value {
    json!([
        [{"call": {"name": "safe", "arguments": {"do": "hold"}}}],
        [{"call": {"name": "ask_user", "arguments": {"question": "Which colour?"}}}],
        [{"text": "You said {last_result}"}]
    ])
}

async fn ask_with_less(engine: &Engine, text: &str) -> OrchestratorResult {
    let less = orchestrator(engine).up_to(Mode::Conservative);
    less.handle_user_request("t", text, Mode::Conservative, "CHAT").await
}

async fn a_message_that_waited_does_not_answer_a_run_that_may_do_more(world: World) {
    world.script(works_and_asks());
    let engine = world.engine();
    let mut handle = engine.start(world.request("paint it")).await.unwrap();
    world.ledger.arrived(1).await;
    let (refused, ()) = tokio::join!(ask_with_less(&engine, "red"), async {
        tokio::task::yield_now().await;
        world.ledger.open();
    });
    let expected = json!({
        "reply": "This run is allowed what MODERATE allows, and the caller may allow at most CONSERVATIVE.",
        "steps": [warning(WHY, json!({"error": "forbidden"}))], "trace_id": null,
    });
    assert_eq!(seen(&world, refused).await, expected);
    handle.rested().await;
    let row = insist(|| world.store.run(&TENANT, handle.run)).await;
    assert_eq!((row.status, row.inbox), (RunStatus::Suspended, 0), "it asks, and nobody was heard");
    let answered = super::ask(&engine, "blue").await;
    assert_eq!(answered.reply, "You said blue");
}

async fn a_submitted_message_does_not_either(world: World) {
    world.script(json!([
        [{"call": {"name": "ask_user", "arguments": {"question": "Which colour?"}}}],
        [{"text": "You said {last_result}"}]
    ]));
    let engine = world.engine();
    let mut handle = engine.start(world.request("paint it")).await.unwrap();
    handle.rested().await;
    let refusal = EngineError::AboveMode { mode: Mode::Moderate, most: Mode::Conservative };
    for on_busy in [OnBusy::Reject, OnBusy::Enqueue, OnBusy::Interrupt] {
        let less = RunRequest {
            most: Mode::Conservative,
            mode: Mode::Conservative,
            on_busy,
            ..world.request("red")
        };
        assert_eq!(engine.submit(less).await.unwrap_err(), refusal);
    }
    assert_eq!(engine.may_steer(&TENANT, handle.run, Mode::Conservative).await, Err(refusal));
    for most in [Mode::Moderate, Mode::Exploratory] {
        assert_eq!(engine.may_steer(&TENANT, handle.run, most).await, Ok(()));
    }
    let row = insist(|| world.store.run(&TENANT, handle.run)).await;
    assert_eq!((row.status, row.inbox), (RunStatus::Suspended, 0));
}
