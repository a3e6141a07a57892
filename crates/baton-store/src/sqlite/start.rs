//! Starts of runs in SQLite: the row, the branch, the definition and the first transition in one write.

use std::sync::Arc;

use baton_core::id::{RunId, Tenant};
use baton_core::run::RUN_VERSION;
use rusqlite::{Connection, params};

use super::advance::{SqliteTransition, follow};
use super::read::{self, Uuid16};
use super::runs::{exists, stored};
use super::threads::{add_thread, append_lane};
use super::{SqliteStore, keys, queue};
use crate::error::StoreError;
use crate::record;
use crate::transition::{NewRun, PinnedDefinition, Transition};
use crate::view::RunRow;

impl SqliteStore {
    pub(crate) async fn start(
        &self,
        tenant: &Tenant,
        new: NewRun,
        first: Transition,
    ) -> Result<u32, StoreError> {
        let tenant = tenant.clone();
        let known = (tenant.clone(), new.definition.hash.clone());
        let definition = self.pack_definition(&tenant, &new.definition)?;
        let mut packed = SqliteTransition::new(&Transition { lane: 0, ..first })?;
        self.write(move |db| {
            if new.queued {
                return queue::start(db, &tenant, &new, &definition, packed);
            }
            let (run, thread) = (packed.run, packed.thread.clone());
            if exists(db, &tenant, run)? {
                return Err(StoreError::Exists { what: "run", id: run.to_string() });
            }
            crate::runs::own_key(keys::unused(db, &tenant, new.key.as_ref(), new.at), run, false)?;
            let row = RunRow {
                owner: Some(new.owner),
                definition: new.definition.hash.clone(),
                metadata: new.metadata.clone(),
                ..RunRow::begun(run, &thread, &new.branch, new.expected_head, new.at)
            };
            if let Some(thread) = &new.new_thread {
                packed.fence.allows(&row)?;
                if !add_thread(db, &tenant, thread, Some((run, new.at)))? {
                    return Err(crate::runs::not_new(&new));
                }
            } else {
                let mut loaded = free_branch(db, &tenant, &packed, &new)?;
                packed.fence.allows(&row)?;
                packed.lane = append_lane(db, &tenant, &thread, &mut loaded.tree, &new.branch)?;
                take_branch(db, &tenant, &new, &packed)?;
            }
            insert_run(db, &tenant, &packed.leaves(RunRow { lane: packed.lane, ..row }), &packed.budget)?;
            begin(db, &tenant, &new, &definition, packed.run)?;
            follow(db, &tenant, &packed)?;
            Ok(packed.lane)
        })
        .await
        .inspect(|_| self.shared.definitions.insert(known))
    }

    pub(super) fn pack_definition(
        &self,
        tenant: &Tenant,
        pinned: &Arc<PinnedDefinition>,
    ) -> Result<PackedDefinition, StoreError> {
        let is_known = self.shared.definitions.contains(&(tenant.clone(), pinned.hash.clone()));
        let body = if is_known { None } else { Some(record::encode(&pinned.definition)?) };
        Ok(PackedDefinition { pinned: pinned.clone(), body })
    }
}

/// A definition that is to be stored: its hash, and its bytes unless it is known to be stored already.
pub(super) struct PackedDefinition {
    pinned: Arc<PinnedDefinition>,
    body: Option<(Vec<u8>, u32)>,
}

/// Stores a definition. One that was known to be stored may have been removed meanwhile.
pub(super) fn keep_definition(
    db: &Connection,
    tenant: &Tenant,
    packed: &PackedDefinition,
) -> Result<(), StoreError> {
    let hash = &packed.pinned.hash;
    let encoded;
    let (body, crc) = match &packed.body {
        Some(packed) => packed,
        None => {
            let sql = "SELECT 1 FROM definitions WHERE tenant = ?1 AND hash = ?2";
            if db.prepare_cached(sql)?.exists((tenant.as_str(), hash))? {
                return Ok(());
            }
            encoded = record::encode(&packed.pinned.definition)?;
            &encoded
        }
    };
    let sql =
        "INSERT OR IGNORE INTO definitions(tenant, hash, kind, body, crc) VALUES (?1, ?2, 'run', ?3, ?4)";
    db.prepare_cached(sql)?.execute((tenant.as_str(), hash, body, crc))?;
    Ok(())
}

/// Writes the row of a new run.
pub(super) fn insert_run(
    db: &Connection,
    tenant: &Tenant,
    row: &RunRow,
    budget: &[u8],
) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO runs(tenant, run, thread, branch, lane, status, owner, epoch, step, seq, inbox, head,
                 attempts, definition, min_version, budget, created, metadata, wake_at, ended)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 1, ?14, ?15, 0, ?8, 0, ?9, ?10, ?11, ?12, ?13, ?16, ?17)";
    let metadata = row.metadata.to_string().into_bytes();
    let owner = row.owner.map(|owner| Uuid16(owner.0));
    db.prepare_cached(sql)?.execute(params![
        tenant.as_str(),
        Uuid16(row.id.0),
        row.thread.as_str(),
        row.branch.as_str(),
        row.lane,
        stored(row.status),
        owner,
        row.head,
        row.definition,
        RUN_VERSION,
        budget,
        row.created.0,
        metadata,
        row.step,
        row.seq as i64,
        row.wake_at.map(|at| at.0),
        row.ended.map(|at| at.0),
    ])?;
    Ok(())
}

/// Gives the branch to the run.
pub(super) fn take_branch(
    db: &Connection,
    tenant: &Tenant,
    new: &NewRun,
    first: &SqliteTransition,
) -> Result<(), StoreError> {
    let sql = "UPDATE branches SET run = ?4, touched = ?5 WHERE tenant = ?1 AND thread = ?2 AND branch = ?3";
    let run = Uuid16(first.run.0);
    let key = (tenant.as_str(), first.thread.as_str(), new.branch.as_str(), run, new.at.0);
    db.prepare_cached(sql)?.execute(key)?;
    Ok(())
}

/// Writes the other rows of a run that begins.
pub(super) fn begin(
    db: &Connection,
    tenant: &Tenant,
    new: &NewRun,
    definition: &PackedDefinition,
    run: RunId,
) -> Result<(), StoreError> {
    keep_definition(db, tenant, definition)?;
    match &new.key {
        Some(key) => keys::note(db, tenant, key, Some(run), None),
        None => Ok(()),
    }
}

/// The tree of a thread, if the branch is free, the run is next in its queue, and the head is where the run expects it.
pub(super) fn free_branch(
    db: &Connection,
    tenant: &Tenant,
    first: &SqliteTransition,
    new: &NewRun,
) -> Result<read::SqliteTree, StoreError> {
    let loaded = read::tree(db, tenant, &first.thread)?;
    loaded.not_busy(&new.branch)?;
    let head = loaded.tree.branch(&new.branch)?.head;
    let next = queue::first_in_line(db, tenant, &first.thread, &new.branch)?;
    crate::runs::in_turn(&new.branch, first.run, next)?;
    crate::runs::unmoved(new, head.index, read::written_by(db, tenant, &first.thread, head)?)?;
    Ok(loaded)
}
