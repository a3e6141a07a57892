//! Server-sent events out of lines, as the HTML standard reads them.
//!
//! Only data is kept: comments (also a bare `:`) and the fields `event`, `id`, `retry` and unknown ones are
//! passed over, because every format that we read says in its data what an event is. Reconnecting is not
//! known here.

use baton_core::fault::Fault;

use super::lines::{MAX_LINE_BYTES, too_long};

/// The event that is being read.
#[derive(Debug, Default)]
pub(super) struct SseEvent {
    data: String,
    /// Some data came, if only an empty line of it.
    begun: bool,
    /// `data` was given away and starts anew.
    given: bool,
}

impl SseEvent {
    /// Takes the next line. Gives the data of an event, its lines joined, when the line ends one.
    pub(super) fn line(&mut self, line: &str) -> Result<Option<&str>, Fault> {
        if std::mem::take(&mut self.given) {
            self.data.clear();
        }
        if line.is_empty() {
            // An event without data is none.
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
