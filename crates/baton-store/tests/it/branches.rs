//! Fork, checkout, rewind and the deletion of branches.

use baton_core::id::EntryId;
use baton_core::run::RunStatus;
use baton_core::thread::Place;
use baton_store::{ForkAt, Rewound, Slice, Store, StoreError};

use crate::home::{Home, dump};
use crate::pen::Pen;
use crate::values::{at, branch, entry_id, numbered, push_many, talk, tenant, thread, user};

on_every_store!(
    a_fork_begins_at_the_head_at_an_index_or_at_an_entry,
    an_entry_is_found_by_its_id_on_every_lane_and_out_of_order,
    a_fork_of_a_branch_in_use_holds_what_its_run_has_committed,
    an_impossible_fork_says_why_and_changes_nothing,
    a_checkout_says_which_branch_is_meant,
    a_rewind_moves_the_end_and_loses_nothing,
    a_rewind_to_before_the_first_entry_leaves_an_empty_branch,
    an_impossible_rewind_says_why_and_changes_nothing,
    a_deleted_branch_is_gone_and_its_entries_are_not,
    a_branch_that_must_stay_is_not_deleted,
    a_name_can_be_used_again,
);

async fn ids(store: &Store, on: &str) -> Vec<u128> {
    let read = store.entries(&tenant(), &thread("t"), Some(&branch(on)), Slice::default()).await.unwrap();
    assert!(read.iter().map(|placed| placed.index).eq(0..read.len() as i64), "gapless");
    read.into_iter().map(|placed| placed.id.0.as_u128()).collect()
}

async fn fork(store: &Store, from: Option<&str>, place: ForkAt, name: &str) -> Result<Place, StoreError> {
    let from = from.map(branch);
    store.fork(&tenant(), &thread("t"), from.as_ref(), &place, branch(name), at(50)).await
}

async fn a_fork_begins_at_the_head_at_an_index_or_at_an_entry(home: Home) {
    let store = &home.store;
    talk(store, "t", 4).await;
    let place = |lane, index| Ok(Place { lane, index });
    assert_eq!(fork(store, None, ForkAt::Head, "head").await, place(0, 3));
    assert_eq!(fork(store, None, ForkAt::Index(1), "index").await, place(0, 1));
    assert_eq!(fork(store, None, ForkAt::Index(-1), "empty").await, place(0, -1));
    assert_eq!(fork(store, None, ForkAt::Entry(entry_id(3)), "entry").await, place(0, 2));
    push_many(store, "t", "index", 10, 2).await;
    assert_eq!(fork(store, Some("index"), ForkAt::Index(2), "second").await, place(1, 2));
    assert_eq!(fork(store, Some("index"), ForkAt::Index(1), "shared").await, place(0, 1));
    let elsewhere = fork(store, Some("empty"), ForkAt::Entry(entry_id(11)), "across").await;
    assert_eq!(elsewhere, place(1, 3), "an entry is found wherever in the thread it lies");

    for (name, expected) in [
        ("main", vec![1, 2, 3, 4]),
        ("head", vec![1, 2, 3, 4]),
        ("index", vec![1, 2, 10, 11]),
        ("empty", vec![]),
        ("entry", vec![1, 2, 3]),
        ("second", vec![1, 2, 10]),
        ("shared", vec![1, 2]),
        ("across", vec![1, 2, 10, 11]),
    ] {
        assert_eq!(ids(store, name).await, expected, "{name}");
    }
    let view = store.thread(&tenant(), &thread("t")).await.unwrap();
    let origins: Vec<_> = view.branches.iter().map(|b| (b.name.as_str(), b.forked_from.clone())).collect();
    assert_eq!(
        origins,
        [
            ("across", Some((branch("empty"), 3))),
            ("empty", Some((branch("main"), -1))),
            ("entry", Some((branch("main"), 2))),
            ("head", Some((branch("main"), 3))),
            ("index", Some((branch("main"), 1))),
            ("main", None),
            ("second", Some((branch("index"), 2))),
            ("shared", Some((branch("index"), 1))),
        ]
    );
    push_many(store, "t", "head", 20, 1).await;
    push_many(store, "t", "main", 30, 1).await;
    assert_eq!(ids(store, "head").await, [1, 2, 3, 4, 20]);
    assert_eq!(ids(store, "main").await, [1, 2, 3, 4, 30], "siblings do not see each other");
}

/// Ids that grow are found by halving; imported ones may lie in any order.
async fn an_entry_is_found_by_its_id_on_every_lane_and_out_of_order(home: Home) {
    let store = &home.store;
    talk(store, "t", 0).await;
    for (first, count) in [(100, 17), (60, 1), (200, 16), (1, 1)] {
        push_many(store, "t", "main", first, count).await;
    }
    fork(store, None, ForkAt::Index(9), "other").await.unwrap();
    push_many(store, "t", "other", 300, 30).await;
    let mut n = 0;
    for (on, lane) in [("main", 0), ("other", 1)] {
        for (index, id) in (0..).zip(ids(store, on).await) {
            let lane = if index <= 9 { 0 } else { lane };
            n += 1;
            let found = fork(store, None, ForkAt::Entry(entry_id(id)), &format!("b{n}")).await;
            assert_eq!(found, Ok(Place { lane, index }), "entry {id} of {on}");
        }
    }
    assert_eq!(n, 35 + 40);
    for missing in [0, 99, 117, 250, 330, u128::MAX] {
        let refused = fork(store, None, ForkAt::Entry(entry_id(missing)), "none").await;
        let id = entry_id(missing);
        assert_eq!(refused, Err(StoreError::NotFound { what: "entry", id: id.to_string() }), "{missing}");
    }
}

async fn a_fork_of_a_branch_in_use_holds_what_its_run_has_committed(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 2).await;
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    pen.commit(store, pen.says("one")).await.unwrap();
    assert_eq!(fork(store, None, ForkAt::Head, "b").await, Ok(Place { lane: 0, index: 3 }));
    pen.commit(store, pen.says("two")).await.unwrap();
    push_many(store, "t", "b", 10, 1).await;
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    let (main, b) = (ids(store, "main").await, ids(store, "b").await);
    assert_eq!((main.len(), b.len()), (6, 5));
    assert_eq!((&main[..4], b[4]), (&b[..4], 10));
}

async fn an_impossible_fork_says_why_and_changes_nothing(home: Home) {
    let store = &home.store;
    talk(store, "t", 2).await;
    let before = dump(store).await;
    for (from, place, name, why) in [
        (Some("x"), ForkAt::Head, "b", "there is no branch \"x\"".to_owned()),
        (None, ForkAt::Index(2), "b", "index 2 is not on branch \"main\": it has indices up to 1".to_owned()),
        (
            None,
            ForkAt::Index(-2),
            "b",
            "index -2 is not on branch \"main\": it has indices up to 1".to_owned(),
        ),
        (None, ForkAt::Entry(entry_id(9)), "b", format!("there is no entry \"{}\"", entry_id(9))),
        (None, ForkAt::Head, "main", "there already is a branch \"main\": choose another name".to_owned()),
    ] {
        assert_eq!(fork(store, from, place, name).await.unwrap_err().to_string(), why);
    }
    assert_eq!(dump(store).await, before);
}

async fn a_checkout_says_which_branch_is_meant(home: Home) {
    let store = &home.store;
    let t = thread("t");
    talk(store, "t", 2).await;
    fork(store, None, ForkAt::Index(0), "b").await.unwrap();
    store.checkout(&tenant(), &t, &branch("b")).await.unwrap();
    assert_eq!(store.thread(&tenant(), &t).await.unwrap().current, branch("b"));
    assert_eq!(store.push(&tenant(), &t, None, numbered(10, user("on b"))).await, Ok(1));
    assert_eq!(store.end(&tenant(), &t, None).await.unwrap().branch, branch("b"));
    assert_eq!(store.entries(&tenant(), &t, None, Slice::default()).await.unwrap().len(), 2);
    assert_eq!((ids(store, "b").await, ids(store, "main").await), (vec![1, 10], vec![1, 2]));
    fork(store, None, ForkAt::Head, "c").await.unwrap();
    assert_eq!(ids(store, "c").await, [1, 10], "a fork without an origin is of the current branch");
    let before = dump(store).await;
    let error = store.checkout(&tenant(), &t, &branch("x")).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no branch \"x\"");
    assert_eq!(dump(store).await, before);
}

fn rewound(on: &str, previous_head: i64, previous_entry: Option<EntryId>) -> Result<Rewound, StoreError> {
    Ok(Rewound { branch: branch(on), previous_head, previous_entry })
}

async fn a_rewind_moves_the_end_and_loses_nothing(home: Home) {
    let store = &home.store;
    let t = thread("t");
    talk(store, "t", 4).await;
    let to =
        async |on: Option<&str>, index| store.rewind(&tenant(), &t, on.map(branch).as_ref(), index).await;
    assert_eq!(to(None, 1).await, rewound("main", 3, Some(entry_id(4))));
    assert_eq!(ids(store, "main").await, [1, 2]);
    push_many(store, "t", "main", 10, 1).await;
    assert_eq!(ids(store, "main").await, [1, 2, 10]);

    fork(store, None, ForkAt::Entry(entry_id(4)), "old").await.unwrap();
    assert_eq!(ids(store, "old").await, [1, 2, 3, 4], "what was rewound away can be brought back");
    assert_eq!(to(None, 2).await, rewound("main", 2, Some(entry_id(10))), "to where it already is");
    assert_eq!(to(Some("main"), 0).await, rewound("main", 2, Some(entry_id(10))), "across lanes");
    push_many(store, "t", "main", 20, 2).await;
    assert_eq!(ids(store, "main").await, [1, 20, 21]);
    assert_eq!(ids(store, "old").await, [1, 2, 3, 4]);
}

async fn a_rewind_to_before_the_first_entry_leaves_an_empty_branch(home: Home) {
    let store = &home.store;
    let t = thread("t");
    talk(store, "t", 2).await;
    assert_eq!(store.rewind(&tenant(), &t, None, -1).await, rewound("main", 1, Some(entry_id(2))));
    assert_eq!(ids(store, "main").await, [0; 0]);
    assert_eq!(store.rewind(&tenant(), &t, None, -1).await, rewound("main", -1, None));
    push_many(store, "t", "main", 10, 2).await;
    assert_eq!(ids(store, "main").await, [10, 11]);
}

async fn an_impossible_rewind_says_why_and_changes_nothing(home: Home) {
    let store = &home.store;
    let t = thread("t");
    let owner = store.enlist().unwrap();
    talk(store, "t", 2).await;
    fork(store, None, ForkAt::Head, "used").await.unwrap();
    let pen = Pen::start(store, owner.id, 1, ("t", "used")).await;
    let before = dump(store).await;
    for (on, index, why) in [
        ("main", 2, "index 2 is not on branch \"main\": it has indices up to 1".to_owned()),
        ("main", -2, "index -2 is not on branch \"main\": it has indices up to 1".to_owned()),
        ("x", 0, "there is no branch \"x\"".to_owned()),
        ("used", 0, format!("branch \"used\" is busy with run {}", pen.run)),
    ] {
        let error = store.rewind(&tenant(), &t, Some(&branch(on)), index).await.unwrap_err();
        assert_eq!(error.to_string(), why);
    }
    assert_eq!(dump(store).await, before);
}

async fn a_deleted_branch_is_gone_and_its_entries_are_not(home: Home) {
    let store = &home.store;
    let t = thread("t");
    talk(store, "t", 2).await;
    fork(store, None, ForkAt::Index(0), "b").await.unwrap();
    push_many(store, "t", "b", 10, 2).await;
    store.delete_branch(&tenant(), &t, &branch("b")).await.unwrap();
    let error = store.end(&tenant(), &t, Some(&branch("b"))).await.unwrap_err();
    assert_eq!(error.to_string(), "there is no branch \"b\"");
    fork(store, None, ForkAt::Entry(entry_id(11)), "again").await.unwrap();
    assert_eq!(ids(store, "again").await, [1, 10, 11]);
}

async fn a_branch_that_must_stay_is_not_deleted(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 2).await;
    fork(store, None, ForkAt::Head, "current").await.unwrap();
    fork(store, None, ForkAt::Head, "used").await.unwrap();
    let pen = Pen::start(store, owner.id, 1, ("t", "used")).await;
    store.checkout(&tenant(), &thread("t"), &branch("current")).await.unwrap();
    let before = dump(store).await;
    for (name, why) in [
        ("main", "branch \"main\" cannot be deleted: it is the thread's first branch".to_owned()),
        (
            "current",
            "branch \"current\" cannot be deleted: it is the current branch; check out another one first"
                .to_owned(),
        ),
        ("used", format!("branch \"used\" is busy with run {}", pen.run)),
        ("x", "there is no branch \"x\"".to_owned()),
    ] {
        let error = store.delete_branch(&tenant(), &thread("t"), &branch(name)).await.unwrap_err();
        assert_eq!(error.to_string(), why);
    }
    assert_eq!(dump(store).await, before);
}

/// A lane belongs to the name that opened it. A new branch of that name must not write into the middle.
async fn a_name_can_be_used_again(home: Home) {
    let store = &home.store;
    talk(store, "t", 1).await;
    fork(store, None, ForkAt::Head, "b").await.unwrap();
    push_many(store, "t", "b", 10, 3).await;
    fork(store, Some("b"), ForkAt::Head, "witness").await.unwrap();
    for (place, mark) in [(ForkAt::Entry(entry_id(11)), 20), (ForkAt::Entry(entry_id(12)), 30)] {
        store.delete_branch(&tenant(), &thread("t"), &branch("b")).await.unwrap();
        fork(store, None, place, "b").await.unwrap();
        push_many(store, "t", "b", mark, 2).await;
    }
    assert_eq!(ids(store, "b").await, [1, 10, 11, 12, 30, 31]);
    assert_eq!(ids(store, "witness").await, [1, 10, 11, 12]);
    fork(store, None, ForkAt::Entry(entry_id(21)), "middle").await.unwrap();
    assert_eq!(ids(store, "middle").await, [1, 10, 11, 20, 21]);
}
