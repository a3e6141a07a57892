//! The queue of runs whose tool calls are not in the audit trail yet.

use baton_core::run::RunStatus;
use baton_store::{
    AuditEvent, Collected, DerivedCalls, GcRequest, NewThread, RestedPage, RestedRun, Store, StoreError,
    TrailSource, Transition, verify,
};
use serde_json::json;

use super::{counted, event, theirs};
use crate::home::Home;
use crate::pen::Pen;
use crate::values::{at, new_thread, run, talk, tenant, thread};

on_every_store!(
    a_run_is_queued_when_its_rest_is_sealed_whether_that_is_sent_or_not,
    of_two_processes_one_tells_of_a_call,
    how_far_a_run_is_told_of_is_kept_until_it_has_ended,
    an_event_from_outside_queues_no_run,
    a_thread_stays_while_its_calls_are_not_told_of,
    what_has_had_its_time_stays_while_its_calls_are_not_told_of,
);

/// The event of a run that was suspended or ended.
fn rest(n: u128, kind: &str, send: bool) -> AuditEvent {
    AuditEvent { kind: kind.to_owned(), payload: json!({"run_id": run(n)}), ..event(1, send) }
}

/// Simulates that the run was suspended, and went on at once.
async fn suspended(store: &Store, pen: &mut Pen) {
    let audit = vec![rest(1, "agent.suspended", false)];
    pen.commit(store, Transition { audit, ..pen.says("more") }).await.unwrap();
}

async fn ended(store: &Store, pen: &mut Pen, n: u128, send: bool) {
    let audit = vec![rest(n, "agent.completed", send)];
    pen.commit(store, Transition { audit, ..pen.ends(RunStatus::Ok) }).await.unwrap();
}

async fn began(store: &Store, n: u128, on: &str) -> Pen {
    let owner = store.enlist().unwrap();
    Pen::start(store, owner.id, n, (on, "main")).await
}

/// Runs as `(number, whether it has ended, after)`.
fn queue(page: &RestedPage) -> Vec<(u128, bool, u32)> {
    let of = |rested: &RestedRun| (rested.run.0.as_u128(), rested.has_ended, rested.after);
    page.runs.iter().map(of).collect()
}

async fn rested(store: &Store) -> RestedPage {
    store.seal(99).await.unwrap();
    store.rested_runs(99).await.unwrap()
}

/// The kinds of all rows of the chain, which holds.
async fn kinds(store: &Store) -> Vec<String> {
    store.seal(99).await.unwrap();
    let rows = store.audit(None, 0, 99).await.unwrap();
    verify(rows.clone(), None).unwrap();
    rows.into_iter().map(|row| row.kind).collect()
}

fn call(n: u64) -> DerivedCalls {
    let event = AuditEvent { kind: "tool.called".to_owned(), ..event(n, true) };
    DerivedCalls { events: vec![(tenant(), event)], told: Vec::new() }
}

async fn sent_all(store: &Store) {
    let numbers: Vec<i64> = store.outbox(0, 99).await.unwrap().iter().map(|it| it.n).collect();
    store.sent(&numbers).await.unwrap();
}

async fn a_run_is_queued_when_its_rest_is_sealed_whether_that_is_sent_or_not(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    for (n, send) in [(1, false), (2, true), (3, true), (4, true)] {
        talk(store, &format!("t{n}"), 1).await;
        let mut pen = began(store, n, &format!("t{n}")).await;
        ended(store, &mut pen, n, send).await;
        if n == 2 {
            sent_all(store).await; // before it is sealed
        }
    }
    assert!(store.rested_runs(99).await.unwrap().is_empty(), "nothing is sealed");
    let page = rested(&elsewhere).await;
    assert_eq!(queue(&page), [1, 2, 3, 4].map(|n| (n, true, 0)));
    let definition = store.run(&tenant(), run(1)).await.unwrap().definition;
    assert!(page.runs.iter().all(|run| run.definition.as_ref() == Some(&definition) && !run.was_edited));
    let first = elsewhere.rested_runs(2).await.unwrap();
    assert_eq!((queue(&first), first.len()), (vec![(1, true, 0), (2, true, 0)], 2));
    assert_eq!(store.add_calls(&first, call(7)).await, Ok(true));
    let unsent = elsewhere.outbox(0, 99).await.unwrap();
    store.sent(&[unsent[0].n]).await.unwrap(); // after it was sealed and before its calls are added
    assert_eq!(queue(&rested(store).await), [(3, true, 0), (4, true, 0)]);
    let last = rested(store).await;
    assert_eq!(store.add_calls(&last, DerivedCalls::default()).await, Ok(true));
    assert!(rested(store).await.is_empty(), "the last one is still to be sent");
    let completed = vec!["agent.completed".to_owned(); 4];
    assert_eq!(kinds(store).await, [completed, vec!["tool.called".to_owned()]].concat());
    let left: Vec<_> = store.outbox(0, 99).await.unwrap().into_iter().map(|it| it.event.kind).collect();
    assert_eq!(left, ["agent.completed", "tool.called"]);
    sent_all(store).await;
    assert!(rested(store).await.is_empty());
    assert_eq!(counted(&home, "outbox"), 0, "nothing is left behind");
}

async fn of_two_processes_one_tells_of_a_call(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    talk(store, "t", 1).await;
    let mut pen = began(store, 1, "t").await;
    ended(store, &mut pen, 1, false).await;
    let (one, other) = (rested(store).await, elsewhere.rested_runs(99).await.unwrap());
    assert_eq!(one, other);
    let (told, also) = tokio::join!(store.add_calls(&one, call(1)), elsewhere.add_calls(&other, call(1)));
    assert!(matches!((&told, &also), (Ok(true), Ok(false)) | (Ok(false), Ok(true))), "{told:?} {also:?}");
    assert_eq!(kinds(store).await, ["agent.completed", "tool.called"]);
    assert_eq!(store.add_calls(&RestedPage::default(), call(1)).await, Ok(false), "of an empty queue");
}

async fn how_far_a_run_is_told_of_is_kept_until_it_has_ended(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    talk(store, "t", 1).await;
    let mut pen = began(store, 1, "t").await;
    suspended(store, &mut pen).await;
    for step in [2, 5] {
        let told = vec![(tenant(), run(1), Some(step))];
        let page = rested(store).await;
        assert_eq!(store.add_calls(&page, DerivedCalls { told, ..call(1) }).await, Ok(true));
        suspended(store, &mut pen).await;
        assert_eq!(queue(&rested(&elsewhere).await), [(1, false, step)]);
    }
    ended(store, &mut pen, 1, false).await;
    let page = rested(store).await;
    assert_eq!(queue(&page), [(1, false, 5), (1, true, 5)]);
    let keys = counted(&home, "keys");
    let told = vec![(tenant(), run(1), None)];
    assert_eq!(store.add_calls(&page, DerivedCalls { told, ..DerivedCalls::default() }).await, Ok(true));
    assert_eq!(counted(&home, "keys"), (keys - 1).max(0));
}

async fn an_event_from_outside_queues_no_run(home: Home) {
    let store = &home.store;
    talk(store, "t", 1).await;
    let mut pen = began(store, 1, "t").await;
    store.receive(&tenant(), rest(1, "agent.completed", false), None).await.unwrap();
    store.receive(&theirs(), rest(1, "agent.suspended", false), None).await.unwrap();
    assert!(rested(store).await.is_empty());
    // A removed run has no data, and an event that names no run cannot have any.
    let audit = vec![
        rest(2, "agent.failed", false),
        AuditEvent { payload: json!({}), ..rest(1, "agent.failed", false) },
    ];
    pen.commit(store, Transition { audit, ..pen.says("more") }).await.unwrap();
    let page = rested(store).await;
    assert_eq!(
        page.runs.iter().map(|it| (it.run, it.definition.clone())).collect::<Vec<_>>(),
        [(run(2), None)]
    );
    assert_eq!(store.add_calls(&page, DerivedCalls::default()).await, Ok(true));
    assert!(rested(store).await.is_empty(), "neither stays in the way");
}

async fn a_thread_stays_while_its_calls_are_not_told_of(home: Home) {
    let store = &home.store;
    for name in ["t", "other"] {
        talk(store, name, 1).await;
    }
    let mut pen = began(store, 1, "t").await;
    ended(store, &mut pen, 1, false).await;
    let deleted = |id: &str| Some(AuditEvent { correlation: id.to_owned(), ..event(9, false) });
    let untold = Err(StoreError::Untold { thread: "t".to_owned() });
    assert_eq!(store.delete_thread(&tenant(), &thread("t"), deleted("t")).await, untold, "not sealed");
    store.rename_thread(&tenant(), &thread("t"), &thread("u")).await.unwrap();
    let page = rested(store).await;
    let untold = Err(StoreError::Untold { thread: "u".to_owned() });
    assert_eq!(store.delete_thread(&tenant(), &thread("u"), deleted("u")).await, untold, "not told of");
    assert_eq!(store.delete_thread(&tenant(), &thread("other"), deleted("other")).await, Ok(()));
    assert_eq!(store.add_calls(&page, call(1)).await, Ok(true));
    assert_eq!(store.delete_thread(&tenant(), &thread("u"), deleted("u")).await, Ok(()));
}

async fn what_has_had_its_time_stays_while_its_calls_are_not_told_of(home: Home) {
    let store = &home.store;
    let mortal = NewThread { ttl_at: Some(at(50)), ..new_thread("mortal", 0) };
    store.create_thread(&tenant(), mortal).await.unwrap();
    talk(store, "kept", 1).await;
    for (n, on) in [(1, "mortal"), (2, "kept")] {
        let mut pen = began(store, n, on).await;
        ended(store, &mut pen, n, false).await;
    }
    let request = GcRequest { now: at(99), runs_before: Some(at(99)), blobs_before: None, dry_run: false };
    let trail = TrailSource { source: "desk".to_owned(), by: "retention".to_owned(), send: true };
    let collect = async || store.collect(&request, Some(&trail)).await.unwrap();
    assert_eq!(collect().await, Collected::default(), "not sealed");
    let page = rested(store).await;
    assert_eq!(collect().await, Collected::default(), "not told of");
    assert_eq!(store.add_calls(&page, DerivedCalls::default()).await, Ok(true));
    assert_eq!(collect().await, Collected { threads: 1, runs: 1, ..Collected::default() });
    let told: Vec<_> =
        store.outbox(0, 9).await.unwrap().into_iter().map(|it| (it.tenant, it.event)).collect();
    let event = AuditEvent {
        at: at(99),
        correlation: "mortal".to_owned(),
        kind: "thread.deleted".to_owned(),
        source: "desk".to_owned(),
        payload: json!({"thread_id": "mortal", "by": "retention", "at": at(99)}),
        send: true,
    };
    assert_eq!(told, [(tenant(), event)]);
}
