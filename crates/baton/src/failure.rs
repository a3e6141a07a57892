//! What a command says when it did not work, and the exit code that goes with it.

use baton_engine::EngineError;
use baton_store::StoreError;

/// The exit codes, the same for every command.
pub(crate) mod exit {
    /// It worked.
    pub(crate) const OK: u8 = 0;
    /// The run or the operation failed.
    pub(crate) const FAILED: u8 = 1;
    /// Wrong use or configuration.
    pub(crate) const USAGE: u8 = 2;
    /// The run is suspended: it waits for a person.
    pub(crate) const SUSPENDED: u8 = 3;
    /// It was cancelled.
    pub(crate) const CANCELLED: u8 = 130;
    /// The process was told to go (SIGTERM), and let go of its run.
    pub(crate) const TERMINATED: u8 = 143;
}

/// A command that did not work.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) code: u8,
    /// What went wrong.
    pub(crate) message: String,
    /// What to do about it.
    pub(crate) hint: Option<String>,
}

impl Failure {
    /// The operation failed.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Failure { code: exit::FAILED, message: message.into(), hint: None }
    }

    /// Wrong use or configuration.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure { code: exit::USAGE, message: message.into(), hint: None }
    }

    /// With what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let failure = Failure::failed(error.to_string());
        match error {
            StoreError::NotFound { what: "thread", .. } => {
                failure.hint("baton threads ls shows what there is")
            }
            StoreError::NotFound { what: "run", .. } => failure.hint("baton runs ls shows what there is"),
            StoreError::NotFound { what: "approval", .. } => {
                failure.hint("baton approvals ls shows what there is")
            }
            StoreError::Busy { run, .. } => failure.hint(format!(
                "baton runs resume {0} goes on with it, baton runs cancel {0} ends it",
                run.short()
            )),
            StoreError::Blocked { hint, .. } => failure.hint(hint),
            StoreError::Held { run, .. } => {
                failure.hint(format!("baton runs resume --take {} takes it over", run.short()))
            }
            _ => failure,
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Store(error) => error.into(),
            EngineError::Invalid(why) => Failure::usage(why),
            other => Failure::failed(other.to_string()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::failed(error.to_string())
    }
}
