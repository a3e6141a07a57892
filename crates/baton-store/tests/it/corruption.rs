//! A row that cannot be read affects one run or one thread, is named in the error, and affects no other.
//!
//! Each test flips a bit of one row behind the store's back, so this is about the stores that have rows.

use baton_core::run::{Choice, RunStatus};
use baton_store::{
    ClaimMode, ForkAt, NewRun, Owner, PruneRequest, RunFilter, Slice, Store, StoreError, Transition,
};
use rusqlite::Connection;

use crate::home::Home;
use crate::pen::Pen;
use crate::values::{
    approval, at, branch, call, decision, definition, input, numbered, push_many, result, run, talk, tenant,
    thread, user,
};

const DAMAGED: &str = "its checksum does not fit: the file was damaged";

/// Makes one test per damageable store of every function named.
macro_rules! on_every_store_with_rows {
    ($($name:ident),* $(,)?) => {
        on_store!(sqlite: $($name),*);
        on_store!(postgres: $($name),*);
    };
}

on_every_store_with_rows!(
    a_damaged_step_harms_its_run_alone,
    a_damaged_step_of_a_suspended_run_does_not_hide_what_else_is_due,
    a_damaged_entry_harms_its_thread_alone,
    a_damaged_approval_harms_its_call_alone,
    a_damaged_message_harms_its_run_alone,
    a_damaged_definition_harms_the_runs_that_are_pinned_to_it,
    a_damaged_run_is_left_out_of_lists,
    a_damaged_thread_is_left_out_of_lists,
    a_damaged_blob_is_not_given_out,
);

/// Changes rows behind the store's back.
fn tamper(home: &Home, sql: &str) {
    match home.store {
        Store::Postgres(_) => {
            home.schema().run(sql);
        }
        _ => Connection::open(home.folder().join("baton.db")).unwrap().execute_batch(sql).unwrap(),
    }
}

/// Flips one bit in the middle of a value.
fn damage(home: &Home, table: &str, column: &str, which: &str) {
    if let Store::Postgres(_) = home.store {
        let row = format!("ctid = (SELECT ctid FROM {table} WHERE {which} LIMIT 1)");
        let middle = format!("length({column}) / 2");
        let flipped = format!("set_byte({column}, {middle}, get_byte({column}, {middle}) # 128)");
        let done = home
            .schema()
            .run(&format!("UPDATE {table} SET {column} = {flipped} WHERE {row} RETURNING 'done'"));
        assert!(done.contains("done"), "{done}");
        return;
    }
    let db = Connection::open(home.folder().join("baton.db")).unwrap();
    let sql = format!("SELECT rowid, {column} FROM {table} WHERE {which}");
    let (row, mut bytes): (i64, Vec<u8>) =
        db.query_row(&sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x80;
    db.execute(&format!("UPDATE {table} SET {column} = ?1 WHERE rowid = ?2"), (bytes, row)).unwrap();
}

/// Two threads `t1` and `t2`, each with an active run, an approval and a message.
async fn two_runs(store: &Store) -> (Owner, [Pen; 2]) {
    let owner = store.enlist().unwrap();
    let mut pens = Vec::new();
    for n in [1, 2] {
        let id = format!("t{n}");
        talk(store, &id, 3).await;
        let mut pen = Pen::start(store, owner.id, n, (&id, "main")).await;
        let asked = vec![approval(&format!("ap{n}"), pen.run)];
        pen.commit(store, Transition { asked, ..pen.says("may I?") }).await.unwrap();
        store.post(&tenant(), pen.run, input("hello"), None, at(30)).await.unwrap();
        pens.push(pen);
    }
    (owner, pens.try_into().unwrap())
}

fn corrupt(what: &'static str, id: impl ToString, why: &str) -> StoreError {
    StoreError::Corrupt { what, id: id.to_string(), why: why.to_owned() }
}

async fn listed(store: &Store) -> Vec<u128> {
    let rows = store.runs(&tenant(), &RunFilter { limit: 9, ..RunFilter::default() }).await.unwrap();
    rows.into_iter().map(|row| row.id.0.as_u128()).collect()
}

async fn due(store: &Store) -> Vec<u128> {
    store.due(at(0)).await.unwrap().into_iter().map(|(_, run)| run.0.as_u128()).collect()
}

/// The run of the other thread can be claimed, driven to its end and read.
async fn unharmed(store: &Store, n: u128) {
    let owner = store.enlist().unwrap();
    let claimed = store.claim(&tenant(), run(n), owner.id, ClaimMode::Take, at(9)).await.unwrap();
    let mut pen = Pen::of(&claimed);
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
    assert_eq!(store.events(&tenant(), run(n), 1, 99).await.unwrap().len(), 3);
    assert_eq!(store.entries(&tenant(), &pen.thread, None, Slice::default()).await.unwrap().len(), 6);
    assert_eq!(store.inbox(&tenant(), run(n), 0).await.unwrap().len(), 1);
}

async fn a_damaged_step_harms_its_run_alone(home: Home) {
    let store = &home.store;
    let (owner, pens) = two_runs(store).await;
    drop(owner);
    damage(&home, "steps", "body", "step = 2 ORDER BY run");
    let error = corrupt("step", format!("{}#2", run(1)), DAMAGED);
    assert_eq!(
        error.to_string(),
        format!("step \"{}#2\" cannot be read: its checksum does not fit: the file was damaged", run(1))
    );
    let before = store.run(&tenant(), run(1)).await.unwrap();
    assert_eq!(store.steps(&tenant(), run(1), 0, 9).await, Err(error.clone()));
    assert_eq!(store.events(&tenant(), run(1), 1, 9).await, Err(error.clone()));
    assert_eq!(store.events(&tenant(), run(1), 1, 1).await.unwrap().len(), 1, "the step before is whole");
    let claimer = store.enlist().unwrap();
    let claim = store.claim(&tenant(), run(1), claimer.id, ClaimMode::IfFree, at(9)).await.unwrap_err();
    assert_eq!(claim, error);
    assert_eq!(store.run(&tenant(), run(1)).await, Ok(before), "it is not half claimed");
    assert_eq!((listed(store).await, due(store).await), (vec![2, 1], vec![1, 2]));
    assert_eq!(pens[1].run, run(2));
    unharmed(store, 2).await;
}

async fn a_damaged_step_of_a_suspended_run_does_not_hide_what_else_is_due(home: Home) {
    let store = &home.store;
    let (_owner, mut pens) = two_runs(store).await;
    for pen in &mut pens {
        pen.commit(store, pen.suspends(9000)).await.unwrap();
    }
    assert_eq!(due(store).await, [1, 2], "each has a message that it has not read");
    damage(&home, "steps", "body", "step = 3 ORDER BY run");
    assert_eq!(due(store).await, [2]);
    unharmed_after_suspension(store).await;
}

async fn unharmed_after_suspension(store: &Store) {
    let owner = store.enlist().unwrap();
    let claimed = store.claim(&tenant(), run(2), owner.id, ClaimMode::IfFree, at(9)).await.unwrap();
    let mut pen = Pen::of(&claimed);
    pen.commit(store, pen.ends(RunStatus::Ok)).await.unwrap();
}

async fn a_damaged_entry_harms_its_thread_alone(home: Home) {
    let store = &home.store;
    talk(store, "t1", 3).await;
    talk(store, "t2", 3).await;
    push_many(store, "t1", "main", 4, 30).await;
    let of_thread = match home.store {
        Store::Postgres(_) => "thread = 't1'",
        _ => "thread = (SELECT n FROM threads WHERE thread = 't1')",
    };
    damage(&home, "entries", "envelope", &format!("{of_thread} AND idx = 1"));
    let error = corrupt("entry", "t1[1]", DAMAGED);
    let t = thread("t1");
    assert_eq!(store.entries(&tenant(), &t, None, Slice::default()).await, Err(error.clone()));
    let recent = Slice { last_n: Some(5), before: None };
    assert_eq!(store.entries(&tenant(), &t, None, recent).await.unwrap().len(), 5, "what is whole is read");
    assert_eq!(store.push(&tenant(), &t, None, numbered(90, user("on"))).await, Ok(33));
    let reused = store.push(&tenant(), &t, None, numbered(91, call("1"))).await;
    assert_eq!(reused, Err(error.clone()), "whether the id is new cannot be told");
    store.fork(&tenant(), &t, None, &ForkAt::Index(1), branch("b"), at(1)).await.unwrap();
    let on_it = store.push(&tenant(), &t, Some(&branch("b")), numbered(92, user("x"))).await;
    assert_eq!(on_it, Err(error));

    let ids: Vec<_> = store.threads(&tenant(), 9, None).await.unwrap();
    let ids: Vec<_> = ids.iter().map(|view| view.id.as_str()).collect();
    assert_eq!(ids, ["t2", "t1"]);
    assert_eq!(store.entries(&tenant(), &thread("t2"), None, Slice::default()).await.unwrap().len(), 3);
    for (n, entry) in [(93, call("1")), (94, result("1"))] {
        store.push(&tenant(), &thread("t2"), None, numbered(n, entry)).await.unwrap();
    }
    store.rewind(&tenant(), &t, None, 0).await.unwrap();
    store.delete_branch(&tenant(), &t, &branch("b")).await.unwrap();
    let pruned = store.prune(&tenant(), &t, &PruneRequest::default()).await.unwrap();
    assert_eq!(pruned.entries, 33, "it can be rewound past and pruned away");
    assert_eq!(store.push(&tenant(), &t, None, numbered(95, call("1"))).await, Ok(1));
}

async fn a_damaged_approval_harms_its_call_alone(home: Home) {
    let store = &home.store;
    let (_owner, _) = two_runs(store).await;
    damage(&home, "approvals", "body", "approval = 'ap1'");
    let error = corrupt("approval", "ap1", DAMAGED);
    assert_eq!(store.approval(&tenant(), "ap1").await, Err(error.clone()));
    let decided = store.post(&tenant(), run(1), decision("ap1", Choice::Approve, None), None, at(40)).await;
    assert_eq!(decided, Err(error));
    assert_eq!(store.inbox(&tenant(), run(1), 0).await.unwrap().len(), 1, "and nothing was posted");
    let ids: Vec<_> = store.approvals(&tenant(), None, None, 9).await.unwrap();
    assert_eq!(ids.into_iter().map(|approval| approval.id).collect::<Vec<_>>(), ["ap2"]);
    unharmed(store, 2).await;
}

async fn a_damaged_message_harms_its_run_alone(home: Home) {
    let store = &home.store;
    let (_owner, _) = two_runs(store).await;
    damage(&home, "inbox", "body", "n = 1 ORDER BY run");
    let error = corrupt("message", format!("{}#1", run(1)), DAMAGED);
    assert_eq!(store.inbox(&tenant(), run(1), 0).await, Err(error));
    assert_eq!(store.post(&tenant(), run(1), input("again"), None, at(41)).await, Ok(2));
    assert_eq!(store.inbox(&tenant(), run(1), 1).await.unwrap().len(), 1);
    unharmed(store, 2).await;
}

async fn a_damaged_definition_harms_the_runs_that_are_pinned_to_it(home: Home) {
    let store = &home.store;
    let (owner, _) = two_runs(store).await;
    talk(store, "t3", 1).await;
    let mut pen = Pen::for_new(store, 3, ("t3", "main")).await;
    let other = baton_core::run::Definition { system: "Another.".to_owned(), ..definition() };
    let new =
        NewRun { definition: baton_store::PinnedDefinition::new(other.clone()), ..pen.new_run(owner.id) };
    let first = pen.says("go");
    store.start(&tenant(), new, first.clone()).await.unwrap();
    pen.written(&first);
    let hash = baton_store::PinnedDefinition::new(definition()).hash.clone();
    damage(&home, "definitions", "body", &format!("hash = '{hash}'"));
    let error = corrupt("definition", &hash, DAMAGED);
    assert_eq!(store.definition(&tenant(), &hash).await, Err(error.clone()));
    for n in [1, 2] {
        let claim = store.claim(&tenant(), run(n), owner.id, ClaimMode::Take, at(9)).await.unwrap_err();
        assert_eq!(claim, error);
    }
    let claimed = store.claim(&tenant(), run(3), owner.id, ClaimMode::Take, at(9)).await.unwrap();
    assert_eq!(claimed.definition, other);
}

async fn a_damaged_run_is_left_out_of_lists(home: Home) {
    let store = &home.store;
    for column in ["budget", "metadata"] {
        let (owner, _) = two_runs(store).await;
        drop(owner);
        damage(&home, "runs", column, "true ORDER BY run");
        let error = store.run(&tenant(), run(1)).await.unwrap_err();
        assert!(
            matches!(&error, StoreError::Corrupt { what: "run", id, .. } if *id == run(1).to_string()),
            "{error}"
        );
        assert_eq!(listed(store).await, [2], "{column}");
        assert_eq!(due(store).await, [2], "{column}");
        let counted = store.usage_of_thread(&tenant(), &thread("t1")).await.unwrap().runs;
        assert_eq!(counted, u64::from(column != "budget"), "what it used is not known: {column}");
        unharmed(store, 2).await;
        tamper(&home, "UPDATE branches SET run = NULL");
        for n in [1, 2] {
            store.delete_thread(&tenant(), &thread(&format!("t{n}")), None).await.unwrap();
        }
    }
}

async fn a_damaged_thread_is_left_out_of_lists(home: Home) {
    let store = &home.store;
    for n in [1, 2, 3] {
        talk(store, &format!("t{n}"), 1).await;
    }
    damage(&home, "threads", "meta", "thread = 't2'");
    let error = store.thread(&tenant(), &thread("t2")).await.unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt { what: "thread", id, .. } if id == "t2"), "{error}");
    let ids: Vec<_> = store.threads(&tenant(), 9, None).await.unwrap();
    let ids: Vec<_> = ids.iter().map(|view| view.id.as_str()).collect();
    assert_eq!(ids, ["t3", "t1"]);
    assert_eq!(store.entries(&tenant(), &thread("t2"), None, Slice::default()).await.unwrap().len(), 1);
}

async fn a_damaged_blob_is_not_given_out(home: Home) {
    let store = &home.store;
    let bytes = b"a long output".to_vec();
    let hash = baton_core::json::sha256_hex(&bytes);
    store.put_blob(&tenant(), &hash, bytes, at(1)).await.unwrap();
    damage(&home, "blobs", "body", "true");
    let error = corrupt("blob", &hash, "its hash does not fit: the file was damaged");
    assert_eq!(store.blob(&tenant(), &hash).await, Err(error));
}
