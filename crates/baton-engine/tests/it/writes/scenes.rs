//! Scenes that between them make every write of the engine. Each ends with nothing under way.

use std::time::Duration;

use baton_core::id::{Cursor, RunId, Tenant};
use baton_core::policy::Mode;
use baton_core::run::{ApprovalStatus, Choice};
use baton_core::time::Timestamp;
use baton_engine::{Engine, EngineError, Execute, OnBusy, RunRequest, Submitted};
use baton_store::{ClaimMode, FaultyStore, GcRequest, NewKey, RunFilter, StoreError, verify};
use baton_tools::Registry;
use futures_util::FutureExt;
use futures_util::future::LocalBoxFuture;
use serde_json::{Value, json};

use crate::world::{NOW, TENANT, World, watch};

type Play = for<'a> fn(&'a mut World, &'a FaultyStore) -> LocalBoxFuture<'a, Vec<String>>;

/// A scene by name; playing it gives the answers of its callers.
pub(super) struct Scene {
    pub(super) name: &'static str,
    pub(super) play: Play,
}

pub(super) fn scenes() -> Vec<Scene> {
    let scene = |name, play| Scene { name, play };
    vec![
        scene("a turn with tools", |world, _| turn(world).boxed_local()),
        scene("an approval", |world, _| approval(world).boxed_local()),
        scene("a cancel", |world, _| cancel(world).boxed_local()),
        scene("an orphan", |world, _| orphan(world).boxed_local()),
        scene("a process that leaves", |world, _| leaving(world).boxed_local()),
        scene("messages in line", |world, _| queue(world).boxed_local()),
        scene("a fork", |world, _| fork(world).boxed_local()),
        scene("keyed calls", |world, _| calls(world).boxed_local()),
        scene("a watcher elsewhere", |world, faulty| watcher(world, faulty).boxed_local()),
        scene("a late start that is let go", |world, faulty| late(world, faulty).boxed_local()),
        scene("an audit trail", |world, _| trail(world).boxed_local()),
        scene("a suspect that is cleared", |world, faulty| suspect(world, faulty).boxed_local()),
    ]
}

fn call(tool: &str, does: &str) -> Value {
    json!({"call": {"name": tool, "arguments": {"do": does}}})
}

/// Waits for a run's end, on any process.
async fn ended(engine: &Engine, run: RunId) {
    watch(engine, run, Cursor::default()).await;
}

/// Waits until a write was made so many times.
async fn made(faulty: &FaultyStore, write: &str, times: u64) {
    while faulty.called(write) < times {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn turn(world: &mut World) -> Vec<String> {
    let tools = json!([{"text": "I look. "}, call("once", "ok"), call("idem", "long")]);
    world.script(json!([tools, [call("safe", "fail")], [{"text": "the end"}]]));
    let (_, rested, _) = world.turn(&world.engine(), "go").await;
    vec![format!("{rested:?}")]
}

/// The trail, a clearance and the removal of the thread are asked for again if they fail, as services and people do.
async fn trail(world: &mut World) -> Vec<String> {
    world.script(json!([[call("once", "ok")], [{"text": "the end"}]]));
    let engine = world.engine();
    world.turn(&engine, "go").await;
    let mut tries = 0;
    let mut is_done = |done: Result<(), EngineError>| {
        tries += 1;
        assert!(tries < 9, "{done:?}");
        matches!(done, Ok(()) | Err(EngineError::Store(StoreError::NotFound { .. })))
    };
    while !is_done(engine.tell_calls().await) {}
    let request = GcRequest { now: NOW, runs_before: None, blobs_before: None, dry_run: false };
    while !is_done(engine.collect(&request, "test").await.map(drop)) {}
    while !is_done(engine.delete_thread(&TENANT, &"t".parse().unwrap(), "test").await) {}
    while !is_done(engine.seal_trail().await.map(drop).map_err(EngineError::from)) {}
    let rows = world.store.audit(None, 0, 99).await.unwrap();
    verify(rows.clone(), None).unwrap();
    rows.into_iter().map(|row| row.kind).collect()
}

async fn approval(world: &mut World) -> Vec<String> {
    world.decision.approvals = vec!["once".to_owned()];
    world.script(json!([[call("once", "ok")], [{"text": "the end"}]]));
    let engine = world.engine();
    let (handle, rested, _) = world.turn(&engine, "go").await;
    let asked = world.store.approvals(&TENANT, Some(ApprovalStatus::Pending), None, 9).await.unwrap();
    engine.decide(&TENANT, &asked[0].id, Choice::Approve, None, None, Some("ann".to_owned())).await.unwrap();
    let again = engine.drive(&TENANT, handle.run).await.unwrap().unwrap().rested().await;
    let refused = engine.decide(&TENANT, &asked[0].id, Choice::Deny, None, None, None).await.unwrap_err();
    vec![format!("{rested:?} {again:?}"), refused.to_string().replace(&asked[0].id, "it")]
}

async fn cancel(world: &mut World) -> Vec<String> {
    world.script(json!([[call("once", "hold"), call("safe", "hold")], [{"text": "never"}]]));
    let engine = world.engine();
    let mut handle = engine.start(world.request("go")).await.unwrap();
    world.ledger.arrived(2).await;
    engine.cancel(&TENANT, handle.run).await.unwrap();
    vec![format!("{:?}", handle.rested().await)]
}

async fn orphan(world: &mut World) -> Vec<String> {
    world.script(json!([[call("once", "hold")], [{"text": "the end"}]]));
    let engine = world.engine();
    let run = engine.start(world.request("go")).await.unwrap().run;
    world.ledger.arrived(1).await;
    engine.crash().await;
    let engine = world.engine();
    engine.adopt(|_| Ok(()));
    ended(&engine, run).await;
    Vec::new()
}

async fn leaving(world: &mut World) -> Vec<String> {
    world.script(json!([[call("safe", "deaf")], [{"text": "the end"}]]));
    let engine = world.engine();
    let mut handle = engine.start(world.request("go")).await.unwrap();
    world.ledger.arrived(1).await;
    engine.shutdown().await;
    let rested = handle.rested().await;
    drop(engine); // it is gone
    world.ledger.open();
    let engine = world.engine();
    engine.adopt(|_| Ok(()));
    ended(&engine, handle.run).await;
    vec![format!("{rested:?}")]
}

async fn queue(world: &mut World) -> Vec<String> {
    world.script(json!([[call("safe", "hold")], [{"text": "one"}], [{"text": "two"}]]));
    let engine = world.engine();
    engine.adopt(|_| Ok(()));
    let first = engine.start(world.request("first")).await.unwrap().run;
    world.ledger.arrived(1).await;
    let second = RunRequest { on_busy: OnBusy::Enqueue, ..world.request("second") };
    let Submitted::Queued(second) = engine.submit(second).await.unwrap() else { panic!("it has to wait") };
    world.ledger.open();
    ended(&engine, first).await;
    ended(&engine, second).await;
    Vec::new()
}

async fn fork(world: &mut World) -> Vec<String> {
    world.script(json!([[call("safe", "ok")], [{"text": "the end"}]]));
    let engine = world.engine();
    let (handle, ..) = world.turn(&engine, "go").await;
    let forked = engine.fork_run(&TENANT, handle.run, 3, None).await.unwrap();
    let Submitted::Started(mut forked) = forked else { panic!("{forked:?}") };
    let rested = forked.rested().await;
    let branches = world.store.thread(&TENANT, &handle.thread).await.unwrap().branches.len();
    vec![format!("{rested:?}, {branches} branches")]
}

fn keyed(name: &str, does: &str) -> Execute {
    let key = NewKey {
        route: "/execute".to_owned(),
        key: name.to_owned(),
        body_hash: name.to_owned(),
        expires_at: Timestamp(NOW.0 + 86_400_000),
    };
    Execute {
        tenant: Tenant::local(),
        mode: Mode::Exploratory,
        name: name.to_owned(),
        arguments: json!({"do": does}),
        timeout: None,
        key: Some(key),
        metadata: Value::Null,
        by: None,
    }
}

/// One call is made, one's process died, and one has a long result.
async fn calls(world: &mut World) -> Vec<String> {
    world.script(json!([]));
    let dying = world.engine();
    let maker = dying.clone();
    let made = tokio::spawn(async move { maker.execute(keyed("once", "hold")).await });
    world.ledger.arrived(1).await;
    dying.bury();
    let engine = world.engine();
    let mut told = Vec::new();
    for call in [keyed("once", "hold"), keyed("idem", "ok"), keyed("idem", "ok"), keyed("safe", "long")] {
        let done = engine.execute(call).await.unwrap();
        told.push(format!("{} {}", done.is_ok, done.output));
    }
    made.abort();
    told
}

async fn watcher(world: &mut World, faulty: &FaultyStore) -> Vec<String> {
    world.script(json!([[call("safe", "hold")], [{"text": "the end"}]]));
    let (driving, watching) = (world.engine(), world.engine());
    let run = driving.start(world.request("go")).await.unwrap().run;
    world.ledger.arrived(1).await;
    let seen = tokio::join!(watch(&watching, run, Cursor::default()), async {
        made(faulty, "watch_all", 1).await;
        world.ledger.open();
    });
    let is_end = |seen: &baton_engine::Seen| matches!(seen, baton_engine::Seen::Event(event) if event.event.is_terminal());
    vec![seen.0.last().is_some_and(is_end).to_string()]
}

async fn suspect(world: &mut World, faulty: &FaultyStore) -> Vec<String> {
    world.script(json!([[call("safe", "hold")], [{"text": "the end"}]]));
    let engine = world.engine();
    let run = engine.start(world.request("go")).await.unwrap().run;
    world.ledger.arrived(1).await;
    engine.crash().await;
    let engine = world.engine();
    engine.resume(&TENANT, run, ClaimMode::IfFree).await.unwrap();
    world.ledger.arrived(2).await;
    engine.crash().await;
    let engine = world.engine();
    engine.resume(&TENANT, run, ClaimMode::IfFree).await.unwrap();
    world.ledger.arrived(3).await;
    while world.store.run(&TENANT, run).await.unwrap().attempts > 0 {
        made(faulty, "forgive", 1).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    world.ledger.open();
    ended(&engine, run).await;
    Vec::new()
}

/// A start whose caller has gone lands after its tools were removed: the process holds a run that it cannot drive.
async fn late(world: &mut World, faulty: &FaultyStore) -> Vec<String> {
    world.script(json!([[call("safe", "ok")], [{"text": "the end"}]]));
    let engine = world.engine();
    faulty.stall(true);
    let given_up = tokio::time::timeout(Duration::from_millis(5), engine.start(world.request("go"))).await;
    assert!(given_up.is_err());
    engine.set_tools(Registry::new(Vec::new()).unwrap());
    let able = world.engine();
    able.adopt(|_| Ok(()));
    faulty.stall(false);
    let run = loop {
        let found = world.store.runs(&TENANT, &RunFilter { limit: 9, ..RunFilter::default() }).await.unwrap();
        if let Some(row) = found.first() {
            break row.id;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    };
    ended(&able, run).await;
    Vec::new()
}
