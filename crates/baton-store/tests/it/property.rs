//! Random sequences of operations on one thread: every store behaves the same.
//!
//! The memory store is compared with a naive model that copies on every fork, and the others with the memory
//! store. Sequences follow from their seed alone; a failure names the seed and prints the sequence.
//! `BATON_FULL=1` runs ten times as many.

mod model;
mod op;
mod play;

use std::sync::Arc;

use baton_store::Store;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::home::{Home, lines};
use crate::values::{new_thread, tenant, thread};
use model::Model;
use op::{Op, sequence};
use play::Player;

/// The number of sequences that run side by side, so that one fsync serves many.
const AT_ONCE: usize = 64;

fn how_many() -> u64 {
    if std::env::var_os("BATON_FULL").is_some_and(|value| value == "1") { 10_000 } else { 1_000 }
}

fn told(seed: u64, n: usize, ops: &[Op]) -> String {
    let ops: Vec<String> = ops[..=n].iter().enumerate().map(|(n, op)| format!("{n:3} {op:?}")).collect();
    format!("seed {seed}, operation {n}:\n{}\n", ops.join("\n"))
}

async fn player(store: &Store, seed: u64) -> Player {
    let id = format!("s{seed}");
    store.create_thread(&tenant(), new_thread(&id, 0)).await.unwrap();
    Player::new(store.clone(), thread(&id), seed)
}

#[tokio::test]
async fn the_memory_store_does_what_a_naive_model_does() {
    let mut untrusted = (0, 0);
    for seed in 0..how_many() {
        let ops = sequence(seed);
        let store = Store::memory();
        let mut player = player(&store, seed).await;
        let mut model = Model::new(seed);
        for (n, op) in ops.iter().enumerate() {
            let expected = model.play(n, op);
            let actual = player.play(n, op).await;
            assert_eq!(model::seen(&actual), expected, "{}", told(seed, n, &ops));
        }
        let view = store.thread(&tenant(), &player.thread).await.unwrap();
        let lines = lines(&store, &tenant(), view).await;
        assert_eq!(model::shape(&lines), model.shape(), "{}", told(seed, ops.len() - 1, &ops));
        let ends = lines.1.iter().map(|(_, end, _)| end);
        let begun = ends.clone().filter(|end| end.untrusted.is_some()).count();
        untrusted = (untrusted.0 + begun, untrusted.1 + usize::from((1..ends.count()).contains(&begun)));
    }
    assert!(untrusted.0 > 200 && untrusted.1 > 100, "too little happens: {untrusted:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_does_what_the_memory_store_does() {
    all_the_same_as_memory(Home::sqlite(), how_many()).await;
}

/// Fewer of them: every operation goes to a server and back a few times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_does_what_the_memory_store_does() {
    all_the_same_as_memory(Home::postgres(), how_many() / 5).await;
}

async fn all_the_same_as_memory(home: Home, sequences: u64) {
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    for seed in 0..sequences {
        let (store, turns) = (home.store.clone(), turns.clone());
        tasks.spawn(async move {
            let _turn = turns.acquire().await.unwrap();
            same_as_memory(&store, seed).await;
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}

async fn same_as_memory(store: &Store, seed: u64) {
    let ops = sequence(seed);
    let memory = Store::memory();
    let mut players = (player(&memory, seed).await, player(store, seed).await);
    for (n, op) in ops.iter().enumerate() {
        let (expected, actual) = (players.0.play(n, op).await, players.1.play(n, op).await);
        assert_eq!(actual, expected, "{}", told(seed, n, &ops));
    }
    let id = &players.0.thread;
    let (expected, actual) =
        (memory.thread(&tenant(), id).await.unwrap(), store.thread(&tenant(), id).await.unwrap());
    let expected = lines(&memory, &tenant(), expected).await;
    let actual = lines(store, &tenant(), actual).await;
    assert_eq!(actual, expected, "{}", told(seed, ops.len() - 1, &ops));
}
