//! `list_files`, `read_file` and `search_files`: reading files under given roots, and nowhere else.
//!
//! Every access goes through a handle of its root, so a path cannot leave it by `..`, by being
//! absolute, through a symbolic link, or by a race between a check and a use. Pipes, sockets and
//! devices are refused. Nothing is written. The content of files that hold secrets by convention is never shown.
//!
//! A run that is pinned to folders has those and no others: an approved call reads the folders in which the run was
//! started, and not those of the person who approves it.

mod list;
mod read;
mod root;
mod search;
mod secrets;
mod walk;

use std::path::PathBuf;
use std::sync::Arc;

use baton_core::tool::{EffectClass, Trust};

use crate::tool::{CallContext, Tool, ToolError};
use crate::typed::{ToolInfo, blocking};

pub use root::RootError;
use root::Roots;
pub use secrets::Secrets;

/// The names of the file tools.
pub const FILE_TOOLS: [&str; 3] = ["list_files", "read_file", "search_files"];

/// The file tools over some roots; none if there are no roots.
pub(crate) fn tools(paths: &[PathBuf], secrets: Secrets) -> Result<Vec<Arc<dyn Tool>>, RootError> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let roots = Arc::new(Roots::open(paths, secrets)?);
    let about = |name, description| ToolInfo {
        name,
        description,
        class: EffectClass::SideEffectFree,
        timeout_ms: 30_000,
        // The author of a file may have written it for a model to read.
        trust: Trust::LOCAL_DATA,
    };
    let (listed, read, searched) = (Arc::clone(&roots), Arc::clone(&roots), roots);
    let [list_files, read_file, search_files] = FILE_TOOLS;
    Ok(vec![
        blocking(
            about(
                list_files,
                "Lists the files and folders (directories) that can be read, with their sizes.",
            ),
            move |arguments, context| list::list(&*roots_of(context, &listed)?, &arguments, context),
        ),
        blocking(
            about(read_file, "Reads a text file: shows its content, or a part of it if it is long."),
            move |arguments, context| read::read(&*roots_of(context, &read)?, &arguments),
        ),
        blocking(
            about(
                search_files,
                "Searches the content of files for a pattern (grep) and finds the lines where a word or text occurs.",
            ),
            move |arguments, context| search::search(&*roots_of(context, &searched)?, &arguments, context),
        ),
    ])
}

/// The roots of a call: those that its run is pinned to, or else those that the tools were made with.
fn roots_of(context: &CallContext, own: &Arc<Roots>) -> Result<Arc<Roots>, ToolError> {
    if context.roots.is_empty() {
        return Ok(Arc::clone(own));
    }
    let pinned = Roots::open(&context.roots, own.secrets().clone());
    // The folder may be gone when the run is resumed: no other one takes its place.
    Ok(Arc::new(
        pinned.map_err(|error| ToolError::invalid_call(format!("The files are out of reach: {error}.")))?,
    ))
}

#[cfg(test)]
mod tests;
