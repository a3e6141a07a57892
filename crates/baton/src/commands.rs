//! One file per command: its arguments and its code.

pub(crate) mod approvals;
pub(crate) mod ask;
pub(crate) mod audit;
pub(crate) mod bench;
pub(crate) mod chat;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod gc;
pub(crate) mod init;
pub(crate) mod models;
pub(crate) mod policy;
pub(crate) mod runs;
pub(crate) mod serve;
pub(crate) mod threads;
pub(crate) mod tokens;
pub(crate) mod tools;
pub(crate) mod usage;
pub(crate) mod welcome;
