//! OpenAI's Chat Completions, and everything that is compatible with it.
//!
//! Compatible servers differ in what they leave out, so almost nothing is demanded of an answer: any field
//! may be missing or unknown. Two things are: each event is JSON, and the stream ends with `[DONE]`.
//! Reasoning has no place in the standard; what servers send as `reasoning_content` or `reasoning` is kept
//! as one block with the name of its field, and goes back to the model that it came from if that is
//! `reasoning_content`: servers that write the other one do not read the first. There is one system
//! message, because many servers' templates refuse a second. The old form of calls, `function_call`, is not
//! read.

mod body;
mod decoder;

pub(super) use body::body;
pub(super) use decoder::ChatDecoder;

/// What ends a stream.
pub(super) const DONE: &str = "[DONE]";

/// The field of a message in which reasoning goes back.
const REASONING: &str = "reasoning_content";

#[cfg(test)]
mod tests;
