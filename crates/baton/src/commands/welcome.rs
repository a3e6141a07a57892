//! `baton` without a command: its version, the model that would answer, and commands to try.

use crate::config::{Config, ResolvedConfig};
use crate::failure::{Failure, exit};
use crate::models::Models;
use crate::terminal::{BOLD, CODE, DIM, line, plain, styled};

/// Runs the command.
pub(crate) async fn run(resolved: &ResolvedConfig) -> Result<u8, Failure> {
    let chosen = Models::new(&Config::new(resolved)?).choose().await?;
    line(format!("{} {}", styled(BOLD, "baton"), env!("CARGO_PKG_VERSION")))?;
    line("Runs AI agents that can be trusted with real work: every step is kept, every effect is governed.")?;
    line("")?;
    line(format!("model: {} ({})", styled(BOLD, plain(&chosen.who())), chosen.why))?;
    if chosen.answers() == "offline" {
        line("  It is no language model: it picks a tool by your words and tells you what the tool found.")?;
        line("  `baton doctor` says how to connect one.")?;
    }
    line(format!("  {}.", sentence(&chosen.privacy())))?;
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

/// Words with a capital first letter.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}", first.to_uppercase(), letters.as_str()))
}
