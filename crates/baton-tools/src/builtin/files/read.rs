//! `read_file`.

use std::io::{self, Read, Seek, SeekFrom};

use schemars::JsonSchema;
use serde::Deserialize;

use super::root::{FileLocation, Roots, location_error, open_regular};
use crate::excerpt;
use crate::tool::ToolError;

/// The default number of bytes: they fit an output with its closing line.
const DEFAULT_LIMIT: u64 = 24 * 1024;
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
    let limit = arguments.limit.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT);
    roots.refuse_secrets(&location)?;
    let (bytes, total) =
        read_range(&location, offset, limit).map_err(|error| location_error(&location, &error))?;
    Ok(excerpt::window(&bytes, offset, total))
}

/// A range of bytes of a file, and the size of the file.
fn read_range(location: &FileLocation<'_>, offset: u64, limit: u64) -> io::Result<(Vec<u8>, u64)> {
    let (mut file, metadata) = open_regular(location.dir, &location.inside)?;
    let mut bytes = Vec::new();
    if offset < metadata.len() {
        file.seek(SeekFrom::Start(offset))?;
        file.take(limit).read_to_end(&mut bytes)?;
    }
    Ok((bytes, metadata.len()))
}
