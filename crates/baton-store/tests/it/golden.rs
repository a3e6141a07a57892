//! Stored data of every released version stays readable: files of each version, read by this build.
//!
//! A folder holds the additions of one database version: its file, and the records that came with it. The
//! files of an older version never change. Until the first release, those of the newest one follow the
//! format: delete `tests/golden/v6` and run this module with `UPDATE=1` to write them anew.

mod governed;
mod samples;
mod served;

use std::fs;
use std::path::PathBuf;

use baton_core::budget::Budget;
use baton_core::flow::{Flow, FlowRecord};
use baton_core::run::Usage;
use baton_core::thread::Entry;
use baton_store::{
    BranchEnd, PinnedDefinition, RunFilter, Slice, SqliteStore, Store, decode_envelope, encode_envelope,
    verify,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::home::{Dump, dump};
use crate::service::event;
use crate::values::{self, at, call, numbered, run, tenant, thread, untrusted};

fn file(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden", name].iter().collect()
}

/// The bytes of a file. One that is missing is written first, if `UPDATE` asks for it.
fn stored(name: &str, made: impl FnOnce() -> Vec<u8>) -> Vec<u8> {
    let path = file(name);
    if std::env::var_os("UPDATE").is_some() && !path.exists() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, made()).unwrap();
    }
    fs::read(path).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

fn pretty(value: &Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}

fn envelope(entry: &Entry) -> Value {
    parsed(&encode_envelope(entry, samples::AT).unwrap())
}

fn entries() -> Vec<(String, Entry)> {
    let first = samples::entries().into_iter().chain(samples::later_entries());
    let first = first.map(|(name, entry)| (format!("v1/entry_{name}.json"), entry));
    let governed = governed::entries().into_iter();
    let governed = governed.map(|(name, entry)| (format!("v2/entry_{name}.json"), entry));
    let marked = [("private", values::private("c-1")), ("file", values::file("c-1"))];
    let marked = marked.map(|(name, entry)| (format!("v6/entry_tool_result_{name}.json"), entry));
    first.chain(governed).chain(marked).collect()
}

/// Reads a record with this build, compares it, and writes it to the same JSON again.
fn same<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(name: &str, expected: &T) {
    let stored = parsed(&stored(name, || pretty(&serde_json::to_value(expected).unwrap())));
    let read: T = serde_json::from_value(stored.clone()).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(&read, expected, "{name}");
    assert_eq!(serde_json::to_value(&read).unwrap(), stored, "{name}");
}

#[test]
fn envelopes_are_read_and_written_alike() {
    for (name, entry) in entries() {
        let bytes = stored(&name, || pretty(&envelope(&entry)));
        assert_eq!(decode_envelope(&bytes), Ok((entry.clone(), samples::AT)), "{name}");
        assert_eq!(envelope(&entry), parsed(&bytes), "{name}");
    }
}

/// Another zstd may compress the same text into other bytes; only the decompressed text counts.
#[test]
fn a_compressed_envelope_is_read() {
    let entry = samples::long_entry();
    let bytes = stored("v1/entry_compressed.json", || pretty(&envelope(&entry)));
    assert_eq!(parsed(&bytes)["compressed"], true);
    assert_eq!(decode_envelope(&bytes), Ok((entry.clone(), samples::AT)));
    let again = encode_envelope(&entry, samples::AT).unwrap();
    assert_eq!(decode_envelope(&again), Ok((entry, samples::AT)));
}

#[test]
fn records_are_read_and_written_alike() {
    same("v1/checkpoint.json", &samples::checkpoint());
    same("v1/checkpoint_of_a_question.json", &samples::checkpoint_of_a_question());
    same("v1/definition.json", &samples::definition());
    same("v1/definition_by_roles.json", &samples::definition_by_roles());
    same("v1/approval_pending.json", &samples::pending());
    same("v1/approval_edited.json", &samples::edited());
    same("v1/budget.json", &samples::budget());
    for (name, message) in samples::messages() {
        same(&format!("v1/message_{name}.json"), &message);
    }
    same("v2/checkpoint.json", &governed::checkpoint());
    same("v2/definition.json", &governed::definition());
    same("v2/definition_in_folders.json", &governed::definition_in_folders());
    same("v2/approval_outcome.json", &governed::asked());
    same("v2/approval_outcome_found.json", &governed::answered());
    same("v2/message_outcome.json", &governed::answer());
    same("v2/budget.json", &governed::budget());
    same("v6/budget.json", &Budget { estimated: 11, ..governed::budget() });
    same("v6/usage.json", &Usage { estimated: true, ..governed::budget().usage() });
}

/// A flow can go on from the state in a checkpoint.
#[test]
fn a_turn_goes_on_from_its_stored_state() {
    let flow = Flow::restore(governed::setting(), governed::state()).unwrap();
    let mut data = parsed(governed::state().data.get().as_bytes());
    // Empty lists are no longer written.
    data["receipt"].as_object_mut().unwrap().retain(|_, calls| calls != &Value::Array(vec![]));
    let today = FlowRecord::new("turn", 3, &data);
    assert_eq!((flow.record(), flow.waiting()), (today, governed::waiting()));
}

/// Runs find their definition by this hash: it must not change with the order of fields.
#[test]
fn the_hash_of_a_definition_is_what_it_was() {
    for (version, definition) in [("v1", samples::definition()), ("v2", governed::definition())] {
        let hash = PinnedDefinition::new(definition).hash.clone();
        let stored = stored(&format!("{version}/definition.sha256"), || format!("{hash}\n").into_bytes());
        assert_eq!(String::from_utf8(stored).unwrap(), format!("{hash}\n"), "{version}");
    }
}

fn version(path: &std::path::Path) -> i64 {
    let db = rusqlite::Connection::open(path).unwrap();
    db.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

/// Opens a store on a copy of a version's file; returns the path of its backup as well.
fn opened(folder: &tempfile::TempDir, name: &str) -> (Store, Option<PathBuf>) {
    fs::copy(file(name), folder.path().join("baton.db")).unwrap();
    let opened = SqliteStore::open(folder.path()).unwrap();
    (Store::Sqlite(opened.store), opened.backup)
}

#[tokio::test]
async fn a_file_of_version_1_is_copied_brought_up_to_date_read_and_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let (store, backup) = opened(&folder, "v1/baton.db");
    let copy = folder.path().join("baton.db.format-1");
    assert_eq!(backup, Some(copy.clone()));
    assert_eq!((version(&copy), version(&folder.path().join("baton.db"))), (1, 6));
    let again = SqliteStore::open(folder.path()).unwrap();
    assert_eq!(again.backup, None, "once");
    let expected = Store::memory();
    samples::fill(&expected).await;
    assert_eq!(dump(&store).await, written_by(1, 1, dump(&expected).await));
    reads_alike(&store, &expected, 2).await;
    samples::go_on(&store).await;
    samples::go_on(&expected).await;
    let (goes_on, expected) = (dump(&store).await, dump(&expected).await);
    assert_eq!(written_by(1, 1, goes_on), written_by(1, 1, expected), "and goes on");

    let (t, other) = (thread("golden"), crate::values::branch("other"));
    let end = store.end(&tenant(), &t, Some(&other)).await.unwrap();
    assert_eq!(end.untrusted, None, "version 1 knew no untrusted content");
    for (n, entry) in (500..).zip([call("new"), untrusted("new")]) {
        store.push(&tenant(), &t, Some(&other), numbered(n, entry)).await.unwrap();
    }
    let expected = BranchEnd { head: end.head + 2, untrusted: Some(end.head + 2), written_by: None, ..end };
    assert_eq!(store.end(&tenant(), &t, Some(&other)).await, Ok(expected));
}

#[tokio::test]
async fn a_file_of_version_2_is_copied_brought_up_to_date_read_and_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let (store, backup) = opened(&folder, "v2/baton.db");
    let copy = folder.path().join("baton.db.format-2");
    assert_eq!(backup, Some(copy.clone()));
    assert_eq!((version(&copy), version(&folder.path().join("baton.db"))), (2, 6));
    let expected = Store::memory();
    governed::fill(&expected).await;
    assert_eq!(dump(&store).await, written_by(3, 3, of_unknown_privacy(dump(&expected).await)));
    reads_alike(&store, &expected, 3).await;
    let begins = async |name: &str| {
        let end = store.end(&tenant(), &thread("governed"), Some(&crate::values::branch(name))).await;
        end.map(|end| (end.untrusted, end.private)).unwrap()
    };
    let begins = [begins("main").await, begins("after").await, begins("clean").await];
    let both = |index| (Some(index), Some(index)); // version 2 did not record whether it was private
    assert_eq!(begins, [both(2), both(2), both(3)]);
    governed::go_on(&store).await;
    governed::go_on(&expected).await;
    let (goes_on, expected) = (dump(&store).await, of_unknown_privacy(dump(&expected).await));
    assert_eq!(written_by(3, 3, goes_on), written_by(3, 3, expected), "and goes on");
    assert_eq!(store.approval(&tenant(), &governed::asked().id).await, Ok(governed::answered()));
}

#[tokio::test]
async fn a_file_of_version_3_is_copied_brought_up_to_date_read_and_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let (store, backup) = opened(&folder, "v3/baton.db");
    let copy = folder.path().join("baton.db.format-3");
    assert_eq!(backup, Some(copy.clone()));
    assert_eq!((version(&copy), version(&folder.path().join("baton.db"))), (3, 6));
    is_what_was_served(&store, Trail::Older, of_unknown_privacy).await;
}

/// A sender may report an event as sent twice: its number must not belong to another event by then.
#[tokio::test]
async fn the_numbers_of_events_go_on_from_version_3_even_where_none_is_left() {
    let sealed = "UPDATE outbox SET sealed = 1";
    for emptied in ["DELETE FROM outbox", sealed, &format!("{sealed}; DELETE FROM sqlite_sequence")] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("baton.db");
        fs::copy(file("v3/baton.db"), &path).unwrap();
        let db = rusqlite::Connection::open(&path).unwrap();
        let last: i64 = db.query_row("SELECT seq FROM sqlite_sequence", [], |row| row.get(0)).unwrap();
        db.execute_batch(emptied).unwrap();
        let store = Store::Sqlite(SqliteStore::open(folder.path()).unwrap().store);
        assert_eq!(store.seal(99).await, Ok(0), "{emptied}: nothing is sealed twice");
        store.receive(&tenant(), event(8, false), None).await.unwrap();
        let n: i64 = db.query_row("SELECT max(n) FROM outbox", [], |row| row.get(0)).unwrap();
        assert_eq!(n, last + 1, "{emptied}");
        assert_eq!(store.seal(99).await, Ok(1), "{emptied}");
    }
}

#[tokio::test]
async fn a_file_of_version_4_is_copied_brought_up_to_date_read_and_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let (store, backup) = opened(&folder, "v4/baton.db");
    let copy = folder.path().join("baton.db.format-4");
    assert_eq!(backup, Some(copy.clone()));
    assert_eq!((version(&copy), version(&folder.path().join("baton.db"))), (4, 6));
    is_what_was_served(&store, Trail::Older, of_unknown_privacy).await;
}

#[tokio::test]
async fn a_file_of_version_5_is_copied_brought_up_to_date_read_and_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let (store, backup) = opened(&folder, "v5/baton.db");
    let copy = folder.path().join("baton.db.format-5");
    assert_eq!(backup, Some(copy.clone()));
    assert_eq!((version(&copy), version(&folder.path().join("baton.db"))), (5, 6));
    is_what_was_served(&store, Trail::Known, of_unknown_privacy).await;
}

#[tokio::test]
async fn a_file_of_version_6_is_opened_read_and_written_to() {
    let folder = tempfile::tempdir().unwrap();
    if std::env::var_os("UPDATE").is_some() && !file("v6/baton.db").exists() {
        fs::create_dir_all(file("v6")).unwrap();
        fs::write(file("v6/baton.db"), database().await).unwrap();
    }
    let (store, backup) = opened(&folder, "v6/baton.db");
    assert_eq!((version(&file("v6/baton.db")), backup), (6, None));
    is_what_was_served(&store, Trail::Known, |dump| dump).await;
}

/// Whether a file's trail was sealed by a version that recorded the origin of its rows.
#[derive(Clone, Copy, PartialEq)]
enum Trail {
    Older,
    Known,
}

async fn is_what_was_served(store: &Store, trail: Trail, as_read: fn(Dump) -> Dump) {
    let expected = Store::memory();
    served::fill(&expected).await;
    assert_eq!(dump(store).await, as_read(dump(&expected).await));
    assert_eq!(kept(store, trail).await, kept(&expected, trail).await);
    let head = whole(store, None).await;
    let sealed = store.audit(None, 0, 99).await.unwrap();
    let external = if trail == Trail::Older { None } else { Some(false) };
    assert_eq!(sealed.iter().map(|row| row.external).collect::<Vec<_>>(), [external; 4]);
    served::go_on(store).await;
    served::go_on(&expected).await;
    assert_eq!(dump(store).await, as_read(dump(&expected).await), "and goes on");
    assert_eq!(kept(store, trail).await, kept(&expected, trail).await);
    assert_ne!(whole(store, Some(&head)).await, head);
    let grown = store.audit(None, 0, 99).await.unwrap();
    assert_eq!(grown[..4], sealed, "what was sealed stays as it was");
    assert!(grown[4..].iter().all(|row| row.external.is_some()));
}

/// The stored service data. Rows of an older trail have other hashes, and so have all that follow them.
async fn kept(store: &Store, trail: Trail) -> served::Kept {
    let mut kept = served::kept(store).await;
    if trail == Trail::Older {
        for row in &mut kept.audit {
            (row.external, row.prev, row.seal) = (None, String::new(), String::new());
        }
    }
    kept
}

/// The hash of a chain's last row; the chain fits the end that was noted.
async fn whole(store: &Store, head: Option<&str>) -> String {
    let end = store.chain_end().await.unwrap();
    let rows = store.audit(None, 0, 99).await.unwrap();
    assert_eq!((verify(rows.clone(), head), rows.len() as i64), (Ok(end.head.clone()), end.rows));
    end.head
}

/// Compares the parts of the first runs that a dump does not show: events, definitions, due runs, blobs.
async fn reads_alike(store: &Store, expected: &Store, runs: u128) {
    for n in 1..=runs {
        let hash = store.run(&tenant(), run(n)).await.unwrap().definition;
        let events = store.events(&tenant(), run(n), 1, 99).await;
        assert_eq!(events, expected.events(&tenant(), run(n), 1, 99).await);
        assert_eq!(store.definition(&tenant(), &hash).await, expected.definition(&tenant(), &hash).await);
    }
    assert_eq!(store.due(at(0)).await, Ok(vec![(tenant(), run(2))]), "it has a message that it has not read");
    let blob = baton_core::json::sha256_hex(samples::BLOB);
    assert_eq!(store.blob(&tenant(), &blob).await, Ok(Some(samples::BLOB.to_vec())));
}

/// The dump of this build for data of a version that did not record private data: where content is untrusted, it may be
/// private.
fn of_unknown_privacy(mut dump: Dump) -> Dump {
    for (_, lines) in &mut dump.threads {
        lines.iter_mut().for_each(|(_, end, _)| end.private = end.untrusted);
    }
    dump
}

/// A dump of this build as if an older one had written it: the older build could drive its runs, too.
fn written_by(run_version: u32, checkpoint_version: u32, mut dump: Dump) -> Dump {
    for run in &mut dump.runs {
        run.row.min_version = run_version;
        run.steps.iter_mut().for_each(|step| step.checkpoint.v = checkpoint_version);
    }
    dump
}

/// A file as the store leaves it, in one piece and with small pages.
async fn database() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::Sqlite(SqliteStore::open(folder.path()).unwrap().store);
    served::fill(&store).await;
    assert!(store.runs(&tenant(), &RunFilter { limit: 9, ..RunFilter::default() }).await.unwrap().len() == 5);
    assert!(!store.entries(&tenant(), &thread("golden"), None, Slice::default()).await.unwrap().is_empty());
    drop(store);
    let whole = folder.path().join("whole.db");
    let db = rusqlite::Connection::open(folder.path().join("baton.db")).unwrap();
    db.execute("VACUUM INTO ?1", [whole.to_str().unwrap()]).unwrap();
    let db = rusqlite::Connection::open(&whole).unwrap();
    db.execute_batch("PRAGMA journal_mode = DELETE; PRAGMA page_size = 1024; VACUUM").unwrap();
    drop(db);
    fs::read(whole).unwrap()
}
