//! A run as text: the agent's answer goes to standard output as it arrives, its actions to standard error.
//!
//! On a terminal the text is rendered while it comes, and a spinner turns while a tool runs or nothing comes.
//! Everywhere else, and where no colours are wanted, the text is written as it is, piece by piece.

mod thinking;
mod words;

use std::io;
use std::time::{Duration, Instant};

use baton_core::event::Event;
use baton_core::run::RunStatus;
use baton_core::tool::ASK_USER;
use indicatif::ProgressBar;

use super::receipt;
use crate::markdown::Markdown;
use crate::terminal::{
    BAD, CARE, DIM, answer, brief, colours_answers, note, plain, shows_answers, shows_notes, styled, turning,
};
use thinking::Thinking;
use words::{Above, BRIEF, REVISED, Warned, told, unseen};

/// The time without events after which a spinner names the awaited model.
const SILENCE: Duration = Duration::from_secs(1);

/// The output of one run as text.
#[derive(Debug)]
pub(crate) struct TextOutput {
    /// Whether the answer goes to a terminal.
    read: bool,
    /// Renders the answer on a terminal; absent: the text is written as it is.
    markdown: Option<Markdown>,
    /// The message whose text is being written.
    message: Option<String>,
    /// The message whose text was written last, and counts.
    above: Above,
    /// Whether the last line is complete.
    fresh: bool,
    /// The model's own reasoning, where it is shown.
    thinking: Thinking,
    /// The last warning.
    warned: Warned,
    /// The tools that run.
    running: Vec<(String, String)>,
    /// The spinner while tools run, or while nothing comes.
    turning: Option<ProgressBar>,
    /// The time at which something was shown last.
    since: Instant,
}

impl TextOutput {
    /// An empty page.
    pub(crate) fn new() -> Self {
        let read = shows_answers();
        TextOutput {
            read,
            markdown: (read && colours_answers()).then(Markdown::default),
            message: None,
            above: Above::default(),
            fresh: true,
            thinking: Thinking::default(),
            warned: Warned::default(),
            running: Vec::new(),
            turning: None,
            since: Instant::now(),
        }
    }

    /// The time at which to show a spinner with the awaited model, if nothing comes until then.
    pub(crate) fn sign_due(&self) -> Option<Instant> {
        let is_free = self.fresh && !self.thinking.is_open() && self.turning.is_none();
        (is_free && shows_notes()).then(|| self.since + SILENCE)
    }

    /// Shows a spinner with the awaited model, until an event comes.
    pub(crate) fn sign(&mut self, who: &str) {
        self.turning = turning(format!("waiting for {who}"));
    }

    /// Shows one event.
    pub(crate) fn event(&mut self, event: &Event, show_reasoning: bool) -> io::Result<()> {
        if matches!(event, Event::Delta { reasoning: true, .. } if !show_reasoning) {
            return Ok(()); // nothing came that the user could see
        }
        self.rest();
        self.since = Instant::now();
        match event {
            Event::Started { .. } | Event::Input { .. } => {}
            Event::Delta { text, reasoning: true, .. } => self.think(text)?,
            Event::Delta { message_id, text, .. } => self.text(message_id, text)?,
            Event::ToolStart { name, args, call_id } => self.tool_start(name, &args.to_string(), call_id)?,
            Event::ToolResult { name, result, call_id, status, .. } => {
                self.running.retain(|(id, _)| id != call_id);
                if name != ASK_USER {
                    self.aside(told(name, result, *status))?;
                }
            }
            Event::ApprovalRequired { name, .. } => {
                self.aside(styled(CARE, format!("? {name} waits for approval")))?;
            }
            Event::HistoryCut { first, reason } => {
                if let Some(unseen) = unseen(*first, *reason) {
                    self.aside(styled(DIM, unseen))?;
                }
            }
            Event::Warning { message, .. } => {
                let warning = self.warned.again(message);
                self.aside(styled(CARE, format!("warning: {}", plain(&warning))))?;
            }
            Event::Restarted { message_id } => {
                if self.above.void(message_id) {
                    self.restart(message_id)?;
                }
            }
            Event::Ended { status, error, receipt: calls, .. } => {
                self.end()?;
                if let Some(fault) = error {
                    let message = plain(&fault.message);
                    note(styled(BAD, format!("the run failed ({}): {message}", fault.code.as_str())));
                }
                if *status == RunStatus::Cancelled {
                    let calls = calls.as_ref().map(receipt).unwrap_or_default();
                    note(styled(CARE, format!("cancelled; {calls}")));
                }
            }
        }
        self.turn();
        Ok(())
    }

    /// Marks the written text of the present message as void.
    pub(crate) fn void(&mut self, why: &str) -> io::Result<()> {
        let Some(message) = self.message.take() else { return Ok(()) };
        self.above.void(&message);
        self.end()?;
        note(styled(CARE, format!("(the text above is void: {why})")));
        Ok(())
    }

    /// Marks the last message on the page as void: it was cut short, or another answer replaces it.
    fn restart(&mut self, message: &str) -> io::Result<()> {
        if self.message.as_deref() == Some(message) {
            return self.void("the model was interrupted; it is asked again");
        }
        // A warning stands between them, and gives the reason.
        self.aside(styled(DIM, REVISED))
    }

    /// Completes the message and the last line.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.rest();
        self.running.clear();
        self.end_message()
    }

    fn end_message(&mut self) -> io::Result<()> {
        self.message = None;
        self.end_line()
    }

    fn end_line(&mut self) -> io::Result<()> {
        self.thinking.end();
        let rest = self.markdown.as_mut().map(Markdown::finish).unwrap_or_default();
        self.write(&rest)?;
        if self.fresh { Ok(()) } else { self.write("\n") }
    }

    fn write(&mut self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        self.fresh = text.ends_with('\n');
        answer(text)
    }

    fn text(&mut self, message: &str, text: &str) -> io::Result<()> {
        if self.message.as_deref() != Some(message) {
            self.end_message()?;
            self.message = Some(message.to_owned());
            self.above.is(message);
        }
        self.thinking.end();
        match &mut self.markdown {
            Some(markdown) => {
                let shown = markdown.push(&plain(text));
                self.write(&shown)
            }
            None if self.read => self.write(&plain(text)),
            None => self.write(text),
        }
    }

    /// Writes reasoning beside the answer; on a terminal it does not break into a line of the answer.
    fn think(&mut self, text: &str) -> io::Result<()> {
        if self.read && !self.thinking.is_open() {
            self.end_line()?;
        }
        self.thinking.piece(text);
        Ok(())
    }

    fn tool_start(&mut self, name: &str, args: &str, call_id: &str) -> io::Result<()> {
        if name == ASK_USER {
            return Ok(());
        }
        self.running.push((call_id.to_owned(), name.to_owned()));
        self.aside(styled(DIM, format!("→ {name} {}", brief(args, BRIEF))))
    }

    fn aside(&mut self, text: String) -> io::Result<()> {
        self.end_message()?;
        note(text);
        Ok(())
    }

    /// Starts the spinner while tools run, for a user who waits.
    fn turn(&mut self) {
        if self.running.is_empty() || !self.fresh {
            return;
        }
        let names: Vec<&str> = self.running.iter().map(|(_, name)| name.as_str()).collect();
        self.turning = turning(names.join(", "));
    }

    fn rest(&mut self) {
        if let Some(turning) = self.turning.take() {
            turning.finish_and_clear();
        }
    }
}

impl Drop for TextOutput {
    /// Stops the spinner when the page is gone.
    fn drop(&mut self) {
        self.rest();
    }
}
