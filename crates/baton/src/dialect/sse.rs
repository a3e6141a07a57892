//! Frames as server-sent events: `id:`, `event:` and one line of `data:`.
//!
//! Written straight into the buffer that goes out, without anything in between: every piece of every answer passes
//! through here. Names come from a closed set and never from a model. A text cannot leave its line: JSON escapes the
//! ends of lines that the standard knows, and this writer those that other readers split at.

use std::io::{self, Write};

use baton_core::event::{Event, NumberedEvent};
use baton_core::id::Cursor;
use baton_core::run::Usage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::ser::{CompactFormatter, Formatter};

use super::{Frame, pair, suspended};

/// The rendering of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Dialect {
    /// The events that a user interface needs.
    #[default]
    Agent,
    /// Every event as it is numbered and stored.
    Raw,
}

/// The dialect of a stream, and whether it includes reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SseRendering {
    pub(crate) dialect: Dialect,
    /// Whether a model's own reasoning is part of it.
    pub(crate) reasoning: bool,
}

impl SseRendering {
    /// Whether the frame of an end holds the run's final text.
    pub(crate) fn has_response(self) -> bool {
        self.dialect == Dialect::Agent
    }

    /// Writes the frames of an event. Where there are two, only the last has its number. `response` is the run's final
    /// text, if this is its end.
    pub(crate) fn event(self, seen: &NumberedEvent, response: &str, out: &mut Vec<u8>) {
        let id = Some(Cursor { epoch: seen.epoch, seq: seen.seq });
        match self.dialect {
            Dialect::Agent => {
                let (before, last) = pair(&seen.event, self.reasoning, response);
                if let Some(frame) = before {
                    write(out, None, frame.name(), &frame);
                }
                if let Some(frame) = last {
                    write(out, id, frame.name(), &frame);
                }
            }
            Dialect::Raw => match &seen.event {
                // It keeps its place, since numbers are without gaps; the reasoning stays private.
                Event::Delta { effect, message_id, reasoning: true, .. } if !self.reasoning => {
                    let (effect, message_id, text) = (*effect, message_id.clone(), String::new());
                    let hidden = Event::Delta { effect, message_id, text, reasoning: true };
                    write(out, id, raw_name(&hidden), &hidden);
                }
                event => write(out, id, raw_name(event), event),
            },
        }
    }

    /// Writes that the events after a number are void.
    pub(crate) fn resumed(self, last_seq: u64, out: &mut Vec<u8>) {
        unnumbered(&Frame::Resumed { last_seq }, out);
    }

    /// Writes the end of a stream whose run waits with this question, or for a decision.
    pub(crate) fn suspended(self, usage: Usage, question: &str, out: &mut Vec<u8>) {
        unnumbered(&suspended(usage, question), out);
    }

    /// Writes the end of a stream that failed. The run may go on.
    pub(crate) fn broken(self, code: &'static str, message: &str, out: &mut Vec<u8>) {
        unnumbered(&Frame::Error { code, message }, out);
        let usage = Usage::default();
        unnumbered(&Frame::Done { status: "error", response: "", usage, receipt: None }, out);
    }
}

/// Writes after how many milliseconds a disconnected reader should reconnect.
pub(crate) fn retry(ms: u32, out: &mut Vec<u8>) {
    let _ = write!(out, "retry: {ms}\n\n"); // a buffer takes everything
}

/// A comment line, sent as a heartbeat.
pub(crate) const PING: &[u8] = b": ping\n\n";

/// The names of the dialect `agent`.
pub(crate) const AGENT_NAMES: [&str; 10] = [
    "thinking",
    "tool_start",
    "tool_result",
    "approval_required",
    "input",
    "warning",
    "restarted",
    "resumed",
    "error",
    "done",
];

/// The names of the dialect `raw`.
pub(crate) const RAW_NAMES: [&str; 12] = [
    "started",
    "delta",
    "tool_start",
    "tool_result",
    "approval_required",
    "input",
    "warning",
    "history_cut",
    "restarted",
    "resumed",
    "ended",
    "done",
];

fn raw_name(event: &Event) -> &'static str {
    match event {
        Event::Started { .. } => "started",
        Event::Delta { .. } => "delta",
        Event::ToolStart { .. } => "tool_start",
        Event::ToolResult { .. } => "tool_result",
        Event::ApprovalRequired { .. } => "approval_required",
        Event::Input { .. } => "input",
        Event::Warning { .. } => "warning",
        Event::HistoryCut { .. } => "history_cut",
        Event::Restarted { .. } => "restarted",
        Event::Ended { .. } => "ended",
    }
}

fn unnumbered(frame: &Frame<'_>, out: &mut Vec<u8>) {
    write(out, None, frame.name(), frame);
}

fn write(out: &mut Vec<u8>, id: Option<Cursor>, name: &'static str, data: &impl Serialize) {
    let start = out.len();
    if let Some(Cursor { epoch, seq }) = id {
        out.extend_from_slice(b"id: ");
        decimal(epoch.into(), out);
        out.push(b'.');
        decimal(seq, out);
        out.push(b'\n');
    }
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\ndata: ");
    let mut line = serde_json::Serializer::with_formatter(&mut *out, OneLine);
    match data.serialize(&mut line) {
        Ok(()) => out.extend_from_slice(b"\n\n"),
        Err(_) => out.truncate(start), // plain values of ours always are JSON
    }
}

/// Writes a number. Every piece of text has two of them, and `write!` takes longer.
fn decimal(mut number: u64, out: &mut Vec<u8>) {
    let start = out.len();
    loop {
        out.push(b'0' + (number % 10) as u8);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out[start..].reverse();
}

/// JSON without any character at which a reader may begin a new line.
struct OneLine;

impl Formatter for OneLine {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, out: &mut W, text: &str) -> io::Result<()> {
        if text.is_ascii() {
            return out.write_all(text.as_bytes());
        }
        let ends_lines = |c: char| matches!(c, '\u{85}' | '\u{2028}' | '\u{2029}');
        let mut rest = text;
        while let Some(at) = rest.find(ends_lines) {
            out.write_all(&rest.as_bytes()[..at])?;
            let Some(c) = rest[at..].chars().next() else { break };
            write!(out, "\\u{:04x}", u32::from(c))?;
            rest = &rest[at + c.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        CompactFormatter.write_f64(out, value)
    }
}

#[cfg(test)]
mod tests;
