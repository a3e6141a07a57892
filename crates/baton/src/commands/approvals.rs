//! `baton approvals`.

use clap::{Args, Subcommand};

use crate::app::App;
use crate::failure::{Failure, exit};

/// See the variants.
#[derive(Debug, Args)]
pub(crate) struct ApprovalsArgs {
    #[command(subcommand)]
    command: ApprovalsCommand,
}

#[derive(Debug, Subcommand)]
enum ApprovalsCommand {
    /// Lists them.
    Ls,
}

/// Runs the command.
pub(crate) async fn run(_app: &App, args: ApprovalsArgs) -> Result<u8, Failure> {
    match args.command {
        ApprovalsCommand::Ls => Ok(exit::OK),
    }
}
