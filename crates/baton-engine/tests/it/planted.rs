//! The checker finds planted faults: each of these breaks one promise, and each is caught.

use std::sync::Arc;

use baton_core::event::Event;
use baton_core::id::Cursor;
use baton_engine::{EngineBug, Seen, Settings};
use baton_store::{ClaimMode, FaultyStore, Store, StoreBug};
use serde_json::json;

use crate::check::History;
use crate::world::{TENANT, World, quick};

fn with_store_bug(bug: Option<StoreBug>) -> World {
    let store = match bug {
        Some(bug) => Store::Faulty(Arc::new(FaultyStore::with_bug(Store::memory(), bug))),
        None => Store::memory(),
    };
    World::on(store, quick(), tempfile::tempdir().unwrap())
}

fn with_engine_bug(bug: Option<EngineBug>) -> World {
    World::on(Store::memory(), Settings { bug, ..quick() }, tempfile::tempdir().unwrap())
}

fn round() -> serde_json::Value {
    json!([[{"text": "looking"}, {"call": {"name": "once", "arguments": {"do": "ok"}}}], [{"text": "found"}]])
}

/// A turn with a tool round.
async fn plain(world: World) -> History {
    world.script(round());
    let (handle, _, _) = world.turn(&world.engine(), "go").await;
    History::of(&world, handle.run, &[]).await
}

/// A turn with a tool round, watched until the tool's result was shown.
async fn watched(world: World) -> History {
    world.script(json!([[{"call": {"name": "once", "arguments": {"do": "hold"}}}], [{"text": "found"}]]));
    let engine = world.engine();
    let mut handle = engine.start(world.request("go")).await.unwrap();
    let mut reader = engine.events(&TENANT, handle.run, Cursor::default()).await.unwrap();
    let mut seen = vec![reader.next().await.unwrap().unwrap()]; // now it follows the live end
    world.ledger.open();
    while !matches!(seen.last(), Some(Seen::Event(e)) if matches!(e.event, Event::ToolResult { .. })) {
        seen.push(reader.next().await.unwrap().unwrap());
    }
    handle.rested().await;
    History::of(&world, handle.run, &seen).await
}

/// A run is taken from its owner, which does not notice until it writes.
async fn taken(mut world: World) -> History {
    world.settings.poll = std::time::Duration::from_secs(60); // only the store reports the loss to the old owner
    world.script(json!([[{"call": {"name": "safe", "arguments": {"do": "hold"}}}], [{"text": "the end"}]]));
    let (first, second) = (world.engine(), world.engine());
    let mut old = first.start(world.request("go")).await.unwrap();
    world.ledger.arrived(1).await;
    let mut new = second.resume(&TENANT, old.run, ClaimMode::Take).await.unwrap();
    world.ledger.arrived(2).await;
    world.ledger.open();
    old.rested().await;
    new.rested().await;
    History::of(&world, old.run, &[]).await
}

/// The owner dies in the middle of a call with effects.
async fn died(world: World) -> History {
    world.script(json!([[{"call": {"name": "once", "arguments": {"do": "hold"}}}], [{"text": "the end"}]]));
    let engine = world.engine();
    let run = engine.start(world.request("go")).await.unwrap().run;
    world.ledger.arrived(1).await;
    engine.crash().await;
    world.ledger.open();
    world.engine().resume(&TENANT, run, ClaimMode::IfFree).await.unwrap().rested().await;
    History::of(&world, run, &[]).await
}

/// The owner dies after text was stored.
async fn died_talking(mut world: World) -> History {
    world.settings.flush_bytes = 1;
    world.script(json!([[{"text": "stored at once"}, {"stall": true}]]));
    let engine = world.engine();
    let run = engine.start(world.request("go")).await.unwrap().run;
    let mut reader = engine.events(&TENANT, run, Cursor::default()).await.unwrap();
    while !matches!(reader.next().await.unwrap(), Some(Seen::Event(e)) if matches!(e.event, Event::Delta { .. }))
    {
    }
    reader.next().await.unwrap();
    engine.crash().await;
    world.script(json!([[{"text": "said again"}]]));
    world.engine().resume(&TENANT, run, ClaimMode::IfFree).await.unwrap().rested().await;
    History::of(&world, run, &[]).await
}

/// A cancel is acknowledged while a call is held; the call then ends by itself.
async fn cancelled(world: World) -> History {
    world.script(json!([[{"call": {"name": "once", "arguments": {"do": "hold"}}}], [{"text": "the end"}]]));
    let engine = world.engine();
    let mut handle = engine.start(world.request("go")).await.unwrap();
    world.ledger.arrived(1).await;
    // Posted by another process: the owner reads it only when it writes.
    let message = baton_core::run::Message::Cancel;
    world.store.post(&TENANT, handle.run, message, None, crate::world::NOW).await.unwrap();
    let acked_at = world.store.run(&TENANT, handle.run).await.unwrap().step;
    world.ledger.open();
    handle.rested().await;
    let mut history = History::of(&world, handle.run, &[]).await;
    history.cancelled_at = Some(acked_at);
    history
}

/// The run is taken while its call is held; a reader of the old owner sees only committed events.
async fn watched_and_taken(world: World) -> History {
    world.script(json!([[{"call": {"name": "once", "arguments": {"do": "hold"}}}], [{"text": "the end"}]]));
    let (first, second) = (world.engine(), world.engine());
    let mut old = first.start(world.request("go")).await.unwrap();
    world.ledger.arrived(1).await;
    let mut reader = first.events(&TENANT, old.run, Cursor::default()).await.unwrap();
    let mut seen = vec![reader.next().await.unwrap().unwrap()];
    let mut new = second.resume(&TENANT, old.run, ClaimMode::Take).await.unwrap();
    world.ledger.open();
    old.rested().await;
    new.rested().await;
    while let Some(next) = reader.next().await.unwrap() {
        seen.push(next);
    }
    History::of(&world, old.run, &seen).await
}

macro_rules! caught {
    ($($name:ident: $scenario:ident($with:ident, $bug:expr);)*) => {
        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let found = $scenario($with(Some($bug))).await.check();
            assert!(found.is_err(), "the fault was not found");
            println!("{}", found.unwrap_err());
        })*
    };
}

caught! {
    skipping_the_fence: taken(with_store_bug, StoreBug::SkipFence);
    losing_a_commit: watched(with_store_bug, StoreBug::LoseCommit);
    reusing_a_number: plain(with_store_bug, StoreBug::ReuseNumber);
    dropping_an_entry: plain(with_store_bug, StoreBug::DropEntry);
    ignoring_the_inbox: cancelled(with_store_bug, StoreBug::IgnoreInbox);
    ending_twice: plain(with_store_bug, StoreBug::EndTwice);
    dropping_an_intent: died(with_engine_bug, EngineBug::DropIntent);
    running_again: died(with_engine_bug, EngineBug::RunUnsafeAgain);
    forgetting_a_restart: died_talking(with_engine_bug, EngineBug::ForgetRestart);
    publishing_early: watched_and_taken(with_engine_bug, EngineBug::PublishEarly);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_receipt() {
    let world = with_engine_bug(Some(EngineBug::WrongReceipt));
    world.script(json!([[{"call": {"name": "once", "arguments": {"do": "hold"}}}], [{"text": "the end"}]]));
    let engine = world.engine();
    let mut handle = engine.start(world.request("go")).await.unwrap();
    world.ledger.arrived(1).await;
    engine.cancel(&TENANT, handle.run).await.unwrap();
    handle.rested().await;
    assert!(History::of(&world, handle.run, &[]).await.check().is_err());
}

/// Without a fault the same scenarios are clean: the checker has no false alarms.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_fault_nothing_is_found() {
    for history in [
        plain(with_store_bug(None)).await,
        taken(with_store_bug(None)).await,
        died(with_engine_bug(None)).await,
        died_talking(with_engine_bug(None)).await,
        cancelled(with_store_bug(None)).await,
        watched(with_store_bug(None)).await,
        watched_and_taken(with_engine_bug(None)).await,
    ] {
        history.check().unwrap();
    }
}
