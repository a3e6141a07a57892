//! `read_file`.

use std::io::{self, Read, Seek, SeekFrom};

use schemars::JsonSchema;
use serde::Deserialize;

use super::root::{FileLocation, Roots, location_error, open_regular};
use crate::excerpt;
use crate::tool::ToolError;

/// What is read if nothing else is asked for: it fits an output with its closing line.
const LIMIT: u64 = 24 * 1024;
const MAX_LIMIT: u64 = 256 * 1024;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFileArguments {
    /// The file, as list_files shows it.
    #[schemars(length(min = 1, max = 4096))]
    path: String,
    /// Where to begin, in bytes from the start; 0 if left out.
    offset: Option<u64>,
    /// How many bytes to read; 24576 if left out.
    #[schemars(range(min = 1, max = 262_144))]
    limit: Option<u64>,
}

pub(super) fn read(roots: &Roots, arguments: &ReadFileArguments) -> Result<String, ToolError> {
    let location = roots.location(&arguments.path)?;
    let offset = arguments.offset.unwrap_or(0);
    let limit = arguments.limit.unwrap_or(LIMIT).min(MAX_LIMIT);
    roots.refuse_secrets(&location)?;
    let (bytes, total) = part(&location, offset, limit).map_err(|error| location_error(&location, &error))?;
    Ok(excerpt::window(&bytes, offset, total))
}

/// Some bytes of a file, and how many it has in all.
fn part(location: &FileLocation<'_>, offset: u64, limit: u64) -> io::Result<(Vec<u8>, u64)> {
    let (mut file, metadata) = open_regular(location.dir, &location.inside)?;
    let mut bytes = Vec::new();
    if offset < metadata.len() {
        file.seek(SeekFrom::Start(offset))?;
        file.take(limit).read_to_end(&mut bytes)?;
    }
    Ok((bytes, metadata.len()))
}
