//! Two writers, each with handles of its own: for a file, they are like two processes.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::id::EntryId;
use baton_core::run::RunStatus;
use baton_core::thread::NewEntry;
use baton_store::{ClaimMode, Owner, Slice, Store, StoreError};
use tokio::task::JoinSet;

use crate::home::Home;
use crate::pen::Pen;
use crate::values::{at, entry_id, run, talk, tenant, thread, user};

on_every_store!(
    two_writers_never_break_a_run,
    two_pushes_never_share_an_index,
    one_of_many_starts_wins_a_branch,
    one_of_many_claims_wins_a_free_run,
);

const ROUNDS: u32 = 40;
const SHARED: u128 = 1;

/// The share of one writer in the shared run: the claims it won, and the steps it wrote under them.
#[derive(Default)]
struct Won {
    epochs: Vec<u32>,
    steps: Vec<(u32, u32)>,
}

/// Writes to a run of its own, and each round also tries to claim the shared run and to write to it.
async fn writer(store: Store, owner: Owner, n: u128) -> Won {
    let id = format!("t{n}");
    talk(&store, &id, 1).await;
    let mut mine = Pen::start(&store, owner.id, n, (&id, "main")).await;
    let mut won = Won::default();
    for round in 0..ROUNDS {
        mine.commit(&store, mine.says("mine")).await.unwrap();
        let mode = if round % 2 == 0 { ClaimMode::Take } else { ClaimMode::IfFree };
        match store.claim(&tenant(), run(SHARED), owner.id, mode, at(9)).await {
            Ok(claimed) => {
                won.epochs.push(claimed.row.epoch);
                let mut pen = Pen::of(&claimed);
                for _ in 0..3 {
                    match pen.commit(&store, pen.says("ours")).await {
                        Ok(()) => won.steps.push((pen.step, pen.epoch)),
                        Err(StoreError::Fenced { epoch, .. }) => {
                            assert!(epoch > pen.epoch, "fenced by a later claim");
                            break;
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            }
            Err(StoreError::Held { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    mine.commit(&store, mine.ends(RunStatus::Ok)).await.unwrap();
    won
}

async fn two_writers_never_break_a_run(home: Home) {
    let store = &home.store;
    let first = store.enlist().unwrap();
    talk(store, "shared", 1).await;
    Pen::start(store, first.id, SHARED, ("shared", "main")).await;
    let mut writers = JoinSet::new();
    for n in [2, 3] {
        let store = home.elsewhere();
        let owner = store.enlist().unwrap();
        writers.spawn(writer(store, owner, n));
    }
    let won = writers.join_all().await;

    let epochs: Vec<u32> = won.iter().flat_map(|won| won.epochs.iter().copied()).collect();
    let distinct: BTreeSet<u32> = epochs.iter().copied().collect();
    assert_eq!(distinct.len(), epochs.len(), "one winner a claim");
    let row = store.run(&tenant(), run(SHARED)).await.unwrap();
    assert!(distinct.into_iter().eq(2..=row.epoch));
    let claims = store.claims(&tenant(), run(SHARED)).await.unwrap();
    assert!(claims.iter().map(|claim| claim.epoch).eq(1..=row.epoch));

    let told: BTreeMap<u32, u32> = won.iter().flat_map(|won| won.steps.iter().copied()).collect();
    let steps = gapless(store, SHARED, "shared").await;
    let kept: BTreeMap<u32, u32> = steps.into_iter().skip(1).collect();
    assert_eq!(kept, told, "exactly what was acknowledged was written, under the claim that wrote it");
    for n in [2, 3] {
        let steps = gapless(store, n, &format!("t{n}")).await;
        assert_eq!(steps.len(), ROUNDS as usize + 2);
    }
}

/// The steps of a run with their epochs, after checking that its log and its entries have no gap.
async fn gapless(store: &Store, n: u128, id: &str) -> Vec<(u32, u32)> {
    let steps = store.steps(&tenant(), run(n), 0, 9999).await.unwrap();
    assert!(steps.iter().map(|step| step.step).eq(1..=steps.len() as u32), "steps");
    assert!(steps.is_sorted_by_key(|step| step.epoch), "epochs only rise");
    let events = store.events(&tenant(), run(n), 1, 9999).await.unwrap();
    assert!(events.iter().map(|event| event.seq).eq(1..=events.len() as u64), "events");
    let entries = store.entries(&tenant(), &thread(id), None, Slice::default()).await.unwrap();
    assert!(entries.iter().map(|placed| placed.index).eq(0..entries.len() as i64), "entries");
    assert_eq!(entries.len(), 1 + steps.len());
    steps.into_iter().map(|step| (step.step, step.epoch)).collect()
}

async fn two_pushes_never_share_an_index(home: Home) {
    talk(&home.store, "t", 0).await;
    let mut pushing = JoinSet::new();
    for side in [1, 2] {
        let store = home.elsewhere();
        pushing.spawn(async move {
            let mut placed: Vec<(i64, EntryId)> = Vec::new();
            for n in 0..50 {
                let new = NewEntry { id: entry_id(side * 1000 + n), at: at(1), entry: user("hi") };
                let index = store.push(&tenant(), &thread("t"), None, new.clone()).await.unwrap();
                placed.push((index, new.id));
            }
            placed
        });
    }
    let told: BTreeMap<i64, EntryId> = pushing.join_all().await.into_iter().flatten().collect();
    assert!(told.keys().copied().eq(0..100));
    let entries = home.store.entries(&tenant(), &thread("t"), None, Slice::default()).await.unwrap();
    let stored: BTreeMap<i64, EntryId> =
        entries.into_iter().map(|placed| (placed.index, placed.id)).collect();
    assert_eq!(stored, told);
}

async fn one_of_many_starts_wins_a_branch(home: Home) {
    talk(&home.store, "t", 1).await;
    let owner = home.store.enlist().unwrap();
    let mut starting = JoinSet::new();
    for n in 1..=8 {
        let (store, owner) = (home.elsewhere(), owner.id);
        let pen = Pen::for_new(&store, n, ("t", "main")).await;
        starting.spawn(async move {
            let started = store.start(&tenant(), pen.new_run(owner), pen.says("me")).await;
            (n, started)
        });
    }
    let (winners, losers): (Vec<_>, Vec<_>) =
        starting.join_all().await.into_iter().partition(|(_, started)| started.is_ok());
    assert_eq!(winners.len(), 1);
    let busy = StoreError::Busy { branch: "main".to_owned(), run: run(winners[0].0) };
    assert!(losers.iter().all(|(_, started)| *started == Err(busy.clone())), "{losers:?}");
    let entries = home.store.entries(&tenant(), &thread("t"), None, Slice::default()).await.unwrap();
    assert_eq!(entries.len(), 2);
}

async fn one_of_many_claims_wins_a_free_run(home: Home) {
    talk(&home.store, "t", 1).await;
    let first = home.store.enlist().unwrap();
    let mut pen = Pen::start(&home.store, first.id, 1, ("t", "main")).await;
    for how in ["released", "suspended", "orphaned"] {
        match how {
            "released" => home.store.release(&tenant(), run(1), pen.epoch).await.unwrap(),
            "suspended" => pen.commit(&home.store, pen.suspends(1)).await.unwrap(),
            _ => {} // the winner of the round before is dead by now
        }
        let mut owners = Vec::new();
        let mut claiming = JoinSet::new();
        for _ in 0..6 {
            let store = home.elsewhere();
            let owner = store.enlist().unwrap();
            let id = owner.id;
            claiming.spawn(async move { store.claim(&tenant(), run(1), id, ClaimMode::IfFree, at(9)).await });
            owners.push(owner);
        }
        let (won, lost): (Vec<_>, Vec<_>) = claiming.join_all().await.into_iter().partition(Result::is_ok);
        let [Ok(winner)] = &won[..] else { panic!("{how}: {won:?}") };
        assert_eq!(winner.row.epoch, pen.epoch + 1, "{how}");
        let held = StoreError::Held { run: run(1), owner: winner.row.owner.unwrap() };
        assert!(lost.into_iter().all(|claim| claim.unwrap_err() == held), "{how}");
        pen = Pen::of(winner);
    }
}
