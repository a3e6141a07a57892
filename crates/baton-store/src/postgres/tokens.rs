//! Tokens in PostgreSQL.

use baton_core::id::Tenant;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::outbox;
use super::row::{checksum, listed};
use super::{Db, PgStore};
use crate::error::StoreError;
use crate::record;
use crate::service::{AuditEvent, Token};

/// All tokens.
const TOKENS: &str = "SELECT id, body, crc FROM tokens ORDER BY id COLLATE \"C\"";

impl PgStore {
    pub(crate) async fn add_token(&self, token: &Token, audit: Option<AuditEvent>) -> Result<(), StoreError> {
        let token = token.clone();
        self.write(move |db| {
            Box::pin(async move {
                let sql =
                    "INSERT INTO tokens(id, hash, body, crc) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING";
                let (body, crc) = record::encode(&token)?;
                let values: [&(dyn ToSql + Sync); 4] = [&token.id, &token.hash, &body, &i64::from(crc)];
                match db.execute(&db.prepare_cached(sql).await?, &values).await? {
                    0 => Err(StoreError::Exists { what: "token", id: token.id }),
                    _ => {
                        outbox::note_ours(db, &token.tenant, audit.as_ref()).await?;
                        mark(db).await
                    }
                }
            })
        })
        .await
    }

    pub(crate) async fn require_tokens(&self) -> Result<(), StoreError> {
        self.write(move |db| Box::pin(mark(db))).await
    }

    pub(crate) async fn requires_tokens(&self) -> Result<bool, StoreError> {
        Ok(!self.rows("SELECT name FROM marks WHERE name = 'tokens'", &[]).await?.is_empty())
    }

    pub(crate) async fn require_no_tokens(&self, audit: Option<AuditEvent>) -> Result<bool, StoreError> {
        self.write(move |db| {
            Box::pin(async move {
                // The lock waits for a token that is being added, and makes a later one wait.
                db.batch_execute("LOCK TABLE tokens IN SHARE MODE").await?;
                let none = "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM tokens)";
                let is_free = db.query_opt(none, &[]).await?.is_some();
                if is_free && db.execute("DELETE FROM marks WHERE name = 'tokens'", &[]).await? > 0 {
                    outbox::note_ours(db, &Tenant::local(), audit.as_ref()).await?;
                }
                Ok(is_free)
            })
        })
        .await
    }

    pub(crate) async fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        let mut out = Vec::new();
        for row in self.rows(TOKENS, &[]).await? {
            out.extend(listed(token(&row))?); // a token that cannot be read opens nothing
        }
        out.sort_by_key(|token: &Token| token.created);
        Ok(out)
    }

    pub(crate) async fn revoke_token(
        &self,
        id: &str,
        audit: Option<(Tenant, AuditEvent)>,
    ) -> Result<(), StoreError> {
        let id = id.to_owned();
        let (tenant, audit) = audit.unzip();
        self.write(move |db| {
            Box::pin(async move {
                let statement = db.prepare_cached("DELETE FROM tokens WHERE id = $1").await?;
                match db.execute(&statement, &[&id]).await? {
                    0 => Err(StoreError::not_found("token", id)),
                    _ => outbox::note_ours(db, &tenant.unwrap_or_else(Tenant::local), audit.as_ref()).await,
                }
            })
        })
        .await
    }
}

/// Stores the mark that there was a token.
async fn mark(db: &Db<'_>) -> Result<(), StoreError> {
    let sql = "INSERT INTO marks(name) VALUES ('tokens') ON CONFLICT DO NOTHING";
    db.execute(&db.prepare_cached(sql).await?, &[]).await?;
    Ok(())
}

fn token(row: &Row) -> Result<Token, StoreError> {
    let id: String = row.try_get(0)?;
    record::decode("token", id, row.try_get(1)?, checksum(row, 2)?)
}
