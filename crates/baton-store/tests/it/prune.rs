//! Prune: the rows that are removed, those that stay, and that a dry run reports the same.

use baton_core::run::RunStatus;
use baton_store::{ForkAt, NewRun, PruneRequest, Pruned, Slice, Store, StoreError};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;

use crate::home::{Home, dump};
use crate::pen::Pen;
use crate::values::{at, branch, entry_id, push_many, talk, tenant, thread};

on_every_store!(
    what_nothing_reaches_goes,
    idle_branches_go_but_not_those_that_must_stay,
    an_unfinished_runs_entries_stay,
    pruning_again_removes_nothing,
    an_unknown_thread_is_not_pruned,
    a_prune_beside_runs_takes_nothing_of_theirs,
);

/// Prunes twice: first a dry run, which must change nothing and report the result of the second.
async fn prune(store: &Store, idle_before: Option<u64>, keep: &[&str]) -> Pruned {
    let keep = keep.iter().map(|name| branch(name)).collect();
    let mut request = PruneRequest { idle_before: idle_before.map(at), keep, dry_run: true };
    let before = dump(store).await;
    let said = store.prune(&tenant(), &thread("t"), &request).await.unwrap();
    assert_eq!(dump(store).await, before, "a dry run changes nothing");
    request.dry_run = false;
    let done = store.prune(&tenant(), &thread("t"), &request).await.unwrap();
    assert_eq!(done, said, "a dry run says what happens");
    done
}

fn pruned(branches: &[&str], lanes: u64, entries: u64) -> Pruned {
    Pruned { branches: branches.iter().map(|name| branch(name)).collect(), lanes, entries }
}

async fn fork(store: &Store, place: ForkAt, name: &str, ms: u64) {
    store.fork(&tenant(), &thread("t"), None, &place, branch(name), at(ms)).await.unwrap();
}

async fn texts(store: &Store, on: &str) -> Vec<u128> {
    let read = store.entries(&tenant(), &thread("t"), Some(&branch(on)), Slice::default()).await.unwrap();
    read.into_iter().map(|placed| placed.id.0.as_u128()).collect()
}

/// main 1 2 3 | 4 5 6 rewound away; b grew from 2; c grew from 5, so 4 and 5 are still reached.
async fn what_nothing_reaches_goes(home: Home) {
    let store = &home.store;
    talk(store, "t", 6).await;
    fork(store, ForkAt::Index(1), "b", 1).await;
    push_many(store, "t", "b", 10, 2).await;
    fork(store, ForkAt::Index(4), "c", 1).await;
    push_many(store, "t", "c", 20, 1).await;
    store.rewind(&tenant(), &thread("t"), None, 2).await.unwrap();
    assert_eq!(prune(store, None, &[]).await, pruned(&[], 0, 1), "only 6: c holds 4 and 5");
    let error = store
        .fork(&tenant(), &thread("t"), None, &ForkAt::Entry(entry_id(6)), branch("late"), at(2))
        .await
        .unwrap_err();
    assert_eq!(error, StoreError::NotFound { what: "entry", id: entry_id(6).to_string() });

    store.delete_branch(&tenant(), &thread("t"), &branch("b")).await.unwrap();
    store.delete_branch(&tenant(), &thread("t"), &branch("c")).await.unwrap();
    assert_eq!(prune(store, None, &[]).await, pruned(&[], 2, 5), "10 11, 20, 4 5 and their lanes");
    assert_eq!(texts(store, "main").await, [1, 2, 3]);
    push_many(store, "t", "main", 30, 1).await;
    fork(store, ForkAt::Index(0), "d", 2).await;
    push_many(store, "t", "d", 40, 1).await;
    assert_eq!((texts(store, "main").await, texts(store, "d").await), (vec![1, 2, 3, 30], vec![1, 40]));
}

async fn idle_branches_go_but_not_those_that_must_stay(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 2).await; // written at 1 and 2
    for name in ["current", "kept", "used", "written", "idle"] {
        fork(store, ForkAt::Head, name, 100).await;
    }
    push_many(store, "t", "idle", 150, 2).await; // at 150 and 151
    push_many(store, "t", "written", 300, 1).await;
    let _pen = Pen::start(store, owner.id, 1, ("t", "used")).await;
    store.checkout(&tenant(), &thread("t"), &branch("current")).await.unwrap();
    assert_eq!(prune(store, Some(100), &["kept"]).await, pruned(&[], 0, 0), "at exactly 100 is not before");
    assert_eq!(prune(store, Some(151), &["kept"]).await, pruned(&[], 0, 0));
    assert_eq!(prune(store, Some(152), &["kept"]).await, pruned(&["idle"], 1, 2));
    assert_eq!(prune(store, Some(152), &[]).await, pruned(&["kept"], 0, 0));
    assert_eq!(prune(store, Some(9999), &[]).await, pruned(&["written"], 1, 1));
    let view = store.thread(&tenant(), &thread("t")).await.unwrap();
    let left: Vec<_> = view.branches.iter().map(|b| b.name.as_str()).collect();
    assert_eq!(left, ["current", "main", "used"]);
}

async fn an_unfinished_runs_entries_stay(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 4).await;
    fork(store, ForkAt::Index(1), "b", 1).await;
    let mut pen = Pen::start(store, owner.id, 1, ("t", "b")).await;
    pen.commit(store, pen.says("one")).await.unwrap();
    pen.commit(store, pen.suspends(900)).await.unwrap();
    store.rewind(&tenant(), &thread("t"), None, -1).await.unwrap();
    let held = texts(store, "b").await;
    assert_eq!(prune(store, Some(9999), &[]).await, pruned(&[], 0, 2), "3 and 4; 1 and 2 are the run's past");
    assert_eq!(texts(store, "b").await, held);

    let claimed =
        store.claim(&tenant(), pen.run, owner.id, baton_store::ClaimMode::IfFree, at(1)).await.unwrap();
    let mut pen = Pen::of(&claimed);
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    assert_eq!(prune(store, Some(9999), &[]).await, pruned(&["b"], 1, 6), "all of it, once the run is over");
}

async fn pruning_again_removes_nothing(home: Home) {
    let store = &home.store;
    talk(store, "t", 5).await;
    store.rewind(&tenant(), &thread("t"), None, 1).await.unwrap();
    assert_eq!(prune(store, None, &[]).await, pruned(&[], 0, 3));
    assert_eq!(prune(store, None, &[]).await, Pruned::default());
}

async fn an_unknown_thread_is_not_pruned(home: Home) {
    let error = home.store.prune(&tenant(), &thread("t"), &PruneRequest::default()).await;
    assert_eq!(error, Err(StoreError::NotFound { what: "thread", id: "t".to_owned() }));
}

/// Another process prunes all the time while runs begin, write and end, each in the lane that it was given.
async fn a_prune_beside_runs_takes_nothing_of_theirs(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    let (done, mut over) = oneshot::channel();
    let pruning = tokio::spawn(async move {
        let mut times = 0;
        while over.try_recv() == Err(TryRecvError::Empty) || times < 3 {
            let pruned = elsewhere.prune(&tenant(), &thread("t"), &PruneRequest::default()).await;
            assert_eq!(pruned, Ok(Pruned::default()));
            times += 1;
        }
    });
    for n in 1..=20 {
        let lane = store.end(&tenant(), &thread("t"), None).await.unwrap().lane;
        assert_eq!(lane, Some(0));
        let mut pen = Pen::for_new(store, n, ("t", "main")).await;
        let first = pen.says("go");
        let new = NewRun { lane, ..pen.new_run(owner.id) };
        assert_eq!(store.start(&tenant(), new, first.clone()).await, Ok(0));
        pen.written(&first);
        for _ in 0..3 {
            pen.commit(store, pen.says("and")).await.unwrap();
        }
        pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    }
    done.send(()).unwrap();
    pruning.await.unwrap();
    let read = store.entries(&tenant(), &thread("t"), None, Slice::default()).await.unwrap();
    assert_eq!(read.iter().map(|placed| placed.index).collect::<Vec<_>>(), (0..=100).collect::<Vec<_>>());
}
