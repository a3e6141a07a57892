//! Markdown on a terminal, block by block.
//!
//! Text is taken in as it arrives; a block is shown when it is complete (a blank line, the end of a code
//! fence, the end of the message), so that what stands there never has to be taken back. What has no
//! good form on a terminal, tables above all, is shown as it was written.

mod ink;

/// Gathers text and gives out rendered blocks.
#[derive(Debug, Default)]
pub(crate) struct Markdown {
    /// The lines of the block that is not complete.
    block: String,
    /// The line that is not complete.
    line: String,
    /// The fence that is open, if one is.
    fence: Option<String>,
    /// Whether something was shown, and a blank line came after it.
    shown: bool,
    gap: bool,
}

impl Markdown {
    /// Takes in a piece of text; answers what can be shown now.
    pub(crate) fn push(&mut self, text: &str) -> String {
        let mut out = String::new();
        for piece in text.split_inclusive('\n') {
            self.line.push_str(piece);
            if piece.ends_with('\n') {
                let line = std::mem::take(&mut self.line);
                self.take(line, &mut out);
            }
        }
        out
    }

    /// The message is over; answers the rest of it.
    pub(crate) fn finish(&mut self) -> String {
        let mut out = String::new();
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take(line, &mut out);
        }
        self.flush(&mut out);
        *self = Markdown::default();
        out
    }

    fn take(&mut self, line: String, out: &mut String) {
        let mark = fence_mark(&line);
        match (&self.fence, mark) {
            (Some(open), Some(mark)) if mark.starts_with(open.as_str()) && line.trim() == mark => {
                self.fence = None;
                self.block.push_str(&line);
                self.flush(out);
            }
            (Some(_), _) => self.block.push_str(&line),
            (None, Some(mark)) => {
                self.flush(out);
                self.fence = Some(mark.to_owned());
                self.block.push_str(&line);
            }
            (None, None) if line.trim().is_empty() => {
                self.flush(out);
                self.gap = self.shown;
            }
            (None, None) => self.block.push_str(&line),
        }
    }

    fn flush(&mut self, out: &mut String) {
        let block = std::mem::take(&mut self.block);
        if block.is_empty() {
            return;
        }
        if std::mem::take(&mut self.gap) {
            out.push('\n');
        }
        out.push_str(&ink::render(&block));
        self.shown = true;
    }
}

/// The backticks or tildes that begin or end a block of code.
fn fence_mark(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let first = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let length = text.len() - text.trim_start_matches(first).len();
    (length >= 3 && line.len() - text.len() < 4).then(|| &text[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything that comes out, without styles, when the text arrives in pieces of `size`.
    fn shown(text: &str, size: usize) -> String {
        let mut markdown = Markdown::default();
        let letters: Vec<char> = text.chars().collect();
        let mut out: String =
            letters.chunks(size).map(|piece| markdown.push(&piece.iter().collect::<String>())).collect();
        out.push_str(&markdown.finish());
        anstream::adapter::strip_str(&out).to_string()
    }

    #[test]
    fn blocks_come_out_the_same_however_they_arrive() {
        let text = "# Title\n\nSome *text* with `code`,\nstill the same.\n\n- one\n- two\n  1. deep\n\n```sh\nls # x\n\n```\nafter\n\n> said\n\n[a](http://b)";
        let expected = "Title\n\nSome text with code,\nstill the same.\n\n• one\n• two\n  1. deep\n\n    ls # x\n    \nafter\n\n│ said\n\na (http://b)\n";
        for size in [1, 3, 7, 1000] {
            assert_eq!(shown(text, size), expected, "{size}");
        }
    }

    #[test]
    fn a_block_is_shown_as_soon_as_it_is_complete() {
        let mut markdown = Markdown::default();
        assert_eq!(markdown.push("one\nstill"), "");
        assert_eq!(markdown.push(" one\n"), "");
        assert_eq!(markdown.push("\n"), "one\nstill one\n");
        assert_eq!(markdown.push("two"), "");
        assert_eq!(markdown.finish(), "\ntwo\n");
        assert_eq!(markdown.finish(), "");
    }

    #[test]
    fn what_has_no_form_here_stays_as_it_was_written() {
        let table = "| a | b |\n|---|---|\n| 1 | 2 |\n";
        assert_eq!(shown(table, 4), table);
        assert_eq!(shown("<b>x</b> & y", 4), "<b>x</b> & y\n");
        assert_eq!(shown("```\nnever closed\n\nx", 5), "    never closed\n    \n    x\n");
    }

    #[test]
    fn styles_are_closed_again() {
        let mut markdown = Markdown::default();
        markdown.push("a **b *c* d** e");
        let out = markdown.finish();
        assert_eq!(out, "a \u{1b}[1mb \u{1b}[3mc\u{1b}[0m\u{1b}[1m d\u{1b}[0m e\n");
    }
}
