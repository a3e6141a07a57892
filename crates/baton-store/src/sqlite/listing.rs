//! Lists of runs in SQLite.

use baton_core::id::Tenant;
use baton_core::run::RunStatus;
use uuid::Uuid;

use super::SqliteStore;
use super::read::{self, RUN_COLUMNS, Uuid16, run_row};
use super::runs::stored;
use crate::error::StoreError;
use crate::view::{RunFilter, RunRow};

impl SqliteStore {
    pub(crate) async fn runs(&self, tenant: &Tenant, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
        let (tenant, filter) = (tenant.clone(), filter.clone());
        self.read(move |db| {
            let sql = listing(&filter);
            let mut statement = db.prepare_cached(&sql)?;
            let thread = filter.thread.as_ref().map(|id| id.as_str());
            let before = Uuid16(filter.after.map_or(Uuid::max(), |id| id.0));
            let mut rows = statement.query((tenant.as_str(), thread, before))?;
            let mut out = Vec::new();
            while out.len() < filter.limit as usize {
                let Some(row) = rows.next()? else { break };
                out.extend(read::listed(run_row(row))?.filter(|row| crate::runs::fits(row, &filter)));
            }
            Ok(out)
        })
        .await
    }
}

/// Runs that have an owner, and runs that wait for one: each kind has an index.
const RUNNING: &str = "status = 1 AND run IN (
      SELECT run FROM runs INDEXED BY runs_unfinished WHERE owner > x'' AND status < 3
      UNION ALL SELECT run FROM runs INDEXED BY runs_let_go WHERE status = 1 AND owner IS NULL)";

/// A page of runs, newest first. The filter is part of the text, because only then an index is found that serves it;
/// the condition of the index of rare statuses has to be there word for word.
fn listing(filter: &RunFilter) -> String {
    let thread = if filter.thread.is_some() { "AND thread = ?2" } else { "AND ?2 IS NULL" };
    let status = match filter.status {
        Some(RunStatus::Running) => format!("AND {RUNNING}"),
        Some(RunStatus::Ok) => format!("AND status = {}", stored(RunStatus::Ok)),
        Some(rare) => format!("AND status = {} AND status <> 1 AND status <> 3", stored(rare)),
        None => String::new(),
    };
    format!(
        "SELECT {RUN_COLUMNS} FROM runs WHERE tenant = ?1 {thread} {status} AND run < ?3 ORDER BY run DESC"
    )
}
