//! Servers that go away, that cannot be trusted, or whose tables another process has upgraded.

use baton_store::{PgError, PgOptions, PgStore, RunFilter, Store, StoreError};
use tokio::task::JoinSet;

use crate::home::{Home, dump};
use crate::pen::Pen;
use crate::postgres_server::{OwnServer, Schema, psql, until};
use crate::values::{run, talk, tenant};

async fn connect(url: &str, folder: &tempfile::TempDir) -> Result<Store, PgError> {
    PgStore::connect(url, PgOptions::new(folder.path())).await.map(Store::Postgres)
}

async fn runs(store: &Store) -> Result<usize, StoreError> {
    Ok(store.runs(&tenant(), &RunFilter { limit: 9, ..RunFilter::default() }).await?.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_restarted_is_found_again() {
    let (server, folder) = (OwnServer::start(&[]), tempfile::tempdir().unwrap());
    let store = connect(&server.url(), &folder).await.unwrap();
    let owner = store.enlist().unwrap();
    talk(&store, "t", 1).await;
    let mut pen = Pen::start(&store, owner.id, 1, ("t", "main")).await;
    server.down();
    let next = pen.says("meanwhile");
    let error = store.commit(&tenant(), &next).await.unwrap_err();
    assert!(error.is_transient(), "{error}");
    assert!(runs(&store).await.unwrap_err().is_transient());
    server.up();
    assert_eq!(runs(&store).await, Ok(1));
    assert_eq!(store.run(&tenant(), run(1)).await.unwrap().step, 1, "what failed was not written");
    pen.commit(&store, next).await.unwrap();
    assert_eq!(store.run(&tenant(), run(1)).await.unwrap().step, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_cut_while_they_are_idle_cost_nothing() {
    let (server, folder) = (OwnServer::start(&[]), tempfile::tempdir().unwrap());
    let store = connect(&server.url(), &folder).await.unwrap();
    let owner = store.enlist().unwrap();
    talk(&store, "t", 1).await;
    let mut pen = Pen::start(&store, owner.id, 1, ("t", "main")).await;
    for round in 0..3 {
        let ours = "FROM pg_stat_activity WHERE application_name = 'baton'";
        server.run(&format!("SELECT pg_terminate_backend(pid) {ours}"));
        until("all are gone", || server.run(&format!("SELECT count(*) {ours}")) == "0");
        assert_eq!(runs(&store).await, Ok(1), "round {round}");
        // A statement that may have been written is never repeated automatically: that is left to the caller.
        match store.commit(&tenant(), &pen.says("on")).await {
            Ok(()) => pen.written(&pen.clone().says("on")),
            Err(error) => panic!("round {round}: {error}"),
        }
        talk(&store, &format!("t{round}"), 1).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_may_lose_what_it_said_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for setting in ["fsync", "full_page_writes"] {
        let server = OwnServer::start(&[&format!("{setting}=off")]);
        let error = connect(&server.url(), &folder).await.unwrap_err();
        let expected = format!(
            "PostgreSQL runs with {setting}=off, so it can lose what it said was written: set {setting} = on in its \
             configuration (postgresql.conf) and reload it, then start Baton again"
        );
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_a_newer_baton_are_refused() {
    let (schema, folder) = (Schema::new(), tempfile::tempdir().unwrap());
    connect(&schema.url, &folder).await.unwrap();
    schema.run("UPDATE meta SET version = 99, needs = '9.9.0'");
    let error = connect(&schema.url, &folder).await.unwrap_err().to_string();
    let known = env!("CARGO_PKG_VERSION");
    let expected = format!(
        "the tables are of format 99, and this Baton ({known}) knows up to 3: use Baton 9.9.0 or newer"
    );
    assert_eq!(error, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_begin_at_once_make_the_tables_once() {
    let (schema, folder) = (Schema::new(), tempfile::tempdir().unwrap());
    let mut connecting = JoinSet::new();
    for _ in 0..6 {
        let (url, options) = (schema.url.clone(), PgOptions::new(folder.path()));
        connecting.spawn(async move { PgStore::connect(&url, options).await.map(drop) });
    }
    for connected in connecting.join_all().await {
        connected.unwrap();
    }
    assert_eq!(schema.run("SELECT version, count(*) FROM meta GROUP BY version"), "3|1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_that_is_not_there_is_named_as_the_trouble() {
    let (schema, folder) = (Schema::new(), tempfile::tempdir().unwrap());
    let path = format!("search_path%3D{}", schema.name);
    let url = schema.url.replace(&path, "search_path%3Dnowhere");
    assert_ne!(url, schema.url);
    let error = connect(&url, &folder).await.unwrap_err().to_string();
    let why = "no schema of its search_path exists: make one with CREATE SCHEMA first";
    assert_eq!(error, format!("the address of the database cannot be used: {why}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_there_is_said_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let server = OwnServer::prepare(&[]);
    let error = connect(&server.url(), &folder).await.unwrap_err();
    assert!(matches!(error, PgError::Unreachable(_)), "{error}");
}

/// Callers that go away at any moment leave no connection inside a transaction, and nothing half written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_go_away_leave_nothing_open() {
    let home = Home::postgres();
    let store = &home.store;
    let owner = store.enlist().unwrap();
    talk(store, "t", 1).await;
    let pen = Pen::start(store, owner.id, 1, ("t", "main")).await;
    for n in 0..200_u32 {
        let (store, pen) = (store.clone(), pen.clone());
        let busy = tokio::spawn(async move {
            let _ = store
                .claim(&tenant(), pen.run, OwnerOf::NOBODY, baton_store::ClaimMode::IfFree, pen_at())
                .await;
            let _ = store.thread(&tenant(), &pen.thread).await;
            let _ = store.commit(&tenant(), &pen.says("x")).await;
        });
        for _ in 0..n % 20 {
            tokio::task::yield_now().await;
        }
        busy.abort();
    }
    let name = &home.schema().name;
    let open = format!(
        "SELECT count(*) FROM pg_stat_activity a JOIN pg_locks l USING (pid)
         WHERE a.state LIKE 'idle in transaction%' AND l.relation IN (
           SELECT oid FROM pg_class WHERE relnamespace = '{name}'::regnamespace)"
    );
    until("no transaction is open", || home.schema().run(&open) == "0");
    dump(store).await;
    let row = store.run(&tenant(), pen.run).await.unwrap();
    assert!(row.step <= 2 && row.epoch == 1, "{row:?}");
}

struct OwnerOf;

impl OwnerOf {
    const NOBODY: baton_core::id::OwnerId = baton_core::id::OwnerId(uuid::Uuid::nil());
}

fn pen_at() -> baton_core::time::Timestamp {
    crate::values::at(9)
}

/// The clean-up of the tests themselves: a process that is still ending, with a transaction open, does not block it,
/// and a schema that cannot be dropped fails its test.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_is_dropped_although_a_session_still_holds_its_tables() {
    let (schema, folder) = (Schema::new(), tempfile::tempdir().unwrap());
    let store = connect(&schema.url, &folder).await.unwrap();
    let _owner = store.enlist().unwrap(); // renews its lease meanwhile
    let (client, connection) = tokio_postgres::connect(&schema.url, tokio_postgres::NoTls).await.unwrap();
    let served = tokio::spawn(connection);
    client.batch_execute("BEGIN; LOCK TABLE runs, threads").await.unwrap();
    let (name, port) = (schema.name.clone(), schema.port);
    tokio::task::block_in_place(|| drop(schema));
    let left = format!(
        "SELECT (SELECT count(*) FROM pg_namespace WHERE nspname = '{name}')
              + (SELECT count(*) FROM pg_roles WHERE rolname = '{name}')
              + (SELECT count(*) FROM pg_stat_activity WHERE usename = '{name}')"
    );
    assert_eq!(psql(port, &left), "0");
    assert!(served.await.unwrap().is_err(), "its session was ended");
}
