//! Language models: the model port, its providers, and two models that need no network.
//!
//! One port, [`Model`], whose primitive is a stream of [`Delta`]s; a [`ReplyCollector`] makes a whole answer of
//! one, and [`respond()`] and [`respond_json`] do that for callers that do not show the stream. A [`Catalog`] has
//! all models by name. Two need neither a network nor a key: [`Scripted`] plays a file and [`Offline`]
//! answers with rules. All others are at a [`Provider`], which is called in one of four formats ([`wire`]:
//! pure conversions, without a socket) over one HTTP path, within time limits, past a gate and a circuit
//! breaker that everything in a process shares.
//!
//! Nothing here retries, logs, counts money against a budget, reads a configuration or knows of runs and
//! roles; the engine and the binary do. A model gets a request and gives a stream, and dropping that stream
//! cancels the call: its socket is closed. A failure carries whether and when a retry makes sense.
//! A configured model is never replaced by another one. Keys reach a provider's headers and nothing
//! else: no error, no `Debug`, no other address.

mod breaker;
mod catalog;
mod collect;
mod endpoint;
mod gate;
mod http;
mod offline;
mod playback;
mod port;
mod provider;
mod remote;
mod respond;
mod scripted;
mod secret;
mod tokens;
pub mod wire;

pub use catalog::{BadCatalog, Catalog, ModelProbe, ProbeAnswer, ProbeFinding};
pub use collect::{MAX_CALLS, MAX_REPLY_BYTES, ReplyCollector};
pub use endpoint::{BadEndpoint, Endpoint};
pub use http::Timeouts;
pub use offline::Offline;
pub use port::{Delta, DeltaStream, Model, ModelRequest, OutputSchema, ToolChoice};
pub use provider::{ModelEntry, Price, Provider};
pub use respond::{respond, respond_json, stream_respond};
pub use scripted::{BadScript, Scripted};
pub use secret::Secret;
