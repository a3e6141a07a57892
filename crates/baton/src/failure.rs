//! The failure of a command: its message and its exit code. With `--json` it is the problem document that the service
//! would answer.

use baton_core::json::cut;
use baton_engine::EngineError;
use baton_store::StoreError;
use serde_json::{Map, Value};

use crate::serve::problem::{Problem, ProblemCode, members};

/// The most characters of a failure's message that are printed: a stranger's file may have had a hand in its words.
pub(crate) const MOST_WORDS: usize = 16 << 10;

/// The exit codes, the same for every command.
pub(crate) mod exit {
    /// The command succeeded.
    pub(crate) const OK: u8 = 0;
    /// The run or the operation failed.
    pub(crate) const FAILED: u8 = 1;
    /// Wrong use or configuration.
    pub(crate) const USAGE: u8 = 2;
    /// The run is suspended: it waits for an answer or a decision.
    pub(crate) const SUSPENDED: u8 = 3;
    /// It was cancelled.
    pub(crate) const CANCELLED: u8 = 130;
    /// The process was told to go (SIGTERM), and released its run.
    pub(crate) const TERMINATED: u8 = 143;
}

/// The failure of a command.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    /// The exit code.
    pub(crate) code: u8,
    /// The error message.
    pub(crate) message: String,
    /// How to fix it.
    pub(crate) hint: Option<String>,
    /// The kind of problem.
    pub(crate) kind: ProblemCode,
    /// Further members of the problem.
    more: Map<String, Value>,
}

impl Failure {
    /// The operation failed.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Failure::new(exit::FAILED, ProblemCode::Internal, message)
    }

    /// There is no such thing.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Failure::new(exit::FAILED, ProblemCode::NotFound, message)
    }

    /// The operation conflicts with the present state.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Failure::new(exit::FAILED, ProblemCode::Conflict, message)
    }

    /// Wrong use or configuration.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure::new(exit::USAGE, ProblemCode::InvalidRequest, message)
    }

    fn new(code: u8, kind: ProblemCode, message: impl Into<String>) -> Self {
        Failure { code, message: message.into(), hint: None, kind, more: Map::new() }
    }

    /// The same in other words.
    pub(crate) fn saying(mut self, message: impl Into<String>) -> Self {
        self.message = message.into();
        self
    }

    /// The same as a problem of another kind.
    pub(crate) fn of_kind(mut self, kind: ProblemCode) -> Self {
        self.kind = kind;
        self
    }

    /// The failure as a problem document, as the service would answer it: the whole message, and the fix as `hint`.
    pub(crate) fn document(&self) -> Value {
        let detail = cut(&self.message, MOST_WORDS);
        let problem = Problem { more: self.more.clone(), ..Problem::new(self.kind, detail) };
        match &self.hint {
            Some(hint) => problem.with("hint", hint.as_str()).body(),
            None => problem.body(),
        }
    }

    /// Several failures as one that reports all of them, each with its hint; none is `Ok`.
    pub(crate) fn of_all(mut failures: Vec<Failure>) -> Result<(), Failure> {
        let many = failures.len();
        match many {
            0 => return Ok(()),
            1 => return Err(failures.remove(0)),
            _ => {}
        }
        let (code, kind) = (failures[0].code, failures[0].kind);
        let mut lines = vec![format!("the settings have {many} mistakes")];
        for failure in failures {
            lines.push(format!("  {}", failure.message));
            lines.extend(failure.hint.map(|hint| format!("    {hint}")));
        }
        Err(Failure::new(code, kind, lines.join("\n")))
    }

    /// The same with a hint.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let failure = Failure::new(exit::FAILED, ProblemCode::from(&error), error.to_string());
        let failure = Failure { more: members(&error), ..failure };
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
            other => Failure::new(exit::FAILED, ProblemCode::from(&other), other.to_string()),
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
    fn a_failure_is_the_problem_that_the_service_would_answer() {
        let run: baton_core::id::RunId = "019a9d5c-0000-7000-8000-00005d0c7b1e".parse().unwrap();
        let busy = Failure::from(StoreError::Busy { branch: "main".to_owned(), run });
        let expected = serde_json::json!({
            "type": "urn:baton:problem:branch_busy", "title": "A run is active on the branch", "status": 409,
            "detail": format!("branch \"main\" is busy with run {run}"), "code": "branch_busy", "run_id": run,
            "hint": "baton runs resume 5d0c7b1e goes on with it, baton runs cancel 5d0c7b1e ends it",
        });
        assert_eq!((busy.code, busy.document()), (exit::FAILED, expected));
        let rows = [
            (Failure::failed("x"), 1, "internal"),
            (Failure::usage("x"), 2, "invalid_request"),
            (Failure::not_found("x"), 1, "not_found"),
            (Failure::conflict("x"), 1, "conflict"),
            (Failure::usage("x").of_kind(ProblemCode::NotFound), 2, "not_found"),
            (EngineError::Invalid("x".to_owned()).into(), 2, "invalid_request"),
            (EngineError::KeyMismatch.into(), 1, "idempotency_mismatch"),
            (StoreError::Unavailable("x".to_owned()).into(), 1, "store_unavailable"),
        ];
        for (failure, code, kind) in rows {
            assert_eq!((failure.code, failure.kind.as_str()), (code, kind), "{failure:?}");
        }
        let long = Failure::failed("x".repeat(MOST_WORDS * 2)).document();
        assert_eq!(long["detail"].as_str().map(str::len), Some(MOST_WORDS));
    }

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
