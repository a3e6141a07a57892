//! The wire formats on recorded bytes.
//!
//! A recording is added by putting two files into the folder of its format under `tests/recorded/`: the
//! bytes of a body as `NAME.sse` (or `NAME.ndjson`), and what comes of them as `NAME.json`. Every test here
//! then runs on it. The expectation is an object:
//!
//! - `deltas`: a list of `{"text": …}`, `{"reasoning": …}`, `{"reasoning_block": …}`,
//!   `{"call_start": {"index", "id", "name"}}`, `{"call_arguments": {"index", "text"}}`,
//!   `{"usage": {"prompt_tokens", "completion_tokens"}}`, `{"finish": …}`;
//! - `fault`, where it fails: as a fault is serialized; the deltas before it are shown all the same;
//! - `tools`: our names of the tools that were offered, where they matter;
//! - `think_tags`, `tool_call_tags`: true where the model has that habit.
//!
//! Recordings should stay under about 5 KB: each is cut and split at every one of its bytes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot be set up has failed")]

mod calls;
mod detection;
mod failures;
mod limits;
mod pairs;
mod proxies;
mod recorded;
mod server;
mod splits;
mod talk;
