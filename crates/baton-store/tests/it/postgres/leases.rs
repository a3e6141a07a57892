//! Liveness of owners, by the lease and by the lock.

use std::time::Duration;

use baton_core::id::{OwnerId, RunId};
use baton_store::{ClaimMode, Owner, PgOptions, PgStore, Store, StoreError};
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::home::{Home, dump};
use crate::pen::Pen;
use crate::postgres_server::{OwnServer, Schema, until};
use crate::values::{at, run, talk, tenant};

async fn claim(store: &Store, owner: OwnerId) -> Result<u32, StoreError> {
    let claimed = store.claim(&tenant(), run(1), owner, ClaimMode::IfFree, at(9)).await;
    claimed.map(|claimed| claimed.row.attempts)
}

/// A run that has an owner, and a second owner that wants to claim it.
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

/// Simulates that every process is on a machine of its own: no lock can be seen from another one.
const APART: &str = "
    CREATE FUNCTION apart() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN NEW.machine := NEW.owner::text; RETURN NEW; END';
    CREATE TRIGGER apart BEFORE INSERT OR UPDATE ON owners FOR EACH ROW EXECUTE FUNCTION apart();
    UPDATE owners SET beat = beat";
/// Owners in this table can no longer write to theirs.
const MUTE: &str = "
    CREATE TABLE muted (owner uuid);
    CREATE FUNCTION mute() RETURNS trigger LANGUAGE plpgsql AS
      'BEGIN IF EXISTS (SELECT 1 FROM muted WHERE owner = NEW.owner) THEN RAISE EXCEPTION ''muted''; END IF;
       RETURN NEW; END';
    CREATE TRIGGER mute BEFORE INSERT OR UPDATE ON owners FOR EACH ROW EXECUTE FUNCTION mute()";

/// Two processes of different machines on one schema, and a run that the first one holds.
struct Apart {
    schema: Schema,
    _folders: [tempfile::TempDir; 2],
    stores: [Store; 2],
    owners: [Owner; 2],
}

impl Apart {
    async fn new(lease: Duration) -> Apart {
        let schema = Schema::new();
        let folders = [0, 1].map(|_| tempfile::tempdir().unwrap());
        let mut stores = Vec::new();
        for folder in &folders {
            let options = PgOptions { lease, ..PgOptions::new(folder.path()) };
            stores.push(Store::Postgres(PgStore::connect(&schema.url, options).await.unwrap()));
        }
        let stores: [Store; 2] = stores.try_into().unwrap();
        let owners = [0, 1].map(|which| stores[which].enlist().unwrap());
        schema.run(APART);
        talk(&stores[0], "t", 1).await;
        Pen::start(&stores[0], owners[0].id, 1, ("t", "main")).await;
        Apart { schema, _folders: folders, stores, owners }
    }

    /// A claim by the second process.
    async fn claim(&self) -> Result<u32, StoreError> {
        claim(&self.stores[1], self.owners[1].id).await
    }

    fn held(&self) -> StoreError {
        StoreError::Held { run: run(1), owner: self.owners[0].id }
    }

    async fn due(&self) -> Vec<RunId> {
        self.stores[1].due(at(0)).await.unwrap().into_iter().map(|(_, run)| run).collect()
    }

    /// The owner that was silent when the run was claimed, and whether that counts as a crash.
    fn lost(&self) -> String {
        self.schema.run("SELECT lost_by, counted FROM claims")
    }

    fn attempts(&self) -> String {
        self.schema.run("SELECT attempts FROM runs")
    }
}

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_of_the_databases_clock_makes_nobody_dead() {
    let two = Apart::new(HOUR).await;
    let before = dump(&two.stores[0]).await;
    for step in ["- interval '1 hour'", "- interval '10 years'", "+ interval '10 years'"] {
        two.schema.run(&format!("UPDATE owners SET expires_at = expires_at {step}"));
        for store in &two.stores {
            assert!(
                store.is_alive(two.owners[0].id).await && store.is_alive(two.owners[1].id).await,
                "{step}"
            );
            assert_eq!(store.due(at(0)).await, Ok(vec![]), "{step}");
        }
        assert_eq!(two.claim().await, Err(two.held()), "{step}");
    }
    assert_eq!(dump(&two.stores[0]).await, before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_is_not_heard_of_for_a_lease_loses_its_run_and_has_not_crashed() {
    let two = Apart::new(HOUR).await;
    assert_eq!(two.due().await, []);
    two.stores[1].unheard(1);
    assert!(!two.stores[1].is_alive(two.owners[0].id).await);
    assert!(two.stores[0].is_alive(two.owners[0].id).await, "only who looked in vain for a lease thinks so");
    assert_eq!(two.due().await, [run(1)]);
    two.schema.run(&format!("UPDATE owners SET beat = beat + 1 WHERE owner = '{}'", two.owners[0].id.0));
    assert_eq!((two.due().await, two.claim().await), (vec![], Err(two.held())), "it is heard of");
    two.stores[1].unheard(1);
    assert_eq!(two.claim().await, Ok(0), "nobody knows whether it died");
    assert_eq!(two.lost(), format!("{}|f", two.owners[0].id.0));
    assert_eq!(two.due().await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_was_silent_for_ten_leases_has_crashed_unless_it_is_heard_of_again() {
    let two = Apart::new(Duration::from_millis(600)).await;
    let silent = two.owners[0].id.0;
    two.schema.run(&format!("{MUTE}; INSERT INTO muted VALUES ('{silent}')"));
    until("it loses its run", || {
        let claimed = block_in_place(|| Handle::current().block_on(two.claim()));
        assert!(claimed == Ok(0) || claimed == Err(two.held()), "{claimed:?}");
        claimed.is_ok()
    });
    assert_eq!((two.attempts(), two.lost()), ("0".to_owned(), format!("{silent}|f")));
    two.stores[1].unheard(10);
    until("it is given up", || two.attempts() == "1");
    assert_eq!(two.lost(), format!("{silent}|t"));
    assert_eq!(two.schema.run(&format!("SELECT count(*) FROM owners WHERE owner = '{silent}'")), "0");
    two.schema.run("DELETE FROM muted");
    until("it is heard of again", || two.attempts() == "0");
    assert_eq!(two.lost(), "|t", "the crash is taken back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_renews_the_claimers_lease_and_claims_nothing_without_one() {
    let two = Apart::new(HOUR).await;
    two.stores[0].release(&tenant(), run(1), 1).await.unwrap();
    let before = dump(&two.stores[0]).await;
    let own = format!("FROM owners WHERE owner = '{}'", two.owners[1].id.0);
    let beat = two.schema.run(&format!("SELECT beat {own}"));
    two.schema.run(&format!("CREATE TABLE kept AS SELECT * {own}; DELETE {own}"));
    let why = "this process has no lease in the database now: it is written again in a moment";
    assert_eq!(two.claim().await, Err(StoreError::Unavailable(why.to_owned())));
    assert_eq!(dump(&two.stores[0]).await, before);
    two.schema.run("INSERT INTO owners SELECT * FROM kept");
    assert_eq!(two.claim().await, Ok(0));
    let after = two.schema.run(&format!("SELECT beat {own}"));
    assert_eq!(after.parse::<i64>().unwrap(), beat.parse::<i64>().unwrap() + 1);
}

/// A process that is stopped, or cut off from the database, on a machine where its lock can be seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_held_says_more_than_any_silence() {
    let home = Home::postgres();
    let (owner, elsewhere, other) = held(&home).await;
    let refused = StoreError::Held { run: run(1), owner: owner.id };
    let of_owner = format!("FROM owners WHERE owner = '{}'", owner.id.0);
    home.schema().run(&format!("{MUTE}; INSERT INTO muted VALUES ('{}')", owner.id.0));
    elsewhere.unheard(100);
    assert_eq!(claim(&elsewhere, other.id).await, Err(refused.clone()));
    home.schema().run(&format!("DELETE {of_owner}")); // as by a process that does not see the lock
    assert!(elsewhere.is_alive(owner.id).await);
    assert_eq!(elsewhere.due(at(0)).await, Ok(vec![]));
    assert_eq!(claim(&elsewhere, other.id).await, Err(refused));
}

/// No process could renew a lease meanwhile, and each finds all others silent when the database is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_was_away_for_longer_than_a_lease_costs_nobody_a_run() {
    let (server, folder) = (OwnServer::start(&[]), tempfile::tempdir().unwrap());
    let options = PgOptions { lease: Duration::from_millis(3000), ..PgOptions::new(folder.path()) };
    let mut stores = Vec::new();
    for _ in 0..2 {
        stores.push(Store::Postgres(PgStore::connect(&server.url(), options.clone()).await.unwrap()));
    }
    let owners: Vec<Owner> = stores.iter().map(|store| store.enlist().unwrap()).collect();
    server.run(APART);
    talk(&stores[0], "t", 1).await;
    Pen::start(&stores[0], owners[0].id, 1, ("t", "main")).await;
    assert_eq!(stores[1].due(at(0)).await, Ok(vec![]));
    for mode in ["fast", "immediate"] {
        server.down_as(mode);
        until("all leases ran out", || owners.iter().all(|owner| !owner.is_current()));
        server.up();
        let refused = StoreError::Held { run: run(1), owner: owners[0].id };
        until("all are renewed again", || {
            let claimed = block_in_place(|| Handle::current().block_on(claim(&stores[1], owners[1].id)));
            assert!(
                matches!(&claimed, Err(error) if *error == refused || error.is_transient()),
                "{mode}: {claimed:?}"
            );
            owners.iter().all(|owner| owner.is_current())
        });
    }
    assert_eq!(server.run("SELECT count(*) FROM claims"), "0");
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
    until("one that is silent for ten leases is forgotten", || {
        store.unheard(10);
        server.run("SELECT count(*) FROM owners WHERE lock = 'l'") == "0"
    });
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
    assert_eq!(owner.lapses(), 0);
    server.down();
    until("its lease ran out", || !owner.is_current());
    server.up();
    until("it is renewed again", || owner.is_current());
    assert_eq!(owner.lapses(), 1, "that it is current again does not say that it was all the time");
}
