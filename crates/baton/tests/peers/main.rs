//! The real binary against programs that we did not write. `./test --peers` installs and runs them.
//!
//! `llama-server` speaks OpenAI's chat and Responses formats and Anthropic's Messages. No real Ollama was
//! available: `aimock`, which imitates one, stands in for it, and where it differs from Ollama's own source is said
//! with its tests. Every test starts a peer of its own on a port that the system chooses, and stops it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot be set up has failed")]

mod aimock;
mod gguf;
mod http;
mod llama_server;
#[path = "../it/mask.rs"]
mod mask;
mod peer;
#[path = "../it/stage.rs"]
#[allow(dead_code, reason = "the other binary of tests uses all of it")]
mod stage;
mod tap;
mod told;
#[path = "../it/world.rs"]
#[allow(dead_code, reason = "the other binary of tests uses all of it")]
mod world;
