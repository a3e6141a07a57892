//! Markdown on a terminal, shown as it arrives.
//!
//! Every piece of text is shown in the moment it comes, and shown text is never taken back: the cursor only moves on,
//! so that nothing is lost, doubled or redrawn. Undecided text is held back for the few letters that decide it: the
//! beginning of a line, and a span between marks, which is given up and shown as written if its end does not come soon.
//! A line breaks where the terminal breaks it. Markdown without a good form here, tables above all, is shown as
//! written.

mod ink;
mod inline;
mod opening;

use anstyle::Style;

use crate::terminal::{BOLD, CODE, styled};
use inline::InlineStep;
use opening::Opening;

/// Takes in text as it arrives and returns the part that can be shown.
#[derive(Debug, Default)]
pub(crate) struct Markdown {
    /// Text that was taken in and cannot be shown yet.
    held: String,
    /// The state of the present line.
    place: LineState,
    /// Whether a quote's margin stands before the line.
    quoted: bool,
    /// The last letter of the line.
    before: Option<char>,
    /// The fence that is open, if one is.
    fence: Option<String>,
    /// Whether something was shown, and whether a blank line came after it.
    shown: bool,
    gap: bool,
}

/// The state of a line, as far as it is decided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum LineState {
    /// Its beginning is undecided.
    #[default]
    Start,
    /// Text with spans in it; all of it in this style.
    Text(Option<Style>),
    /// Shown as it is.
    Raw,
    /// A line of code.
    Code,
    /// Not shown.
    Nothing,
}

impl Markdown {
    /// Takes in a piece of text; returns the part that can be shown now.
    pub(crate) fn push(&mut self, text: &str) -> String {
        let mut out = String::new();
        for piece in text.split_inclusive('\n') {
            match piece.strip_suffix('\n') {
                Some(rest) => {
                    self.held.push_str(rest);
                    self.end_line(&mut out);
                }
                None => {
                    self.held.push_str(piece);
                    self.show(false, &mut out);
                }
            }
        }
        out
    }

    /// Ends the message; returns the rest of it, which ends with a line break.
    pub(crate) fn finish(&mut self) -> String {
        let mut out = String::new();
        if !self.held.is_empty() || self.place != LineState::Start || self.quoted {
            self.end_line(&mut out);
        }
        *self = Markdown::default();
        out
    }

    fn end_line(&mut self, out: &mut String) {
        self.show(true, out);
        if self.place != LineState::Nothing {
            out.push('\n');
        }
        (self.place, self.quoted, self.before) = (LineState::Start, false, None);
    }

    /// Shows the decided part of the line; all of it if it is complete.
    fn show(&mut self, complete: bool, out: &mut String) {
        let held = std::mem::take(&mut self.held);
        let mut rest = held.as_str();
        while self.place == LineState::Start {
            match opening::of(rest, self.fence.as_deref(), self.quoted, complete) {
                Some((opening, length)) => {
                    self.open(opening, out);
                    rest = &rest[length..];
                }
                None => break,
            }
        }
        match self.place {
            LineState::Start => {}
            LineState::Nothing => rest = "",
            LineState::Raw => out.push_str(std::mem::take(&mut rest)),
            LineState::Code if rest.is_empty() => {}
            LineState::Code => out.push_str(&styled(CODE, std::mem::take(&mut rest))),
            LineState::Text(style) => rest = self.text(rest, style, complete, out),
        }
        rest.clone_into(&mut self.held);
    }

    /// Opens a line, or goes on after the margin of a quote.
    fn open(&mut self, opening: Opening, out: &mut String) {
        if opening == Opening::Blank && !self.quoted {
            self.gap = self.shown;
            self.place = LineState::Nothing;
            return;
        }
        let is_shown = !matches!(opening, Opening::FenceBegins(_) | Opening::FenceEnds);
        if self.shown && std::mem::take(&mut self.gap) {
            out.push('\n');
        }
        self.shown |= is_shown;
        self.place = match opening {
            Opening::Blank | Opening::Raw => LineState::Raw,
            Opening::FenceBegins(mark) => {
                self.fence = Some(mark);
                LineState::Nothing
            }
            Opening::FenceEnds => {
                self.fence = None;
                LineState::Nothing
            }
            Opening::Code => {
                out.push_str("    ");
                LineState::Code
            }
            Opening::Rule => {
                out.push_str("────────");
                LineState::Raw
            }
            Opening::Heading => LineState::Text(Some(BOLD)),
            Opening::Bullet { indent } => {
                out.push_str(&indent);
                out.push_str("• ");
                LineState::Text(None)
            }
            Opening::Quote => {
                out.push_str("│ ");
                self.quoted = true;
                LineState::Start
            }
            Opening::Text => LineState::Text(None),
        };
    }

    /// Shows text with spans in it; returns the part that has to wait.
    fn text<'a>(
        &mut self,
        mut rest: &'a str,
        style: Option<Style>,
        complete: bool,
        out: &mut String,
    ) -> &'a str {
        let put = |text: &str, out: &mut String| match style {
            Some(style) => out.push_str(&styled(style, text)),
            None => out.push_str(text),
        };
        while !rest.is_empty() {
            let length = match inline::step(rest, self.before, complete) {
                InlineStep::Hold => break,
                InlineStep::Plain(length) => {
                    put(&rest[..length], out);
                    length
                }
                InlineStep::Escaped(length) => {
                    put(&rest[1..length], out);
                    length
                }
                InlineStep::Span(length) => {
                    out.push_str(&ink::span(&rest[..length], style));
                    length
                }
            };
            self.before = rest[..length].chars().next_back();
            rest = &rest[length..];
        }
        rest
    }
}

#[cfg(test)]
mod tests;
