//! The port: what a model is asked and what comes back, piece by piece.
//!
//! Promises nothing about the order of deltas beyond what [`crate::Collector`] checks; text from a model is
//! a stranger's text.

use std::sync::Arc;

use baton_core::chat::{ChatMessage, FinishReason, TokenUsage};
use baton_core::fault::Fault;
use baton_core::tool::ToolSpec;
use futures_util::stream::BoxStream;

/// One question to a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelRequest {
    /// The role that the model plays, as the configuration names it.
    pub role: String,
    /// What was said so far, oldest first.
    pub messages: Vec<ChatMessage>,
    /// The tools that it may call; none where it must answer now.
    pub tools: Arc<[ToolSpec]>,
    /// The most tokens that it may write.
    pub max_tokens: u64,
    /// Which try of this effect it is; 1 is the first.
    pub attempt: u32,
}

/// One piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta {
    /// More of the text.
    Text(String),
    /// More of the reasoning that is not part of the answer.
    Reasoning(String),
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
}
