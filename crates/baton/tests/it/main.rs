//! The real binary and the repository around it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot be set up has failed")]

mod approvals;
mod ask;
mod bombs;
mod chat;
mod classes;
mod crash;
mod demo;
mod discovery;
mod docs;
mod doctor;
mod imitation;
mod keys;
mod mask;
mod models;
mod pty;
mod rendering;
mod roles;
mod runs;
#[path = "../../../baton-model/tests/it/server.rs"]
mod server;
mod settings;
mod stage;
mod threads;
mod tidy;
mod tools;
mod two;
mod usage;
mod world;
