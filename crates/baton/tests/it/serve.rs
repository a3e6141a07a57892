//! The service, and the services around it, with the real binary over real sockets.

mod asking;
mod audit;
mod context;
mod document;
mod doors;
mod endings;
mod events;
mod execute;
mod execution;
mod handling;
pub(crate) mod hostile;
pub(crate) mod house;
mod isolation;
mod keeping;
mod many;
mod neighbours;
mod pair;
mod secrets;
pub(crate) mod served;
mod several;
mod start;
mod storm;
mod streams;
mod sweep;
mod tokens;
mod told;
pub(crate) mod wire;
