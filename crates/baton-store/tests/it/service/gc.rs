//! Garbage collection: the rows that are removed, and those that stay.

use baton_core::id::{OwnerId, Tenant};
use baton_core::json::sha256_hex;
use baton_core::run::RunStatus;
use baton_core::thread::Entry;
use baton_store::{Collected, GcRequest, NewThread, PinnedDefinition, RunFilter, Slice, Store, StoreError};
use serde_json::json;

use super::{led_to, new_key, new_queued, theirs};
use crate::home::{Home, dump};
use crate::pen::Pen;
use crate::values::{
    at, branch, call, definition, entry, new_thread, numbered, run, talk, tenant, thread, warning,
};

on_every_store!(
    nothing_is_thrown_away_that_nobody_asked_to,
    threads_past_their_time_go_with_everything_on_them,
    threads_with_unfinished_runs_stay,
    runs_that_ended_long_ago_go_and_what_was_said_stays,
    definitions_go_with_the_last_run_that_names_them,
    long_outputs_go_when_nothing_names_them,
    what_would_go_names_nothing,
    expired_keys_go,
    more_than_fits_into_one_write_goes,
);

const NOTHING: Collected = Collected { threads: 0, runs: 0, blobs: 0, blob_bytes: 0, keys: 0 };

fn request(now_ms: u64) -> GcRequest {
    GcRequest { now: at(now_ms), runs_before: None, blobs_before: None, dry_run: false }
}

/// Collects twice: first a dry run, which must change nothing and report the result of the second.
async fn collect(store: &Store, request: GcRequest) -> Collected {
    let before = dump(store).await;
    let told = store.gc(&GcRequest { dry_run: true, ..request }).await.unwrap();
    assert_eq!(dump(store).await, before, "it was only asked what would go");
    assert_eq!(store.gc(&request).await, Ok(told), "what was told");
    assert_eq!(store.gc(&request).await, Ok(NOTHING), "nothing is left");
    told
}

/// A thread with a run that ended at a moment.
async fn ended(store: &Store, n: u128, on: &str, ms: u64) {
    let owner = OwnerId(uuid::Uuid::from_u128(99));
    let mut pen = Pen::start(store, owner, n, (on, "main")).await;
    let mut last = pen.ends(RunStatus::Ok);
    last.checkpoint.at = at(ms);
    pen.commit(store, last).await.unwrap();
}

async fn mortal(store: &Store, id: &str, ttl_ms: u64) {
    let new = NewThread { ttl_at: Some(at(ttl_ms)), ..new_thread(id, 0) };
    store.create_thread(&tenant(), new).await.unwrap();
}

async fn threads(store: &Store) -> Vec<String> {
    let all = store.threads(&tenant(), 99, None).await.unwrap();
    let mut all: Vec<_> = all.into_iter().map(|view| view.id.to_string()).collect();
    all.sort();
    all
}

async fn runs(store: &Store) -> Vec<u128> {
    let filter = RunFilter { limit: 999, ..RunFilter::default() };
    let all = store.runs(&tenant(), &filter).await.unwrap();
    all.into_iter().map(|row| row.id.0.as_u128()).rev().collect()
}

async fn nothing_is_thrown_away_that_nobody_asked_to(home: Home) {
    let store = &home.store;
    talk(store, "t", 2).await;
    ended(store, 1, "t", 30).await;
    put(store, &tenant(), b"old", 0).await;
    let before = dump(store).await;
    assert_eq!(collect(store, request(9_999_999)).await, NOTHING);
    assert_eq!(dump(store).await, before);
    assert!(store.blob(&tenant(), &sha256_hex(b"old")).await.unwrap().is_some());
}

async fn threads_past_their_time_go_with_everything_on_them(home: Home) {
    let store = &home.store;
    for (id, ttl) in [("a", 100), ("b", 101), ("c", 50)] {
        mortal(store, id, ttl).await;
    }
    talk(store, "forever", 1).await;
    store.create_thread(&theirs(), NewThread { ttl_at: Some(at(1)), ..new_thread("a", 0) }).await.unwrap();
    ended(store, 1, "a", 30).await;
    ended(store, 2, "b", 30).await;
    let collected = collect(store, request(100)).await;
    assert_eq!(collected, Collected { threads: 3, ..NOTHING }, "its run is no count of its own");
    assert_eq!(
        (threads(store).await, runs(store).await),
        (vec!["b".to_owned(), "forever".to_owned()], vec![2])
    );
    assert_eq!(store.threads(&theirs(), 9, None).await, Ok(vec![]));
    let gone = StoreError::NotFound { what: "run", id: run(1).to_string() };
    assert_eq!(store.steps(&tenant(), run(1), 0, 9).await, Err(gone));
    talk(store, "a", 1).await;
    assert_eq!(
        store.entries(&tenant(), &thread("a"), None, Slice::default()).await.unwrap().len(),
        1,
        "a new one"
    );
}

async fn threads_with_unfinished_runs_stay(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    for id in ["running", "suspended", "waiting"] {
        mortal(store, id, 100).await;
    }
    let mut running = Pen::start(store, owner.id, 1, ("running", "main")).await;
    let mut suspended = Pen::start(store, owner.id, 2, ("suspended", "main")).await;
    suspended.commit(store, suspended.suspends(900)).await.unwrap();
    store.enqueue(&tenant(), new_queued(3, ("waiting", "main"))).await.unwrap();
    let request = GcRequest { runs_before: Some(at(900)), ..request(200) };
    assert_eq!(collect(store, request).await, NOTHING);
    assert_eq!(runs(store).await, [1, 2, 3]);
    running.commit(store, running.ends(RunStatus::Ok)).await.unwrap();
    assert_eq!(collect(store, request).await, Collected { threads: 1, ..NOTHING });
    assert_eq!(runs(store).await, [2, 3]);
}

async fn runs_that_ended_long_ago_go_and_what_was_said_stays(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    for (n, ms) in [(1, 99), (2, 100)] {
        let on = format!("t{n}");
        talk(store, &on, 1).await;
        ended(store, n, &on, ms).await;
    }
    talk(store, "busy", 1).await;
    Pen::start(store, owner.id, 3, ("busy", "main")).await;
    store.begin_key(&tenant(), &new_key("k", 900), Some(run(1)), None, at(0)).await.unwrap();
    let before = dump(store).await.threads;
    let request = GcRequest { runs_before: Some(at(100)), ..request(200) };
    assert_eq!(collect(store, request).await, Collected { runs: 1, ..NOTHING });
    assert_eq!((runs(store).await, dump(store).await.threads), (vec![2, 3], before));
    let gone = StoreError::NotFound { what: "run", id: run(1).to_string() };
    assert_eq!(store.claims(&tenant(), run(1)).await, Err(gone));
    let key = store.key(&tenant(), "/v1/runs", "k", at(200)).await;
    assert_eq!(key, Ok(Some(led_to("k", run(1)))), "a key says what it led to");
    ended(store, 4, "t1", 300).await;
    assert_eq!(store.end(&tenant(), &thread("t1"), None).await.unwrap().head, 4, "and the thread goes on");
}

async fn definitions_go_with_the_last_run_that_names_them(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    let hash = PinnedDefinition::new(definition()).hash.clone();
    for (n, ms) in [(1, 99), (2, 100)] {
        let on = format!("t{n}");
        talk(store, &on, 1).await;
        ended(store, n, &on, ms).await;
    }
    let older = |ms| GcRequest { runs_before: Some(at(ms)), ..request(200) };
    assert_eq!(elsewhere.gc(&older(100)).await, Ok(Collected { runs: 1, ..NOTHING }));
    assert_eq!(store.definition(&tenant(), &hash).await, Ok(definition()), "somebody names it");
    assert_eq!(elsewhere.gc(&older(101)).await, Ok(Collected { runs: 1, ..NOTHING }));
    let gone = StoreError::NotFound { what: "definition", id: hash.clone() };
    assert_eq!(store.definition(&tenant(), &hash).await, Err(gone));
    // A caller that knew it to be stored stores it again.
    ended(store, 3, "t1", 300).await;
    assert_eq!(elsewhere.definition(&tenant(), &hash).await, Ok(definition()));
    elsewhere.gc(&older(400)).await.unwrap();
    store.enqueue(&tenant(), new_queued(4, ("t1", "main"))).await.unwrap();
    assert_eq!(elsewhere.definition(&tenant(), &hash).await, Ok(definition()));
}

async fn put(store: &Store, tenant: &Tenant, bytes: &[u8], ms: u64) -> String {
    let hash = sha256_hex(bytes);
    store.put_blob(tenant, &hash, bytes.to_vec(), at(ms)).await.unwrap();
    hash
}

/// A result that names a blob.
fn naming(call: &str, hash: &str, filler: usize) -> Entry {
    let blob = json!({"hash": hash, "size": 1, "dropped": 0});
    let result = "x".repeat(filler);
    entry("ToolResult", json!({"tool_call_id": call, "tool_name": "f", "result": result, "blob": blob}))
}

async fn long_outputs_go_when_nothing_names_them(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    let hash = async |bytes: &[u8], ms| put(store, &tenant(), bytes, ms).await;
    let (short, long, step, told) =
        (hash(b"a", 0).await, hash(b"b", 0).await, hash(b"c", 0).await, hash(b"d", 0).await);
    let (unnamed, young, touched) = (hash(b"eee", 99).await, hash(b"f", 100).await, hash(b"g", 0).await);
    hash(b"g", 100).await;
    let foreign = put(store, &theirs(), b"a", 0).await;
    talk(store, "t", 1).await;
    let said = [call("1"), naming("1", &short, 1), call("2"), naming("2", &long, 9000)];
    for (n, entry) in (20..).zip(said) {
        store.push(&tenant(), &thread("t"), None, numbered(n, entry)).await.unwrap();
    }
    let told_of = entry("UserMessage", json!({"text": format!("what does {told} say?")}));
    store
        .fork(&tenant(), &thread("t"), None, &baton_store::ForkAt::Head, branch("side"), at(9))
        .await
        .unwrap();
    store.push(&tenant(), &thread("t"), Some(&branch("side")), numbered(30, told_of)).await.unwrap();
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    let shown = pen.next(vec![], vec![warning(&format!("{} {step}", "y".repeat(9000)))]);
    pen.commit(store, shown).await.unwrap();

    let request = GcRequest { blobs_before: Some(at(100)), ..request(200) };
    assert_eq!(collect(store, request).await, Collected { blobs: 2, blob_bytes: 4, ..NOTHING });
    for (tenant, hash, stays) in [
        (tenant(), &short, true),
        (tenant(), &long, true),
        (tenant(), &step, true),
        (tenant(), &told, true),
        (tenant(), &young, true),
        (tenant(), &touched, true),
        (tenant(), &unnamed, false),
        (theirs(), &foreign, false),
    ] {
        assert_eq!(store.blob(&tenant, hash).await.unwrap().is_some(), stays, "{hash} of {tenant}");
    }
}

/// Rows that are removed in the same collection keep nothing alive, neither in a dry run nor in a real one.
async fn what_would_go_names_nothing(home: Home) {
    let store = &home.store;
    let old = put(store, &tenant(), b"old", 0).await;
    let logged = put(store, &tenant(), b"logged", 0).await;
    mortal(store, "mortal", 100).await;
    let said = [call("1"), naming("1", &old, 1)];
    for (n, entry) in (20..).zip(said) {
        store.push(&tenant(), &thread("mortal"), None, numbered(n, entry)).await.unwrap();
    }
    ended(store, 1, "mortal", 30).await;
    talk(store, "t", 1).await;
    let mut pen = Pen::start(store, OwnerId(uuid::Uuid::from_u128(99)), 2, ("t", "main")).await;
    pen.commit(store, pen.next(vec![], vec![warning(&logged)])).await.unwrap();
    let mut last = pen.ends(RunStatus::Ok);
    last.checkpoint.at = at(30);
    pen.commit(store, last).await.unwrap();
    let none = GcRequest { blobs_before: Some(at(50)), ..request(99) };
    assert_eq!(collect(store, none).await, NOTHING, "both are named");
    let all = GcRequest { blobs_before: Some(at(50)), runs_before: Some(at(31)), ..request(100) };
    let expected = Collected { threads: 1, runs: 1, blobs: 2, blob_bytes: 9, keys: 0 };
    assert_eq!(collect(store, all).await, expected);
}

async fn expired_keys_go(home: Home) {
    let store = &home.store;
    for (key, expires) in [("a", 99), ("b", 100), ("c", 101)] {
        store.begin_key(&tenant(), &new_key(key, expires), Some(run(1)), None, at(0)).await.unwrap();
    }
    assert_eq!(collect(store, request(100)).await, Collected { keys: 2, ..NOTHING });
    let left = store.key(&tenant(), "/v1/runs", "c", at(0)).await;
    assert_eq!(left, Ok(Some(led_to("c", run(1)))));
    assert_eq!(store.key(&tenant(), "/v1/runs", "a", at(0)).await, Ok(None));
}

async fn more_than_fits_into_one_write_goes(home: Home) {
    let store = &home.store;
    for n in 1..=60 {
        talk(store, &format!("t{n}"), 1).await;
        ended(store, n, &format!("t{n}"), if n % 2 == 0 { 30 } else { 31 }).await;
    }
    let keys = (0..505).map(|n| {
        let (store, key) = (store.clone(), new_key(&format!("k{n}"), 10));
        tokio::spawn(async move { store.begin_key(&tenant(), &key, None, None, at(0)).await.unwrap() })
    });
    for key in keys.collect::<Vec<_>>() {
        key.await.unwrap();
    }
    let even = GcRequest { runs_before: Some(at(31)), ..request(10) };
    assert_eq!(collect(store, even).await, Collected { runs: 30, keys: 505, ..NOTHING });
    let all = GcRequest { runs_before: Some(at(32)), ..request(10) };
    assert_eq!(collect(store, all).await, Collected { runs: 30, ..NOTHING });
    assert_eq!(runs(store).await, [0; 0]);
}

/// The names in an entry that cannot be read are not known.
async fn nothing_goes_that_a_damaged_entry_may_name(home: Home) {
    let store = &home.store;
    let (ours, foreign) = (put(store, &tenant(), b"a", 0).await, put(store, &theirs(), b"a", 0).await);
    talk(store, "t", 2).await;
    let damage = match store {
        Store::Postgres(_) => "UPDATE entries SET envelope = 'x'::bytea WHERE idx = 1",
        _ => "UPDATE entries SET envelope = x'00' WHERE idx = 1",
    };
    super::tamper(&home, damage);
    let request = GcRequest { blobs_before: Some(at(100)), ..request(200) };
    assert_eq!(store.gc(&request).await, Ok(Collected { blobs: 1, blob_bytes: 1, ..NOTHING }));
    let left = (store.blob(&tenant(), &ours).await, store.blob(&theirs(), &foreign).await);
    assert_eq!(left, (Ok(Some(b"a".to_vec())), Ok(None)), "theirs are not damaged");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_goes_that_a_damaged_entry_in_a_file_may_name() {
    nothing_goes_that_a_damaged_entry_may_name(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_goes_that_a_damaged_entry_in_a_database_may_name() {
    nothing_goes_that_a_damaged_entry_may_name(Home::postgres()).await;
}
