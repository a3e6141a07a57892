//! `list_files`.

use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::root::{Roots, location_error};
use super::walk::{FileKind, Walk, WalkEntry};
use crate::tool::{CallContext, ToolError};
use crate::typed::Structured;

const MAX_LISTED: usize = 1_000;
const DEPTH: usize = 2;
const MAX_DEPTH: usize = 16;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFilesArguments {
    /// The folder; all that can be read if left out.
    #[schemars(length(max = 4096))]
    path: Option<String>,
    /// How many levels to go down; 2 if left out.
    #[schemars(range(min = 1, max = 16))]
    depth: Option<usize>,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct Listing {
    pub(super) entries: Vec<FileEntry>,
    /// Whether there is more than is shown; ask for a folder or a smaller depth.
    pub(super) more: bool,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct FileEntry {
    /// The path to use with read_file.
    pub(super) path: String,
    pub(super) kind: FileKind,
    /// Of files only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) size_bytes: Option<u64>,
}

pub(super) fn list(
    roots: &Roots,
    arguments: &ListFilesArguments,
    context: &CallContext,
) -> Result<Structured<Listing>, ToolError> {
    let depth = arguments.depth.unwrap_or(DEPTH).clamp(1, MAX_DEPTH);
    let mut entries = Vec::new();
    let mut visit = |entry: &WalkEntry<'_>| {
        if entries.len() == MAX_LISTED || context.cancel.is_cancelled() {
            return ControlFlow::Break(());
        }
        let size_bytes = match entry.kind {
            FileKind::File => entry.dir.symlink_metadata(entry.name).ok().map(|metadata| metadata.len()),
            FileKind::Folder | FileKind::Link | FileKind::Other => None,
        };
        entries.push(FileEntry { path: entry.shown.to_owned(), kind: entry.kind, size_bytes });
        ControlFlow::Continue(())
    };
    let mut walk = Walk::new(depth, &mut visit);
    let mut more = false;
    for location in roots.walk_roots(arguments.path.as_deref())? {
        more |= walk.below(&location).map_err(|error| location_error(&location, &error))?.is_break();
    }
    Ok(Structured(Listing { entries, more }))
}
