//! The `agent` dialect: events as clients see them, one JSON object each.
//!
//! A pure rendering without logic of its own. It names the fields that clients may rely on; an event that is not shown
//! to them (a run began, a model's private reasoning unless they asked for it) gives no frame. One event may give two
//! frames, and then only the last of them has its number. How frames become a stream, and the dialect that shows
//! everything, are in [`sse`]; the final text of a run is collected in [`final_text`].

pub(crate) mod final_text;
pub(crate) mod sse;

use baton_core::event::Event;
use baton_core::json::cut;
use baton_core::run::{Receipt, RunStatus, Usage};
use baton_core::thread::Closing;
use baton_core::time::Timestamp;
use baton_core::visible;
use serde::Serialize;
use serde_json::Value;

/// The longest result that a frame holds whole.
const MOST_RESULT: usize = 32 << 10;

/// One object of the dialect. The fields stand in the order in which they are shown.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Frame<'a> {
    /// A piece of model text meant for the user.
    Thinking {
        content: &'a str,
        message_id: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        kind: Option<&'static str>,
    },
    /// A tool's call was taken up.
    ToolStart { name: &'a str, args: &'a Value, call_id: &'a str },
    /// A tool's call was closed.
    ToolResult {
        name: &'a str,
        result: &'a str,
        call_id: &'a str,
        is_error: bool,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        truncated: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        blob: Option<&'a str>,
    },
    /// A call waits for a person's decision.
    ApprovalRequired {
        approval_id: &'a str,
        call_id: &'a str,
        name: &'a str,
        args: &'a Value,
        digest: &'a str,
        reason: &'a str,
        expires_at: Timestamp,
        /// Warnings about parts that a person would not see.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        warnings: Vec<String>,
    },
    /// A steering message was taken in.
    Input { input_id: &'a str },
    /// Something that the reader should know.
    Warning { code: &'static str, message: &'a str },
    /// The text of a message so far is void.
    Restarted { message_id: &'a str },
    /// The events after a number are void.
    Resumed { last_seq: u64 },
    /// Why the run failed, right before `done`.
    Error { code: &'static str, message: &'a str },
    /// The stream closes.
    Done {
        status: &'static str,
        /// The run's last message, or the question that it waits with.
        response: &'a str,
        usage: Usage,
        #[serde(skip_serializing_if = "Option::is_none")]
        receipt: Option<&'a Receipt>,
    },
}

impl Frame<'_> {
    /// Its type, which is also the name of its event in a stream.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Frame::Thinking { .. } => "thinking",
            Frame::ToolStart { .. } => "tool_start",
            Frame::ToolResult { .. } => "tool_result",
            Frame::ApprovalRequired { .. } => "approval_required",
            Frame::Input { .. } => "input",
            Frame::Warning { .. } => "warning",
            Frame::Restarted { .. } => "restarted",
            Frame::Resumed { .. } => "resumed",
            Frame::Error { .. } => "error",
            Frame::Done { .. } => "done",
        }
    }
}

/// The frames of one event. `response` is the run's final text, if this is its end.
pub(crate) fn agent<'a>(event: &'a Event, show_reasoning: bool, response: &'a str) -> Vec<Frame<'a>> {
    let (before, last) = pair(event, show_reasoning, response);
    before.into_iter().chain(last).collect()
}

/// The same without a list: the frame before, and the frame that has the event's number.
pub(crate) fn pair<'a>(
    event: &'a Event,
    show_reasoning: bool,
    response: &'a str,
) -> (Option<Frame<'a>>, Option<Frame<'a>>) {
    let frame = match event {
        Event::Started { .. } | Event::HistoryCut { .. } => return (None, None),
        Event::Delta { reasoning: true, .. } if !show_reasoning => return (None, None),
        Event::Delta { message_id, text, reasoning, .. } => {
            Frame::Thinking { content: text, message_id, kind: reasoning.then_some("reasoning") }
        }
        Event::ToolStart { name, args, call_id } => Frame::ToolStart { name, args, call_id },
        Event::ToolResult { name, result, call_id, status, blob } => Frame::ToolResult {
            name,
            result: cut(result, MOST_RESULT),
            call_id,
            is_error: *status != Closing::Ok,
            truncated: blob.is_some() || result.len() > MOST_RESULT,
            blob: blob.as_ref().map(|blob| blob.hash.as_str()),
        },
        Event::ApprovalRequired { approval_id, call_id, name, args, digest, reason, expires_at } => {
            let (expires_at, warnings) = (*expires_at, unseen(args, reason));
            Frame::ApprovalRequired { approval_id, call_id, name, args, digest, reason, expires_at, warnings }
        }
        Event::Input { input_id } => Frame::Input { input_id },
        Event::Warning { code, message } => Frame::Warning { code: code.as_str(), message },
        Event::Restarted { message_id } => Frame::Restarted { message_id },
        Event::Ended { status, error, usage, receipt } => {
            let error = error.as_ref().map(|e| Frame::Error { code: e.code.as_str(), message: &e.message });
            let receipt = receipt.as_ref();
            return (error, Some(Frame::Done { status: status.as_str(), response, usage: *usage, receipt }));
        }
    };
    (None, Some(frame))
}

/// Warnings about parts of a call that a person would not see; the call waits for approval.
fn unseen(args: &Value, reason: &str) -> Vec<String> {
    let mut findings = visible::Findings::default();
    visible::json(args, &mut findings);
    visible::text(reason, &mut findings);
    findings.warnings()
}

/// The frame that closes a stream although the run has not ended: it waits with this question, or for a decision.
pub(crate) fn suspended(usage: Usage, question: &str) -> Frame<'_> {
    Frame::Done { status: RunStatus::Suspended.as_str(), response: question, usage, receipt: None }
}

#[cfg(test)]
mod tests;
