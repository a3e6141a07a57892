//! Readers: from any place, live or late, across owners, and never at the run's expense.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_core::chat::{FinishReason, TokenUsage};
use baton_core::event::Event;
use baton_core::id::Cursor;
use baton_core::run::RunStatus;
use baton_engine::{EngineError, EventReader, Rested, Seen, Settings};
use baton_model::{Delta, DeltaStream, Model, ModelRequest};
use baton_store::{ClaimMode, SqliteStore, Store};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::check::check;
use crate::everywhere;
use crate::world::{TENANT, World, quick, watch};

everywhere!(
    live_and_late_readers_see_the_same,
    every_cursor_goes_on_without_gap_or_repeat,
    a_reader_of_another_process_follows,
    lost_text_is_withdrawn,
    stored_text_of_a_call_that_runs_again_is_void,
    a_reader_that_never_reads_delays_nobody,
);

const STORY: [&str; 3] = ["Once upon a time there was", " a run that was read", " by many"];

fn story() -> serde_json::Value {
    json!([[{"text": STORY[0]}, {"call": {"name": "safe", "arguments": {"do": "ok"}}}], [{"text": STORY[1]}, {"text": STORY[2]}]])
}

async fn live_and_late_readers_see_the_same(world: World) {
    world.script(story());
    let engine = world.engine();
    let handle = engine.start(world.request("hi")).await.unwrap();
    let live = watch(&engine, handle.run, Cursor::default()).await;
    let late = watch(&engine, handle.run, Cursor::default()).await;
    assert_eq!(live, late);
    assert!(matches!(live.last(), Some(Seen::Event(last)) if last.event.is_terminal()));
    check(&world, handle.run, &live).await.unwrap();
}

async fn every_cursor_goes_on_without_gap_or_repeat(world: World) {
    world.script(story());
    let engine = world.engine();
    let (handle, _, _) = world.turn(&engine, "hi").await;
    let all = watch(&engine, handle.run, Cursor::default()).await;
    for seq in 0..=all.len() as u64 {
        assert_eq!(watch(&engine, handle.run, Cursor { epoch: 1, seq }).await, all[seq as usize..]);
    }
    let end = all.len() as u64;
    for (epoch, seq) in [(1, end + 1), (2, 0), (2, 1), (9, end), (1, u64::MAX)] {
        let refused = engine.events(&TENANT, handle.run, Cursor { epoch, seq }).await.err();
        let last = Cursor { epoch: 1, seq: end };
        assert_eq!(refused, Some(EngineError::BadCursor { cursor: Cursor { epoch, seq }, last }));
    }
}

async fn a_reader_of_another_process_follows(world: World) {
    world.script(json!([[{"text": "a piece of text"}, {"call": {"name": "safe", "arguments": {"do": "hold"}}}], [{"text": "the end"}]]));
    let (here, there) = (world.engine(), world.engine());
    let handle = here.start(world.request("hi")).await.unwrap();
    world.ledger.arrived(1).await;
    let reading = tokio::spawn(async move { watch(&there, handle.run, Cursor::default()).await });
    let live = tokio::spawn({
        let here = here.clone();
        async move { watch(&here, handle.run, Cursor::default()).await }
    });
    world.ledger.open();
    let (seen, live) = (reading.await.unwrap(), live.await.unwrap());
    assert_eq!(seen, live);
    check(&world, handle.run, &seen).await.unwrap();
}

/// The owner dies with text shown and not committed: readers get the number of the last event that counts.
async fn lost_text_is_withdrawn(mut world: World) {
    world.settings.flush_after = std::time::Duration::from_secs(600);
    world.script(json!([[{"text": "these words are never stored"}, {"stall": true}]]));
    let (here, there) = (world.engine(), world.engine());
    let handle = here.start(world.request("hi")).await.unwrap();
    let mut reader = here.events(&TENANT, handle.run, Cursor::default()).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 4 {
        seen.push(reader.next().await.unwrap().unwrap());
    }
    let cursor = reader.cursor();
    here.crash().await;
    let mut resumed = there.resume(&TENANT, handle.run, ClaimMode::IfFree).await.unwrap();
    let mut again = there.events(&TENANT, handle.run, cursor).await.unwrap();
    assert_eq!(again.next().await.unwrap(), Some(Seen::Resumed { last_seq: 1 }));
    seen.push(Seen::Resumed { last_seq: 1 });
    there.cancel(&TENANT, handle.run).await.unwrap();
    assert_eq!(resumed.rested().await, Rested::Ended(RunStatus::Cancelled));
    while let Some(next) = again.next().await.unwrap() {
        seen.push(next);
    }
    check(&world, handle.run, &seen).await.unwrap();
}

async fn stored_text_of_a_call_that_runs_again_is_void(mut world: World) {
    world.settings.flush_bytes = 1;
    world.script(json!([[{"text": "stored at once"}, {"stall": true}]]));
    let here = world.engine();
    let handle = here.start(world.request("hi")).await.unwrap();
    let mut reader = here.events(&TENANT, handle.run, Cursor::default()).await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < 3 {
        seen.push(reader.next().await.unwrap().unwrap());
    }
    let cursor = reader.cursor();
    here.crash().await;
    world.script(json!([[{"text": "said again"}]]));
    let there = world.engine();
    let mut resumed = there.resume(&TENANT, handle.run, ClaimMode::IfFree).await.unwrap();
    assert_eq!(resumed.rested().await, Rested::Ended(RunStatus::Ok));
    seen.extend(watch(&there, handle.run, cursor).await);
    let restarted = seen
        .iter()
        .filter(|s| matches!(s, Seen::Event(e) if matches!(e.event, Event::Restarted { .. })))
        .count();
    assert_eq!(restarted, 1);
    assert_eq!(world.transcript().await, ["UserMessage: hi", "AssistantMessage: said again"]);
    check(&world, handle.run, &seen).await.unwrap();
}

async fn a_reader_that_never_reads_delays_nobody(mut world: World) {
    world.settings.ring = 8;
    let text = "word ".repeat(400);
    world.script(json!([[{"text": text}]]));
    let engine = world.engine();
    let mut handle = engine.start(world.request("hi")).await.unwrap();
    let mut idle = Vec::new();
    for _ in 0..50 {
        idle.push(engine.events(&TENANT, handle.run, Cursor::default()).await.unwrap());
    }
    assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Ok));
    let mut late = idle.pop().unwrap();
    let mut seen = Vec::new();
    while let Some(next) = late.next().await.unwrap() {
        seen.push(next);
    }
    assert!(seen.len() > 400);
    check(&world, handle.run, &seen).await.unwrap();
}

/// A model that streams the given deltas, as they are sent.
struct Dictated(Mutex<Option<UnboundedReceiver<Delta>>>);

impl Model for Dictated {
    fn name(&self) -> String {
        "dictated".to_owned()
    }

    fn stream(&self, _: ModelRequest) -> DeltaStream {
        let told = self.0.lock().unwrap().take().unwrap();
        Box::pin(futures_util::stream::unfold(told, async |mut told| Some((Ok(told.recv().await?), told))))
    }

    fn cost(&self, _: &TokenUsage) -> Option<u64> {
        Some(0)
    }
}

/// The next piece of text.
async fn piece(reader: &mut EventReader, seen: &mut Vec<Seen>) -> String {
    loop {
        let next = reader.next().await.unwrap().unwrap();
        seen.push(next.clone());
        if let Seen::Event(event) = next
            && let Event::Delta { text, .. } = &event.event
        {
            return text.clone();
        }
    }
}

/// A slow store does not hold up readers: while text is being saved, further text is shown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn text_goes_on_while_nobody_can_write() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::Sqlite(SqliteStore::open(folder.path()).unwrap().store);
    let other = rusqlite::Connection::open(folder.path().join("baton.db")).unwrap();
    other.busy_timeout(Duration::from_secs(20)).unwrap();
    let world = World::on(store, Settings { flush_bytes: 4, ..quick() }, folder);
    let (say, told) = unbounded_channel();
    let engine = world.engine_of(Arc::new(Dictated(Mutex::new(Some(told)))), Vec::new());
    let mut handle = engine.start(world.request("go")).await.unwrap();
    let mut reader = engine.events(&TENANT, handle.run, Cursor::default()).await.unwrap();
    let mut seen = Vec::new();
    // The second is long enough to be saved at once, and cannot be.
    for (n, word) in ["a", "bbbb", "c", "d", "e"].into_iter().enumerate() {
        if n == 1 {
            other.execute_batch("BEGIN IMMEDIATE").unwrap();
        }
        say.send(Delta::Text(word.to_owned())).unwrap();
        assert_eq!(piece(&mut reader, &mut seen).await, word);
    }
    for last in [Delta::Usage(TokenUsage::default()), Delta::Finish(FinishReason::Stop)] {
        say.send(last).unwrap();
    }
    drop(say);
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Ok));
    while let Some(next) = reader.next().await.unwrap() {
        seen.push(next);
    }
    assert_eq!(seen, watch(&engine, handle.run, Cursor::default()).await);
    check(&world, handle.run, &seen).await.unwrap();
}
