//! Due runs: those that should be driven and have no living owner.

use baton_core::run::RunStatus;
use baton_store::{ClaimMode, DueFrom, Owner, Store, StoreError, Transition};

use crate::home::Home;
use crate::pen::Pen;
use crate::values::{at, input, run, talk, tenant};

on_every_store!(
    orphans_and_released_runs_are_due_and_held_ones_are_not,
    a_suspended_run_is_due_when_its_time_has_come,
    a_suspended_run_is_due_when_it_has_unread_messages,
    a_run_that_has_ended_is_never_due,
    all_that_is_due_comes_page_by_page_and_once,
    a_suspect_that_lived_is_forgiven_by_whoever_drives_it,
);

async fn started(store: &Store, owner: &Owner, n: u128) -> Pen {
    let id = format!("t{n}");
    talk(store, &id, 1).await;
    Pen::start(store, owner.id, n, (&id, "main")).await
}

async fn due(store: &Store, ms: u64) -> Vec<u128> {
    store.due(at(ms)).await.unwrap().into_iter().map(|(_, run)| run.0.as_u128()).collect()
}

async fn orphans_and_released_runs_are_due_and_held_ones_are_not(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    let (living, dying) = (store.enlist().unwrap(), store.enlist().unwrap());
    started(store, &living, 1).await;
    started(store, &dying, 2).await;
    let released = started(store, &living, 3).await;
    assert_eq!(due(&elsewhere, 9999).await, [0; 0], "all are held");
    store.release(&tenant(), released.run, 1).await.unwrap();
    assert_eq!(due(&elsewhere, 0).await, [3]);
    drop(dying);
    assert_eq!(due(&elsewhere, 0).await, [2, 3]);
    let other = elsewhere.enlist().unwrap();
    for n in [2, 3] {
        elsewhere.claim(&tenant(), run(n), other.id, ClaimMode::IfFree, at(9)).await.unwrap();
    }
    assert_eq!(due(store, 9999).await, [0; 0]);
    drop(other);
    assert_eq!(due(store, 0).await, [2, 3]);
}

async fn a_suspended_run_is_due_when_its_time_has_come(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    for (n, wake) in [(1, 500), (2, 501)] {
        let mut pen = started(store, &owner, n).await;
        pen.commit(store, pen.suspends(wake)).await.unwrap();
    }
    assert_eq!(due(store, 499).await, [0; 0]);
    assert_eq!(due(store, 500).await, [1]);
    assert_eq!(due(store, 501).await, [1, 2]);
    store.claim(&tenant(), run(1), owner.id, ClaimMode::IfFree, at(501)).await.unwrap();
    assert_eq!(due(store, 501).await, [2], "whoever claimed it drives it");
}

async fn a_suspended_run_is_due_when_it_has_unread_messages(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    let mut waiting = started(store, &owner, 1).await;
    let mut reading = started(store, &owner, 2).await;
    let running = started(store, &owner, 3).await;
    waiting.commit(store, waiting.suspends(9000)).await.unwrap();
    for (n, text) in [(1, "hello"), (2, "hello"), (2, "there"), (3, "hello")] {
        store.post(&tenant(), run(n), input(text), None, at(30)).await.unwrap();
    }
    let mut read = reading.suspends(9000);
    read.checkpoint.inbox_read = 2;
    reading.commit(store, Transition { inbox: Some(2), ..read }).await.unwrap();
    assert_eq!(due(store, 100).await, [1], "2 has read both of its messages, {} is held", running.run);
    store.post(&tenant(), run(2), input("and?"), None, at(31)).await.unwrap();
    assert_eq!(due(store, 100).await, [1, 2]);
}

async fn a_run_that_has_ended_is_never_due(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    for (n, status) in [(1, RunStatus::Ok), (2, RunStatus::Error), (3, RunStatus::Cancelled)] {
        let mut pen = started(store, &owner, n).await;
        store.post(&tenant(), run(n), input("hello"), None, at(30)).await.unwrap();
        pen.commit(store, pen.ends(status)).await.unwrap();
    }
    drop(owner);
    assert_eq!(due(store, 9999).await, [0; 0]);
}

/// A page describes each run well enough that a process can skip it without reading it.
async fn all_that_is_due_comes_page_by_page_and_once(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    let living = store.enlist().unwrap();
    let dying = [store.enlist().unwrap(), store.enlist().unwrap()];
    let mut expected = Vec::new();
    for n in 1..=20 {
        let owner = if n % 4 == 0 { &dying[(n / 4 % 2) as usize] } else { &living };
        let mut pen = started(store, owner, n).await;
        match n % 4 {
            1 => store.release(&tenant(), run(n), 1).await.unwrap(),
            2 => {
                pen.commit(store, pen.suspends(500 + u64::from(n > 10))).await.unwrap();
            }
            3 => {
                pen.commit(store, pen.suspends(900)).await.unwrap();
                store.post(&tenant(), run(n), input("hello"), None, at(30)).await.unwrap();
            }
            _ => {}
        }
        expected.push((run(n), u32::from(n % 4 == 0), u32::from(n % 4 == 3)));
    }
    let still_asleep = started(store, &living, 30).await;
    let mut pen = still_asleep;
    pen.commit(store, pen.suspends(9000)).await.unwrap();
    started(store, &living, 31).await;
    drop(dying);
    let definition = store.run(&tenant(), run(1)).await.unwrap().definition;
    for limit in [1, 2, 3, 4, 5, 6, 7, 19, 20, 21, 1000] {
        let (mut seen, mut from) = (Vec::new(), Some(DueFrom::default()));
        while let Some(next) = from {
            let page = elsewhere.due_page(at(600), next, limit).await.unwrap();
            from = page.rest;
            for due in page.runs {
                assert_eq!((&due.definition, due.is_queued), (&definition, false));
                seen.push((due.run, due.attempts, due.inbox));
            }
        }
        seen.sort();
        assert_eq!(seen, expected, "{limit} at a time");
    }
    let all: Vec<_> = elsewhere.due(at(600)).await.unwrap().into_iter().map(|(_, run)| run).collect();
    assert_eq!(all, expected.iter().map(|(run, ..)| *run).collect::<Vec<_>>());
}

async fn a_suspect_that_lived_is_forgiven_by_whoever_drives_it(home: Home) {
    let store = &home.store;
    let first = store.enlist().unwrap();
    started(store, &first, 1).await;
    drop(first);
    let second = store.enlist().unwrap();
    store.claim(&tenant(), run(1), second.id, ClaimMode::IfFree, at(9)).await.unwrap();
    let attempts = async || store.run(&tenant(), run(1)).await.unwrap().attempts;
    store.forgive(&tenant(), run(1), 1).await.unwrap();
    assert_eq!(attempts().await, 1, "it is driven under another epoch");
    store.forgive(&tenant(), run(1), 2).await.unwrap();
    assert_eq!(attempts().await, 0);
    let missing = store.forgive(&tenant(), run(9), 1).await.unwrap_err();
    assert_eq!(missing, StoreError::NotFound { what: "run", id: run(9).to_string() });
}
