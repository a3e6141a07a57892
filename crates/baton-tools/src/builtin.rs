//! The tools that come with Baton. All of them only read; none has side effects.

mod ask_user;
pub(crate) mod blob;
mod calculator;
mod clock;
pub(crate) mod fetch_url;
mod files;
mod health;
mod logs;
mod update_plan;
pub(crate) mod web;
pub(crate) mod web_search;

use std::path::PathBuf;
use std::sync::Arc;

use baton_core::time::Timestamp;

use crate::tool::Tool;
use blob::BlobSource;

pub use files::{FILE_TOOLS, RootError, Secrets};

/// The settings of the built-in tools: the files, blobs and clock that they read.
pub struct Builtin {
    /// The folders that files may be read from. Without any, there are no file tools.
    pub roots: Vec<PathBuf>,
    /// The files in them that are not shown, because they hold secrets.
    pub secrets: Secrets,
    /// The source of long outputs. With `None`, there are no tools to read them.
    pub blobs: Option<Arc<dyn BlobSource>>,
    /// The clock.
    pub now: fn() -> Timestamp,
}

/// The built-in tools. [`crate::testing`] is not among them.
pub fn builtin(options: Builtin) -> Result<Vec<Arc<dyn Tool>>, RootError> {
    let mut tools = vec![ask_user::tool(), update_plan::tool(), calculator::tool(), clock::tool(options.now)];
    tools.extend([health::tool(), logs::tool()]);
    tools.extend(files::tools(&options.roots, options.secrets)?);
    tools.extend(options.blobs.map(blob::tools).unwrap_or_default());
    Ok(tools)
}
