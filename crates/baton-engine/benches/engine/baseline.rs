//! The same SQLite without Baton: the rows that the engine wrote, written again by a plain loop.
//!
//! One thread, prepared statements, as many transitions a transaction as there are runs (at most 64),
//! the same pragmas and the same tables: no engine, no fencing, no savepoints, no channels.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::types::Value;

/// What one transition wrote.
struct Written {
    step: Vec<Value>,
    entries: Vec<Vec<Value>>,
    bytes: usize,
}

pub(crate) struct Sample {
    schema: String,
    transitions: Vec<Written>,
}

impl Sample {
    /// The first transitions of a store that the engine has filled.
    pub(crate) fn of(folder: &Path) -> Sample {
        let db = Connection::open(folder.join("baton.db")).unwrap();
        let ddl =
            rows(&db, "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'");
        let schema = ddl.into_iter().map(|row| text(&row[0])).collect::<Vec<_>>().join(";\n");
        let steps = rows(&db, "SELECT * FROM steps ORDER BY rowid LIMIT 4000");
        let mut entries = rows(&db, "SELECT * FROM entries ORDER BY rowid LIMIT 6000").into_iter();
        // A turn writes twelve entries in eight transitions.
        let share = [1, 2, 1, 2, 1, 2, 1, 1];
        let transitions = steps.into_iter().zip(share.into_iter().cycle()).map(|(step, count)| {
            let entries: Vec<_> = entries.by_ref().take(count).collect();
            let bytes = step.iter().chain(entries.iter().flatten()).map(size).sum();
            Written { step, entries, bytes }
        });
        Sample { schema, transitions: transitions.collect() }
    }

    /// The same rows into the same tables; answers transitions a second.
    pub(crate) fn same_rows(&self, runs: usize, time: Duration) -> f64 {
        let folder = tempfile::tempdir().unwrap();
        let db = connect(folder.path());
        db.execute_batch(&self.schema).unwrap();
        let insert = |table: &str, row: &[Value], n: i64| {
            let marks: Vec<String> = (1..=row.len()).map(|i| format!("?{i}")).collect();
            let sql = format!("INSERT INTO {table} VALUES ({})", marks.join(", "));
            let mut row = row.to_vec();
            row[1] = renewed(&row[1], n);
            db.prepare_cached(&sql).unwrap().execute(rusqlite::params_from_iter(row)).unwrap();
        };
        measure(&db, &self.transitions, runs, time, |written, n| {
            insert("steps", &written.step, n);
            for entry in &written.entries {
                insert("entries", entry, n);
            }
            let sql =
                "UPDATE runs SET step = step + 1, seq = ?2, head = ?3 WHERE tenant = 'local' AND run = ?1";
            db.prepare_cached(sql).unwrap().execute((&written.step[1], n, n)).unwrap();
        })
    }

    /// As many bytes into one table that only grows; answers transitions a second.
    pub(crate) fn one_table(&self, runs: usize, time: Duration) -> f64 {
        let folder = tempfile::tempdir().unwrap();
        let db = connect(folder.path());
        db.execute_batch("CREATE TABLE log (n INTEGER PRIMARY KEY, body BLOB NOT NULL)").unwrap();
        let filler = vec![b'x'; 1 << 16];
        measure(&db, &self.transitions, runs, time, |written, _| {
            let sql = "INSERT INTO log(body) VALUES (?1)";
            db.prepare_cached(sql).unwrap().execute([&filler[..written.bytes.min(filler.len())]]).unwrap();
        })
    }
}

fn measure(
    db: &Connection,
    all: &[Written],
    runs: usize,
    time: Duration,
    write: impl Fn(&Written, i64),
) -> f64 {
    let begun = Instant::now();
    let mut count = 0i64;
    while begun.elapsed() < time {
        db.execute_batch("BEGIN IMMEDIATE").unwrap();
        for _ in 0..runs.min(64) {
            write(&all[count as usize % all.len()], count / all.len() as i64);
            count += 1;
        }
        db.execute_batch("COMMIT").unwrap();
    }
    count as f64 / begun.elapsed().as_secs_f64()
}

fn connect(folder: &Path) -> Connection {
    let db = Connection::open(folder.join("plain.db")).unwrap();
    db.pragma_update(None, "journal_mode", "WAL").unwrap();
    db.pragma_update(None, "synchronous", "FULL").unwrap();
    db.pragma_update(None, "wal_autocheckpoint", 4000).unwrap();
    db.set_prepared_statement_cache_capacity(64);
    db
}

/// The key of a row, made new for another pass over the sample.
fn renewed(key: &Value, n: i64) -> Value {
    match key {
        Value::Blob(bytes) => {
            let mut bytes = bytes.clone();
            bytes[8..].copy_from_slice(&n.to_be_bytes());
            let own = bytes.len();
            bytes[own - 8] ^= key_noise(key);
            Value::Blob(bytes)
        }
        Value::Text(text) => Value::Text(format!("{text}{n}")),
        other => other.clone(),
    }
}

fn key_noise(key: &Value) -> u8 {
    if let Value::Blob(bytes) = key { bytes.iter().fold(0, |sum, byte| sum ^ byte) & 0x7f } else { 0 }
}

fn rows(db: &Connection, sql: &str) -> Vec<Vec<Value>> {
    let mut statement = db.prepare(sql).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| (0..columns).map(|at| row.get(at)).collect()).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

fn text(value: &Value) -> String {
    if let Value::Text(text) = value { text.clone() } else { String::new() }
}

fn size(value: &Value) -> usize {
    match value {
        Value::Blob(bytes) => bytes.len(),
        Value::Text(text) => text.len(),
        _ => 8,
    }
}
