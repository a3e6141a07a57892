//! The ways in which a run begins: with its thread, on the lane that its branch had, or in a transaction. A store may
//! have a short way for some of them; the result is the same.

use baton_core::id::OwnerId;
use baton_core::run::RunStatus;
use baton_store::{BranchEnd, KeyRow, NewKey, NewRun, RunFilter, Store, StoreError, Transition};
use serde_json::json;

use crate::home::{Home, dump, lines};
use crate::pen::Pen;
use crate::values::{
    at, branch, definition, new_thread, push_many, run, talk, tenant, thread, user, warning,
};

on_every_store!(
    a_run_can_begin_with_its_thread,
    a_run_that_knows_its_lane_begins_like_any_other,
    a_lane_that_is_no_longer_at_its_tip_is_not_extended,
    a_run_that_follows_another_begins_only_where_that_one_ended,
    a_start_that_knows_its_lane_is_refused_like_any_other,
    a_thread_that_is_there_is_not_made_again,
    a_key_is_used_once_whichever_way_a_run_begins,
    of_many_that_begin_with_one_thread_one_wins,
);

/// The pen of a run that begins with its thread.
fn fresh(n: u128, id: &str) -> Pen {
    Pen {
        run: run(n),
        thread: thread(id),
        branch: branch("main"),
        lane: 0,
        epoch: 1,
        step: 0,
        head: -1,
        seq: 0,
    }
}

fn first(pen: &Pen) -> Transition {
    Transition { inbox: Some(0), ..pen.next(vec![user("go")], vec![warning("begun")]) }
}

fn with_thread(pen: &Pen, owner: OwnerId) -> NewRun {
    NewRun { new_thread: Some(new_thread(pen.thread.as_str(), 3)), ..pen.new_run(owner) }
}

/// A run that knows the lane, as the end of its branch had it.
async fn with_lane(store: &Store, pen: &Pen, owner: OwnerId) -> NewRun {
    let end = store.end(&tenant(), &pen.thread, Some(&pen.branch)).await.unwrap();
    NewRun { lane: end.lane, ..pen.new_run(owner) }
}

async fn a_run_can_begin_with_its_thread(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    let mut pen = fresh(1, "t");
    assert_eq!(store.start(&tenant(), with_thread(&pen, owner.id), first(&pen)).await, Ok(0));
    pen.written(&first(&pen));
    pen.commit(store, pen.says("on")).await.unwrap();
    let now = dump(store).await;

    // The same in two steps.
    let other = Home::memory();
    let twin = other.store.enlist().unwrap();
    other.store.create_thread(&tenant(), new_thread("t", 3)).await.unwrap();
    let mut pen = fresh(1, "t");
    other.store.start(&tenant(), pen.new_run(twin.id), first(&pen)).await.unwrap();
    pen.written(&first(&pen));
    pen.commit(&other.store, pen.says("on")).await.unwrap();
    let mut expected = dump(&other.store).await;
    expected.runs[0].row.owner = Some(owner.id);
    assert_eq!(now, expected);
    let hash = baton_store::PinnedDefinition::new(definition()).hash.clone();
    assert_eq!(store.definition(&tenant(), &hash).await, Ok(definition()));
}

async fn a_run_that_knows_its_lane_begins_like_any_other(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    for id in ["t1", "t2"] {
        talk(store, id, 2).await;
    }
    let (knowing, plain) =
        (Pen::for_new(store, 1, ("t1", "main")).await, Pen::for_new(store, 2, ("t2", "main")).await);
    let new = with_lane(store, &knowing, owner.id).await;
    assert_eq!(new.lane, Some(0));
    assert_eq!(store.start(&tenant(), new, first(&knowing)).await, Ok(0));
    assert_eq!(store.start(&tenant(), plain.new_run(owner.id), first(&plain)).await, Ok(0));
    let rows = store.runs(&tenant(), &RunFilter { limit: 9, ..RunFilter::default() }).await.unwrap();
    let same = baton_store::RunRow { id: run(1), thread: thread("t1"), ..rows[0].clone() };
    assert_eq!(rows[1], same);
    let line = async |id: &str| {
        let view = store.thread(&tenant(), &thread(id)).await.unwrap();
        let (view, lines) = lines(store, &tenant(), view).await;
        let texts: Vec<_> = lines[0].2.iter().map(|placed| (placed.index, placed.entry.clone())).collect();
        let (written_by, end) = (lines[0].1.written_by, BranchEnd { written_by: None, ..lines[0].1.clone() });
        (written_by, (view.branches[0].head, end, texts))
    };
    let (one, two) = (line("t1").await, line("t2").await);
    assert_eq!((one.0, two.0), (Some(run(1)), Some(run(2))));
    assert_eq!(one.1, two.1);
}

/// Between the read of a branch and the start, another process may have rewound as much as it wrote.
async fn a_run_that_follows_another_begins_only_where_that_one_ended(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 2).await;
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    let next = Pen::for_new(store, 2, ("t", "main")).await;
    let end = store.end(&tenant(), &thread("t"), None).await.unwrap();
    assert_eq!(end.written_by, Some(run(1)));
    for lane in [end.lane, None] {
        let new = NewRun { after: Some(run(9)), lane, ..next.new_run(owner.id) };
        let moved = StoreError::Moved { branch: "main".to_owned() };
        assert_eq!(store.start(&tenant(), new, first(&next)).await, Err(moved));
    }
    let new = NewRun { after: end.written_by, lane: end.lane, ..next.new_run(owner.id) };
    assert_eq!(store.start(&tenant(), new, first(&next)).await, Ok(0));
}

/// The branch went on and was rewound: the entries that were appended meanwhile are still there, so the run opens a
/// lane.
async fn a_lane_that_is_no_longer_at_its_tip_is_not_extended(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 2).await;
    let mut pen = Pen::for_new(store, 1, ("t", "main")).await;
    let new = with_lane(store, &pen, owner.id).await;
    push_many(store, "t", "main", 10, 2).await;
    store.rewind(&tenant(), &thread("t"), None, 1).await.unwrap();
    pen.lane = store.start(&tenant(), new, first(&pen)).await.unwrap();
    assert_eq!(pen.lane, 1);
    pen.written(&first(&pen));
    pen.commit(store, pen.says("on")).await.unwrap();
    let entries = store.entries(&tenant(), &thread("t"), None, Default::default()).await.unwrap();
    assert!(entries.iter().map(|placed| placed.index).eq(0..4));
}

async fn a_start_that_knows_its_lane_is_refused_like_any_other(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 2).await;
    let early = Pen::for_new(store, 1, ("t", "main")).await;
    let late = with_lane(store, &early, owner.id).await;
    push_many(store, "t", "main", 10, 1).await;
    let holder = Pen::for_new(store, 2, ("t", "main")).await;
    let new = with_lane(store, &holder, owner.id).await;
    let before = dump(store).await;
    let moved = store.start(&tenant(), late, first(&early)).await;
    assert_eq!(moved, Err(StoreError::Moved { branch: "main".to_owned() }));
    let stale = Transition { step: 2, ..first(&holder) };
    let fenced = store.start(&tenant(), new.clone(), stale).await;
    assert_eq!(fenced, Err(StoreError::Fenced { run: run(2), epoch: 1 }));
    let unread = Transition { inbox: Some(1), ..first(&holder) };
    assert_eq!(store.start(&tenant(), new.clone(), unread).await, Err(StoreError::Unread { inbox: 0 }));
    assert_eq!(dump(store).await, before);
    store.start(&tenant(), new.clone(), first(&holder)).await.unwrap();
    let held = dump(store).await;
    let again = store.start(&tenant(), new.clone(), first(&holder)).await;
    assert_eq!(again, Err(StoreError::Exists { what: "run", id: run(2).to_string() }));
    let third = Pen { run: run(3), ..holder };
    let busy = store.start(&tenant(), new, first(&third)).await;
    assert_eq!(busy, Err(StoreError::Busy { branch: "main".to_owned(), run: run(2) }));
    assert_eq!(dump(store).await, held);
}

async fn a_thread_that_is_there_is_not_made_again(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    let pen = fresh(1, "t");
    store
        .create_thread(&tenant(), baton_store::NewThread { meta: json!({"mine": 1}), ..new_thread("t", 1) })
        .await
        .unwrap();
    let before = dump(store).await;
    let made = store.start(&tenant(), with_thread(&pen, owner.id), first(&pen)).await;
    assert_eq!(made, Err(StoreError::Moved { branch: "main".to_owned() }), "it may be anywhere by now");
    assert_eq!(dump(store).await, before);
    let found = NewRun { new_thread: None, lane: Some(0), ..with_thread(&pen, owner.id) };
    assert_eq!(store.start(&tenant(), found, first(&pen)).await, Ok(0));
    let again = store.start(&tenant(), with_thread(&fresh(1, "u"), owner.id), first(&fresh(1, "u"))).await;
    assert_eq!(again, Err(StoreError::Exists { what: "run", id: run(1).to_string() }));
    assert_eq!(store.threads(&tenant(), 9, None).await.unwrap().len(), 1, "no thread without its run");
}

fn key(expires: u64) -> NewKey {
    NewKey {
        route: "/v1/runs".to_owned(),
        key: "k".to_owned(),
        body_hash: "h".to_owned(),
        expires_at: at(expires),
    }
}

async fn a_key_is_used_once_whichever_way_a_run_begins(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 2).await;
    let pen = fresh(1, "new");
    let begun = NewRun { key: Some(key(50)), ..with_thread(&pen, owner.id) };
    store.start(&tenant(), begun, first(&pen)).await.unwrap();
    let before = dump(store).await;
    let used = KeyRow { body_hash: "h".to_owned(), run: Some(run(1)), owner: None, answer: None };
    let on_branch = Pen::for_new(store, 2, ("t", "main")).await;
    for (new, first) in [
        (with_lane(store, &on_branch, owner.id).await, first(&on_branch)),
        (on_branch.new_run(owner.id), first(&on_branch)),
        (with_thread(&fresh(3, "newer"), owner.id), first(&fresh(3, "newer"))),
    ] {
        let refused = store.start(&tenant(), NewRun { key: Some(key(90)), ..new }, first).await;
        assert_eq!(refused, Err(StoreError::KeyUsed(Box::new(used.clone()))));
        assert_eq!(dump(store).await, before);
    }
    // An expired key is free again.
    let new = NewRun { key: Some(key(90)), at: at(50), ..with_lane(store, &on_branch, owner.id).await };
    store.start(&tenant(), new, first(&on_branch)).await.unwrap();
    let now = KeyRow { run: Some(run(2)), ..used };
    assert_eq!(store.key(&tenant(), "/v1/runs", "k", at(60)).await, Ok(Some(now)));
}

async fn of_many_that_begin_with_one_thread_one_wins(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    let mut starting = tokio::task::JoinSet::new();
    for n in 1..=16 {
        let (store, pen) = (store.clone(), fresh(n, "t"));
        let new = with_thread(&pen, owner.id);
        starting.spawn(async move { store.start(&tenant(), new, first(&pen)).await });
    }
    let won = starting.join_all().await;
    let rows = store.runs(&tenant(), &RunFilter { limit: 99, ..RunFilter::default() }).await.unwrap();
    let [row] = &rows[..] else { panic!("one run, and not {}", rows.len()) };
    let busy = StoreError::Busy { branch: "main".to_owned(), run: row.id };
    let moved = StoreError::Moved { branch: "main".to_owned() };
    assert_eq!(won.iter().filter(|won| **won == Ok(0)).count(), 1);
    let lost = |lost: &&Result<u32, StoreError>| **lost == Err(busy.clone()) || **lost == Err(moved.clone());
    assert_eq!(won.iter().filter(lost).count(), 15, "{won:?}");
}
