//! Ambiguous writes: they are read back, never repeated blindly.

use std::sync::Arc;

use baton_store::{ClaimMode, FaultyStore, Store, StoreError, Transition};

use crate::home::{Home, dump};
use crate::pen::Pen;
use crate::values::{at, run, talk, tenant, thread};

on_every_store!(
    a_commit_that_nobody_knows_of_is_found_by_step_and_epoch,
    a_start_that_nobody_knows_of_is_found_by_its_run,
    a_claim_that_nobody_knows_of_is_found_by_its_owner,
);

fn faulty(inner: &Store, seed: u64) -> Store {
    Store::Faulty(Arc::new(FaultyStore::new(inner.clone(), 300, seed)))
}

/// Whether a transition is in the log: the same step under the same claim.
async fn was_written(store: &Store, transition: &Transition) -> bool {
    let found = store.steps(&tenant(), transition.run, transition.step - 1, 1).await.unwrap().pop();
    found.is_some_and(|row| (row.step, row.epoch) == (transition.step, transition.epoch))
}

async fn a_commit_that_nobody_knows_of_is_found_by_step_and_epoch(home: Home) {
    let store = &home.store;
    let shaky = faulty(store, 7);
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    let (mut lost, mut undone, mut unsure) = (0, 0, 0);
    while pen.step < 121 {
        let next = pen.says("more");
        match shaky.commit(&tenant(), &next.clone()).await {
            Ok(()) => assert!(was_written(store, &next).await),
            Err(StoreError::Unavailable(_)) => {
                lost += 1;
                assert!(!was_written(store, &next).await, "what did not happen may be repeated");
                continue;
            }
            Err(StoreError::Ambiguous(_)) if !was_written(store, &next).await => {
                undone += 1;
                continue;
            }
            Err(StoreError::Ambiguous(_)) => {
                unsure += 1;
                let before = dump(store).await;
                let again = store.commit(&tenant(), &next.clone()).await;
                assert_eq!(again, Err(StoreError::Fenced { run: pen.run, epoch: 1 }));
                assert_eq!(dump(store).await, before, "repeating it writes nothing twice");
            }
            Err(other) => panic!("{other}"),
        }
        pen.written(&next);
    }
    let struck = (lost, undone, unsure);
    assert!(lost > 0 && undone > 0 && unsure > 0, "the die must strike in every way: {struck:?}");
    let steps: Vec<u32> =
        store.steps(&tenant(), pen.run, 0, 999).await.unwrap().iter().map(|s| s.step).collect();
    assert!(steps.into_iter().eq(1..=121));
    let entries = store.entries(&tenant(), &thread("t"), None, Default::default()).await.unwrap();
    assert!(entries.iter().map(|placed| placed.index).eq(0..122));
}

async fn a_start_that_nobody_knows_of_is_found_by_its_run(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    let pen = Pen::for_new(store, 1, ("t", "main")).await;
    let (mut lost, mut undone) = (0, 0);
    for seed in 0.. {
        let shaky = faulty(store, seed);
        match shaky.start(&tenant(), pen.new_run(owner.id), pen.says("go")).await {
            Err(StoreError::Unavailable(_)) => {
                lost += 1;
                assert!(store.run(&tenant(), run(1)).await.is_err());
            }
            Err(StoreError::Ambiguous(_)) if store.run(&tenant(), run(1)).await.is_err() => undone += 1,
            // The loop ends with a start that was done, after all other results were seen.
            Err(StoreError::Ambiguous(_)) if lost > 0 && undone > 0 => break,
            // The start was written: it is undone, and tried again.
            Ok(_) | Err(StoreError::Ambiguous(_)) => {
                let mut pen = pen.clone();
                pen.written(&pen.says("go"));
                pen.commit(store, pen.ends(baton_core::run::RunStatus::Ok)).await.unwrap();
                store.delete_thread(&tenant(), &thread("t"), None).await.unwrap();
                talk(store, "t", 1).await;
            }
            Err(other) => panic!("{other}"),
        }
    }
    let row = store.run(&tenant(), run(1)).await.unwrap();
    assert_eq!((row.owner, row.epoch, row.step), (Some(owner.id), 1, 1));
    let before = dump(store).await;
    let again = store.start(&tenant(), pen.new_run(owner.id), pen.says("go")).await;
    assert_eq!(again, Err(StoreError::Exists { what: "run", id: run(1).to_string() }));
    assert_eq!(dump(store).await, before);
}

async fn a_claim_that_nobody_knows_of_is_found_by_its_owner(home: Home) {
    let store = &home.store;
    let (first, second) = (store.enlist().unwrap(), store.enlist().unwrap());
    talk(store, "t", 1).await;
    let pen = Pen::start(store, first.id, 1, ("t", "main")).await;
    drop(first);
    for seed in 0.. {
        let before = dump(store).await;
        match faulty(store, seed).claim(&tenant(), pen.run, second.id, ClaimMode::IfFree, at(9)).await {
            Err(StoreError::Unavailable(_)) => assert_eq!(dump(store).await, before),
            Err(StoreError::Ambiguous(_)) if dump(store).await == before => {}
            Err(StoreError::Ambiguous(_)) => break,
            Ok(claimed) => store.release(&tenant(), pen.run, claimed.row.epoch).await.unwrap(),
            Err(other) => panic!("{other}"),
        }
    }
    let row = store.run(&tenant(), pen.run).await.unwrap();
    assert_eq!(row.owner, Some(second.id), "the row says that the claim was made");
    let held = store.claim(&tenant(), pen.run, second.id, ClaimMode::IfFree, at(9)).await.unwrap_err();
    assert_eq!(held, StoreError::Held { run: pen.run, owner: second.id });
    let claimed = store.claim(&tenant(), pen.run, second.id, ClaimMode::Take, at(9)).await.unwrap();
    assert_eq!((claimed.row.epoch, claimed.row.attempts), (row.epoch + 1, row.attempts));
}
