//! Several runs in one statement have the same result as each alone.

use baton_core::id::{EntryId, OwnerId, Tenant};
use baton_core::run::RunStatus;
use baton_core::thread::{Entry, NewEntry};
use baton_core::time::Timestamp;
use serde_json::{Value, json};

use super::super::super::pack::{PackedStart, PgTransition};
use super::super::super::tests::made::{first, new};
use super::*;
use crate::service::AuditEvent;
use crate::transition::{NewRun, NewThread, RunHalt, Transition};

fn tenant() -> Tenant {
    "t".parse().unwrap()
}

fn told(kind: &str) -> AuditEvent {
    AuditEvent {
        at: Timestamp(2),
        correlation: "c".to_owned(),
        kind: kind.to_owned(),
        source: "baton".to_owned(),
        payload: json!({"a": 1}),
        send: true,
    }
}

/// The nth run begins on a thread of its own.
fn begin(n: u128) -> Work {
    let thread = NewThread {
        id: format!("th{n}").parse().unwrap(),
        at: Timestamp(1),
        ttl_at: n.is_multiple_of(2).then_some(Timestamp(99)),
        meta: json!({"n": 1}),
    };
    let run = NewRun {
        owner: OwnerId(Uuid::from_u128(7)),
        new_thread: Some(thread),
        metadata: json!({"of": n as u64}),
        ..new()
    };
    let audit = if n == 3 { Vec::new() } else { vec![told("agent.started")] };
    let first = Transition {
        run: RunId(Uuid::from_u128(n)),
        thread: format!("th{n}").parse().unwrap(),
        entries: vec![entry(n, 0, "UserMessage", json!({"text": "go"}))],
        audit,
        ..first()
    };
    let packed = PgTransition::new(&tenant(), &first).unwrap();
    Work::Begin(Arc::new(PackedStart::new(packed, run, 0, None)))
}

fn entry(n: u128, index: u128, kind: &str, body: Value) -> NewEntry {
    let entry = Entry::from_parts(kind, 1, body).unwrap();
    NewEntry { id: EntryId(Uuid::from_u128(n * 100 + index)), at: Timestamp(2), entry }
}

/// The second transition of the nth run: each writes other rows.
fn second(n: u128) -> Transition {
    let mut second = Transition {
        run: RunId(Uuid::from_u128(n)),
        thread: format!("th{n}").parse().unwrap(),
        step: 2,
        entries: Vec::new(),
        ..first()
    };
    let result =
        json!({"tool_call_id": "c", "tool_name": "sum", "result": "42", "untrusted": true, "private": true});
    match n {
        1 => {}
        2 => {
            second.entries =
                vec![entry(n, 1, "UserMessage", json!({"text": "a"})), entry(n, 2, "Finished", json!({}))]
        }
        3 => second.entries = vec![entry(n, 1, "ToolResult", result)],
        4 => (second.progress, second.inbox) = (true, None),
        _ => {
            second.entries = vec![entry(n, 1, "UserMessage", json!({"text": "b"}))];
            second.audit = vec![told("agent.completed")];
            second.rest = RunHalt::Ended(RunStatus::Ok);
        }
    }
    second.checkpoint.head = second.entries.len() as i64;
    second
}

fn advance(transition: &Transition) -> Work {
    Work::Advance(Box::new(PgTransition::new(&tenant(), transition).unwrap()))
}

fn advances() -> Vec<Work> {
    (1..=5).map(|n| advance(&second(n))).collect()
}

fn begins() -> Vec<Work> {
    (1..=5).map(begin).collect()
}

/// All rows of the tables, and the number of transactions that wrote steps.
fn everything(schema: &Schema) -> (Vec<String>, String) {
    let tables = ["threads", "branches", "entries", "untrusted", "runs", "steps", "outbox"];
    let rows = |table: &str| {
        // Numbers that are given in the order of arrival are not compared.
        let row = "to_jsonb(x) - 'born' - 'n'";
        schema.run(&format!("SELECT string_agg(({row})::text, E'\\n' ORDER BY {row}) FROM {table} x"))
    };
    (tables.map(rows).to_vec(), schema.run("SELECT count(DISTINCT xmin::text) FROM steps"))
}

fn with_definition(schema: &Schema) {
    let hash = &new().definition.hash;
    schema.run(&format!("INSERT INTO definitions VALUES ('t', '{hash}', 'run', 'x', 1)"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_that_are_written_together_come_to_the_same_as_each_alone() {
    let (store_one, one, _folder) = store(1).await;
    let (store_two, two, _other) = store(1).await;
    with_definition(&one);
    with_definition(&two);
    for work in begins().into_iter().chain(advances()) {
        let alone = together(&store_one, vec![work]).await;
        assert!(matches!(alone[..], [Ok(1)]), "{alone:?}");
    }
    for works in [begins(), advances()] {
        let at_once = together(&store_two, works).await;
        assert!(matches!(at_once[..], [Ok(1), Ok(1), Ok(1), Ok(1), Ok(1)]), "{at_once:?}");
    }
    let ((alone, transactions), (at_once, few)) = (everything(&one), everything(&two));
    assert_eq!(at_once, alone);
    assert_eq!((transactions.as_str(), few.as_str()), ("10", "2"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transition_that_is_refused_leaves_its_neighbours_alone() {
    let (store, schema, _folder) = store(1).await;
    with_definition(&schema);
    together(&store, begins()).await;
    let stale = Transition { epoch: 2, ..second(2) };
    let unread = Transition { inbox: Some(1), ..second(3) };
    let gap = Transition { last_seq: 5, ..second(4) };
    let works = [second(1), stale, unread, gap, second(5)].iter().map(advance).collect();
    let results = together(&store, works).await;
    assert!(matches!(results[..], [Ok(1), Ok(0), Ok(0), Ok(0), Ok(1)]), "{results:?}");
    let steps = schema
        .run("SELECT string_agg(right(run::text, 1) || ':' || step, ' ' ORDER BY run, step) FROM steps");
    assert_eq!(steps, "1:1 1:2 2:1 3:1 4:1 5:1 5:2");
    assert_eq!(schema.run("SELECT count(*) FROM entries WHERE idx > 0"), "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transition_that_fails_leaves_its_neighbours_alone() {
    let (store, schema, _folder) = store(1).await;
    with_definition(&schema);
    together(&store, begins()).await;
    schema.run("INSERT INTO entries VALUES ('t', 'th2', 0, 1, gen_random_uuid(), NULL, 'stray', 1)");
    let results = together(&store, advances()).await;
    assert!(matches!(results[..], [Ok(1), Err(WriteError::Taken(_)), Ok(1), Ok(1), Ok(1)]), "{results:?}");
    let steps =
        schema.run("SELECT string_agg(right(run::text, 1), ' ' ORDER BY run) FROM steps WHERE step = 2");
    assert_eq!(steps, "1 3 4 5");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_is_there_refuses_only_the_run_that_would_make_it() {
    let (store, schema, _folder) = store(1).await;
    with_definition(&schema);
    schema.run(
        "INSERT INTO threads(tenant, thread, current, created, meta) VALUES ('t', 'th2', 'main', 1, '{}')",
    );
    let results = together(&store, begins()).await;
    assert!(matches!(results[..], [Ok(1), Ok(0), Ok(1), Ok(1), Ok(1)]), "{results:?}");
    for table in ["branches", "runs", "steps", "entries"] {
        assert_eq!(schema.run(&format!("SELECT count(*) FROM {table}")), "4", "{table}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_their_definition_no_run_begins() {
    let (store, schema, _folder) = store(1).await;
    let results = together(&store, begins()).await;
    assert!(matches!(results[..], [Ok(0), Ok(0), Ok(0), Ok(0), Ok(0)]), "{results:?}");
    assert_eq!(everything(&schema).0, vec![String::new(); 7]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_that_want_the_same_run_or_thread_do_not_share_a_statement() {
    let (store, schema, _folder) = store(1).await;
    with_definition(&schema);
    let results = together(&store, vec![begin(1), begin(2), begin(1)]).await;
    assert!(
        matches!(results[..], [Ok(1), Ok(0), Ok(1)] | [Ok(0), Ok(1), Ok(1)] | [Ok(1), Ok(1), Ok(0)]),
        "{results:?}"
    );
    let results = together(&store, [second(1), second(2), second(1)].iter().map(advance).collect()).await;
    assert_eq!(results.iter().filter(|result| matches!(result, Ok(1))).count(), 2, "{results:?}");
    assert_eq!(schema.run("SELECT count(*) FROM steps"), "4");
}

/// Otherwise its row would be locked after those of later runs, and two groups could wait for each other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_alone_has_a_transaction_of_its_own() {
    let (store, schema, _folder) = store(1).await;
    with_definition(&schema);
    together(&store, begins()).await;
    let works = vec![post(1), advance(&second(2)), advance(&second(3)), post(4)];
    let results = together(&store, works).await;
    assert!(matches!(results[..], [Ok(1), Ok(1), Ok(1), Ok(1)]), "{results:?}");
    let transactions = "SELECT count(DISTINCT xmin::text) || ' ' || count(*) FROM";
    assert_eq!(schema.run(&format!("{transactions} steps WHERE step = 2")), "1 2");
    assert_eq!(schema.run(&format!("{transactions} inbox")), "1 2");
    assert_eq!(
        schema.run("SELECT count(*) FROM inbox WHERE xmin::text IN (SELECT xmin::text FROM steps)"),
        "0"
    );
}
