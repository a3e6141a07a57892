//! Approvals in PostgreSQL: requests to people, and their decisions.

use baton_core::id::Tenant;
use baton_core::run::{Approval, ApprovalStatus};
use baton_core::time::Timestamp;
use tokio_postgres::Row;

use super::row::{checksum, listed};
use super::{Db, PgStore};
use crate::error::StoreError;
use crate::record;

/// One approval by its id.
pub(super) const APPROVAL: &str =
    "SELECT approval, body, crc FROM approvals WHERE tenant = $1 AND approval = $2";
/// The time at which an approval was requested.
pub(super) const ASKED_AT: &str = "SELECT created FROM approvals WHERE tenant = $1 AND approval = $2";
/// A page of approvals, newest first: those before the last one of the page before. The status is part of the text,
/// because only then the planner knows whether it is rare or frequent.
pub(super) fn listing(status: Option<ApprovalStatus>) -> String {
    let wanted = status.map(|status| format!("AND status = '{}'", status.as_str())).unwrap_or_default();
    format!(
        "SELECT approval, body, crc, created FROM approvals
         WHERE tenant = $1 AND (created, approval) < ($2, $3) {wanted}
         ORDER BY created DESC, approval DESC LIMIT $4"
    )
}

impl PgStore {
    pub(crate) async fn approval(&self, tenant: &Tenant, id: &str) -> Result<Approval, StoreError> {
        let row = self.one(APPROVAL, &[&tenant.as_str(), &id]).await?;
        approval(&row.ok_or_else(|| StoreError::not_found("approval", id))?)
    }

    pub(crate) async fn approvals(
        &self,
        tenant: &Tenant,
        status: Option<ApprovalStatus>,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Approval>, StoreError> {
        let sql = listing(status);
        let page = i64::from(limit).clamp(16, 1000);
        let (mut created, mut id) = match after {
            Some(id) => (self.asked_at(tenant, id).await?, id.to_owned()),
            None => (i64::MAX, String::new()),
        };
        let mut out = Vec::new();
        while out.len() < limit as usize {
            let rows = self.at_leisure().rows(&sql, &[&tenant.as_str(), &created, &id, &page]).await?;
            for row in &rows {
                out.extend(listed(approval(row))?);
            }
            let Some(last) = rows.last().filter(|_| rows.len() as i64 == page) else { break };
            (created, id) = (last.try_get(3)?, last.try_get(0)?);
        }
        out.truncate(limit as usize);
        Ok(out)
    }

    /// The time at which an approval was requested, even if the rest of it cannot be read.
    async fn asked_at(&self, tenant: &Tenant, id: &str) -> Result<i64, StoreError> {
        let row = self.one(ASKED_AT, &[&tenant.as_str(), &id]).await?;
        Ok(row.ok_or_else(|| StoreError::not_found("approval", id))?.try_get(0)?)
    }
}

fn approval(row: &Row) -> Result<Approval, StoreError> {
    let id: String = row.try_get(0)?;
    record::decode("approval", id, row.try_get(1)?, checksum(row, 2)?)
}

/// Reads and locks an approval, so that no other transaction changes it before this one ends.
pub(super) async fn locked_approval(db: &Db<'_>, tenant: &Tenant, id: &str) -> Result<Approval, StoreError> {
    let sql = "SELECT approval, body, crc FROM approvals WHERE tenant = $1 AND approval = $2 FOR UPDATE";
    let row = db.query_opt(&db.prepare_cached(sql).await?, &[&tenant.as_str(), &id]).await?;
    approval(&row.ok_or_else(|| StoreError::not_found("approval", id))?)
}

pub(super) async fn update_approval(
    db: &Db<'_>,
    tenant: &Tenant,
    approval: &Approval,
) -> Result<(), StoreError> {
    let (body, crc) = record::encode(approval)?;
    let sql = "UPDATE approvals SET status = $3, body = $4, crc = $5 WHERE tenant = $1 AND approval = $2";
    let statement = db.prepare_cached(sql).await?;
    let (status, crc) = (approval.status.as_str(), i64::from(crc));
    db.execute(&statement, &[&tenant.as_str(), &approval.id, &status, &body, &crc]).await?;
    Ok(())
}

/// Closes approvals that were not decided; one that does not exist is skipped.
pub(super) async fn settle(
    db: &Db<'_>,
    tenant: &Tenant,
    settled: &[(String, ApprovalStatus)],
    at: Timestamp,
) -> Result<(), StoreError> {
    for (id, status) in settled {
        let mut approval = match locked_approval(db, tenant, id).await {
            Err(StoreError::NotFound { .. }) => continue,
            found => found?,
        };
        crate::runs::settle(&mut approval, *status, at);
        update_approval(db, tenant, &approval).await?;
    }
    Ok(())
}
