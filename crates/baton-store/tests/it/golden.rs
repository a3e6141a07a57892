//! Stored data of every released version stays readable: files of each version, read by this build.
//!
//! The files of a released version never change. Until the first release, those of version 1 follow the
//! format: delete `tests/golden/v1` and run this module with `UPDATE=1` to write them anew.

mod samples;

use std::fs;
use std::path::PathBuf;

use baton_core::thread::Entry;
use baton_store::{Pinned, RunFilter, Slice, SqliteStore, Store, decode_envelope, encode_envelope};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::home::{Dump, dump};
use crate::values::{at, run, tenant, thread};

fn file(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "golden", "v1", name].iter().collect()
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&fs::read(file(name)).unwrap()).unwrap()
}

/// Reads a record as this build does, compares it, and writes it to the same JSON again.
fn same<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(name: &str, expected: &T) {
    let stored = json(name);
    let read: T = serde_json::from_value(stored.clone()).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert_eq!(&read, expected, "{name}");
    assert_eq!(serde_json::to_value(&read).unwrap(), stored, "{name}");
}

#[test]
fn envelopes_of_version_1_are_read_and_written_alike() {
    for (name, entry) in samples::entries().into_iter().chain(samples::later_entries()) {
        let name = format!("entry_{name}.json");
        let bytes = fs::read(file(&name)).unwrap();
        assert_eq!(decode_envelope(&bytes), Ok((entry.clone(), samples::AT)), "{name}");
        let again: Value = serde_json::from_slice(&encode_envelope(&entry, samples::AT).unwrap()).unwrap();
        assert_eq!(again, json(&name), "{name}");
    }
}

/// Another zstd may pack the same text into other bytes; what it says is what counts.
#[test]
fn a_compressed_envelope_of_version_1_is_read() {
    let (entry, stored) = (samples::long_entry(), json("entry_compressed.json"));
    assert_eq!(stored["compressed"], true);
    let bytes = fs::read(file("entry_compressed.json")).unwrap();
    assert_eq!(decode_envelope(&bytes), Ok((entry.clone(), samples::AT)));
    let again = encode_envelope(&entry, samples::AT).unwrap();
    assert_eq!(decode_envelope(&again), Ok((entry, samples::AT)));
}

#[test]
fn records_of_version_1_are_read_and_written_alike() {
    same("checkpoint.json", &samples::checkpoint());
    same("checkpoint_of_a_question.json", &samples::checkpoint_of_a_question());
    same("definition.json", &samples::definition());
    same("definition_by_roles.json", &samples::definition_by_roles());
    same("approval_pending.json", &samples::pending());
    same("approval_edited.json", &samples::edited());
    same("budget.json", &samples::budget());
    for (name, message) in samples::messages() {
        same(&format!("message_{name}.json"), &message);
    }
}

/// Runs find their definition by this hash: it must not change, whatever the order of fields.
#[test]
fn the_hash_of_a_definition_is_what_it_was() {
    let stored = fs::read_to_string(file("definition.sha256")).unwrap();
    assert_eq!(Pinned::new(samples::definition()).hash, stored.trim());
}

#[tokio::test]
async fn a_file_of_version_1_is_opened_read_and_written_to() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(file("baton.db"), folder.path().join("baton.db")).unwrap();
    let opened = SqliteStore::open(folder.path()).unwrap();
    assert_eq!(opened.backup, None);
    let store = Store::Sqlite(opened.store);
    let expected = Store::memory();
    samples::fill(&expected).await;
    assert_eq!(dump(&store).await, of_version_1(dump(&expected).await));
    for n in [1, 2] {
        let (events, hash) = (
            store.events(&tenant(), run(n), 1, 99).await,
            store.run(&tenant(), run(n)).await.unwrap().definition,
        );
        assert_eq!(events, expected.events(&tenant(), run(n), 1, 99).await);
        assert_eq!(store.definition(&tenant(), &hash).await, expected.definition(&tenant(), &hash).await);
    }
    assert_eq!(store.due(&tenant(), at(0)).await, Ok(vec![run(2)]), "it has a message that it has not read");
    let blob = baton_core::json::sha256_hex(samples::BLOB);
    assert_eq!(store.blob(&tenant(), &blob).await, Ok(Some(samples::BLOB.to_vec())));
    samples::go_on(&store).await;
    samples::go_on(&expected).await;
    let (goes_on, expected) = (dump(&store).await, dump(&expected).await);
    assert_eq!(of_version_1(goes_on), of_version_1(expected), "and goes on");
}

/// What this build writes, as an older one wrote it: its runs could be driven by that one, too.
fn of_version_1(mut dump: Dump) -> Dump {
    for run in &mut dump.runs {
        run.row.min_version = 1;
        run.steps.iter_mut().for_each(|step| step.checkpoint.v = 1);
    }
    dump
}

/// Writes what is missing of the version in the making; `UPDATE=1` asks for it.
#[tokio::test]
async fn write_what_is_missing() {
    if std::env::var_os("UPDATE").is_none() {
        return;
    }
    let put = |name: &str, bytes: Vec<u8>| {
        let path = file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if !path.exists() {
            fs::write(path, bytes).unwrap();
        }
    };
    let pretty = |value: Value| format!("{value:#}\n").into_bytes();
    let envelope =
        |entry: &Entry| serde_json::from_slice(&encode_envelope(entry, samples::AT).unwrap()).unwrap();
    for (name, entry) in samples::entries().into_iter().chain(samples::later_entries()) {
        put(&format!("entry_{name}.json"), pretty(envelope(&entry)));
    }
    put("entry_compressed.json", pretty(envelope(&samples::long_entry())));
    for (name, message) in samples::messages() {
        put(&format!("message_{name}.json"), pretty(serde_json::to_value(message).unwrap()));
    }
    put("checkpoint.json", pretty(serde_json::to_value(samples::checkpoint()).unwrap()));
    let asked = samples::checkpoint_of_a_question();
    put("checkpoint_of_a_question.json", pretty(serde_json::to_value(asked).unwrap()));
    let by_roles = samples::definition_by_roles();
    put("definition_by_roles.json", pretty(serde_json::to_value(by_roles).unwrap()));
    put("definition.json", pretty(serde_json::to_value(samples::definition()).unwrap()));
    put("definition.sha256", format!("{}\n", Pinned::new(samples::definition()).hash).into_bytes());
    put("approval_pending.json", pretty(serde_json::to_value(samples::pending()).unwrap()));
    put("approval_edited.json", pretty(serde_json::to_value(samples::edited()).unwrap()));
    put("budget.json", pretty(serde_json::to_value(samples::budget()).unwrap()));
    put("baton.db", database().await);
}

/// A file as the store leaves it, in one piece and with small pages.
async fn database() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::Sqlite(SqliteStore::open(folder.path()).unwrap().store);
    samples::fill(&store).await;
    assert!(store.runs(&tenant(), &RunFilter { limit: 9, ..RunFilter::default() }).await.unwrap().len() == 2);
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
