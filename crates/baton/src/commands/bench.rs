//! `baton bench`: measures the engine on this machine, with nothing else installed.
//!
//! It runs an engine of its own, on a temporary data folder, with a scripted model and a tool that answer at once, so
//! the figures are the cost of Baton itself and of the disk. Figures of one machine say little about another one, so
//! most are also given as ratios. It touches none of the user's data or settings and calls nothing over a network.
//! Threads, models and the HTTP shell around the engine are not measured here.

mod history;
mod load;
mod machine;
mod report;
mod stage;

use clap::Args;

use crate::cli::Globals;
use crate::config::DatabaseUrl;
use crate::failure::{Failure, exit};
use crate::shape;
use crate::terminal::{line, turning};
use report::Report;
use stage::BenchStage;

const EXAMPLES: &str = "\
Examples:
  baton bench
  baton bench --runs 5000 --clients 16 --tools 0
  baton bench --store postgresql://baton@127.0.0.1:5432/bench --json

What it does is written to disk as in earnest: SQLite with synchronous=FULL, in a temporary folder that is removed in the
end. A database that --store names has to be one for nothing else, and keeps what was written.";

/// The arguments of `baton bench`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    /// How many runs the clients make together
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: u32,
    /// How many of them at the same time
    #[arg(long, value_name = "C", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: u32,
    /// How many tools each run calls, one after the other
    #[arg(long, value_name = "T", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=50))]
    tools: u32,
    /// A PostgreSQL to measure instead, which is used for nothing else
    #[arg(long, value_name = "URL", value_parser = given)]
    store: Option<BenchUrl>,
}

/// A database address from the command line; `None` if it is not one. An error never repeats the text, as the argument
/// parser's own would: it may hold a password.
#[derive(Debug, Clone)]
struct BenchUrl(Option<DatabaseUrl>);

fn given(text: &str) -> Result<BenchUrl, std::convert::Infallible> {
    Ok(BenchUrl(DatabaseUrl::read(text)))
}

impl BenchArgs {
    fn database(&self) -> Result<Option<&DatabaseUrl>, Failure> {
        let Some(BenchUrl(url)) = &self.store else { return Ok(None) };
        let wrong = || Failure::usage("--store: this is no address of PostgreSQL");
        url.as_ref().map(Some).ok_or_else(|| wrong().hint("write it like postgresql://user@host:5432/name"))
    }
}

/// The divisor for one client's share of the runs: a tenth is enough to know how fast one client is.
const ALONE: u32 = 10;

/// Runs the command.
pub(crate) async fn run(globals: &Globals, args: BenchArgs) -> Result<u8, Failure> {
    let database = args.database()?;
    let progress = turning("opening a store".to_owned());
    let say = |what: String| {
        if let Some(progress) = &progress {
            progress.set_message(what);
        }
    };
    let stage = BenchStage::open(database, args.tools).await?;
    let report = measured(&stage, &args, &say).await;
    stage.close().await;
    if let Some(progress) = progress {
        progress.finish_and_clear();
    }
    let report = report?;
    line(if globals.json { shape::pretty(&report.to_json()) } else { report.to_text() })?;
    Ok(exit::OK)
}

async fn measured(stage: &BenchStage, args: &BenchArgs, say: &dyn Fn(String)) -> Result<Report, Failure> {
    say("warming up".to_owned());
    load::drive(stage, args.clients.min(8), args.clients.min(8), &|_| {}).await?;
    let idle = machine::memory();
    let (few, all) = (args.runs.div_ceil(ALONE), args.runs);
    let alone = load::drive(stage, few, 1, &|n| say(format!("one client: run {n} of {few}"))).await?;
    let clients = args.clients.min(args.runs);
    let many =
        load::drive(stage, all, clients, &|n| say(format!("{clients} clients: run {n} of {all}"))).await?;
    let history =
        history::measure(stage, &|n| say(format!("one thread: turn {n} of {}", history::LAST))).await?;
    Ok(Report {
        store: stage.name(),
        tools: args.tools,
        alone,
        many,
        history,
        idle,
        peak: machine::most_memory(),
    })
}
