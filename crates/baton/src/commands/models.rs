//! `baton models`: the models of each role, and whether they answer.
//!
//! Keys are never shown, only where they are expected.

mod list;
mod trial;

use clap::{Args, Subcommand};

use crate::cli::Globals;
use crate::config::{Config, ResolvedConfig};
use crate::failure::Failure;
use crate::log;
use crate::models::{Chosen, Models};

const EXAMPLES: &str = "\
Examples:
  baton models ls                            who answers in which role
  baton models test                          asks each of them three small questions
  baton models test ollama/llama3.2:3b       asks this one
  baton models test --json                   one document; exit code 1 if one does not answer";

/// The arguments of `baton models`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ModelsArgs {
    #[command(subcommand)]
    command: ModelsCommand,
}

#[derive(Debug, Subcommand)]
enum ModelsCommand {
    /// Lists the roles and who answers in each, best first
    Ls,
    /// Asks models: do they answer, how fast, with tools and in a given shape
    #[command(after_help = EXAMPLES)]
    Test {
        /// Which; all models that may be asked if left out
        #[arg(value_name = "PROVIDER/NAME")]
        names: Vec<String>,
    },
}

/// Runs the command.
pub(crate) async fn run(globals: &Globals, args: ModelsArgs) -> Result<u8, Failure> {
    let resolved = ResolvedConfig::find(globals, None)?;
    let config = Config::new(&resolved)?;
    log::begin(config.log);
    let models = Models::new(&config);
    match args.command {
        ModelsCommand::Ls => list::run(&models, &resolved.doubts(), globals.json).await,
        ModelsCommand::Test { names } => trial::run(&models, names, globals.json).await,
    }
}

/// The chosen models, and the settings that change them: these commands have no flag for that themselves.
fn in_one_line(chosen: &Chosen) -> String {
    format!("{} · BATON_MODEL or baton.toml changes it, as does --model of ask and chat", chosen.in_short())
}
