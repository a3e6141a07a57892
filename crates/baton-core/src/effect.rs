//! Effects: model calls, tool calls and waits that a flow wants outstanding, and their outcomes.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chat::{FinishReason, Reasoning, TokenUsage};
use crate::fault::Fault;
use crate::thread::Closing;
use crate::time::Timestamp;
use crate::tool::{Cause, EffectClass};

/// A piece of work that a flow wants outstanding. `n` is its number in the frame, the same after a crash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Its number in the frame.
    pub n: u32,
    /// Its kind, with the fields of that kind.
    pub kind: EffectKind,
}

/// The kinds of effects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EffectKind {
    /// Ask a model. The effect names the part of the thread to render, never the messages themselves.
    Model {
        /// Which role answers.
        role: String,
        /// The candidate that is asked in that role, by its place on the ladder.
        #[serde(default, skip_serializing_if = "crate::json::is_default")]
        rung: u32,
        /// The last entry that it sees, by index on the branch.
        head: i64,
        /// Whether tools are offered.
        tools: bool,
        /// The id of the message that its text belongs to.
        message_id: String,
        /// Which try of the flow this is, from 1.
        attempt: u32,
        /// The purpose of the call.
        #[serde(default, skip_serializing_if = "crate::json::is_default")]
        purpose: Purpose,
        /// How much of the thread it sees.
        #[serde(default, skip_serializing_if = "crate::json::is_default")]
        view: View,
        /// Whether the ladder has no further candidate after this one.
        #[serde(default, skip_serializing_if = "crate::json::is_default")]
        last_resort: bool,
    },
    /// Run a tool.
    Tool {
        /// Our id of the call.
        call_id: String,
        /// The tool.
        name: String,
        /// Where the arguments are: the index of the `ToolCall` entry.
        entry: i64,
        /// Whether the call may run again after a crash.
        class: EffectClass,
        /// The approval whose arguments run instead of the entry's, if a user edited them.
        edited_by: Option<String>,
        /// The number of the flow's try, from 0.
        #[serde(default, skip_serializing_if = "crate::json::is_default")]
        again: u32,
    },
    /// Wait for a user or a moment.
    Wait {
        /// The event that ends it.
        what: Wait,
        /// When it ends by itself.
        deadline: Timestamp,
    },
}

impl EffectKind {
    /// Whether it is only waited for: a run with nothing else outstanding is suspended.
    pub fn is_wait(&self) -> bool {
        matches!(self, EffectKind::Wait { .. })
    }

    /// Whether it may be started a second time when the outcome of the first start is not known.
    pub fn may_run_again(&self) -> bool {
        match self {
            EffectKind::Tool { class, .. } => class.may_run_again(),
            EffectKind::Model { .. } | EffectKind::Wait { .. } => true,
        }
    }

    /// The number of the flow's try under one effect number, from 0. Only a tool call has more than one.
    pub fn again(&self) -> u32 {
        match self {
            EffectKind::Tool { again, .. } => *again,
            EffectKind::Model { .. } | EffectKind::Wait { .. } => 0,
        }
    }
}

/// The purpose of a model call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum Purpose {
    /// The turn's own answer, which is streamed to clients.
    #[default]
    Answer,
    /// A choice among the tools of a channel that requires one. It is not streamed to clients.
    Choice,
    /// A check whether the answer that was just given holds. It is not streamed to clients.
    Check,
    /// The answer once more, because the first lacks something. It is not streamed to clients: the first answer
    /// stands until this one is whole.
    Revision {
        /// The part that the first answer lacks.
        missing: String,
    },
    /// A summary of the conversation so far. It is not streamed to clients.
    Summary {
        /// The last index that it stands for.
        up_to: i64,
    },
}

impl Purpose {
    /// Whether the text is streamed to clients as it arrives.
    pub fn is_shown(&self) -> bool {
        *self == Purpose::Answer
    }
}

/// How much of a thread one model call sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct View {
    /// The first entry that an earlier call of the run saw: later ones begin no earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<i64>,
    /// The lowest entry that it saw: a question or a summary may stand before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lowest: Option<i64>,
    /// Whether less is shown than the rendering policy would.
    #[serde(default)]
    pub trim: Trim,
}

/// Why a model call sees less than usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "trim", rename_all = "snake_case")]
pub enum Trim {
    /// It does not.
    #[default]
    None,
    /// The messages of the call before did not fit the model.
    Compact {
        /// The number of tokens that fit, where the model stated it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fits: Option<u64>,
    },
    /// An answer could not be understood: only this turn, with a plain request.
    Simple,
}

/// The event that ends a wait before its deadline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum Wait {
    /// A decision about one call.
    Approval {
        /// The approval's id.
        approval_id: String,
    },
    /// A user's answer.
    Answer {
        /// The call that asked.
        call_id: String,
    },
    /// Only its deadline.
    Time,
}

/// The outcome of an effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// A model answered.
    Reply(Reply),
    /// A model failed.
    ModelFailed {
        /// The failure.
        fault: Fault,
        /// The text that was already shown.
        shown: String,
        /// The tokens that it used, as far as they are known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        used: Option<TokenUsage>,
    },
    /// The thread is too long for the model: it has to be summarised first. No model was asked.
    TooLong {
        /// The last index that a summary should stand for.
        up_to: i64,
    },
    /// A tool ended.
    Tool(ToolOutcome),
    /// A wait reached its deadline. (A user's answer arrives as a message, which ends the wait by itself.)
    Expired,
    /// It was cancelled and stopped.
    Stopped {
        /// The text that was already shown.
        shown: String,
        /// The tokens that a model used, as far as they are known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        used: Option<TokenUsage>,
    },
    /// It is not known whether it happened.
    Unknown,
}

/// How a tool ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolOutcome {
    /// Whether it worked.
    pub status: Closing,
    /// Its output, or the reason why there is none.
    pub result: Value,
    /// Where the whole output is stored, if it was too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<BlobRef>,
    /// Where the cause lies, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// Whether the tool was never reached; `result` is then Baton's own text, not the tool's.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub never_ran: bool,
    /// Whether the output is untrusted, as the process that ran the tool knows the tool.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub untrusted: bool,
    /// Whether the output is private, as the process that ran the tool knows the tool.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub private: bool,
}

impl ToolOutcome {
    /// The outcome of a tool that ran.
    pub fn new(status: Closing, result: Value) -> Self {
        ToolOutcome {
            status,
            result,
            blob: None,
            cause: None,
            never_ran: false,
            untrusted: false,
            private: false,
        }
    }

    /// A failure that is reported to the model.
    pub fn error(message: impl Into<String>) -> Self {
        ToolOutcome::new(Closing::Error, Value::String(message.into()))
    }

    /// The outcome of a tool that was not reached, with the reason.
    pub fn unrun(status: Closing, why: impl Into<String>) -> Self {
        ToolOutcome { never_ran: true, ..ToolOutcome::new(status, Value::String(why.into())) }
    }
}

/// A stored large output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRef {
    /// SHA-256 of the stored bytes, in hexadecimal.
    pub hash: String,
    /// How many bytes are stored.
    pub size: u64,
    /// How many bytes were dropped beyond the limit.
    pub dropped: u64,
}

/// A model's answer, its calls already checked against the tools that were offered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The text.
    pub text: String,
    /// The calls, in the model's order.
    pub calls: Vec<CheckedCall>,
    /// Why it stopped.
    pub finish: FinishReason,
    /// The tokens that it used.
    pub usage: TokenUsage,
    /// The model that answered, as `provider/name`.
    pub model: String,
    /// The model's reasoning, where its provider wants it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
    /// The first entry that it saw.
    #[serde(default)]
    pub first: i64,
    /// The lowest entry that it saw: a question or a summary may stand before the first.
    #[serde(default)]
    pub lowest: i64,
    /// Why its messages were not a continuation of the call before, if they were not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<CutReason>,
}

/// Why a model no longer sees the beginning of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CutReason {
    /// The number of entries that a model sees is limited.
    LastN,
    /// They would not have fitted the model.
    TokenBudget,
    /// A summary stands in their place.
    Summary,
    /// The model refused them as too long.
    ContextTooLong,
    /// An answer could not be understood, and a simpler question was asked.
    Simplified,
    /// An answer stands in the place of another.
    Revised,
}

/// A call that the model wants, checked against the registry of tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckedCall {
    /// The provider's id, if it gave a usable one.
    pub provider_id: Option<String>,
    /// The tool.
    pub name: String,
    /// The arguments; an empty object where they could not be read.
    pub arguments: Value,
    /// Whether it can run.
    pub admission: Admission,
}

/// Whether a call can run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "admission", rename_all = "snake_case")]
pub enum Admission {
    /// The tool exists and the arguments fit.
    Fits {
        /// Whether the call may run again after a crash.
        class: EffectClass,
        /// Whether it sends something out.
        #[serde(default, skip_serializing_if = "crate::json::is_default")]
        egress: bool,
    },
    /// It cannot run; the model gets the reason.
    Refused {
        /// Why it cannot, and how to correct the call.
        reason: String,
    },
}

#[cfg(test)]
mod tests;
