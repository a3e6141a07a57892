//! Every write, with each kind of failure: refused, ambiguous and not done, ambiguous and done. A write that was not
//! done changes nothing and can be retried; a retry does not repeat a write that was done.

mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use baton_store::{FaultyStore, Mishap, Store, StoreError, WRITES};

use crate::home::Home;
use stage::Stage;

/// The writes that a retry repeats: an entry that is pushed twice is there twice, and Baton never retries a push; an event
/// that is told twice is in the trail twice, which `docs/services.md` says of calls outside of runs.
const REPEATED: [&str; 2] = ["push", "tell"];

/// The writes of a run itself: on PostgreSQL, where a store of its own takes half a second, the others are tried with
/// `BATON_FULL=1`.
const OF_A_RUN: [&str; 6] = ["claim", "commit", "decide", "enqueue", "release", "start"];

fn is_tried(home: &Home, write: &str) -> bool {
    let is_full = std::env::var_os("BATON_FULL").is_some();
    is_full || !matches!(home.store, Store::Postgres(_)) || OF_A_RUN.contains(&write)
}

on_every_store!(a_write_that_failed_in_any_way_can_be_asked_for_again);

/// Calls a write on a store that fails it in this way.
async fn failing(stage: &Stage, write: &'static str, mishap: Mishap) -> Result<(), StoreError> {
    let faulty = Arc::new(FaultyStore::new(stage.store.clone(), 0, 0));
    faulty.plan(write, 1, mishap);
    let made = stage.make(&Store::Faulty(faulty.clone()), write).await;
    assert_eq!(faulty.called(write), 1, "{write} does not pass through FaultyStore");
    made
}

async fn a_write_that_failed_in_any_way_can_be_asked_for_again(home: Home) {
    for write in WRITES.into_iter().filter(|write| is_tried(&home, write)) {
        let home = home.another();
        let stage = Stage::of(&home, write).await;
        let before = stage.everything().await;
        let refused = failing(&stage, write, Mishap::Refused).await;
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{write}: {refused:?}");
        assert!(stage.everything().await == before, "{write} was refused and done");
        let undone = failing(&stage, write, Mishap::Undone).await;
        assert!(matches!(undone, Err(StoreError::Ambiguous(_))), "{write}: {undone:?}");
        assert!(stage.everything().await == before, "{write} was said not to have been done");
        let untold = failing(&stage, write, Mishap::Untold).await;
        assert!(matches!(untold, Err(StoreError::Ambiguous(_))), "{write}: {untold:?}");
        let after = stage.everything().await;
        assert!(after != before, "{write} was to be done");
        let again = stage.make(&stage.store, write).await;
        assert!(!matches!(&again, Err(error) if error.is_transient()), "{write}: {again:?}");
        let is_same = stage.everything().await == after;
        assert_eq!(is_same, !REPEATED.contains(&write), "{write}, asked for again: {again:?}");
    }
}

/// Every method of the store whose SQLite version writes, according to the source of both.
fn written_in_the_source() -> BTreeSet<String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let surface = methods(&std::fs::read_to_string(source.join("lib.rs")).unwrap());
    let mut bodies = methods(&std::fs::read_to_string(source.join("sqlite.rs")).unwrap());
    for file in std::fs::read_dir(source.join("sqlite")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            bodies.extend(methods(&std::fs::read_to_string(path).unwrap()));
        }
    }
    let mut writing = BTreeSet::from(["write".to_owned()]);
    loop {
        let calls = |body: &String| writing.iter().any(|name| body.contains(&format!("self.{name}(")));
        let found: BTreeSet<String> =
            bodies.iter().filter(|(_, body)| calls(body)).map(|(name, _)| name.clone()).collect();
        if found.is_subset(&writing) {
            break;
        }
        writing.extend(found);
    }
    writing.into_iter().filter(|name| surface.contains_key(name)).collect()
}

/// The `async` methods of a file, by name, with their bodies.
fn methods(source: &str) -> BTreeMap<String, String> {
    let starts = source.split("async fn ").skip(1);
    let method = |text: &str| {
        let name: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let body = text.split("\n    }\n").next().unwrap_or_default();
        (name, body.to_owned())
    };
    starts.map(method).collect()
}

#[test]
fn every_write_of_the_store_is_in_the_list_of_writes() {
    let listed: BTreeSet<String> = WRITES.into_iter().map(str::to_owned).collect();
    assert_eq!(written_in_the_source(), listed, "WRITES, in src/faulty.rs, names every write");
    assert!(WRITES.is_sorted());
}
