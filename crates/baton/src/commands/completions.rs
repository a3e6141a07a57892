//! `baton completions`: prints the script with which a shell completes commands.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::failure::{Failure, exit};
use crate::terminal::answer;

const EXAMPLES: &str = "\
Examples:
  baton completions bash > ~/.local/share/bash-completion/completions/baton
  baton completions fish > ~/.config/fish/completions/baton.fish
  source <(baton completions zsh)";

/// The arguments of `baton completions`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    shell: Shell,
}

/// Runs the command.
pub(crate) fn run(args: &CompletionsArgs) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "baton", &mut script);
    answer(&String::from_utf8_lossy(&script))?;
    Ok(exit::OK)
}
