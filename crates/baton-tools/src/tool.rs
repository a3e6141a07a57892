//! The port: what a tool is, and what it is told about a call.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use baton_core::id::Tenant;
use baton_core::tool::{Cause, EffectClass, ToolSpec};
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// What a tool returned.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// A structured result.
    Json(Value),
    /// Text.
    Text(String),
    /// Bytes, which may or may not be text.
    Bytes(Vec<u8>),
}

/// Why a tool failed, in words that the model can act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ToolError {
    /// What went wrong and what would be right.
    pub message: String,
    /// Whether it is known that nothing was sent or done, so that even an unsafe call may run again.
    pub before_start: bool,
    /// Whether it is known that nothing is known: the call was sent, and no answer came.
    pub unknown: bool,
    /// Where the cause lies.
    pub cause: Cause,
}

impl ToolError {
    /// A failure at a point where something may already have happened.
    pub fn new(message: impl Into<String>) -> Self {
        ToolError { message: message.into(), before_start: false, unknown: false, cause: Cause::Tool }
    }

    /// A failure that is known to lie before anything was sent or done.
    pub fn before_start(message: impl Into<String>) -> Self {
        ToolError { message: message.into(), before_start: true, unknown: false, cause: Cause::Tool }
    }

    /// A call that was sent to somebody who did not answer: it may have happened.
    pub fn unknown(message: impl Into<String>) -> Self {
        ToolError { message: message.into(), before_start: false, unknown: true, cause: Cause::Tool }
    }

    /// A failure whose cause lies in what was asked: the same call would fail again.
    pub fn asked(message: impl Into<String>) -> Self {
        ToolError { message: message.into(), before_start: true, unknown: false, cause: Cause::Asked }
    }
}

/// Whether a call may still be made. Whoever sends something that may not be sent twice asks right before, once it is
/// connected: meanwhile the process may have been stopped for long, and somebody else may see to the call.
#[derive(Clone, Default)]
pub struct Permit(Option<Arc<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>>);

impl Permit {
    /// One that is found out whenever it is asked for.
    pub fn new(holds: impl Fn() -> BoxFuture<'static, bool> + Send + Sync + 'static) -> Permit {
        Permit(Some(Arc::new(holds)))
    }

    /// Whether the call may be made now. Where nobody else can see to it, always.
    pub async fn holds(&self) -> bool {
        match &self.0 {
            Some(holds) => holds().await,
            None => true,
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").finish_non_exhaustive()
    }
}

/// What a tool is told about one call.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// Baton's id of the call.
    pub call_id: String,
    /// The idempotency key: the same for every attempt at this call, different for every other.
    pub key: String,
    /// Fires when the call should stop, and when its future is dropped.
    pub cancel: CancellationToken,
    /// The folders that the run is pinned to; none: a tool looks at those that it was made with.
    pub roots: Vec<PathBuf>,
    /// Whose call it is.
    pub tenant: Tenant,
    /// What the caller said of the run, for tools that ask for it; otherwise null.
    pub metadata: Value,
    /// Whether it may still be made.
    pub permit: Permit,
}

/// Something that an agent can call. Implemented by us and by whoever embeds Baton.
pub trait Tool: Send + Sync {
    /// What it says of itself. The same at every call.
    fn spec(&self) -> &ToolSpec;

    /// Performs one call. Dropping the future must stop the work, as far as it can be stopped.
    fn call(&self, arguments: Value, context: CallContext) -> BoxFuture<'static, Result<Output, ToolError>>;

    /// What a crash means for one call; unless overridden, the same for all of them.
    fn class(&self, _arguments: &Value) -> EffectClass {
        self.spec().class
    }
}
