//! How far the text of a line can be shown already.
//!
//! The decision depends on the text alone and never on the pieces in which it came.

/// The most letters after a mark in which its end is waited for.
const SPAN: usize = 64;
/// The longest target of a link that is waited for.
const TARGET: usize = 400;

/// The next step for the beginning of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InlineStep {
    /// It cannot be shown yet.
    Hold,
    /// So many bytes are shown as they are.
    Plain(usize),
    /// So many bytes are shown without the first.
    Escaped(usize),
    /// So many bytes are a span between marks.
    Span(usize),
}

/// The next step through a text that is not empty. `before` is the letter before it, and `complete` says
/// that nothing comes after it.
pub(super) fn step(text: &str, before: Option<char>, complete: bool) -> InlineStep {
    match text.find(['*', '_', '`', '~', '[', '\\']) {
        None => return InlineStep::Plain(text.len()),
        Some(0) => {}
        Some(at) => return InlineStep::Plain(at),
    }
    let found = match text.as_bytes()[0] {
        b'\\' => escaped(text, complete),
        b'[' => link(text, complete),
        _ => span(text, before, complete),
    };
    match found {
        InlineStep::Hold if complete => InlineStep::Plain(run(text)),
        other => other,
    }
}

fn escaped(text: &str, complete: bool) -> InlineStep {
    match text[1..].chars().next() {
        None if !complete => InlineStep::Hold,
        Some(next) if next.is_ascii_punctuation() => InlineStep::Escaped(2),
        _ => InlineStep::Plain(1),
    }
}

/// The number of times that the first letter is repeated, in bytes. Marks are letters of one byte.
fn run(text: &str) -> usize {
    let mark = text.chars().next().unwrap_or_default();
    text.len() - text.trim_start_matches(mark).len()
}

fn span(text: &str, before: Option<char>, complete: bool) -> InlineStep {
    let length = run(text);
    let (mark, inside) = (text.as_bytes()[0], &text[length..]);
    let Some(first) = inside.chars().next() else { return InlineStep::Hold };
    let opens = match mark {
        b'`' => true,
        b'~' => length == 2,
        b'_' => length <= 3 && !before.is_some_and(char::is_alphanumeric) && !first.is_whitespace(),
        _ => length <= 3 && !first.is_whitespace(),
    };
    if !opens {
        return InlineStep::Plain(length);
    }
    match end_of_span(inside, mark, length, complete) {
        InlineStep::Span(end) => InlineStep::Span(length + end),
        InlineStep::Plain(_) => InlineStep::Plain(length),
        other => other,
    }
}

/// Looks for closing marks of the same length, skipping marks that may stand inside.
fn end_of_span(inside: &str, mark: u8, length: usize, complete: bool) -> InlineStep {
    let mut last = None;
    let mut at = 0;
    for _ in 0..=SPAN {
        let rest = &inside[at..];
        let Some(letter) = rest.chars().next() else { return InlineStep::Hold };
        if letter != char::from(mark) || (last == Some('\\') && mark != b'`') {
            last = Some(letter);
            at += letter.len_utf8();
            continue;
        }
        let found = run(rest);
        let next = rest[found..].chars().next();
        if next.is_none() && !complete {
            return InlineStep::Hold; // more marks may follow
        }
        let closes = match mark {
            b'`' => true,
            b'_' => !last.is_some_and(char::is_whitespace) && !next.is_some_and(char::is_alphanumeric),
            _ => !last.is_some_and(char::is_whitespace),
        };
        if found == length && closes {
            return InlineStep::Span(at + found);
        }
        last = Some(letter);
        at += found;
    }
    InlineStep::Plain(0)
}

/// Parses `[text](target)`.
fn link(text: &str, complete: bool) -> InlineStep {
    let mut letters = text.char_indices().skip(1);
    let end = letters.by_ref().take(SPAN).find(|(_, letter)| matches!(letter, '[' | ']'));
    let end = match end {
        Some((at, ']')) => at,
        Some(_) => return InlineStep::Plain(1),
        None if text.chars().nth(SPAN).is_some() => return InlineStep::Plain(1),
        None => return InlineStep::Hold,
    };
    let target = match text[end + 1..].chars().next() {
        None if !complete => return InlineStep::Hold,
        Some('(') => &text[end + 2..],
        _ => return InlineStep::Plain(1),
    };
    let mut depth = 1;
    for (at, letter) in target.char_indices().take(TARGET) {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if letter.is_whitespace() => return InlineStep::Plain(1),
            _ => {}
        }
        if depth == 0 {
            return InlineStep::Span(end + 2 + at + 1);
        }
    }
    if target.chars().nth(TARGET - 1).is_some() { InlineStep::Plain(1) } else { InlineStep::Hold }
}
