//! A process that dies with many runs, repeatedly: the run to blame is identified.

use baton_core::id::RunId;
use baton_engine::{Engine, RunRequest};
use serde_json::json;

use crate::check::check;
use crate::everywhere;
use crate::world::{TENANT, World, insist, kinds};

everywhere!(a_crash_loop_gives_up_no_run_that_is_not_to_blame, only_the_run_that_is_to_blame_is_given_up,);

/// Ten runs of one process, in a model call that takes long.
async fn ten(world: &World) -> Vec<RunId> {
    world.script(json!([[{"stall": true}]]));
    let engine = world.engine();
    let mut runs = Vec::new();
    for n in 0..10 {
        let request = RunRequest { thread: Some(format!("t{n}").parse().unwrap()), ..world.request("go") };
        runs.push(engine.start(request).await.unwrap().run);
    }
    engine.crash().await;
    runs
}

/// The runs among `runs` that a process holds.
async fn held(world: &World, engine: &Engine, runs: &[RunId]) -> Vec<RunId> {
    let mut held = Vec::new();
    for run in runs {
        let row = insist(|| world.store.run(&TENANT, *run)).await;
        held.extend((row.owner == Some(engine.owner())).then_some(*run));
    }
    held
}

/// Starts an engine that adopts due runs; returns it once it holds at least `at_least` of `runs`.
async fn adopting(world: &World, runs: &[RunId], at_least: usize) -> Engine {
    let engine = world.engine();
    engine.adopt(|_| Ok(()));
    while held(world, &engine, runs).await.len() < at_least {
        tokio::task::yield_now().await;
    }
    engine
}

/// Resumes all of them; answers how they end.
async fn ends(world: &World, runs: &[RunId]) -> Vec<String> {
    world.script(json!([[{"text": "done"}]]));
    let engine = world.engine();
    engine.adopt(|_| Ok(()));
    let mut ends = Vec::new();
    for run in runs {
        crate::world::watch(&engine, *run, Default::default()).await;
        ends.push(kinds(&world.events(*run).await).last().unwrap().clone());
        check(world, *run, &[]).await.unwrap();
    }
    ends
}

async fn a_crash_loop_gives_up_no_run_that_is_not_to_blame(world: World) {
    let runs = ten(&world).await;
    adopting(&world, &runs, 10).await.crash().await;
    for _ in 0..5 {
        let engine = adopting(&world, &runs, 1).await;
        assert_eq!(held(&world, &engine, &runs).await.len(), 1, "after two crashes each is driven alone");
        engine.crash().await;
    }
    assert_eq!(ends(&world, &runs).await, ["ended ok"; 10]);
}

async fn only_the_run_that_is_to_blame_is_given_up(mut world: World) {
    world.settings.cleared_after = std::time::Duration::from_millis(50);
    let runs = ten(&world).await;
    let poison = runs[3];
    loop {
        let engine = world.engine();
        engine.adopt(|_| Ok(()));
        loop {
            let row = insist(|| world.store.run(&TENANT, poison)).await;
            if row.status.has_ended() || row.owner == Some(engine.owner()) {
                break;
            }
            tokio::task::yield_now().await;
        }
        let row = insist(|| world.store.run(&TENANT, poison)).await;
        engine.crash().await; // as soon as it drives that one
        if row.status.has_ended() {
            break;
        }
    }
    let mut expected = ["ended ok"; 10];
    expected[3] = "ended error poisoned";
    assert_eq!(ends(&world, &runs).await, expected);
}
