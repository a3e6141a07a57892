//! `baton runs`.

use clap::{Args, Subcommand};

use crate::app::App;
use crate::failure::{Failure, exit};

/// See the variants.
#[derive(Debug, Args)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    command: RunsCommand,
}

#[derive(Debug, Subcommand)]
enum RunsCommand {
    /// Lists them.
    Ls,
}

/// Runs the command.
pub(crate) async fn run(_app: &App, args: RunsArgs) -> Result<u8, Failure> {
    match args.command {
        RunsCommand::Ls => Ok(exit::OK),
    }
}
