//! Approvals in SQLite: requests to people, and their decisions.

use baton_core::id::Tenant;
use baton_core::run::{Approval, ApprovalStatus};
use rusqlite::{Connection, OptionalExtension, Row};

use super::{SqliteStore, read};
use crate::error::StoreError;
use crate::record;

impl SqliteStore {
    pub(crate) async fn approval(&self, tenant: &Tenant, id: &str) -> Result<Approval, StoreError> {
        let (tenant, id) = (tenant.clone(), id.to_owned());
        self.read(move |db| load_approval(db, &tenant, &id)).await
    }

    pub(crate) async fn approvals(
        &self,
        tenant: &Tenant,
        status: Option<ApprovalStatus>,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Approval>, StoreError> {
        let (tenant, after) = (tenant.clone(), after.map(ToOwned::to_owned));
        self.read(move |db| {
            let before = match &after {
                Some(id) => created(db, &tenant, id)?,
                None => i64::MAX,
            };
            // The index serves the first condition on the creation time.
            let wanted = if status.is_some() { "status = ?2" } else { "?2 IS NULL" };
            let sql = format!(
                "SELECT approval, body, crc FROM approvals WHERE tenant = ?1 AND {wanted}
                 AND created <= ?3 AND (?4 IS NULL OR created < ?3 OR approval < ?4)
                 ORDER BY created DESC, approval DESC"
            );
            let mut statement = db.prepare_cached(&sql)?;
            let status = status.map(ApprovalStatus::as_str);
            let mut rows = statement.query((tenant.as_str(), status, before, after))?;
            let mut out = Vec::new();
            while out.len() < limit as usize {
                let Some(row) = rows.next()? else { break };
                out.extend(read::listed(approval(row))?);
            }
            Ok(out)
        })
        .await
    }
}

/// The time at which an approval was requested.
fn created(db: &Connection, tenant: &Tenant, approval: &str) -> Result<i64, StoreError> {
    let sql = "SELECT created FROM approvals WHERE tenant = ?1 AND approval = ?2";
    let found = db.prepare_cached(sql)?.query_row((tenant.as_str(), approval), |row| row.get(0));
    found.optional()?.ok_or_else(|| StoreError::not_found("approval", approval))
}

pub(super) fn load_approval(db: &Connection, tenant: &Tenant, id: &str) -> Result<Approval, StoreError> {
    let sql = "SELECT approval, body, crc FROM approvals WHERE tenant = ?1 AND approval = ?2";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query((tenant.as_str(), id))?;
    let row = rows.next()?.ok_or_else(|| StoreError::not_found("approval", id))?;
    approval(row)
}

fn approval(row: &Row<'_>) -> Result<Approval, StoreError> {
    let (id, body, crc): (String, Vec<u8>, u32) = (row.get(0)?, row.get(1)?, row.get(2)?);
    record::decode("approval", id, &body, crc)
}

pub(super) fn update_approval(
    db: &Connection,
    tenant: &Tenant,
    approval: &Approval,
) -> Result<(), StoreError> {
    let (body, crc) = record::encode(approval)?;
    let sql = "UPDATE approvals SET status = ?3, body = ?4, crc = ?5 WHERE tenant = ?1 AND approval = ?2";
    db.prepare_cached(sql)?.execute((tenant.as_str(), &approval.id, approval.status.as_str(), body, crc))?;
    Ok(())
}
