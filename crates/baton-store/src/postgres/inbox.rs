//! The inbox in PostgreSQL: messages to runs, from any process.

use baton_core::id::{RunId, Tenant};
use baton_core::run::Message;
use baton_core::time::Timestamp;
use tokio_postgres::types::ToSql;

use super::approvals::{locked_approval, update_approval};
use super::group::{Work, WriteError};
use super::row::{checksum, number, run_row, select_run};
use super::statement::Form;
use super::{Db, PgStore, outbox};
use crate::error::StoreError;
use crate::record;
use crate::service::AuditEvent;
use crate::view::{Posted, RunRow};

/// The number of an input that was posted before.
pub(super) const POSTED: &str = "SELECT n FROM inbox WHERE tenant = $1 AND run = $2 AND input_hash = $3";
/// Messages of a run after a number; one row of nulls if the run exists and has none.
pub(super) const INBOX: &str = "SELECT i.n, i.body, i.crc FROM runs r
    LEFT JOIN inbox i ON i.tenant = r.tenant AND i.run = r.run AND i.n > $3
    WHERE r.tenant = $1 AND r.run = $2 ORDER BY i.n";

impl PgStore {
    pub(crate) async fn decide(
        &self,
        tenant: &Tenant,
        run: RunId,
        message: Message,
        by: Option<String>,
        at: Timestamp,
        audit: Option<AuditEvent>,
    ) -> Result<u32, StoreError> {
        let (body, crc) = record::encode(&message)?;
        let kind = match &message {
            Message::Cancel => "cancel",
            Message::Input { .. } => "input",
            Message::Decision { .. } => {
                return self.take_decision(tenant, run, message, (by, at), audit, (body, crc)).await;
            }
        };
        let hash = crate::runs::input_hash(&message);
        let work = Work::Plain(
            Form::Post,
            run,
            vec![
                Box::new(tenant.as_str().to_owned()),
                Box::new(run.0),
                Box::new(kind),
                Box::new(at.0),
                Box::new(body),
                Box::new(i64::from(crc)),
                Box::new(hash.clone()),
            ],
        );
        match self.shared.group.run(work).await {
            Ok(done) if !done.rows.is_empty() => return number(&done.rows[0], 0),
            // The message was refused, or the same input was posted at the same moment.
            Ok(_) | Err(WriteError::Taken(_)) => {}
            Err(other) => return Err(other.into()),
        }
        match self.one(POSTED, &[&tenant.as_str(), &run.0, &hash]).await? {
            Some(row) => number(&row, 0),
            None => Err(not_posted(&self.run(tenant, run).await?)),
        }
    }

    /// Posts a user's decision, and applies it to the approval in the same write.
    async fn take_decision(
        &self,
        tenant: &Tenant,
        run: RunId,
        message: Message,
        (by, at): (Option<String>, Timestamp),
        audit: Option<AuditEvent>,
        (body, crc): (Vec<u8>, u32),
    ) -> Result<u32, StoreError> {
        let tenant = tenant.clone();
        self.write(move |db| {
            Box::pin(async move {
                // The run is locked before the approval, in the same order as in a transition.
                let row = locked(db, &tenant, run).await?;
                if row.status.has_ended() {
                    return Err(not_posted(&row));
                }
                if let Message::Decision { approval_id, .. } = &message {
                    let mut approval = locked_approval(db, &tenant, approval_id).await?;
                    if approval.run_id != run {
                        return Err(StoreError::not_found("approval", approval_id));
                    }
                    crate::runs::decide(&mut approval, &message, by, at)?;
                    update_approval(db, &tenant, &approval).await?;
                }
                outbox::note_ours(db, &tenant, audit.as_ref()).await?;
                let statement = db.prepare_cached(&Form::Post.sql()).await?;
                let (kind, crc, no_input) = ("decision", i64::from(crc), None::<String>);
                let values: [&(dyn ToSql + Sync); 7] =
                    [&tenant.as_str(), &run.0, &kind, &at.0, &body, &crc, &no_input];
                number(&db.query_one(&statement, &values).await?, 0)
            })
        })
        .await
    }

    pub(crate) async fn inbox(
        &self,
        tenant: &Tenant,
        run: RunId,
        after: u32,
    ) -> Result<Vec<Posted>, StoreError> {
        let rows = self.rows(INBOX, &[&tenant.as_str(), &run.0, &(after as i32)]).await?;
        if rows.is_empty() {
            return Err(StoreError::not_found("run", run));
        }
        let mut out = Vec::new();
        for row in rows.iter().filter(|row| !matches!(row.try_get::<_, Option<i32>>(0), Ok(None))) {
            let n = number(row, 0)?;
            let message =
                record::decode("message", format!("{run}#{n}"), row.try_get(1)?, checksum(row, 2)?)?;
            out.push(Posted { n, message });
        }
        Ok(out)
    }
}

/// Reads and locks a run, so that no other transaction changes it before this one ends.
pub(super) async fn locked(db: &Db<'_>, tenant: &Tenant, run: RunId) -> Result<RunRow, StoreError> {
    let sql = select_run!("WHERE tenant = $1 AND run = $2 FOR UPDATE");
    let row = db.query_opt(&db.prepare_cached(sql).await?, &[&tenant.as_str(), &run.0]).await?;
    run_row(&row.ok_or_else(|| StoreError::not_found("run", run))?)
}

fn not_posted(row: &RunRow) -> StoreError {
    match row.status.has_ended() {
        true => StoreError::Ended { run: row.id, status: row.status },
        false => StoreError::Unavailable("the run changed while it was written to".to_owned()),
    }
}
