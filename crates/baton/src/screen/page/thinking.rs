//! A model's own reasoning, on standard error: it flows as text does and differs from it in its style or, without
//! colours, by a word before it.

use crate::terminal::{DIM, colours_notes, note_part, plain, styled};

/// The state of the reasoning's output.
#[derive(Debug, Default)]
pub(super) struct Thinking {
    /// Whether the last piece was reasoning.
    open: bool,
    /// Whether it ended in the middle of a line.
    unfinished: bool,
}

impl Thinking {
    /// Whether reasoning is being shown.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Shows a piece of it.
    pub(super) fn piece(&mut self, text: &str) {
        // The whitespace before and after it is ours.
        let text = if self.open { text } else { text.trim_start() };
        if text.is_empty() {
            return;
        }
        match colours_notes() {
            true => note_part(&styled(DIM, plain(text))),
            false if self.open => note_part(&plain(text)),
            false => note_part(&format!("thinking: {}", plain(text))),
        }
        (self.open, self.unfinished) = (true, !text.ends_with('\n'));
    }

    /// Ends the reasoning with a line break, because something else follows.
    pub(super) fn end(&mut self) {
        if self.unfinished {
            note_part("\n");
        }
        *self = Thinking::default();
    }
}
