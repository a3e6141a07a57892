//! Crashes at every point: the resumed run has the same result as without one.

mod governed;
mod loops;

use std::sync::Arc;

use baton_core::run::{RunStatus, Step, StepKind};
use baton_core::thread::NewEntry;
use baton_engine::{Engine, EngineBug, EngineError, Rested};
use baton_store::{Checkpoint, ClaimMode, RunHalt, StoreError};
use serde_json::{Value, json};

use crate::check::check;
use crate::everywhere;
use crate::world::{Kept, Mode, TENANT, World, insist, kinds};

everywhere!(
    a_safe_tool_runs_again,
    an_idempotent_tool_runs_again_with_its_key,
    a_tool_with_effects_is_never_repeated,
    a_taken_run_is_lost_to_its_owner,
    an_orphan_is_adopted,
    a_run_that_kills_its_process_is_given_up,
    a_fault_of_ours_is_told_and_counted,
    a_shutdown_lets_go,
    a_cancel_posted_to_the_dead_is_obeyed,
);

async fn interrupted(world: &World, tool: &str) -> baton_core::id::RunId {
    world.script(
        json!([[{"call": {"name": tool, "arguments": {"do": "hold"}}}], [{"text": "and so it ended"}]]),
    );
    let engine = world.engine();
    let handle = engine.start(world.request("go")).await.unwrap();
    world.ledger.arrived(1).await;
    engine.crash().await;
    world.ledger.open();
    handle.run
}

async fn resume(engine: &Engine, run: baton_core::id::RunId) -> Rested {
    engine.resume(&TENANT, run, ClaimMode::IfFree).await.unwrap().rested().await
}

async fn a_safe_tool_runs_again(world: World) {
    let run = interrupted(&world, "safe").await;
    assert_eq!(resume(&world.engine(), run).await, Rested::Ended(RunStatus::Ok));
    assert_eq!(world.ledger.count("safe"), 2);
    let kinds = kinds(&world.events(run).await);
    assert_eq!(kinds, ["started", "tool_start safe", "tool_result safe Ok", "delta", "ended ok"]);
    check(&world, run, &[]).await.unwrap();
}

async fn an_idempotent_tool_runs_again_with_its_key(world: World) {
    let run = interrupted(&world, "idem").await;
    assert_eq!(resume(&world.engine(), run).await, Rested::Ended(RunStatus::Ok));
    assert_eq!(world.ledger.count("idem"), 1, "the same key is the same effect");
    check(&world, run, &[]).await.unwrap();
}

async fn a_tool_with_effects_is_never_repeated(world: World) {
    let run = interrupted(&world, "once").await;
    assert_eq!(resume(&world.engine(), run).await, Rested::Ended(RunStatus::Ok));
    assert_eq!(world.ledger.count("once"), 1);
    assert_eq!(
        kinds(&world.events(run).await),
        ["started", "tool_start once", "tool_result once Unknown", "delta", "ended ok"]
    );
    check(&world, run, &[]).await.unwrap();
}

async fn a_taken_run_is_lost_to_its_owner(world: World) {
    world.script(json!([[{"call": {"name": "safe", "arguments": {"do": "hold"}}}], [{"text": "the end"}]]));
    let (first, second) = (world.engine(), world.engine());
    let mut old = first.start(world.request("go")).await.unwrap();
    world.ledger.arrived(1).await;
    let held = second.resume(&TENANT, old.run, ClaimMode::IfFree).await.unwrap_err();
    assert!(matches!(held, baton_engine::EngineError::Store(StoreError::Held { .. })), "{held}");
    let mut new = second.resume(&TENANT, old.run, ClaimMode::Take).await.unwrap();
    assert_eq!(old.rested().await, Rested::Lost, "it notices although it has nothing to write");
    world.ledger.open();
    assert_eq!(new.rested().await, Rested::Ended(RunStatus::Ok));
    check(&world, old.run, &[]).await.unwrap();
}

async fn an_orphan_is_adopted(world: World) {
    let run = interrupted(&world, "safe").await;
    let engine = world.engine();
    engine.adopt(|_| Ok(()));
    let seen = crate::world::watch(&engine, run, Default::default()).await;
    assert!(matches!(seen.last(), Some(baton_engine::Seen::Event(e)) if e.event.is_terminal()));
    check(&world, run, &seen).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_orphan_that_may_not_be_adopted_is_left_alone() {
    let world = World::new(Kept::Memory, Mode::Plain);
    let run = interrupted(&world, "safe").await;
    let engine = world.engine();
    let asked = Arc::new(tokio::sync::Notify::new());
    let noted = asked.clone();
    engine.adopt(move |definition| {
        noted.notify_one();
        Err(format!("{} is not for us", definition.model))
    });
    asked.notified().await;
    asked.notified().await; // the second time, the first answer was taken
    assert_eq!(insist(|| world.store.run(&TENANT, run)).await.epoch, 1, "nobody claimed it");
}

async fn a_run_that_kills_its_process_is_given_up(mut world: World) {
    world.settings.most_attempts = 3;
    world.script(json!([[{"call": {"name": "safe", "arguments": {"do": "hold"}}}], [{"text": "never"}]]));
    let engine = world.engine();
    let run = engine.start(world.request("go")).await.unwrap().run;
    world.ledger.arrived(1).await;
    engine.crash().await;
    for deaths in 1..5 {
        let engine = world.engine();
        engine.resume(&TENANT, run, ClaimMode::IfFree).await.unwrap();
        world.ledger.arrived(1 + deaths).await;
        engine.crash().await;
    }
    assert_eq!(resume(&world.engine(), run).await, Rested::Ended(RunStatus::Error));
    assert_eq!(kinds(&world.events(run).await).last().unwrap(), "ended error poisoned");
    let view = world.engine().view(&TENANT, run).await.unwrap();
    let said: Vec<(StepKind, &str)> =
        view.steps.iter().map(|step| (step.kind, step.description.as_str())).collect();
    let gave_up = (StepKind::Warning, "it brought its process down 5 times");
    assert_eq!(said, [(StepKind::LlmCall, "scripted asked for safe"), gave_up]);
    assert_eq!(view.steps[1].metadata.get("error"), Some(&json!("poisoned")));
    let budget = view.row.budget;
    assert_eq!((budget.model_calls, budget.tool_calls, budget.errors), (1, 1, 1), "{budget:?}");
    check(&world, run, &[]).await.unwrap();
}

/// The usage so far is accounted for; effects that were only planned are not.
async fn a_fault_of_ours_is_told_and_counted(mut world: World) {
    world.settings.bug = Some(EngineBug::GrowState);
    let usage = json!({"usage": {"prompt_tokens": 7, "completion_tokens": 3}});
    world
        .script(json!([[{"call": {"name": "once", "arguments": {"do": "ok"}}}, usage], [{"text": "never"}]]));
    let engine = world.engine();
    let (handle, rested, events) = world.turn(&engine, "go").await;
    assert_eq!(rested, Rested::Ended(RunStatus::Error));
    assert_eq!(kinds(&events), ["started", "ended error internal"]);
    let view = engine.view(&TENANT, handle.run).await.unwrap();
    let said: Vec<(StepKind, Option<&Value>)> =
        view.steps.iter().map(|step| (step.kind, step.metadata.get("error"))).collect();
    assert_eq!(said, [(StepKind::LlmCall, None), (StepKind::Warning, Some(&json!("internal")))]);
    let budget = view.row.budget;
    let counted = (budget.model_calls, budget.tool_calls, budget.errors, budget.usage().tokens);
    assert_eq!((counted, world.ledger.calls()), ((1, 0, 1, 10), vec![]), "{budget:?}");
    check(&world, handle.run, &[]).await.unwrap();
}

async fn a_shutdown_lets_go(world: World) {
    world.script(
        json!([[{"call": {"name": "safe", "arguments": {"do": "deaf"}}}], [{"text": "finished elsewhere"}]]),
    );
    let engine = world.engine();
    let mut handle = engine.start(world.request("go")).await.unwrap();
    world.ledger.arrived(1).await;
    engine.shutdown().await;
    assert_eq!(handle.rested().await, Rested::Released);
    let row = insist(|| world.store.run(&TENANT, handle.run)).await;
    assert_eq!((row.owner, row.attempts, row.status), (None, 0, RunStatus::Running));
    world.ledger.open();
    assert_eq!(resume(&world.engine(), handle.run).await, Rested::Ended(RunStatus::Ok));
    assert_eq!(insist(|| world.store.run(&TENANT, handle.run)).await.attempts, 0);
    check(&world, handle.run, &[]).await.unwrap();
}

async fn a_cancel_posted_to_the_dead_is_obeyed(world: World) {
    world.script(json!([[
        {"call": {"name": "once", "arguments": {"do": "hold"}}}, {"call": {"name": "safe", "arguments": {"do": "hold"}}}
    ], [{"text": "never"}]]));
    let engine = world.engine();
    let run = engine.start(world.request("go")).await.unwrap().run;
    world.ledger.arrived(2).await;
    engine.crash().await;
    let engine = world.engine();
    engine.cancel(&TENANT, run).await.unwrap();
    assert_eq!(resume(&engine, run).await, Rested::Ended(RunStatus::Cancelled));
    let mut kinds = kinds(&world.events(run).await).split_off(3);
    kinds.sort();
    assert_eq!(kinds, ["ended cancelled", "tool_result once Unknown", "tool_result safe Cancelled"]);
    check(&world, run, &[]).await.unwrap();
}

/// The committed log is cut after each transition, and the run goes on from there: same result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_prefix_goes_on_to_the_same_end() {
    let replies = json!([
        [{"text": "first "}, {"call": {"name": "safe", "arguments": {"do": "ok", "n": 1}}}, {"call": {"name": "idem", "arguments": {"do": "ok", "n": 2}}}],
        [{"call": {"name": "safe", "arguments": {"do": "fail", "n": 3}}}],
        [{"text": "all of it: {results}"}]
    ]);
    let whole = World::new(Kept::Memory, Mode::Plain);
    whole.script(replies.clone());
    let (handle, _, events) = whole.turn(&whole.engine(), "go").await;
    let (expected, steps) =
        (whole.transcript().await, insist(|| whole.store.run(&TENANT, handle.run)).await.step);
    assert!(steps >= 6, "{steps}");
    for kept in [Kept::Memory, Kept::Sqlite] {
        for prefix in 1..steps {
            let world = World::new(kept, Mode::Plain);
            world.script(replies.clone());
            let run = copy_prefix(&whole, &world, handle.run, prefix).await;
            assert_eq!(
                resume(&world.engine(), run).await,
                Rested::Ended(RunStatus::Ok),
                "cut after {prefix}"
            );
            let mut transcript = world.transcript().await;
            let mut wanted = expected.clone();
            // Two results of one round may arrive in either order.
            transcript.sort();
            wanted.sort();
            assert_eq!(transcript, wanted, "cut after {prefix}");
            let of = |events: &[_]| {
                kinds(events)
                    .into_iter()
                    .filter(|k| k != "delta" && k != "restarted")
                    .collect::<std::collections::BTreeSet<_>>()
            };
            assert_eq!(of(&world.events(run).await), of(&events), "cut after {prefix}");
            check(&world, run, &[]).await.unwrap();
        }
    }
}

/// Writes the first transitions of a run into another store, as if its process had died right after.
async fn copy_prefix(
    from: &World,
    to: &World,
    run: baton_core::id::RunId,
    prefix: u32,
) -> baton_core::id::RunId {
    use baton_store::{NewRun, NewThread, RunHalt, Transition};
    let row = insist(|| from.store.run(&TENANT, run)).await;
    let definition = insist(|| from.store.definition(&TENANT, &row.definition)).await;
    let steps = insist(|| from.store.steps(&TENANT, run, 0, prefix)).await;
    let at = crate::world::NOW;
    let new = NewThread { id: row.thread.clone(), at, ttl_at: None, meta: serde_json::Value::Null };
    insist(|| to.store.create_thread(&TENANT, new.clone())).await;
    let owner = to.store.enlist().unwrap();
    let entries = from.entries().await;
    let mut head = -1;
    for step in steps {
        let mine =
            entries.iter().filter(|placed| placed.index > head && placed.index <= step.checkpoint.head);
        let mine = mine
            .map(|placed| NewEntry { id: placed.id, at: placed.at, entry: placed.entry.clone() })
            .collect();
        head = step.checkpoint.head;
        let first = step.step == 1;
        let transition = Transition {
            run,
            thread: row.thread.clone(),
            lane: 0,
            epoch: 1,
            step: step.step,
            frame: step.frame.clone(),
            entries: mine,
            last_seq: step.last_seq,
            checkpoint: step.checkpoint.clone(),
            inbox: None,
            progress: true,
            asked: Vec::new(),
            settled: Vec::new(),
            audit: Vec::new(),
            rest: RunHalt::Running,
        };
        if first {
            let new = NewRun {
                owner: owner.id,
                branch: row.branch.clone(),
                expected_head: -1,
                after: None,
                definition: baton_store::PinnedDefinition::new(definition.clone()),
                at,
                metadata: serde_json::Value::Null,
                new_thread: None,
                lane: None,
                key: None,
                queued: false,
            };
            insist(|| to.store.start(&TENANT, new.clone(), transition.clone())).await;
        } else {
            insist(|| to.store.commit(&TENANT, &transition)).await;
        }
    }
    drop(owner);
    run
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_tools_are_gone_is_left_alone_but_can_be_cancelled() {
    let world = World::new(Kept::Sqlite, Mode::Plain);
    world.script(
        json!([[{"call": {"name": "ask_user", "arguments": {"question": "Which?"}}}], [{"text": "Done"}]]),
    );
    let gone: Arc<dyn baton_tools::Tool> =
        crate::malformed::Anything::named("gone", || baton_tools::Output::Text(String::new()));
    let first = world.engine_of(world.scripted(), vec![gone]);
    let (handle, rested, _) = world.turn(&first, "hi").await;
    assert_eq!(rested, Rested::Suspended);
    first.crash().await;

    let second = world.engine();
    let missing = second.resume(&TENANT, handle.run, ClaimMode::IfFree).await.unwrap_err();
    assert_eq!(missing, EngineError::MissingTools { run: handle.run, missing: vec!["gone".to_owned()] });
    second.cancel(&TENANT, handle.run).await.unwrap();
    let mut taken = second.drive(&TENANT, handle.run).await.unwrap().unwrap();
    assert_eq!(taken.rested().await, Rested::Ended(RunStatus::Cancelled));
    check(&world, handle.run, &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_run_gives_account_of_its_last_thousand_transitions() {
    let short = World::new(Kept::Memory, Mode::Plain);
    short.script(json!([[{"text": "Done"}]]));
    let (handle, ..) = short.turn(&short.engine(), "hi").await;
    let long = World::new(Kept::Memory, Mode::Plain);
    long.script(json!([]));
    let run = copy_prefix(&short, &long, handle.run, 1).await;
    let row = long.store.run(&TENANT, run).await.unwrap();
    let first = long.store.steps(&TENANT, run, 0, 1).await.unwrap().remove(0);
    for step in 2..=1100 {
        let said =
            Step { kind: StepKind::LlmCall, description: step.to_string(), metadata: Default::default() };
        let transition = baton_store::Transition {
            run,
            thread: row.thread.clone(),
            lane: 0,
            epoch: 1,
            step,
            frame: first.frame.clone(),
            entries: Vec::new(),
            last_seq: first.last_seq,
            checkpoint: Checkpoint { events: Vec::new(), account: vec![said], ..first.checkpoint.clone() },
            inbox: None,
            progress: true,
            asked: Vec::new(),
            settled: Vec::new(),
            audit: Vec::new(),
            rest: RunHalt::Running,
        };
        long.store.commit(&TENANT, &transition).await.unwrap();
    }
    let view = long.engine().view(&TENANT, run).await.unwrap();
    let shown: Vec<_> = view.steps.iter().map(|step| step.description.clone()).collect();
    assert_eq!(shown, (101..=1100).map(|n: u32| n.to_string()).collect::<Vec<_>>());
}
