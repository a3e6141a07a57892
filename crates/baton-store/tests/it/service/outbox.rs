//! Outgoing events: written in the same transaction as the change that they report, sent and sealed later.

use baton_core::id::Tenant;
use baton_core::run::RunStatus;
use baton_store::{AuditEvent, NewRun, Outgoing, Store, StoreError, Transition};
use serde_json::json;

use super::{counted, event, new_key, theirs};
use crate::home::Home;
use crate::pen::Pen;
use crate::values::{at, new_thread, talk, tenant, thread, user};

on_every_store!(
    events_are_written_with_their_transition,
    a_transition_that_is_refused_leaves_no_event,
    what_was_sent_is_not_sent_again,
    what_is_still_to_be_sent_is_counted,
    what_somebody_else_sent_is_sealed_and_not_sent_on,
    the_oldest_events_are_dropped_by_age,
    the_oldest_events_are_dropped_by_size,
    what_is_dropped_before_it_is_sealed_is_sealed_all_the_same,
    tenants_with_little_to_send_are_found_beside_one_with_much,
);

async fn outbox(store: &Store) -> Vec<AuditEvent> {
    store.outbox(0, 1000).await.unwrap().into_iter().map(|outgoing| outgoing.event).collect()
}

/// A run with these audit events, one in each transition after the first.
async fn told(store: &Store, events: &[AuditEvent]) -> Pen {
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    for event in events {
        let audit = vec![event.clone()];
        pen.commit(store, Transition { audit, ..pen.says("more") }).await.unwrap();
    }
    pen
}

async fn events_are_written_with_their_transition(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    let mut pen = Pen::for_new(store, 1, ("t", "main")).await;
    let first =
        Transition { audit: vec![event(1, true), event(2, true)], ..pen.next(vec![user("go")], vec![]) };
    pen.lane = store.start(&tenant(), pen.new_run(owner.id), first.clone()).await.unwrap();
    pen.written(&first);
    let last = Transition { audit: vec![event(3, false), event(4, true)], ..pen.ends(RunStatus::Ok) };
    pen.commit(store, last).await.unwrap();

    let outgoing = elsewhere.outbox(0, 1000).await.unwrap();
    assert!(outgoing.is_sorted_by(|a, b| a.n < b.n), "{outgoing:?}");
    let numbers: Vec<i64> = outgoing.iter().map(|outgoing| outgoing.n).collect();
    let sent = [1, 2, 4].map(|n| event(n, true));
    let expected: Vec<_> =
        numbers.iter().zip(sent).map(|(n, event)| Outgoing { n: *n, tenant: tenant(), event }).collect();
    assert_eq!(outgoing, expected, "what is not to be sent is not among them");
    assert_eq!(elsewhere.outbox(0, 2).await.as_deref(), Ok(&expected[..2]));
    let sealed = store.seal(1000).await;
    assert_eq!((sealed, outbox(store).await), (Ok(4), [1, 2, 4].map(|n| event(n, true)).to_vec()));
}

async fn a_transition_that_is_refused_leaves_no_event(home: Home) {
    let store = &home.store;
    let pen = told(store, &[]).await;
    let stale = Transition { audit: vec![event(1, true)], epoch: 7, ..pen.says("stale") };
    assert!(matches!(store.commit(&tenant(), &stale).await, Err(StoreError::Fenced { .. })));
    let again = Transition { audit: vec![event(1, true)], ..pen.next(vec![user("go")], vec![]) };
    let again = Transition { step: 1, last_seq: 0, ..again };
    let exists = store.start(&tenant(), NewRun { ..pen.new_run(store.enlist().unwrap().id) }, again).await;
    assert!(matches!(exists, Err(StoreError::Exists { .. })), "{exists:?}");
    assert_eq!((outbox(store).await, store.seal(9).await), (vec![], Ok(0)));
}

async fn what_was_sent_is_not_sent_again(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    told(store, &[1, 2, 3].map(|n| event(n, true))).await;
    let numbers: Vec<i64> = store.outbox(0, 9).await.unwrap().iter().map(|outgoing| outgoing.n).collect();
    elsewhere.sent(&numbers[..1]).await.unwrap();
    assert_eq!(outbox(store).await, [event(2, true), event(3, true)], "sent before it was sealed");
    assert_eq!(store.seal(2).await, Ok(2));
    elsewhere.sent(&numbers[1..2]).await.unwrap();
    assert_eq!(outbox(store).await, [event(3, true)], "sent after it was sealed");
    // A sender that is not sure reports a number again; unknown numbers have no effect.
    elsewhere.sent(&[numbers[0], numbers[1], 99_999]).await.unwrap();
    elsewhere.sent(&[]).await.unwrap();
    assert_eq!((outbox(store).await, store.seal(9).await), (vec![event(3, true)], Ok(1)));
    elsewhere.sent(&numbers).await.unwrap();
    assert_eq!((outbox(store).await, store.seal(9).await), (vec![], Ok(0)), "nothing is left to do");
    assert_eq!(store.audit(None, 0, 9).await.unwrap().len(), 3);

    let more = Transition { audit: vec![event(4, true)], ..told_again(store).await };
    store.commit(&tenant(), &more).await.unwrap();
    elsewhere.sent(&numbers).await.unwrap();
    assert_eq!(outbox(store).await, [event(4, true)], "no number is used twice");
}

/// The next transition of the run of `told`.
async fn told_again(store: &Store) -> Transition {
    let owner = store.enlist().unwrap();
    let mode = baton_store::ClaimMode::Take;
    let claimed = store.claim(&tenant(), crate::values::run(1), owner.id, mode, at(60)).await.unwrap();
    std::mem::forget(owner);
    Pen::of(&claimed).says("again")
}

async fn what_somebody_else_sent_is_sealed_and_not_sent_on(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    let key = |key: &str| Some(new_key(key, 100));
    assert_eq!(store.receive(&theirs(), event(1, true), key("a")).await, Ok(true));
    assert_eq!(elsewhere.receive(&theirs(), event(2, true), key("a")).await, Ok(false), "the key was used");
    assert_eq!(store.receive(&tenant(), event(3, true), key("a")).await, Ok(true), "theirs is not ours");
    assert_eq!(store.receive(&theirs(), event(100, true), key("a")).await, Ok(true), "it has expired");
    for _ in 0..2 {
        assert_eq!(store.receive(&theirs(), event(5, true), None).await, Ok(true));
    }
    assert_eq!((outbox(store).await, store.seal(9).await), (vec![], Ok(5)));
    let sealed = store.audit(None, 0, 9).await.unwrap();
    let sealed: Vec<_> = sealed.into_iter().map(|row| (row.tenant, row.at, row.digest)).collect();
    let expected = [(theirs(), 1), (tenant(), 3), (theirs(), 100), (theirs(), 5), (theirs(), 5)];
    assert_eq!(sealed, expected.map(|(tenant, n)| (tenant, at(n), event(n, true).digest())));
}

async fn the_oldest_events_are_dropped_by_age(home: Home) {
    let store = &home.store;
    told(store, &[1, 2, 3, 4].map(|n| event(n, true))).await;
    assert_eq!(store.trim_outbox(at(1), u64::MAX, at(50)).await, Ok(0));
    assert_eq!(outbox(store).await.len(), 4, "nothing was dropped, and nothing says so");
    store.seal(9).await.unwrap();
    assert_eq!(store.trim_outbox(at(3), u64::MAX, at(50)).await, Ok(2));
    let dropped = AuditEvent {
        at: at(50),
        correlation: String::new(),
        kind: "audit.dropped".to_owned(),
        source: "baton".to_owned(),
        payload: json!({"dropped": 2}),
        send: true,
    };
    assert_eq!(outbox(store).await, [event(3, true), event(4, true), dropped.clone()]);
    assert_eq!(store.seal(9).await, Ok(1));
    let last = store.audit(None, 4, 9).await.unwrap().pop().unwrap();
    assert_eq!((last.n, last.tenant, last.digest), (5, tenant(), dropped.digest()));
}

async fn the_oldest_events_are_dropped_by_size(home: Home) {
    let store = &home.store;
    told(store, &[1, 2, 3, 4].map(|n| event(n, true))).await;
    store.seal(2).await.unwrap();
    let each = json!({"n": 1}).to_string().len() as u64;
    assert_eq!(store.trim_outbox(at(0), 4 * each, at(50)).await, Ok(0), "they just fit");
    assert_eq!(store.trim_outbox(at(0), 4 * each - 1, at(50)).await, Ok(1));
    let kinds: Vec<_> = outbox(store).await.into_iter().map(|event| event.kind).collect();
    assert_eq!(kinds, ["agent.started", "agent.started", "agent.started", "audit.dropped"]);
    assert_eq!(store.trim_outbox(at(0), 0, at(51)).await, Ok(4), "all of it");
    assert_eq!(
        outbox(store).await.into_iter().map(|event| event.payload).collect::<Vec<_>>(),
        [json!({"dropped": 4})]
    );
}

async fn what_is_dropped_before_it_is_sealed_is_sealed_all_the_same(home: Home) {
    let store = &home.store;
    told(store, &[1, 2].map(|n| event(n, true))).await;
    assert_eq!(store.trim_outbox(at(2), u64::MAX, at(50)).await, Ok(1));
    assert_eq!(store.seal(9).await, Ok(3));
    let rows = store.audit(None, 0, 9).await.unwrap();
    let expected =
        [event(1, true), event(2, true), AuditEvent::dropped(1, at(50))].map(|event| event.digest());
    assert_eq!(rows.into_iter().map(|row| row.digest).collect::<Vec<_>>(), expected);
    assert_eq!(store.seal(9).await, Ok(0));
}

/// The stored rows of the outbox: rows that were both sent and sealed are removed.
async fn a_row_leaves_when_it_was_sent_and_sealed(home: Home) {
    let store = &home.store;
    told(store, &[1, 2, 3].map(|n| event(n, n != 3))).await;
    let first = store.outbox(0, 1).await.unwrap()[0].n;
    store.sent(&[first]).await.unwrap();
    assert_eq!(counted(&home, "outbox"), 3, "none is sealed");
    store.seal(9).await.unwrap();
    assert_eq!(counted(&home, "outbox"), 1, "one is yet to be sent");
    store.sent(&[first + 1]).await.unwrap();
    assert_eq!(counted(&home, "outbox"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_leaves_a_file_when_it_was_sent_and_sealed() {
    a_row_leaves_when_it_was_sent_and_sealed(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_leaves_a_database_when_it_was_sent_and_sealed() {
    a_row_leaves_when_it_was_sent_and_sealed(Home::postgres()).await;
}

async fn what_is_still_to_be_sent_is_counted(home: Home) {
    let store = &home.store;
    assert_eq!(store.outbox_depth().await, Ok(0));
    told(store, &[event(1, true), event(2, false), event(3, true), event(4, true)]).await;
    assert_eq!(store.outbox_depth().await, Ok(3));
    store.seal(1000).await.unwrap();
    assert_eq!(home.elsewhere().outbox_depth().await, Ok(3), "sealed is not sent");
    let numbers: Vec<i64> = store.outbox(0, 2).await.unwrap().iter().map(|outgoing| outgoing.n).collect();
    store.sent(&numbers).await.unwrap();
    assert_eq!(home.elsewhere().outbox_depth().await, Ok(1));
}

async fn tenants_with_little_to_send_are_found_beside_one_with_much(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    let others = [theirs(), "third".parse().unwrap()];
    for (n, whose) in
        [&tenant(), &tenant(), &others[0], &tenant(), &others[1], &others[0]].into_iter().enumerate()
    {
        let (id, told) = (format!("t{n}"), Some(event(n as u64, n != 3)));
        store.create_thread(whose, new_thread(&id, 1)).await.unwrap();
        store.delete_thread(whose, &thread(&id), told).await.unwrap();
    }
    let beside = async |tenants: &[Tenant], limit| {
        let found = elsewhere.outbox_beside(tenants, limit).await.unwrap();
        found.into_iter().map(|found| (found.tenant, found.event)).collect::<Vec<_>>()
    };
    let told = |whose: &Tenant, n| (whose.clone(), event(n, true));
    let of = |tenants: &[usize]| tenants.iter().map(|at| others[*at].clone()).collect::<Vec<_>>();
    let (first, third) = (told(&others[0], 2), told(&others[1], 4));
    assert_eq!(beside(&[tenant()], 9).await, [first.clone(), third.clone(), told(&others[0], 5)]);
    assert_eq!(beside(&[tenant()], 1).await, [first]);
    assert_eq!(beside(&[&[tenant()][..], &of(&[0])].concat(), 9).await, [third]);
    assert_eq!(beside(&[&[tenant()][..], &of(&[0, 1])].concat(), 9).await, []);
    assert_eq!(beside(&of(&[1, 0]), 9).await, [told(&tenant(), 0), told(&tenant(), 1)]);
    assert_eq!(beside(&[], 9).await.len(), 5);
}
