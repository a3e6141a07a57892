//! The statements of the hot path: each is one write of a run, whole or not at all.
//!
//! The part that comes first decides (it returns a row or none), and everything else is written from its row. A refused
//! statement therefore changes nothing and returns no row; the reason is found afterwards, because the statement may
//! have seen older data than its refusal. The form of a statement decides which parts it has, so that a plain advance
//! does not pay for parts that it does not need.

mod several;

use std::fmt::Write;

/// A statement that is prepared once for each connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// Writes a transition.
    Advance(ExtraRows, Halt),
    /// Begins a run.
    Begin(StartKind, ExtraRows),
    /// Writes transitions of several runs.
    Advances(CombinedRows),
    /// Begins several runs of one definition, each on a thread of its own.
    Begins,
    /// Posts a message that is not a decision.
    Post,
    /// Releases a run.
    Release,
    /// Notes that a run is watched.
    Watch,
}

/// The rows that are written beside the run and its step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct ExtraRows {
    pub(super) entries: RowCount,
    /// The first entries with untrusted content or private data.
    pub(super) marked: bool,
    pub(super) asked: bool,
    pub(super) audit: RowCount,
    /// Only where a run begins.
    pub(super) key: bool,
    /// Only where a run begins.
    pub(super) definition: bool,
}

/// The number of rows to write: one row, the most frequent case, needs no list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) enum RowCount {
    #[default]
    None,
    One,
    Many,
}

impl RowCount {
    pub(super) fn of(count: usize) -> RowCount {
        match count {
            0 => RowCount::None,
            1 => RowCount::One,
            _ => RowCount::Many,
        }
    }
}

/// The rows that at least one of several transitions writes beside its run, its step and its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct CombinedRows {
    /// The first entries with untrusted content or private data.
    pub(super) marked: bool,
    pub(super) audit: bool,
    pub(super) ended: bool,
}

/// The status of a run after a transition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Halt {
    No,
    Suspended,
    Ended,
}

/// The place where a run begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum StartKind {
    /// On a thread that is created with it.
    Fresh,
    /// On a branch that may extend its lane.
    Branch,
}

impl Form {
    /// The text of the statement. Its values are numbered in the order in which [`super::pack`] pushes them.
    pub(super) fn sql(self) -> String {
        match self {
            Form::Advance(parts, halt) => advance(parts, halt),
            Form::Begin(origin, parts) => begin(origin, parts),
            Form::Advances(shared) => several::advances(shared),
            Form::Begins => several::begins(),
            Form::Post => POST.to_owned(),
            Form::Release => RELEASE.to_owned(),
            Form::Watch => WATCH.to_owned(),
        }
    }
}

const POST: &str = "WITH p AS (
    UPDATE runs SET inbox = inbox + 1, due_at = CASE WHEN status = 2 THEN 0 ELSE due_at END
    WHERE tenant = $1 AND run = $2 AND status < 3
    AND NOT EXISTS (SELECT 1 FROM inbox WHERE tenant = $1 AND run = $2 AND input_hash = $7::text)
    RETURNING inbox)
  INSERT INTO inbox(tenant, run, n, kind, at, body, crc, input_hash)
  SELECT $1, $2::uuid, p.inbox, $3, $4::bigint, $5::bytea, $6::bigint, $7::text FROM p RETURNING n";

const RELEASE: &str =
    "UPDATE runs SET owner = NULL WHERE tenant = $1 AND run = $2 AND epoch = $3 AND status = 1";

const WATCH: &str = "UPDATE runs SET watched_until = $3 WHERE tenant = $1 AND run = $2";

/// The run has an owner. Not `IS NOT NULL`: while few are held, PostgreSQL would look for it among all of those, and
/// among the ends of all that were held since the last vacuum, instead of by its key.
pub(super) const HELD: &str = "num_nonnulls(runs.owner) = 1";

/// Leaves a stored definition as it is, but locks its row, so that it cannot be removed meanwhile.
pub(super) const KEEP: &str = "ON CONFLICT (tenant, hash) DO UPDATE SET kind = 'run' WHERE false";

/// Numbers the values of a statement.
struct Placeholders(u32);

impl Placeholders {
    fn next(&mut self, kind: &str) -> String {
        self.0 += 1;
        format!("${}::{kind}", self.0)
    }
}

fn advance(parts: ExtraRows, halt: Halt) -> String {
    let mut values = Placeholders(13);
    // Both have the same numbers in every form that needs either.
    let (thread, lane) = match parts.entries != RowCount::None || parts.marked || halt == Halt::Ended {
        true => (values.next("text"), values.next("int")),
        false => Default::default(),
    };
    let mut rest = String::new();
    rest += &entries(parts.entries, "r", &thread, &lane, "$6::bigint", &mut values);
    if parts.marked {
        let (untrusted, private) = (values.next("bigint"), values.next("bigint"));
        let _ = write!(
            rest,
            ", u AS (INSERT INTO untrusted(tenant, thread, lane, private, idx)
               SELECT $1, {thread}, {lane}, k.private, k.idx
               FROM r, (VALUES (false, {untrusted}), (true, {private})) k(private, idx)
               WHERE k.idx IS NOT NULL ON CONFLICT DO NOTHING)"
        );
    }
    if parts.asked {
        rest += &asked(&mut values);
    }
    rest += &audit(parts.audit, "r", &mut values);
    let mut set = String::new();
    match halt {
        Halt::No => {}
        Halt::Suspended => {
            let (wake, read) = (values.next("bigint"), values.next("int"));
            let _ = write!(
                set,
                ", status = 2, owner = NULL, wake_at = {wake},
                  due_at = CASE WHEN inbox > {read} THEN 0 ELSE {wake} END"
            );
        }
        Halt::Ended => {
            let (status, at) = (values.next("smallint"), values.next("bigint"));
            let _ =
                write!(set, ", status = {status}, owner = NULL, wake_at = NULL, due_at = NULL, ended = {at}");
            let _ = write!(
                rest,
                ", b AS (UPDATE branches SET run = NULL, lane = {lane}, head = $6::bigint, touched = {at} FROM r
                   WHERE branches.tenant = $1 AND branches.thread = {thread} AND branches.branch = r.branch
                   AND branches.run = $2::uuid)"
            );
        }
    }
    format!(
        "WITH r AS (
           UPDATE runs SET step = $4::int, seq = $5::bigint, head = $6::bigint, budget = $7::bytea,
             attempts = CASE WHEN $8::bool THEN 0 ELSE attempts END{set}
           WHERE tenant = $1 AND run = $2::uuid AND epoch = $3::int AND step = $4::int - 1
           AND {HELD} AND status = 1 AND seq = $5::bigint - $10::bigint
           AND ($9::int IS NULL OR inbox = $9::int) RETURNING branch){rest}
         INSERT INTO steps(tenant, run, step, epoch, frame, first_seq, last_seq, body, crc)
         SELECT $1, $2::uuid, $4::int, $3::int, $11::text, $5::bigint - $10::bigint + 1, $5::bigint, $12::bytea,
           $13::bigint FROM r"
    )
}

fn begin(origin: StartKind, parts: ExtraRows) -> String {
    let mut values = Placeholders(16);
    // A new definition is stored below; a known one is locked, so that garbage collection cannot remove it before there
    // is a run that names it. If it was removed already, there is no row, and no run.
    let (held, from) = match parts.definition {
        true => ("", ""),
        false => (
            "d AS (SELECT 1 FROM definitions WHERE tenant = $1 AND hash = $9::text FOR KEY SHARE), ",
            "FROM d",
        ),
    };
    let first = match origin {
        StartKind::Fresh => {
            let (created, ttl, meta) = (values.next("bigint"), values.next("bigint"), values.next("bytea"));
            format!(
                "WITH {held}f AS (
                   INSERT INTO threads(tenant, thread, current, created, ttl_at, meta)
                   SELECT $1, $3, $4, {created}, {ttl}, {meta} {from} ON CONFLICT DO NOTHING RETURNING tenant),
                 b AS (INSERT INTO branches(tenant, thread, branch, lane, head, run, touched)
                   SELECT $1, $3, $4, $5::int, -1, $2::uuid, $12::bigint FROM f)"
            )
        }
        StartKind::Branch => {
            let (head, after) = (values.next("bigint"), values.next("uuid"));
            format!(
                "WITH {held}f AS (
                   UPDATE branches SET run = $2::uuid, touched = $12::bigint {from}
                   WHERE tenant = $1 AND thread = $3 AND branch = $4 AND lane = $5::int AND head = {head}
                   AND run IS NULL
                   AND ({after} IS NULL OR {after} = (SELECT e.run FROM entries e
                     WHERE e.tenant = $1 AND e.thread = $3 AND e.lane = $5::int AND e.idx = {head}))
                   AND NOT EXISTS (SELECT 1 FROM queued WHERE tenant = $1 AND thread = $3 AND branch = $4)
                   RETURNING tenant)"
            )
        }
    };
    let mut rest = String::new();
    rest += &entries(parts.entries, "f", "$3::text", "$5::int", "$8::bigint", &mut values);
    rest += &audit(parts.audit, "f", &mut values);
    if parts.key {
        // An existing key is an error, and undoes the whole statement: it may have expired, so the transaction that
        // follows decides.
        let _ = write!(
            rest,
            ", k AS (INSERT INTO keys(tenant, route, key, body_hash, run, expires_at)
               SELECT $1, {}, {}, {}, $2::uuid, {} FROM f)",
            values.next("text"),
            values.next("text"),
            values.next("text"),
            values.next("bigint"),
        );
    }
    if parts.definition {
        let _ = write!(
            rest,
            ", d AS (INSERT INTO definitions(tenant, hash, kind, body, crc)
               SELECT $1, $9::text, 'run', {}, {} FROM f {KEEP})",
            values.next("bytea"),
            values.next("bigint"),
        );
    }
    format!(
        "{first},
         r AS (INSERT INTO runs(tenant, run, thread, branch, lane, status, owner, epoch, step, seq, inbox, head,
             attempts, definition, min_version, budget, created, metadata)
           SELECT $1, $2::uuid, $3, $4, $5::int, 1, $6::uuid, 1, 1, $7::bigint, 0, $8::bigint,
             0, $9::text, $10::int, $11::bytea, $12::bigint, $13::bytea FROM f){rest}
         INSERT INTO steps(tenant, run, step, epoch, frame, first_seq, last_seq, body, crc)
         SELECT $1, $2::uuid, 1, 1, $14::text, 1, $7::bigint, $15::bytea, $16::bigint FROM f"
    )
}

/// Appends the entries that end at `head`.
fn entries(
    rows: RowCount,
    from: &str,
    thread: &str,
    lane: &str,
    head: &str,
    values: &mut Placeholders,
) -> String {
    let written = match rows {
        RowCount::None => return String::new(),
        RowCount::One => {
            let (id, envelope, crc) = (values.next("uuid"), values.next("bytea"), values.next("bigint"));
            format!("SELECT $1, {thread}, {lane}, {head}, {id}, $2::uuid, {envelope}, {crc} FROM {from}")
        }
        RowCount::Many => {
            let (ids, envelopes, crcs) =
                (values.next("uuid[]"), values.next("bytea[]"), values.next("bigint[]"));
            format!(
                "SELECT $1, {thread}, {lane}, {head} - cardinality({ids}) + x.n, x.id, $2::uuid, x.envelope, x.crc
                 FROM {from}, unnest({ids}, {envelopes}, {crcs}) WITH ORDINALITY x(id, envelope, crc, n)"
            )
        }
    };
    format!(", e AS (INSERT INTO entries(tenant, thread, lane, idx, id, run, envelope, crc) {written})")
}

/// Stores the approvals that are requested.
fn asked(values: &mut Placeholders) -> String {
    let kinds = ["text[]", "text[]", "bigint[]", "bigint[]", "bytea[]", "bigint[]"];
    let lists = kinds.map(|kind| values.next(kind)).join(", ");
    format!(
        ", a AS (INSERT INTO approvals(tenant, approval, run, status, created, expires_at, body, crc)
           SELECT $1, x.approval, $2::uuid, x.status, x.created, x.expires_at, x.body, x.crc
           FROM r, unnest({lists}) x(approval, status, created, expires_at, body, crc))"
    )
}

/// Adds the audit events, in order.
fn audit(rows: RowCount, from: &str, values: &mut Placeholders) -> String {
    let kinds = ["text", "bigint", "text", "text", "bytea", "bigint", "bool"];
    let written = match rows {
        RowCount::None => return String::new(),
        RowCount::One => format!("SELECT $1, {} FROM {from}", kinds.map(|kind| values.next(kind)).join(", ")),
        RowCount::Many => {
            let lists = kinds.map(|kind| values.next(&format!("{kind}[]"))).join(", ");
            format!(
                "SELECT $1, x.correlation, x.at, x.kind, x.source, x.payload, x.crc, x.send
                 FROM {from}, unnest({lists}) x(correlation, at, kind, source, payload, crc, send)"
            )
        }
    };
    format!(
        ", o AS (INSERT INTO outbox(tenant, correlation, at, kind, source, payload, crc, send) {written})"
    )
}
