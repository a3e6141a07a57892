//! Adopting runs without an owner: a run that cannot be driven here blocks no other, and tenants take turns.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use baton_core::id::RunId;
use baton_core::run::RunStatus;
use baton_core::tool::{EffectClass, Trust};
use baton_engine::{Engine, OnBusy, RunRequest, Seen, Submitted};
use baton_store::{FaultyStore, PgOptions, PgStore, Store};
use serde_json::json;

use crate::check::check;
use crate::everywhere;
use crate::postgres_server::Schema;
use crate::world::{TENANT, World, insist, kinds, quick, source};

everywhere!(a_run_that_no_process_can_begin_ends_and_the_next_one_has_its_turn);

/// A world on PostgreSQL, whose calls are counted.
async fn on_postgres() -> (Schema, World, Arc<FaultyStore>) {
    let (schema, folder) = (Schema::new(), tempfile::tempdir().unwrap());
    let store = PgStore::connect(&schema.url, PgOptions::new(folder.path())).await.unwrap();
    let counting = Arc::new(FaultyStore::new(Store::Postgres(store), 0, 0));
    (schema, World::on(Store::Faulty(counting.clone()), quick(), folder), counting)
}

/// An engine that has the tool `page`, which others lack.
fn with_page(world: &World) -> Engine {
    let page = source("page", EffectClass::SideEffectFree, Trust::default(), &world.ledger);
    world.engine_of(world.scripted(), vec![page])
}

fn hold(world: &World) {
    let hold = json!([{"call": {"name": "safe", "arguments": {"do": "hold"}}}]);
    world.script(json!([hold, [{"text": "one"}], [{"text": "two"}], [{"text": "three"}]]));
}

async fn queued(world: &World, engine: &Engine, text: &str) -> RunId {
    let request = RunRequest { on_busy: OnBusy::Enqueue, ..world.request(text) };
    match engine.submit(request).await.unwrap() {
        Submitted::Queued(run) => run,
        other => panic!("{other:?}"),
    }
}

/// Waits for a run's end, on any process; answers how it ended.
async fn end(engine: &Engine, run: RunId) -> String {
    let mut reader = engine.events(&TENANT, run, baton_core::id::Cursor { epoch: 1, seq: 0 }).await.unwrap();
    let mut events = Vec::new();
    while let Some(seen) = reader.next().await.unwrap() {
        if let Seen::Event(event) = seen {
            events.push(Arc::unwrap_or_clone(event));
        }
    }
    kinds(&events).pop().unwrap()
}

async fn a_run_that_no_process_can_begin_ends_and_the_next_one_has_its_turn(mut world: World) {
    world.settings.turn_grace = Duration::from_millis(20);
    hold(&world);
    let before = with_page(&world);
    let first = before.start(world.request("first")).await.unwrap();
    world.ledger.arrived(1).await;
    let second = queued(&world, &before, "second").await;
    let now = world.engine();
    let third = queued(&world, &now, "third").await;
    world.ledger.open();
    assert_eq!(end(&now, first.run).await, "ended ok");
    now.adopt(|_| Ok(()));
    assert_eq!(end(&now, second).await, "ended error action_failed");
    assert_eq!(end(&now, third).await, "ended ok");
    let why = now.view(&TENANT, second).await.unwrap().error.unwrap().message;
    let told = format!(
        "run {second} needs tools that are not configured here: page; and nobody else began it within 0 s, though its turn \
         had come"
    );
    assert_eq!(why, told);
    assert!(!world.transcript().await.contains(&"UserMessage: second".to_owned()), "it was never said");
    check(&world, third, &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_on_postgres() {
    let (_schema, world, _) = on_postgres().await;
    a_run_that_no_process_can_begin_ends_and_the_next_one_has_its_turn(world).await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_another_process_can_begin_is_left_to_it() {
    let counting = Arc::new(FaultyStore::new(Store::memory(), 0, 0));
    let mut world = World::on(Store::Faulty(counting.clone()), quick(), tempfile::tempdir().unwrap());
    world.settings.turn_grace = Duration::from_secs(3600);
    hold(&world);
    let (old, new) = (with_page(&world), world.engine());
    let first = old.start(world.request("first")).await.unwrap();
    world.ledger.arrived(1).await;
    let second = queued(&world, &old, "second").await;
    world.ledger.open();
    assert_eq!(end(&new, first.run).await, "ended ok");
    new.adopt(|_| Ok(()));
    tokio::time::sleep(Duration::from_secs(3000)).await;
    assert!(counting.called("queued") > 3, "it was tried again and again");
    assert_eq!(insist(|| world.store.run(&TENANT, second)).await.status, RunStatus::Queued);
    old.adopt(|_| Ok(()));
    assert_eq!(end(&new, second).await, "ended ok");
}

/// Ending it needs none of the missing parts.
#[tokio::test(start_paused = true)]
async fn a_run_whose_model_is_gone_can_be_cancelled() {
    let world = World::on(Store::memory(), quick(), tempfile::tempdir().unwrap());
    hold(&world);
    let first = world.engine();
    let run = first.start(world.request("go")).await.unwrap().run;
    world.ledger.arrived(1).await;
    first.crash().await;
    let second = world.engine();
    second.adopt(|_| Err("there is no such model".to_owned()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(second.cancel(&TENANT, run).await, Ok(RunStatus::Running));
    let ended = tokio::time::timeout(Duration::from_secs(1), end(&second, run)).await;
    assert_eq!(ended.as_deref(), Ok("ended cancelled"));
}

/// Makes older runs like the one on the thread `t`, that many in all.
fn multiply(schema: &Schema, count: u32) {
    let id = "lpad(to_hex(k), 32, '0')::uuid";
    schema.run(&format!(
        "INSERT INTO steps(tenant, run, step, epoch, frame, first_seq, last_seq, body, crc)
           SELECT s.tenant, {id}, s.step, s.epoch, frame, first_seq, last_seq, body, crc
           FROM generate_series(2, {count}) k, steps s JOIN runs r ON r.run = s.run WHERE r.thread = 't';
         INSERT INTO runs(tenant, run, thread, branch, lane, status, owner, epoch, step, seq, inbox, head, attempts,
             definition, min_version, budget, wake_at, due_at, watched_until, created, ended, metadata)
           SELECT tenant, {id}, 'x' || k, branch, lane, status, owner, epoch, step, seq, inbox, head, attempts,
             definition, min_version, budget, wake_at, due_at, watched_until, created, ended, metadata
           FROM generate_series(2, {count}) k, runs WHERE thread = 't'"
    ));
}

/// A process that may not drive 1,500 older runs, because a tool was taken out of the configuration.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_runs_that_may_not_be_driven_here_starve_nobody_and_cost_little() {
    let (schema, world, counting) = on_postgres().await;
    hold(&world);
    let before = with_page(&world);
    before.start(world.request("with a page")).await.unwrap();
    world.ledger.arrived(1).await;
    before.shutdown().await;
    multiply(&schema, 1500);
    let leaving = world.engine();
    let thread = Some("healthy".parse().unwrap());
    let healthy = leaving.start(RunRequest { thread, ..world.request("go") }).await.unwrap().run;
    world.ledger.arrived(2).await;
    leaving.shutdown().await;
    let due = insist(|| world.store.due(baton_core::time::Timestamp(0))).await;
    assert_eq!((due.len(), due.last().map(|(_, run)| *run)), (1501, Some(healthy)));

    world.ledger.open();
    let engine = world.engine();
    engine.adopt(|_| Ok(()));
    assert_eq!(end(&engine, healthy).await, "ended ok");
    // After the first looks only reads are left: six pages each time, and a try now and then.
    let looked_by_then = async |pages: u64| {
        while counting.called("due_page") < pages {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    looked_by_then(counting.called("due_page") + 6 * 3).await;
    let tries = |methods: [&str; 6]| methods.map(|method| counting.called(method)).iter().sum::<u64>();
    let methods = ["run", "definition", "steps", "inbox", "claim", "queued"];
    let (pages, tried) = (counting.called("due_page"), tries(methods));
    looked_by_then(pages + 6 * 100).await;
    let more = tries(methods) - tried;
    assert!(more <= 100, "{more} questions in 100 looks at 1,500 runs");
}

/// Releases so many runs of a tenant.
async fn let_go(world: &World, tenant: &str, count: usize) -> BTreeSet<RunId> {
    let engine = world.engine();
    let mut runs = BTreeSet::new();
    for n in 0..count {
        let (tenant, thread) = (tenant.parse().unwrap(), Some(format!("t{n}").parse().unwrap()));
        runs.insert(engine.start(RunRequest { tenant, thread, ..world.request("go") }).await.unwrap().run);
    }
    engine.shutdown().await;
    runs
}

#[tokio::test(start_paused = true)]
async fn the_flood_of_one_tenant_does_not_delay_what_is_taken_up_for_another() {
    let world = World::on(Store::memory(), quick(), tempfile::tempdir().unwrap());
    world.script(json!([[{"text": "First"}, {"stall": true}]]));
    let (flood, few) = (let_go(&world, "a", 400).await, let_go(&world, "b", 3).await);
    let engine = world.engine();
    let taken = engine.adopt_once().await;
    assert_eq!(taken.len(), 403);
    let last = taken.iter().rposition(|run| few.contains(run)).unwrap();
    assert!(last < 16, "the last of three was number {last} of those taken up");
    assert!(taken[..16].iter().any(|run| flood.contains(run)));
}
