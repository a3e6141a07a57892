//! Running a tool, whatever it does: the result is always one bounded outcome.
//!
//! It does not stop at a cancel by itself: the tool is told through its context, and the engine
//! decides how long to wait before it drops the call. Dropping the call cancels the tool's context,
//! so that work on other threads learns of it too.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use baton_core::effect::ToolOutcome;
use baton_core::thread::Closing;
use baton_core::tool::Cause;
use futures_util::FutureExt;
use serde_json::Value;

use super::{Registered, Registry};
use crate::output::{self, Limited};
use crate::tool::{CallContext, Output, ToolError};

/// What came of running a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Ran {
    /// The outcome to record.
    pub outcome: ToolOutcome,
    /// The bytes to store under the hash of `outcome.blob`.
    pub blob: Option<Vec<u8>>,
    /// Whether it failed, and is known to have failed before anything was sent or done.
    pub before_start: bool,
    /// Whether its time ran out, or no answer came: what it did by then is not known.
    pub timed_out: bool,
}

impl Ran {
    fn ended(status: Closing, limited: Limited) -> Self {
        let (blob, bytes) = limited.kept.map(|kept| (kept.blob, kept.bytes)).unzip();
        let outcome = ToolOutcome { blob, ..ToolOutcome::new(status, limited.result) };
        Ran { outcome, blob: bytes, before_start: false, timed_out: false }
    }

    fn failed(error: ToolError) -> Self {
        let mut ran = Ran::ended(Closing::Error, output::limit(Output::Text(error.message)));
        ran.outcome.cause = Some(error.cause);
        Ran { before_start: error.before_start, timed_out: error.unknown, ..ran }
    }
}

impl Registry {
    /// Runs a tool within its time, its schema and the limits of [`crate::output`].
    pub async fn call(&self, name: &str, arguments: Value, context: CallContext) -> Ran {
        let Some(registered) = self.tools.get(name) else {
            return Ran::failed(ToolError::asked(format!("There is no tool {name:?} here.")));
        };
        let cancel = context.cancel.child_token();
        let _stop_when_dropped = cancel.clone().drop_guard();
        let context = CallContext { cancel, ..context };

        let tool = Arc::clone(&registered.tool);
        let timeout = Duration::from_millis(tool.spec().timeout_ms);
        let work = AssertUnwindSafe(async move { tool.call(arguments, context).await }).catch_unwind();
        match tokio::time::timeout(timeout, work).await {
            Ok(Ok(Ok(output))) => registered.accept(output),
            Ok(Ok(Err(error))) => Ran::failed(error),
            // What the panic said may hold anything, so it is not passed on; what was done before it is not known.
            Ok(Err(_panic)) => Ran::failed(ToolError::unknown(format!(
                "`{name}` broke down. This is a fault of the tool, not of the arguments."
            ))),
            Err(_elapsed) => {
                let message =
                    format!("`{name}` did not finish within {} ms and was stopped.", timeout.as_millis());
                // No cause is named: what was too slow once is not run again by itself, at the run's expense.
                let told = output::limit(Output::Text(message));
                Ran { timed_out: true, ..Ran::ended(Closing::Error, told) }
            }
        }
    }
}

impl Registered {
    fn accept(&self, output: Output) -> Ran {
        match self.misfit(&output) {
            None => Ran::ended(Closing::Ok, output::limit(output)),
            Some(reason) => {
                let kept = output::keep(into_bytes(output));
                let message = format!(
                    "`{}` returned something else than it promises: {reason}. Its raw result can be read with \
                     read_blob; hash {}.",
                    self.tool.spec().name,
                    kept.blob.hash
                );
                let told = Limited { result: Value::String(message), kept: Some(kept) };
                let mut ran = Ran::ended(Closing::Error, told);
                ran.outcome.cause = Some(Cause::Tool);
                ran
            }
        }
    }

    /// What does not fit the output schema, where the tool promises one.
    fn misfit(&self, output: &Output) -> Option<String> {
        let schema = self.output.as_ref()?;
        match output {
            Output::Json(value) => schema.mismatches(value),
            Output::Text(text) => schema.mismatches(&Value::String(text.clone())),
            Output::Bytes(_) => Some("it is raw bytes".to_owned()),
        }
    }
}

fn into_bytes(output: Output) -> Vec<u8> {
    match output {
        Output::Json(value) => value.to_string().into_bytes(),
        Output::Text(text) => text.into_bytes(),
        Output::Bytes(bytes) => bytes,
    }
}
