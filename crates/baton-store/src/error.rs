//! The errors of a store.

use baton_core::id::{OwnerId, RunId};
use baton_core::run::{ApprovalStatus, RunStatus};
use baton_core::thread::{OrderError, TreeError};

use crate::turnstile::NoTurn;

/// A refusal or failure of a store. Its variant decides whether a retry can help.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StoreError {
    /// The object does not exist.
    #[error("there is no {what} {id:?}")]
    NotFound {
        /// The kind of object.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// The object exists already.
    #[error("there already is a {what} {id:?}")]
    Exists {
        /// The kind of object.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// A run is active on the branch.
    #[error("branch {branch:?} is busy with run {run}")]
    Busy {
        /// The branch.
        branch: String,
        /// The run.
        run: RunId,
    },
    /// The branch ends elsewhere than the caller expected.
    #[error("branch {branch:?} has moved")]
    Moved {
        /// The branch.
        branch: String,
    },
    /// The thread does not allow it.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The entry cannot stand there.
    #[error(transparent)]
    Order(#[from] OrderError),
    /// The approval was decided before.
    #[error("approval {id:?} is already decided: {}", status.as_str())]
    AlreadyDecided {
        /// The approval.
        id: String,
        /// The decision.
        status: ApprovalStatus,
    },
    /// The run has ended.
    #[error("run {run} has ended: {}", status.as_str())]
    Ended {
        /// The run.
        run: RunId,
        /// Its final status.
        status: RunStatus,
    },
    /// A living process holds the run.
    #[error("run {run} is held by a living process")]
    Held {
        /// The run.
        run: RunId,
        /// That process's owner id.
        owner: OwnerId,
    },
    /// This build is too old for the run.
    #[error("run {run} needs version {needs}, and this build knows up to {known}")]
    TooNew {
        /// The run.
        run: RunId,
        /// The version that the run needs.
        needs: u32,
        /// The newest version that this build knows.
        known: u32,
    },
    /// The caller's key was used before.
    #[error("this key was used before")]
    KeyUsed(Box<crate::service::KeyRow>),
    /// Too many runs wait for the branch.
    #[error("branch {branch:?} has {most} runs waiting already: try again when one of them has ended")]
    QueueFull {
        /// The branch.
        branch: String,
        /// How many may wait.
        most: u32,
    },
    /// Tool calls of the thread's runs are not in the audit trail yet: the thread is not removed before they are.
    #[error("tool calls on thread {thread:?} are not in the audit trail yet: try again in a moment")]
    Untold {
        /// The thread.
        thread: String,
    },
    /// The caller no longer owns the run: nothing was written.
    #[error("run {run} now belongs to somebody else (epoch {epoch})")]
    Fenced {
        /// The run.
        run: RunId,
        /// Its present epoch.
        epoch: u32,
    },
    /// There are messages that the writer has not read: nothing was written.
    #[error("there are unread messages (up to {inbox})")]
    Unread {
        /// How many there are.
        inbox: u32,
    },
    /// The value is longer than the longest that can be read back: nothing was written.
    #[error("{bytes} bytes are too long for one record: at most 64 MiB are kept")]
    TooLong {
        /// Its length as JSON.
        bytes: usize,
    },
    /// A row cannot be read. Only this run or thread is affected.
    #[error("{what} {id:?} cannot be read: {why}")]
    Corrupt {
        /// The kind of row.
        what: &'static str,
        /// Its id.
        id: String,
        /// The reason.
        why: String,
    },
    /// The store cannot be reached; nothing was written.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// An obstacle that the user can remove keeps every process from writing: another process of this machine, a full
    /// disk, a read-only folder. Nothing was written.
    #[error("the store cannot be written to: {by}")]
    Blocked {
        /// The obstacle.
        by: String,
        /// How to remove it.
        hint: String,
    },
    /// It is not known whether it was written: read back before anything else.
    #[error("the store did not say whether it wrote: {0}")]
    Ambiguous(String),
}

/// The hint where a disk is full.
const FREE_SPACE: &str = "free some space there, and say it again: nothing is lost that was acknowledged";

impl StoreError {
    /// Whether the same call may work a moment later.
    pub fn is_transient(&self) -> bool {
        matches!(self, StoreError::Unavailable(_) | StoreError::Blocked { .. } | StoreError::Ambiguous(_))
    }

    /// The error of a full disk, which the user can do something about.
    pub fn full() -> Self {
        StoreError::Blocked { by: "the disk is full".to_owned(), hint: FREE_SPACE.to_owned() }
    }

    /// Like [`StoreError::full`], with the folder on whose disk it happened.
    pub(crate) fn at(self, folder: &std::path::Path) -> Self {
        if self != StoreError::full() {
            return self;
        }
        StoreError::Blocked {
            by: format!("the disk of {} is full", folder.display()),
            hint: FREE_SPACE.to_owned(),
        }
    }

    pub(crate) fn not_found(what: &'static str, id: impl ToString) -> Self {
        StoreError::NotFound { what, id: id.to_string() }
    }

    pub(crate) fn corrupt(what: &'static str, id: impl ToString, why: impl ToString) -> Self {
        StoreError::Corrupt { what, id: id.to_string(), why: why.to_string() }
    }
}

impl From<NoTurn> for StoreError {
    fn from(error: NoTurn) -> Self {
        match error {
            NoTurn::Held(holder) => StoreError::Blocked { by: holder.to_string(), hint: holder.hint() },
            NoTurn::Io(error) => StoreError::Unavailable(format!("the turnstile: {error}")),
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode::{DatabaseCorrupt, DiskFull, NotADatabase};
        match error.sqlite_error_code() {
            Some(DatabaseCorrupt | NotADatabase) => {
                let why = format!("{error}; restore a copy of the data folder");
                StoreError::Corrupt { what: "file", id: "baton.db".to_owned(), why }
            }
            Some(DiskFull) => StoreError::full(),
            _ => StoreError::Unavailable(error.to_string()),
        }
    }
}
