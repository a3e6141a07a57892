//! `baton`: runs AI agents that people can trust with real work.
//!
//! Raw arguments become validated ones ([`cli`]), settings come from one table ([`config`]), and each
//! command is a small file in [`commands`] that is given an [`app::App`] and returns an exit code. The
//! answer goes to standard output; everything else goes to standard error.

mod app;
mod asking;
mod cli;
mod columns;
mod commands;
mod config;
mod dialect;
mod failure;
mod follow;
mod interrupts;
mod log;
mod markdown;
mod models;
mod open;
mod retention;
mod router;
mod screen;
mod serve;
mod services;
mod shape;
mod telemetry;
mod terminal;
mod web;

use std::process::ExitCode;

/// Many small values come and go with every transition: this allocator makes that cheap.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Huge pages would triple the memory of an idle process; where they cannot be disabled, nothing is lost.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    cli::main()
}
