//! Anthropic's Messages.
//!
//! User and assistant take turns in this format, so neighbours of one role become one message, and the
//! first one is always the user's. System messages at the beginning are the system text; later ones stand in the
//! user's turn at their place. Empty text is refused by the server and left out. There is no field for a JSON Schema:
//! it is part of the system text, and [`crate::respond_json`] validates the answer.
//!
//! The provider's prompt cache is used only on request, by a mark at the end of the part that stays the same:
//! at the end of the system text, which comes after the tools, or of the tools where there is no such text.
//!
//! Blocks of thinking are kept as they came, with their signatures, and go back unchanged and before
//! anything else of their message, to the model that wrote them and to no other. A block without a signature
//! was cut off, and would be refused. Unknown kinds of blocks and events are ignored.

mod body;
mod decoder;

pub(super) use body::body;
pub(super) use decoder::AnthropicDecoder;

#[cfg(test)]
mod tests;
