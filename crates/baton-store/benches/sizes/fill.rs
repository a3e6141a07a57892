//! Many rows of each kind, copied by SQL from a few that the store wrote itself.

use baton_core::id::OwnerId;
use baton_core::run::RunStatus;
use baton_store::{Store, Transition};
use rusqlite::Connection;

use crate::home::Home;
use crate::pen::Pen;
use crate::values::{approval, new_thread, run, tenant};

/// The number of the first copied row.
pub(crate) const FIRST: u64 = 1000;
/// One run of this many has failed.
const FAILED: u64 = 16;
/// One run of this many waits for an approval.
const SUSPENDED: u64 = 5;
/// Definitions that runs are pinned to.
const DEFINITIONS: u64 = 50;

/// Starts the runs that are copied: one that ended well (1), one that failed (2), and one that waits for an approval
/// (3). Number 4 has a long log, on a long thread.
pub(crate) async fn templates(store: &Store) {
    let owner = store.enlist().unwrap();
    for n in 1..=4 {
        let name = format!("x{n}");
        store.create_thread(&tenant(), new_thread(&name, 1)).await.unwrap();
        let mut pen = Pen::start(store, owner.id, n, (&name, "main")).await;
        let step = pen.says("something");
        pen.commit(store, step).await.unwrap();
        let last = match n {
            2 => pen.ends(RunStatus::Error),
            3 => Transition { asked: vec![approval("x3", run(3))], ..pen.suspends(1_000_000_000) },
            _ => pen.ends(RunStatus::Ok),
        };
        pen.commit(store, last).await.unwrap();
    }
}

/// The template of a copy, as an expression of its number `k`.
fn template() -> String {
    format!("(CASE WHEN k % {FAILED} = 7 THEN 2 WHEN k % {SUSPENDED} = 1 THEN 3 ELSE 1 END)")
}

/// Fills SQLite with a number of runs.
pub(crate) fn sqlite(home: &Home, size: u64) {
    let db = Connection::open(home.folder().join("baton.db")).unwrap();
    db.pragma_update(None, "journal_mode", "wal").unwrap();
    let (first, last, template) = (FIRST, FIRST + size - 1, template());
    let (long_from, long_to) = (10, size / 10);
    let id = "unhex(printf('%032x', k))";
    db.execute_batch(&format!(
        "BEGIN;
         CREATE TEMP TABLE ks AS WITH RECURSIVE c(k) AS (VALUES({first}) UNION ALL SELECT k + 1 FROM c WHERE k < {last})
           SELECT k, {template} AS t FROM c;
         INSERT INTO threads SELECT k, tenant, 'x' || k, current, created, ttl_at, meta FROM ks JOIN threads ON n = t;
         INSERT INTO branches SELECT tenant, 'x' || k, branch, lane, head,
           iif(run IS NULL, NULL, {id}), from_branch, from_index, touched FROM ks JOIN branches ON thread = 'x' || t;
         INSERT INTO entries SELECT k, lane, idx, unhex(printf('%024x%08x', k, idx)), {id}, envelope, crc
           FROM ks JOIN entries ON thread = t;
         INSERT INTO runs SELECT k, tenant, {id}, 'x' || k, branch, lane, status, owner, epoch, step, seq, inbox, head,
           attempts, 'd' || (k % {DEFINITIONS}), min_version, budget, wake_at, watched_until, created, ended, metadata, due_at
           FROM ks JOIN runs ON n = t;
         INSERT INTO steps SELECT k, step, epoch, frame, first_seq, last_seq, body, crc FROM ks JOIN steps ON run = t;
         INSERT INTO claims SELECT tenant, {id}, 2, 1, {id}, 1 FROM ks JOIN runs ON n = t;
         INSERT INTO approvals SELECT tenant, 'x' || k, {id}, status, created + k, expires_at, body, crc
           FROM ks JOIN approvals ON approval = 'x3' WHERE t = 3;
         INSERT INTO keys SELECT 'local', '/v1/runs', 'k' || k, 'h', {id}, NULL, NULL, 9000000000000 FROM ks;
         INSERT INTO definitions SELECT tenant, 'd' || (k % {DEFINITIONS}), kind, body, crc
           FROM (SELECT k FROM ks LIMIT {DEFINITIONS}) JOIN (SELECT * FROM definitions LIMIT 1);
         DROP TABLE ks;
         CREATE TEMP TABLE ks AS WITH RECURSIVE c(k) AS
           (VALUES({long_from}) UNION ALL SELECT k + 1 FROM c WHERE k < {long_to}) SELECT k FROM c;
         INSERT INTO steps SELECT 4, k, epoch, frame, k, k, body, crc FROM ks JOIN steps ON run = 4 AND step = 2;
         INSERT INTO entries SELECT 4, 0, k, unhex(printf('%016x%016x', 4, k + {LATER})), run, envelope, crc
           FROM ks JOIN entries ON thread = 4 AND idx = 1;
         DROP TABLE ks;
         UPDATE runs SET step = {long_to}, seq = {long_to}, head = {long_to} WHERE n = 4;
         UPDATE branches SET head = {long_to} WHERE thread = 'x4';
         COMMIT;"
    ))
    .unwrap();
}

/// Fills PostgreSQL with a number of runs.
pub(crate) fn postgres(home: &Home, size: u64) {
    let (first, last, template) = (FIRST, FIRST + size - 1, template());
    let (long_from, long_to) = (10, size / 10);
    let id = "lpad(to_hex(k), 32, '0')::uuid";
    home.schema().run(&format!(
        "CREATE TEMP TABLE ks AS SELECT k, {template} AS t, {id} AS id FROM generate_series({first}::bigint, {last}) k;
         ANALYZE ks;
         INSERT INTO threads(tenant, thread, current, created, ttl_at, meta)
           SELECT tenant, 'x' || k, current, created, ttl_at, meta FROM ks JOIN threads ON thread = 'x' || t;
         INSERT INTO branches SELECT tenant, 'x' || k, branch, lane, head, CASE WHEN run IS NULL THEN NULL ELSE id END,
           from_branch, from_index, touched FROM ks JOIN branches ON thread = 'x' || t;
         INSERT INTO entries SELECT tenant, 'x' || k, lane, idx, (lpad(to_hex(k), 24, '0') || lpad(to_hex(idx), 8, '0'))::uuid,
           ks.id, envelope, crc FROM ks JOIN entries e ON thread = 'x' || t;
         INSERT INTO runs(tenant, run, thread, branch, lane, status, owner, epoch, step, seq, inbox, head, attempts,
             definition, min_version, budget, wake_at, due_at, watched_until, created, ended, metadata)
           SELECT tenant, id, 'x' || k, branch, lane, status, owner, epoch, step, seq, inbox, head, attempts,
             'd' || (k % {DEFINITIONS}), min_version, budget, wake_at, due_at, watched_until, created, ended, metadata
           FROM ks JOIN runs ON run = lpad(to_hex(t), 32, '0')::uuid;
         INSERT INTO steps(tenant, run, step, epoch, frame, first_seq, last_seq, body, crc)
           SELECT tenant, id, step, epoch, frame, first_seq, last_seq, body, crc
           FROM ks JOIN steps ON run = lpad(to_hex(t), 32, '0')::uuid;
         INSERT INTO claims SELECT 'local', id, 2, 1, id, 1 FROM ks;
         INSERT INTO approvals SELECT tenant, 'x' || k, id, status, created + k, expires_at, body, crc
           FROM ks JOIN approvals ON approval = 'x3' WHERE t = 3;
         INSERT INTO keys(tenant, route, key, body_hash, run, expires_at)
           SELECT 'local', '/v1/runs', 'k' || k, 'h', id, 9000000000000 FROM ks;
         INSERT INTO definitions SELECT tenant, 'd' || n, kind, body, crc
           FROM generate_series(0, {DEFINITIONS} - 1) n, (SELECT * FROM definitions LIMIT 1) d;
         INSERT INTO steps(tenant, run, step, epoch, frame, first_seq, last_seq, body, crc)
           SELECT tenant, run, k, epoch, frame, k, k, body, crc FROM generate_series({long_from}, {long_to}) k
           JOIN steps ON run = lpad('4', 32, '0')::uuid AND step = 2;
         INSERT INTO entries SELECT tenant, thread, 0, k, (lpad('4', 16, '0') || lpad(to_hex(k + {LATER}), 16, '0'))::uuid, run,
           envelope, crc FROM generate_series({long_from}, {long_to}) k JOIN entries ON thread = 'x4' AND idx = 1;
         UPDATE runs SET step = {long_to}, seq = {long_to}, head = {long_to} WHERE thread = 'x4';
         UPDATE branches SET head = {long_to} WHERE thread = 'x4';
         DROP TABLE ks;
         ANALYZE;"
    ));
}

/// Makes a process the owner of a thousand runs.
pub(crate) fn held(home: &Home, owner: OwnerId) {
    let (first, last) = (1_u64 << 60, (1_u64 << 60) + 999);
    let columns = "tenant, thread, branch, lane, epoch, step, seq, inbox, head, attempts, definition, min_version, budget,
        wake_at, due_at, watched_until, created, metadata";
    match &home.store {
        Store::Sqlite(_) => {
            let db = Connection::open(home.folder().join("baton.db")).unwrap();
            let (id, owner) = ("unhex(printf('%032x', k))", owner.0.simple());
            db.execute_batch(&format!(
                "WITH RECURSIVE c(k) AS (VALUES({first}) UNION ALL SELECT k + 1 FROM c WHERE k < {last})
                 INSERT INTO runs(run, status, owner, {columns}) SELECT {id}, 1, x'{owner}', {columns}
                 FROM c, runs WHERE n = 1"
            ))
            .unwrap();
        }
        _ => {
            let (id, owner) = ("lpad(to_hex(k), 32, '0')::uuid", owner.0);
            home.schema().run(&format!(
                "INSERT INTO runs(run, status, owner, {columns}) SELECT {id}, 1, '{owner}', {columns}
                 FROM generate_series({first}::bigint, {last}) k, runs WHERE run = lpad('1', 32, '0')::uuid"
            ));
        }
    }
}

/// Ids of entries go on after those of the template.
pub(crate) const LATER: u64 = 1 << 40;
