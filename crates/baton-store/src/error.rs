//! What a store can refuse, and what can go wrong with it.

use baton_core::id::{OwnerId, RunId};
use baton_core::run::{ApprovalStatus, RunStatus};
use baton_core::thread::{OrderError, TreeError};

use crate::turnstile::NoTurn;

/// Why a store did not do what it was asked. Each says by its kind whether asking again can help.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StoreError {
    /// There is no such thing here.
    #[error("there is no {what} {id:?}")]
    NotFound {
        /// What was looked for.
        what: &'static str,
        /// Under which id.
        id: String,
    },
    /// There already is one.
    #[error("there already is a {what} {id:?}")]
    Exists {
        /// What.
        what: &'static str,
        /// Under which id.
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
    /// The branch is not where the caller thought.
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
    /// Somebody decided already.
    #[error("approval {id:?} is already decided: {}", status.as_str())]
    AlreadyDecided {
        /// The approval.
        id: String,
        /// How.
        status: ApprovalStatus,
    },
    /// The run is over.
    #[error("run {run} has ended: {}", status.as_str())]
    Ended {
        /// The run.
        run: RunId,
        /// How.
        status: RunStatus,
    },
    /// A living process holds the run.
    #[error("run {run} is held by a living process")]
    Held {
        /// The run.
        run: RunId,
        /// Who.
        owner: OwnerId,
    },
    /// This build is too old for the run.
    #[error("run {run} needs version {needs}, and this build knows up to {known}")]
    TooNew {
        /// The run.
        run: RunId,
        /// What it needs.
        needs: u32,
        /// What is known.
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
    /// Calls of the thread's runs are not in the audit trail yet: it is not removed before they are.
    #[error("tool calls on thread {thread:?} are not in the audit trail yet: try again in a moment")]
    Untold {
        /// The thread.
        thread: String,
    },
    /// The writer lost the run: nothing was written.
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
    /// It is longer than anything that could be read again: nothing was written.
    #[error("{bytes} bytes are too long for one record: at most 64 MiB are kept")]
    TooLong {
        /// How long it is, as JSON.
        bytes: usize,
    },
    /// A row cannot be read. It harms this run or thread, and no other.
    #[error("{what} {id:?} cannot be read: {why}")]
    Corrupt {
        /// What.
        what: &'static str,
        /// Which.
        id: String,
        /// Why.
        why: String,
    },
    /// The store cannot be reached; nothing was written.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// Something that a person can do something about keeps everybody from writing: another process of this machine, a
    /// full disk, a folder that is read-only. Nothing was written.
    #[error("the store cannot be written to: {by}")]
    Blocked {
        /// What it is.
        by: String,
        /// What helps.
        hint: String,
    },
    /// Nobody knows whether it was written: read back before anything else.
    #[error("the store did not say whether it wrote: {0}")]
    Ambiguous(String),
}

/// What helps where a disk is full.
const FREE_SPACE: &str = "free some space there, and say it again: nothing is lost that was acknowledged";

impl StoreError {
    /// Whether the same call may work a moment later.
    pub fn is_transient(&self) -> bool {
        matches!(self, StoreError::Unavailable(_) | StoreError::Blocked { .. } | StoreError::Ambiguous(_))
    }

    /// The disk is full: whoever asked can do something about it.
    pub fn full() -> Self {
        StoreError::Blocked { by: "the disk is full".to_owned(), hint: FREE_SPACE.to_owned() }
    }

    /// The same, with the folder on whose disk it happened.
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
