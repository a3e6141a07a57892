//! The current policy and tools, compared with a run's pinned definition.

use baton_core::run::{Choice, RunStatus};
use baton_core::thread::Closing;
use baton_core::thread::Entry;
use baton_core::tool::{EffectClass, Trust};
use baton_engine::{Engine, Rested};
use baton_store::ClaimMode;
use serde_json::json;

use crate::check::check;
use crate::everywhere;
use crate::world::{TENANT, World, insist, source};

everywhere!(
    what_is_no_longer_allowed_does_not_run_and_says_nothing,
    what_was_interrupted_and_is_no_longer_allowed_was_stopped,
    what_was_interrupted_and_may_have_happened_is_unknown,
    what_is_no_longer_trusted_is_marked,
    what_was_untrusted_at_first_is_marked,
);

const STRANGE: Trust = Trust::LOCAL_DATA;

/// An engine that has the tool `page`.
fn engine(world: &World, class: EffectClass, trust: Trust) -> Engine {
    world.engine_of(world.scripted(), vec![source("page", class, trust, &world.ledger)])
}

fn script(world: &World) {
    world.script(json!([[{"call": {"name": "page", "arguments": {}}}], [{"text": "so be it"}]]));
}

/// How the one call was closed: status, result, and whether it and the branch are untrusted; untrusted content here is
/// private, too.
async fn closed(world: &World) -> (Closing, String, bool, bool) {
    let results = world.entries().await.into_iter().filter_map(|placed| match placed.entry {
        Entry::ToolResult(result) => Some(result),
        _ => None,
    });
    let results: Vec<_> = results.collect();
    let [result] = &results[..] else { panic!("one call: {results:?}") };
    let thread = "t".parse().unwrap();
    let end = insist(|| world.store.end(&TENANT, &thread, None)).await;
    let text = baton_core::json::as_text(&result.result);
    assert_eq!((result.untrusted, end.untrusted), (result.private, end.private), "both marks alike");
    (result.status, text, result.untrusted, end.untrusted.is_some())
}

/// A run whose call of `page` was approved by a user and has not started. The engine is gone.
async fn approved(world: &mut World, trust: Trust) -> baton_core::id::RunId {
    world.decision.approvals = vec!["page".to_owned()];
    script(world);
    world.ledger.open();
    let first = engine(world, EffectClass::SideEffectFree, trust);
    let (handle, rested, _) = world.turn(&first, "read it").await;
    assert_eq!(rested, Rested::Suspended);
    let id = first.view(&TENANT, handle.run).await.unwrap().waiting[0].id.clone();
    first.decide(&TENANT, &id, Choice::Approve, None, None, None).await.unwrap();
    first.crash().await;
    handle.run
}

async fn resume(engine: &Engine, run: baton_core::id::RunId) -> Rested {
    engine.resume(&TENANT, run, ClaimMode::IfFree).await.unwrap().rested().await
}

async fn what_is_no_longer_allowed_does_not_run_and_says_nothing(mut world: World) {
    let run = approved(&mut world, STRANGE).await;
    world.decision.tools = vec!["safe".to_owned()];
    let second = engine(&world, EffectClass::SideEffectFree, STRANGE);
    assert_eq!(resume(&second, run).await, Rested::Ended(RunStatus::Ok));
    assert_eq!(world.ledger.calls(), []);
    let (status, why, untrusted, branch) = closed(&world).await;
    assert_eq!((status, untrusted, branch), (Closing::Denied, false, false));
    assert!(why.starts_with("page is not allowed here"), "{why}");
    let steps = second.view(&TENANT, run).await.unwrap().steps;
    let step = steps.iter().find(|step| step.metadata.get("tool_name").is_some()).unwrap();
    assert_eq!(step.metadata.get("span_id"), None, "it never ran");
    check(&world, run, &[]).await.unwrap();
}

/// A run that died while `page` was read.
async fn interrupted(world: &mut World, class: EffectClass) -> baton_core::id::RunId {
    script(world);
    let first = engine(world, class, STRANGE);
    let run = first.start(world.request("read it")).await.unwrap().run;
    world.ledger.arrived(1).await;
    first.crash().await;
    world.ledger.open();
    world.decision.tools = vec!["safe".to_owned()];
    run
}

async fn what_was_interrupted_and_is_no_longer_allowed_was_stopped(mut world: World) {
    let run = interrupted(&mut world, EffectClass::SideEffectFree).await;
    let second = engine(&world, EffectClass::SideEffectFree, STRANGE);
    assert_eq!(resume(&second, run).await, Rested::Ended(RunStatus::Ok));
    assert_eq!(closed(&world).await, (Closing::Cancelled, "it was stopped".to_owned(), false, false));
    check(&world, run, &[]).await.unwrap();
}

async fn what_was_interrupted_and_may_have_happened_is_unknown(mut world: World) {
    let run = interrupted(&mut world, EffectClass::Idempotent).await;
    let second = engine(&world, EffectClass::Idempotent, STRANGE);
    assert_eq!(resume(&second, run).await, Rested::Ended(RunStatus::Ok));
    assert_eq!((closed(&world).await.0, world.ledger.count("page")), (Closing::Unknown, 1));
    check(&world, run, &[]).await.unwrap();
}

async fn what_is_no_longer_trusted_is_marked(mut world: World) {
    let run = approved(&mut world, Trust::BUILT_IN).await;
    let second = engine(&world, EffectClass::SideEffectFree, STRANGE);
    assert_eq!(resume(&second, run).await, Rested::Ended(RunStatus::Ok));
    assert_eq!(closed(&world).await, (Closing::Ok, "what a source said".to_owned(), true, true));
    check(&world, run, &[]).await.unwrap();
}

async fn what_was_untrusted_at_first_is_marked(mut world: World) {
    let run = approved(&mut world, STRANGE).await;
    let second = engine(&world, EffectClass::SideEffectFree, Trust::BUILT_IN);
    assert_eq!(resume(&second, run).await, Rested::Ended(RunStatus::Ok));
    assert_eq!(closed(&world).await, (Closing::Ok, "what a source said".to_owned(), true, true));
    check(&world, run, &[]).await.unwrap();
}
