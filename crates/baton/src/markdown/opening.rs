//! The beginning of a line, decided from as few of its letters as possible.

/// The beginning of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Opening {
    /// An empty line.
    Blank,
    /// A block of code begins, with these marks.
    FenceBegins(String),
    /// The block of code ends.
    FenceEnds,
    /// A line of code.
    Code,
    /// A horizontal rule.
    Rule,
    /// A heading; its marks are left out.
    Heading,
    /// An item of a list, after this much space.
    Bullet {
        /// The space.
        indent: String,
    },
    /// A margin; the line begins anew after it.
    Quote,
    /// A line that is shown as it is.
    Raw,
    /// Any other line. Numbered items are among these: they look right as they are.
    Text,
}

/// The opening of a line and its length in bytes; `None` as long as that is undecided.
pub(super) fn of(line: &str, fence: Option<&str>, quoted: bool, complete: bool) -> Option<(Opening, usize)> {
    if let Some(fence) = fence {
        return in_code(line, fence, complete);
    }
    let text = line.trim_start();
    let indent = &line[..line.len() - text.len()];
    let Some(first) = text.chars().next() else { return complete.then_some((Opening::Blank, line.len())) };
    let run = text.len() - text.trim_start_matches(first).len();
    let after = &text[run..];
    let undecided = after.is_empty() && !complete;
    match first {
        // Inside a quote the lines of code have margins of their own: they are shown as text.
        '`' | '~' if run >= 3 && !quoted => fence_begins(line, &text[..run], after, complete),
        '`' | '~' | '#' | '>' if undecided => None,
        '#' if run <= 6 && after.trim_start().is_empty() && !complete => None,
        '#' if run <= 6 && after.starts_with(' ') => {
            Some((Opening::Heading, line.len() - after.trim_start().len()))
        }
        '>' => {
            let inside = &text[1..];
            let inside = inside.strip_prefix(' ').unwrap_or(inside);
            Some((Opening::Quote, line.len() - inside.len()))
        }
        '-' | '*' | '_' if after.trim_end().is_empty() && !complete => None,
        '-' | '*' | '_' if after.trim_end().is_empty() && run >= 3 => Some((Opening::Rule, line.len())),
        '+' if undecided => None,
        '-' | '*' | '+' if run == 1 && after.starts_with(' ') => {
            Some((Opening::Bullet { indent: indent.to_owned() }, indent.len() + 2))
        }
        '|' => Some((Opening::Raw, 0)),
        _ => Some((Opening::Text, 0)),
    }
}

fn fence_begins(line: &str, mark: &str, after: &str, complete: bool) -> Option<(Opening, usize)> {
    if mark.starts_with('`') && after.contains('`') {
        return Some((Opening::Text, 0)); // code within a line
    }
    complete.then(|| (Opening::FenceBegins(mark.to_owned()), line.len()))
}

fn in_code(line: &str, fence: &str, complete: bool) -> Option<(Opening, usize)> {
    let text = line.trim();
    let may_end = fence.chars().next().is_some_and(|mark| text.chars().all(|c| c == mark));
    match (may_end, complete) {
        (true, false) => None,
        (true, true) if text.len() >= fence.len() => Some((Opening::FenceEnds, line.len())),
        _ => Some((Opening::Code, 0)),
    }
}
