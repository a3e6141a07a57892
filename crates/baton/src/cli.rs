//! Raw arguments to validated ones, and from there to the command.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::app::App;
use crate::commands::{approvals, ask, runs, threads, tools};
use crate::config::Config;
use crate::failure::{Failure, exit};
use crate::open::Purpose;
use crate::terminal::{BAD, note, styled};

/// Runs AI agents that can be trusted with real work.
#[derive(Debug, Parser)]
#[command(name = "baton", version)]
pub(crate) struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Option<Command>,
}

/// What every command takes, before or after its name.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Everywhere")]
pub(crate) struct Globals {
    /// Reads the settings from this file
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Keeps everything in this folder
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Prints JSON in the API's shape
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Logs more, on standard error; twice for even more
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Whether to use colours
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t = Color::Auto)]
    pub(crate) color: Color,
}

/// Whether to use colours.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum Color {
    /// On a terminal
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Asks an agent; the answer streams as it arrives
    Ask(ask::AskArgs),
    /// Shows and changes conversations and their branches
    Threads(threads::ThreadsArgs),
    /// Shows, follows, cancels and resumes runs
    Runs(runs::RunsArgs),
    /// Shows what waits for a decision, and decides
    Approvals(approvals::ApprovalsArgs),
    /// Shows the tools that agents can call, and calls them
    Tools(tools::ToolsArgs),
}

/// Reads the arguments and runs the command.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(exit::USAGE));
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return ExitCode::from(report(error.into())),
    };
    let code = runtime.block_on(run(cli)).unwrap_or_else(report);
    // What is still under way (a read of standard input, say) is not waited for.
    runtime.shutdown_background();
    ExitCode::from(code)
}

fn report(failure: Failure) -> u8 {
    note(format!("{} {}", styled(BAD, "error:"), failure.message));
    if let Some(hint) = failure.hint {
        note(format!("  {hint}"));
    }
    failure.code
}

async fn run(cli: Cli) -> Result<u8, Failure> {
    let Cli { globals, command } = cli;
    let Some(command) = command else { return Ok(exit::OK) };
    let model = match &command {
        Command::Ask(args) => args.model.clone(),
        _ => None,
    };
    let config = Config::load(&globals, model.as_deref())?;
    let app = App::open(config, Purpose { json: globals.json, test_tools: false })?;
    let code = match command {
        Command::Ask(args) => ask::run(&app, args).await,
        Command::Threads(args) => threads::run(&app, args).await,
        Command::Runs(args) => runs::run(&app, args).await,
        Command::Approvals(args) => approvals::run(&app, args).await,
        Command::Tools(args) => tools::run(&app, args).await,
    };
    code
}
