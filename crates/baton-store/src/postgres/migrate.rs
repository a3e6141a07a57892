//! Migrations of the tables to the newest version. Tables of a newer version are refused.
//!
//! The version is a row of `meta`; each migration commits together with its number, so one that was cut off starts
//! again. One process at a time migrates: an advisory lock, one for each schema, keeps others waiting. Tables that are
//! up to date cost one statement and no lock.

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use super::PgError;
use super::fault::said;
use crate::failpoint;

/// All migrations: the version that each leads to, the Baton release that brought it, and its SQL.
const MIGRATIONS: &[(i32, &str, &str)] = &[
    (1, "0.1.0", include_str!("../../migrations/postgres/0001_first.sql")),
    (2, "0.1.0", include_str!("../../migrations/postgres/0002_many_runs.sql")),
    (3, "0.1.0", include_str!("../../migrations/postgres/0003_private.sql")),
];

/// The first half of the lock's number; the hash of the schema is the second.
const LOCK: i32 = 0x6261_746f;

/// Upgrades the tables of the current schema to the newest version.
pub(super) async fn bring_up_to_date(db: &Client) -> Result<(), PgError> {
    let newest = MIGRATIONS.last().map_or(0, |(version, ..)| *version);
    let (mut found, needs) = version(db).await?;
    if found > newest {
        return Err(PgError::Newer { found, known: newest, needs });
    }
    if found == newest {
        return Ok(());
    }
    db.batch_execute("SET lock_timeout = '60s'; SET statement_timeout = 0").await?;
    let schema = "SELECT current_schema()";
    if db.query_one(schema, &[]).await?.try_get::<_, Option<String>>(0)?.is_none() {
        let why = "no schema of its search_path exists: make one with CREATE SCHEMA first";
        return Err(PgError::Address(why.to_owned()));
    }
    // The lock is released with the connection even after an error.
    db.query("SELECT pg_advisory_lock($1, hashtext(current_schema()))", &[&LOCK]).await?;
    found = version(db).await?.0; // another process may have done it
    for (version, by, sql) in MIGRATIONS.iter().filter(|(version, ..)| *version > found) {
        let fail = |error: tokio_postgres::Error| PgError::Migration { version: *version, why: said(&error) };
        db.batch_execute("BEGIN").await.map_err(fail)?;
        db.batch_execute(sql).await.map_err(fail)?;
        failpoint::point("migrate.mid");
        let stamp = format!(
            "CREATE TABLE IF NOT EXISTS meta (version int NOT NULL, needs text NOT NULL);
             DELETE FROM meta; INSERT INTO meta VALUES ({version}, '{by}'); COMMIT"
        );
        db.batch_execute(&stamp).await.map_err(fail)?;
    }
    db.query("SELECT pg_advisory_unlock($1, hashtext(current_schema()))", &[&LOCK]).await?;
    Ok(())
}

/// The version of the tables, and the Baton version that they require; 0 where there are none.
async fn version(db: &Client) -> Result<(i32, String), PgError> {
    match db.query_opt("SELECT version, needs FROM meta", &[]).await {
        Ok(Some(row)) => Ok((row.try_get(0)?, row.try_get(1)?)),
        Ok(None) => Ok((0, String::new())),
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok((0, String::new())),
        Err(error) => Err(PgError::Migration { version: 0, why: said(&error) }),
    }
}
