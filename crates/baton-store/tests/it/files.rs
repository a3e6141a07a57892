//! Promises of a store in a folder beyond those of the others: private files, data that survives, and owners that other
//! processes can tell apart from dead ones.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use baton_core::id::OwnerId;
use baton_core::run::RunStatus;
use baton_store::{SqliteStore, Store, Transition};
use uuid::Uuid;

use crate::home::{Home, dump};
use crate::pen::Pen;
use crate::values::{approval, at, input, run, talk, tenant, thread};

/// Every file and folder below a path, with its mode.
fn modes(folder: &Path, under: &str, found: &mut BTreeMap<String, u32>) {
    for item in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let name = format!("{under}{}", item.file_name().into_string().unwrap());
        let meta = item.metadata().unwrap();
        found.insert(name.clone(), meta.permissions().mode() & 0o777);
        if meta.is_dir() {
            modes(&item.path(), &format!("{name}/"), found);
        }
    }
}

#[tokio::test]
async fn nobody_else_can_read_the_data() {
    let outside = tempfile::tempdir().unwrap();
    let folder = outside.path().join("deep").join("data");
    let store = Store::Sqlite(SqliteStore::open(&folder).unwrap().store);
    let owner = store.enlist().unwrap();
    talk(&store, "t", 3).await;
    let mut found = BTreeMap::new();
    modes(&folder, "", &mut found);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let life = format!("live/{}", owner.id);
    let expected = [
        ("baton.db", 0o600),
        ("baton.db-shm", 0o600),
        ("baton.db-wal", 0o600),
        ("live", 0o700),
        (life.as_str(), 0o600),
        ("live/gate", 0o600),
        ("live/room", 0o600),
    ];
    assert_eq!(found, expected.map(|(name, mode)| (name.to_owned(), mode)).into());
}

/// A number that is free again may be given to the next thread or run: no row with that number may be left.
#[tokio::test]
async fn what_a_thread_leaves_behind_is_nothing_under_its_number_and_those_of_its_runs() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::Sqlite(SqliteStore::open(folder.path()).unwrap().store);
    let owner = store.enlist().unwrap();
    let db = rusqlite::Connection::open(folder.path().join("baton.db")).unwrap();
    let counted = || -> [i64; 4] {
        ["threads", "entries", "runs", "steps"].map(|table| {
            let sql = format!("SELECT count(*) FROM {table}");
            db.query_row(&sql, [], |row| row.get(0)).unwrap()
        })
    };
    for name in ["one", "another"] {
        talk(&store, name, 2).await;
        let mut pen = Pen::start(&store, owner.id, 1, (name, "main")).await;
        pen.commit(&store, pen.ends(RunStatus::Ok)).await.unwrap();
        let numbers: [i64; 2] = ["entries", "steps"].map(|table| {
            let of = if table == "entries" { "thread" } else { "run" };
            db.query_row(&format!("SELECT max({of}) FROM {table}"), [], |row| row.get(0)).unwrap()
        });
        assert_eq!((numbers, counted()), ([1, 1], [1, 4, 1, 2]), "{name}");
        store.delete_thread(&tenant(), &thread(name), None).await.unwrap();
        assert_eq!(counted(), [0; 4], "{name}");
    }
}

#[tokio::test]
async fn a_new_file_has_pages_for_several_transitions_and_an_old_one_keeps_its_own() {
    let pages = |folder: &Path| -> u32 {
        let db = rusqlite::Connection::open(folder.join("baton.db")).unwrap();
        db.pragma_query_value(None, "page_size", |row| row.get(0)).unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    let _new = SqliteStore::open(folder.path()).unwrap();
    assert_eq!(pages(folder.path()), 8192);
    let folder = tempfile::tempdir().unwrap();
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v3/baton.db");
    std::fs::copy(golden, folder.path().join("baton.db")).unwrap();
    let old = Store::Sqlite(SqliteStore::open(folder.path()).unwrap().store);
    talk(&old, "t", 3).await;
    assert_eq!(pages(folder.path()), 1024);
}

#[tokio::test]
async fn what_was_written_is_there_when_the_folder_is_opened_again() {
    let home = Home::sqlite();
    let owner = home.store.enlist().unwrap();
    talk(&home.store, "t", 3).await;
    let mut pen = Pen::start(&home.store, owner.id, 1, ("t", "main")).await;
    let asked = vec![approval("ap", pen.run)];
    pen.commit(&home.store, Transition { asked, ..pen.says("may I?") }).await.unwrap();
    home.store.post(&tenant(), pen.run, input("hello"), None, at(30)).await.unwrap();
    home.store.put_blob(&tenant(), &baton_core::json::sha256_hex(b"x"), b"x".to_vec(), at(1)).await.unwrap();
    let before = dump(&home.store).await;
    assert_eq!(dump(&home.elsewhere()).await, before, "another process sees the same");

    let folder = home.folder().to_owned();
    let Home { store, .. } = &home;
    let Store::Sqlite(inner) = store else { panic!("a store in a folder") };
    assert_eq!(inner.folder(), folder);
    let opened = SqliteStore::open(&folder).unwrap();
    assert_eq!(opened.backup, None, "a file of this version is not copied");
    let reopened = Store::Sqlite(opened.store);
    assert_eq!(dump(&reopened).await, before);
    assert_eq!(reopened.blob(&tenant(), &baton_core::json::sha256_hex(b"x")).await, Ok(Some(b"x".to_vec())));
    pen.commit(&reopened, pen.ends(RunStatus::Ok)).await.unwrap();
}

/// The last handle is dropped, with its writer's thread and its connections.
#[tokio::test]
async fn a_store_that_was_closed_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let mut expected = None;
    for round in 1..=4_u128 {
        let store = Store::Sqlite(SqliteStore::open(folder.path()).unwrap().store);
        if let Some(expected) = expected {
            assert_eq!(dump(&store).await, expected);
        }
        let owner = store.enlist().unwrap();
        let id = format!("t{round}");
        talk(&store, &id, 2).await;
        let mut pen = Pen::start(&store, owner.id, round, (&id, "main")).await;
        pen.commit(&store, pen.ends(RunStatus::Ok)).await.unwrap();
        expected = Some(dump(&store).await);
    }
    assert_eq!(
        expected.unwrap().runs.iter().map(|run| run.row.id).collect::<Vec<_>>(),
        [4, 3, 2, 1].map(run)
    );
}

#[tokio::test]
async fn an_owner_lives_for_every_process_until_it_is_gone() {
    let home = Home::sqlite();
    let elsewhere = home.elsewhere();
    let (one, two) = (home.store.enlist().unwrap(), elsewhere.enlist().unwrap());
    for store in [&home.store, &elsewhere] {
        assert_eq!((store.is_alive(one.id).await, store.is_alive(two.id).await), (true, true));
    }
    let gone = one.id;
    drop(one);
    for store in [&home.store, &elsewhere, &home.store] {
        assert_eq!((store.is_alive(gone).await, store.is_alive(two.id).await), (false, true));
    }
    assert!(!home.store.is_alive(OwnerId(Uuid::from_u128(99))).await, "one that never was");
    drop(home.store.enlist());
    let mut left = BTreeMap::new();
    modes(&home.folder().join("live"), "", &mut left);
    assert_eq!(left.len(), 3, "the gate, the room and one life: {left:?}");
}

/// Checking an owner is harmless: two processes that check at the same time do not take each other for the owner.
#[tokio::test]
async fn those_who_look_do_not_take_each_other_for_the_owner() {
    let home = Home::sqlite();
    let dead = OwnerId(Uuid::from_u128(9));
    let path = home.folder().join("live").join(dead.to_string());
    std::fs::write(&path, "").unwrap();
    let looking = std::fs::File::open(&path).unwrap();
    looking.lock_shared().unwrap();
    assert!(!home.store.is_alive(dead).await);
    assert!(!path.exists(), "and it is cleared away");
}
