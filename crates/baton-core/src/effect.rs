//! What is done in the world or waited for, and what came of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::chat::{FinishReason, Reasoning, TokenUsage};
use crate::fault::Fault;
use crate::thread::Closing;
use crate::time::Timestamp;
use crate::tool::EffectClass;

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
        #[serde(default, skip_serializing_if = "is_default")]
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
        #[serde(default, skip_serializing_if = "is_default")]
        purpose: Purpose,
        /// How much of the thread it sees.
        #[serde(default, skip_serializing_if = "is_default")]
        view: View,
        /// Whether there is nobody else to ask.
        #[serde(default, skip_serializing_if = "is_default")]
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
    },
    /// Wait for a person or a moment.
    Wait {
        /// What ends it.
        what: Wait,
        /// When it ends by itself.
        deadline: Timestamp,
    },
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
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
}

/// What a model is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum Purpose {
    /// The turn's own answer, which people see as it arrives.
    #[default]
    Answer,
    /// A summary of what was said so far. Nobody sees it arrive.
    Summary {
        /// The last index that it stands for.
        up_to: i64,
    },
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
}

impl ToolOutcome {
    /// A failure that the model is told about.
    pub fn error(message: impl Into<String>) -> Self {
        ToolOutcome { status: Closing::Error, result: Value::String(message.into()), blob: None }
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
    },
    /// It cannot, and this is what the model is told.
    Refused {
        /// Why, and what would be right.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Code;
    use serde_json::json;

    /// Intents and outcomes are stored: what an older build wrote is still read.
    #[test]
    fn what_was_stored_before_there_were_ladders_is_read() {
        let stored = json!({"n": 2, "kind": {"kind": "model", "role": "reasoning", "head": 4, "tools": true, "message_id": "m", "attempt": 1}});
        let kind = EffectKind::Model {
            role: "reasoning".to_owned(),
            rung: 0,
            head: 4,
            tools: true,
            message_id: "m".to_owned(),
            attempt: 1,
            purpose: Purpose::Answer,
            view: View { first: None, lowest: None, trim: Trim::None },
            last_resort: false,
        };
        assert_eq!(serde_json::from_value::<Effect>(stored).unwrap(), Effect { n: 2, kind });

        let usage = json!({"prompt_tokens": 1, "completion_tokens": 2});
        let stored = json!({"outcome": "reply", "text": "hi", "calls": [], "finish": "stop", "usage": usage, "model": "m/x"});
        let reply = Reply {
            text: "hi".to_owned(),
            calls: Vec::new(),
            finish: FinishReason::Stop,
            usage: TokenUsage { prompt_tokens: 1, completion_tokens: 2, cost_micro_usd: None },
            model: "m/x".to_owned(),
            reasoning: None,
            first: 0,
            lowest: 0,
            cut: None,
        };
        assert_eq!(serde_json::from_value::<Outcome>(stored).unwrap(), Outcome::Reply(reply));

        let stored = json!({"outcome": "model_failed", "fault": {"code": "llm_server", "message": "down"}, "shown": ""});
        let fault = Fault::new(Code::LlmServer, "down");
        let failed = Outcome::ModelFailed { fault, shown: String::new(), used: None };
        assert_eq!(serde_json::from_value::<Outcome>(stored).unwrap(), failed);
    }

    #[test]
    fn what_a_call_is_for_and_what_it_sees_survive_a_round_trip() {
        let kind = EffectKind::Model {
            role: "router".to_owned(),
            rung: 1,
            head: 4,
            tools: false,
            message_id: "m".to_owned(),
            attempt: 2,
            purpose: Purpose::Summary { up_to: 3 },
            view: View { first: Some(2), lowest: Some(2), trim: Trim::Compact { fits: Some(900) } },
            last_resort: true,
        };
        let stored = json!({
            "kind": "model", "role": "router", "rung": 1, "head": 4, "tools": false, "message_id": "m",
            "attempt": 2, "purpose": {"for": "summary", "up_to": 3},
            "view": {"first": 2, "lowest": 2, "trim": {"trim": "compact", "fits": 900}}, "last_resort": true,
        });
        assert_eq!(serde_json::to_value(&kind).unwrap(), stored);
        assert_eq!(serde_json::from_value::<EffectKind>(stored).unwrap(), kind);
        assert_eq!(
            serde_json::to_value(Outcome::TooLong { up_to: 7 }).unwrap(),
            json!({"outcome": "too_long", "up_to": 7})
        );
    }
}
