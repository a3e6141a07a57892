//! Writes that land after their callers gave up, and drivers that panic: this process drives or releases every run that
//! it holds.

use std::sync::Arc;
use std::time::Duration;

use baton_core::id::{Cursor, RunId};
use baton_core::run::{ApprovalStatus, Choice, RunStatus};
use baton_engine::{Engine, EngineError, Rested, Seen, Settings};
use baton_store::{FaultyStore, Mishap, RunFilter, Store};
use serde_json::json;

use crate::check::check;
use crate::rounds;
use crate::world::{TENANT, World, insist, quick, watch};

fn world(settings: Settings) -> (World, Arc<FaultyStore>) {
    let faulty = Arc::new(FaultyStore::new(Store::memory(), 0, 0));
    let world = World::on(Store::Faulty(faulty.clone()), settings, tempfile::tempdir().unwrap());
    (world, faulty)
}

/// Runs that are not over.
async fn unfinished(world: &World) -> Vec<RunId> {
    let rows = world.store.runs(&TENANT, &RunFilter { limit: 99, ..RunFilter::default() }).await.unwrap();
    rows.iter().filter(|row| !row.status.has_ended()).map(|row| row.id).collect()
}

/// Follows the only run that is not over to its end; answers which it was.
async fn follow(world: &World, engine: &Engine) -> RunId {
    let open = unfinished(world).await;
    assert_eq!(open.len(), 1, "it has landed");
    let seen = watch(engine, open[0], Cursor::default()).await;
    assert!(matches!(seen.last(), Some(Seen::Event(_))), "{seen:?}");
    assert_eq!(unfinished(world).await, []);
    open[0]
}

/// The commit of a start, or of a fork, is delayed for so long; its caller gave up long before.
#[tokio::test(start_paused = true)]
async fn a_start_or_a_fork_that_lands_late_is_driven_all_the_same() {
    let delays: &[u64] = if rounds(0, 1) == 0 { &[1, 40, 150] } else { &[0, 1, 40, 61, 150, 1800] };
    for delay in delays {
        let (world, faulty) = world(Settings { store_patience: Duration::from_millis(50), ..quick() });
        world.script(json!([[{"call": {"name": "safe", "arguments": {"do": "ok"}}}], [{"text": "the end"}]]));
        let engine = world.engine();
        let late = |error: EngineError| matches!(&error, EngineError::Store(error) if error.is_transient());

        faulty.stall(true);
        assert!(late(engine.start(world.request("go")).await.unwrap_err()), "{delay}");
        tokio::time::sleep(Duration::from_secs(*delay)).await;
        assert_eq!(unfinished(&world).await, []);
        faulty.stall(false);
        tokio::task::yield_now().await;
        let run = follow(&world, &engine).await;
        check(&world, run, &[]).await.unwrap();

        faulty.stall(true);
        assert!(late(engine.fork_run(&TENANT, run, 2, None).await.map(|_| ()).unwrap_err()), "{delay}");
        tokio::time::sleep(Duration::from_secs(*delay)).await;
        faulty.stall(false);
        tokio::task::yield_now().await;
        let forked = follow(&world, &engine).await;
        assert_ne!(forked, run);
        check(&world, forked, &[]).await.unwrap();
    }
}

/// The caller disconnects in the middle of the start.
#[tokio::test(start_paused = true)]
async fn a_start_whose_caller_goes_away_is_driven_all_the_same() {
    let (world, faulty) = world(quick());
    world.script(json!([[{"text": "the end"}]]));
    let engine = world.engine();
    faulty.stall(true);
    let given_up = tokio::time::timeout(Duration::from_millis(5), engine.start(world.request("go"))).await;
    assert!(given_up.is_err());
    faulty.stall(false);
    tokio::task::yield_now().await;
    let run = follow(&world, &engine).await;
    check(&world, run, &[]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_breaks_down_leaves_its_run_to_another_but_not_for_ever() {
    for (breakdowns, end) in [(1, "ok"), (99, "error")] {
        let (world, faulty) = world(quick());
        for nth in 1..=breakdowns {
            let breaks =
                || -> futures_util::future::BoxFuture<'static, ()> { Box::pin(async { panic!("as told") }) };
            faulty.plan("commit", nth, Mishap::Then(Arc::new(breaks)));
        }
        world.script(json!([[{"call": {"name": "safe", "arguments": {"do": "ok"}}}], [{"text": "the end"}]]));
        let engine = world.engine();
        let mut handle = engine.start(world.request("go")).await.unwrap();
        let why = "what drives it broke down: this is a fault of Baton";
        assert_eq!(handle.rested().await, Rested::Failed(EngineError::Invalid(why.to_owned())));
        engine.adopt(|_| Ok(()));
        let ended = async {
            loop {
                let row = insist(|| world.store.run(&TENANT, handle.run)).await;
                if row.status.has_ended() {
                    return row.status;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let status = tokio::time::timeout(Duration::from_secs(60), ended).await.unwrap();
        assert_eq!(status.as_str(), end, "after {breakdowns}");
    }
}

/// The first try is neither reported as done nor found, and lands before the second one.
#[tokio::test(start_paused = true)]
async fn a_decision_that_landed_unseen_is_no_other_one() {
    let (mut world, faulty) = world(quick());
    world.decision.approvals = vec!["once".to_owned()];
    world.script(json!([[{"call": {"name": "once", "arguments": {"do": "ok"}}}], [{"text": "the end"}]]));
    let engine = world.engine();
    let mut handle = engine.start(world.request("go")).await.unwrap();
    assert_eq!(handle.rested().await, Rested::Suspended);
    let asked = world.store.approvals(&TENANT, Some(ApprovalStatus::Pending), None, 9).await.unwrap();
    let id = asked[0].id.clone();
    // The first try is not done; the write that lands before the second try is the same decision.
    faulty.plan("decide", 1, Mishap::Undone);
    let (store, decided, run) = (world.store.clone(), id.clone(), handle.run);
    let lands = move || -> futures_util::future::BoxFuture<'static, ()> {
        let (store, id) = (store.clone(), decided.clone());
        Box::pin(async move {
            let (approval_id, arguments) = (id, Some(json!({"do": "ok"})));
            let message = baton_core::run::Message::Decision {
                approval_id,
                choice: Choice::Approve,
                arguments,
                reason: None,
            };
            store.post(&TENANT, run, message, None, crate::world::NOW).await.unwrap();
        })
    };
    faulty.plan("inbox", faulty.called("inbox") + 1, Mishap::Then(Arc::new(lands)));
    let decided = engine.decide(&TENANT, &id, Choice::Approve, None, None, None).await.unwrap();
    assert_eq!(decided.status, ApprovalStatus::Approved);
    let again = engine.decide(&TENANT, &id, Choice::Approve, None, None, None).await.unwrap_err();
    assert!(again.to_string().contains("already decided"), "{again}");
    let mut handle = engine.drive(&TENANT, handle.run).await.unwrap().unwrap();
    assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Ok));
    assert_eq!(world.ledger.count("once"), 1);
}
