//! The start of a queued run, or its end without having begun.

use baton_core::budget::Budget;
use baton_core::id::OwnerId;
use baton_core::run::{Message, RunStatus};
use baton_store::{ClaimRow, NewRun, NewThread, RunHalt, RunRow, Slice, Store, StoreError, Transition};

use super::{led_to, new_key, new_queued};
use crate::home::{Home, dump};
use crate::pen::Pen;
use crate::values::{at, new_thread, numbered, run, talk, tenant, thread, user, warning};

on_every_store!(
    a_run_begins_with_its_turn,
    a_run_is_begun_once,
    of_many_who_begin_a_run_one_does,
    a_turn_is_not_taken_from_others,
    a_newcomer_does_not_overtake_the_line,
    the_line_of_another_branch_is_no_hindrance,
    a_run_that_waited_may_begin_under_its_own_key,
    nothing_begins_after_a_message_that_was_not_read,
    a_run_that_is_cancelled_while_it_waits_touches_no_branch,
    a_run_begins_on_a_thread_that_it_was_made_with,
);

const MAIN: (&str, &str) = ("t", "main");

/// The first transition of a queued run, and the values of its start.
async fn turn(store: &Store, owner: OwnerId, n: u128, on: (&str, &str)) -> (Pen, NewRun, Transition) {
    let pen = Pen::for_new(store, n, on).await;
    let first = pen.next(vec![user("go")], vec![warning("begun")]);
    let new = NewRun { queued: true, at: at(70), ..pen.new_run(owner) };
    (pen, new, first)
}

/// Begins a queued run.
pub(crate) async fn take_turn(
    store: &Store,
    owner: OwnerId,
    n: u128,
    on: (&str, &str),
) -> Result<Pen, StoreError> {
    let (mut pen, new, first) = turn(store, owner, n, on).await;
    pen.lane = store.start(&tenant(), new, first.clone()).await?;
    pen.written(&first);
    Ok(pen)
}

/// Ends a queued run.
pub(crate) async fn cancel(store: &Store, n: u128, on: (&str, &str)) -> Result<(), StoreError> {
    let row = store.run(&tenant(), run(n)).await?;
    let owner = OwnerId(uuid::Uuid::from_u128(99));
    let pen = Pen {
        run: run(n),
        thread: thread(on.0),
        branch: on.1.parse().unwrap(),
        lane: 0,
        epoch: 1,
        step: 0,
        head: row.head,
        seq: 0,
    };
    let rest = RunHalt::Ended(RunStatus::Cancelled);
    let last = Transition { rest, ..pen.next(vec![], vec![warning("cancelled")]) };
    let new = NewRun { queued: true, at: at(70), ..pen.new_run(owner) };
    store.start(&tenant(), new, last).await.map(|_| ())
}

async fn a_run_begins_with_its_turn(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    store.enqueue(&tenant(), new_queued(1, MAIN)).await.unwrap();
    let waiting = store.run(&tenant(), run(1)).await.unwrap();
    // Entries that were pushed meanwhile come first.
    store.push(&tenant(), &thread("t"), None, numbered(9, user("meanwhile"))).await.unwrap();
    let mut pen = take_turn(&elsewhere, owner.id, 1, MAIN).await.unwrap();
    let expected = RunRow {
        status: RunStatus::Running,
        owner: Some(owner.id),
        step: 1,
        seq: 1,
        head: 2,
        budget: Budget { model_calls: 1, ..Budget::default() },
        ..waiting
    };
    assert_eq!(store.run(&tenant(), run(1)).await, Ok(expected), "made when it was asked for");
    assert_eq!(store.claims(&tenant(), run(1)).await, Ok(vec![ClaimRow { epoch: 1, base_seq: 0 }]));
    assert_eq!(store.events(&tenant(), run(1), 1, 9).await.unwrap().len(), 1);
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    let entries = store.entries(&tenant(), &thread("t"), None, Slice::default()).await.unwrap();
    assert_eq!(
        entries.iter().map(|placed| placed.run).collect::<Vec<_>>(),
        [None, None, Some(run(1)), Some(run(1))]
    );
}

async fn a_run_is_begun_once(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    let (owner, other) = (store.enlist().unwrap(), elsewhere.enlist().unwrap());
    talk(store, "t", 1).await;
    store.enqueue(&tenant(), new_queued(1, MAIN)).await.unwrap();
    let (_, new, first) = turn(&elsewhere, other.id, 1, MAIN).await;
    let mut pen = take_turn(store, owner.id, 1, MAIN).await.unwrap();
    let before = dump(store).await;
    let begun = StoreError::Fenced { run: run(1), epoch: 1 };
    assert_eq!(elsewhere.start(&tenant(), new.clone(), first.clone()).await, Err(begun.clone()));
    assert_eq!(cancel(&elsewhere, 1, MAIN).await, Err(begun.clone()));
    assert_eq!(elsewhere.queued(&tenant(), run(1)).await, Err(begun));
    assert_eq!(dump(store).await, before);
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    let ended = StoreError::Ended { run: run(1), status: RunStatus::Ok };
    assert_eq!(elsewhere.start(&tenant(), new.clone(), first.clone()).await, Err(ended.clone()));
    assert_eq!(elsewhere.queued(&tenant(), run(1)).await, Err(ended));
    let unknown = Transition { run: run(8), ..first };
    let not_found = StoreError::NotFound { what: "run", id: run(8).to_string() };
    assert_eq!(elsewhere.start(&tenant(), new, unknown).await, Err(not_found));
}

async fn of_many_who_begin_a_run_one_does(home: Home) {
    let stores = [home.store.clone(), home.elsewhere()];
    let owner = home.store.enlist().unwrap();
    talk(&home.store, "t", 1).await;
    home.store.enqueue(&tenant(), new_queued(1, MAIN)).await.unwrap();
    let mut begins = Vec::new();
    for n in 0..8 {
        let (store, owner) = (stores[n % 2].clone(), owner.id);
        let (_, new, first) = turn(&store, owner, 1, MAIN).await;
        begins.push(tokio::spawn(async move { store.start(&tenant(), new, first).await }));
    }
    let mut done = Vec::new();
    for begin in begins {
        done.push(begin.await.unwrap());
    }
    done.sort_by_key(Result::is_err);
    assert_eq!(done[0], Ok(0));
    let begun = Err(StoreError::Fenced { run: run(1), epoch: 1 });
    assert!(done[1..].iter().all(|result| *result == begun), "{done:?}");
    assert_eq!(dump(&home.store).await.runs[0].steps.len(), 1);
}

async fn a_turn_is_not_taken_from_others(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    let mut pen = Pen::start(store, owner.id, 1, MAIN).await;
    store.enqueue(&tenant(), new_queued(2, MAIN)).await.unwrap();
    let (_, new, first) = turn(store, owner.id, 2, MAIN).await;
    let before = dump(store).await;
    let busy = StoreError::Busy { branch: "main".to_owned(), run: run(1) };
    assert_eq!(store.start(&tenant(), new.clone(), first.clone()).await, Err(busy));
    assert_eq!(dump(store).await, before);
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    let before = dump(store).await;
    let moved = StoreError::Moved { branch: "main".to_owned() };
    assert_eq!(store.start(&tenant(), new, first).await, Err(moved));
    assert_eq!(dump(store).await, before);
    assert_eq!(store.due(at(0)).await, Ok(vec![(tenant(), run(2))]), "it still waits");
    take_turn(store, owner.id, 2, MAIN).await.unwrap();
}

async fn a_newcomer_does_not_overtake_the_line(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    let mut pen = Pen::start(store, owner.id, 1, MAIN).await;
    for n in [3, 2] {
        store.enqueue(&tenant(), new_queued(n, MAIN)).await.unwrap();
    }
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    let before = dump(store).await;
    let next = StoreError::Busy { branch: "main".to_owned(), run: run(3) };
    let newcomer = Pen::for_new(&elsewhere, 4, MAIN).await;
    let first = newcomer.next(vec![user("go")], vec![warning("begun")]);
    for lane in [None, Some(0)] {
        let new = NewRun { lane, ..newcomer.new_run(owner.id) };
        assert_eq!(elsewhere.start(&tenant(), new, first.clone()).await, Err(next.clone()), "{lane:?}");
        let made = NewRun { lane, new_thread: Some(new_thread("t", 9)), ..newcomer.new_run(owner.id) };
        let moved = StoreError::Moved { branch: "main".to_owned() };
        assert_eq!(elsewhere.start(&tenant(), made, first.clone()).await, Err(moved), "{lane:?}");
    }
    let pushy = take_turn(store, owner.id, 2, MAIN).await.map(drop);
    assert_eq!(pushy, Err(next), "nor does one that came later");
    assert_eq!(dump(store).await, before);
    for n in [3, 2] {
        let mut pen = take_turn(store, owner.id, n, MAIN).await.unwrap();
        pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    }
    let newcomer = Pen::for_new(&elsewhere, 4, MAIN).await;
    let first = newcomer.next(vec![user("go")], vec![warning("begun")]);
    let new = NewRun { lane: Some(0), ..newcomer.new_run(owner.id) };
    assert_eq!(elsewhere.start(&tenant(), new, first).await, Ok(0), "nobody waits any more");
}

async fn the_line_of_another_branch_is_no_hindrance(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    for on in ["t", "u"] {
        talk(store, on, 1).await;
    }
    store.enqueue(&tenant(), new_queued(1, ("u", "main"))).await.unwrap();
    let pen = Pen::for_new(store, 2, MAIN).await;
    let first = pen.next(vec![user("go")], vec![warning("begun")]);
    let new = NewRun { lane: Some(0), ..pen.new_run(owner.id) };
    assert_eq!(store.start(&tenant(), new, first).await, Ok(0));
}

async fn a_run_that_waited_may_begin_under_its_own_key(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    let key = Some(new_key("k", 900));
    let waits = baton_store::NewQueued { key: key.clone(), ..new_queued(1, MAIN) };
    store.enqueue(&tenant(), waits).await.unwrap();
    let (_, new, first) = turn(store, owner.id, 1, MAIN).await;
    assert_eq!(store.start(&tenant(), NewRun { key, ..new }, first).await, Ok(0));
    let known = store.key(&tenant(), "/v1/runs", "k", at(70)).await;
    assert_eq!(known, Ok(Some(led_to("k", run(1)))));
}

async fn nothing_begins_after_a_message_that_was_not_read(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    store.enqueue(&tenant(), new_queued(1, MAIN)).await.unwrap();
    store.post(&tenant(), run(1), Message::Cancel, None, at(60)).await.unwrap();
    let before = dump(store).await;
    let (_, new, first) = turn(store, owner.id, 1, MAIN).await;
    let unread = Transition { inbox: Some(0), ..first.clone() };
    assert_eq!(store.start(&tenant(), new.clone(), unread).await, Err(StoreError::Unread { inbox: 1 }));
    assert_eq!(dump(store).await, before);
    let read = Transition { inbox: Some(1), ..first };
    assert_eq!(store.start(&tenant(), new, read).await, Ok(0));
}

async fn a_run_that_is_cancelled_while_it_waits_touches_no_branch(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    let mut pen = Pen::start(store, owner.id, 1, MAIN).await;
    for n in [2, 3] {
        store.enqueue(&tenant(), new_queued(n, MAIN)).await.unwrap();
    }
    let waiting = store.run(&tenant(), run(2)).await.unwrap();
    let threads = dump(store).await.threads;
    cancel(store, 2, MAIN).await.unwrap();
    let row = store.run(&tenant(), run(2)).await.unwrap();
    let expected = RunRow {
        status: RunStatus::Cancelled,
        step: 1,
        seq: 1,
        ended: Some(at(21)),
        budget: Budget { model_calls: 1, ..Budget::default() },
        ..waiting
    };
    assert_eq!((row, dump(store).await.threads), (expected, threads), "the first run still has it");
    assert_eq!(store.events(&tenant(), run(2), 1, 9).await.unwrap().len(), 1);
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    assert_eq!(store.due(at(0)).await, Ok(vec![(tenant(), run(3))]), "it has left the line");
    let threads = dump(store).await.threads;
    cancel(store, 3, MAIN).await.unwrap();
    assert_eq!((dump(store).await.threads, store.due(at(0)).await), (threads, Ok(vec![])), "nor a free one");
}

async fn a_run_begins_on_a_thread_that_it_was_made_with(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    let made = NewThread { ..new_thread("t", 41) };
    let new = baton_store::NewQueued { new_thread: Some(made), ..new_queued(1, MAIN) };
    store.enqueue(&tenant(), new).await.unwrap();
    let mut pen = take_turn(store, owner.id, 1, MAIN).await.unwrap();
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    assert_eq!(store.end(&tenant(), &thread("t"), None).await.unwrap().head, 1);
}
