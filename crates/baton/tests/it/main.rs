//! The real binary and the repository around it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot be set up has failed")]

mod approvals;
mod ask;
mod bombs;
mod chat;
mod crash;
mod demo;
mod docs;
mod mask;
mod runs;
mod settings;
mod stage;
mod threads;
mod tidy;
mod tools;
mod two;
mod world;
