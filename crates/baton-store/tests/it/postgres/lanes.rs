//! Slow reads fill their share of the pool, and prompt work of runs and users goes past them.

use baton_core::run::{Choice, Message};
use baton_store::{ClaimMode, DueFrom, GcRequest, Store, Transition};
use tokio::task::JoinSet;

use crate::home::Home;
use crate::pen::Pen;
use crate::postgres_server::until;
use crate::service::{new_key, new_queued};
use crate::values::{approval, at, decision, run, talk, tenant};

/// Reads of each kind that wait for a lock of another session, far more than there are connections.
fn slow_reads(store: &Store) -> JoinSet<()> {
    let mut reads = JoinSet::new();
    for _ in 0..20 {
        let of = store.clone();
        reads.spawn(async move { drop(of.audit(None, 0, 10).await) });
        let of = store.clone();
        reads.spawn(async move { drop(of.blob(&tenant(), "h").await) });
        let of = store.clone();
        let request = GcRequest { now: at(0), runs_before: None, blobs_before: Some(at(0)), dry_run: true };
        reads.spawn(async move { drop(of.gc(&request).await) });
    }
    reads
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_reads_hold_up_no_claim_no_cancel_and_no_decision() {
    let home = Home::postgres();
    let (store, schema) = (&home.store, home.schema());
    let (owner, gone) = (store.enlist().unwrap(), store.enlist().unwrap());
    for (n, thread) in [(1, "orphan"), (2, "asks"), (3, "runs")] {
        talk(store, thread, 1).await;
        let mut pen = Pen::start(store, if n == 1 { gone.id } else { owner.id }, n, (thread, "main")).await;
        if n == 2 {
            let asked = vec![approval("a2", run(2))];
            pen.commit(store, Transition { asked, ..pen.suspends(9000) }).await.unwrap();
        }
    }
    drop(gone);
    let (locking, connection) = tokio_postgres::connect(&schema.url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    locking.batch_execute("BEGIN; LOCK TABLE audit, blobs IN ACCESS EXCLUSIVE MODE").await.unwrap();
    let mut reads = slow_reads(store);
    let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation IN ('audit'::regclass, 'blobs'::regclass)";
    until("slow reads have all that they get", || schema.run(waiting).parse::<u32>().unwrap() >= 6);

    store.claim(&tenant(), run(1), owner.id, ClaimMode::IfFree, at(50)).await.unwrap();
    store.post(&tenant(), run(3), Message::Cancel, None, at(50)).await.unwrap();
    let approved = decision("a2", Choice::Approve, None);
    store.post(&tenant(), run(2), approved, Some("me".to_owned()), at(50)).await.unwrap();
    store.enqueue(&tenant(), new_queued(4, ("runs", "main"))).await.unwrap();
    assert!(
        store.begin_key(&tenant(), &new_key("k", 900), None, Some(owner.id), at(50)).await.unwrap().is_none()
    );
    assert_eq!(store.run(&tenant(), run(1)).await.unwrap().owner, Some(owner.id));
    assert_eq!(store.inbox(&tenant(), run(3), 0).await.unwrap().len(), 1);
    assert_eq!(store.steps(&tenant(), run(2), 0, 9).await.unwrap().len(), 2);
    let due = store.due_page(at(60), DueFrom::default(), 9).await.unwrap().runs;
    assert_eq!(due.iter().map(|due| due.run).collect::<Vec<_>>(), [run(2)]);
    assert_eq!(store.pulses(owner.id).await.unwrap().len(), 2);
    assert!(reads.try_join_next().is_none(), "the slow reads are still slow");
    locking.batch_execute("ROLLBACK").await.unwrap();
    while reads.join_next().await.is_some() {}
}
