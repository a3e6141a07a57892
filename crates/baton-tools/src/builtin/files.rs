//! `list_files`, `read_file` and `search_files`: looking at files under given roots, and nowhere else.
//!
//! Every access goes through a handle of its root, so a path cannot leave it by `..`, by being
//! absolute, through a symbolic link, or by a race between a check and a use. Pipes, sockets and
//! devices are refused. Nothing is written.

mod list;
mod read;
mod root;
mod search;
mod walk;

use std::path::PathBuf;
use std::sync::Arc;

use baton_core::tool::EffectClass;

use crate::tool::Tool;
use crate::typed::{About, blocking};

pub use root::RootError;
use root::Roots;

/// The file tools over some roots; none if there are no roots.
pub(crate) fn tools(paths: &[PathBuf]) -> Result<Vec<Arc<dyn Tool>>, RootError> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let roots = Arc::new(Roots::open(paths)?);
    let about = |name, description| About {
        name,
        description,
        class: EffectClass::SideEffectFree,
        timeout_ms: 30_000,
    };
    let (listed, read, searched) = (Arc::clone(&roots), Arc::clone(&roots), roots);
    Ok(vec![
        blocking(
            about(
                "list_files",
                "Lists the files and folders (directories) that can be read, with their sizes.",
            ),
            move |arguments, context| list::list(&listed, &arguments, context),
        ),
        blocking(
            about("read_file", "Reads a text file: shows its content, or a part of it if it is long."),
            move |arguments, _| read::read(&read, &arguments),
        ),
        blocking(
            about(
                "search_files",
                "Searches the content of files for a pattern (grep) and finds the lines where a word or text occurs.",
            ),
            move |arguments, context| search::search(&searched, &arguments, context),
        ),
    ])
}

#[cfg(test)]
mod tests;
