//! What is done in the world or waited for, and what came of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chat::{FinishReason, Reasoning, TokenUsage};
use crate::fault::Fault;
use crate::thread::Closing;
use crate::time::Timestamp;
use crate::tool::{Cause, EffectClass};

/// Something that a flow wants outstanding. `n` is its number in the frame, the same after a crash.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Its number in the frame.
    pub n: u32,
    /// What it is.
    pub kind: EffectKind,
}

/// The kinds of effects.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EffectKind {
    /// Ask a model. Says what to render, never the messages.
    Model {
        /// Which role answers.
        role: String,
        /// Who is asked in that role, by place on its ladder.
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
        /// What for.
        #[serde(default, skip_serializing_if = "crate::json::is_default")]
        purpose: Purpose,
        /// How much of the thread it sees.
        #[serde(default, skip_serializing_if = "crate::json::is_default")]
        view: View,
        /// Whether there is nobody else to ask.
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
        /// What a crash means for it.
        class: EffectClass,
        /// The approval whose arguments run instead of the entry's, if a person edited them.
        edited_by: Option<String>,
        /// Which try of the flow this is, from 0.
        #[serde(default, skip_serializing_if = "crate::json::is_default")]
        again: u32,
    },
    /// Wait for a person or a moment.
    Wait {
        /// What ends it.
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

    /// Whether it may be started a second time when nobody knows what became of the first.
    pub fn may_run_again(&self) -> bool {
        match self {
            EffectKind::Tool { class, .. } => class.may_run_again(),
            EffectKind::Model { .. } | EffectKind::Wait { .. } => true,
        }
    }

    /// Which try of the flow it is under one number, from 0. Only a tool has more than one.
    pub fn again(&self) -> u32 {
        match self {
            EffectKind::Tool { again, .. } => *again,
            EffectKind::Model { .. } | EffectKind::Wait { .. } => 0,
        }
    }
}

/// What a model is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum Purpose {
    /// The turn's own answer, which people see as it arrives.
    #[default]
    Answer,
    /// A choice among the tools of a channel that requires one. Nobody sees it arrive.
    Choice,
    /// A look at the answer that was just given: whether it holds. Nobody sees it arrive.
    Check,
    /// The answer once more, because the first lacks something. Nobody sees it arrive: the first stands until
    /// this one is whole.
    Revision {
        /// What was missing.
        missing: String,
    },
    /// A summary of what was said so far. Nobody sees it arrive.
    Summary {
        /// The last index that it stands for.
        up_to: i64,
    },
}

impl Purpose {
    /// Whether people see the text as it arrives.
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
    /// What was shown before did not fit the model.
    Compact {
        /// How many tokens fit, where the model said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        fits: Option<u64>,
    },
    /// An answer could not be understood: only this turn, with a plain request.
    Simple,
}

/// What a wait waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum Wait {
    /// A decision about one call.
    Approval {
        /// The approval's id.
        approval_id: String,
    },
    /// A person's answer.
    Answer {
        /// The call that asked.
        call_id: String,
    },
    /// Only its deadline.
    Time,
}

/// What came of an effect.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// A model answered.
    Reply(Reply),
    /// A model failed.
    ModelFailed {
        /// How.
        fault: Fault,
        /// The text that was already shown.
        shown: String,
        /// What it used, as far as that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        used: Option<TokenUsage>,
    },
    /// The thread is too long for the model: it has to be summarised first. Nobody was asked.
    TooLong {
        /// The last index that a summary should stand for.
        up_to: i64,
    },
    /// A tool ended.
    Tool(ToolOutcome),
    /// A wait's time was up. (That somebody answered comes as a message, and ends the wait by itself.)
    Expired,
    /// It was told to stop, and did.
    Stopped {
        /// The text that was already shown.
        shown: String,
        /// What a model used, as far as that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        used: Option<TokenUsage>,
    },
    /// Nobody knows whether it happened.
    Unknown,
}

/// How a tool ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolOutcome {
    /// Whether it worked.
    pub status: Closing,
    /// What it returned, or why not.
    pub result: Value,
    /// Where all of it is, if it was too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<BlobRef>,
    /// Where the cause lies, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// Whether the tool was never reached: what is said here is ours, and not the tool's.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub never_ran: bool,
    /// Whether whoever ran it knows that strangers wrote what it returned.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub untrusted: bool,
    /// What it returned is private, by what is known of the tool where it ran.
    #[serde(default, skip_serializing_if = "crate::json::is_default")]
    pub private: bool,
}

impl ToolOutcome {
    /// What a tool that ran came to.
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

    /// A failure that the model is told about.
    pub fn error(message: impl Into<String>) -> Self {
        ToolOutcome::new(Closing::Error, Value::String(message.into()))
    }

    /// Why a tool was not reached.
    pub fn unrun(status: Closing, why: impl Into<String>) -> Self {
        ToolOutcome { never_ran: true, ..ToolOutcome::new(status, Value::String(why.into())) }
    }
}

/// A stored large output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlobRef {
    /// SHA-256 of what is stored, in hexadecimal.
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
    /// What it used.
    pub usage: TokenUsage,
    /// Who answered, as `provider/name`.
    pub model: String,
    /// What it thought, where its provider wants that back.
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
    /// Only so many entries are shown.
    LastN,
    /// They would not have fitted the model.
    TokenBudget,
    /// A summary stands in their place.
    Summary,
    /// The model said that they do not fit.
    ContextTooLong,
    /// An answer could not be understood, and a simpler question was asked.
    Simplified,
    /// An answer stands in the place of another.
    Revised,
}

/// A call that the model wants, with what the registry says of it.
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
        /// What a crash means for it.
        class: EffectClass,
        /// Whether it sends something out.
        #[serde(default, skip_serializing_if = "crate::json::is_default")]
        egress: bool,
    },
    /// It cannot, and this is what the model is told.
    Refused {
        /// Why, and what would be right.
        reason: String,
    },
}

#[cfg(test)]
mod tests;
