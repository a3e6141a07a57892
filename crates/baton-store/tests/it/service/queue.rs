//! Queued runs: their order, and the one that is next.

use baton_core::id::RunId;
use baton_core::run::{Message, RunStatus};
use baton_core::thread::TreeError;
use baton_store::{
    ClaimMode, ClaimRow, DueFrom, Head, NewQueued, NewThread, QueuedRun, RunRow, Store, StoreError,
};
use serde_json::json;

use super::{led_to, new_key, new_queued, theirs};
use crate::home::{Home, dump};
use crate::pen::Pen;
use crate::values::{at, branch, definition, input, new_thread, run, talk, tenant, thread};

on_every_store!(
    a_run_that_waits_is_there_and_takes_nothing,
    runs_take_their_turns_in_order,
    every_branch_has_a_line_of_its_own,
    a_line_that_is_full_refuses,
    whoever_interrupts_goes_before_everybody_who_waits,
    a_run_waits_only_for_a_branch_that_is_there,
    a_thread_is_made_by_the_run_that_waits_on_it,
    a_run_that_waits_is_under_its_key,
    a_run_that_waits_can_be_sent_messages_and_cannot_be_claimed,
    a_deleted_thread_takes_those_who_wait_with_it,
    a_renamed_thread_takes_those_who_wait_with_it,
    the_line_of_a_branch_that_is_gone_is_not_forgotten,
    those_who_are_first_in_line_come_page_by_page_and_once,
    heads_are_those_of_the_runs_that_are_there,
);

const MAIN: (&str, &str) = ("t", "main");

async fn due(store: &Store) -> Vec<RunId> {
    store.due(at(0)).await.unwrap().into_iter().map(|(_, run)| run).collect()
}

async fn a_run_that_waits_is_there_and_takes_nothing(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    let owner = store.enlist().unwrap();
    talk(store, "t", 3).await;
    let mut pen = Pen::start(store, owner.id, 1, MAIN).await;
    let before = store.thread(&tenant(), &thread("t")).await.unwrap();
    let new = NewQueued { capped: vec!["mode".to_owned()], ..new_queued(2, MAIN) };
    store.enqueue(&tenant(), new).await.unwrap();
    let expected = RunRow {
        status: RunStatus::Queued,
        definition: baton_store::PinnedDefinition::new(definition()).hash.clone(),
        metadata: json!({"for": "tests"}),
        ..RunRow::begun(run(2), &thread("t"), &branch("main"), 3, at(42))
    };
    assert_eq!(elsewhere.run(&tenant(), run(2)).await, Ok(expected));
    assert_eq!(
        store.thread(&tenant(), &thread("t")).await,
        Ok(before),
        "the branch is still the first run's"
    );
    let read = elsewhere.queued(&tenant(), run(2)).await;
    assert_eq!(read, Ok(QueuedRun { text: "what 2 says".to_owned(), capped: vec!["mode".to_owned()] }));
    assert_eq!(store.definition(&tenant(), &pen_definition()).await, Ok(definition()));
    assert_eq!(
        (store.claims(&tenant(), run(2)).await, store.steps(&tenant(), run(2), 0, 9).await),
        (Ok(vec![]), Ok(vec![]))
    );
    let listed = dump(store).await.runs.into_iter().map(|run| run.row.id);
    assert_eq!(listed.collect::<Vec<_>>(), [run(2), run(1)]);
    assert_eq!(due(&elsewhere).await, [], "it is not its turn");
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    assert_eq!(due(&elsewhere).await, [run(2)]);
    let unknown = StoreError::NotFound { what: "run", id: run(9).to_string() };
    assert_eq!(store.queued(&tenant(), run(9)).await, Err(unknown.clone()));
    let foreign = StoreError::NotFound { what: "run", id: run(2).to_string() };
    assert_eq!(store.queued(&theirs(), run(2)).await, Err(foreign));
}

fn pen_definition() -> String {
    baton_store::PinnedDefinition::new(definition()).hash.clone()
}

async fn runs_take_their_turns_in_order(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    let mut pen = Pen::start(store, owner.id, 1, MAIN).await;
    for n in [7, 3, 5] {
        elsewhere.enqueue(&tenant(), new_queued(n, MAIN)).await.unwrap();
    }
    for n in [7, 3, 5] {
        assert_eq!(due(store).await, [], "somebody else has the turn");
        pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
        assert_eq!(due(store).await, [run(n)], "in the order in which they came, not by their ids");
        pen = super::waiting::take_turn(store, owner.id, n, MAIN).await.unwrap();
        assert_eq!(store.run(&tenant(), run(n)).await.unwrap().owner, Some(owner.id));
        assert_eq!(store.claims(&tenant(), run(n)).await, Ok(vec![ClaimRow { epoch: 1, base_seq: 0 }]));
    }
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    assert_eq!(due(store).await, []);
}

async fn every_branch_has_a_line_of_its_own(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    for on in ["t", "u"] {
        talk(store, on, 2).await;
    }
    let at_head = baton_store::ForkAt::Head;
    store.fork(&tenant(), &thread("t"), None, &at_head, branch("other"), at(9)).await.unwrap();
    store.create_thread(&theirs(), new_thread("t", 0)).await.unwrap();
    let _held = Pen::start(store, owner.id, 1, MAIN).await;
    for (n, on) in [(2, MAIN), (3, ("t", "other")), (4, ("u", "main")), (5, ("u", "main"))] {
        store.enqueue(&tenant(), new_queued(n, on)).await.unwrap();
    }
    store.enqueue(&theirs(), new_queued(6, MAIN)).await.unwrap();
    let expected = [(tenant(), run(3)), (tenant(), run(4)), (theirs(), run(6))];
    assert_eq!(store.due(at(0)).await, Ok(expected.to_vec()));
}

async fn a_line_that_is_full_refuses(home: Home) {
    let store = &home.store;
    talk(store, "t", 1).await;
    talk(store, "u", 1).await;
    for n in 1..=2 {
        store.enqueue(&tenant(), NewQueued { most: 2, ..new_queued(n, MAIN) }).await.unwrap();
    }
    let before = dump(store).await;
    let refused = NewQueued { most: 2, key: Some(new_key("k", 100)), ..new_queued(3, MAIN) };
    let full = StoreError::QueueFull { branch: "main".to_owned(), most: 2 };
    assert_eq!(store.enqueue(&tenant(), refused.clone()).await, Err(full));
    assert_eq!(dump(store).await, before);
    assert_eq!(store.key(&tenant(), "/v1/runs", "k", at(50)).await, Ok(None));
    let other_line = NewQueued { thread: thread("u"), ..refused.clone() };
    assert_eq!(store.enqueue(&tenant(), NewQueued { run: run(4), key: None, ..other_line }).await, Ok(()));
    super::waiting::cancel(store, 1, MAIN).await.unwrap();
    assert_eq!(store.enqueue(&tenant(), refused).await, Ok(()), "there is a place again");
}

async fn whoever_interrupts_goes_before_everybody_who_waits(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    let owner = store.enlist().unwrap();
    for on in ["t", "u"] {
        talk(store, on, 1).await;
    }
    let mut pen = Pen::start(store, owner.id, 1, MAIN).await;
    let urgent = |n, on| NewQueued { first: true, most: 1, ..new_queued(n, on) };
    store.enqueue(&tenant(), urgent(2, MAIN)).await.unwrap();
    store.enqueue(&tenant(), new_queued(3, MAIN)).await.unwrap();
    store.enqueue(&tenant(), new_queued(4, ("u", "main"))).await.unwrap();
    elsewhere.enqueue(&tenant(), urgent(5, MAIN)).await.unwrap();
    let full = StoreError::QueueFull { branch: "main".to_owned(), most: 3 };
    let late = NewQueued { most: 3, ..new_queued(6, MAIN) };
    assert_eq!(store.enqueue(&tenant(), late).await, Err(full), "they count for those who do not");
    store.enqueue(&tenant(), urgent(7, MAIN)).await.unwrap();
    store.enqueue(&tenant(), new_queued(6, MAIN)).await.unwrap();
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    assert_eq!(due(store).await, [run(7), run(4)]);
    for n in [7, 5, 2, 3, 6] {
        assert_eq!(due(store).await.iter().filter(|id| **id != run(4)).collect::<Vec<_>>(), [&run(n)]);
        let mut pen = super::waiting::take_turn(store, owner.id, n, MAIN).await.unwrap();
        pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    }
    assert_eq!(due(store).await, [run(4)]);
}

async fn a_run_waits_only_for_a_branch_that_is_there(home: Home) {
    let store = &home.store;
    talk(store, "t", 1).await;
    store.enqueue(&tenant(), new_queued(1, MAIN)).await.unwrap();
    let before = dump(store).await;
    let refused = async |new: NewQueued| store.enqueue(&tenant(), new).await.unwrap_err();
    let no_thread = StoreError::NotFound { what: "thread", id: "nil".to_owned() };
    let no_branch = StoreError::Tree(TreeError::NoBranch("nil".to_owned()));
    let exists = StoreError::Exists { what: "run", id: run(1).to_string() };
    assert_eq!(refused(new_queued(2, ("nil", "main"))).await, no_thread);
    assert_eq!(refused(new_queued(2, ("t", "nil"))).await, no_branch);
    assert_eq!(refused(new_queued(1, MAIN)).await, exists);
    let elsewhere = NewQueued { new_thread: Some(new_thread("new", 0)), ..new_queued(2, ("new", "nil")) };
    assert_eq!(refused(elsewhere).await, no_branch);
    assert_eq!(dump(store).await, before);
}

async fn a_thread_is_made_by_the_run_that_waits_on_it(home: Home) {
    let store = &home.store;
    let made = NewThread { ttl_at: Some(at(900)), ..new_thread("t", 41) };
    let new = NewQueued { new_thread: Some(made), ..new_queued(1, MAIN) };
    store.enqueue(&tenant(), new).await.unwrap();
    let view = store.thread(&tenant(), &thread("t")).await.unwrap();
    assert_eq!((view.created, view.ttl_at), (at(41), Some(at(900))));
    assert_eq!(store.run(&tenant(), run(1)).await.unwrap().head, -1);
    let again = NewQueued { new_thread: Some(new_thread("t", 77)), ..new_queued(2, MAIN) };
    store.enqueue(&tenant(), again).await.unwrap();
    assert_eq!(store.thread(&tenant(), &thread("t")).await, Ok(view), "it was there");
    assert_eq!(due(store).await, [run(1)]);
}

async fn a_run_that_waits_is_under_its_key(home: Home) {
    let store = &home.store;
    talk(store, "t", 1).await;
    let keyed = |n| NewQueued { key: Some(new_key("k", 100)), most: 1, ..new_queued(n, MAIN) };
    store.enqueue(&tenant(), keyed(1)).await.unwrap();
    let before = dump(store).await;
    let used = StoreError::KeyUsed(Box::new(led_to("k", run(1))));
    assert_eq!(store.enqueue(&tenant(), keyed(2)).await, Err(used), "rather than full");
    assert_eq!(dump(store).await, before);
    let ours = new_key("ours", 100);
    assert_eq!(store.begin_key(&tenant(), &ours, Some(run(3)), None, at(5)).await, Ok(None));
    let told_again = NewQueued { key: Some(ours), ..new_queued(3, MAIN) };
    let exists = StoreError::Exists { what: "run", id: run(3).to_string() };
    assert_eq!(store.enqueue(&tenant(), told_again).await, Err(exists), "it was done and not told");
    let later = NewQueued { at: at(100), most: 2, ..keyed(2) };
    assert_eq!(store.enqueue(&tenant(), later).await, Ok(()), "the key has expired");
}

async fn a_run_that_waits_can_be_sent_messages_and_cannot_be_claimed(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    store.enqueue(&tenant(), new_queued(1, MAIN)).await.unwrap();
    for (n, message) in [(1, input("and")), (2, Message::Cancel)] {
        assert_eq!(store.post(&tenant(), run(1), message, None, at(50)).await, Ok(n));
    }
    let inbox = store.inbox(&tenant(), run(1), 0).await.unwrap();
    assert_eq!(
        inbox.into_iter().map(|posted| posted.message).collect::<Vec<_>>(),
        [input("and"), Message::Cancel]
    );
    let before = store.run(&tenant(), run(1)).await.unwrap();
    let busy = StoreError::Busy { branch: "main".to_owned(), run: run(1) };
    for mode in [ClaimMode::IfFree, ClaimMode::Take] {
        assert_eq!(store.claim(&tenant(), run(1), owner.id, mode, at(60)).await.unwrap_err(), busy);
    }
    assert_eq!((store.run(&tenant(), run(1)).await, before.inbox), (Ok(before), 2));
}

async fn a_deleted_thread_takes_those_who_wait_with_it(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    for on in ["t", "u"] {
        talk(store, on, 1).await;
    }
    let mut pen = Pen::start(store, owner.id, 1, MAIN).await;
    for (n, on) in [(2, MAIN), (3, ("u", "main"))] {
        store.enqueue(&tenant(), new_queued(n, on)).await.unwrap();
    }
    let busy = StoreError::Busy { branch: "main".to_owned(), run: run(1) };
    assert_eq!(store.delete_thread(&tenant(), &thread("t"), None).await, Err(busy));
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    store.delete_thread(&tenant(), &thread("t"), None).await.unwrap();
    let gone = StoreError::NotFound { what: "run", id: run(2).to_string() };
    assert_eq!(store.queued(&tenant(), run(2)).await, Err(gone));
    assert_eq!(due(store).await, [run(3)]);
    talk(store, "t", 1).await;
    let only = NewQueued { most: 1, ..new_queued(2, MAIN) };
    assert_eq!(store.enqueue(&tenant(), only).await, Ok(()), "no place is taken");
}

async fn a_renamed_thread_takes_those_who_wait_with_it(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    store.enqueue(&tenant(), new_queued(1, MAIN)).await.unwrap();
    store.rename_thread(&tenant(), &thread("t"), &thread("new")).await.unwrap();
    talk(store, "t", 1).await;
    let _unrelated = Pen::start(store, owner.id, 2, MAIN).await;
    assert_eq!(due(store).await, [run(1)]);
    super::waiting::take_turn(store, owner.id, 1, ("new", "main")).await.unwrap();
    assert_eq!(due(store).await, []);
}

async fn the_line_of_a_branch_that_is_gone_is_not_forgotten(home: Home) {
    let store = &home.store;
    talk(store, "t", 1).await;
    let at_head = baton_store::ForkAt::Head;
    store.fork(&tenant(), &thread("t"), None, &at_head, branch("side"), at(9)).await.unwrap();
    store.enqueue(&tenant(), new_queued(1, ("t", "side"))).await.unwrap();
    store.delete_branch(&tenant(), &thread("t"), &branch("side")).await.unwrap();
    assert_eq!(due(store).await, [run(1)], "somebody has to end it");
    super::waiting::cancel(store, 1, ("t", "side")).await.unwrap();
    assert_eq!(
        (due(store).await, store.run(&tenant(), run(1)).await.unwrap().status),
        (vec![], RunStatus::Cancelled)
    );
}

async fn heads_are_those_of_the_runs_that_are_there(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    for on in ["t", "u"] {
        talk(store, on, 1).await;
    }
    let mut pen = Pen::start(store, owner.id, 1, MAIN).await;
    pen.commit(store, pen.says("more")).await.unwrap();
    let mut ended = Pen::start(store, owner.id, 2, ("u", "main")).await;
    ended.commit(store, ended.ends(RunStatus::Error)).await.unwrap();
    store.enqueue(&tenant(), new_queued(3, MAIN)).await.unwrap();
    store.release(&tenant(), run(1), 1).await.unwrap();
    store.claim(&tenant(), run(1), owner.id, ClaimMode::IfFree, at(60)).await.unwrap();
    let asked =
        [(tenant(), run(2)), (tenant(), run(9)), (theirs(), run(1)), (tenant(), run(1)), (tenant(), run(3))];
    let mut heads = store.heads(&asked).await.unwrap();
    heads.sort_by_key(|head| head.run);
    let head = |n, epoch, seq, status| Head { run: run(n), epoch, seq, status };
    let expected = [
        head(1, 2, 2, RunStatus::Running),
        head(2, 1, 2, RunStatus::Error),
        head(3, 1, 0, RunStatus::Queued),
    ];
    assert_eq!(heads, expected);
    assert_eq!(store.heads(&[]).await, Ok(vec![]));
}

async fn those_who_are_first_in_line_come_page_by_page_and_once(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    let mut expected = Vec::new();
    for n in 1..=7_u128 {
        let thread = format!("t{n}");
        talk(store, &thread, 1).await;
        for place in 0..2 {
            // The last run goes before all others on every branch.
            let new = new_queued(n + 10 * place, (&thread, "main"));
            store.enqueue(&tenant(), NewQueued { first: n == 7, ..new }).await.unwrap();
        }
        if n < 7 { expected.push(run(n)) } else { expected.insert(0, run(17)) }
    }
    for limit in [1, 2, 3, 6, 7, 8, 100] {
        let (mut seen, mut from) = (Vec::new(), Some(DueFrom::default()));
        while let Some(next) = from {
            let page = elsewhere.due_page(at(0), next, limit).await.unwrap();
            from = page.rest;
            seen.extend(page.runs.into_iter().filter(|due| due.is_queued).map(|due| due.run));
        }
        if !matches!(store, Store::Memory(_)) {
            assert_eq!(seen, expected, "{limit} at a time");
        }
        seen.sort();
        let mut sorted = expected.clone();
        sorted.sort();
        assert_eq!(seen, sorted, "{limit} at a time");
    }
}
