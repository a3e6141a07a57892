//! Models: what talks.
//!
//! One port, [`Model`], whose primitive is a stream of [`Delta`]s; a [`Collector`] makes a whole answer of
//! one. Two models stand behind it that need neither a network nor a key: [`Scripted`] plays a file and
//! [`Offline`] answers with rules. Providers over HTTP will stand beside them as pure conversions between
//! their wire format and these deltas.
//!
//! Nothing here retries, logs, counts money against a budget or knows of runs; the engine does. A model
//! gets a request and gives a stream, and dropping that stream is how a call is cancelled.

mod collect;
mod offline;
mod playback;
mod port;
mod scripted;

pub use collect::{Collector, MAX_CALLS, MAX_REPLY_BYTES};
pub use offline::Offline;
pub use port::{Delta, DeltaStream, Model, ModelRequest};
pub use scripted::{BadScript, Scripted};
