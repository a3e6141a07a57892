//! The usage of all runs of a thread together.

use baton_core::budget::Budget;
use baton_core::run::RunStatus;
use baton_store::{Store, StoreError, ThreadUsage};

use crate::home::Home;
use crate::pen::Pen;
use crate::values::{talk, tenant, thread};

on_every_store!(
    a_thread_used_what_its_runs_used,
    what_anybody_says_was_used_can_be_summed_up,
    a_thread_that_is_not_there_used_nothing_that_could_be_told,
    a_renamed_thread_has_used_the_same,
);

fn budget(n: u32) -> Budget {
    Budget {
        prompt_tokens: 1_000 * u64::from(n),
        completion_tokens: 100 * u64::from(n),
        model_calls: n,
        tool_calls: 2 * n,
        active_ms: 77,
        cost_micro_usd: 3 * u64::from(n),
        unpriced: 4 * n,
        reserved_tokens: 88,
        last_prompt: 99,
        errors: 5 * n,
        estimated: 6 * n,
    }
}

/// A run that has this usage, and ends.
async fn ran(store: &Store, n: u128, on: &str, used: Budget) {
    let owner = store.enlist().unwrap();
    let mut pen = Pen::start(store, owner.id, n, (on, "main")).await;
    let mut last = pen.ends(RunStatus::Ok);
    last.checkpoint.budget = used;
    pen.commit(store, last).await.unwrap();
}

async fn usage(store: &Store, of: &str) -> Result<ThreadUsage, StoreError> {
    store.usage_of_thread(&tenant(), &thread(of)).await
}

async fn a_thread_used_what_its_runs_used(home: Home) {
    let store = &home.store;
    talk(store, "t", 1).await;
    talk(store, "u", 1).await;
    assert_eq!(usage(store, "t").await, Ok(ThreadUsage::default()));
    ran(store, 1, "t", budget(1)).await;
    ran(store, 2, "u", budget(100)).await;
    ran(store, 3, "t", budget(20)).await;
    let owner = store.enlist().unwrap();
    Pen::start(store, owner.id, 4, ("t", "main")).await; // has made one model call, and goes on
    let expected = ThreadUsage {
        runs: 3,
        model_calls: 22,
        tool_calls: 42,
        prompt_tokens: 21_000,
        completion_tokens: 2_100,
        cost_micro_usd: 63,
        unpriced: 84,
        errors: 105,
    };
    assert_eq!(usage(store, "t").await, Ok(expected));
    assert_eq!(usage(&home.elsewhere(), "u").await.unwrap().runs, 1);
}

async fn what_anybody_says_was_used_can_be_summed_up(home: Home) {
    let store = &home.store;
    talk(store, "t", 1).await;
    let most = Budget { prompt_tokens: u64::MAX, errors: u32::MAX, ..Budget::default() };
    ran(store, 1, "t", most.clone()).await;
    ran(store, 2, "t", most).await;
    let expected = ThreadUsage {
        runs: 2,
        prompt_tokens: u64::MAX,
        errors: 2 * u64::from(u32::MAX),
        ..ThreadUsage::default()
    };
    assert_eq!(usage(store, "t").await, Ok(expected));
}

async fn a_thread_that_is_not_there_used_nothing_that_could_be_told(home: Home) {
    let missing = StoreError::NotFound { what: "thread", id: "x".to_owned() };
    assert_eq!(usage(&home.store, "x").await, Err(missing));
}

async fn a_renamed_thread_has_used_the_same(home: Home) {
    let store = &home.store;
    talk(store, "t", 1).await;
    ran(store, 1, "t", budget(1)).await;
    let before = usage(store, "t").await;
    store.rename_thread(&tenant(), &thread("t"), &thread("u")).await.unwrap();
    assert_eq!(usage(store, "u").await, before);
    talk(store, "t", 1).await;
    assert_eq!(usage(store, "t").await, Ok(ThreadUsage::default()));
}

/// The expected index is used: runs of other threads are not read.
#[test]
fn a_file_looks_only_at_the_runs_of_the_thread() {
    let home = Home::sqlite();
    let db = rusqlite::Connection::open(home.folder().join("baton.db")).unwrap();
    let sql = "EXPLAIN QUERY PLAN SELECT run, budget FROM runs WHERE tenant = 'x' AND thread = 'y'";
    let plan: String = db.query_row(sql, [], |row| row.get(3)).unwrap();
    assert_eq!(plan, "SEARCH runs USING INDEX runs_of_thread (tenant=? AND thread=?)");
}
