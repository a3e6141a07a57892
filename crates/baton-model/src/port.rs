//! The model port: a request, and the answer as a stream of deltas.
//!
//! It promises nothing about the order of deltas beyond the checks of [`crate::ReplyCollector`]; text from a
//! model is untrusted.

use std::sync::Arc;

use baton_core::chat::{ChatMessage, FinishReason, TokenUsage};
use baton_core::fault::Fault;
use baton_core::id::Tenant;
use baton_core::tool::ToolSpec;
use futures_util::stream::BoxStream;
use serde_json::Value;

/// One request to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The tenant that makes the call: where calls queue, tenants have equal shares.
    pub tenant: Tenant,
    /// The role that the model plays, as the configuration names it.
    pub role: String,
    /// The conversation so far, oldest first.
    pub messages: Vec<ChatMessage>,
    /// The tools that the model may call; none where it must answer now.
    pub tools: Arc<[ToolSpec]>,
    /// Whether it may call none of them.
    pub tool_choice: ToolChoice,
    /// The schema of an answer that is read by a program.
    pub schema: Option<OutputSchema>,
    /// The sampling temperature; absent: the provider's default.
    pub temperature: Option<f64>,
    /// The most tokens that the model may write.
    pub max_tokens: u64,
    /// The most tokens that it reads and writes together, where that is configured.
    pub context_window: Option<u64>,
    /// The number of this attempt at the effect; 1 is the first.
    pub attempt: u32,
    /// Whether there is no other model to ask: then one that is marked as degraded is tried all the same.
    pub last_resort: bool,
    /// The caller's span, as the header `traceparent` has it; absent: the header is not sent.
    pub traceparent: Option<String>,
    /// Whether text comes in the pieces that the server sent; if not, pieces that arrive together are joined.
    pub is_piecemeal: bool,
}

impl ModelRequest {
    /// A request with nothing but messages.
    pub fn new(role: impl Into<String>, messages: Vec<ChatMessage>) -> Self {
        ModelRequest {
            tenant: Tenant::local(),
            role: role.into(),
            messages,
            tools: Arc::default(),
            tool_choice: ToolChoice::Auto,
            schema: None,
            temperature: None,
            max_tokens: 4096,
            context_window: None,
            attempt: 1,
            last_resort: true,
            traceparent: None,
            is_piecemeal: false,
        }
    }
}

/// Whether tools have to be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// At least one has to be called.
    Required,
}

/// The shape of an answer that a program reads.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputSchema {
    /// A short name: letters, digits and `_`.
    pub name: String,
    /// The JSON Schema, an object at its top.
    pub schema: Value,
}

/// One piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// More of the text.
    Text(String),
    /// More of the reasoning that is not part of the answer.
    Reasoning(String),
    /// A block of reasoning as the provider wants it back, complete. Its text came before, if it has any.
    ReasoningBlock(Value),
    /// A call begins.
    CallStart {
        /// The call's number in this answer.
        index: u32,
        /// The provider's id of the call, where there is one.
        id: Option<String>,
        /// The tool's name as the model wrote it.
        name: String,
    },
    /// More of a call's arguments.
    CallArguments {
        /// The call's number.
        index: u32,
        /// The next piece of the arguments, as text.
        text: String,
    },
    /// The tokens used so far; a later delta replaces an earlier one.
    Usage(TokenUsage),
    /// The answer is complete.
    Finish(FinishReason),
}

/// An answer as it arrives. After an error there is nothing more.
pub type DeltaStream = BoxStream<'static, Result<Delta, Fault>>;

/// A language model. Streaming is the primitive: dropping the stream cancels the call.
pub trait Model: Send + Sync {
    /// The model's name, as `provider/name`.
    fn name(&self) -> String;

    /// Calls the model. Nothing is sent before the stream is first polled, and nothing after it is dropped.
    fn stream(&self, request: ModelRequest) -> DeltaStream;

    /// The number of tokens of a text: exact where the model's tokenizer is known, otherwise estimated.
    fn count(&self, text: &str) -> u64 {
        (text.chars().count() as u64).div_ceil(4)
    }

    /// The cost of a call in millionths of a US dollar; none where the price is not known.
    /// There is no default: a model that left it out would pass every cost limit.
    fn cost(&self, usage: &TokenUsage) -> Option<u64>;

    /// The wire format, under the name that stored reasoning carries; empty: none.
    fn wire(&self) -> &'static str {
        ""
    }

    /// The host and the port of its server; none where nothing is sent.
    fn server(&self) -> Option<(String, u16)> {
        None
    }
}
