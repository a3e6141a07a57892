use super::super::statement::Form;
use super::super::tests::server::{Schema, until};
use super::super::tests::store;
use super::super::{Param, PgStore};
use super::*;
use baton_core::id::RunId;
use uuid::Uuid;

mod several;

/// Runs 1, 2 and 3, which have an owner.
const RUNS: &str = "INSERT INTO runs(tenant, run, thread, branch, lane, status, owner, epoch, step, seq, inbox, head,
    attempts, definition, min_version, budget, created, metadata)
  SELECT 't', ('00000000-0000-0000-0000-00000000000' || n)::uuid, 'th', 'main', 0, 1, gen_random_uuid(), 1, 1, 1, 0,
    0, 0, 'd', 1, '{}', 1, '{}' FROM generate_series(1, 3) n";

pub(super) fn post(n: u128) -> Work {
    let run = RunId(Uuid::from_u128(n));
    let values: Vec<Param<'static>> = vec![
        Box::new("t".to_owned()),
        Box::new(run.0),
        Box::new("input"),
        Box::new(1_i64),
        Box::new(b"{}".to_vec()),
        Box::new(1_i64),
        Box::new(None::<String>),
    ];
    Work::Plain(Form::Post, run, values)
}

/// Has members written by the only worker, which finds them all at once.
async fn together(store: &PgStore, works: Vec<Work>) -> Vec<Result<u64, WriteError>> {
    let (mut members, mut answers) = (Vec::new(), Vec::new());
    for work in works {
        let (answer, answered) = oneshot::channel();
        members.push(QueuedWrite { work, answer });
        answers.push(answered);
    }
    store.shared.group.queue.push_all(members);
    let mut out = Vec::new();
    for answer in answers {
        out.push(answer.await.unwrap().map(|done| done.changed));
    }
    out
}

/// The runs that have messages, and the number of transactions that wrote those.
fn posted(schema: &Schema) -> String {
    schema.run(
        "SELECT coalesce(string_agg(right(run::text, 1), ',' ORDER BY run), ''), count(DISTINCT xmin::text)
         FROM inbox WHERE body = '{}'",
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_is_committed_in_one_transaction() {
    let (store, schema, _folder) = store(1).await;
    schema.run(RUNS);
    let results = together(&store, vec![post(3), post(1), post(2)]).await;
    assert!(matches!(results[..], [Ok(1), Ok(1), Ok(1)]), "{results:?}");
    assert_eq!(posted(&schema), "1,2,3|1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refused_member_harms_no_neighbour() {
    let (store, schema, _folder) = store(1).await;
    schema.run(RUNS);
    schema.run("UPDATE runs SET status = 3 WHERE right(run::text, 1) = '2'");
    let results = together(&store, vec![post(1), post(2), post(3)]).await;
    assert!(matches!(results[..], [Ok(1), Ok(0), Ok(1)]), "{results:?}");
    assert_eq!(posted(&schema), "1,3|1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_member_harms_no_neighbour() {
    let (store, schema, _folder) = store(1).await;
    schema.run(RUNS);
    schema.run("INSERT INTO inbox SELECT tenant, run, 1, 'stray', 1, 'stray', 1 FROM runs WHERE right(run::text, 1) = '2'");
    let results = together(&store, vec![post(1), post(2), post(3)]).await;
    assert!(matches!(results[..], [Ok(1), Err(WriteError::Taken(_)), Ok(1)]), "{results:?}");
    assert_eq!(posted(&schema), "1,3|2", "each on its own");
    assert_eq!(
        schema.run("SELECT inbox FROM runs ORDER BY run"),
        "1\n0\n1",
        "of the one that failed there is nothing"
    );
}

/// The worker's connection is cut while the group waits for a row: it is not known whether the group was committed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_was_sent_over_a_connection_that_broke_is_not_known_of() {
    let (store, schema, _folder) = store(1).await;
    schema.run(RUNS);
    let (holder, _served) = store.shared.dial.connect().await.unwrap();
    holder.batch_execute("BEGIN; SELECT * FROM runs FOR UPDATE").await.unwrap();
    let waiting = format!(
        "FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%inbox%' AND pid IN (
           SELECT pid FROM pg_locks WHERE relation = '{}.runs'::regclass)",
        schema.name
    );
    let cut = {
        let (waiting, schema) = (waiting.clone(), &schema);
        async move {
            tokio::task::block_in_place(|| {
                until("the group waits", || schema.run(&format!("SELECT count(*) {waiting}")) == "1");
                schema.run(&format!("SELECT pg_terminate_backend(pid) {waiting}"));
            });
        }
    };
    let (results, ()) = tokio::join!(together(&store, vec![post(1), post(2)]), cut);
    let unknown =
        |result: &Result<u64, WriteError>| matches!(result, Err(WriteError::Other(StoreError::Ambiguous(_))));
    assert!(results.iter().all(unknown), "{results:?}");
    holder.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(posted(&schema), "|0");
    let again = together(&store, vec![post(1), post(2)]).await;
    assert!(matches!(again[..], [Ok(1), Ok(1)]), "over a new connection: {again:?}");
}

/// A row that is locked for long makes its neighbours wait for a moment, and not for as long as it is locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_is_held_does_not_hold_up_its_neighbours() {
    let (store, schema, _folder) = store(1).await;
    schema.run(RUNS);
    let (holder, _served) = store.shared.dial.connect().await.unwrap();
    holder
        .batch_execute("BEGIN; SELECT * FROM runs WHERE right(run::text, 1) = '1' FOR UPDATE")
        .await
        .unwrap();
    let results = together(&store, vec![post(1), post(2), post(3)]).await;
    let held = &results[0];
    assert!(matches!(held, Err(WriteError::Other(StoreError::Unavailable(_)))), "{held:?}");
    assert!(matches!(results[1..], [Ok(1), Ok(1)]), "{results:?}");
    assert_eq!(posted(&schema), "2,3|2");
}
