//! Tools that an agent can call.
//!
//! A [`Tool`] is a port: ours are in [`builtin()`], others come from programs that embed Baton. The
//! [`Registry`] stands between a model and the tools: it admits only calls that fit their schema, and turns
//! every ending of a tool (answer, failure, panic, hang, far too much output) into one bounded outcome.
//!
//! Nothing here decides whether a call is *allowed* (that is policy), retries it or waits for a
//! person (that is the engine's and the flow's).

mod builtin;
pub mod child;
pub mod egress;
mod excerpt;
pub mod execution;
pub mod output;
mod registry;
mod search_results;
mod secret;
pub mod testing;
mod tool;
mod typed;

pub use builtin::blob::BlobSource;
pub use builtin::fetch_url::fetch_url;
pub use builtin::web::{SearchProvider, Web, WebError, web};
pub use builtin::web_search::probe_search;
pub use builtin::{Builtin, FILE_TOOLS, RootError, Secrets, builtin};
pub use registry::{
    MAX_ARGUMENT_BYTES, Registry, RegistryError, ToolCallResult, TrustOverride, VisibleTools,
};
pub use search_results::is_search_result;
pub use secret::Secret;
pub use tool::{CallContext, CallPermit, Output, Tool, ToolError};
