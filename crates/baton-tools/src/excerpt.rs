//! Parts of long texts: a window to read on from, and matches with what stands around them.
//!
//! Patterns are regular expressions without look-around, so a search takes time linear in the text;
//! their size is bounded because that is the other factor.

use regex::{Regex, RegexBuilder};

use crate::tool::ToolError;

/// How long a pattern may be, as written.
pub(crate) const MAX_PATTERN: usize = 1_000;
const MAX_COMPILED: usize = 256 * 1024;
/// How much of a match is shown, and how much on either side of it on its line.
const SHOWN: usize = 200;
const AROUND: usize = 100;

/// Reads a pattern; `^` and `$` stand for the ends of lines.
pub(crate) fn pattern(text: &str) -> Result<Regex, ToolError> {
    if text.len() > MAX_PATTERN {
        return Err(ToolError::asked(format!("The pattern is longer than {MAX_PATTERN} bytes.")));
    }
    RegexBuilder::new(text)
        .multi_line(true)
        .size_limit(MAX_COMPILED)
        .dfa_size_limit(4 * MAX_COMPILED)
        .build()
        .map_err(|error| ToolError::asked(format!("The pattern is not usable: {error}")))
}

/// Bytes as text with a closing line that says what they are part of and how to read on. There is no
/// such line if they are all there is.
pub(crate) fn window(bytes: &[u8], offset: u64, total: u64) -> String {
    let more = offset + (bytes.len() as u64) < total;
    let shown = if more { without_open_end(bytes) } else { bytes };
    let end = offset + shown.len() as u64;
    let mut text = String::from_utf8_lossy(shown).into_owned();
    let mut notes = Vec::new();
    if offset > 0 || more {
        notes.push(format!("bytes {offset} to {end} of {total}"));
    }
    if end < total {
        notes.push(format!("read on with offset {end}"));
    }
    if std::str::from_utf8(shown).is_err() {
        notes.push("not all of it is UTF-8 text: unreadable bytes are shown as \u{fffd}".to_owned());
    }
    if !notes.is_empty() {
        text.push_str(&format!("\n[{}]", notes.join("; ")));
    }
    text
}

/// Leaves a character that the end of the window cuts in two to the next window.
fn without_open_end(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

/// A place where a pattern matched.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Match {
    /// Where it begins, in bytes.
    pub(crate) offset: usize,
    /// On which line, counted from 1.
    pub(crate) line: usize,
    /// The line, or what stands around the match on a long one.
    pub(crate) text: String,
}

/// The first matches of a text, in order. What an earlier match already shows is not reported again.
pub(crate) fn matches(text: &str, pattern: &Regex, limit: usize, stop: &dyn Fn() -> bool) -> Vec<Match> {
    let mut found = Vec::new();
    let (mut from, mut line, mut counted) = (0, 1, 0);
    while found.len() < limit && !stop() {
        let Some(hit) = pattern.find_at(text, from) else { break };
        let start = hit.start();
        line += text.as_bytes()[counted..start].iter().filter(|byte| **byte == b'\n').count();
        counted = start;

        let left = text.floor_char_boundary(start.saturating_sub(AROUND));
        let left = text[left..start].rfind('\n').map_or(left, |at| left + at + 1);
        let middle = text.floor_char_boundary(hit.end().min(start + SHOWN));
        let right = text.floor_char_boundary(middle + AROUND);
        let right = text[middle..right].find('\n').map_or(right, |at| middle + at);
        found.push(Match { offset: start, line, text: text[left..right].to_owned() });

        from = right.max(hit.end());
        if from == text.len() {
            break;
        }
        if from == start || text[from..].starts_with('\n') {
            from = text.ceil_char_boundary(from + 1);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use baton_core::tool::Cause;

    use super::*;

    fn found(text: &str, written: &str, limit: usize) -> Vec<(usize, usize, String)> {
        let pattern = pattern(written).unwrap();
        matches(text, &pattern, limit, &|| false).into_iter().map(|m| (m.offset, m.line, m.text)).collect()
    }

    #[test]
    fn a_match_is_shown_with_its_line() {
        let text = "one fish\ntwo fish\n\nred fish";
        assert_eq!(
            found(text, "fish$", 9),
            [(4, 1, "one fish".into()), (13, 2, "two fish".into()), (23, 4, "red fish".into())]
        );
        assert_eq!(found(text, "fish", 1), [(4, 1, "one fish".into())]);
        assert_eq!(found(text, "bird", 9), []);
    }

    #[test]
    fn empty_matches_end() {
        assert_eq!(found("a\n\né", "", 9), [(0, 1, "a".into()), (2, 2, "".into()), (3, 3, "é".into())]);
        assert_eq!(found("", "", 9), [(0, 1, "".into())]);
        assert_eq!(found("é", "$", 9), [(2, 1, "é".into())]);
    }

    #[test]
    fn a_long_line_is_shown_around_each_match() {
        let text = format!("{0}needle{0}needle{0}", "é".repeat(500));
        let found = found(&text, "needle", 9);
        assert_eq!(found.iter().map(|m| (m.0, m.1)).collect::<Vec<_>>(), [(1000, 1), (2006, 1)]);
        assert_eq!(found[0].2, format!("{0}needle{0}", "é".repeat(50)));
        let all = super::matches(&text, &pattern("(?s).*").unwrap(), 9, &|| false);
        assert_eq!(all.iter().map(|m| m.offset).collect::<Vec<_>>(), [0]);
        assert_eq!(super::matches(&text, &pattern("needle").unwrap(), 9, &|| true), []);
    }

    #[test]
    fn patterns_are_bounded() {
        for bad in ["(", "(?=x)", r"\w{1000}{1000}", &"x".repeat(MAX_PATTERN + 1)] {
            assert_eq!(pattern(bad).unwrap_err().cause, Cause::Asked, "{bad}");
        }
        assert!(pattern(r"(?i)\berror\b.*\d{3}").is_ok());
    }

    #[test]
    fn a_window_says_how_to_read_on() {
        assert_eq!(window(b"abc", 0, 3), "abc");
        assert_eq!(window(b"abc", 0, 9), "abc\n[bytes 0 to 3 of 9; read on with offset 3]");
        assert_eq!(window(b"ghi", 6, 9), "ghi\n[bytes 6 to 9 of 9]");
        assert_eq!(window(b"", 20, 9), "\n[bytes 20 to 20 of 9]");
    }

    #[test]
    fn a_window_never_splits_a_character() {
        let text = "aé".as_bytes();
        assert_eq!(window(&text[..2], 0, 3), "a\n[bytes 0 to 1 of 3; read on with offset 1]");
        assert_eq!(window(&text[1..], 1, 3), "é\n[bytes 1 to 3 of 3]");
        // A window too small for one character still moves on.
        assert!(window(&text[1..2], 1, 3).contains("read on with offset 2"));
        assert!(window(&[b'a', 0xff], 0, 2).starts_with("a\u{fffd}\n[not all of it is UTF-8"));
    }
}
