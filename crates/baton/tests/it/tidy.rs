//! The repository's rules that no compiler checks: the allowed dependencies, and the form of files.
//!
//! Each rule is a test, and its message says how to fix a breach.

mod files;
pub(crate) mod manifests;

use std::path::{Path, PathBuf};

/// A file of the repository that is text.
pub(crate) struct Text {
    /// Its path from the repository's root, with `/`.
    pub(crate) path: String,
    /// Its content.
    pub(crate) text: String,
}

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every text file of the repository, sorted by path. Files that git ignores are left out.
pub(crate) fn texts() -> Vec<Text> {
    let mut found = Vec::new();
    walk(&root(), "", &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn walk(folder: &Path, prefix: &str, found: &mut Vec<Text>) {
    for item in std::fs::read_dir(folder).unwrap() {
        let item = item.unwrap();
        let name = item.file_name().into_string().unwrap();
        let path = format!("{prefix}{name}");
        if item.file_type().unwrap().is_dir() {
            if !matches!(path.as_str(), "target" | ".git") {
                walk(&item.path(), &format!("{path}/"), found);
            }
        } else if let Ok(text) = std::fs::read_to_string(item.path()) {
            found.push(Text { path, text });
        }
    }
}

/// Fails with all breaches of a rule at once.
pub(crate) fn none(breaches: Vec<String>, what_to_do: &str) {
    assert!(breaches.is_empty(), "{what_to_do}\n  {}", breaches.join("\n  "));
}
