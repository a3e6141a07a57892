//! A run as text: what the agent says goes to standard output as it arrives, what it does to standard
//! error.

use std::io;

use baton_core::event::Event;
use baton_core::run::RunStatus;
use baton_core::thread::Closing;
use baton_core::tool::ASK_USER;

use super::receipt;
use crate::terminal::{BAD, CARE, DIM, answer, brief, note, plain, shows_answers, styled};

/// How much of a call or its result is shown.
const BRIEF: usize = 160;

/// See the module.
#[derive(Debug)]
pub(crate) struct Page {
    /// Whether a person reads it.
    terminal: bool,
    /// The message whose text is being written.
    message: Option<String>,
    /// Whether the last line is complete.
    fresh: bool,
}

impl Page {
    /// An empty page.
    pub(crate) fn new() -> Self {
        Page { terminal: shows_answers(), message: None, fresh: true }
    }

    /// Shows one event.
    pub(crate) fn event(&mut self, event: &Event, show_reasoning: bool) -> io::Result<()> {
        match event {
            Event::Started { .. } | Event::Input { .. } => {}
            Event::Delta { text, reasoning: true, .. } => {
                if show_reasoning {
                    note(styled(DIM, plain(text)));
                }
            }
            Event::Delta { message_id, text, .. } => self.text(message_id, text)?,
            Event::ToolStart { name, args, .. } if name != ASK_USER => {
                self.aside(styled(DIM, format!("→ {name} {}", brief(&args.to_string(), BRIEF))))?;
            }
            Event::ToolResult { name, result, status, .. } if name != ASK_USER => {
                self.aside(told(name, result, *status))?;
            }
            Event::ToolStart { .. } | Event::ToolResult { .. } => {}
            Event::ApprovalRequired { name, .. } => {
                self.aside(styled(CARE, format!("? {name} waits for approval")))?;
            }
            Event::Warning { message, .. } => {
                self.aside(styled(CARE, format!("warning: {}", plain(message))))?;
            }
            Event::Restarted { .. } => self.void("the model was interrupted; it is asked again")?,
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
        Ok(())
    }

    /// What was written of the present message does not count.
    pub(crate) fn void(&mut self, why: &str) -> io::Result<()> {
        let was_writing = self.message.take().is_some();
        if was_writing { self.aside(styled(CARE, format!("(the text above is void: {why})"))) } else { Ok(()) }
    }

    /// Completes the last line.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.message = None;
        if !self.fresh {
            answer("\n")?;
            self.fresh = true;
        }
        Ok(())
    }

    fn text(&mut self, message: &str, text: &str) -> io::Result<()> {
        if self.message.as_deref() != Some(message) {
            self.end()?;
            self.message = Some(message.to_owned());
        }
        if !text.is_empty() {
            self.fresh = text.ends_with('\n');
        }
        if self.terminal { answer(&plain(text)) } else { answer(text) }
    }

    fn aside(&mut self, text: String) -> io::Result<()> {
        let message = self.message.clone();
        self.end()?;
        self.message = message;
        note(text);
        Ok(())
    }
}

fn told(name: &str, result: &str, status: Closing) -> String {
    let result = brief(result, BRIEF);
    match status {
        Closing::Ok => styled(DIM, format!("← {name}: {result}")),
        Closing::Error => styled(CARE, format!("← {name} failed: {result}")),
        Closing::Denied => styled(CARE, format!("← {name} denied: {result}")),
        Closing::Expired => styled(CARE, format!("← {name} expired: {result}")),
        Closing::Cancelled => styled(CARE, format!("← {name} cancelled: {result}")),
        Closing::Unknown => styled(CARE, format!("← {name}, outcome unknown: {result}")),
    }
}
