//! The real binary against programs that we did not write. `./test --peers` installs and runs them.
//!
//! `llama-server` speaks OpenAI's chat and Responses formats and Anthropic's Messages. No real Ollama was available:
//! `aimock`, which imitates one, stands in for it, and its differences from Ollama's own source are named with its
//! tests. `schemathesis` and `nginx` stand in front of the service, `mlflow` receives its spans. Every test starts a
//! peer of its own, at an address of its own, and stops it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot be set up has failed")]

mod aimock;
mod gguf;
mod http;
mod llama_server;
#[path = "../it/mask.rs"]
mod mask;
mod mlflow;
mod nginx;
mod peer;
mod schemathesis;
#[path = "../it/serve/served.rs"]
#[allow(dead_code, reason = "the other binary of tests uses all of it")]
mod served;
#[path = "../it/stage.rs"]
#[allow(dead_code, reason = "the other binary of tests uses all of it")]
mod stage;
mod tap;
mod told;
#[path = "../it/serve/wire.rs"]
#[allow(dead_code, reason = "the other binary of tests uses all of it")]
mod wire;
#[path = "../it/world.rs"]
#[allow(dead_code, reason = "the other binary of tests uses all of it")]
mod world;
