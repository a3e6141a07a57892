//! The walk through folders: sorted, bounded, never through a symbolic link.

use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use cap_std::fs::{Dir, DirEntry, FileType};
use schemars::JsonSchema;
use serde::Serialize;

use super::root::FileLocation;

/// The most entries that one walk visits.
pub(super) const MAX_ENTRIES: usize = 10_000;
/// Folders that hold generated files and not sources.
const SKIPPED: [&str; 3] = [".git", "node_modules", "target"];

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum FileKind {
    File,
    Folder,
    /// A link; it is listed and not followed.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

/// An entry as a walk hands it to its visitor.
pub(super) struct WalkEntry<'a> {
    /// The folder that it is in.
    pub(super) dir: &'a Dir,
    pub(super) name: &'a OsStr,
    pub(super) shown: &'a str,
    /// Its canonical path, without a link.
    pub(super) real: &'a Path,
    pub(super) kind: FileKind,
}

type Visitor<'v> = &'v mut dyn FnMut(&WalkEntry<'_>) -> ControlFlow<()>;

/// A walk through folders, which reports whether it ended early, by its bound or by its visitor.
pub(super) struct Walk<'v> {
    depth: usize,
    left: usize,
    visit: Visitor<'v>,
}

impl<'v> Walk<'v> {
    /// A walk that goes `depth` levels down.
    pub(super) fn new(depth: usize, visit: Visitor<'v>) -> Self {
        Walk { depth, left: MAX_ENTRIES, visit }
    }

    /// Visits everything below a location. Its own folder has to open; folders below that do not are passed over.
    pub(super) fn below(&mut self, location: &FileLocation<'_>) -> io::Result<ControlFlow<()>> {
        let dir = location.dir.open_dir(&location.inside)?;
        Ok(self.level(&dir, (&location.shown, &location.real()?), self.depth))
    }

    fn level(&mut self, dir: &Dir, (shown, real): (&str, &Path), depth: usize) -> ControlFlow<()> {
        // A folder that cannot be listed has nothing to show.
        let Ok(entries) = dir.entries() else { return ControlFlow::Continue(()) };
        let mut entries: Vec<DirEntry> = entries.map_while(Result::ok).take(self.left + 1).collect();
        entries.sort_by_key(DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name();
            let kind = entry.file_type().map_or(FileKind::Other, kind);
            if SKIPPED.iter().any(|skipped| name == *skipped) {
                continue;
            }
            if self.left == 0 {
                return ControlFlow::Break(());
            }
            self.left -= 1;
            let (shown, real) = (join(shown, &name.to_string_lossy()), real.join(&name));
            (self.visit)(&WalkEntry { dir, name: &name, shown: &shown, real: &real, kind })?;
            if kind == FileKind::Folder
                && depth > 1
                && let Ok(below) = dir.open_dir(&name)
            {
                self.level(&below, (&shown, &real), depth - 1)?;
            }
        }
        ControlFlow::Continue(())
    }
}

fn kind(file_type: FileType) -> FileKind {
    if file_type.is_symlink() {
        FileKind::Link
    } else if file_type.is_dir() {
        FileKind::Folder
    } else if file_type.is_file() {
        FileKind::File
    } else {
        FileKind::Other
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}
