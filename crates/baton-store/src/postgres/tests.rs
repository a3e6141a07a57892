//! Tests that need the inside of the store: the plans of its statements.

#[path = "../../tests/it/postgres_server.rs"]
pub(super) mod server;

pub(super) mod made;

use baton_core::run::{ApprovalStatus, RunStatus};

use super::statement::{CombinedRows, ExtraRows, Form, Halt, RowCount, StartKind};
use super::{
    PgOptions, PgStore, approvals, claim, due, entries, group, inbox, keeper, lease, outbox, row, runs,
};
use server::Schema;

/// A store in a schema of its own.
pub(super) async fn store(writers: usize) -> (PgStore, Schema, tempfile::TempDir) {
    let (schema, folder) = (Schema::new(), tempfile::tempdir().unwrap());
    let options = PgOptions { writers, ..PgOptions::new(folder.path()) };
    (PgStore::connect(&schema.url, options).await.unwrap(), schema, folder)
}

/// Rows of every table that hot statements touch, enough that an index is worth using.
const MANY: &str = "
INSERT INTO threads(tenant, thread, current, created, meta)
  SELECT 't' || n % 3, 'th' || n, 'main', n, '{}' FROM generate_series(1, 4000) n;
INSERT INTO branches(tenant, thread, branch, lane, head, touched)
  SELECT 't' || n % 3, 'th' || n, 'main', 0, 5, n FROM generate_series(1, 4000) n;
INSERT INTO entries SELECT 't' || n % 3, 'th' || n, 0, i, gen_random_uuid(), NULL, 'x', 1
  FROM generate_series(1, 4000) n, generate_series(0, 5) i;
INSERT INTO lanes SELECT 't' || n % 3, 'th' || n, 1, 0, 3, 'main' FROM generate_series(1, 4000) n;
INSERT INTO untrusted(tenant, thread, lane, idx) SELECT 't' || n % 3, 'th' || n, 0, 3 FROM generate_series(1, 4000) n;
INSERT INTO runs(tenant, run, thread, branch, lane, status, owner, epoch, step, seq, inbox, head, attempts, definition,
    min_version, budget, due_at, created, metadata)
  SELECT 't' || n % 3, gen_random_uuid(), 'th' || n, 'main', 0,
    CASE WHEN n % 100 = 0 THEN 1 WHEN n % 100 = 1 THEN 2 ELSE 3 END,
    CASE WHEN n % 100 = 0 AND n % 200 = 0 THEN gen_random_uuid() END, 1, 3, 9, 0, 5, 0, 'd', 1, '{}',
    CASE WHEN n % 100 = 1 THEN n END, n, '{}' FROM generate_series(1, 4000) n;
INSERT INTO steps SELECT tenant, run, i, 1, 'root', i, i, 'x', 1 FROM runs, generate_series(1, 3) i;
INSERT INTO claims SELECT tenant, run, 2, 1, gen_random_uuid(), 1 FROM runs;
INSERT INTO inbox SELECT tenant, run, 1, 'input', 1, 'x', 1 FROM runs;
INSERT INTO approvals SELECT tenant, run::text, run, CASE WHEN created % 50 = 0 THEN 'pending' ELSE 'approved' END,
    created, 1, 'x', 1 FROM runs;
INSERT INTO definitions SELECT 't' || n % 3, 'd' || n, 'run', 'x', 1 FROM generate_series(1, 4000) n;
INSERT INTO keys SELECT 't' || n % 3, '/v1/runs', 'k' || n, 'h', NULL, NULL, NULL, 1 FROM generate_series(1, 4000) n;
INSERT INTO queued(tenant, thread, branch, run, body, crc)
  SELECT tenant, thread, branch, run, 'x', 1 FROM runs WHERE created <= 2000;
INSERT INTO outbox(tenant, correlation, at, kind, source, payload, crc, send, sealed)
  SELECT 't1', 'c' || n, n, 'k', 's', 'x', 1, n % 50 = 0, n % 50 <> 0 FROM generate_series(1, 4000) n;
INSERT INTO owners SELECT gen_random_uuid(), 'm', 'l', now(), now() FROM generate_series(1, 4000) n;
ANALYZE;";

/// The statements that write.
fn writes() -> Vec<(String, String)> {
    let mut forms = vec![Form::Post, Form::Release, Form::Watch];
    let (both, counts) = ([false, true], [RowCount::None, RowCount::One, RowCount::Many]);
    for (entries, audit) in counts.iter().flat_map(|a| counts.map(|b| (*a, b))) {
        for (marked, asked) in both.iter().flat_map(|a| both.map(|b| (*a, b))) {
            let parts = ExtraRows { entries, marked, asked, audit, ..ExtraRows::default() };
            forms.extend([Halt::No, Halt::Suspended, Halt::Ended].map(|halt| Form::Advance(parts, halt)));
        }
    }
    for (key, definition) in both.iter().flat_map(|a| both.map(|b| (*a, b))) {
        for rows in [RowCount::One, RowCount::Many] {
            let parts = ExtraRows { entries: rows, audit: rows, key, definition, ..ExtraRows::default() };
            forms.extend([StartKind::Fresh, StartKind::Branch].map(|origin| Form::Begin(origin, parts)));
        }
    }
    forms.push(Form::Begins);
    for (marked, audit) in both.iter().flat_map(|a| both.map(|b| (*a, b))) {
        forms.extend(both.map(|ended| Form::Advances(CombinedRows { marked, audit, ended })));
    }
    forms.into_iter().map(|form| (format!("{form:?}"), form.sql())).collect()
}

/// The statements that processes run again and again.
fn reads() -> Vec<(String, String)> {
    let reads = [
        ("run", row::RUN),
        ("usage", runs::USAGE),
        ("steps", runs::STEPS),
        ("steps with", runs::STEPS_WITH),
        ("an entry's place", super::place::PLACE),
        ("claims", runs::CLAIMS),
        ("definition", runs::DEFINITION),
        ("pulses", runs::PULSES),
        ("news", runs::NEWS),
        ("heads", runs::HEADS),
        ("watch all", runs::WATCH_ALL),
        ("inbox", inbox::INBOX),
        ("posted", inbox::POSTED),
        ("approval", approvals::APPROVAL),
        ("asked at", approvals::ASKED_AT),
        ("thread", super::threads::THREAD),
        ("threads", super::threads::THREADS),
        ("let go", due::LET_GO),
        ("asleep", due::ASLEEP),
        ("holders", due::HOLDERS),
        ("held", due::HELD),
        ("in line", due::IN_LINE),
        ("candidates", due::CANDIDATES),
        ("the end of a branch", entries::END),
        ("entries", entries::ENTRIES),
        ("owner", lease::OWNER),
        ("holder", claim::HOLDER),
        ("take", claim::TAKE),
        ("key", super::keys::KEY),
        ("unsent", outbox::DEPTH),
        ("unsent of others", outbox::UNSENT_BESIDE),
    ];
    let all = reads.iter().chain(&keeper::ASKED);
    let mut reads: Vec<_> = all.map(|(name, sql)| ((*name).to_owned(), (*sql).to_owned())).collect();
    for status in RunStatus::ALL.map(Some).into_iter().chain([None]) {
        for on_thread in [false, true] {
            reads.push((
                format!("runs that are {status:?}, on a thread: {on_thread}"),
                runs::listing(status, on_thread),
            ));
        }
    }
    for status in [None, Some(ApprovalStatus::Pending), Some(ApprovalStatus::Approved)] {
        reads.push((format!("approvals that are {status:?}"), approvals::listing(status)));
    }
    reads
}

/// The plan of a connection for a statement, for all values.
async fn planned(db: &tokio_postgres::Client, name: &str, sql: &str) -> String {
    db.batch_execute(&format!("PREPARE hot AS {sql}")).await.unwrap_or_else(|e| panic!("{name}: {e:?}"));
    let count = "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'hot'";
    let count: i32 = db.query_one(count, &[]).await.unwrap().get(0);
    let values = vec!["NULL"; count as usize].join(", ");
    let values = if values.is_empty() { values } else { format!("({values})") };
    let plan = db.simple_query(&format!("EXPLAIN (FORMAT JSON) EXECUTE hot{values}")).await.unwrap();
    db.batch_execute("DEALLOCATE hot").await.unwrap();
    let plan: String = plan
        .iter()
        .filter_map(|message| match message {
            tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        })
        .collect();
    assert!(plan.contains("Node Type"), "{name}: {plan}");
    plan
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_hot_statement_reads_a_whole_table() {
    let (store, schema, _folder) = store(1).await;
    schema.run(MANY);
    let (db, _served) = store.shared.dial.connect().await.unwrap();
    let mode = db.query_one("SHOW plan_cache_mode", &[]).await.unwrap();
    assert_eq!(mode.get::<_, &str>(0), "force_generic_plan", "so that values make no difference");
    for (name, sql) in reads() {
        let plan = planned(&db, &name, &sql).await;
        assert!(!plan.contains("\"Seq Scan\""), "{name}: {plan}");
    }
    schema.run("UPDATE runs SET owner = NULL; ANALYZE runs");
    db.batch_execute(group::link::SESSION).await.unwrap();
    for (name, sql) in writes() {
        let plan = planned(&db, &name, &sql).await;
        assert!(!plan.contains("\"Seq Scan\""), "{name}: {plan}");
        assert!(!plan.contains("\"runs_held\""), "{name} looks through all runs that are held: {plan}");
    }
}

/// A plan is made when tables may still be empty, and is kept while they grow. Loops find rows by key and lock them in
/// the order of their list.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_write_depends_on_how_few_rows_there_were() {
    let (store, _schema, _folder) = store(1).await;
    let (db, _served) = store.shared.dial.connect().await.unwrap();
    db.batch_execute(group::link::SESSION).await.unwrap();
    for (name, sql) in writes() {
        let plan = planned(&db, &name, &sql).await;
        for bad in ["\"Seq Scan\"", "\"Hash Join\"", "\"Merge Join\"", "\"Sort\"", "\"runs_held\""] {
            assert!(!plan.contains(bad), "{name}: {plan}");
        }
    }
}
