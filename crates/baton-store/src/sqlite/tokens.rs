//! Tokens in SQLite.

use baton_core::id::Tenant;
use rusqlite::{Connection, Row};

use super::outbox::{self, SqliteEvent};
use super::{SqliteStore, read};
use crate::error::StoreError;
use crate::record;
use crate::service::{AuditEvent, Token};

impl SqliteStore {
    pub(crate) async fn add_token(&self, token: &Token, audit: Option<AuditEvent>) -> Result<(), StoreError> {
        let (id, hash, tenant) = (token.id.clone(), token.hash.clone(), token.tenant.clone());
        let audit = SqliteEvent::all(audit)?;
        let (body, crc) = record::encode(token)?;
        self.write(move |db| {
            let sql = "INSERT OR IGNORE INTO tokens(id, hash, body, crc) VALUES (?1, ?2, ?3, ?4)";
            match db.prepare_cached(sql)?.execute((&id, hash, body, crc))? {
                0 => Err(StoreError::Exists { what: "token", id }),
                _ => {
                    outbox::note_all(db, &tenant, &audit)?;
                    mark(db)
                }
            }
        })
        .await
    }

    pub(crate) async fn require_tokens(&self) -> Result<(), StoreError> {
        self.write(mark).await
    }

    pub(crate) async fn requires_tokens(&self) -> Result<bool, StoreError> {
        self.read(|db| {
            let sql = "SELECT EXISTS (SELECT 1 FROM marks WHERE name = 'tokens')";
            Ok(db.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
        })
        .await
    }

    pub(crate) async fn require_no_tokens(&self, audit: Option<AuditEvent>) -> Result<bool, StoreError> {
        let audit = SqliteEvent::all(audit)?;
        self.write(move |db| {
            let sql = "DELETE FROM marks WHERE name = 'tokens' AND NOT EXISTS (SELECT 1 FROM tokens)";
            if db.prepare_cached(sql)?.execute([])? > 0 {
                outbox::note_all(db, &Tenant::local(), &audit)?;
            }
            let sql = "SELECT NOT EXISTS (SELECT 1 FROM tokens)";
            Ok(db.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
        })
        .await
    }

    pub(crate) async fn tokens(&self) -> Result<Vec<Token>, StoreError> {
        self.read(move |db| {
            let mut statement = db.prepare_cached("SELECT id, body, crc FROM tokens ORDER BY id")?;
            let mut rows = statement.query([])?;
            let mut out = Vec::new();
            while let Some(row) = rows.next()? {
                out.extend(read::listed(token(row))?); // a token that cannot be read opens nothing
            }
            out.sort_by_key(|token| token.created);
            Ok(out)
        })
        .await
    }

    pub(crate) async fn revoke_token(
        &self,
        id: &str,
        audit: Option<(Tenant, AuditEvent)>,
    ) -> Result<(), StoreError> {
        let id = id.to_owned();
        let (tenant, audit) = audit.unzip();
        let audit = SqliteEvent::all(audit)?;
        self.write(move |db| match db.prepare_cached("DELETE FROM tokens WHERE id = ?1")?.execute([&id])? {
            0 => Err(StoreError::not_found("token", id)),
            _ => outbox::note_all(db, &tenant.unwrap_or_else(Tenant::local), &audit),
        })
        .await
    }
}

/// Stores the mark that there was a token.
fn mark(db: &Connection) -> Result<(), StoreError> {
    db.prepare_cached("INSERT OR IGNORE INTO marks(name) VALUES ('tokens')")?.execute([])?;
    Ok(())
}

fn token(row: &Row<'_>) -> Result<Token, StoreError> {
    let (id, body, crc): (String, Vec<u8>, u32) = (row.get(0)?, row.get(1)?, row.get(2)?);
    record::decode("token", id, &body, crc)
}
