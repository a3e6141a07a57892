//! Messages to a model and its answers, in the same form for every provider.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The operator's instructions.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool's result.
    Tool,
}

/// One message in the OpenAI schema.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// The author.
    pub role: Role,
    /// The text.
    pub content: String,
    /// The calls of an assistant message.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ChatCall>,
    /// The call that a tool message answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// The model's reasoning before this message. Only the provider that it came from gets it back, so it is
    /// never serialized.
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
    /// The model that it came from, as `provider/name`. It is sent back to no other model.
    pub model: String,
    /// The wire format of the blocks.
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
    /// It reached the token limit: its answer is cut off.
    Length,
    /// It refused.
    Refused,
}

/// The tokens and the cost of one model call.
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
    /// The tokens that it used.
    pub usage: TokenUsage,
    /// The raw blocks of its reasoning, where its provider wants them back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasoning: Vec<Value>,
}
