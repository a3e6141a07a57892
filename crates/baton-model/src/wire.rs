//! The wire formats of providers: pure conversions between a request, the bytes of its answer, and deltas.
//!
//! Four formats, one closed enum. Encoding is a function from values to bytes; a [`Decoder`] is fed the
//! bytes of a body in any pieces and gives the same deltas for every split. Nothing here
//! opens a socket, reads a clock or keeps a key. A stream that ends without its format's terminal marker is
//! a failure, never an answer; the memory that a line and a body take is bounded.

mod anthropic;
mod body;
mod chat;
mod decoder;
mod failure;
mod json;
mod lines;
mod names;
mod offered_tools;
mod ollama;
mod openai;
mod protocol;
mod responses;
mod sse;
mod system;
mod tags;

use baton_core::chat::ChatMessage;
use serde_json::Value;

use crate::port::ModelRequest;
pub use decoder::Decoder;
pub(crate) use failure::{PROXY, fault_from_status_at};
pub use failure::{fault_from_status, fault_in_answer};
pub use names::WireNames;
pub use offered_tools::OfferedTools;
pub(crate) use offered_tools::OfferedToolsCache;
pub(crate) use protocol::PathBase;

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wire {
    /// Ollama's `/api/chat`: one JSON object a line.
    Ollama,
    /// OpenAI's Chat Completions, and everything that is compatible with it.
    ChatCompletions,
    /// OpenAI's Responses.
    Responses,
    /// Anthropic's Messages.
    Anthropic,
}

/// The tags that a model writes into its text because its format has no field for their content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InlineTags {
    /// Reasoning stands in `<think>…</think>` at the beginning of the text.
    pub think_tags: bool,
    /// Calls stand in the text as `<tool_call>{"name": …, "arguments": …}</tool_call>`.
    pub tool_call_tags: bool,
}

/// One request, ready to be encoded.
#[derive(Debug, Clone, Copy)]
pub struct WireRequest<'a> {
    /// The model's name at its provider.
    pub model: &'a str,
    /// The model's name here, as `provider/name`: reasoning goes back only to the model that it came from.
    pub name: &'a str,
    /// The messages, tools and limits.
    pub request: &'a ModelRequest,
    /// The names of tools and calls at the provider.
    pub names: &'a WireNames,
    /// Whether the server is OpenAI's own. It refuses fields that it has replaced, and compatible servers
    /// refuse fields that they do not know yet.
    pub is_openai: bool,
}

impl WireRequest<'_> {
    /// The blocks of a message's reasoning, if this model wrote them in this format. No other model is shown
    /// them.
    fn own_reasoning<'m>(&self, message: &'m ChatMessage, wire: Wire) -> &'m [Value] {
        match &message.reasoning {
            Some(own) if own.model == self.name && own.wire == wire.as_str() => &own.blocks,
            _ => &[],
        }
    }
}

impl Wire {
    /// All formats.
    pub const ALL: [Wire; 4] = [Wire::Ollama, Wire::ChatCompletions, Wire::Responses, Wire::Anthropic];

    /// The name in `baton.toml` and in stored reasoning.
    pub fn as_str(self) -> &'static str {
        self.protocol().name
    }

    /// The body of a request that asks for a stream.
    pub fn encode(self, call: &WireRequest<'_>) -> Vec<u8> {
        let written = match self {
            Wire::Ollama => serde_json::to_vec(&ollama::body(call)),
            Wire::ChatCompletions => serde_json::to_vec(&chat::body(call)),
            Wire::Responses => serde_json::to_vec(&responses::body(call)),
            Wire::Anthropic => serde_json::to_vec(&anthropic::body(call)),
        };
        // Plain values can always be serialized.
        written.unwrap_or_default()
    }

    /// The decoder of the answer to a request with these names.
    pub fn decoder(self, names: WireNames, inline_tags: InlineTags) -> Decoder {
        Decoder::new(self, names, inline_tags)
    }
}
