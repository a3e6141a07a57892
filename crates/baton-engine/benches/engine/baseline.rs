//! The same SQLite without Baton: the rows that the engine wrote, written again by a plain loop.
//!
//! One thread, prepared statements, as many transitions a transaction as there are runs (at most 64), the
//! same pragmas, tables and indexes: no engine, no fencing, no savepoints, no channels, no locks.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::types::Value;

type Row = Vec<Value>;

/// The writes of one transition: rows to insert, and the run that it advanced.
struct Written {
    inserts: Vec<(&'static str, Row)>,
    run: Value,
    thread: Value,
    ends: bool,
    bytes: usize,
}

pub(crate) struct Sample {
    schema: String,
    transitions: Vec<Written>,
}

impl Sample {
    /// The transitions of a store that the engine has filled with whole turns, in the order of commits.
    pub(crate) fn of(folder: &Path) -> Sample {
        let db = Connection::open(folder.join("baton.db")).unwrap();
        let ddl =
            rows(&db, "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'");
        let schema = ddl.iter().map(|row| text(&row[0])).collect::<Vec<_>>().join(";\n");
        let mut by_thread: HashMap<i64, Vec<Row>> = HashMap::new();
        for entry in rows(&db, "SELECT * FROM entries ORDER BY rowid LIMIT 60000") {
            by_thread.entry(number(&entry[0])).or_default().push(entry);
        }
        let mut runs: HashMap<i64, (Row, i64)> = HashMap::new();
        let sql =
            "SELECT t.n, r.* FROM runs r JOIN threads t USING (tenant, thread) WHERE status = 3 LIMIT 5000";
        for mut run in rows(&db, sql) {
            let thread = number(&run.remove(0));
            runs.insert(number(&run[0]), (run, thread));
        }
        let mut transitions = Vec::new();
        for step in rows(&db, "SELECT * FROM steps ORDER BY rowid LIMIT 20000") {
            let Some((run, thread)) = runs.get(&number(&step[0])) else { continue };
            let Some(entries) = by_thread.get_mut(thread) else { continue };
            transitions.push(Written::of(step, run, *thread, entries));
        }
        Sample { schema, transitions }
    }

    /// The same rows into the same tables; answers transitions a second.
    pub(crate) fn same_rows(&self, runs: usize, time: Duration) -> f64 {
        let folder = tempfile::tempdir().unwrap();
        let db = connect(folder.path());
        db.execute_batch(&self.schema).unwrap();
        measure(&db, &self.transitions, runs, time, |written, pass| {
            for (table, row) in &written.inserts {
                let marks: Vec<String> = (1..=row.len()).map(|i| format!("?{i}")).collect();
                let sql = format!("INSERT INTO {table} VALUES ({})", marks.join(", "));
                let row = row.iter().enumerate().map(|(at, value)| match value {
                    // A number in the first column is that of a thread or a run.
                    Value::Integer(n) if at == 0 => Value::Integer(n + pass as i64 * 1_000_000),
                    _ if *value == written.run || *value == written.thread => renewed(value, pass),
                    _ => value.clone(),
                });
                db.prepare_cached(&sql).unwrap().execute(rusqlite::params_from_iter(row)).unwrap();
            }
            let (run, thread) = (renewed(&written.run, pass), renewed(&written.thread, pass));
            let sql = "UPDATE runs SET step = step + 1, seq = seq + 9, head = head + 1 WHERE tenant = 'local' AND run = ?1";
            assert_eq!(db.prepare_cached(sql).unwrap().execute([&run]).unwrap(), 1);
            if written.ends {
                let sql = "UPDATE runs SET status = 4, owner = NULL WHERE tenant = 'local' AND run = ?1";
                db.prepare_cached(sql).unwrap().execute([&run]).unwrap();
                let sql = "UPDATE branches SET run = NULL, head = 11 WHERE tenant = 'local' AND thread = ?1";
                db.prepare_cached(sql).unwrap().execute([&thread]).unwrap();
            }
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

impl Written {
    /// A step, its entries, and with the first one all rows that a run begins with.
    fn of(step: Row, run: &Row, thread_number: i64, entries: &mut Vec<Row>) -> Written {
        let (number, id, thread) = (step[1].clone(), run[2].clone(), run[3].clone());
        let (first, ends) = (number == Value::Integer(1), number == Value::Integer(8));
        let count = if matches!(number, Value::Integer(2 | 4 | 6)) { 2 } else { 1 };
        let mut inserts = Vec::new();
        if first {
            let local = || Value::Text("local".to_owned());
            let (null, zero) = (Value::Null, Value::Integer(0));
            inserts.push((
                "threads",
                vec![
                    Value::Integer(thread_number),
                    local(),
                    thread.clone(),
                    Value::Text("main".to_owned()),
                    zero.clone(),
                    null.clone(),
                    Value::Blob(b"null".to_vec()),
                ],
            ));
            inserts.push((
                "branches",
                vec![
                    local(),
                    thread.clone(),
                    Value::Text("main".to_owned()),
                    zero.clone(),
                    Value::Integer(-1),
                    id.clone(),
                    null.clone(),
                    null.clone(),
                    zero.clone(),
                ],
            ));
            inserts.push(("runs", run.clone()));
        }
        inserts.extend(entries.drain(..count.min(entries.len())).map(|entry| ("entries", entry)));
        inserts.push(("steps", step));
        let bytes = inserts.iter().flat_map(|(_, row)| row).map(size).sum();
        Written { inserts, run: id, thread, ends, bytes }
    }
}

fn measure(
    db: &Connection,
    all: &[Written],
    runs: usize,
    time: Duration,
    write: impl Fn(&Written, u64),
) -> f64 {
    let begun = Instant::now();
    let mut count = 0;
    while begun.elapsed() < time {
        db.prepare_cached("BEGIN IMMEDIATE").unwrap().execute([]).unwrap();
        for _ in 0..runs.min(64) {
            write(&all[count % all.len()], (count / all.len()) as u64);
            count += 1;
        }
        db.prepare_cached("COMMIT").unwrap().execute([]).unwrap();
    }
    count as f64 / begun.elapsed().as_secs_f64()
}

fn connect(folder: &Path) -> Connection {
    let db = Connection::open(folder.join("plain.db")).unwrap();
    db.pragma_update(None, "page_size", 8192).unwrap();
    db.pragma_update(None, "journal_mode", "WAL").unwrap();
    db.pragma_update(None, "synchronous", "FULL").unwrap();
    db.pragma_update(None, "wal_autocheckpoint", 1000).unwrap();
    db.set_prepared_statement_cache_capacity(64);
    db
}

/// A key, made new for another pass over the sample.
fn renewed(key: &Value, pass: u64) -> Value {
    match key {
        Value::Blob(bytes) => {
            let mut bytes = bytes.clone();
            let at = bytes.len() - 8;
            for (byte, by) in bytes[at..].iter_mut().zip(pass.to_be_bytes()) {
                *byte ^= by;
            }
            Value::Blob(bytes)
        }
        Value::Text(text) => Value::Text(format!("{text}{pass}")),
        other => other.clone(),
    }
}

fn rows(db: &Connection, sql: &str) -> Vec<Row> {
    let mut statement = db.prepare(sql).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| (0..columns).map(|at| row.get(at)).collect()).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

fn text(value: &Value) -> String {
    if let Value::Text(text) = value { text.clone() } else { String::new() }
}

fn number(value: &Value) -> i64 {
    if let Value::Integer(number) = value { *number } else { 0 }
}

fn size(value: &Value) -> usize {
    match value {
        Value::Blob(bytes) => bytes.len(),
        Value::Text(text) => text.len(),
        _ => 8,
    }
}
