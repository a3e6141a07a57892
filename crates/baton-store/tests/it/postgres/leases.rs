//! Who lives, by the lease and by the lock.

use std::time::Duration;

use baton_core::id::OwnerId;
use baton_store::{ClaimMode, PgOptions, PgStore, Store, StoreError};

use crate::home::Home;
use crate::pen::Pen;
use crate::postgres_server::{OwnServer, until};
use crate::values::{at, run, talk, tenant};

async fn claim(store: &Store, owner: OwnerId) -> Result<u32, StoreError> {
    let claimed = store.claim(&tenant(), run(1), owner, ClaimMode::IfFree, at(9)).await;
    claimed.map(|claimed| claimed.row.attempts)
}

/// A run that an owner holds, and somebody else who would have it.
async fn held(home: &Home) -> (baton_store::Owner, Store, baton_store::Owner) {
    let owner = home.store.enlist().unwrap();
    talk(&home.store, "t", 1).await;
    Pen::start(&home.store, owner.id, 1, ("t", "main")).await;
    let elsewhere = home.elsewhere();
    let other = elsewhere.enlist().unwrap();
    let refused = StoreError::Held { run: run(1), owner: owner.id };
    assert_eq!(claim(&elsewhere, other.id).await, Err(refused));
    (owner, elsewhere, other)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_whose_lease_has_expired_counts_as_dead() {
    let home = Home::postgres();
    let (owner, elsewhere, other) = held(&home).await;
    let expired = "UPDATE owners SET expires_at = now() - interval '1 millisecond' WHERE owner = ";
    home.schema().run(&format!("{expired} '{}'", owner.id.0));
    assert!(!elsewhere.is_alive(owner.id).await);
    assert_eq!(elsewhere.due(at(0)).await, Ok(vec![(tenant(), run(1))]));
    assert_eq!(claim(&elsewhere, other.id).await, Ok(1), "an attempt that died");
    assert_eq!(elsewhere.due(at(0)).await, Ok(vec![]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_of_this_machine_whose_lock_is_gone_is_dead_at_once() {
    let home = Home::postgres();
    let (owner, elsewhere, other) = held(&home).await;
    home.store.bury(owner.id);
    let lease = format!(
        "SELECT expires_at > now() + interval '8 seconds' FROM owners WHERE owner = '{}'",
        owner.id.0
    );
    assert_eq!(home.schema().run(&lease), "t", "its lease is as good as new");
    assert!(!elsewhere.is_alive(owner.id).await);
    assert_eq!(elsewhere.due(at(0)).await, Ok(vec![(tenant(), run(1))]));
    assert_eq!(claim(&elsewhere, other.id).await, Ok(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_lease_says_whether_an_owner_of_another_machine_lives() {
    let home = Home::postgres();
    let (owner, elsewhere, other) = held(&home).await;
    let of_owner = format!("WHERE owner = '{}'", owner.id.0);
    home.schema().run(&format!("UPDATE owners SET machine = 'another' {of_owner}"));
    home.store.bury(owner.id);
    assert!(elsewhere.is_alive(owner.id).await);
    // The same machine, but the path leads to another folder there, as in a container.
    home.schema().run(&format!(
        "UPDATE owners SET lock = '1:' || lock, machine = (SELECT machine FROM owners WHERE owner = '{}') {of_owner}",
        other.id.0
    ));
    assert!(elsewhere.is_alive(owner.id).await);
    let refused = StoreError::Held { run: run(1), owner: owner.id };
    assert_eq!(claim(&elsewhere, other.id).await, Err(refused));
    home.schema().run(&format!("DELETE FROM owners {of_owner}"));
    assert_eq!(claim(&elsewhere, other.id).await, Ok(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_renewed_and_taken_back() {
    let (server, folder) = (OwnServer::start(&[]), tempfile::tempdir().unwrap());
    let options = PgOptions { lease: Duration::from_millis(900), ..PgOptions::new(folder.path()) };
    let store = Store::Postgres(PgStore::connect(&server.url(), options).await.unwrap());
    server.run("INSERT INTO owners SELECT gen_random_uuid(), 'm', 'l', now(), now() - interval '1 hour'");
    let owner = store.enlist().unwrap();
    let expires = || server.run("SELECT expires_at FROM owners WHERE lock <> 'l'");
    let first = expires();
    until("it is renewed", || expires() != first);
    assert!(store.is_alive(owner.id).await);
    assert_eq!(
        server.run("SELECT count(*) FROM owners WHERE lock = 'l'"),
        "0",
        "one that died long ago is forgotten"
    );
    let lost = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%owners%' AND pid <> pg_backend_pid()";
    server.run(lost);
    let second = expires();
    until("it is renewed over another connection", || expires() != second);
    let id = owner.id;
    drop(owner);
    assert_eq!(server.run("SELECT count(*) FROM owners"), "0");
    assert!(!store.is_alive(id).await);
}

/// An owner knows by itself when its lease may have run out: here the database does not answer any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_cannot_renew_its_lease_knows_that_it_is_not_current() {
    let (server, folder) = (OwnServer::start(&[]), tempfile::tempdir().unwrap());
    let options = PgOptions { lease: Duration::from_millis(900), ..PgOptions::new(folder.path()) };
    let store = Store::Postgres(PgStore::connect(&server.url(), options).await.unwrap());
    let owner = store.enlist().unwrap();
    let renewals = || server.run("SELECT expires_at FROM owners");
    let first = renewals();
    until("it is renewed", || renewals() != first);
    server.down();
    until("its lease ran out", || !owner.is_current());
    server.up();
    until("it is renewed again", || owner.is_current());
}
