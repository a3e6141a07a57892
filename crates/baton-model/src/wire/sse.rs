//! Server-sent events from lines, by the rules of the HTML standard.
//!
//! Only data is kept: comments (also a bare `:`) and the fields `event`, `id`, `retry` and unknown ones are
//! ignored, because every format that we decode has the type of an event in its data. There is no reconnecting.

use baton_core::fault::Fault;

use super::lines::{MAX_LINE_BYTES, too_long};

/// The current event.
#[derive(Debug, Default)]
pub(super) struct SseEvent {
    data: String,
    /// Some data came, even if it is only an empty line.
    begun: bool,
    /// `data` was returned and has to be cleared.
    given: bool,
}

impl SseEvent {
    /// Takes the next line. Returns the data of an event, its lines joined, when the line ends one.
    pub(super) fn line(&mut self, line: &str) -> Result<Option<&str>, Fault> {
        if std::mem::take(&mut self.given) {
            self.data.clear();
        }
        if line.is_empty() {
            // An event without data is ignored.
            return Ok(self.pending());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        if field == "data" {
            let value = value.strip_prefix(' ').unwrap_or(value);
            if self.begun {
                self.data.push('\n');
            }
            if self.data.len() + value.len() > MAX_LINE_BYTES {
                return Err(too_long("an event", MAX_LINE_BYTES));
            }
            self.begun = true;
            self.data.push_str(value);
        }
        Ok(None)
    }

    /// The data of an event whose blank line has not come.
    pub(super) fn pending(&mut self) -> Option<&str> {
        let begun = std::mem::take(&mut self.begun);
        self.given |= begun;
        begun.then_some(self.data.as_str())
    }
}

#[cfg(test)]
mod tests;
