//! The statements that write for several runs at once.
//!
//! Their values are lists, with one item per run or entry: the database's overhead of a statement is spent once. They
//! return the runs that were written, so each run is still accepted or refused by itself. Rows are locked in the order
//! of the lists, which are sorted by run: a connection that writes has no other joins than loops, outer list first. To
//! keep those cheap, the deciding part has few and short columns, and everything else is taken from the lists
//! themselves, if its run is among the accepted ones.

use super::{CombinedRows, HELD, Placeholders};

/// Named lists, as numbered values.
struct Lists {
    values: Placeholders,
    named: Vec<(&'static str, String)>,
}

impl Lists {
    /// Begins after this many values that are no lists.
    fn after(values: u32) -> Lists {
        Lists { values: Placeholders(values), named: Vec::new() }
    }

    fn add(&mut self, columns: &[(&'static str, &str)]) {
        for (name, kind) in columns {
            let list = self.values.next(&format!("{kind}[]"));
            self.named.push((name, list));
        }
    }

    /// Some of the lists side by side, as the rows of a table.
    fn rows(&self, table: &str, names: &str) -> String {
        let list =
            |name: &str| self.named.iter().find(|(known, _)| *known == name).map(|(_, list)| list.as_str());
        let lists: Vec<&str> = names.split(", ").filter_map(list).collect();
        format!("unnest({}) {table}({names})", lists.join(", "))
    }
}

/// The columns of every entry.
const ENTRIES: [(&str, &str); 6] = [
    ("e_run", "uuid"),
    ("e_thread", "text"),
    ("e_idx", "bigint"),
    ("e_id", "uuid"),
    ("e_envelope", "bytea"),
    ("e_crc", "bigint"),
];

/// The columns of every audit event.
const AUDIT: [(&str, &str); 8] = [
    ("a_run", "uuid"),
    ("a_correlation", "text"),
    ("a_at", "bigint"),
    ("a_kind", "text"),
    ("a_source", "text"),
    ("a_payload", "bytea"),
    ("a_crc", "bigint"),
    ("a_send", "bool"),
];

pub(super) fn advances(shared: CombinedRows) -> String {
    let mut lists = Lists::after(0);
    lists.add(&[
        ("tenant", "text"),
        ("run", "uuid"),
        ("epoch", "int"),
        ("step", "int"),
        ("seq", "bigint"),
        ("head", "bigint"),
        ("budget", "bytea"),
        ("progress", "bool"),
        ("inbox", "int"),
        ("events", "bigint"),
        ("frame", "text"),
        ("body", "bytea"),
        ("crc", "bigint"),
        ("lane", "int"),
    ]);
    lists.add(&ENTRIES);
    lists.add(&[("e_tenant", "text"), ("e_lane", "int")]);
    let mut decides = "tenant, run, epoch, step, seq, head, budget, progress, inbox, events, lane".to_owned();
    let (mut set, mut rest) = ("", String::new());
    if shared.marked {
        lists.add(&[("untrusted", "bigint"), ("private", "bigint")]);
        decides += ", untrusted, private";
        rest += ", u AS (INSERT INTO untrusted(tenant, thread, lane, private, idx)
            SELECT tenant, thread, lane, k.private, k.idx
            FROM r, LATERAL (VALUES (false, r.untrusted), (true, r.private)) k(private, idx)
            WHERE k.idx IS NOT NULL ON CONFLICT DO NOTHING)";
    }
    if shared.audit {
        lists.add(&AUDIT);
        lists.add(&[("a_tenant", "text")]);
        rest += &audit("a_tenant", &lists.rows("x", &format!("a_tenant, {}", names(&AUDIT))), "r");
    }
    if shared.ended {
        lists.add(&[("status", "smallint"), ("ended", "bigint")]);
        decides += ", status, ended";
        set = ", status = coalesce(m.status, runs.status), ended = m.ended,
               owner = CASE WHEN m.status IS NULL THEN runs.owner END,
               wake_at = CASE WHEN m.status IS NULL THEN runs.wake_at END,
               due_at = CASE WHEN m.status IS NULL THEN runs.due_at END";
        rest +=
            ", b AS (UPDATE branches SET run = NULL, lane = r.lane, head = r.head, touched = r.ended FROM r
            WHERE r.ended IS NOT NULL AND branches.tenant = r.tenant AND branches.thread = r.thread
            AND branches.branch = r.branch AND branches.run = r.run)";
    }
    let returned = format!(
        "m.tenant, m.run, runs.thread, runs.branch, m.lane, m.head{}{}",
        if shared.marked { ", m.untrusted, m.private" } else { "" },
        if shared.ended { ", m.ended" } else { "" },
    );
    let written = lists.rows("x", &format!("e_tenant, e_lane, {}", names(&ENTRIES)));
    let steps = lists.rows("x", "tenant, run, step, epoch, frame, seq, events, body, crc");
    format!(
        "WITH r AS (
           UPDATE runs SET step = m.step, seq = m.seq, head = m.head, budget = m.budget,
             attempts = CASE WHEN m.progress THEN 0 ELSE runs.attempts END{set}
           FROM {}
           WHERE runs.tenant = m.tenant AND runs.run = m.run AND runs.epoch = m.epoch AND runs.step = m.step - 1
           AND {HELD} AND runs.status = 1 AND runs.seq = m.seq - m.events
           AND (m.inbox IS NULL OR runs.inbox = m.inbox) RETURNING {returned}){rest}{}
         INSERT INTO steps(tenant, run, step, epoch, frame, first_seq, last_seq, body, crc)
         SELECT tenant, run, step, epoch, frame, seq - events + 1, seq, body, crc FROM {steps}
         WHERE run = ANY(ARRAY(SELECT run FROM r)) RETURNING run",
        lists.rows("m", &decides),
        entries("e_tenant", "e_lane", &written, "r"),
    )
}

pub(super) fn begins() -> String {
    let mut lists = Lists::after(4);
    lists.add(&[
        ("run", "uuid"),
        ("thread", "text"),
        ("owner", "uuid"),
        ("seq", "bigint"),
        ("head", "bigint"),
        ("budget", "bytea"),
        ("at", "bigint"),
        ("metadata", "bytea"),
        ("frame", "text"),
        ("body", "bytea"),
        ("crc", "bigint"),
        ("created", "bigint"),
        ("ttl_at", "bigint"),
        ("meta", "bytea"),
    ]);
    lists.add(&ENTRIES);
    lists.add(&AUDIT);
    let threads = lists.rows("x", "run, thread, created, ttl_at, meta");
    let runs = lists.rows("x", "run, thread, owner, seq, head, budget, at, metadata");
    let steps = lists.rows("x", "run, seq, frame, body, crc");
    // A thread belongs to the run that has it in the list, because each run has its own thread. The definition is
    // locked, as where one run begins alone.
    format!(
        "WITH d AS (SELECT 1 FROM definitions WHERE tenant = $1 AND hash = $2::text FOR KEY SHARE),
         f AS (INSERT INTO threads(tenant, thread, current, created, ttl_at, meta)
           SELECT $1, x.thread, $4::text, x.created, x.ttl_at, x.meta FROM d, {threads}
           ON CONFLICT DO NOTHING RETURNING thread),
         g AS MATERIALIZED (SELECT x.run, x.thread, x.at FROM {}
           WHERE x.thread = ANY(ARRAY(SELECT thread FROM f))),
         b AS (INSERT INTO branches(tenant, thread, branch, lane, head, run, touched)
           SELECT $1, thread, $4::text, 0, -1, run, at FROM g),
         r AS (INSERT INTO runs(tenant, run, thread, branch, lane, status, owner, epoch, step, seq, inbox, head,
             attempts, definition, min_version, budget, created, metadata)
           SELECT $1, run, thread, $4::text, 0, 1, owner, 1, 1, seq, 0, head, 0, $2::text, $3::int, budget, at,
             metadata FROM {runs} WHERE run = ANY(ARRAY(SELECT run FROM g))){}{}
         INSERT INTO steps(tenant, run, step, epoch, frame, first_seq, last_seq, body, crc)
         SELECT $1, run, 1, 1, frame, 1, seq, body, crc FROM {steps}
         WHERE run = ANY(ARRAY(SELECT run FROM g)) RETURNING run",
        lists.rows("x", "run, thread, at"),
        entries("$1", "0", &lists.rows("x", &names(&ENTRIES)), "g"),
        audit("$1", &lists.rows("x", &names(&AUDIT)), "g"),
    )
}

fn names(columns: &[(&str, &str)]) -> String {
    columns.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Appends the entries of accepted runs.
fn entries(tenant: &str, lane: &str, rows: &str, decided: &str) -> String {
    format!(
        ", e AS (INSERT INTO entries(tenant, thread, lane, idx, id, run, envelope, crc)
           SELECT {tenant}, e_thread, {lane}, e_idx, e_id, e_run, e_envelope, e_crc FROM {rows}
           WHERE e_run = ANY(ARRAY(SELECT run FROM {decided})))"
    )
}

/// Adds the audit events of accepted runs.
fn audit(tenant: &str, rows: &str, decided: &str) -> String {
    format!(
        ", o AS (INSERT INTO outbox(tenant, correlation, at, kind, source, payload, crc, send)
           SELECT {tenant}, a_correlation, a_at, a_kind, a_source, a_payload, a_crc, a_send FROM {rows}
           WHERE a_run = ANY(ARRAY(SELECT run FROM {decided})))"
    )
}
