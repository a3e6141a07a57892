//! Ownership: starting, claiming, losing and releasing a run, and the writes that count.

use baton_core::budget::Budget;
use baton_core::run::{ApprovalStatus, RUN_VERSION, RunStatus};
use baton_store::{ClaimMode, ClaimRow, ForkAt, NewRun, RunRow, Store, StoreError, Transition};
use serde_json::json;

use crate::home::{Home, dump};
use crate::pen::Pen;
use crate::values::{
    approval, assistant, at, branch, definition, push_many, run, talk, tenant, thread, user, warning,
};

on_every_store!(
    a_run_begins_with_its_first_transition,
    a_branch_has_one_run_at_a_time,
    a_run_begins_where_its_first_transition_was_made_for,
    a_start_that_is_refused_leaves_nothing,
    a_run_is_started_once,
    a_transition_writes_everything_or_nothing,
    whoever_lost_a_run_changes_nothing,
    a_living_owner_keeps_its_run,
    a_run_can_be_taken_from_a_living_owner,
    only_a_dead_owner_counts_as_an_attempt,
    progress_forgives_earlier_attempts,
    a_run_that_has_ended_is_not_claimed,
    a_claim_brings_everything_to_go_on_with,
    letting_go_twice_or_late_does_nothing,
    a_living_owner_is_current_until_it_counts_as_dead,
);

async fn a_run_begins_with_its_first_transition(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 2).await;
    let pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    let expected = RunRow {
        id: run(1),
        thread: thread("t"),
        branch: branch("main"),
        lane: 0,
        head: 2,
        status: RunStatus::Running,
        owner: Some(owner.id),
        epoch: 1,
        step: 1,
        seq: 1,
        inbox: 0,
        attempts: 0,
        definition: baton_store::PinnedDefinition::new(definition()).hash.clone(),
        min_version: RUN_VERSION,
        budget: Budget { model_calls: 1, ..Budget::default() },
        wake_at: None,
        watched_until: None,
        created: at(5),
        ended: None,
        metadata: json!({"for": "tests"}),
    };
    assert_eq!(store.run(&tenant(), run(1)).await, Ok(expected));
    assert_eq!(store.claims(&tenant(), run(1)).await, Ok(vec![ClaimRow { epoch: 1, base_seq: 0 }]));
    assert_eq!(pen.lane, 0);
}

async fn a_branch_has_one_run_at_a_time(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 2).await;
    store.fork(&tenant(), &thread("t"), None, &ForkAt::Head, branch("b"), at(1)).await.unwrap();
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    let before = dump(store).await;
    let second = Pen::for_new(store, 2, ("t", "main")).await;
    let refused = store.start(&tenant(), second.new_run(owner.id), second.says("me too")).await;
    assert_eq!(refused, Err(StoreError::Busy { branch: "main".to_owned(), run: run(1) }));
    assert_eq!(dump(store).await, before);

    Pen::start(store, owner.id, 3, ("t", "b")).await;
    pen.commit(store, pen.suspends(900)).await.unwrap();
    let refused = store.start(&tenant(), second.new_run(owner.id), second.says("me too")).await;
    assert_eq!(
        refused,
        Err(StoreError::Busy { branch: "main".to_owned(), run: run(1) }),
        "suspended is busy"
    );
    let claimed = store.claim(&tenant(), pen.run, owner.id, ClaimMode::IfFree, at(30)).await.unwrap();
    pen = Pen::of(&claimed);
    pen.commit(store, pen.ends(RunStatus::Error)).await.unwrap();
    Pen::start(store, owner.id, 2, ("t", "main")).await;
}

async fn a_run_begins_where_its_first_transition_was_made_for(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 2).await;
    let early = Pen::for_new(store, 1, ("t", "main")).await;
    push_many(store, "t", "main", 10, 1).await;
    let before = dump(store).await;
    let refused = store.start(&tenant(), early.new_run(owner.id), early.says("late")).await;
    assert_eq!(refused.unwrap_err().to_string(), "branch \"main\" has moved");
    let elsewhere = NewRun { branch: branch("x"), ..early.new_run(owner.id) };
    let refused = store.start(&tenant(), elsewhere, early.says("late")).await;
    assert_eq!(refused.unwrap_err().to_string(), "there is no branch \"x\"");
    let nowhere = Transition { thread: thread("u"), ..early.says("late") };
    let refused = store.start(&tenant(), early.new_run(owner.id), nowhere).await;
    assert_eq!(refused.unwrap_err().to_string(), "there is no thread \"u\"");
    assert_eq!(dump(store).await, before);
}

/// The first transition is fenced like every other: one that does not fit takes the run back with it.
async fn a_start_that_is_refused_leaves_nothing(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 2).await;
    store.rewind(&tenant(), &thread("t"), None, 0).await.unwrap(); // so that a start opens a lane
    let pen = Pen::for_new(store, 1, ("t", "main")).await;
    let before = dump(store).await;
    for (first, why) in [
        (Transition { inbox: Some(1), ..pen.says("x") }, StoreError::Unread { inbox: 0 }),
        (Transition { step: 2, ..pen.says("x") }, StoreError::Fenced { run: run(1), epoch: 1 }),
        (Transition { epoch: 2, ..pen.says("x") }, StoreError::Fenced { run: run(1), epoch: 1 }),
    ] {
        assert_eq!(store.start(&tenant(), pen.new_run(owner.id), first).await, Err(why));
        assert_eq!(dump(store).await, before);
    }
    Pen::start(store, owner.id, 1, ("t", "main")).await;
}

async fn a_run_is_started_once(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 2).await;
    talk(store, "u", 2).await;
    let pen = Pen::for_new(store, 1, ("t", "main")).await;
    store.start(&tenant(), pen.new_run(owner.id), pen.says("x")).await.unwrap();
    let before = dump(store).await;
    let exists = StoreError::Exists { what: "run", id: run(1).to_string() };
    let again = store.start(&tenant(), pen.new_run(owner.id), pen.says("x")).await;
    assert_eq!(again, Err(exists.clone()), "the same start once more");
    let other = Pen::for_new(store, 1, ("u", "main")).await;
    let again = store.start(&tenant(), other.new_run(owner.id), other.says("x")).await;
    assert_eq!(again, Err(exists), "on another thread");
    assert_eq!(dump(store).await, before);
}

async fn a_transition_writes_everything_or_nothing(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    let next = Transition {
        asked: vec![approval("ap", pen.run)],
        progress: true,
        ..pen.next(vec![assistant("a"), user("b")], vec![warning("one"), warning("two")])
    };
    pen.commit(store, next.clone()).await.unwrap();
    let row = store.run(&tenant(), pen.run).await.unwrap();
    assert_eq!((row.step, row.seq, row.head, row.budget.model_calls), (2, 3, 3, 2));
    let step = store.steps(&tenant(), pen.run, 1, 9).await.unwrap().pop().unwrap();
    assert_eq!((step.step, step.epoch, step.first_seq, step.last_seq), (2, 1, 2, 3));
    assert_eq!(step.checkpoint, next.checkpoint);
    let tail = store.entries(&tenant(), &thread("t"), None, Default::default()).await.unwrap();
    let written: Vec<_> = tail[2..].iter().map(|p| (p.index, p.id, p.run, p.entry.clone())).collect();
    let expected: Vec<_> =
        (2..).zip(&next.entries).map(|(i, new)| (i, new.id, Some(pen.run), new.entry.clone())).collect();
    assert_eq!(written, expected);
    assert_eq!(store.approval(&tenant(), "ap").await, Ok(approval("ap", pen.run)));
}

/// Every way of having lost a run: an old claim, a step that was already written or was skipped, a run that was
/// released, suspended or ended. Each returns `Fenced`, and no row is different after it.
async fn whoever_lost_a_run_changes_nothing(home: Home) {
    let store = &home.store;
    let (owner, other) = (store.enlist().unwrap(), store.enlist().unwrap());
    talk(store, "t", 1).await;
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    let asked = vec![approval("ap", pen.run)];
    pen.commit(store, Transition { asked, ..pen.says("one") }).await.unwrap();
    let attempts = |pen: &Pen| {
        let full = Transition {
            asked: vec![approval("forbidden", pen.run)],
            settled: vec![("ap".to_owned(), ApprovalStatus::Cancelled)],
            progress: true,
            ..pen.says("forbidden")
        };
        [
            Transition { inbox: Some(0), ..full.clone() },
            Transition { inbox: None, ..pen.ends(RunStatus::Cancelled) },
            Transition { inbox: None, ..pen.suspends(1) },
            full,
        ]
    };

    for stale in attempts(&pen).map(|t| Transition { step: t.step + 1, ..t }) {
        fenced(store, stale, 1, "a step that skips one").await;
    }
    for stale in attempts(&pen).map(|t| Transition { step: t.step - 1, ..t }) {
        fenced(store, stale, 1, "a step that was written").await;
    }
    for stale in attempts(&pen).map(|t| Transition { last_seq: t.last_seq + 1, ..t }) {
        fenced(store, stale, 1, "numbers with a gap").await;
    }
    for stale in attempts(&pen).map(|t| Transition { last_seq: 0, ..t }) {
        fenced(store, stale, 1, "numbers that were given").await;
    }
    for stale in attempts(&pen).map(|t| Transition { epoch: 2, ..t }) {
        fenced(store, stale, 1, "a claim that nobody made").await;
    }
    store.release(&tenant(), pen.run, 1).await.unwrap();
    for stale in attempts(&pen) {
        fenced(store, stale, 1, "a run that was let go of").await;
    }
    let claimed = store.claim(&tenant(), pen.run, other.id, ClaimMode::IfFree, at(30)).await.unwrap();
    for stale in attempts(&pen) {
        fenced(store, stale, 2, "an old claim").await;
    }
    let mut now = Pen::of(&claimed);
    now.commit(store, now.suspends(900)).await.unwrap();
    for stale in attempts(&now) {
        fenced(store, stale, 2, "a run that is suspended").await;
    }
    let claimed = store.claim(&tenant(), pen.run, other.id, ClaimMode::IfFree, at(30)).await.unwrap();
    now = Pen::of(&claimed);
    now.commit(store, now.ends(RunStatus::Ok)).await.unwrap();
    for stale in attempts(&now).into_iter().chain(attempts(&pen)) {
        fenced(store, stale, 3, "a run that has ended").await;
    }
}

async fn fenced(store: &Store, transition: Transition, epoch: u32, how: &str) {
    let before = dump(store).await;
    let run = transition.run;
    let refused = store.commit(&tenant(), &transition).await;
    assert_eq!(refused, Err(StoreError::Fenced { run, epoch }), "{how}");
    assert_eq!(dump(store).await, before, "{how}");
}

async fn a_living_owner_keeps_its_run(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    let (owner, other) = (store.enlist().unwrap(), elsewhere.enlist().unwrap());
    talk(store, "t", 1).await;
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    let before = dump(store).await;
    let held = StoreError::Held { run: run(1), owner: owner.id };
    for claimer in [other.id, owner.id] {
        let refused = elsewhere.claim(&tenant(), run(1), claimer, ClaimMode::IfFree, at(9)).await;
        assert_eq!(refused.unwrap_err(), held);
    }
    assert_eq!(dump(store).await, before);
    pen.commit(store, pen.says("still mine")).await.unwrap();
    drop(owner);
    let claimed = elsewhere.claim(&tenant(), run(1), other.id, ClaimMode::IfFree, at(9)).await.unwrap();
    assert_eq!((claimed.row.epoch, claimed.row.owner), (2, Some(other.id)));
}

async fn a_run_can_be_taken_from_a_living_owner(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    let (owner, other) = (store.enlist().unwrap(), elsewhere.enlist().unwrap());
    talk(store, "t", 1).await;
    let pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    let claimed = elsewhere.claim(&tenant(), run(1), other.id, ClaimMode::Take, at(9)).await.unwrap();
    assert_eq!((claimed.row.epoch, claimed.row.attempts), (2, 0), "it did not die");
    fenced(store, pen.says("still mine?"), 2, "taken").await;
    let mut pen = Pen::of(&claimed);
    pen.commit(&elsewhere, pen.says("mine")).await.unwrap();
    let epochs: Vec<_> =
        store.steps(&tenant(), run(1), 0, 9).await.unwrap().iter().map(|s| (s.step, s.epoch)).collect();
    assert_eq!(epochs, [(1, 1), (2, 2)]);
}

async fn only_a_dead_owner_counts_as_an_attempt(home: Home) {
    let store = &home.store;
    talk(store, "t", 1).await;
    let first = store.enlist().unwrap();
    Pen::start(store, first.id, 1, ("t", "main")).await;
    let claim = async |owner: &baton_store::Owner, mode| {
        let claimed = store.claim(&tenant(), run(1), owner.id, mode, at(9)).await.unwrap();
        (claimed.row.attempts, Pen::of(&claimed))
    };
    drop(first);
    let second = store.enlist().unwrap();
    assert_eq!(claim(&second, ClaimMode::IfFree).await.0, 1, "the first owner died");
    store.release(&tenant(), run(1), 2).await.unwrap();
    drop(second);
    let third = store.enlist().unwrap();
    let (attempts, mut pen) = claim(&third, ClaimMode::IfFree).await;
    assert_eq!(attempts, 1, "the second let go before it went");
    pen.commit(store, pen.suspends(900)).await.unwrap();
    drop(third);
    let fourth = store.enlist().unwrap();
    assert_eq!(claim(&fourth, ClaimMode::IfFree).await.0, 1, "a suspended run has no owner to die");
    let fifth = store.enlist().unwrap();
    assert_eq!(claim(&fifth, ClaimMode::Take).await.0, 1, "the fourth lives");
    drop(fifth);
    assert_eq!(claim(&fourth, ClaimMode::Take).await.0, 2, "a dead owner is dead however it is claimed");
}

async fn progress_forgives_earlier_attempts(home: Home) {
    let store = &home.store;
    talk(store, "t", 1).await;
    let mut owner = store.enlist().unwrap();
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    for attempt in 1..=3 {
        drop(owner);
        owner = store.enlist().unwrap();
        let claimed = store.claim(&tenant(), run(1), owner.id, ClaimMode::IfFree, at(9)).await.unwrap();
        assert_eq!(claimed.row.attempts, attempt);
        pen = Pen::of(&claimed);
    }
    pen.commit(store, pen.says("only text")).await.unwrap();
    assert_eq!(store.run(&tenant(), run(1)).await.unwrap().attempts, 3, "no outcome, no progress");
    pen.commit(store, Transition { progress: true, ..pen.says("an outcome") }).await.unwrap();
    assert_eq!(store.run(&tenant(), run(1)).await.unwrap().attempts, 0);
}

async fn a_run_that_has_ended_is_not_claimed(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    for (n, status) in [(1, RunStatus::Ok), (2, RunStatus::Error), (3, RunStatus::Cancelled)] {
        talk(store, &format!("t{n}"), 1).await;
        let mut pen = Pen::start(store, owner.id, n, (&format!("t{n}"), "main")).await;
        pen.commit(store, pen.ends(status)).await.unwrap();
        let row = store.run(&tenant(), run(n)).await.unwrap();
        assert_eq!((row.status, row.owner, row.wake_at, row.ended), (status, None, None, Some(at(22))));
        for mode in [ClaimMode::IfFree, ClaimMode::Take] {
            let refused = store.claim(&tenant(), run(n), owner.id, mode, at(9)).await.unwrap_err();
            assert_eq!(refused, StoreError::Ended { run: run(n), status });
        }
        assert_eq!(store.run(&tenant(), run(n)).await, Ok(row));
    }
    let missing = store.claim(&tenant(), run(9), owner.id, ClaimMode::Take, at(9)).await.unwrap_err();
    assert_eq!(missing, StoreError::NotFound { what: "run", id: run(9).to_string() });
}

async fn a_claim_brings_everything_to_go_on_with(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    let last = pen.next(vec![], vec![warning("a"), warning("b"), warning("c")]);
    pen.commit(store, last.clone()).await.unwrap();
    pen.commit(store, pen.suspends(900)).await.unwrap();
    let expected = store.steps(&tenant(), run(1), 2, 9).await.unwrap().pop().unwrap().checkpoint;

    let claimed = store.claim(&tenant(), run(1), owner.id, ClaimMode::IfFree, at(9)).await.unwrap();
    assert_eq!(claimed.definition, definition());
    assert_eq!(claimed.checkpoint, expected);
    assert_eq!(claimed.row, store.run(&tenant(), run(1)).await.unwrap());
    let row = &claimed.row;
    assert_eq!((row.status, row.owner, row.wake_at), (RunStatus::Running, Some(owner.id), None));
    assert_eq!((row.epoch, row.step, row.seq, row.head, row.lane), (2, 3, 5, 2, 0));

    let mut pen = Pen::of(&claimed);
    pen.commit(store, pen.says("on")).await.unwrap();
    store.claim(&tenant(), run(1), owner.id, ClaimMode::Take, at(9)).await.unwrap();
    let claims = [(1, 0), (2, 5), (3, 6)].map(|(epoch, base_seq)| ClaimRow { epoch, base_seq });
    assert_eq!(store.claims(&tenant(), run(1)).await, Ok(claims.to_vec()));
}

async fn letting_go_twice_or_late_does_nothing(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    Pen::start(store, owner.id, 1, ("t", "main")).await;
    store.release(&tenant(), run(1), 1).await.unwrap();
    let free = dump(store).await;
    assert_eq!(free.runs[0].row.owner, None);
    store.release(&tenant(), run(1), 1).await.unwrap();
    assert_eq!(dump(store).await, free);
    store.claim(&tenant(), run(1), owner.id, ClaimMode::IfFree, at(9)).await.unwrap();
    let held = dump(store).await;
    store.release(&tenant(), run(1), 1).await.unwrap();
    assert_eq!(dump(store).await, held, "the old claim's release is too late");
    assert_eq!(held.runs[0].row.owner, Some(owner.id));
}

async fn a_living_owner_is_current_until_it_counts_as_dead(home: Home) {
    let owner = home.store.enlist().unwrap();
    assert!(owner.is_current());
    home.store.bury(owner.id);
    assert!(!home.elsewhere().is_alive(owner.id).await);
    let by_lease = matches!(home.store, Store::Postgres(_));
    assert_eq!(owner.is_current(), by_lease, "a lease is as good as new where only the lock is gone");
}
