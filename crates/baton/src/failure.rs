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
#[derive(Debug, Clone)]
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

    /// Several failures as one that tells all of them, each with what to do about it; none is fine.
    pub(crate) fn of_all(mut failures: Vec<Failure>) -> Result<(), Failure> {
        let many = failures.len();
        match many {
            0 => return Ok(()),
            1 => return Err(failures.remove(0)),
            _ => {}
        }
        let code = failures[0].code;
        let mut lines = vec![format!("the settings have {many} mistakes")];
        for failure in failures {
            lines.push(format!("  {}", failure.message));
            lines.extend(failure.hint.map(|hint| format!("    {hint}")));
        }
        Err(Failure { code, message: lines.join("\n"), hint: None })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_failures_are_told_as_one_and_none_is_none() {
        assert!(Failure::of_all(Vec::new()).is_ok());
        let one = Failure::of_all(vec![Failure::usage("a").hint("b")]).unwrap_err();
        assert_eq!((one.message.as_str(), one.hint.as_deref()), ("a", Some("b")));
        let two = Failure::of_all(vec![Failure::usage("a").hint("b"), Failure::failed("c")]).unwrap_err();
        let told = "the settings have 2 mistakes\n  a\n    b\n  c";
        assert_eq!((two.code, two.message.as_str(), two.hint), (exit::USAGE, told, None));
    }
}
