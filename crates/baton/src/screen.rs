//! The output of a run while it happens: as text, or as one JSON object a line.
//!
//! Nothing is decided here: [`crate::follow`] reads the log and calls this module with each event.

mod page;

use std::io;
use std::time::Instant;

use baton_core::event::{Event, NumberedEvent};
use baton_core::id::RunId;
use baton_core::run::{Receipt, ReceiptCall, Usage};
use serde::Serialize;

use crate::dialect::final_text::FinalText;
use crate::dialect::{self, Frame};
use crate::terminal::line;
pub(crate) use page::TextOutput;

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Show {
    /// As text.
    #[default]
    Text,
    /// As one JSON object a line.
    Json,
    /// Not at all.
    Nothing,
}

/// The output of one run.
#[derive(Debug)]
pub(crate) struct Screen {
    show: Show,
    show_reasoning: bool,
    run: RunId,
    page: TextOutput,
    /// The sequence number that was shown last.
    seq: u64,
    /// The agent's last text, for `done`.
    final_text: FinalText,
}

#[derive(Serialize)]
struct OutputLine<'a> {
    #[serde(flatten)]
    frame: &'a Frame<'a>,
    seq: u64,
    run_id: RunId,
}

impl Screen {
    /// A screen for one run.
    pub(crate) fn new(show: Show, show_reasoning: bool, run: RunId) -> Self {
        Screen {
            show,
            show_reasoning,
            run,
            page: TextOutput::new(),
            seq: 0,
            final_text: FinalText::default(),
        }
    }

    /// Takes in the next event; returns whether it ends the run with a text that has to be read from the store.
    pub(crate) fn needs_response(&mut self, seen: &NumberedEvent) -> bool {
        if self.show != Show::Json {
            return false;
        }
        self.final_text.see(seen);
        matches!(&seen.event, Event::Ended { status, .. } if self.final_text.of(*status).is_none())
    }

    /// Shows an event that was taken in; `response` is the run's final text where that was read.
    pub(crate) fn event(&mut self, seen: &NumberedEvent, response: Option<&str>) -> io::Result<()> {
        self.seq = seen.seq;
        match self.show {
            Show::Nothing => Ok(()),
            Show::Text => self.page.event(&seen.event, self.show_reasoning),
            Show::Json => {
                let known = match &seen.event {
                    Event::Ended { status, .. } => self.final_text.of(*status),
                    _ => None,
                };
                let response = response.or(known).unwrap_or_default();
                let frames = dialect::agent(&seen.event, self.show_reasoning, response);
                frames.iter().try_for_each(|frame| self.object(frame))
            }
        }
    }

    /// Shows that the text after a sequence number is void.
    pub(crate) fn resumed(&mut self, last_seq: u64) -> io::Result<()> {
        self.seq = last_seq;
        match self.show {
            Show::Nothing => Ok(()),
            Show::Text => self.page.void("the process that said this was lost; it is said again"),
            Show::Json => self.object(&Frame::Resumed { last_seq }),
        }
    }

    /// Shows that the run waits with this question, or for a decision.
    pub(crate) fn suspended(&mut self, usage: Usage, question: &str) -> io::Result<()> {
        match self.show {
            Show::Nothing => Ok(()),
            Show::Text => self.page.end(),
            Show::Json => self.object(&dialect::suspended(usage, question)),
        }
    }

    /// Ends the last line, however the run ended.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        if self.show == Show::Text { self.page.end() } else { Ok(()) }
    }

    /// The time at which to show a spinner with the awaited model, if nothing is shown until then.
    pub(crate) fn sign_due(&self) -> Option<Instant> {
        if self.show == Show::Text { self.page.sign_due() } else { None }
    }

    /// Shows a spinner with the awaited model, until an event is shown.
    pub(crate) fn sign(&mut self, who: &str) {
        self.page.sign(who);
    }

    fn object(&self, frame: &Frame<'_>) -> io::Result<()> {
        let object = OutputLine { frame, seq: self.seq, run_id: self.run };
        line(serde_json::to_string(&object)?)
    }
}

/// The outcome of the calls of a cancelled run, in one line.
pub(crate) fn receipt(receipt: &Receipt) -> String {
    let names = |calls: &[ReceiptCall]| calls.iter().map(|c| c.name.as_str()).collect::<Vec<_>>().join(", ");
    let parts = [
        ("finished", &receipt.finished),
        ("stopped", &receipt.stopped),
        ("unknown", &receipt.unknown),
        ("not started", &receipt.not_started),
    ];
    let told: Vec<String> = parts
        .iter()
        .filter(|(_, calls)| !calls.is_empty())
        .map(|(what, calls)| format!("{what}: {}", names(calls)))
        .collect();
    if told.is_empty() { "no tool had been called".to_owned() } else { told.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_names_every_call_once() {
        let call = |name: &str| ReceiptCall { call_id: "c".into(), name: name.into() };
        let full = Receipt {
            finished: vec![call("a"), call("b")],
            stopped: vec![call("c")],
            unknown: vec![],
            not_started: vec![call("d")],
        };
        assert_eq!(receipt(&full), "finished: a, b; stopped: c; not started: d");
        assert_eq!(receipt(&Receipt::default()), "no tool had been called");
    }
}
