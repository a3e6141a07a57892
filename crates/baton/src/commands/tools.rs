//! `baton tools`.

use clap::{Args, Subcommand};

use crate::app::App;
use crate::failure::{Failure, exit};

/// See the variants.
#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    #[command(subcommand)]
    command: ToolsCommand,
}

#[derive(Debug, Subcommand)]
enum ToolsCommand {
    /// Lists them.
    Ls,
}

/// Runs the command.
pub(crate) async fn run(_app: &App, args: ToolsArgs) -> Result<u8, Failure> {
    match args.command {
        ToolsCommand::Ls => Ok(exit::OK),
    }
}
