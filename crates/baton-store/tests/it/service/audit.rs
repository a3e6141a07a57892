//! The chain: one row per event, each naming the one before.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use baton_core::id::Tenant;
use baton_store::{AuditRow, BrokenChain, ChainEnd, Store, Transition, Verifier, verify};

use super::{event, tamper, theirs};
use crate::home::Home;
use crate::pen::Pen;
use crate::values::{at, talk, tenant};

on_every_store!(
    the_chain_has_no_gaps_over_all_tenants,
    a_chain_is_read_in_pages,
    two_who_seal_at_once_make_one_chain,
    only_what_was_received_is_marked_as_external,
    another_policy_is_told_of_once,
);

/// Receives this many events, every third of which is from the other tenant.
async fn received(store: &Store, count: u64) {
    for n in 1..=count {
        let tenant = if n % 3 == 0 { theirs() } else { tenant() };
        store.receive(&tenant, event(n, false), None).await.unwrap();
    }
}

async fn chain(store: &Store) -> Vec<AuditRow> {
    store.audit(None, 0, 1000).await.unwrap()
}

async fn the_chain_has_no_gaps_over_all_tenants(home: Home) {
    let store = &home.store;
    assert_eq!((store.seal(9).await, chain(store).await), (Ok(0), vec![]));
    assert_eq!(store.chain_end().await, Ok(ChainEnd::default()));
    received(store, 4).await;
    assert_eq!(store.seal(3).await, Ok(3), "no more than that");
    assert_eq!((store.seal(3).await, store.seal(3).await), (Ok(1), Ok(0)));
    let mut prev = AuditRow::FIRST.to_owned();
    let expected = [(1, tenant()), (2, tenant()), (3, theirs()), (4, tenant())].map(|(n, tenant)| {
        let event = event(n, false);
        let mut row = AuditRow {
            n: n as i64,
            tenant,
            at: event.at,
            correlation: event.correlation.clone(),
            kind: event.kind.clone(),
            source: event.source.clone(),
            external: Some(true),
            digest: event.digest(),
            prev: prev.clone(),
            seal: String::new(),
        };
        row.seal = row.hash();
        prev = row.seal.clone();
        row
    });
    assert_eq!(chain(store).await, expected);
    assert_eq!(verify(expected, None), Ok(prev.clone()));
    assert_eq!(store.chain_end().await, Ok(ChainEnd { rows: 4, head: prev }));
}

async fn a_chain_is_read_in_pages(home: Home) {
    let store = &home.store;
    received(store, 7).await;
    store.seal(100).await.unwrap();
    let numbers = async |tenant: Option<Tenant>, after, limit| {
        let rows = store.audit(tenant.as_ref(), after, limit).await.unwrap();
        rows.into_iter().map(|row| row.n).collect::<Vec<_>>()
    };
    assert_eq!(numbers(None, 0, 3).await, [1, 2, 3]);
    assert_eq!(numbers(None, 3, 3).await, [4, 5, 6]);
    assert_eq!(numbers(None, 6, 3).await, [7]);
    assert_eq!(numbers(Some(theirs()), 0, 9).await, [3, 6]);
    assert_eq!(numbers(Some(theirs()), 3, 9).await, [6]);
    assert_eq!(numbers(Some(tenant()), 2, 2).await, [4, 5]);
}

async fn two_who_seal_at_once_make_one_chain(home: Home) {
    received(&home.store, 40).await;
    let sealed = Arc::new(AtomicU64::new(0));
    let seal = |store: Store| {
        let sealed = sealed.clone();
        tokio::spawn(async move {
            // A call that finds the other one sealing has sealed nothing.
            while sealed.load(Ordering::SeqCst) < 40 {
                sealed.fetch_add(store.seal(2).await.unwrap(), Ordering::SeqCst);
            }
        })
    };
    let (one, other) = (seal(home.store.clone()), seal(home.elsewhere()));
    one.await.unwrap();
    other.await.unwrap();
    assert_eq!(sealed.load(Ordering::SeqCst), 40);
    let rows = chain(&home.store).await;
    let mut sealed: Vec<_> = rows.iter().map(|row| row.at).collect();
    sealed.sort();
    assert_eq!(sealed, (1..=40).map(crate::values::at).collect::<Vec<_>>(), "each event once");
    verify(rows, None).unwrap();
}

/// An event of a run and an identical one from outside.
async fn only_what_was_received_is_marked_as_external(home: Home) {
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    let mut pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    let audit = vec![event(1, true), event(2, false)];
    pen.commit(store, Transition { audit, ..pen.says("more") }).await.unwrap();
    store.receive(&tenant(), event(1, true), None).await.unwrap();
    store.seal(9).await.unwrap();
    store.trim_outbox(at(9), 0, at(9)).await.unwrap();
    store.seal(9).await.unwrap();
    let rows = chain(store).await;
    let told: Vec<_> = rows.iter().map(|row| (row.kind.as_str(), row.external)).collect();
    let (ours, theirs) = (Some(false), Some(true));
    let expected = [
        ("agent.started", ours),
        ("agent.started", ours),
        ("agent.started", theirs),
        ("audit.dropped", ours),
    ];
    assert_eq!(told, expected);
    assert_eq!(rows[0].digest, rows[2].digest, "they say the same");
    verify(rows, None).unwrap();
}

async fn another_policy_is_told_of_once(home: Home) {
    let (store, elsewhere) = (&home.store, home.elsewhere());
    for (hash, is_told) in [("a", false), ("a", false), ("b", true), ("b", false), ("a", true)] {
        assert_eq!(store.note_policy(hash, event(1, true)).await, Ok(is_told), "{hash}");
        assert_eq!(elsewhere.note_policy(hash, event(2, true)).await, Ok(false), "{hash}");
    }
    // Each change of the policy left one event to be sent.
    let told: Vec<_> = store.outbox(0, 9).await.unwrap().into_iter().map(|it| it.event.payload).collect();
    let expected = ["a", "b"].map(|previous| serde_json::json!({"n": 1, "previous": previous}));
    assert_eq!(told, expected);
}

/// If any column of any row is changed, the error names that row.
async fn whatever_is_changed_is_named(home: Home) {
    received(&home.store, 4).await;
    home.store.seal(9).await.unwrap();
    let whole = chain(&home.store).await;
    let head = verify(whole.clone(), None).unwrap();
    tamper(&home, "CREATE TABLE kept AS SELECT * FROM audit");
    let found = async |sql: &str, head: Option<&str>| {
        tamper(&home, sql);
        let mut verifier = Verifier::new(head).sealed(home.store.chain_end().await.unwrap());
        let rows = chain(&home.store).await;
        let found = rows.iter().try_for_each(|row| verifier.add(row));
        let end = home.store.chain_end().await.unwrap();
        let found = found.and_then(|()| verifier.end(Some(&end)));
        tamper(&home, "DELETE FROM audit; INSERT INTO audit SELECT * FROM kept");
        found
    };
    for n in 1..=4 {
        for column in ["tenant", "correlation", "kind", "source", "digest", "prev", "seal"] {
            let sql = format!("UPDATE audit SET {column} = {column} || 'x' WHERE n = {n}");
            assert_eq!(found(&sql, None).await, Err(BrokenChain::Changed { n }), "{column}");
        }
        let sql = format!("UPDATE audit SET at = at + 1 WHERE n = {n}");
        assert_eq!(found(&sql, None).await, Err(BrokenChain::Changed { n }));
        let sql = format!("UPDATE audit SET external = false WHERE n = {n}");
        assert_eq!(found(&sql, None).await, Err(BrokenChain::Changed { n }));
        let sql = format!("UPDATE audit SET n = 100 WHERE n = {n}");
        assert_eq!(found(&sql, None).await, Err(BrokenChain::Missing { n }));
        let sql = format!("DELETE FROM audit WHERE n = {n}");
        assert_eq!(found(&sql, None).await, Err(BrokenChain::Missing { n }));
        let sql = format!("DELETE FROM audit WHERE n >= {n}");
        assert_eq!(found(&sql, None).await, Err(BrokenChain::Missing { n }), "its end is gone");
    }
    // A writer who knows the noted end of the chain changes that, too; only a hash kept elsewhere shows it then.
    tamper(&home, "CREATE TABLE kept_end AS SELECT * FROM chain");
    tamper(&home, "UPDATE chain SET (rows, head) = (SELECT n, seal FROM audit WHERE n = 3)");
    let cut = "DELETE FROM audit WHERE n = 4";
    assert_eq!(found(cut, None).await, Ok(whole[2].seal.clone()));
    assert_eq!(found(cut, Some(&head)).await, Err(BrokenChain::OtherHead { head: head.clone() }));
    assert_eq!(found("SELECT 1", None).await, Err(BrokenChain::NeverSealed { n: 4 }));
    tamper(&home, "DELETE FROM chain; INSERT INTO chain SELECT * FROM kept_end");
    assert_eq!((chain(&home.store).await, verify(whole.clone(), Some(&head))), (whole, Ok(head)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_changed_in_a_file_is_named() {
    whatever_is_changed_is_named(Home::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_is_changed_in_a_database_is_named() {
    whatever_is_changed_is_named(Home::postgres()).await;
}
