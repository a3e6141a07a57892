//! Anthropic's Messages.
//!
//! The format knows two speakers who take turns, so neighbours of one role become one message, and the
//! first one is always the user's. System messages at the beginning are the system text; later ones stand in the
//! user's turn at their place. Text that is empty is not accepted and is left out. There is no field for the shape of an answer: it is
//! asked for in the system text, and whoever asked checks it.
//!
//! The provider's cache is used only if it is asked for, at the place up to which the prompt stays the same:
//! at the end of the system text, which comes after the tools, or of the tools where there is no such text.
//!
//! Blocks of thinking are kept as they came, with their signatures, and go back unchanged and before
//! anything else of their message, to the model that wrote them and to no other. A block whose signature
//! never came was cut off, and would be refused. Kinds of blocks and events that are not known are ignored.

mod body;
mod decoder;

pub(super) use body::body;
pub(super) use decoder::AnthropicDecoder;

#[cfg(test)]
mod tests;
