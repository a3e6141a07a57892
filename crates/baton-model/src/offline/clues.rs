//! The clues in a request: words, quotes, paths, numbers and sums, found by their spelling alone.
//!
//! Only the beginning of a long request is read: the question stands there, and a pasted book must not
//! cost more than a sentence.

mod arithmetic;
mod path;
mod quotes;

use baton_core::json::cut;

pub(super) use path::PathClue;

/// The bytes of a request that are read.
const MAX_READ: usize = 4 * 1024;

/// A number, with the words around it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NumberClue {
    /// As it was written.
    pub(super) text: String,
    /// The word before it, in lower case.
    pub(super) before: String,
    /// The word after it, in lower case and singular.
    pub(super) after: String,
}

/// The clues in a request.
#[derive(Debug, Default)]
pub(super) struct Clues {
    /// The words in lower case and singular, without quotes, paths and the sum; in order.
    pub(super) words: Vec<String>,
    /// The tokens outside quotes as they were written, punctuation trimmed.
    pub(super) tokens: Vec<String>,
    /// The texts in quotes.
    pub(super) quoted: Vec<String>,
    /// The likely files and folders.
    pub(super) paths: Vec<PathClue>,
    /// The URLs.
    pub(super) urls: Vec<String>,
    /// The first time zone.
    pub(super) zone: Option<String>,
    /// The numbers.
    pub(super) numbers: Vec<NumberClue>,
    /// The arithmetic expression.
    pub(super) sum: Option<String>,
}

impl Clues {
    /// Reads a request.
    pub(super) fn of(request: &str) -> Self {
        let request = cut(request, MAX_READ);
        let (rest, quoted) = quotes::split(request);
        let tokens: Vec<String> =
            rest.split_whitespace().map(trimmed).filter(|t| !t.is_empty()).map(str::to_owned).collect();
        let mut clues = Clues { quoted, sum: arithmetic::sum(request), ..Clues::default() };
        let mut before = String::new();
        for (at, token) in tokens.iter().enumerate() {
            let lower = token.to_lowercase();
            if token.contains("://") {
                clues.urls.push(token.clone());
            } else if path::is_zone(token) {
                clues.zone.get_or_insert(token.clone());
            } else if let Some(path) = path::path(token, &before) {
                if !path.sure {
                    clues.words.extend(split_words(&lower));
                }
                clues.paths.push(path);
            } else if is_number(token) {
                let after = tokens.get(at + 1).map(|next| singular(&next.to_lowercase())).unwrap_or_default();
                clues.numbers.push(NumberClue { text: token.clone(), before: before.clone(), after });
            } else {
                clues.words.extend(split_words(&lower));
            }
            before = lower;
        }
        clues.tokens = tokens;
        clues
    }

    /// Whether one of these words was used.
    pub(super) fn has(&self, words: &[&str]) -> bool {
        self.words.iter().any(|word| words.contains(&word.as_str()))
    }

    /// Whether a file is surely meant.
    pub(super) fn names_a_file(&self) -> bool {
        self.paths.iter().any(|path| path.sure)
    }
}

/// The words of a name or a sentence, in lower case and singular.
pub(super) fn split_words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| singular(&word.to_lowercase()))
}

/// A word without the `s` of a plural. Crude, and the same for requests and tools, which is all it needs.
fn singular(word: &str) -> String {
    let plural = word.len() > 3 && word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us");
    if plural { word[..word.len() - 1].to_owned() } else { word.to_owned() }
}

/// A token without the punctuation around it. A leading dot stays: it begins many a path.
fn trimmed(token: &str) -> &str {
    if token == "." || token == ".." {
        return token;
    }
    let start = token.trim_start_matches(['(', '[', ',', ';', ':', '!', '?', '"', '\'', '“', '”']);
    start.trim_end_matches([')', ']', ',', ';', ':', '!', '?', '.', '"', '\'', '“', '”', '…'])
}

fn is_number(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_digit() || c == '-')
        && token.parse::<f64>().is_ok_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_apart() {
        let clues =
            Clues::of("Show the last 20 errors in “my notes”, src/main.rs (and 'x y') at Europe/Berlin!");
        assert_eq!(clues.words, ["show", "the", "last", "error", "in", "and", "at"]);
        assert_eq!(clues.quoted, ["my notes", "x y"]);
        assert_eq!(clues.paths, [PathClue { text: "src/main.rs".into(), sure: true }]);
        assert_eq!(clues.zone.as_deref(), Some("Europe/Berlin"));
        let twenty = NumberClue { text: "20".into(), before: "last".into(), after: "error".into() };
        assert_eq!(clues.numbers, [twenty]);
        assert_eq!(clues.sum, None);
    }

    #[test]
    fn only_the_beginning_of_a_long_request_is_read() {
        let clues = Clues::of(&format!("read a.txt {} 1+1", "' é".repeat(1_000_000)));
        assert_eq!((clues.paths.len(), clues.sum), (1, None));
    }

    #[test]
    fn odd_requests_are_no_trouble() {
        for text in
            ["", " ", "'", "\"", "`", "((((", "))))", "-", ".", "..", "1", "'''", "é'é", "\u{0}", "%", "×"]
        {
            Clues::of(text);
        }
    }
}
