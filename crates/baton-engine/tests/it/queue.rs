//! A branch takes one run at a time: the handling of messages that find it busy, and of those sent twice.

use baton_core::id::RunId;
use baton_core::run::{Message, RunStatus};
use baton_core::time::Timestamp;
use baton_engine::{Engine, EngineError, Narrow, OnBusy, RunRequest, Submitted};
use baton_store::{NewKey, StoreError};
use serde_json::json;

use crate::check::check;
use crate::everywhere;
use crate::world::{NOW, TENANT, World, insist, kinds};

everywhere!(
    a_busy_branch_refuses_by_default,
    messages_wait_for_their_turn_in_order,
    an_interrupting_message_cancels_and_is_next,
    a_run_that_waits_can_be_cancelled,
    only_so_many_wait,
    a_key_begins_one_run,
    a_key_answers_a_question_once,
    what_is_more_than_allowed_is_capped_and_told,
);

fn request(world: &World, text: &str, on_busy: OnBusy) -> RunRequest {
    RunRequest { on_busy, ..world.request(text) }
}

fn keyed(world: &World, text: &str, key: &str) -> RunRequest {
    let expires_at = Timestamp(NOW.0 + 86_400_000);
    let new = |text: &str| NewKey {
        route: "/v1/agent/run".to_owned(),
        key: key.to_owned(),
        body_hash: text.to_owned(),
        expires_at,
    };
    RunRequest { key: Some(new(text)), ..world.request(text) }
}

/// An engine whose first run holds the branch until the gate opens.
async fn busy(world: &World) -> (Engine, RunId) {
    let hold = json!([{"call": {"name": "safe", "arguments": {"do": "hold"}}}]);
    world
        .script(json!([hold, [{"text": "one"}], [{"text": "two"}], [{"text": "three"}], [{"text": "four"}]]));
    let engine = world.engine();
    engine.adopt(|_| Ok(()));
    let first = engine.start(world.request("first")).await.unwrap();
    world.ledger.arrived(1).await;
    (engine, first.run)
}

/// Waits for a run's end, on any process.
async fn ended(engine: &Engine, run: RunId) -> Vec<String> {
    let mut reader = engine.events(&TENANT, run, baton_core::id::Cursor { epoch: 1, seq: 0 }).await.unwrap();
    let mut events = Vec::new();
    while let Some(seen) = reader.next().await.unwrap() {
        if let baton_engine::Seen::Event(event) = seen {
            events.push(std::sync::Arc::unwrap_or_clone(event));
        }
    }
    kinds(&events)
}

async fn queued(engine: &Engine, request: RunRequest) -> RunId {
    match engine.submit(request).await.unwrap() {
        Submitted::Queued(run) => run,
        other => panic!("{other:?}"),
    }
}

async fn a_busy_branch_refuses_by_default(world: World) {
    let (engine, first) = busy(&world).await;
    let refused = engine.submit(world.request("second")).await.unwrap_err();
    assert_eq!(refused, EngineError::Store(StoreError::Busy { branch: "main".to_owned(), run: first }));
    world.ledger.open();
    assert_eq!(ended(&engine, first).await.last().unwrap(), "ended ok");
    check(&world, first, &[]).await.unwrap();
}

async fn messages_wait_for_their_turn_in_order(world: World) {
    let (engine, first) = busy(&world).await;
    let second = queued(&engine, request(&world, "second", OnBusy::Enqueue)).await;
    let third = queued(&engine, request(&world, "third", OnBusy::Enqueue)).await;
    let row = insist(|| world.store.run(&TENANT, second)).await;
    assert_eq!((row.status, row.owner, row.step), (RunStatus::Queued, None, 0));
    world.ledger.open();
    for run in [first, second, third] {
        assert_eq!(ended(&engine, run).await.last().unwrap(), "ended ok");
    }
    check(&world, third, &[]).await.unwrap();
    let said: Vec<String> =
        world.transcript().await.into_iter().filter(|line| !line.starts_with("Tool")).collect();
    assert_eq!(
        said,
        [
            "UserMessage: first",
            "AssistantMessage: ",
            "AssistantMessage: one",
            "UserMessage: second",
            "AssistantMessage: two",
            "UserMessage: third",
            "AssistantMessage: three"
        ]
    );
}

async fn an_interrupting_message_cancels_and_is_next(world: World) {
    let (engine, first) = busy(&world).await;
    let second = queued(&engine, request(&world, "stop that", OnBusy::Interrupt)).await;
    assert_eq!(ended(&engine, first).await.last().unwrap(), "ended cancelled");
    assert_eq!(ended(&engine, second).await, ["started", "delta", "ended ok"]);
}

async fn a_run_that_waits_can_be_cancelled(world: World) {
    let (engine, first) = busy(&world).await;
    let second = queued(&engine, request(&world, "second", OnBusy::Enqueue)).await;
    assert_eq!(engine.cancel(&TENANT, second).await.unwrap(), RunStatus::Cancelled);
    assert_eq!(ended(&engine, second).await, ["started", "ended cancelled"]);
    assert_eq!(engine.cancel(&TENANT, second).await.unwrap(), RunStatus::Cancelled, "and stays so");
    world.ledger.open();
    assert_eq!(ended(&engine, first).await.last().unwrap(), "ended ok");
    assert!(!world.transcript().await.contains(&"UserMessage: second".to_owned()), "it was never said");
    check(&world, first, &[]).await.unwrap();
}

async fn only_so_many_wait(mut world: World) {
    world.settings.most_queued = 1;
    let (engine, first) = busy(&world).await;
    let second = queued(&engine, request(&world, "second", OnBusy::Enqueue)).await;
    let refused = engine.submit(request(&world, "third", OnBusy::Enqueue)).await.unwrap_err();
    let full = StoreError::QueueFull { branch: "main".to_owned(), most: 1 };
    assert_eq!(refused, EngineError::Store(full));
    world.ledger.open();
    for run in [first, second] {
        assert_eq!(ended(&engine, run).await.last().unwrap(), "ended ok");
    }
}

async fn a_key_begins_one_run(world: World) {
    let (engine, first) = busy(&world).await;
    world.ledger.open();
    ended(&engine, first).await;
    let began = engine.submit(keyed(&world, "second", "k")).await.unwrap();
    let Submitted::Started(mut handle) = began else { panic!("{began:?}") };
    let again = engine.submit(keyed(&world, "second", "k")).await.unwrap();
    assert!(matches!(again, Submitted::Repeated(run) if run == handle.run), "{again:?}");
    handle.rested().await;
    let later = engine.submit(keyed(&world, "second", "k")).await.unwrap();
    assert_eq!(later.run(), handle.run);
    let other = engine.submit(keyed(&world, "something else", "k")).await.unwrap_err();
    assert_eq!(other, EngineError::KeyMismatch);
    let count = world.transcript().await.iter().filter(|line| *line == "UserMessage: second").count();
    assert_eq!(count, 1);
}

async fn a_key_answers_a_question_once(world: World) {
    let ask = json!([{"call": {"name": "ask_user", "arguments": {"question": "Which?"}}}]);
    world.script(json!([ask.clone(), ask, [{"text": "done"}]]));
    let engine = world.engine();
    let (handle, ..) = world.turn(&engine, "go").await;
    let answered = engine.submit(keyed(&world, "blue", "k")).await.unwrap();
    let Submitted::Answered(mut again) = answered else { panic!("{answered:?}") };
    again.rested().await;
    let repeated = engine.submit(keyed(&world, "blue", "k")).await.unwrap();
    assert!(matches!(repeated, Submitted::Repeated(run) if run == handle.run), "{repeated:?}");
    let inbox = insist(|| world.store.inbox(&TENANT, handle.run, 0)).await;
    let texts: Vec<&str> = inbox
        .iter()
        .map(|posted| match &posted.message {
            Message::Input { text, .. } => text.as_str(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(texts, ["blue"], "the second question was not answered by the repetition");
}

async fn what_is_more_than_allowed_is_capped_and_told(world: World) {
    world.script(json!([[{"text": "done"}]]));
    let engine = world.engine();
    let narrow = Narrow { iterations: Some(99), active_ms: Some(5_000), ..Narrow::default() };
    let mut handle = engine.start(RunRequest { narrow, ..world.request("go") }).await.unwrap();
    handle.rested().await;
    assert_eq!(
        kinds(&world.events(handle.run).await),
        ["started", "warning budget_exceeded", "delta", "ended ok"]
    );
    let limits = engine.view(&TENANT, handle.run).await.unwrap().definition.unwrap().decision.limits;
    assert_eq!((limits.iterations, limits.active_ms), (world.decision.limits.iterations, 5_000));
}
