//! The cost of history: none. Commits at turn 10,000 against turn 100, and forks of long threads.

use std::path::Path;
use std::time::{Duration, Instant};

use baton_core::id::{EntryId, Tenant, ThreadId};
use baton_core::thread::{Entry, NewEntry};
use baton_core::time::Timestamp;
use baton_engine::{Engine, RunRequest};
use baton_store::{ForkAt, NewThread, SqliteStore, Store};
use serde_json::json;
use uuid::Uuid;

const AT: Timestamp = Timestamp(1_767_225_600_000);

pub(crate) async fn report() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::Sqlite(SqliteStore::open(folder.path()).unwrap().store);
    let engine = crate::load::engine(store.clone(), 1);
    println!("\na turn (one tool round, the last 20 entries rendered) on one thread, medians of 60 turns");
    let mut done = 0;
    let early = until(&engine, folder.path(), &mut done, 100).await;
    let late = until(&engine, folder.path(), &mut done, 10_000).await;
    let show = |name: &str, early: f64, late: f64, unit: &str| {
        println!(
            "{name:>14}: turn 100 {early:>9.1} {unit}, turn 10,000 {late:>9.1} {unit}, ratio {:.2}",
            late / early
        );
    };
    show("time", early.0, late.0, "µs");
    show("bytes written", early.1, late.1, "B ");
    forks(&store).await;
}

/// Goes on to a turn, and measures the 60 turns there: time and bytes a turn.
async fn until(engine: &Engine, folder: &Path, done: &mut u64, turn: u64) -> (f64, f64) {
    while *done < turn - 30 {
        one(engine).await;
        *done += 1;
    }
    let mut times = Vec::new();
    let before = stored(folder);
    for _ in 0..60 {
        let begun = Instant::now();
        one(engine).await;
        times.push(begun.elapsed());
    }
    *done += 60;
    times.sort();
    (micros(times[30]), (stored(folder) - before) / 60.0)
}

async fn one(engine: &Engine) {
    let thread = Some("long".parse().unwrap());
    let request = RunRequest { thread, last_n: Some(20), ..RunRequest::new("and then?", "quick") };
    engine.start(request).await.unwrap().rested().await;
}

/// The bytes of all rows.
fn stored(folder: &Path) -> f64 {
    let db = rusqlite::Connection::open(folder.join("baton.db")).unwrap();
    let sum =
        |sql: &str| db.query_row(sql, [], |row| row.get::<_, Option<i64>>(0)).unwrap().unwrap_or(0) as f64;
    sum("SELECT sum(length(body)) FROM steps") + sum("SELECT sum(length(envelope)) FROM entries")
}

async fn forks(store: &Store) {
    let small = thread(store, "fork-100", 100).await;
    let large = thread(store, "fork-10000", 10_000).await;
    let (mut of_small, mut of_large) = (Vec::new(), Vec::new());
    for n in 0..101 {
        of_small.push(fork(store, &small, n).await);
        of_large.push(fork(store, &large, n).await);
    }
    of_small.sort();
    of_large.sort();
    let (small, large) = (micros(of_small[50]), micros(of_large[50]));
    println!(
        "{:>14}: 100 entries {small:>9.1} µs, 10,000 entries {large:>9.1} µs, ratio {:.2}",
        "fork",
        large / small
    );
}

async fn thread(store: &Store, id: &str, entries: u64) -> ThreadId {
    let id: ThreadId = id.parse().unwrap();
    let tenant = Tenant::local();
    let new = NewThread { id: id.clone(), at: AT, ttl_at: None, meta: json!(null) };
    store.create_thread(&tenant, new).await.unwrap();
    for n in 0..entries {
        let entry = Entry::from_parts("UserMessage", 1, json!({"text": format!("message {n}")})).unwrap();
        store
            .push(&tenant, &id, None, NewEntry { id: EntryId(Uuid::now_v7()), at: AT, entry })
            .await
            .unwrap();
    }
    id
}

async fn fork(store: &Store, id: &ThreadId, n: u32) -> Duration {
    let begun = Instant::now();
    let name = format!("b{n}").parse().unwrap();
    store.fork(&Tenant::local(), id, None, &ForkAt::Index(50), name, AT).await.unwrap();
    begun.elapsed()
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
