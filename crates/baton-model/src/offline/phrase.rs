//! Bare words in the place of a value: the phrase to search for, and the folder.

const SEEKING: [&str; 7] = ["search", "find", "grep", "look", "searching", "locate", "lookup"];
const PLACES: [&str; 5] = ["in", "under", "inside", "within", "across"];
const FOLDER: [&str; 3] = ["folder", "directory", "dir"];
const NO_NAME: [&str; 22] = [
    "the",
    "my",
    "this",
    "that",
    "here",
    "current",
    "a",
    "an",
    "all",
    "it",
    "files",
    "file",
    "folder",
    "directory",
    "dir",
    "project",
    "repository",
    "repo",
    "there",
    "any",
    "our",
    "every",
];
/// Filler words before a search phrase, longest first.
const FILLER: [&str; 16] = [
    "all files that contain",
    "files that contain",
    "all occurrences of",
    "files containing",
    "occurrences of",
    "files mentioning",
    "the string",
    "the phrase",
    "files named",
    "files called",
    "the word",
    "the text",
    "files with",
    "every",
    "all",
    "the",
];

/// The phrase to search for: the words after "for", or else after the verb, up to the place.
pub(super) fn sought(tokens: &[String]) -> Option<String> {
    let lower: Vec<String> = tokens.iter().map(|token| token.to_lowercase()).collect();
    let verb = lower.iter().position(|word| SEEKING.contains(&word.as_str()))?;
    let from = lower[verb..].iter().position(|word| word == "for").map_or(verb + 1, |at| verb + at + 1);
    let to = lower[from..]
        .iter()
        .position(|word| PLACES.contains(&word.as_str()))
        .map_or(tokens.len(), |at| from + at);
    let mut phrase = tokens[from..to].join(" ");
    for filler in FILLER {
        let rest = phrase.get(..filler.len()).filter(|start| start.eq_ignore_ascii_case(filler));
        if let Some(rest) = rest.and_then(|_| phrase[filler.len()..].strip_prefix(' ')) {
            phrase = rest.to_owned();
            break;
        }
    }
    let meant = phrase.trim();
    let empty = meant.is_empty() || NO_NAME.contains(&meant.to_lowercase().as_str());
    (!empty).then(|| meant.to_owned())
}

/// A folder named by a bare word: "in src", "the src folder", "folder src", "ls src".
pub(super) fn folder(tokens: &[String]) -> Option<String> {
    let lower: Vec<String> = tokens.iter().map(|token| token.to_lowercase()).collect();
    let name = |at: usize| {
        let word = lower.get(at)?;
        let plain = !NO_NAME.contains(&word.as_str()) && !PLACES.contains(&word.as_str());
        plain.then(|| tokens[at].clone())
    };
    let is_folder = |at: &usize| FOLDER.contains(&lower[*at].as_str());
    let mut folders = (0..tokens.len()).filter(is_folder);
    // "the src folder" before "folder src": the word after may be of the next clause.
    if let Some(at) = folders.next() {
        let named_before = at.checked_sub(1).filter(|&at| !verb(&lower[at])).and_then(name);
        return named_before
            .or_else(|| name(at + 1).filter(|_| !lower.get(at + 1).is_some_and(|w| joins(w))));
    }
    let after = |at: usize| {
        let skipped = usize::from(lower.get(at + 1).is_some_and(|word| word == "the" || word == "my"));
        name(at + 1 + skipped)
    };
    (0..tokens.len()).find_map(|at| {
        let leads = PLACES.contains(&lower[at].as_str()) || lower[at] == "ls";
        if leads { after(at) } else { None }
    })
}

fn verb(word: &str) -> bool {
    matches!(word, "list" | "ls" | "show" | "open" | "of") || SEEKING.contains(&word)
}

fn joins(word: &str) -> bool {
    matches!(word, "and" | "or" | "for" | "with" | "to" | "please" | "is" | "contents" | "content" | "of")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn search_phrases_are_found() {
        let table = [
            ("search for TODO", Some("TODO")),
            ("search files for TODO in src", Some("TODO")),
            ("grep fn main in src", Some("fn main")),
            ("find the word Hello", Some("Hello")),
            ("look for All occurrences of retry under src", Some("retry")),
            ("find files named build.rs", Some("build.rs")),
            ("search the files", None),
            ("search", None),
            ("nothing here", None),
        ];
        for (text, expected) in table {
            assert_eq!(sought(&tokens(text)).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn folders_are_found() {
        let table = [
            ("list files in src", Some("src")),
            ("list the src folder", Some("src")),
            ("list the folder docs", Some("docs")),
            ("ls tests", Some("tests")),
            ("files in the docs", Some("docs")),
            ("what is in this folder", None),
            ("list folder and go", None),
            ("list files here", None),
            ("list", None),
        ];
        for (text, expected) in table {
            assert_eq!(folder(&tokens(text)).as_deref(), expected, "{text}");
        }
    }
}
