//! `list_files`.

use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::root::{Roots, cannot};
use super::walk::{Kind, Seen, Walk};
use crate::tool::{CallContext, ToolError};
use crate::typed::Json;

const MAX_LISTED: usize = 1_000;
const DEPTH: usize = 2;
const MAX_DEPTH: usize = 16;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Arguments {
    /// The folder; all that can be read if left out.
    #[schemars(length(max = 4096))]
    path: Option<String>,
    /// How many levels to go down; 2 if left out.
    #[schemars(range(min = 1, max = 16))]
    depth: Option<usize>,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct Listing {
    pub(super) entries: Vec<Entry>,
    /// Whether there is more than is shown; ask for a folder or a smaller depth.
    pub(super) more: bool,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct Entry {
    /// The path to use with read_file.
    pub(super) path: String,
    pub(super) kind: Kind,
    /// Of files only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) size_bytes: Option<u64>,
}

pub(super) fn list(
    roots: &Roots,
    arguments: &Arguments,
    context: &CallContext,
) -> Result<Json<Listing>, ToolError> {
    let depth = arguments.depth.unwrap_or(DEPTH).clamp(1, MAX_DEPTH);
    let mut entries = Vec::new();
    let mut visit = |seen: &Seen<'_>| {
        if entries.len() == MAX_LISTED || context.cancel.is_cancelled() {
            return ControlFlow::Break(());
        }
        let size_bytes = match seen.kind {
            Kind::File => seen.dir.symlink_metadata(seen.name).ok().map(|metadata| metadata.len()),
            Kind::Folder | Kind::Link | Kind::Other => None,
        };
        entries.push(Entry { path: seen.shown.to_owned(), kind: seen.kind, size_bytes });
        ControlFlow::Continue(())
    };
    let mut walk = Walk::new(depth, &mut visit);
    let mut more = false;
    for place in roots.starts(arguments.path.as_deref())? {
        more |= walk.below(&place).map_err(|error| cannot(&place, &error))?.is_break();
    }
    Ok(Json(Listing { entries, more }))
}
