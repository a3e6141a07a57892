//! Queued runs in SQLite: each has a row in `runs` without content, and a position in the queue of its branch.
//!
//! A queued run holds nothing. The write that begins it takes the branch and removes it from the queue, so it begins
//! only once, and its turn cannot be lost between the two.

use baton_core::budget::Budget;
use baton_core::id::{BranchName, RunId, Tenant, ThreadId};
use baton_core::run::RunStatus;
use baton_core::thread::{Place, TreeError};
use rusqlite::{Connection, OptionalExtension, params};

use super::advance::{SqliteTransition, advance};
use super::read::{self, Uuid16};
use super::runs::{self, stored};
use super::start::{self, PackedDefinition};
use super::threads::{add_thread, append_lane};
use super::{SqliteStore, keys};
use crate::error::StoreError;
use crate::record;
use crate::service::{Head, NewQueued, QueuedRun};
use crate::transition::{NewRun, RunHalt};
use crate::view::RunRow;

impl SqliteStore {
    pub(crate) async fn heads(&self, runs: &[(Tenant, RunId)]) -> Result<Vec<Head>, StoreError> {
        let runs = runs.to_vec();
        self.read(move |db| {
            let sql = "SELECT epoch, seq, status FROM runs WHERE tenant = ?1 AND run = ?2";
            let mut statement = db.prepare_cached(sql)?;
            let mut out = Vec::with_capacity(runs.len());
            for (tenant, run) in runs {
                let mut rows = statement.query((tenant.as_str(), Uuid16(run.0)))?;
                let Some(row) = rows.next()? else { continue };
                let (epoch, seq) = (row.get(0)?, row.get::<_, i64>(1)? as u64);
                out.push(Head { run, epoch, seq, status: read::status(run, row.get(2)?)? });
            }
            Ok(out)
        })
        .await
    }

    pub(crate) async fn enqueue(&self, tenant: &Tenant, new: NewQueued) -> Result<(), StoreError> {
        let tenant = tenant.clone();
        let known = (tenant.clone(), new.definition.hash.clone());
        let definition = self.pack_definition(&tenant, &new.definition)?;
        let body = record::encode(&QueuedRun::of(&new))?;
        self.write(move |db| enqueue(db, &tenant, &new, &definition, &body))
            .await
            .inspect(|()| self.shared.definitions.insert(known))
    }

    pub(crate) async fn queued(&self, tenant: &Tenant, run: RunId) -> Result<QueuedRun, StoreError> {
        let tenant = tenant.clone();
        self.read(move |db| {
            let sql = "SELECT body, crc FROM queued WHERE tenant = ?1 AND run = ?2";
            let found = db.prepare_cached(sql)?.query_row((tenant.as_str(), Uuid16(run.0)), |row| {
                Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, u32>(1)?))
            });
            match found.optional()? {
                Some((body, crc)) => record::decode("queued run", run, &body, crc),
                None => Err(crate::runs::begun_already(&runs::load(db, &tenant, run)?)),
            }
        })
        .await
    }
}

fn enqueue(
    db: &Connection,
    tenant: &Tenant,
    new: &NewQueued,
    definition: &PackedDefinition,
    (body, crc): &(Vec<u8>, u32),
) -> Result<(), StoreError> {
    if runs::exists(db, tenant, new.run)? {
        return Err(StoreError::Exists { what: "run", id: new.run.to_string() });
    }
    crate::runs::own_key(keys::unused(db, tenant, new.key.as_ref(), new.at), new.run, false)?;
    let (head, made) = place(db, tenant, new)?;
    let line = (tenant.as_str(), new.thread.as_str(), new.branch.as_str());
    let sql = "SELECT count(*) FROM queued WHERE tenant = ?1 AND thread = ?2 AND branch = ?3";
    if !new.first && db.prepare_cached(sql)?.query_row(line, |row| row.get::<_, u32>(0))? >= new.most {
        return Err(StoreError::QueueFull { branch: new.branch.to_string(), most: new.most });
    }
    if let Some(thread) = made {
        add_thread(db, tenant, thread, None)?;
    }
    if let Some(key) = &new.key {
        keys::note(db, tenant, key, Some(new.run), None)?;
    }
    start::keep_definition(db, tenant, definition)?;
    let row = RunRow {
        status: RunStatus::Queued,
        lane: head.lane,
        definition: new.definition.hash.clone(),
        metadata: new.metadata.clone(),
        ..RunRow::begun(new.run, &new.thread, &new.branch, head.index, new.at)
    };
    let budget =
        serde_json::to_vec(&Budget::default()).map_err(|e| StoreError::corrupt("budget", new.run, e))?;
    start::insert_run(db, tenant, &row, &budget)?;
    // A row without a number gets the one after the highest.
    let n: Option<i64> = match new.first {
        true => Some(db.query_row("SELECT coalesce(min(n), 1) - 1 FROM queued", [], |row| row.get(0))?),
        false => None,
    };
    let sql =
        "INSERT INTO queued(n, tenant, run, thread, branch, body, crc) VALUES (?7, ?1, ?2, ?3, ?4, ?5, ?6)";
    db.prepare_cached(sql)?.execute((line.0, Uuid16(new.run.0), line.1, line.2, body, crc, n))?;
    Ok(())
}

/// The first run in the queue of a branch.
pub(super) fn first_in_line(
    db: &Connection,
    tenant: &Tenant,
    thread: &ThreadId,
    branch: &BranchName,
) -> Result<Option<RunId>, StoreError> {
    let sql = "SELECT run FROM queued WHERE tenant = ?1 AND thread = ?2 AND branch = ?3 ORDER BY n LIMIT 1";
    let line = (tenant.as_str(), thread.as_str(), branch.as_str());
    let first = db.prepare_cached(sql)?.query_row(line, |row| row.get::<_, Uuid16>(0));
    Ok(first.optional()?.map(|id| RunId(id.0)))
}

/// The place where the branch of a queued run ends, and the thread if it is to be created.
fn place<'a>(
    db: &Connection,
    tenant: &Tenant,
    new: &'a NewQueued,
) -> Result<(Place, Option<&'a crate::transition::NewThread>), StoreError> {
    let error = match read::tree(db, tenant, &new.thread) {
        Ok(loaded) => return Ok((loaded.head(&new.branch)?, None)),
        Err(error @ StoreError::NotFound { .. }) => error,
        Err(error) => return Err(error),
    };
    let made = new.new_thread.as_ref().filter(|made| made.id == new.thread).ok_or(error)?;
    if new.branch != BranchName::main() {
        return Err(TreeError::NoBranch(new.branch.to_string()).into());
    }
    Ok((Place { lane: 0, index: -1 }, Some(made)))
}

/// Begins a queued run. One that ends at once never takes its branch.
pub(super) fn start(
    db: &Connection,
    tenant: &Tenant,
    new: &NewRun,
    definition: &PackedDefinition,
    mut first: SqliteTransition,
) -> Result<u32, StoreError> {
    let row = runs::load(db, tenant, first.run)?;
    if row.status != RunStatus::Queued {
        return Err(crate::runs::begun_already(&row));
    }
    crate::runs::own_key(keys::unused(db, tenant, new.key.as_ref(), new.at), first.run, true)?;
    first.lane = row.lane;
    let running = RunRow {
        status: RunStatus::Running,
        owner: Some(new.owner),
        head: new.expected_head,
        definition: new.definition.hash.clone(),
        ..row
    };
    let takes = !matches!(first.rest, RunHalt::Ended(_));
    let loaded = if takes { Some(start::free_branch(db, tenant, &first, new)?) } else { None };
    first.fence.allows(&running)?; // from here on nothing is refused
    if let Some(mut loaded) = loaded {
        first.lane = append_lane(db, tenant, &first.thread, &mut loaded.tree, &new.branch)?;
        start::take_branch(db, tenant, new, &first)?;
    }
    let sql = "DELETE FROM queued WHERE tenant = ?1 AND run = ?2";
    db.prepare_cached(sql)?.execute((tenant.as_str(), Uuid16(first.run.0)))?;
    let sql = "UPDATE runs SET status = ?3, owner = ?4, lane = ?5, head = ?6, definition = ?7
               WHERE tenant = ?1 AND run = ?2";
    let status = stored(RunStatus::Running);
    db.prepare_cached(sql)?.execute(params![
        tenant.as_str(),
        Uuid16(first.run.0),
        status,
        Uuid16(new.owner.0),
        first.lane,
        running.head,
        running.definition,
    ])?;
    start::begin(db, tenant, new, definition, first.run)?;
    advance(db, tenant, &first)?;
    Ok(first.lane)
}
