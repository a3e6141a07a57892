//! Events: the public log of a run, one gapless sequence that its owner numbers.
//!
//! The names are Baton's own; a *dialect* renders them for one audience at the very edge.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::effect::{BlobRef, CutReason};
use crate::fault::{Code, Fault};
use crate::id::{BranchName, ThreadId};
use crate::run::{Receipt, RunStatus, Usage};
use crate::thread::Closing;
use crate::time::Timestamp;

/// One event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The run began.
    Started {
        /// Its thread.
        thread: ThreadId,
        /// Its branch.
        branch: BranchName,
        /// The flow that drives it.
        flow: String,
    },
    /// A piece of model text, as it arrives.
    Delta {
        /// The effect that it belongs to.
        effect: u32,
        /// The message that it is a piece of.
        message_id: String,
        /// The piece.
        text: String,
        /// Whether it is the model's private reasoning.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reasoning: bool,
    },
    /// A tool's call was accepted.
    ToolStart {
        /// The tool.
        name: String,
        /// Its arguments.
        args: Value,
        /// Our id of the call.
        call_id: String,
    },
    /// A tool's call was closed.
    ToolResult {
        /// The tool.
        name: String,
        /// The result, as text.
        result: String,
        /// Our id of the call.
        call_id: String,
        /// How it was closed.
        status: Closing,
        /// Where the whole result is stored, if it was too long.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blob: Option<BlobRef>,
    },
    /// A call waits for a user's decision.
    ApprovalRequired {
        /// The approval.
        approval_id: String,
        /// The call.
        call_id: String,
        /// The tool.
        name: String,
        /// Its exact arguments.
        args: Value,
        /// The digest of the tool and its arguments, which the approval is bound to.
        digest: String,
        /// Why it is asked.
        reason: String,
        /// When it expires.
        expires_at: Timestamp,
    },
    /// A message to the running agent was taken in.
    Input {
        /// Its id.
        input_id: String,
    },
    /// Something that the reader should know.
    Warning {
        /// Its code.
        code: Code,
        /// Its text.
        message: String,
    },
    /// The messages of a model call do not begin with those of the call before: the provider's cache of them is
    /// void.
    HistoryCut {
        /// The first entry that it saw.
        first: i64,
        /// Why.
        reason: CutReason,
    },
    /// A model call runs again: its text so far is void.
    Restarted {
        /// The message.
        message_id: String,
    },
    /// The run ended. The last event of every log, and the only one of its kind.
    Ended {
        /// Its final status.
        status: RunStatus,
        /// Why, if it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Fault>,
        /// The tokens and the cost.
        usage: Usage,
        /// Its calls by how they ended, if it was cancelled.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipt: Option<Receipt>,
    },
}

impl Event {
    /// Whether it is the last event of its run.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Event::Ended { .. })
    }
}

/// An event with its number.
#[derive(Debug, Clone, PartialEq)]
pub struct NumberedEvent {
    /// The claim under which it was numbered.
    pub epoch: u32,
    /// Its number in the run, from 1.
    pub seq: u64,
    /// The event.
    pub event: Event,
}
