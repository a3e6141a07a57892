//! Tenants do not see each other: the same ids in another tenant do not exist.

use baton_core::id::Tenant;
use baton_core::run::{Choice, RunStatus};
use baton_store::{ClaimMode, ForkAt, PruneRequest, RunFilter, Slice, Store, StoreError, Transition};

use crate::home::{Home, dump, dump_of};
use crate::pen::Pen;
use crate::values::{
    approval, at, branch, decision, definition, input, new_thread, numbered, run, talk, tenant, thread, user,
};

on_every_store!(nothing_of_one_tenant_is_there_for_another, the_same_ids_live_side_by_side);

fn other() -> Tenant {
    "other".parse().unwrap()
}

/// Every method that names an object, called by another tenant: each returns that there is no such object.
async fn strangers_answers(store: &Store, pen: &Pen) -> Vec<StoreError> {
    let (t, id, main, n) = (&other(), &thread("t"), &branch("main"), pen.run);
    let owner = store.enlist().unwrap();
    vec![
        store.thread(t, id).await.unwrap_err(),
        store.threads(t, 9, Some(id)).await.unwrap_err(),
        store.delete_thread(t, id, None).await.unwrap_err(),
        store.entries(t, id, None, Slice::default()).await.unwrap_err(),
        store.end(t, id, None).await.unwrap_err(),
        store.usage_of_thread(t, id).await.unwrap_err(),
        store.push(t, id, None, numbered(9, user("x"))).await.unwrap_err(),
        store.fork(t, id, None, &ForkAt::Head, branch("b"), at(1)).await.unwrap_err(),
        store.checkout(t, id, main).await.unwrap_err(),
        store.rewind(t, id, None, -1).await.unwrap_err(),
        store.delete_branch(t, id, main).await.unwrap_err(),
        store.prune(t, id, &PruneRequest::default()).await.unwrap_err(),
        store.start(t, pen.new_run(owner.id), pen.says("x")).await.unwrap_err(),
        store.claim(t, n, owner.id, ClaimMode::Take, at(1)).await.unwrap_err(),
        store.commit(t, &pen.says("x")).await.unwrap_err(),
        store.post(t, n, input("x"), None, at(1)).await.unwrap_err(),
        store.post(t, n, decision("ap", Choice::Approve, None), None, at(1)).await.unwrap_err(),
        store.release(t, n, 1).await.unwrap_err(),
        store.definition(t, &baton_store::PinnedDefinition::new(definition()).hash).await.unwrap_err(),
        store.inbox(t, n, 0).await.unwrap_err(),
        store.run(t, n).await.unwrap_err(),
        store.steps(t, n, 0, 9).await.unwrap_err(),
        store.events(t, n, 0, 9).await.unwrap_err(),
        store.claims(t, n).await.unwrap_err(),
        store.approval(t, "ap").await.unwrap_err(),
        store.watch(t, n, at(1)).await.unwrap_err(),
    ]
}

async fn nothing_of_one_tenant_is_there_for_another(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 2).await;
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    let asked = vec![approval("ap", pen.run)];
    pen.commit(store, Transition { asked, ..pen.says("may I?") }).await.unwrap();
    store.post(&tenant(), pen.run, input("hello"), None, at(30)).await.unwrap();
    store.put_blob(&tenant(), "h", vec![1], at(1)).await.unwrap();
    let before = dump(store).await;

    let answers = strangers_answers(store, &pen).await;
    assert!(answers.iter().all(|e| matches!(e, StoreError::NotFound { .. })), "{answers:#?}");
    assert_eq!(store.threads(&other(), 9, None).await, Ok(vec![]));
    assert_eq!(store.runs(&other(), &RunFilter { limit: 9, ..RunFilter::default() }).await, Ok(vec![]));
    assert_eq!(store.approvals(&other(), None, None, 9).await, Ok(vec![]));
    assert_eq!(store.blob(&other(), "h").await, Ok(None));
    drop(owner);
    assert_eq!(store.due(at(0)).await, Ok(vec![(tenant(), run(1))]));
    assert_eq!(dump(store).await, before, "and nothing that a stranger did changed anything");
}

async fn the_same_ids_live_side_by_side(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 2).await;
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    let asked = vec![approval("ap", pen.run)];
    pen.commit(store, Transition { asked: asked.clone(), ..pen.says("may I?") }).await.unwrap();
    let before = dump(store).await;

    store.create_thread(&other(), new_thread("t", 0)).await.unwrap();
    let mut theirs = Pen { head: -1, step: 0, seq: 0, ..pen.clone() };
    store.start(&other(), theirs.new_run(owner.id), theirs.says("go")).await.unwrap();
    theirs.written(&theirs.says("go"));
    store.commit(&other(), &Transition { asked, ..theirs.says("may I?") }).await.unwrap();
    theirs.written(&theirs.says("may I?"));
    store.post(&other(), theirs.run, decision("ap", Choice::Deny, None), None, at(1)).await.unwrap();
    store.commit(&other(), &theirs.ends(RunStatus::Cancelled)).await.unwrap();
    assert_eq!(dump(store).await, before);
    assert_eq!(dump_of(store, &other()).await.runs[0].row.status, RunStatus::Cancelled);
    store.delete_thread(&other(), &thread("t"), None).await.unwrap();
    assert_eq!(dump(store).await, before);
}
