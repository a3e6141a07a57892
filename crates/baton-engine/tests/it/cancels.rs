//! Cancel: nothing starts after it, everything is accounted for, and the receipt is true.

use baton_core::event::Event;
use baton_core::run::RunStatus;
use baton_engine::Rested;
use serde_json::json;

use crate::check::{History, check};
use crate::everywhere;
use crate::world::{Kept, Mode, TENANT, World, insist, kinds};

everywhere!(
    a_cancel_stops_a_stream,
    a_cancel_stops_a_tool_and_says_so,
    a_deaf_tool_is_unknown_after_the_grace,
    a_cancel_after_the_end_changes_nothing,
    time_is_up,
);

async fn a_cancel_stops_a_stream(world: World) {
    world.script(json!([[{"text": "Once upon a time"}, {"stall": true}]]));
    let engine = world.engine();
    let mut handle = engine.start(world.request("tell me")).await.unwrap();
    let mut reader = engine.events(handle.tenant(), handle.run, Default::default()).await.unwrap();
    while !matches!(reader.next().await.unwrap(), Some(baton_engine::Seen::Event(e)) if matches!(e.event, Event::Delta { .. }))
    {
    }
    engine.cancel(&TENANT, handle.run).await.unwrap();
    assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Cancelled));
    let last = world.transcript().await.pop().unwrap();
    assert!(last.starts_with("AssistantMessage: Once") && last.ends_with("[cancelled]"), "{last}");
    check(&world, handle.run, &[]).await.unwrap();
}

async fn a_cancel_stops_a_tool_and_says_so(mut world: World) {
    world.settings.effects_at_once = 2;
    let call =
        |name: &str, told: &str, n: i32| json!({"call": {"name": name, "arguments": {"do": told, "n": n}}});
    world.script(json!([[call("once", "ok", 0)], [call("once", "hold", 1), call("safe", "hold", 2), call("once", "ok", 3)], [{"text": "never"}]]));
    let engine = world.engine();
    let mut handle = engine.start(world.request("go")).await.unwrap();
    world.ledger.arrived(3).await;
    engine.cancel(&TENANT, handle.run).await.unwrap();
    assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Cancelled));
    let events = world.events(handle.run).await;
    let Some(Event::Ended { receipt: Some(receipt), .. }) = events.last().map(|e| &e.event) else {
        panic!("no receipt")
    };
    let names =
        |calls: &[baton_core::run::ReceiptCall]| calls.iter().map(|c| c.name.clone()).collect::<Vec<_>>();
    let mut stopped = names(&receipt.stopped);
    stopped.sort();
    assert_eq!(
        (names(&receipt.finished), stopped),
        (vec!["once".to_owned()], vec!["once".to_owned(), "safe".to_owned()])
    );
    assert_eq!((names(&receipt.unknown), names(&receipt.not_started)), (vec![], vec!["once".to_owned()]));
    check(&world, handle.run, &[]).await.unwrap();
}

async fn a_deaf_tool_is_unknown_after_the_grace(world: World) {
    world.script(json!([[{"call": {"name": "once", "arguments": {"do": "deaf"}}}], [{"text": "never"}]]));
    let engine = world.engine();
    let mut handle = engine.start(world.request("go")).await.unwrap();
    world.ledger.arrived(1).await;
    engine.cancel(&TENANT, handle.run).await.unwrap();
    assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Cancelled));
    let kinds = kinds(&world.events(handle.run).await);
    assert_eq!(kinds[2..], ["tool_result once Unknown", "ended cancelled"]);
    check(&world, handle.run, &[]).await.unwrap();
}

async fn a_cancel_after_the_end_changes_nothing(world: World) {
    world.script(json!([[{"text": "done"}]]));
    let engine = world.engine();
    let (handle, _, events) = world.turn(&engine, "hi").await;
    assert_eq!(engine.cancel(&TENANT, handle.run).await.unwrap(), RunStatus::Ok);
    assert_eq!(world.events(handle.run).await, events);
}

async fn time_is_up(mut world: World) {
    world.decision.limits.active_ms = 1_000;
    world.script(json!([[{"call": {"name": "safe", "arguments": {"do": "hold"}}}], [{"text": "never"}]]));
    let (handle, rested, events) = world.turn(&world.engine(), "go").await;
    assert_eq!(rested, Rested::Ended(RunStatus::Error));
    assert_eq!(
        kinds(&events)[1..],
        ["tool_start safe", "tool_result safe Cancelled", "ended error deadline"]
    );
    check(&world, handle.run, &[]).await.unwrap();
}

/// Cancels at random moments: in every case the receipt matches the ledger, and no call started after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_cancels() {
    let world = std::sync::Arc::new(World::new(Kept::Sqlite, Mode::Plain));
    let call = |name: &str, n: i32| json!({"call": {"name": name, "arguments": {"do": "ok", "n": n}}});
    let round = |n: i32| json!([{"text": "thinking about it now"}, call("once", n), call("safe", n + 1), call("idem", n + 2)]);
    world.script(json!([round(0), round(10), round(20), [{"text": "done at last"}]]));
    let engine = world.engine();
    let mut seed: u64 = 20_260_101;
    for at_once in 0..crate::rounds(200, 2_000) / 20 {
        let mut tasks = Vec::new();
        for n in 0..20u64 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (world, engine, after) = (world.clone(), engine.clone(), (seed >> 33) % 12);
            tasks.push(tokio::spawn(async move {
                let thread = Some(format!("c-{at_once}-{n}").parse().unwrap());
                let request = baton_engine::RunRequest { thread, ..world.request("go") };
                let mut handle = engine.start(request).await.unwrap();
                let mut reader = engine.events(&TENANT, handle.run, Default::default()).await.unwrap();
                for _ in 0..after {
                    reader.next().await.unwrap();
                }
                engine.cancel(&TENANT, handle.run).await.unwrap();
                let acked_at = insist(|| world.store.run(&TENANT, handle.run)).await.step;
                handle.rested().await;
                let mut history = History::of(&world, handle.run, &[]).await;
                // A step may be committed between the acknowledgement and the read below.
                history.cancelled_at = Some(acked_at);
                history.check().unwrap_or_else(|error| panic!("after {after}: {error}"));
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
    }
}
