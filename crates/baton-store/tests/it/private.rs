//! The place where private data begins on a branch. It is a mark of its own: untrusted content need not be private, and
//! private data need not be untrusted. Random trees are in `property`.

use baton_core::run::RunStatus;
use baton_core::thread::Entry;
use baton_store::{ForkAt, PruneRequest, Store};

use crate::home::Home;
use crate::pen::Pen;
use crate::values::{
    at, branch, call, file, numbered, private, push_many, talk, tenant, thread, untrusted, user,
};

on_every_store!(
    private_data_is_a_mark_of_its_own,
    a_fork_or_a_rewind_before_private_data_is_without_it,
    what_a_run_reads_is_private_from_its_commit_on,
    a_pruned_private_entry_is_forgotten_and_the_other_mark_stays,
    an_imported_thread_is_private_from_its_first_entry,
);

/// The places where untrusted content and private data begin.
async fn begin(store: &Store, on: &str) -> (Option<i64>, Option<i64>) {
    let end = store.end(&tenant(), &thread("t"), Some(&branch(on))).await.unwrap();
    (end.untrusted, end.private)
}

/// Appends a call and its result to a branch: two entries.
async fn brings(store: &Store, on: &str, n: u32, result: fn(&str) -> Entry) {
    let id = format!("c{n}");
    for (n, entry) in (n..).zip([call(&id), result(&id)]) {
        store.push(&tenant(), &thread("t"), Some(&branch(on)), numbered(n, entry)).await.unwrap();
    }
}

async fn fork(store: &Store, index: i64, name: &str) {
    let place = ForkAt::Index(index);
    store.fork(&tenant(), &thread("t"), Some(&branch("main")), &place, branch(name), at(50)).await.unwrap();
}

async fn private_data_is_a_mark_of_its_own(home: Home) {
    let store = &home.store;
    talk(store, "t", 2).await;
    brings(store, "main", 10, untrusted).await;
    assert_eq!(begin(store, "main").await, (Some(3), None));
    brings(store, "main", 20, private).await;
    assert_eq!(begin(store, "main").await, (Some(3), Some(5)));
    brings(store, "main", 30, file).await;
    assert_eq!(begin(store, "main").await, (Some(3), Some(5)), "the first of each counts");
    fork(store, 1, "other").await;
    brings(store, "other", 40, private).await;
    assert_eq!(begin(store, "other").await, (None, Some(3)));
    fork(store, 1, "third").await;
    brings(store, "third", 50, file).await;
    assert_eq!(begin(store, "third").await, (Some(3), Some(3)));
}

async fn a_fork_or_a_rewind_before_private_data_is_without_it(home: Home) {
    let store = &home.store;
    talk(store, "t", 2).await;
    brings(store, "main", 10, untrusted).await;
    brings(store, "main", 20, file).await;
    for (index, name, expected) in
        [(1, "clean", (None, None)), (3, "between", (Some(3), None)), (5, "after", (Some(3), Some(5)))]
    {
        fork(store, index, name).await;
        assert_eq!(begin(store, name).await, expected, "{name}");
        push_many(store, "t", name, 100, 6).await;
        assert_eq!(begin(store, name).await, expected, "{name} that went on by itself");
    }
    store.rewind(&tenant(), &thread("t"), None, 3).await.unwrap();
    assert_eq!(begin(store, "main").await, (Some(3), None));
    brings(store, "main", 200, private).await;
    assert_eq!(begin(store, "main").await, (Some(3), Some(5)), "in the lane that the rewind opened");
}

async fn what_a_run_reads_is_private_from_its_commit_on(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 2).await;
    fork(store, 0, "b").await;
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    let read = vec![call("1"), call("2"), untrusted("1"), file("2")];
    pen.commit(store, pen.next(read, vec![])).await.unwrap();
    assert_eq!(begin(store, "main").await, (Some(5), Some(6)), "two marks of one commit");
    pen.commit(store, pen.next(vec![call("3"), private("3")], vec![])).await.unwrap();
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    assert_eq!(begin(store, "main").await, (Some(5), Some(6)));

    let pen = Pen::for_new(store, 2, ("t", "b")).await;
    let first = pen.next(vec![user("go"), call("4"), private("4")], vec![]);
    store.start(&tenant(), pen.new_run(owner.id), first).await.unwrap();
    assert_eq!(begin(store, "b").await, (None, Some(3)), "with the write that begins a run, too");
}

async fn a_pruned_private_entry_is_forgotten_and_the_other_mark_stays(home: Home) {
    let store = &home.store;
    talk(store, "t", 2).await;
    brings(store, "main", 10, untrusted).await;
    brings(store, "main", 20, private).await;
    store.rewind(&tenant(), &thread("t"), None, 4).await.unwrap();
    assert_eq!(store.prune(&tenant(), &thread("t"), &PruneRequest::default()).await.unwrap().entries, 1);
    store.rewind(&tenant(), &thread("t"), None, 3).await.unwrap();
    store.prune(&tenant(), &thread("t"), &PruneRequest::default()).await.unwrap();
    push_many(store, "t", "main", 30, 4).await;
    assert_eq!(begin(store, "main").await, (Some(3), None), "the lane grew beyond where it was");
    store.rename_thread(&tenant(), &thread("t"), &thread("u")).await.unwrap();
    talk(store, "t", 6).await;
    assert_eq!(begin(store, "main").await, (None, None), "nothing stays under the old name");
}

async fn an_imported_thread_is_private_from_its_first_entry(home: Home) {
    let store = &home.store;
    talk(store, "t", 2).await;
    fork(store, 0, "side").await;
    push_many(store, "t", "side", 20, 2).await;
    store.distrust(&tenant(), &thread("t")).await.unwrap();
    assert_eq!([begin(store, "main").await, begin(store, "side").await], [(Some(0), Some(0)); 2]);
}
