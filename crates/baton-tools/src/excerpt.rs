//! Excerpts of long texts: a window to read on from, and matches with the text around them.
//!
//! Patterns are regular expressions without look-around, so a search takes time linear in the text;
//! their size is bounded because that is the other factor. A text is searched in windows, and between two
//! of them the search can be stopped: nothing else can interrupt a thread that searches.

use regex_automata::meta::{BuildError, Config, Regex};
use regex_automata::util::syntax;
use regex_automata::{Input, Match as Span};

use crate::tool::ToolError;

/// How long a pattern may be, as written.
pub(crate) const MAX_PATTERN: usize = 1_000;
const MAX_COMPILED: usize = 256 * 1024;
/// How much of a match is shown, and how much on either side of it on its line.
const SHOWN: usize = 200;
const AROUND: usize = 100;

/// How much of a text is searched before the search checks whether it has to stop.
const WINDOW: usize = 64 * 1024;
/// How much of a window is searched again in the next one, so that a match this long is never cut.
const OVERLAP: usize = 16 * 1024;

/// Compiles a pattern; `^` and `$` stand for the ends of lines.
pub(crate) fn compile_pattern(text: &str) -> Result<Regex, ToolError> {
    if text.len() > MAX_PATTERN {
        return Err(ToolError::invalid_call(format!("The pattern is longer than {MAX_PATTERN} bytes.")));
    }
    let config = Config::new()
        .nfa_size_limit(Some(MAX_COMPILED))
        .onepass_size_limit(Some(MAX_COMPILED))
        .hybrid_cache_capacity(4 * MAX_COMPILED);
    let built = Regex::builder().configure(config).syntax(syntax::Config::new().multi_line(true)).build(text);
    built.map_err(|error| ToolError::invalid_call(describe(&error)))
}

fn describe(error: &BuildError) -> String {
    match (error.size_limit(), error.syntax_error()) {
        (Some(limit), _) => format!(
            "The pattern is too large: with its repetitions written out it takes more than {} KiB. Use smaller \
             repetitions like `{{1,20}}` or `+`, or search for a plain word.",
            limit / 1024
        ),
        (None, Some(syntax)) => format!("The pattern is not usable: {syntax}"),
        (None, None) => format!("The pattern is not usable: {error}"),
    }
}

/// A window of a text, with a closing line that says which bytes of how many it shows and how to read on. A window that
/// shows everything has no such line.
pub(crate) fn window(bytes: &[u8], offset: u64, total: u64) -> String {
    let more = offset + (bytes.len() as u64) < total;
    let shown = if more { without_partial_character(bytes) } else { bytes };
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

/// The bytes without a character that the end of the window cuts in two: the next window shows it.
fn without_partial_character(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => &bytes[..error.valid_up_to()],
        _ => bytes,
    }
}

/// A match of a pattern, with its line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Match {
    /// Where it begins, in bytes.
    pub(crate) offset: usize,
    /// The number of its line, counted from 1.
    pub(crate) line: usize,
    /// The line; of a long one, the part around the match.
    pub(crate) text: String,
}

/// The first matches of a text, in order. A match that an earlier one already shows is not reported again.
pub(crate) fn matches(text: &str, pattern: &Regex, limit: usize, stop: &dyn Fn() -> bool) -> Vec<Match> {
    let mut matches = Vec::new();
    let (mut from, mut line, mut counted) = (0, 1, 0);
    while matches.len() < limit && !stop() {
        let Some(span) = find(text, pattern, from, stop) else { break };
        let start = span.start();
        line += text.as_bytes()[counted..start].iter().filter(|byte| **byte == b'\n').count();
        counted = start;

        let left = text.floor_char_boundary(start.saturating_sub(AROUND));
        let left = text[left..start].rfind('\n').map_or(left, |at| left + at + 1);
        let middle = text.floor_char_boundary(span.end().min(start + SHOWN));
        let right = text.floor_char_boundary(middle + AROUND);
        let right = text[middle..right].find('\n').map_or(right, |at| middle + at);
        matches.push(Match { offset: start, line, text: text[left..right].to_owned() });

        from = right.max(span.end());
        if from == text.len() {
            break;
        }
        if from == start || text[from..].starts_with('\n') {
            from = text.ceil_char_boundary(from + 1);
        }
    }
    matches
}

/// The first match at or behind `from`. The text around a window counts, so that `^`, `$` and `\b` mean the
/// same as in one search of the whole text; only a match longer than [`OVERLAP`] may be cut or not be found.
fn find(text: &str, pattern: &Regex, from: usize, stop: &dyn Fn() -> bool) -> Option<Span> {
    let mut start = from;
    while !stop() {
        let end = text.ceil_char_boundary((start + WINDOW).min(text.len()));
        let span = pattern.search(&Input::new(text).span(start..end));
        if end == text.len() {
            return span;
        }
        let next = text.floor_char_boundary(end - OVERLAP);
        match span {
            Some(span) if span.start() < next => return Some(span),
            // The next window shows whether the match goes on behind the end of this one.
            _ => start = next,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use baton_core::tool::Cause;

    use super::*;

    fn found(text: &str, written: &str, limit: usize) -> Vec<(usize, usize, String)> {
        let pattern = compile_pattern(written).unwrap();
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
        let all = super::matches(&text, &compile_pattern("(?s).*").unwrap(), 9, &|| false);
        assert_eq!(all.iter().map(|m| m.offset).collect::<Vec<_>>(), [0]);
        assert_eq!(super::matches(&text, &compile_pattern("needle").unwrap(), 9, &|| true), []);
    }

    #[test]
    fn patterns_are_bounded() {
        for bad in ["(", "(?=x)", r"\w{1000}{1000}", &"x".repeat(MAX_PATTERN + 1)] {
            assert_eq!(compile_pattern(bad).unwrap_err().cause, Cause::Asked, "{bad}");
        }
        assert!(compile_pattern(r"(?i)\berror\b.*\d{3}").is_ok());
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

    #[test]
    fn a_search_checks_for_a_stop_before_every_window() {
        let text = "ab".repeat(2 * 1024 * 1024);
        let checks = Cell::new(0);
        let stop_at = |limit: usize| {
            checks.set(0);
            let stop = || {
                checks.set(checks.get() + 1);
                checks.get() > limit
            };
            let found = super::matches(&text, &compile_pattern("c").unwrap(), 9, &stop);
            (found, checks.get())
        };
        // A window begins every 48 KiB; before the first one there are two checks.
        let windows = (text.len() - WINDOW).div_ceil(WINDOW - OVERLAP) + 1;
        assert_eq!(stop_at(usize::MAX), (Vec::new(), windows + 1));
        assert_eq!(stop_at(5), (Vec::new(), 6));
    }

    #[test]
    fn windows_change_no_match() {
        // Characters of two bytes, and lines that begin at every place within a window.
        let text: String = (0..30_000).map(|n| format!("{}é{n} end\n", "-".repeat(n % 7))).collect();
        for (written, count) in [
            (r"^-*é\d+7 end$", 2999),
            (r"(?s)8000 end\n.*?9000 end", 3),
            (r"\bend\b", 30_000),
            (r"\A-*é0", 1),
        ] {
            let pattern = compile_pattern(written).unwrap();
            let whole: Vec<usize> = pattern.find_iter(&text).map(|hit| hit.start()).collect();
            let mut from = 0;
            let mut found = Vec::new();
            while let Some(hit) = find(&text, &pattern, from, &|| false) {
                found.push(hit.start());
                from = hit.end();
            }
            assert_eq!(found.len(), count, "{written}");
            assert!(found == whole, "{written}");
        }
    }

    #[test]
    fn a_pattern_that_is_too_large_is_refused_with_advice() {
        for large in ["[ab]*a[ab]{90000}c", r"\w{1000}", "((a{100}){100}){100}"] {
            assert_eq!(
                compile_pattern(large).unwrap_err().message,
                "The pattern is too large: with its repetitions written out it takes more than 256 KiB. Use smaller \
                 repetitions like `{1,20}` or `+`, or search for a plain word."
            );
        }
    }
}
