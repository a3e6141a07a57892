//! Tokens that are likely a file, a folder or a time zone.

/// A word that may name a file or a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::offline) struct PathClue {
    /// As it was written.
    pub(in crate::offline) text: String,
    /// Whether it can hardly be anything else; `cpu/memory` can.
    pub(in crate::offline) sure: bool,
}

impl PathClue {
    /// Whether it ends like a file.
    pub(in crate::offline) fn is_file(&self) -> bool {
        has_extension(self.text.rsplit(['/', '\\']).next().unwrap_or_default())
    }
}

const AREAS: [&str; 11] = [
    "Africa",
    "America",
    "Antarctica",
    "Arctic",
    "Asia",
    "Atlantic",
    "Australia",
    "Etc",
    "Europe",
    "Indian",
    "Pacific",
];

/// Words after which even `a/b` is a path.
const BEFORE_A_PATH: [&str; 11] =
    ["read", "open", "cat", "file", "folder", "directory", "in", "under", "inside", "ls", "list"];

/// A path, if the token is one.
pub(super) fn path(token: &str, before: &str) -> Option<PathClue> {
    let found = |sure| Some(PathClue { text: token.to_owned(), sure });
    if token == "." || token == ".." {
        return found(true);
    }
    if !token.chars().any(char::is_alphabetic) || matches!(token, "and/or" | "e.g" | "i.e") {
        return None;
    }
    let rooted = ["/", "./", "../", "~/"].iter().any(|start| token.starts_with(start));
    let name = token.rsplit(['/', '\\']).next().unwrap_or(token);
    let hidden = name.len() > 1 && name.starts_with('.');
    if rooted || hidden || token.ends_with('/') || has_extension(name) {
        return found(true);
    }
    if token.contains(['/', '\\']) { found(BEFORE_A_PATH.contains(&before)) } else { None }
}

/// Whether a name ends like `notes.txt`: `3.5GB` and `v1.2` do not.
fn has_extension(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(stem, end)| {
        !stem.is_empty()
            && end.starts_with(|c: char| c.is_ascii_alphabetic())
            && end.len() <= 10
            && end.chars().all(|c| c.is_ascii_alphanumeric())
    })
}

/// Whether a token is a time zone: `UTC`, `+02:00` or `Europe/Berlin`.
pub(super) fn is_zone(token: &str) -> bool {
    let offset = |token: &str| {
        let digits = token
            .bytes()
            .enumerate()
            .all(|(at, b)| if at == 3 { b == b':' } else { at == 0 || b.is_ascii_digit() });
        token.len() == 6 && token.starts_with(['+', '-']) && digits
    };
    token == "UTC" || offset(token) || token.split_once('/').is_some_and(|(area, _)| AREAS.contains(&area))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_zones_are_distinguished_from_paths() {
        for token in ["UTC", "+02:00", "-05:30", "Europe/Berlin", "America/New_York"] {
            assert!(is_zone(token), "{token}");
        }
        for token in ["utc", "+2", "+é:00", "src/main", "+02.00", ""] {
            assert!(!is_zone(token), "{token}");
        }
    }

    #[test]
    fn paths_are_distinguished_from_words() {
        let sure = [
            "notes.txt",
            "src/main.rs",
            "/etc",
            "./x",
            "../x",
            "~/x",
            ".env",
            "a/b/",
            "a\\b.md",
            ".",
            "Cargo.toml",
        ];
        for token in sure {
            assert_eq!(path(token, ""), Some(PathClue { text: token.into(), sure: true }), "{token}");
        }
        for token in ["3.5", "3.5GB", "v1.2", "10/2", "word", "and/or", "e.g", "...", "well...", ""] {
            assert_eq!(path(token, "in"), None, "{token}");
        }
        assert_eq!(path("cpu/memory", "my").map(|p| p.sure), Some(false));
        assert_eq!(path("src/lib", "in").map(|p| p.sure), Some(true));
    }
}
