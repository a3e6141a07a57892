//! The port of a tool: the trait [`Tool`], the context of a call, and a tool's outputs and errors.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use baton_core::id::Tenant;
use baton_core::tool::{Cause, EffectClass, ToolSpec};
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// The output of a tool.
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
    /// The message, with advice.
    pub message: String,
    /// Whether certainly nothing was sent or done, so that even an unsafe call may run again.
    pub before_start: bool,
    /// Whether the outcome is unknown: the call was sent, and no answer came.
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

    /// A call that was sent and not answered: it may have happened.
    pub fn unknown(message: impl Into<String>) -> Self {
        ToolError { message: message.into(), before_start: false, unknown: true, cause: Cause::Tool }
    }

    /// A failure whose cause lies in the call itself: the same call would fail again. Nothing was sent or done.
    pub fn invalid_call(message: impl Into<String>) -> Self {
        ToolError { message: message.into(), before_start: true, unknown: false, cause: Cause::Asked }
    }
}

/// The permission to make a call. A tool that sends something which may not be sent twice checks it right before
/// sending, once it is connected: meanwhile the process may have been stopped for long, and another one may own the
/// call.
#[derive(Clone, Default)]
pub struct CallPermit(Option<Arc<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>>);

impl CallPermit {
    /// A permit that is looked up at every check.
    pub fn new(holds: impl Fn() -> BoxFuture<'static, bool> + Send + Sync + 'static) -> CallPermit {
        CallPermit(Some(Arc::new(holds)))
    }

    /// Whether the call may be made now. The default permit always holds: no other process can own the call.
    pub async fn holds(&self) -> bool {
        match &self.0 {
            Some(holds) => holds().await,
            None => true,
        }
    }
}

impl fmt::Debug for CallPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallPermit").finish_non_exhaustive()
    }
}

/// The context of one call, as its tool gets it.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// Baton's id of the call.
    pub call_id: String,
    /// The idempotency key: the same for every attempt at this call, different for every other.
    pub key: String,
    /// Fires when the call should stop, and when its future is dropped.
    pub cancel: CancellationToken,
    /// The folders that the run is pinned to; if empty, a tool uses those that it was made with.
    pub roots: Vec<PathBuf>,
    /// The tenant of the run.
    pub tenant: Tenant,
    /// The metadata that the run's caller sent, for tools with `requires_context`; otherwise null.
    pub metadata: Value,
    /// Whether the call may still be made.
    pub permit: CallPermit,
}

/// A tool that an agent can call. Implemented here and by programs that embed Baton.
pub trait Tool: Send + Sync {
    /// The tool's spec: the same each time.
    fn spec(&self) -> &ToolSpec;

    /// Performs one call. Dropping the future must stop the work, as far as it can be stopped.
    fn call(&self, arguments: Value, context: CallContext) -> BoxFuture<'static, Result<Output, ToolError>>;

    /// The effect class of one call: the meaning of a crash for it. By default that of the spec.
    fn class(&self, _arguments: &Value) -> EffectClass {
        self.spec().class
    }

    /// Whether a call asks for its permit by itself, right before it sends anything. For any other tool the permit is asked
    /// for before the call.
    fn asks_permit(&self) -> bool {
        false
    }
}
