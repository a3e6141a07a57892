//! Errors of PostgreSQL and of the connection to it, as errors of the store.
//!
//! The one question that matters: is it certain that nothing was written? An error of the server that ends a statement
//! and not the connection is certain; silence and a broken connection are not.

use deadpool_postgres::PoolError;
use tokio_postgres::error::{Severity, SqlState};

use crate::error::StoreError;

/// The reasons why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum PgError {
    /// The address cannot be used.
    #[error("the address of the database cannot be used: {0}")]
    Address(String),
    /// The certificates cannot be used.
    #[error("TLS with the database cannot be set up: {0}")]
    Tls(String),
    /// The server cannot be reached, or refuses the connection.
    #[error("the database cannot be reached: {0}")]
    Unreachable(String),
    /// The server is too old.
    #[error("PostgreSQL {0} is too old: 13 or newer is needed")]
    OldServer(String),
    /// The server may lose acknowledged writes.
    #[error(
        "PostgreSQL runs with {0}=off, so it can lose what it said was written: set {0} = on in its \
         configuration (postgresql.conf) and reload it, then start Baton again"
    )]
    Unsafe(&'static str),
    /// A newer Baton created the tables.
    #[error(
        "the tables are of format {found}, and this Baton ({}) knows up to {known}: use Baton {needs} or newer",
        env!("CARGO_PKG_VERSION")
    )]
    Newer {
        /// The version of the tables.
        found: i32,
        /// The newest version that this build knows.
        known: i32,
        /// The Baton version that the tables require.
        needs: String,
    },
    /// The tables cannot be created or upgraded.
    #[error("the tables cannot be brought to format {version}: {why}")]
    Migration {
        /// The version of the failed migration.
        version: i32,
        /// The reason.
        why: String,
    },
    /// The folder for lock files cannot be used.
    #[error("the folder for lock files cannot be used: {0}")]
    Io(#[from] std::io::Error),
}

impl From<tokio_postgres::Error> for PgError {
    fn from(error: tokio_postgres::Error) -> Self {
        PgError::Unreachable(said(&error))
    }
}

/// The text of an error, without the values that were sent.
pub(super) fn said(error: &tokio_postgres::Error) -> String {
    if let Some(db) = error.as_db_error() {
        return format!("{} ({})", db.message(), db.code().code());
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(deeper) = cause {
        text = format!("{text}: {deeper}");
        cause = deeper.source();
    }
    text
}

/// Whether the server itself reported that the statement or transaction failed: then nothing of it was written.
pub(super) fn is_certain(error: &tokio_postgres::Error) -> bool {
    error.as_db_error().is_some_and(|db| db.parsed_severity() == Some(Severity::Error))
}

/// The error of a statement that may have committed.
pub(super) fn at_commit(error: &tokio_postgres::Error) -> StoreError {
    if is_certain(error) { unavailable(error) } else { StoreError::Ambiguous(said(error)) }
}

/// Whether a statement failed because a row with that key exists.
pub(super) fn is_taken(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::UNIQUE_VIOLATION)
}

/// The error of a failure before anything was committed.
pub(super) fn unavailable(error: &tokio_postgres::Error) -> StoreError {
    match error.code() {
        Some(code) if *code == SqlState::DISK_FULL => StoreError::full(),
        Some(code) if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED => {
            StoreError::corrupt("database", "", format!("{}; restore a copy of it", said(error)))
        }
        _ => StoreError::Unavailable(said(error)),
    }
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        unavailable(&error)
    }
}

/// The error of a pool that gave no connection.
pub(super) fn no_connection(error: &PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => unavailable(error),
        PoolError::Timeout(_) => StoreError::Unavailable("no connection to the database in time".to_owned()),
        other => StoreError::Unavailable(other.to_string()),
    }
}
