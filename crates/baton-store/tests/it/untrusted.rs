//! The place where untrusted content begins on a branch, after any forks, rewinds and prunes. Random trees are in
//! `property`.

use baton_core::run::RunStatus;
use baton_core::thread::{Entry, Place};
use baton_store::{BranchEnd, ForkAt, PruneRequest, Store, StoreError};
use rusqlite::Connection;

use crate::home::{Home, dump};
use crate::pen::Pen;
use crate::values::{
    assistant, at, branch, call, entry_id, new_thread, numbered, push_many, result, talk, tenant, thread,
    untrusted, user,
};

on_every_store!(
    content_begins_at_the_first_untrusted_entry,
    a_fork_before_the_entry_is_clean_and_one_after_it_is_not,
    every_lane_has_its_own_beginning_and_the_lowest_counts,
    a_rewind_before_the_entry_is_clean_and_stays_so,
    what_a_run_brings_in_counts_from_its_commit_on,
    a_refused_commit_brings_nothing_in,
    a_pruned_entry_is_forgotten_where_its_lane_grows_again,
    a_prune_keeps_what_is_still_reached,
    a_new_lane_inherits_nothing_from_a_pruned_one_of_its_number,
    a_renamed_thread_keeps_it_and_a_deleted_one_does_not,
    another_tenants_thread_of_the_same_name_is_clean,
    a_thread_that_is_distrusted_is_so_from_its_first_entry_on_every_branch,
);

async fn begins(store: &Store, on: &str) -> Option<i64> {
    store.end(&tenant(), &thread("t"), Some(&branch(on))).await.unwrap().untrusted
}

async fn push(store: &Store, on: &str, first: u32, entries: impl IntoIterator<Item = Entry>) {
    for (n, entry) in (first..).zip(entries) {
        store.push(&tenant(), &thread("t"), Some(&branch(on)), numbered(n, entry)).await.unwrap();
    }
}

async fn fork(store: &Store, from: &str, place: ForkAt, name: &str) -> Place {
    store.fork(&tenant(), &thread("t"), Some(&branch(from)), &place, branch(name), at(50)).await.unwrap()
}

/// Appends a call and its result to a branch: two entries.
async fn fetch(store: &Store, on: &str, first: u32) {
    let id = format!("c{first}");
    push(store, on, first, [call(&id), untrusted(&id)]).await;
}

/// The thread `t`: two messages, a call at 2, its untrusted result at 3, and a message at 4.
async fn read_a_page(store: &Store) {
    talk(store, "t", 2).await;
    fetch(store, "main", 3).await;
    push_many(store, "t", "main", 5, 1).await;
}

async fn prune(store: &Store) -> u64 {
    store.prune(&tenant(), &thread("t"), &PruneRequest::default()).await.unwrap().entries
}

async fn a_thread_that_is_distrusted_is_so_from_its_first_entry_on_every_branch(home: Home) {
    let store = &home.store;
    read_a_page(store).await;
    fork(store, "main", ForkAt::Index(1), "side").await;
    push_many(store, "t", "side", 20, 2).await;
    fork(store, "main", ForkAt::Index(-1), "own").await;
    push_many(store, "t", "own", 30, 1).await;
    let missing = store.distrust(&tenant(), &thread("nothing")).await;
    assert!(matches!(missing, Err(StoreError::NotFound { .. })), "{missing:?}");
    for _ in 0..2 {
        store.distrust(&tenant(), &thread("t")).await.unwrap();
        let begun = [begins(store, "main").await, begins(store, "side").await, begins(store, "own").await];
        assert_eq!(begun, [Some(0); 3]);
    }
    fork(store, "side", ForkAt::Index(0), "later").await;
    fork(store, "main", ForkAt::Index(-1), "empty").await;
    push_many(store, "t", "empty", 40, 2).await;
    let begun = [begins(store, "later").await, begins(store, "empty").await];
    assert_eq!(begun, [Some(0), None], "what is written afterwards beside it is somebody else's");
    store.rename_thread(&tenant(), &thread("t"), &thread("u")).await.unwrap();
    assert_eq!(store.end(&tenant(), &thread("u"), Some(&branch("side"))).await.unwrap().untrusted, Some(0));
}

async fn content_begins_at_the_first_untrusted_entry(home: Home) {
    let store = &home.store;
    talk(store, "t", 2).await;
    push(store, "main", 3, [call("1"), result("1"), call("2")]).await;
    assert_eq!(begins(store, "main").await, None, "a trusted result is not untrusted");
    push(store, "main", 6, [untrusted("2")]).await;
    assert_eq!(begins(store, "main").await, Some(5));
    fetch(store, "main", 7).await;
    let end = store.end(&tenant(), &thread("t"), None).await;
    let tail = end.clone().unwrap().tail;
    assert_eq!(
        end,
        Ok(BranchEnd { head: 7, tail, untrusted: Some(5), ..BranchEnd::without_entries(branch("main")) })
    );
}

async fn a_fork_before_the_entry_is_clean_and_one_after_it_is_not(home: Home) {
    let store = &home.store;
    read_a_page(store).await;
    for (place, name, expected) in [
        (ForkAt::Index(-1), "empty", None),
        (ForkAt::Index(1), "before", None),
        (ForkAt::Index(3), "at", Some(3)),
        (ForkAt::Entry(entry_id(4)), "entry", Some(3)),
        (ForkAt::Head, "after", Some(3)),
    ] {
        fork(store, "main", place, name).await;
        assert_eq!(begins(store, name).await, expected, "{name}");
        push_many(store, "t", name, 100, 6).await;
        assert_eq!(begins(store, name).await, expected, "{name} that went on by itself");
    }
    assert_eq!(begins(store, "main").await, Some(3));
    fork(store, "before", ForkAt::Head, "second").await;
    fork(store, "after", ForkAt::Index(6), "third").await;
    fork(store, "after", ForkAt::Index(2), "fourth").await;
    let forks = [begins(store, "second").await, begins(store, "third").await, begins(store, "fourth").await];
    assert_eq!(forks, [None, Some(3), None]);
}

/// main 0 1 [2 3] 4; b from 1: 2 3 [4 5]; c from b's 3: [4 5] 6; d from b's 5: 6 [7 8].
async fn every_lane_has_its_own_beginning_and_the_lowest_counts(home: Home) {
    let store = &home.store;
    read_a_page(store).await;
    fork(store, "main", ForkAt::Index(1), "b").await;
    push_many(store, "t", "b", 10, 2).await;
    fetch(store, "b", 12).await;
    fork(store, "b", ForkAt::Index(3), "c").await;
    assert_eq!(begins(store, "c").await, None);
    fetch(store, "c", 20).await;
    push_many(store, "t", "c", 22, 1).await;
    fork(store, "b", ForkAt::Index(5), "d").await;
    push_many(store, "t", "d", 30, 1).await;
    fetch(store, "d", 31).await;
    let all = [
        begins(store, "main").await,
        begins(store, "b").await,
        begins(store, "c").await,
        begins(store, "d").await,
    ];
    assert_eq!(all, [Some(3), Some(5), Some(5), Some(5)]);
    store.rewind(&tenant(), &thread("t"), Some(&branch("d")), 4).await.unwrap();
    assert_eq!(begins(store, "d").await, None, "back in the lane of b, before its entry");
}

async fn a_rewind_before_the_entry_is_clean_and_stays_so(home: Home) {
    let store = &home.store;
    let to = async |index| store.rewind(&tenant(), &thread("t"), None, index).await.unwrap();
    read_a_page(store).await;
    to(3).await;
    assert_eq!(begins(store, "main").await, Some(3), "it is still there");
    to(1).await;
    assert_eq!(begins(store, "main").await, None);
    push_many(store, "t", "main", 10, 5).await;
    assert_eq!(begins(store, "main").await, None, "beyond where it was");
    fetch(store, "main", 20).await;
    assert_eq!(begins(store, "main").await, Some(8));
    fork(store, "main", ForkAt::Entry(entry_id(5)), "old").await;
    assert_eq!(begins(store, "old").await, Some(3), "what was rewound away can be brought back");
}

async fn what_a_run_brings_in_counts_from_its_commit_on(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 2).await;
    fork(store, "main", ForkAt::Index(0), "b").await;
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    assert_eq!(begins(store, "main").await, None);
    let page = vec![assistant("looking"), call("1"), call("2"), untrusted("2"), untrusted("1")];
    pen.commit(store, pen.next(page, vec![])).await.unwrap();
    assert_eq!(begins(store, "main").await, Some(6), "while the run is active");
    fork(store, "main", ForkAt::Index(5), "before").await;
    pen.commit(store, pen.next(vec![call("3"), untrusted("3")], vec![])).await.unwrap();
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    assert_eq!((begins(store, "main").await, begins(store, "before").await), (Some(6), None));

    let pen = Pen::for_new(store, 2, ("t", "b")).await;
    let first = pen.next(vec![user("go"), call("4"), untrusted("4")], vec![]);
    store.start(&tenant(), pen.new_run(owner.id), first).await.unwrap();
    assert_eq!(begins(store, "b").await, Some(3), "with the write that begins a run, too");
}

async fn a_refused_commit_brings_nothing_in(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    pen.commit(store, pen.next(vec![call("1")], vec![])).await.unwrap();
    let mut late = pen.next(vec![untrusted("1")], vec![]);
    late.epoch += 1;
    let refused = store.commit(&tenant(), &late).await;
    assert_eq!(refused, Err(StoreError::Fenced { run: pen.run, epoch: 1 }));
    assert_eq!(begins(store, "main").await, None);
}

async fn a_pruned_entry_is_forgotten_where_its_lane_grows_again(home: Home) {
    let store = &home.store;
    read_a_page(store).await;
    store.rewind(&tenant(), &thread("t"), None, 1).await.unwrap();
    assert_eq!(prune(store).await, 3);
    push_many(store, "t", "main", 10, 4).await;
    let head = store.thread(&tenant(), &thread("t")).await.unwrap().branches[0].head;
    assert_eq!(head, Place { lane: 0, index: 5 }, "in the same lane, beyond where the entry was");
    assert_eq!(begins(store, "main").await, None);
    fetch(store, "main", 20).await;
    assert_eq!(begins(store, "main").await, Some(7));
}

async fn a_prune_keeps_what_is_still_reached(home: Home) {
    let store = &home.store;
    read_a_page(store).await;
    fetch(store, "main", 10).await;
    store.rewind(&tenant(), &thread("t"), None, 4).await.unwrap();
    let dry = PruneRequest { dry_run: true, ..PruneRequest::default() };
    assert_eq!(store.prune(&tenant(), &thread("t"), &dry).await.unwrap().entries, 2);
    assert_eq!((prune(store).await, begins(store, "main").await), (2, Some(3)));

    fork(store, "main", ForkAt::Index(3), "b").await;
    store.rewind(&tenant(), &thread("t"), None, 0).await.unwrap();
    let dry = store.prune(&tenant(), &thread("t"), &dry).await.unwrap();
    assert_eq!((dry.entries, begins(store, "b").await), (1, Some(3)), "a dry run forgets nothing");
    assert_eq!(prune(store).await, 1);
    assert_eq!((begins(store, "main").await, begins(store, "b").await), (None, Some(3)));
}

async fn a_new_lane_inherits_nothing_from_a_pruned_one_of_its_number(home: Home) {
    let store = &home.store;
    talk(store, "t", 1).await;
    fork(store, "main", ForkAt::Head, "b").await;
    fetch(store, "b", 10).await;
    store.delete_branch(&tenant(), &thread("t"), &branch("b")).await.unwrap();
    assert_eq!(prune(store).await, 2);
    fork(store, "main", ForkAt::Head, "c").await;
    push_many(store, "t", "c", 20, 3).await;
    let branches = store.thread(&tenant(), &thread("t")).await.unwrap().branches;
    assert_eq!(branches[0].head, Place { lane: 1, index: 3 }, "the number is used again");
    assert_eq!(begins(store, "c").await, None);
}

async fn a_renamed_thread_keeps_it_and_a_deleted_one_does_not(home: Home) {
    let store = &home.store;
    read_a_page(store).await;
    store.rename_thread(&tenant(), &thread("t"), &thread("u")).await.unwrap();
    assert_eq!(store.end(&tenant(), &thread("u"), None).await.unwrap().untrusted, Some(3));
    talk(store, "t", 6).await;
    assert_eq!(begins(store, "main").await, None, "nothing stays under the old name");
    store.delete_thread(&tenant(), &thread("u"), None).await.unwrap();
    talk(store, "u", 6).await;
    assert_eq!(store.end(&tenant(), &thread("u"), None).await.unwrap().untrusted, None);
}

async fn another_tenants_thread_of_the_same_name_is_clean(home: Home) {
    let store = &home.store;
    let other = "other".parse().unwrap();
    store.create_thread(&other, new_thread("t", 0)).await.unwrap();
    for n in 1..=5 {
        store.push(&other, &thread("t"), None, numbered(n, user("hello"))).await.unwrap();
    }
    read_a_page(store).await;
    assert_eq!(store.end(&other, &thread("t"), None).await.unwrap().untrusted, None);
    let before = dump(store).await;
    store.delete_thread(&other, &thread("t"), None).await.unwrap();
    assert_eq!(dump(store).await, before);
}

/// A row for each lane that has such an entry, and none that outlives the entry.
#[tokio::test]
async fn a_file_holds_one_row_for_each_lane_with_untrusted_content() {
    let home = Home::sqlite();
    let store = &home.store;
    let rows = || -> Vec<(u32, i64)> {
        let db = Connection::open(home.folder().join("baton.db")).unwrap();
        let mut statement = db.prepare("SELECT lane, idx FROM untrusted ORDER BY lane").unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    };
    talk(store, "t", 9).await;
    fork(store, "main", ForkAt::Index(0), "clean").await;
    push_many(store, "t", "clean", 20, 1).await;
    assert_eq!(rows(), []);
    fetch(store, "main", 30).await;
    fetch(store, "main", 40).await;
    fork(store, "main", ForkAt::Index(2), "b").await;
    fetch(store, "b", 50).await;
    assert_eq!(rows(), [(0, 10), (2, 4)]);
    store.rewind(&tenant(), &thread("t"), None, 2).await.unwrap();
    prune(store).await;
    assert_eq!(rows(), [(2, 4)]);
    store.delete_thread(&tenant(), &thread("t"), None).await.unwrap();
    assert_eq!(rows(), []);
}
