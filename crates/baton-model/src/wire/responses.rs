//! OpenAI's Responses.
//!
//! Used without the server's memory: nothing is stored there, and every request holds the whole
//! conversation. What an answer thought comes back as items, which are kept raw and sent back unchanged.
//! Events are told apart by the `type` in their data, and unknown ones are passed over. Compatible servers
//! leave out `sequence_number`, `output_index` and the event that closes arguments, so none of them is
//! relied on: what an item holds when it is done counts.

mod body;
mod calls;
mod decoder;

pub(super) use body::body;
pub(super) use decoder::ResponsesDecoder;

#[cfg(test)]
mod tests;
