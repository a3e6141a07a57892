//! The line splitter: the bytes of a body become lines.
//!
//! A line ends with LF, CRLF or CR, and a CR LF pair may come in two pieces. Text is made of whole lines
//! only, so a character that was cut by the network is never seen in halves. Every byte is looked at once
//! and copied at most once, however small the pieces are. Lines and bodies that are too long are refused as
//! soon as that is known. The meaning of a line is not known here.

use baton_core::fault::{Code, Fault};

/// The most bytes of a line.
pub(super) const MAX_LINE_BYTES: usize = 8 * 1024 * 1024;

/// The most bytes of a body.
pub(super) const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// Splits the bytes of one body into lines.
#[derive(Debug)]
pub(super) struct LineSplitter {
    max_line: usize,
    max_body: usize,
    /// The bytes of the body so far.
    read: usize,
    /// The beginning of a line whose end has not come yet.
    begun: Vec<u8>,
    /// `begun` was returned as a line and has to be cleared.
    given: bool,
    /// The last byte was a CR: an LF that follows belongs to the same line end.
    after_cr: bool,
    /// No line was returned yet: a byte order mark may open the first one.
    first: bool,
}

impl Default for LineSplitter {
    fn default() -> Self {
        LineSplitter::within(MAX_LINE_BYTES, MAX_BODY_BYTES)
    }
}

impl LineSplitter {
    fn within(max_line: usize, max_body: usize) -> Self {
        let begun = Vec::new();
        LineSplitter { max_line, max_body, read: 0, begun, given: false, after_cr: false, first: true }
    }

    /// The next whole line, taken off the front of `bytes`. None: all bytes are taken, and at most a line has
    /// begun.
    pub(super) fn next<'a, 'b: 'a>(&'a mut self, bytes: &mut &'b [u8]) -> Result<Option<&'a str>, Fault> {
        if std::mem::take(&mut self.given) {
            self.begun.clear();
        }
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            if bytes.first() == Some(&b'\n') {
                self.take(bytes, 1)?;
            }
        }
        let Some(end) = line_end(bytes) else {
            let rest = self.take(bytes, bytes.len())?;
            self.fits(rest.len())?;
            self.begun.extend_from_slice(rest);
            return Ok(None);
        };
        let line = self.take(bytes, end)?;
        self.fits(line.len())?;
        self.after_cr = self.take(bytes, 1)? == b"\r";
        let line = if self.begun.is_empty() {
            line
        } else {
            self.begun.extend_from_slice(line);
            self.given = true;
            &self.begun
        };
        text(line, std::mem::take(&mut self.first)).map(Some)
    }

    /// The last line of a body that does not end with a line end.
    pub(super) fn last(&mut self) -> Result<Option<&str>, Fault> {
        if self.given || self.begun.is_empty() {
            return Ok(None);
        }
        self.given = true;
        text(&self.begun, std::mem::take(&mut self.first)).map(Some)
    }

    fn take<'a>(&mut self, bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = bytes.split_at(count);
        *bytes = rest;
        self.read = self.read.saturating_add(count);
        if self.read > self.max_body {
            return Err(too_long("an answer", self.max_body));
        }
        Ok(taken)
    }

    fn fits(&self, more: usize) -> Result<(), Fault> {
        if self.begun.len() + more > self.max_line {
            return Err(too_long("a line", self.max_line));
        }
        Ok(())
    }
}

/// The position of the first line end. Whole blocks are searched at once, which takes a fraction of the time.
fn line_end(bytes: &[u8]) -> Option<usize> {
    const BLOCK: usize = 32;
    let is_end = |byte: &u8| *byte == b'\n' || *byte == b'\r';
    // A fold without an early return, so that it becomes a few vector instructions.
    let has_end =
        |block: &[u8; BLOCK]| block.iter().fold(0, |found, byte| found | u8::from(is_end(byte))) != 0;
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let at = blocks.iter().position(has_end).unwrap_or(blocks.len()) * BLOCK;
    bytes[at..].iter().position(is_end).map(|within| at + within)
}

/// The bytes of a line as text. A byte order mark at the very beginning of a body is dropped.
fn text(line: &[u8], first: bool) -> Result<&str, Fault> {
    let line = str::from_utf8(line).map_err(|_| {
        Fault::new(Code::LlmInvalidResponse, "the model's server sent text that is not UTF-8")
    })?;
    Ok(line.strip_prefix('\u{feff}').filter(|_| first).unwrap_or(line))
}

/// The fault of a part that exceeds its bound.
pub(super) fn too_long(part: &str, max: usize) -> Fault {
    let bound = if max >= 1 << 20 { format!("{} MiB", max >> 20) } else { format!("{max} bytes") };
    Fault::new(Code::LlmInvalidResponse, format!("the model's server sent {part} longer than {bound}"))
}

#[cfg(test)]
mod tests;
