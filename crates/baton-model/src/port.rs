//! The port: what a model is asked and what comes back, piece by piece.
//!
//! Promises nothing about the order of deltas beyond what [`crate::ReplyCollector`] checks; text from a model is
//! a stranger's text.

use std::sync::Arc;

use baton_core::chat::{ChatMessage, FinishReason, TokenUsage};
use baton_core::fault::Fault;
use baton_core::id::Tenant;
use baton_core::tool::ToolSpec;
use futures_util::stream::BoxStream;
use serde_json::Value;

/// One question to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// Whose call it is: where calls wait for one another, tenants have equal shares.
    pub tenant: Tenant,
    /// The role that the model plays, as the configuration names it.
    pub role: String,
    /// What was said so far, oldest first.
    pub messages: Vec<ChatMessage>,
    /// The tools that it may call; none where it must answer now.
    pub tools: Arc<[ToolSpec]>,
    /// Whether it may choose to call none of them.
    pub tool_choice: ToolChoice,
    /// What the answer has to look like, where it is read by a program.
    pub schema: Option<OutputSchema>,
    /// How freely it chooses its words; absent: as the provider has it.
    pub temperature: Option<f64>,
    /// The most tokens that it may write.
    pub max_tokens: u64,
    /// How many tokens it reads and writes at most, where that is configured.
    pub context_window: Option<u64>,
    /// Which try of this effect it is; 1 is the first.
    pub attempt: u32,
    /// Whether there is nobody else to ask: then a model that is marked as degraded is tried all the same.
    pub last_resort: bool,
    /// The span that asks, as the header `traceparent` has it; absent: it is not told.
    pub traceparent: Option<String>,
    /// Whether its words come as its server cut them; if not, those that arrive together are one piece.
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
    /// As the model likes.
    #[default]
    Auto,
    /// At least one of them.
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
        /// Its place among the calls of this answer.
        index: u32,
        /// The provider's id of it, where there is one.
        id: Option<String>,
        /// The tool's name as the model wrote it.
        name: String,
    },
    /// More of a call's arguments.
    CallArguments {
        /// The call's place.
        index: u32,
        /// The next piece of the arguments, as text.
        text: String,
    },
    /// What the call used so far; a later one replaces it.
    Usage(TokenUsage),
    /// The answer is complete.
    Finish(FinishReason),
}

/// An answer as it arrives. After an error there is nothing more.
pub type DeltaStream = BoxStream<'static, Result<Delta, Fault>>;

/// Something that answers. Streaming is the primitive: dropping the stream cancels the call.
pub trait Model: Send + Sync {
    /// What it is called, as `provider/name`.
    fn name(&self) -> String;

    /// Asks it. Nothing is sent before the stream is first polled, and nothing after it is dropped.
    fn stream(&self, request: ModelRequest) -> DeltaStream;

    /// How many tokens a text is: exact where the model's tokenizer is known, otherwise a fair guess.
    fn count(&self, text: &str) -> u64 {
        (text.chars().count() as u64).div_ceil(4)
    }

    /// What a call costs in millionths of a US dollar; none where the price is not known.
    /// There is no answer that fits all: a model that forgot to say would pass every cost limit.
    fn cost(&self, usage: &TokenUsage) -> Option<u64>;

    /// The wire format that it speaks, as reasoning that goes back to it names it; empty: none.
    fn wire(&self) -> &'static str {
        ""
    }

    /// The host and the port that it is asked at; none where nothing is sent.
    fn server(&self) -> Option<(String, u16)> {
        None
    }
}
