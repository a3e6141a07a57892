//! Rows of branches.

use baton_core::id::{BranchName, Tenant, ThreadId};
use baton_core::thread::Place;
use baton_core::time::Timestamp;
use rusqlite::Connection;

use crate::error::StoreError;

pub(super) fn insert_branch(
    db: &Connection,
    tenant: &Tenant,
    thread: &ThreadId,
    branch: &BranchName,
    head: Place,
    (from, index): &(BranchName, i64),
    at: Timestamp,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO branches(tenant, thread, branch, lane, head, from_branch, from_index, touched)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
    let values = (
        tenant.as_str(),
        thread.as_str(),
        branch.as_str(),
        head.lane,
        head.index,
        from.as_str(),
        index,
        at.0,
    );
    db.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

pub(super) fn move_branch(
    db: &Connection,
    tenant: &Tenant,
    thread: &ThreadId,
    branch: &BranchName,
    head: Place,
    touched: Option<Timestamp>,
) -> Result<(), StoreError> {
    let sql = "UPDATE branches SET lane = ?4, head = ?5, touched = coalesce(?6, touched)
               WHERE tenant = ?1 AND thread = ?2 AND branch = ?3";
    let touched = touched.map(|at| at.0);
    let values = (tenant.as_str(), thread.as_str(), branch.as_str(), head.lane, head.index, touched);
    db.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

pub(super) fn remove_branch(
    db: &Connection,
    tenant: &Tenant,
    thread: &ThreadId,
    branch: &BranchName,
) -> Result<(), StoreError> {
    let sql = "DELETE FROM branches WHERE tenant = ?1 AND thread = ?2 AND branch = ?3";
    db.prepare_cached(sql)?.execute((tenant.as_str(), thread.as_str(), branch.as_str()))?;
    Ok(())
}
