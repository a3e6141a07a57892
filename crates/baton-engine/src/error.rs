//! What the engine can refuse.

use baton_core::flow::UnknownFlow;
use baton_core::id::{Cursor, RunId};
use baton_core::policy::Mode;
use baton_store::StoreError;

/// Why a request to the engine was not taken.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// The store said no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The run's flow is not known here.
    #[error(transparent)]
    Flow(#[from] UnknownFlow),
    /// The definition's tools are not known here.
    #[error("run {run} needs tools that are not configured here: {}", missing.join(", "))]
    MissingTools {
        /// The run.
        run: RunId,
        /// Which.
        missing: Vec<String>,
    },
    /// A cursor from the future, or beyond the end.
    #[error("cursor {cursor} is not of this run: it is at {last}")]
    BadCursor {
        /// What was given.
        cursor: Cursor,
        /// Where the run is.
        last: Cursor,
    },
    /// The caller's key was used before, for something else.
    #[error("this idempotency key was used before with another body: choose another key")]
    KeyMismatch,
    /// It is outside what the caller may do.
    #[error("{0}")]
    Forbidden(String),
    /// The run is allowed more than the caller may allow.
    #[error("this run is allowed what {} allows, and the caller may allow at most {}", mode.as_str(), most.as_str())]
    AboveMode {
        /// The run's.
        mode: Mode,
        /// The caller's most.
        most: Mode,
    },
    /// What was given cannot be taken.
    #[error("{0}")]
    Invalid(String),
    /// The engine is being shut down.
    #[error("this process is shutting down")]
    ShuttingDown,
}
