//! Garbage collection during other work: data that another process has just begun to use stays, and finished data does
//! not.

use baton_core::id::OwnerId;
use baton_core::run::{Definition, RunStatus};
use baton_store::{GcRequest, NewRun, NewThread, PinnedDefinition, Store, StoreError, Transition, verify};

use super::{event, new_queued};
use crate::home::Home;
use crate::pen::Pen;
use crate::values::{at, definition, new_thread, run, tenant, thread, user};

on_every_store!(what_begins_during_a_sweep_stays_whole, what_is_sent_and_sealed_at_once_is_done_once,);

const THREADS: u128 = 24;

async fn mortal(store: &Store, n: u128) -> String {
    let id = format!("t{n}");
    let new = NewThread { ttl_at: Some(at(1)), ..new_thread(&id, 0) };
    store.create_thread(&tenant(), new).await.unwrap();
    id
}

/// Begins or queues a run, under a definition that no other run has.
async fn begin(store: &Store, n: u128) -> Result<String, StoreError> {
    let on = format!("t{n}");
    let definition = PinnedDefinition::new(Definition { system: format!("Be {n}."), ..definition() });
    let hash = definition.hash.clone();
    if n.is_multiple_of(2) {
        let new = baton_store::NewQueued { definition, ..new_queued(n, (&on, "main")) };
        return store.enqueue(&tenant(), new).await.map(|()| hash);
    }
    let end = store.end(&tenant(), &thread(&on), None).await?;
    let pen = Pen {
        run: run(n),
        thread: thread(&on),
        branch: end.branch,
        lane: 0,
        epoch: 1,
        step: 0,
        head: -1,
        seq: 0,
    };
    let new = NewRun { definition, lane: end.lane, ..pen.new_run(OwnerId(uuid::Uuid::from_u128(99))) };
    store.start(&tenant(), new, pen.next(vec![user("go")], vec![])).await.map(|_| hash)
}

async fn what_begins_during_a_sweep_stays_whole(home: Home) {
    let (store, elsewhere) = (home.store.clone(), home.elsewhere());
    for n in 0..THREADS {
        mortal(&store, n).await;
    }
    let sweep = tokio::spawn(async move {
        let request = GcRequest { now: at(9), runs_before: Some(at(9)), blobs_before: None, dry_run: false };
        elsewhere.gc(&request).await.unwrap().threads
    });
    let mut begun = Vec::new();
    // From the other end, so that the two meet.
    for n in (0..THREADS).rev() {
        match begin(&store, n).await {
            Ok(hash) => begun.push((n, hash)),
            Err(error) => assert_eq!(error, StoreError::NotFound { what: "thread", id: format!("t{n}") }),
        }
    }
    assert_eq!(sweep.await.unwrap() + begun.len() as u64, THREADS as u64, "each went or was begun on");
    for (n, hash) in begun {
        let row = store.run(&tenant(), run(n)).await.unwrap();
        let expected = if n.is_multiple_of(2) { RunStatus::Queued } else { RunStatus::Running };
        assert_eq!((row.status, &row.definition), (expected, &hash));
        store.definition(&tenant(), &hash).await.unwrap();
        store.end(&tenant(), &thread(&format!("t{n}")), None).await.unwrap();
    }
}

async fn what_is_sent_and_sealed_at_once_is_done_once(home: Home) {
    let (store, elsewhere) = (home.store.clone(), home.elsewhere());
    let on = mortal(&store, 1).await;
    let mut pen = Pen::start(&store, OwnerId(uuid::Uuid::from_u128(99)), 1, (&on, "main")).await;
    let audit = (1..=60).map(|n| event(n, true)).collect();
    pen.commit(&store, Transition { audit, ..pen.says("all of it") }).await.unwrap();
    let send = tokio::spawn(async move {
        let mut sent = Vec::new();
        loop {
            let page = elsewhere.outbox(0, 3).await.unwrap();
            if page.is_empty() {
                return sent;
            }
            elsewhere.sent(&page.iter().map(|outgoing| outgoing.n).collect::<Vec<_>>()).await.unwrap();
            sent.extend(page.into_iter().map(|outgoing| outgoing.event));
        }
    });
    let mut sealed = 0;
    while sealed < 60 {
        sealed += store.seal(2).await.unwrap();
    }
    assert_eq!(send.await.unwrap(), (1..=60).map(|n| event(n, true)).collect::<Vec<_>>(), "once, in order");
    let chain = store.audit(None, 0, 99).await.unwrap();
    assert_eq!(chain.iter().map(|row| row.at).collect::<Vec<_>>(), (1..=60).map(at).collect::<Vec<_>>());
    verify(chain, None).unwrap();
    assert_eq!(super::counted(&home, "outbox"), 0, "nothing is left behind");
}
