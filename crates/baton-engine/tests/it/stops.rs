//! An orderly shutdown: a process finishes or releases its runs, at whatever moment it begins to stop, and receives
//! cancels for as long as it takes.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use baton_core::run::RunStatus;
use baton_core::time::Timestamp;
use baton_engine::{Clock, Engine, Rested, RunHandle, Settings};
use baton_store::{FaultyStore, Mishap, Store};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::time::timeout;

use crate::check::check;
use crate::world::{NOW, TENANT, World, quick};

/// The engine that is to stop, once it exists.
type Stopped = Arc<OnceLock<Engine>>;

/// Begins the shutdown of an engine; does not wait for it.
fn tell(stopped: &Stopped) {
    assert!(stopped.get().unwrap().shutdown().now_or_never().is_none(), "it has runs");
}

/// A clock that begins an engine's shutdown when it is read for the n-th time.
struct Stopping {
    stopped: Stopped,
    at: u64,
    looks: AtomicU64,
}

impl Clock for Stopping {
    fn now(&self) -> Timestamp {
        // The start itself, before which there is no engine to stop, does not count.
        if self.stopped.get().is_some() && self.looks.fetch_add(1, SeqCst) == self.at {
            tell(&self.stopped);
        }
        NOW
    }
}

fn world_on(store: Store, settings: Settings) -> World {
    World::on(store, settings, tempfile::tempdir().unwrap())
}

/// Stops a process when its clock is read for the n-th time after a run began; answers whether that happened.
async fn stops_at(nth: u64) -> bool {
    let mut world = world_on(Store::memory(), quick());
    world.decision.approvals = vec!["once".to_owned()];
    let call = |name: &str, told: &str| json!({"call": {"name": name, "arguments": {"do": told}}});
    world.script(json!([[call("safe", "hold"), call("once", "ok")], [{"text": "never"}]]));
    let stopped = Stopped::default();
    let clock = Arc::new(Stopping { stopped: stopped.clone(), at: nth, looks: AtomicU64::new(0) });
    world.other_clock = Some(clock.clone());
    let engine = world.engine();
    let mut handle = engine.start(world.request("go")).await.unwrap();
    stopped.set(engine.clone()).unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    if clock.looks.load(SeqCst) <= nth {
        return false;
    }
    let all = timeout(world.settings.shutdown * 3, engine.shutdown()).await;
    assert_eq!(all, Ok(()), "told at its look {nth}");
    let rested = handle.rested().await;
    assert_eq!(rested, Rested::Released, "at {nth}");
    assert_eq!(world.store.run(&TENANT, handle.run).await.unwrap().owner, None, "at {nth}");
    true
}

/// Also between the driver's check for a shutdown and its sleep: it reads its clock in between.
#[tokio::test(start_paused = true)]
async fn a_stop_is_heard_whenever_it_comes() {
    let mut nth = 0;
    while stops_at(nth).await {
        nth += 1;
    }
    assert!(nth > 5, "a driver that waits looks at its clock: {nth}");
}

/// A run that waits for a tool, in a process that is shutting down and gives it an hour.
async fn stopping(world: &World) -> (Engine, RunHandle) {
    world.script(json!([[{"call": {"name": "once", "arguments": {"do": "hold"}}}], [{"text": "never"}]]));
    let engine = world.engine();
    let handle = engine.start(world.request("go")).await.unwrap();
    world.ledger.arrived(1).await;
    assert!(engine.shutdown().now_or_never().is_none());
    (engine, handle)
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_owner_goes_down_is_cancelled_from_another_process_at_once() {
    let world = world_on(Store::memory(), Settings { shutdown: Duration::from_secs(3600), ..quick() });
    let (engine, mut handle) = stopping(&world).await;
    let other = world.engine();
    assert_eq!(other.cancel(&TENANT, handle.run).await, Ok(RunStatus::Running));
    let rested = timeout(Duration::from_secs(1), handle.rested()).await;
    assert_eq!(rested, Ok(Rested::Ended(RunStatus::Cancelled)));
    assert_eq!(timeout(Duration::from_secs(1), engine.shutdown()).await, Ok(()));
    check(&world, handle.run, &[]).await.unwrap();
}

/// Runs a hook and then goes on, in the middle of a call to a store.
fn then(happens: impl Fn() + Send + Sync + 'static) -> Mishap {
    let happens = Arc::new(happens);
    Mishap::Then(Arc::new(move || -> BoxFuture<'static, ()> {
        let happens = happens.clone();
        Box::pin(async move {
            happens();
            tokio::task::yield_now().await;
        })
    }))
}

/// A run that is claimed while the shutdown begins, and a driver that panics then: no other process could take the run
/// while this one lives.
#[tokio::test(start_paused = true)]
async fn a_process_that_goes_down_keeps_no_run_that_it_does_not_drive() {
    let (faulty, stopped) = (Arc::new(FaultyStore::new(Store::memory(), 0, 0)), Stopped::default());
    let world = world_on(Store::Faulty(faulty.clone()), quick());
    let (_, handle) = stopping(&world).await;
    tokio::time::sleep(world.settings.shutdown * 2).await;
    let row = world.store.run(&TENANT, handle.run).await.unwrap();
    assert_eq!((row.owner, row.epoch), (None, 1), "it was let go of");

    let told = stopped.clone();
    faulty.plan("claim", 1, then(move || tell(&told)));
    let engine = world.engine();
    stopped.set(engine.clone()).unwrap();
    engine.adopt(|_| Ok(()));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(timeout(world.settings.shutdown * 3, engine.shutdown()).await, Ok(()));
    let row = world.store.run(&TENANT, handle.run).await.unwrap();
    assert_eq!((row.owner, row.epoch), (None, 2), "it was claimed and let go of");

    let told = Stopped::default();
    let telling = told.clone();
    let nth = faulty.called("commit") + 1;
    faulty.plan(
        "commit",
        nth,
        then(move || {
            tell(&telling);
            panic!("as told");
        }),
    );
    let engine = world.engine();
    told.set(engine.clone()).unwrap();
    let mut handle = engine.resume(&TENANT, handle.run, baton_store::ClaimMode::IfFree).await.unwrap();
    assert!(matches!(handle.rested().await, Rested::Failed(_)));
    assert_eq!(timeout(world.settings.shutdown * 3, engine.shutdown()).await, Ok(()));
    let row = world.store.run(&TENANT, handle.run).await.unwrap();
    assert_eq!((row.owner, row.epoch), (None, 3), "it was let go of although what drove it broke down");
}
