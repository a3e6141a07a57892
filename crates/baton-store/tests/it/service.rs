//! The data that a service keeps beside threads and runs.

mod audit;
mod calls;
mod gc;
mod keys;
mod outbox;
mod queue;
mod sweeping;
pub(crate) mod tokens;
pub(crate) mod waiting;

use baton_core::id::{RunId, Tenant};
use baton_store::{AuditEvent, KeyRow, NewKey, NewQueued, PinnedDefinition, Store};
use serde_json::json;

use crate::home::Home;
use crate::values::{at, branch, definition, run, thread};

pub(crate) fn theirs() -> Tenant {
    "theirs".parse().unwrap()
}

pub(crate) fn new_key(key: &str, expires_ms: u64) -> NewKey {
    NewKey {
        route: "/v1/runs".to_owned(),
        key: key.to_owned(),
        body_hash: format!("hash of {key}"),
        expires_at: at(expires_ms),
    }
}

/// The row of a key that led to a run.
pub(crate) fn led_to(key: &str, run: RunId) -> KeyRow {
    KeyRow { body_hash: format!("hash of {key}"), run: Some(run), owner: None, answer: None }
}

pub(crate) fn new_queued(n: u128, on: (&str, &str)) -> NewQueued {
    NewQueued {
        run: run(n),
        thread: thread(on.0),
        branch: branch(on.1),
        text: format!("what {n} says"),
        definition: PinnedDefinition::new(definition()),
        at: at(40 + n as u64),
        metadata: json!({"for": "tests"}),
        key: None,
        most: 16,
        first: false,
        capped: Vec::new(),
        new_thread: None,
    }
}

pub(crate) fn event(n: u64, send: bool) -> AuditEvent {
    AuditEvent {
        at: at(n),
        correlation: format!("c{}", n % 2),
        kind: "agent.started".to_owned(),
        source: "baton".to_owned(),
        payload: json!({"n": n}),
        send,
    }
}

/// The number of rows of a table; `None` where there are no tables.
fn counted(home: &Home, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    match home.store {
        Store::Memory(_) => 0,
        Store::Postgres(_) => home.schema().run(&sql).trim().parse().unwrap(),
        _ => database(home).query_row(&sql, [], |row| row.get(0)).unwrap(),
    }
}

/// Changes stored data behind the store's back.
fn tamper(home: &Home, sql: &str) {
    match home.store {
        Store::Postgres(_) => drop(home.schema().run(sql)),
        _ => database(home).execute_batch(sql).unwrap(),
    }
}

fn database(home: &Home) -> rusqlite::Connection {
    rusqlite::Connection::open(home.folder().join("baton.db")).unwrap()
}
