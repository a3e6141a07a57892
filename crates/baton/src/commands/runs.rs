//! `baton runs`: lists, shows, follows, cancels and resumes runs.
//!
//! The command's process need not own the run: messages go through the store, and a run without a live owner is claimed
//! here and driven until it ends or suspends.

mod account;
mod listed;
mod trace;

use baton_core::id::{Cursor, RunId};
use baton_core::run::{Definition, RunStatus};
use baton_engine::{Clock, RunHandle, SystemClock};
use baton_store::{ClaimMode, RunFilter, RunRow};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::app::App;
use crate::asking;
use crate::columns::{columns, moment};
use crate::failure::{Failure, exit};
use crate::follow::{FollowOptions, follow, tail};
use crate::screen::Show;
use crate::shape;
use crate::terminal::{line, note};
pub(crate) use listed::{ModelNames, cost, model, words};

const EXAMPLES: &str = "\
Examples:
  baton runs ls --status suspended
  baton runs show 5d0c7b1e
  baton runs trace 5d0c7b1e             where its time went
  baton runs tail 5d0c7b1e --from 1.42
  baton runs resume 5d0c7b1e            goes on after a crash
  baton runs resume --take 5d0c7b1e     takes it from the process that holds it";

/// The arguments of `baton runs`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunsArgs {
    #[command(subcommand)]
    command: RunsCommand,
}

#[derive(Debug, Subcommand)]
enum RunsCommand {
    /// Lists runs, newest first
    Ls(RunListArgs),
    /// Shows a run: its steps, what it used, what it waits for, what came of it
    Show(OneRunArgs),
    /// Shows how long everything in a run took, as a tree
    Trace(OneRunArgs),
    /// Follows a run, wherever it is driven; with --json one object a line
    Tail(TailArgs),
    /// Asks a run to stop; drives it to its end if no other process does
    Cancel(CancelArgs),
    /// Goes on with a run that no process drives
    Resume(ResumeArgs),
}

#[derive(Debug, Args)]
struct RunListArgs {
    /// Only of this thread
    #[arg(long)]
    thread: Option<String>,
    /// Only with this status: queued, running, suspended, ok, error or cancelled
    #[arg(long, value_parser = status)]
    status: Option<RunStatus>,
    /// At most so many
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    /// Only those made before this one
    #[arg(long, value_name = "RUN")]
    after: Option<String>,
}

#[derive(Debug, Args)]
struct OneRunArgs {
    /// The run: its id, or the beginning or end of it
    run: String,
}

#[derive(Debug, Args)]
struct TailArgs {
    /// The run: its id, or the beginning or end of it
    run: String,
    /// From this place on; from the beginning if left out
    #[arg(long, value_name = "EPOCH.SEQ")]
    from: Option<Cursor>,
}

#[derive(Debug, Args)]
struct CancelArgs {
    /// The run: its id, or the beginning or end of it
    run: String,
    /// Only leaves the message; the next process that drives the run finds it
    #[arg(long)]
    detach: bool,
}

#[derive(Debug, Args)]
struct ResumeArgs {
    /// The run: its id, or the beginning or end of it
    run: String,
    /// Takes it even from a living process, which then writes nothing more to it
    #[arg(long)]
    take: bool,
}

/// Runs the command.
pub(crate) async fn run(app: &App, args: RunsArgs) -> Result<u8, Failure> {
    match args.command {
        RunsCommand::Ls(args) => ls(app, args).await,
        RunsCommand::Show(args) => show(app, &args.run).await,
        RunsCommand::Trace(args) => show_trace(app, &args.run).await,
        RunsCommand::Tail(args) => {
            let run = app.run_id(&args.run).await?;
            tail(app, run, args.from.unwrap_or_default(), app.json).await
        }
        RunsCommand::Cancel(args) => cancel(app, args).await,
        RunsCommand::Resume(args) => resume(app, args).await,
    }
}

async fn ls(app: &App, args: RunListArgs) -> Result<u8, Failure> {
    let filter = RunFilter {
        thread: match &args.thread {
            Some(text) => Some(app.thread_id(text).await?),
            None => None,
        },
        status: args.status,
        fragment: None,
        after: match &args.after {
            Some(text) => Some(app.run_id(text).await?),
            None => None,
        },
        limit: args.limit + 1,
    };
    let mut found = app.store().runs(&app.tenant, &filter).await?;
    let next = shape::page(&mut found, args.limit, |row| row.id.to_string());
    if app.json {
        let mut items = Vec::new();
        for row in &found {
            items.push(shape::run(&app.engine.view(&app.tenant, row.id).await?));
        }
        line(shape::pretty(&shape::list(items, next)))?;
        return Ok(exit::OK);
    }
    if found.is_empty() {
        note("there are no such runs; baton ask \"…\" starts one");
        return Ok(exit::OK);
    }
    let (mut rows, mut models) = (Vec::with_capacity(found.len()), ModelNames::new());
    for row in &found {
        rows.push(cells(app, row, &mut models).await);
    }
    line(columns(["RUN", "STATUS", "CREATED", "TITLE", "MODEL", "COST", "BRANCH", "THREAD"], &rows))?;
    if let Some(next) = next {
        note(format!("there are more: baton runs ls --after {next}"));
    }
    Ok(exit::OK)
}

async fn cells(app: &App, row: &RunRow, models: &mut ModelNames) -> [String; 8] {
    [
        row.id.short(),
        standing(app, row).await,
        moment(row.created),
        listed::title(app, row).await,
        listed::model(app, row, models).await,
        listed::cost(row.budget.cost_micro_usd, u64::from(row.budget.unpriced)),
        row.branch.to_string(),
        row.thread.to_string(),
    ]
}

/// The status, and whether a running run lacks a live owner.
async fn standing(app: &App, row: &RunRow) -> String {
    let is_orphan = row.status == RunStatus::Running && !app.store().is_held(row).await;
    format!("{}{}", row.status.as_str(), if is_orphan { ", nobody drives it" } else { "" })
}

async fn show(app: &App, run: &str) -> Result<u8, Failure> {
    let run = app.run_id(run).await?;
    let view = app.engine.view(&app.tenant, run).await?;
    if app.json {
        line(shape::pretty(&shape::run(&view)))?;
    } else {
        let file_tool = |definition: &Definition| {
            definition.tools.iter().find_map(|tool| asking::folder_of(definition, &tool.name))
        };
        let beside = account::Beside {
            standing: standing(app, &view.row).await,
            folder: view.definition.as_ref().and_then(file_tool),
            approvals: asking::standing(app, &view).await?,
        };
        line(account::account(&view, &beside))?;
    }
    Ok(exit::OK)
}

async fn show_trace(app: &App, run: &str) -> Result<u8, Failure> {
    let run = app.run_id(run).await?;
    let found = app.engine.trace(&app.tenant, run).await?;
    if app.json {
        line(shape::pretty(&trace::document(&found)))?;
    } else {
        line(trace::tree(run, &found, SystemClock.now()))?;
    }
    Ok(exit::OK)
}

async fn cancel(app: &App, args: CancelArgs) -> Result<u8, Failure> {
    let run = app.run_id(&args.run).await?;
    let status = app.engine.cancel(&app.tenant, run).await?;
    if status.has_ended() {
        say_cancelled(app, run, status, "had already ended")?;
        return Ok(exit::OK);
    }
    let handle = if args.detach { None } else { app.engine.drive(&app.tenant, run).await? };
    let Some(handle) = handle else {
        let status = app.store().run(&app.tenant, run).await?.status;
        say_cancelled(app, run, status, "is told to stop")?;
        return Ok(exit::OK);
    };
    let code = go_on(app, handle).await?;
    let status = app.store().run(&app.tenant, run).await?.status;
    if app.json {
        line(shape::pretty(&json!({"status": status})))?;
    }
    // The command succeeded if the run is cancelled.
    Ok(if status == RunStatus::Cancelled { exit::OK } else { code })
}

fn say_cancelled(app: &App, run: RunId, status: RunStatus, what: &str) -> Result<(), Failure> {
    if app.json {
        return Ok(line(shape::pretty(&json!({"status": status})))?);
    }
    Ok(line(format!("run {} {what} ({})", run.short(), status.as_str()))?)
}

async fn resume(app: &App, args: ResumeArgs) -> Result<u8, Failure> {
    let run = app.run_id(&args.run).await?;
    let mode = if args.take { ClaimMode::Take } else { ClaimMode::IfFree };
    let handle = app.engine.resume(&app.tenant, run, mode).await?;
    let code = go_on(app, handle).await?;
    if app.json {
        line(shape::pretty(&shape::run(&app.engine.view(&app.tenant, run).await?)))?;
    }
    Ok(code)
}

/// Drives a run until it ends or suspends. With `--json` nothing is shown meanwhile: the command's one document comes
/// afterwards.
pub(super) async fn go_on(app: &App, handle: RunHandle) -> Result<u8, Failure> {
    let show = if app.json { Show::Nothing } else { Show::Text };
    follow(app, handle, FollowOptions { show, ..FollowOptions::default() }).await
}

fn status(text: &str) -> Result<RunStatus, String> {
    let known = || RunStatus::ALL.map(RunStatus::as_str).join(", ");
    let found = RunStatus::ALL.into_iter().find(|status| status.as_str() == text);
    found.ok_or_else(|| format!("expected one of {}", known()))
}
