//! The errors of the engine.

use baton_core::flow::UnknownFlow;
use baton_core::id::{Cursor, RunId};
use baton_core::policy::Mode;
use baton_store::StoreError;

/// Why the engine refused a request.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// The store refused or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The run's flow does not exist in this version.
    #[error(transparent)]
    Flow(#[from] UnknownFlow),
    /// Tools of the definition are not configured here.
    #[error("run {run} needs tools that are not configured here: {}", missing.join(", "))]
    MissingTools {
        /// The run.
        run: RunId,
        /// Their names.
        missing: Vec<String>,
    },
    /// A cursor from the future, or beyond the end.
    #[error("cursor {cursor} is not of this run: it is at {last}")]
    BadCursor {
        /// The given cursor.
        cursor: Cursor,
        /// The run's last cursor.
        last: Cursor,
    },
    /// The caller's key was used before, for another request.
    #[error("this idempotency key was used before with another body: choose another key")]
    KeyMismatch,
    /// The caller lacks the permission.
    #[error("{0}")]
    Forbidden(String),
    /// The run is allowed more than the caller may allow.
    #[error("this run is allowed what {} allows, and the caller may allow at most {}", mode.as_str(), most.as_str())]
    AboveMode {
        /// The run's mode.
        mode: Mode,
        /// The highest mode of the caller.
        most: Mode,
    },
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The engine is being shut down.
    #[error("this process is shutting down")]
    ShuttingDown,
}
