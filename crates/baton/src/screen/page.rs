//! A run as text: what the agent says goes to standard output as it arrives, what it does to standard
//! error.
//!
//! On a terminal the text is rendered, block by block, and something turns while a tool runs. Everywhere
//! else the exact text is written, piece by piece.

use std::io;

use baton_core::event::Event;
use baton_core::run::RunStatus;
use baton_core::thread::Closing;
use baton_core::tool::ASK_USER;
use indicatif::ProgressBar;

use super::receipt;
use crate::markdown::Markdown;
use crate::terminal::{BAD, CARE, DIM, answer, brief, note, plain, shows_answers, styled, turning};

/// How much of a call or its result is shown.
const BRIEF: usize = 160;

/// See the module.
#[derive(Debug)]
pub(crate) struct Page {
    /// Renders what a person reads; absent: the exact text is written.
    markdown: Option<Markdown>,
    /// The message whose text is being written.
    message: Option<String>,
    /// Whether the last line is complete.
    fresh: bool,
    /// The tools that run.
    running: Vec<(String, String)>,
    /// What turns while they do.
    turning: Option<ProgressBar>,
}

impl Page {
    /// An empty page.
    pub(crate) fn new() -> Self {
        let markdown = shows_answers().then(Markdown::default);
        Page { markdown, message: None, fresh: true, running: Vec::new(), turning: None }
    }

    /// Shows one event.
    pub(crate) fn event(&mut self, event: &Event, show_reasoning: bool) -> io::Result<()> {
        self.rest();
        match event {
            Event::Started { .. } | Event::Input { .. } => {}
            Event::Delta { text, reasoning: true, .. } => {
                if show_reasoning {
                    note(styled(DIM, plain(text)));
                }
            }
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
            Event::HistoryCut { .. } => {}
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
        self.turn();
        Ok(())
    }

    /// What was written of the present message does not count.
    pub(crate) fn void(&mut self, why: &str) -> io::Result<()> {
        if self.message.is_none() {
            return Ok(());
        }
        self.end()?;
        note(styled(CARE, format!("(the text above is void: {why})")));
        Ok(())
    }

    /// Completes the message and the last line.
    pub(crate) fn end(&mut self) -> io::Result<()> {
        self.rest();
        self.running.clear();
        self.end_message()
    }

    fn end_message(&mut self) -> io::Result<()> {
        self.message = None;
        if let Some(rest) = self.markdown.as_mut().map(Markdown::finish).filter(|rest| !rest.is_empty()) {
            answer(&rest)?;
        }
        if !self.fresh {
            answer("\n")?;
            self.fresh = true;
        }
        Ok(())
    }

    fn text(&mut self, message: &str, text: &str) -> io::Result<()> {
        if self.message.as_deref() != Some(message) {
            self.end_message()?;
            self.message = Some(message.to_owned());
        }
        match &mut self.markdown {
            Some(markdown) => {
                let shown = markdown.push(&plain(text));
                if shown.is_empty() { Ok(()) } else { answer(&shown) }
            }
            None if text.is_empty() => Ok(()),
            None => {
                self.fresh = text.ends_with('\n');
                answer(text)
            }
        }
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

    /// Something turns while tools run, for a person who waits.
    fn turn(&mut self) {
        if self.running.is_empty() {
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
