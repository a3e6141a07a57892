//! The real binary and the repository around it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot be set up has failed")]

mod approvals;
mod ask;
mod attacks;
mod bench;
mod bombs;
mod chat;
mod classes;
mod crash;
mod decided;
mod demo;
mod discovery;
mod docs;
mod doctor;
mod errors;
mod folders;
mod full_disk;
mod gc;
mod imitation;
mod keys;
mod lab;
mod leaving;
mod lists;
mod mask;
mod mistakes;
mod models;
mod points;
mod policy;
#[path = "../../../baton-store/tests/it/postgres_server.rs"]
mod postgres_server;
mod problems;
mod pty;
mod read_only;
mod rendering;
mod roles;
mod runs;
mod scenarios;
mod serve;
#[path = "../../../baton-model/tests/it/server.rs"]
mod server;
mod session;
mod settings;
mod stage;
mod stopped;
mod stops;
mod talk;
mod telemetry;
mod threads;
mod tidy;
mod tools;
mod two;
mod usage;
mod web;
mod world;
