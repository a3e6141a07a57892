//! The command line: parses and validates the arguments, then runs the command.

use std::path::PathBuf;
use std::process::ExitCode;

use baton_core::json::cut;
use clap::error::{ContextKind, ContextValue};
use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand};

use crate::app::App;
use crate::commands::{
    approvals, ask, audit, bench, chat, completions, config, demo, doctor, gc, init, models, policy, runs,
    serve, threads, tokens, tools, usage, welcome,
};
use crate::config::{Config, ResolvedConfig, nearest};
use crate::failure::{Failure, MOST_WORDS, exit};
use crate::interrupts::Interrupts;
use crate::log;
use crate::open::AppPurpose;
use crate::services::{self, Services};
use crate::telemetry::Telemetry;
use crate::terminal::{BAD, line, note, plain, styled};

const EXAMPLES: &str = "\
Examples:
  baton ask \"How is this machine doing?\"
  baton chat --last
  baton demo crash

Exit codes: 0 ok, 1 failed, 2 wrong use or configuration, 3 suspended, 130 cancelled.";

/// Runs AI agents that can be trusted with real work
#[derive(Debug, Parser)]
#[command(name = "baton", version, after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Option<Command>,
}

/// The number of processors that this process may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
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
    #[command(flatten)]
    OnData(OnData),
    /// Serves the HTTP API
    Serve(serve::ServeArgs),
    /// Shows the settings
    Config(config::ConfigArgs),
    /// Writes a commented settings file
    Init(init::InitArgs),
    /// Shows which models answer in which role, and tries them out
    Models(models::ModelsArgs),
    /// Shows the table that decides what a request may do, and why it decides so
    Policy(policy::PolicyArgs),
    /// Checks this installation, and suggests a fix for each problem
    Doctor(doctor::DoctorArgs),
    /// Shows what Baton promises
    Demo(demo::DemoArgs),
    /// Measures what the engine does on this machine
    Bench(bench::BenchArgs),
    /// Prints what a shell needs to complete commands
    Completions(completions::CompletionsArgs),
}

/// The commands that need an engine on the user's data.
#[derive(Debug, Subcommand)]
enum OnData {
    /// Asks an agent; the answer streams as it arrives
    Ask(ask::AskArgs),
    /// Talks with an agent
    Chat(chat::ChatArgs),
    /// Shows and changes conversations and their branches
    Threads(threads::ThreadsArgs),
    /// Shows, follows, cancels and resumes runs
    Runs(runs::RunsArgs),
    /// Shows what waits for a decision, and decides
    Approvals(approvals::ApprovalsArgs),
    /// Shows the tools that agents can call, and calls them
    Tools(tools::ToolsArgs),
    /// Shows what was used and what it cost
    Usage(usage::UsageArgs),
    /// Shows the audit trail, and checks that it was not changed
    Audit(audit::AuditArgs),
    /// Says who may use the service
    Tokens(tokens::TokensArgs),
    /// Deletes data that is past its retention
    Gc(gc::GcArgs),
}

impl OnData {
    /// The model that the command's `--model` flag names.
    fn model(&self) -> Option<&str> {
        match self {
            OnData::Ask(args) => args.model.as_deref(),
            OnData::Chat(args) => args.model.as_deref(),
            _ => None,
        }
    }

    /// Whether the command is of use on read-only data: it reads what is stored, though perhaps not only that.
    fn looks(&self) -> bool {
        !matches!(self, OnData::Ask(_) | OnData::Chat(_) | OnData::Gc(_))
    }

    /// Whether the command may drive runs; only then are events sent and changes of tools followed beside it.
    fn drives(&self) -> bool {
        matches!(self, OnData::Ask(_) | OnData::Chat(_) | OnData::Runs(_) | OnData::Approvals(_))
    }
}

/// Reads the arguments and runs the command.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let error = with_suggestion(error);
            if error.use_stderr() && wants_json(arguments()) {
                tell_program(&Failure::usage(words_of(&error)));
            }
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(exit::USAGE));
        }
    };
    log::colours(cli.globals.color);
    let json = cli.globals.json;
    ExitCode::from(run(cli).unwrap_or_else(|failure| {
        if json {
            tell_program(&failure);
        }
        report(failure)
    }))
}

/// The arguments as text. One that is none is for the parser to refuse; here it only must not be a reason to panic.
fn arguments() -> impl Iterator<Item = String> {
    std::env::args_os().map(|argument| argument.to_string_lossy().into_owned())
}

/// Whether arguments that could not be understood ask for JSON.
fn wants_json(arguments: impl Iterator<Item = String>) -> bool {
    arguments.take_while(|argument| argument != "--").any(|argument| argument == "--json")
}

/// The parser's message about the arguments, without colours and without the prefix that a program cannot use.
fn words_of(error: &clap::Error) -> String {
    let words = error.render().to_string();
    words.strip_prefix("error: ").unwrap_or(&words).trim_end().to_owned()
}

/// Prints a failure as JSON: a problem document on a line of its own, the last of the output.
fn tell_program(failure: &Failure) {
    // A program that has stopped reading, or a full disk, changes nothing about the failure.
    let _ = line(failure.document().to_string());
}

/// Suggests the command that was probably meant. The parser does so by itself for long names, but hardly for short ones
/// with transposed letters.
fn with_suggestion(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    if error.get(ContextKind::SuggestedSubcommand).is_none()
        && let Some(meant) = meant(word, arguments().skip(1))
    {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(vec![meant]));
    }
    error
}

/// The known command nearest to an unknown one, among the subcommands at the same position.
fn meant(word: &str, arguments: impl Iterator<Item = String>) -> Option<String> {
    let mut command = Cli::command();
    for argument in arguments.take_while(|argument| argument != word) {
        command = command.find_subcommand(&argument).cloned().unwrap_or(command);
    }
    let known = command.get_subcommands().map(clap::Command::get_name);
    nearest(word, known).map(str::to_owned)
}

/// Enough threads for a command, which has little to do at once.
const FEW: usize = 2;

/// Runs a command's future on a runtime with that many worker threads.
pub(crate) fn on_threads(
    threads: usize,
    work: impl Future<Output = Result<u8, Failure>>,
) -> Result<u8, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    let done = runtime.block_on(work);
    // Work that is still under way (a read of standard input, say) is not waited for.
    runtime.shutdown_background();
    done
}

fn report(failure: Failure) -> u8 {
    let words = plain(cut(&failure.message, MOST_WORDS));
    note(format!("{} {words}", styled(BAD, "error:")));
    if let Some(hint) = failure.hint {
        note(format!("  {hint}"));
    }
    failure.code
}

fn run(cli: Cli) -> Result<u8, Failure> {
    let Cli { globals, command } = cli;
    match command {
        None => on_threads(FEW, async { welcome::run(&ResolvedConfig::find(&globals, None)?).await }),
        Some(Command::OnData(command)) => on_threads(FEW, on_data(&globals, command)),
        Some(Command::Serve(args)) => serve::run(&globals, &args),
        Some(Command::Config(args)) => config::run(&globals, &args),
        Some(Command::Init(args)) => init::run(&globals, &args),
        Some(Command::Models(args)) => on_threads(FEW, models::run(&globals, args)),
        Some(Command::Policy(args)) => on_threads(FEW, policy::run(&globals, args)),
        Some(Command::Doctor(args)) => on_threads(FEW, doctor::run(&globals, args)),
        Some(Command::Demo(args)) => on_threads(FEW, demo::run(&globals, args)),
        // What it measures has all of the machine.
        Some(Command::Bench(args)) => on_threads(processors().max(FEW), bench::run(&globals, args)),
        Some(Command::Completions(args)) => completions::run(&args),
    }
}

async fn on_data(globals: &Globals, command: OnData) -> Result<u8, Failure> {
    let config = Config::new(&ResolvedConfig::find(globals, command.model())?)?;
    let telemetry = config.collector.as_ref().map(Telemetry::begin);
    log::begin_with(config.log, telemetry.as_ref());
    if let Some((variable, why)) = config.ignored {
        tracing::warn!(why, "{variable} is ignored: no telemetry is sent");
    }
    let purpose = AppPurpose { json: globals.json, may_read_only: command.looks(), ..AppPurpose::default() };
    let app = App::open(config, purpose).await?;
    // Before the services, which may be waiting for their turn to write when `ask` is told to leave.
    let interrupts = matches!(command, OnData::Ask(_)).then(Interrupts::listen).transpose()?;
    let services = match &command {
        _ if app.is_read_only() => None,
        command if command.drives() => Some(Services::begin(&app).await?),
        OnData::Tools(_) => services::discover(&app).await.map(|()| None)?,
        _ => None,
    };
    let done = on_app(&app, command, interrupts).await;
    if let Some(services) = services {
        services.end().await;
    }
    if let Some(telemetry) = telemetry {
        telemetry.end().await;
    }
    done
}

async fn on_app(app: &App, command: OnData, interrupts: Option<Interrupts>) -> Result<u8, Failure> {
    match command {
        OnData::Ask(args) => ask::run(app, args, interrupts).await,
        OnData::Chat(args) => chat::run(app, args).await,
        OnData::Threads(args) => threads::run(app, args).await,
        OnData::Runs(args) => runs::run(app, args).await,
        OnData::Approvals(args) => approvals::run(app, args).await,
        OnData::Tools(args) => tools::run(app, args).await,
        OnData::Usage(args) => usage::run(app, args).await,
        OnData::Audit(args) => audit::run(app, args).await,
        OnData::Tokens(args) => tokens::run(app, args).await,
        OnData::Gc(args) => gc::run(app, args).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_command_is_told_apart_from_one_that_is_none() {
        let rows = [
            ("aks", "ask"),
            ("aks hello", "ask"),
            ("chta", "chat"),
            ("--json thread", "threads"),
            ("threads lss", "ls"),
            ("runs reusme", "resume"),
            ("xyzzy", "-"),
        ];
        for (typed, expected) in rows {
            let words: Vec<String> = typed.split(' ').map(str::to_owned).collect();
            let error = Cli::try_parse_from([&["baton".to_owned()], &words[..]].concat()).unwrap_err();
            let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
                panic!("{typed} is understood");
            };
            let found = meant(word, words.iter().cloned());
            assert_eq!(found.as_deref().unwrap_or("-"), expected, "{typed}");
        }
    }
}
