//! OpenAI's Chat Completions, and everything that is compatible with it.
//!
//! Compatible servers leave out different fields, so any field of an answer may be missing or unknown. Only two
//! things are required: each event is JSON, and the stream ends with `[DONE]`.
//! Reasoning has no field in the standard. The servers' `reasoning_content` or `reasoning` is kept
//! as one block with the name of its field, and goes back to the model that it came from if the name is
//! `reasoning_content`: servers that write the other one do not read the first. There is one system
//! message, because many servers' templates refuse a second. The old form of calls, `function_call`, is not
//! decoded.

mod body;
mod decoder;

pub(super) use body::body;
pub(super) use decoder::ChatDecoder;

/// The terminal marker of a stream.
pub(super) const DONE: &str = "[DONE]";

/// The field of reasoning that servers also read in requests.
const REASONING: &str = "reasoning_content";

#[cfg(test)]
mod tests;
