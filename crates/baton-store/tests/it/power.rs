//! A loss of power, and a disk whose sync fails: all acknowledged data is there afterwards, whole.
//!
//! SIGKILL leaves the page cache in place, so it cannot show this. Here SQLite writes through a file system of the
//! tests that loses all data that was not synced, or keeps any part of it.

mod disk;

use baton_core::run::RunStatus;
use baton_store::{SqliteStore, Store, StoreError, Transition};
use proptest::prelude::Rng;
use proptest::test_runner::{RngAlgorithm, TestRng};

use crate::home::{Dump, dump};
use crate::pen::Pen;
use crate::values::{approval, at, input, new_thread, tenant, user};
use disk::Disk;

fn rounds() -> u64 {
    if std::env::var_os("BATON_FULL").is_some() { 1_000 } else { 60 }
}

/// The number of writes in [`write`].
const WRITES: usize = 24;

/// A store, and the run that is written to it.
struct Story {
    store: Store,
    owner: baton_core::id::OwnerId,
    pen: Option<Pen>,
}

impl Story {
    /// The n-th write of the story; the same for every store.
    async fn write(&mut self, n: usize) -> Result<(), StoreError> {
        let store = &self.store;
        match (n, &mut self.pen) {
            (0, _) => store.create_thread(&tenant(), new_thread("t", 0)).await,
            (1, pen) => {
                let mut new = Pen { lane: 0, ..Pen::for_new(store, 1, ("t", "main")).await };
                let first = new.next(vec![user("go")], vec![]);
                new.lane = store.start(&tenant(), new.new_run(self.owner), first.clone()).await?;
                new.written(&first);
                *pen = Some(new);
                Ok(())
            }
            (5, Some(pen)) => {
                let asked = vec![approval("ap", pen.run)];
                pen.commit(store, Transition { asked, ..pen.says("may I?") }).await
            }
            (6, Some(pen)) => store.post(&tenant(), pen.run, input("hello"), None, at(30)).await.map(drop),
            (7, _) => {
                let bytes = vec![7; 100_000];
                let hash = baton_core::json::sha256_hex(&bytes);
                store.put_blob(&tenant(), &hash, bytes, at(1)).await
            }
            (23, Some(pen)) => pen.commit(store, pen.ends(RunStatus::Ok)).await,
            // Some are longer than a page, so that a commit is several writes.
            (n, Some(pen)) => pen.commit(store, pen.says(&"word ".repeat(n * n * 20))).await,
            (n, None) => unreachable!("write {n} needs a run"),
        }
    }
}

/// All states that the story passes through, from empty to its end.
async fn states(owner: baton_core::id::OwnerId) -> Vec<Dump> {
    let mut story = Story { store: Store::memory(), owner, pen: None };
    let mut states = vec![dump(&story.store).await];
    for n in 0..WRITES {
        story.write(n).await.unwrap();
        states.push(dump(&story.store).await);
    }
    states
}

fn sound(folder: &std::path::Path) {
    let db = rusqlite::Connection::open(folder.join("baton.db")).unwrap();
    let said: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(said, "ok");
}

/// The data that is found after the power was cut.
async fn found(disk: &Disk, rng: &mut TestRng) -> Dump {
    let folder = tempfile::tempdir().unwrap();
    disk.survivors(folder.path(), rng);
    let store = Store::Sqlite(SqliteStore::open(folder.path()).unwrap().store);
    let found = dump(&store).await;
    drop(store);
    sound(folder.path());
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_outlives_a_loss_of_power_at_any_write() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1_u64);
    for round in seed..seed + rounds() {
        let mut rng = TestRng::from_seed(RngAlgorithm::ChaCha, &{
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&round.to_le_bytes());
            bytes
        });
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::under(folder.path());
        let store = Store::Sqlite(SqliteStore::open(folder.path()).unwrap().store);
        let owner = store.enlist().unwrap();
        let expected = states(owner.id).await;
        // The whole story takes some 200 changes and syncs; in some rounds it comes to its end first.
        disk.cut_after(u64::from(rng.next_u32() % 220));
        let mut story = Story { store, owner: owner.id, pen: None };
        let mut acknowledged = 0;
        while acknowledged < WRITES && story.write(acknowledged).await.is_ok() {
            acknowledged += 1;
        }
        let found = found(&disk, &mut rng).await;
        let next = expected.get(acknowledged + 1).is_some_and(|next| *next == found);
        assert!(
            found == expected[acknowledged] || next,
            "round {round} (SEED={round} shows it): {acknowledged} writes were acknowledged, and found was {found:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_sync_fails_is_not_acknowledged_and_can_be_made_again() {
    for failing in 0..WRITES {
        let mut rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        let folder = tempfile::tempdir().unwrap();
        let disk = Disk::under(folder.path());
        let store = Store::Sqlite(SqliteStore::open(folder.path()).unwrap().store);
        let owner = store.enlist().unwrap();
        let expected = states(owner.id).await;
        let mut story = Story { store, owner: owner.id, pen: None };
        for (n, before) in expected.iter().take(WRITES).enumerate() {
            if n == failing {
                disk.fail_syncs(1);
                let refused = story.write(n).await.unwrap_err();
                assert!(refused.is_transient(), "write {n}: {refused}");
                assert_eq!(dump(&story.store).await, *before, "write {n} cannot be seen");
            }
            story.write(n).await.unwrap();
        }
        assert_eq!(dump(&story.store).await, expected[WRITES]);
        assert_eq!(found(&disk, &mut rng).await, expected[WRITES], "and a loss of power takes nothing of it");
        assert!(disk.made() > WRITES as u64);
    }
}

/// The test's own disk must be able to lose data: a store that does not sync would not pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_does_not_sync_loses_what_it_acknowledged() {
    let mut rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let folder = tempfile::tempdir().unwrap();
    let disk = Disk::under(folder.path());
    let db = rusqlite::Connection::open(folder.path().join("baton.db")).unwrap();
    db.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (x)").unwrap();
    db.execute_batch("PRAGMA synchronous = OFF").unwrap();
    for n in 0..20 {
        db.execute("INSERT INTO t VALUES (?1)", [n]).unwrap();
    }
    let survived = tempfile::tempdir().unwrap();
    disk.survivors(survived.path(), &mut rng);
    let db = rusqlite::Connection::open(survived.path().join("baton.db")).unwrap();
    let rows = db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0));
    assert!(rows.unwrap_or(0) < 20);
}
