//! `search_files`.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

use cap_std::fs::Dir;
use regex_automata::meta::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::root::{FileLocation, Roots, location_error, open_regular};
use super::secrets::Secrets;
use super::walk::{FileKind, Walk, WalkEntry};
use crate::excerpt;
use crate::tool::{CallContext, ToolError};
use crate::typed::Structured;

const RESULTS: usize = 50;
const MAX_RESULTS: usize = 200;
const MAX_FILE: u64 = 4 * 1024 * 1024;
const DEPTH: usize = 32;
/// A NUL this early means that a file is not text.
const SNIFFED: usize = 8 * 1024;
/// How many of the files that are left out are named.
const NAMED: usize = 5;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SearchFilesArguments {
    /// A regular expression; (?i) at its start ignores case. A match is at most 16 KiB long.
    #[schemars(length(min = 1, max = 1000))]
    pattern: String,
    /// A folder or a file; all that can be read if left out.
    #[schemars(length(max = 4096))]
    path: Option<String>,
    /// How many matches to return; 50 if left out.
    #[schemars(range(min = 1, max = 200))]
    max_results: Option<usize>,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct FileMatches {
    pub(super) matches: Vec<FileMatch>,
    pub(super) files_searched: usize,
    /// Files that are not text, too large or not readable.
    pub(super) files_skipped: usize,
    /// Files that were not searched because they hold secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) left_out: Option<String>,
    /// Whether the search ended early; search a smaller folder or for something rarer.
    pub(super) more: bool,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub(super) struct FileMatch {
    /// The path to use with read_file.
    pub(super) path: String,
    pub(super) line: usize,
    pub(super) text: String,
}

pub(super) fn search(
    roots: &Roots,
    arguments: &SearchFilesArguments,
    context: &CallContext,
) -> Result<Structured<FileMatches>, ToolError> {
    let mut search = FileSearch {
        pattern: excerpt::compile_pattern(&arguments.pattern)?,
        limit: arguments.max_results.unwrap_or(RESULTS).clamp(1, MAX_RESULTS),
        context,
        secrets: roots.secrets(),
        left_out: Vec::new(),
        results: FileMatches {
            matches: Vec::new(),
            files_searched: 0,
            files_skipped: 0,
            left_out: None,
            more: false,
        },
    };
    let locations = roots.walk_roots(arguments.path.as_deref())?;
    let ended = match locations.as_slice() {
        [location] if is_file(location)? => {
            roots.refuse_secrets(location)?;
            search.file(location.dir, &location.inside, &location.shown)
        }
        folders => search.folders(folders)?,
    };
    search.results.more = ended.is_break();
    search.results.left_out = left_out_note(&search.left_out);
    Ok(Structured(search.results))
}

struct FileSearch<'a> {
    pattern: Regex,
    limit: usize,
    context: &'a CallContext,
    secrets: &'a Secrets,
    /// The files that were not searched because they hold secrets.
    left_out: Vec<String>,
    results: FileMatches,
}

fn is_file(location: &FileLocation<'_>) -> Result<bool, ToolError> {
    let metadata =
        location.dir.metadata(&location.inside).map_err(|error| location_error(location, &error))?;
    Ok(!metadata.is_dir())
}

impl FileSearch<'_> {
    fn folders(&mut self, folders: &[FileLocation<'_>]) -> Result<ControlFlow<()>, ToolError> {
        let mut visit = |entry: &WalkEntry<'_>| self.visit(entry);
        let mut walk = Walk::new(DEPTH, &mut visit);
        for location in folders {
            if walk.below(location).map_err(|error| location_error(location, &error))?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn visit(&mut self, entry: &WalkEntry<'_>) -> ControlFlow<()> {
        match entry.kind {
            FileKind::File if self.secrets.why(entry.real).is_some() => {
                self.left_out.push(entry.shown.to_owned());
                ControlFlow::Continue(())
            }
            FileKind::File => self.file(entry.dir, Path::new(entry.name), entry.shown),
            FileKind::Folder | FileKind::Link | FileKind::Other => ControlFlow::Continue(()),
        }
    }

    fn file(&mut self, dir: &Dir, path: &Path, shown: &str) -> ControlFlow<()> {
        let stop = || self.context.cancel.is_cancelled();
        let left = self.limit - self.results.matches.len();
        if left == 0 || stop() {
            return ControlFlow::Break(());
        }
        let Ok(Some(text)) = text_of(dir, path) else {
            self.results.files_skipped += 1;
            return ControlFlow::Continue(());
        };
        self.results.files_searched += 1;
        let matches = excerpt::matches(&text, &self.pattern, left, &stop);
        let file_match = |m: excerpt::Match| FileMatch { path: shown.to_owned(), line: m.line, text: m.text };
        self.results.matches.extend(matches.into_iter().map(file_match));
        if self.results.matches.len() == self.limit {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// The note about files that were not searched; none if there are none.
fn left_out_note(left_out: &[String]) -> Option<String> {
    let named = left_out.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = left_out.len().saturating_sub(NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    (!left_out.is_empty()).then(|| format!("such files hold secrets and are not searched: {named}{more}"))
}

/// The text of a file; `None` if it is too large or not text.
fn text_of(dir: &Dir, path: &Path) -> io::Result<Option<String>> {
    let (file, metadata) = open_regular(dir, path)?;
    let mut bytes = Vec::new();
    if metadata.len() <= MAX_FILE {
        file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    }
    let is_text = !bytes[..bytes.len().min(SNIFFED)].contains(&0);
    let fits = metadata.len() <= MAX_FILE && bytes.len() as u64 <= MAX_FILE;
    Ok((fits && is_text).then(|| String::from_utf8_lossy(&bytes).into_owned()))
}
