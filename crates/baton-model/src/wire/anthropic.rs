//! Anthropic's Messages.
//!
//! The format knows two speakers who take turns, so neighbours of one role become one message, and the
//! first one is always the user's. System messages at the beginning are the system text. Later ones, such as
//! the summary of what was left out, stand in the user's turn at their place and are marked as what they
//! are: in the system text they would change the very beginning of the prompt, which caches are keyed by.
//! Text that is empty is not accepted and is left out. There is no field for the shape of an answer: it is
//! asked for in the system text, and whoever asked checks it.
//!
//! Blocks of thinking are kept as they came, with their signatures, and go back unchanged and before
//! anything else of their message, to the model that wrote them and to no other. A block whose signature
//! never came was cut off, and would be refused. Kinds of blocks and events that are not known are ignored.

mod body;
mod reading;

pub(super) use body::body;
pub(super) use reading::Reading;

#[cfg(test)]
mod tests;
