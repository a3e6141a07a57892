//! OpenAI's Responses.
//!
//! Used without the server's state: nothing is stored there, and every request holds the whole
//! conversation. Reasoning comes as items, which are kept raw and sent back unchanged.
//! The `type` in their data distinguishes events, and unknown ones are ignored. Compatible servers
//! leave out `sequence_number`, `output_index` and the event that closes arguments, so none of them is
//! relied on: the content of a finished item counts.

mod body;
mod calls;
mod decoder;

pub(super) use body::body;
pub(super) use decoder::ResponsesDecoder;

#[cfg(test)]
mod tests;
