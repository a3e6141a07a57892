//! Refused requests, and internal faults: each has a result all the same.

use std::sync::Arc;

use baton_core::policy::table::Rows;
use baton_core::policy::{Mode, Policy, Row, Table};
use baton_core::run::RunStatus;
use baton_core::thread::{Entry, NewEntry};
use baton_core::time::Timestamp;
use baton_engine::{Clock, Engine, Orchestrator, Parts, Rested, RunRequest};
use baton_store::{FaultyStore, Store};
use serde_json::{Value, json};

use super::{ask, holds, orchestrator, seen, warning};
use crate::world::{Kept, Mode as StoreMode, NOW, TENANT, World, quick};

/// An engine with the tools of the world and this policy.
fn governed(world: &World, policy: Policy) -> Engine {
    timed(world, policy, world.clock.clone())
}

fn timed(world: &World, policy: Policy, clock: Arc<dyn Clock>) -> Engine {
    let model = world.scripted();
    Engine::new(Parts {
        store: world.store.clone(),
        tools: world.engine().tools().clone(),
        models: Arc::new(move |_| Ok(model.clone())),
        renderers: Default::default(),
        policy,
        clock,
        settings: world.settings.clone(),
    })
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_waits_as_long_as_its_own_mode_allows() {
    let world = World::new(Kept::Memory, StoreMode::Plain);
    world.script(holds());
    let brief = Row { time_s: Some(1), ..Row::default() };
    let rows = Rows { modes: [(Mode::Conservative, brief)].into(), ..Rows::default() };
    let engine = governed(&world, Policy::Table(Table::new(rows).unwrap()));
    let request = RunRequest { mode: Mode::Exploratory, ..world.request("hold") };
    let mut held = engine.start(request).await.unwrap();
    world.ledger.arrived(1).await;
    let agent = orchestrator(&engine);
    let busy = agent.handle_user_request("t", "next", Mode::Conservative, "CHAT").await;
    let reply = "The session is still busy with another request; this one waited 1s and was not taken. \
                 Send it again later, or end the other one with `baton runs cancel SHORT0`.";
    let step = warning("the session is busy with another request", json!({"reason": "busy"}));
    assert_eq!(seen(&world, busy).await, json!({"reply": reply, "steps": [step], "trace_id": null}));
    world.ledger.open();
    assert_eq!(held.rested().await, Rested::Ended(RunStatus::Ok), "it was left alone");
}

#[tokio::test]
async fn what_cannot_be_taken_says_what_to_send_instead() {
    let world = World::new(Kept::Memory, StoreMode::Plain);
    world.script(json!([[{"text": "hello"}]]));
    let engine = governed(&world, Policy::default());
    let agent = orchestrator(&engine);
    let rule = "use 1 to 128 of A-Z a-z 0-9 . _ : -";
    let channels = "there is no channel \"PHONE\"; there are CHAT, CODE_TASK, EXECUTE, SYSTEM_HEALTH";
    let rows = [
        ("", "hi", "CHAT", format!("\"\" is not a valid session id: {rule}")),
        ("a b", "hi", "CHAT", format!("\"a b\" is not a valid session id: {rule}")),
        ("t", "", "CHAT", "the message is empty: say what you want".to_owned()),
        ("t", " \n\t", "CHAT", "the message is empty: say what you want".to_owned()),
        ("t", "hi", "PHONE", channels.to_owned()),
        (
            "t",
            &"x".repeat((1 << 20) + 1),
            "CHAT",
            "the message is longer than 1 MiB: send less at once".to_owned(),
        ),
    ];
    for (session, text, channel, why) in rows {
        let result = agent.handle_user_request(session, text, Mode::Moderate, channel).await;
        let (first, rest) = why.split_at(1);
        let reply = format!("{}{rest}.", first.to_uppercase());
        let step = warning(&why, json!({"error": "invalid_request"}));
        assert_eq!(
            serde_json::to_value(&result).unwrap(),
            json!({"reply": reply, "steps": [step], "trace_id": null})
        );
    }
    assert_eq!(world.store.threads(&TENANT, 9, None).await.unwrap(), [], "nothing came of any of them");
}

#[tokio::test]
async fn a_session_that_was_closed_takes_no_message() {
    let world = World::new(Kept::Memory, StoreMode::Plain);
    world.script(json!([[{"text": "hello"}]]));
    let engine = world.engine();
    assert_eq!(ask(&engine, "hi").await.reply, "hello");
    let finished =
        NewEntry { id: baton_core::id::EntryId(uuid::Uuid::nil()), at: NOW, entry: Entry::Finished };
    world.store.push(&TENANT, &"t".parse().unwrap(), None, finished).await.unwrap();
    let refused = serde_json::to_value(ask(&engine, "hi again").await).unwrap();
    let (reply, step) = (refused["reply"].as_str().unwrap(), &refused["steps"][0]);
    assert!(
        reply.contains("the conversation is finished") && reply.ends_with(" Begin another session."),
        "{reply}"
    );
    assert_eq!((&step["metadata"], &refused["trace_id"]), (&json!({"error": "conflict"}), &Value::Null));
}

#[tokio::test]
async fn a_store_that_never_answers_is_told() {
    let store = Store::Faulty(Arc::new(FaultyStore::new(Store::memory(), 1000, 1)));
    let settings = baton_engine::Settings { store_patience: std::time::Duration::from_millis(5), ..quick() };
    let world = World::on(store, settings, tempfile::tempdir().unwrap());
    world.script(json!([[{"text": "hello"}]]));
    let engine = world.engine();
    let result = serde_json::to_value(ask(&engine, "hi").await).unwrap();
    let why = "the store is not available: start was made to fail";
    let reply = "The store is not available: start was made to fail. Send the message again in a moment; `baton doctor` shows what is wrong.";
    let step = warning(why, json!({"error": "store_unavailable"}));
    assert_eq!(result, json!({"reply": reply, "steps": [step], "trace_id": null}));
}

/// A clock with a fault.
struct Broken;

impl Clock for Broken {
    fn now(&self) -> Timestamp {
        panic!("there is no time")
    }
}

#[tokio::test]
async fn a_fault_of_ours_is_a_result() {
    let world = World::new(Kept::Memory, StoreMode::Plain);
    world.script(json!([[{"text": "hello"}]]));
    let engine = timed(&world, Policy::default(), Arc::new(Broken));
    let reply = "Something went wrong inside Baton. What was committed is safe; `baton runs ls` shows how far it came.";
    let step = warning("the request was broken off by a fault", json!({"error": "internal"}));
    let result = serde_json::to_value(ask(&engine, "hi").await).unwrap();
    assert_eq!(result, json!({"reply": reply, "steps": [step], "trace_id": null}));
}

#[tokio::test]
async fn a_request_is_part_of_its_callers_trace() {
    let world = World::new(Kept::Memory, StoreMode::Plain);
    world.script(json!([[{"text": "hello"}]]));
    let engine = world.engine();
    let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
    let traceparent = Some(format!("00-{trace}-00f067aa0ba902b7-01").parse().unwrap());
    let agent = Orchestrator::new(engine, RunRequest { traceparent, ..RunRequest::new("", "scripted") });
    let result = agent.handle_user_request("t", "hi", Mode::Moderate, "CHAT").await;
    assert_eq!((result.reply.as_str(), result.trace_id.as_deref()), ("hello", Some(trace)));
}
