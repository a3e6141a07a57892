//! What is said to a model and what it answers, whatever the provider.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The operator's instructions.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool's result.
    Tool,
}

/// One message in the OpenAI schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: String,
    /// The calls of an assistant message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ChatCall>,
    /// The call that a tool message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// What the model thought before it said this. Only for the provider that it came from: nobody else
    /// is shown it, so it is never serialized.
    #[serde(skip)]
    pub reasoning: Option<Reasoning>,
}

impl ChatMessage {
    /// A message with text alone.
    pub fn text(role: Role, content: impl Into<String>) -> Self {
        let content = content.into();
        ChatMessage { role, content, tool_calls: Vec::new(), tool_call_id: None, reasoning: None }
    }
}

/// A model's own reasoning, as its provider wants it back: raw, in order, unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reasoning {
    /// Who thought it, as `provider/name`. It is sent back to nobody else.
    pub model: String,
    /// The wire format that the blocks are of.
    pub wire: String,
    /// The blocks as they came.
    pub blocks: Vec<Value>,
}

/// A call inside an assistant message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatCall {
    /// Our id of the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Value,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FinishReason {
    /// It was done.
    Stop,
    /// It wants its calls performed.
    ToolCalls,
    /// It ran into the limit of tokens: what it said last is cut off.
    Length,
    /// It refused.
    Refused,
}

/// What one model call used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
    /// Cost in millionths of a US dollar; absent where the price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
    /// The tokens were counted here, at least in part: the provider did not report them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

/// A call as the model wrote it: its arguments are still text.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RawCall {
    /// The provider's id, if it gave one.
    pub id: Option<String>,
    /// The tool's name as written.
    pub name: String,
    /// The arguments as written.
    pub arguments: String,
}

/// A whole answer of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawReply {
    /// The text.
    pub text: String,
    /// The calls.
    pub calls: Vec<RawCall>,
    /// Why it stopped.
    pub finish: FinishReason,
    /// What it used.
    pub usage: TokenUsage,
    /// The raw blocks of its reasoning, where its provider wants them back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasoning: Vec<Value>,
}
