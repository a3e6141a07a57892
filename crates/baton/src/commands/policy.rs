//! `baton policy`: the table that decides what a request may do, and why it decides as it does.
//!
//! Both commands only read; their answer about a request is the decision that a run would be pinned to.

pub(crate) mod explain;
mod show;

use baton_core::policy::{Policy, Table};
use clap::{Args, Subcommand};

use super::ask::ModeArg;
use crate::app::App;
use crate::cli::Globals;
use crate::config::{Config, ResolvedConfig};
use crate::failure::Failure;
use crate::log;
use crate::open::AppPurpose;

const EXAMPLES: &str = "\
Examples:
  baton policy show                                                    the whole table, as TOML for baton.toml
  baton policy explain \"What is the capital of France?\"
  baton policy explain --mode CONSERVATIVE --channel CODE_TASK \"Sort a list\"
  baton policy explain --json \"Look up the height of K2\"               one document";

/// The arguments of `baton policy`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Prints the whole table as it holds, as TOML that can be pasted into baton.toml
    #[command(after_help = EXAMPLES)]
    Show,
    /// Says what a request may do, and which row says so
    #[command(after_help = EXAMPLES)]
    Explain(ExplainArgs),
}

#[derive(Debug, Args)]
struct ExplainArgs {
    /// What would be said to the agent; nothing is sent
    #[arg(default_value = "")]
    message: String,
    /// How much the agent may do
    #[arg(long, value_enum, default_value_t = ModeArg::Moderate, ignore_case = true)]
    mode: ModeArg,
    /// Where the request comes in
    #[arg(long, default_value = "CHAT")]
    channel: String,
}

/// Runs the command.
pub(crate) async fn run(globals: &Globals, args: PolicyArgs) -> Result<u8, Failure> {
    let config = Config::new(&ResolvedConfig::find(globals, None)?)?;
    log::begin(config.log);
    match args.command {
        PolicyCommand::Show => show::run(table(&config)?, globals.json),
        PolicyCommand::Explain(args) => {
            let app = App::open(config, AppPurpose { json: globals.json, ..AppPurpose::default() }).await?;
            explain::run(&app, &args)
        }
    }
}

fn table(config: &Config) -> Result<&Table, Failure> {
    match &config.policy {
        Policy::Table(table) => Ok(table),
        Policy::Fixed(_) => Err(Failure::failed("there is no table: every request is decided alike")),
    }
}
