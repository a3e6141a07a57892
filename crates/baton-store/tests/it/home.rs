//! A store with the helpers of its tests, and all its data as one value.

use baton_core::id::{BranchName, Tenant};
use baton_core::run::Approval;
use baton_core::thread::PlacedEntry;
use baton_store::{
    BranchEnd, ClaimRow, PgOptions, PgStore, Posted, RunFilter, RunRow, Slice, SqliteStore, StepRow, Store,
    ThreadView,
};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::task::block_in_place;

use crate::postgres_server::Schema;

use crate::values::tenant;

/// A store, and the folder that it lives in if it has one.
pub(crate) struct Home {
    pub(crate) store: Store,
    folder: Option<TempDir>,
    schema: Option<Schema>,
}

impl Home {
    pub(crate) fn memory() -> Home {
        Home { store: Store::memory(), folder: None, schema: None }
    }

    pub(crate) fn sqlite() -> Home {
        let folder = tempfile::tempdir().unwrap();
        Home { store: open(&folder), folder: Some(folder), schema: None }
    }

    pub(crate) fn postgres() -> Home {
        let (folder, schema) = (tempfile::tempdir().unwrap(), Schema::new());
        Home { store: connect(&schema, &folder), folder: Some(folder), schema: Some(schema) }
    }

    /// An empty store of the same kind.
    pub(crate) fn another(&self) -> Home {
        match (&self.schema, &self.folder) {
            (Some(_), _) => Home::postgres(),
            (None, Some(_)) => Home::sqlite(),
            (None, None) => Home::memory(),
        }
    }

    /// The same data as another process sees it: through handles of its own.
    pub(crate) fn elsewhere(&self) -> Store {
        match (&self.schema, &self.folder) {
            (Some(schema), Some(folder)) => connect(schema, folder),
            (None, Some(folder)) => open(folder),
            _ => self.store.clone(),
        }
    }

    /// The schema of a store that has one.
    pub(crate) fn schema(&self) -> &Schema {
        self.schema.as_ref().expect("a store with a schema")
    }

    /// The folder of a store that has one.
    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.as_ref().expect("a store with a folder").path()
    }
}

fn open(folder: &TempDir) -> Store {
    Store::Sqlite(SqliteStore::open(folder.path()).unwrap().store)
}

fn connect(schema: &Schema, folder: &TempDir) -> Store {
    let connected = PgStore::connect(&schema.url, PgOptions::new(folder.path()));
    Store::Postgres(block_in_place(|| Handle::current().block_on(connected)).unwrap())
}

/// A thread with all entries of its branches.
pub(crate) type Lines = (ThreadView, Vec<(BranchName, BranchEnd, Vec<PlacedEntry>)>);

/// All data of a tenant, for comparing before with after.
#[derive(Debug, PartialEq)]
pub(crate) struct Dump {
    pub(crate) threads: Vec<Lines>,
    pub(crate) runs: Vec<RunDump>,
    pub(crate) approvals: Vec<Approval>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct RunDump {
    pub(crate) row: RunRow,
    pub(crate) steps: Vec<StepRow>,
    pub(crate) claims: Vec<ClaimRow>,
    pub(crate) inbox: Vec<Posted>,
}

/// All data of the usual tenant.
pub(crate) async fn dump(store: &Store) -> Dump {
    dump_of(store, &tenant()).await
}

/// All entries of the branches of a thread.
pub(crate) async fn lines(store: &Store, tenant: &Tenant, view: ThreadView) -> Lines {
    let mut lines = Vec::new();
    for branch in &view.branches {
        let name = branch.name.clone();
        let end = store.end(tenant, &view.id, Some(&name)).await.unwrap();
        let entries = store.entries(tenant, &view.id, Some(&name), Slice::default()).await.unwrap();
        lines.push((name, end, entries));
    }
    (view, lines)
}

pub(crate) async fn dump_of(store: &Store, tenant: &Tenant) -> Dump {
    let mut threads = Vec::new();
    for view in store.threads(tenant, 1000, None).await.unwrap() {
        threads.push(lines(store, tenant, view).await);
    }
    let mut runs = Vec::new();
    for row in store.runs(tenant, &RunFilter { limit: 1000, ..RunFilter::default() }).await.unwrap() {
        runs.push(RunDump {
            steps: store.steps(tenant, row.id, 0, 1000).await.unwrap(),
            claims: store.claims(tenant, row.id).await.unwrap(),
            inbox: store.inbox(tenant, row.id, 0).await.unwrap(),
            row,
        });
    }
    let approvals = store.approvals(tenant, None, None, 1000).await.unwrap();
    Dump { threads, runs, approvals }
}
