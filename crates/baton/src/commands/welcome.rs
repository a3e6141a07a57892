//! `baton` alone: what it is, who would answer, and what to try.

use crate::config::{Config, Settled};
use crate::failure::{Failure, exit};
use crate::terminal::{BOLD, CODE, DIM, line, styled};

/// Runs the command.
pub(crate) fn run(settled: &Settled) -> Result<u8, Failure> {
    let config = Config::from(settled);
    let origin = settled.get("model").map(|found| found.origin.to_string()).unwrap_or_default();
    line(format!("{} {}", styled(BOLD, "baton"), env!("CARGO_PKG_VERSION")))?;
    line("Runs AI agents that can be trusted with real work: every step is kept, every effect is governed.")?;
    line("")?;
    line(format!("model: {} ({origin})", styled(BOLD, &config.model)))?;
    if config.model == "offline" {
        line("  It is no language model: it picks a tool by your words and tells you what the tool found.")?;
    }
    line("")?;
    line("Try:")?;
    for (command, what) in [
        ("baton ask \"How is this machine doing?\"", "an answer with real numbers"),
        ("baton chat", "a conversation, with branches"),
        ("baton demo crash", "kill an agent in the middle; nothing is lost, nothing happens twice"),
    ] {
        line(format!("  {}{}{}", styled(CODE, command), " ".repeat(42 - command.len()), styled(DIM, what)))?;
    }
    line("")?;
    line("baton --help lists all commands; baton doctor checks this installation.")?;
    Ok(exit::OK)
}
