//! Calls of tools: every ending of a tool becomes one bounded outcome.
//!
//! A call does not stop at a cancel by itself: the tool's context carries the cancel, and the engine
//! decides how long to wait before it drops the call. Dropping the call cancels the tool's context,
//! so that work on other threads stops, too.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use baton_core::effect::ToolOutcome;
use baton_core::thread::Closing;
use baton_core::tool::Cause;
use futures_util::FutureExt;
use serde_json::Value;

use super::{RegisteredTool, Registry};
use crate::output::{self, LimitedOutput};
use crate::tool::{CallContext, Output, ToolError};

/// The result of one call of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCallResult {
    /// The outcome to record.
    pub outcome: ToolOutcome,
    /// The bytes to store under the hash of `outcome.blob`.
    pub blob: Option<Vec<u8>>,
    /// Whether it failed, and certainly before anything was sent or done.
    pub before_start: bool,
    /// Whether its time ran out, or no answer came: its effects by then are unknown.
    pub timed_out: bool,
}

impl ToolCallResult {
    fn ended(status: Closing, limited: LimitedOutput) -> Self {
        let (blob, bytes) = limited.blob.map(|blob| (blob.reference, blob.bytes)).unzip();
        let outcome = ToolOutcome { blob, ..ToolOutcome::new(status, limited.result) };
        ToolCallResult { outcome, blob: bytes, before_start: false, timed_out: false }
    }

    fn failed(error: ToolError) -> Self {
        let mut ran = ToolCallResult::ended(Closing::Error, output::limit(Output::Text(error.message)));
        ran.outcome.cause = Some(error.cause);
        ToolCallResult { before_start: error.before_start, timed_out: error.unknown, ..ran }
    }
}

impl Registry {
    /// Calls a tool within its timeout, its output schema and the limits of [`crate::output`].
    pub async fn call(&self, name: &str, arguments: Value, context: CallContext) -> ToolCallResult {
        let Some(registered) = self.tools.get(name) else {
            return ToolCallResult::failed(ToolError::invalid_call(format!(
                "There is no tool {name:?} here."
            )));
        };
        let cancel = context.cancel.child_token();
        let _stop_when_dropped = cancel.clone().drop_guard();
        let context = CallContext { cancel, ..context };

        let tool = Arc::clone(&registered.tool);
        let timeout = Duration::from_millis(tool.spec().timeout_ms);
        let work = AssertUnwindSafe(async move { tool.call(arguments, context).await }).catch_unwind();
        match tokio::time::timeout(timeout, work).await {
            Ok(Ok(Ok(output))) => registered.accept(output),
            Ok(Ok(Err(error))) => ToolCallResult::failed(error),
            // The panic's message may hold anything, so it is not passed on; the effects before it are unknown.
            Ok(Err(_panic)) => ToolCallResult::failed(ToolError::unknown(format!(
                "`{name}` broke down. This is a fault of the tool, not of the arguments."
            ))),
            Err(_elapsed) => {
                let message =
                    format!("`{name}` did not finish within {} ms and was stopped.", timeout.as_millis());
                // Without a cause: a call that was too slow once is not retried automatically, at the run's expense.
                let result = output::limit(Output::Text(message));
                ToolCallResult { timed_out: true, ..ToolCallResult::ended(Closing::Error, result) }
            }
        }
    }
}

impl RegisteredTool {
    fn accept(&self, output: Output) -> ToolCallResult {
        match self.mismatches(&output) {
            None => ToolCallResult::ended(Closing::Ok, output::limit(output)),
            Some(reason) => {
                let raw = output::into_blob(into_bytes(output));
                let message = format!(
                    "`{}` returned something else than it promises: {reason}. Its raw result can be read with \
                     read_blob; hash {}.",
                    self.tool.spec().name,
                    raw.reference.hash
                );
                let result = LimitedOutput { result: Value::String(message), blob: Some(raw) };
                let mut ran = ToolCallResult::ended(Closing::Error, result);
                ran.outcome.cause = Some(Cause::Tool);
                ran
            }
        }
    }

    /// The mismatches of an output with the output schema, if the tool has one.
    fn mismatches(&self, output: &Output) -> Option<String> {
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
