//! Reads of a run's log: events by number, transitions by step, runs by filter.

use baton_core::event::NumberedEvent;
use baton_core::run::RunStatus;
use baton_store::{ClaimMode, GcRequest, RunFilter, Store, StoreError};

use crate::home::Home;
use crate::pen::Pen;
use crate::values::{at, delta, run, talk, tenant, thread, warning};

on_every_store!(
    events_are_numbered_across_steps_and_claims,
    pieces_of_text_keep_their_numbers,
    a_long_log_is_read_from_any_number,
    steps_are_read_in_pages,
    runs_are_listed_newest_first,
    blobs_are_kept_under_their_hash,
    what_touches_a_blob_with_an_earlier_moment_makes_it_no_older,
);

async fn events_are_numbered_across_steps_and_claims(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await; // 1
    let texts = |names: &[&str]| names.iter().map(|name| warning(name)).collect::<Vec<_>>();
    pen.commit(store, pen.next(vec![], texts(&["two", "three"]))).await.unwrap();
    pen.commit(store, pen.next(vec![], vec![])).await.unwrap(); // a step without events
    let claimed = store.claim(&tenant(), run(1), owner.id, ClaimMode::Take, at(9)).await.unwrap();
    pen = Pen::of(&claimed);
    pen.commit(store, pen.next(vec![], texts(&["four"]))).await.unwrap();
    pen.commit(store, pen.next(vec![], texts(&["five", "six"]))).await.unwrap();

    let numbered = |seq: u64, epoch, text: &str| NumberedEvent { epoch, seq, event: warning(text) };
    let all = [
        numbered(1, 1, "begun"),
        numbered(2, 1, "two"),
        numbered(3, 1, "three"),
        numbered(4, 2, "four"),
        numbered(5, 2, "five"),
        numbered(6, 2, "six"),
    ];
    for from in 0..=8_usize {
        let rest = all.get(from.saturating_sub(1)..).unwrap_or_default();
        assert_eq!(store.events(&tenant(), run(1), from as u64, 99).await.unwrap(), rest, "from {from}");
    }
    assert_eq!(store.events(&tenant(), run(1), u64::MAX, 99).await, Ok(vec![]));
    assert_eq!(store.events(&tenant(), run(1), 2, 1).await.unwrap(), all[1..3], "of one step");
    assert_eq!(store.events(&tenant(), run(1), 3, 2).await.unwrap()[0], all[2], "from the middle of a step");
    let row = store.run(&tenant(), run(1)).await.unwrap();
    assert_eq!((row.seq, row.step), (6, 5));
    let bounds: Vec<_> = store.steps(&tenant(), run(1), 0, 99).await.unwrap();
    let bounds: Vec<_> = bounds.iter().map(|step| (step.first_seq, step.last_seq)).collect();
    assert_eq!(bounds, [(1, 1), (2, 3), (4, 3), (4, 4), (5, 6)]);
}

async fn pieces_of_text_keep_their_numbers(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    let events = vec![
        delta(1, "Hé"),
        delta(1, ""),
        delta(1, "llo\u{0}"),
        warning("between"),
        delta(1, "again"),
        delta(2, "other"),
        delta(1, "x"),
    ];
    pen.commit(store, pen.next(vec![], events.clone())).await.unwrap();
    let many: Vec<_> = (0..3000).map(|n| delta(3, &format!("token {n} "))).collect();
    pen.commit(store, pen.next(vec![], many.clone())).await.unwrap();
    let expected: Vec<_> = (2..)
        .zip(events.into_iter().chain(many))
        .map(|(seq, event)| NumberedEvent { epoch: 1, seq, event })
        .collect();
    assert_eq!(store.events(&tenant(), run(1), 2, 99).await.unwrap(), expected);
    assert_eq!(store.events(&tenant(), run(1), 1500, 99).await.unwrap(), expected[1498..]);
}

/// Steps with no event, one and several, so that halving meets every kind of them.
async fn a_long_log_is_read_from_any_number(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    for step in 0..37_usize {
        let events = (0..step % 4).map(|n| warning(&format!("{step}.{n}"))).collect();
        pen.commit(store, pen.next(vec![], events)).await.unwrap();
    }
    let all = store.events(&tenant(), run(1), 0, 999).await.unwrap();
    assert!(all.iter().map(|event| event.seq).eq(1..=pen.seq), "without gaps");
    assert_eq!(pen.seq, 1 + 9 * 6);
    for from in 1..=pen.seq + 1 {
        let rest = store.events(&tenant(), run(1), from, 999).await.unwrap();
        assert_eq!(rest, all[from as usize - 1..], "from {from}");
    }
}

async fn steps_are_read_in_pages(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    for _ in 0..4 {
        pen.commit(store, pen.says("more")).await.unwrap();
    }
    let page = async |after, limit| {
        let steps = store.steps(&tenant(), run(1), after, limit).await.unwrap();
        steps.into_iter().map(|step| step.step).collect::<Vec<_>>()
    };
    assert_eq!(page(0, 2).await, [1, 2]);
    assert_eq!(page(2, 2).await, [3, 4]);
    assert_eq!(page(4, 2).await, [5]);
    assert_eq!(page(5, 2).await, [0; 0]);
    assert_eq!(page(0, 0).await, [0; 0]);
    let missing = StoreError::NotFound { what: "run", id: run(9).to_string() };
    assert_eq!(store.steps(&tenant(), run(9), 0, 1).await, Err(missing.clone()));
    assert_eq!(store.events(&tenant(), run(9), 0, 1).await, Err(missing));
}

async fn listed(store: &Store, filter: RunFilter) -> Vec<u128> {
    let rows = store.runs(&tenant(), &filter).await.unwrap();
    rows.into_iter().map(|row| row.id.0.as_u128()).collect()
}

async fn runs_are_listed_newest_first(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    let filter = || RunFilter { limit: 9, ..RunFilter::default() };
    for n in [1, 0x2a, 3, 0xff2a] {
        let id = format!("t{}", n % 2);
        if store.thread(&tenant(), &thread(&id)).await.is_err() {
            talk(store, &id, 1).await;
        }
        let mut pen = Pen::start(store, owner.id, n, (&id, "main")).await;
        let status = if n == 3 { RunStatus::Error } else { RunStatus::Ok };
        pen.commit(store, pen.ends(status)).await.unwrap();
    }
    assert_eq!(listed(store, filter()).await, [0xff2a, 0x2a, 3, 1]);
    assert_eq!(listed(store, RunFilter { limit: 2, ..filter() }).await, [0xff2a, 0x2a]);
    assert_eq!(listed(store, RunFilter { limit: 0, ..filter() }).await, [0; 0]);
    assert_eq!(listed(store, RunFilter { after: Some(run(0x2a)), ..filter() }).await, [3, 1]);
    assert_eq!(listed(store, RunFilter { thread: Some(thread("t1")), ..filter() }).await, [3, 1]);
    assert_eq!(listed(store, RunFilter { status: Some(RunStatus::Error), ..filter() }).await, [3]);
    assert_eq!(listed(store, RunFilter { status: Some(RunStatus::Queued), ..filter() }).await, [0; 0]);
    let ending = |text: &str| RunFilter { fragment: Some(text.to_owned()), ..filter() };
    assert_eq!(listed(store, ending("2a")).await, [0xff2a, 0x2a]);
    assert_eq!(listed(store, ending("ff2a")).await, [0xff2a]);
    assert_eq!(listed(store, ending("0000")).await, [0xff2a, 0x2a, 3, 1], "or beginning");
    assert_eq!(listed(store, ending("f2")).await, [0; 0], "but not in the middle");
    assert_eq!(listed(store, ending("%")).await, [0; 0]);
}

async fn blobs_are_kept_under_their_hash(home: Home) {
    let store = &home.store;
    let bytes = vec![0, 159, 146, 150, 10];
    let hash = baton_core::json::sha256_hex(&bytes);
    assert_eq!(store.blob(&tenant(), &hash).await, Ok(None));
    for ms in [1, 2] {
        store.put_blob(&tenant(), &hash, bytes.clone(), at(ms)).await.unwrap();
        assert_eq!(store.blob(&tenant(), &hash).await, Ok(Some(bytes.clone())));
    }
}

async fn what_touches_a_blob_with_an_earlier_moment_makes_it_no_older(home: Home) {
    let (store, hash) = (&home.store, baton_core::json::sha256_hex(b"x"));
    for ms in [100, 5] {
        store.put_blob(&tenant(), &hash, b"x".to_vec(), at(ms)).await.unwrap();
    }
    let gone = async |before| {
        let request =
            GcRequest { now: at(200), runs_before: None, blobs_before: Some(at(before)), dry_run: false };
        store.gc(&request).await.unwrap().blobs
    };
    assert_eq!((gone(50).await, gone(101).await), (0, 1));
}
