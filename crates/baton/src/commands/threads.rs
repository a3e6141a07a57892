//! `baton threads`: shows and changes conversations and their branches, and moves them between machines.

mod archive;
mod args;
mod branches;
mod render;
mod restore;
mod session;
#[cfg(test)]
mod tests;
mod transcript;
mod transfer;
mod tree;

use std::io::{IsTerminal, stdin};

use baton_core::id::{BranchName, EntryId, ThreadId};
use baton_core::json;
use baton_core::thread::{Entry, NewEntry};
use baton_core::time::Timestamp;
use baton_engine::{Clock, SystemClock};
use baton_store::{RunFilter, Slice, ThreadView};
use serde_json::{Value, json};
use uuid::Uuid;

use super::runs::{ModelNames, cost, model, words};
use crate::app::App;
use crate::columns::{columns, count, moment};
use crate::failure::{Failure, exit};
use crate::shape;
use crate::terminal::{line, note, note_part};

pub(crate) use args::{PolicyArg, ThreadsArgs, milliseconds};
use args::{PushArgs, RmArgs, ShowArgs, ThreadListArgs, ThreadsCommand};
pub(crate) use render::{RenderOptions, shown};
pub(crate) use transcript::transcript;

/// The most runs of a thread that are added up in a list.
const MOST_RUNS: u32 = 1000;

/// Runs the command.
pub(crate) async fn run(app: &App, args: ThreadsArgs) -> Result<u8, Failure> {
    match args.command {
        ThreadsCommand::Ls(args) => ls(app, args).await,
        ThreadsCommand::Show(args) => show(app, args).await,
        ThreadsCommand::Render(args) => render::render(app, args).await,
        ThreadsCommand::Tree(args) => show_tree(app, &args.thread).await,
        ThreadsCommand::Fork(args) => branches::fork(app, args).await,
        ThreadsCommand::Checkout(args) => branches::checkout(app, args).await,
        ThreadsCommand::Rewind(args) => branches::rewind(app, args).await,
        ThreadsCommand::RmBranch(args) => branches::remove(app, args).await,
        ThreadsCommand::Prune(args) => branches::prune(app, args).await,
        ThreadsCommand::Finish(args) => push(app, &args.thread, args.branch, Entry::Finished).await,
        ThreadsCommand::Push(args) => push_given(app, args).await,
        ThreadsCommand::Rm(args) => rm(app, args).await,
        ThreadsCommand::Export(args) => transfer::export(app, args).await,
        ThreadsCommand::Import(args) => transfer::import(app, args).await,
    }?;
    Ok(exit::OK)
}

async fn ls(app: &App, args: ThreadListArgs) -> Result<(), Failure> {
    let after = match &args.after {
        Some(text) => Some(app.thread_id(text).await?),
        None => None,
    };
    let limit = args.limit;
    let mut found = app.store().threads(&app.tenant, limit + 1, after.as_ref()).await?;
    let next = shape::page(&mut found, limit, |thread| thread.id.to_string());
    if app.json {
        return say_json(&shape::list(found.iter().map(shape::thread).collect(), next));
    }
    if found.is_empty() {
        note("there are no threads yet: baton ask \"…\" begins one");
        return Ok(());
    }
    let (mut rows, mut models) = (Vec::with_capacity(found.len()), ModelNames::new());
    for thread in &found {
        rows.push(row(app, thread, &mut models).await?);
    }
    line(columns(["THREAD", "CREATED", "TITLE", "MODEL", "COST", "CURRENT", "BRANCHES", "ENTRIES"], &rows))?;
    if let Some(next) = next {
        note(format!("there are more: baton threads ls --after {next}"));
    }
    Ok(())
}

async fn row(app: &App, thread: &ThreadView, models: &mut ModelNames) -> Result<[String; 8], Failure> {
    let current = thread.branches.iter().find(|branch| branch.name == thread.current);
    let first = Slice { before: Some(1), last_n: Some(1) };
    // A thread that cannot be read, or is deleted meanwhile, is listed without its content.
    let first = app.store().entries(&app.tenant, &thread.id, None, first).await.unwrap_or_default();
    let filter = RunFilter { thread: Some(thread.id.clone()), limit: MOST_RUNS, ..RunFilter::default() };
    let runs = app.store().runs(&app.tenant, &filter).await?;
    let unpriced = runs.iter().map(|run| u64::from(run.budget.unpriced)).sum();
    let spent = runs.iter().map(|run| run.budget.cost_micro_usd).sum();
    let (who, cost) = match runs.first() {
        Some(latest) => (model(app, latest, models).await, cost(spent, unpriced)),
        None => Default::default(),
    };
    Ok([
        thread.id.to_string(),
        moment(thread.created),
        first.first().map(|entry| words(&entry.entry)).unwrap_or_default(),
        who,
        cost,
        thread.current.to_string(),
        thread.branches.len().to_string(),
        current.map_or(0, |branch| branch.head.index + 1).to_string(),
    ])
}

async fn show(app: &App, args: ShowArgs) -> Result<(), Failure> {
    let id = app.thread_id(&args.thread).await?;
    let slice = Slice { before: args.before, last_n: args.last_n };
    let entries = app.store().entries(&app.tenant, &id, args.branch.as_ref(), slice).await?;
    let session = app.engine.session(&app.tenant, &id, args.branch.as_ref()).await?;
    if app.json {
        let entries = entries.iter().map(shape::entry).collect();
        return say_json(&session::document(entries, &session));
    }
    let branch = match args.branch {
        Some(branch) => branch,
        None => app.store().thread(&app.tenant, &id).await?.current,
    };
    let shown = count(entries.len() as i64, "entry", "entries");
    note(format!("thread {id}, branch {branch}, {shown}"));
    note(session::in_words(&session));
    Ok(line(transcript(&entries))?)
}

async fn show_tree(app: &App, thread: &str) -> Result<(), Failure> {
    let id = app.thread_id(thread).await?;
    let thread = app.store().thread(&app.tenant, &id).await?;
    if app.json {
        let branches = thread.branches.iter().map(|branch| shape::branch(&thread, branch));
        return say_json(&shape::list(branches.collect(), None));
    }
    Ok(line(tree::tree(&thread))?)
}

async fn push_given(app: &App, args: PushArgs) -> Result<(), Failure> {
    let usage = |why: String| {
        Failure::usage(why).hint("baton threads push T --t UserMessage '{\"text\": \"hello\"}'")
    };
    let data = json::parse(&args.fields).map_err(|error| usage(format!("the fields are {error}")))?;
    let entry = Entry::from_parts(&args.t, args.v, data).map_err(|error| usage(error.to_string()))?;
    push(app, &args.thread, args.branch, entry).await
}

async fn push(app: &App, thread: &str, branch: Option<BranchName>, entry: Entry) -> Result<(), Failure> {
    let id = app.thread_id(thread).await?;
    let new = NewEntry { id: EntryId(Uuid::now_v7()), at: now(), entry };
    let index = app.store().push(&app.tenant, &id, branch.as_ref(), new).await?;
    let slice = Slice { before: Some(index + 1), last_n: Some(1) };
    let pushed = app.store().entries(&app.tenant, &id, branch.as_ref(), slice).await?;
    let Some(placed) = pushed.last() else {
        return Err(Failure::conflict(format!("entry {index} of thread {id} was moved by somebody else")));
    };
    if app.json {
        return say_json(&shape::entry(placed));
    }
    Ok(line(format!("{} is entry {index} of thread {id}", placed.entry.type_name()))?)
}

async fn rm(app: &App, args: RmArgs) -> Result<(), Failure> {
    let id = app.thread_id(&args.thread).await?;
    if !args.yes && stdin().is_terminal() && !is_sure(app, &id).await? {
        note("nothing is deleted");
        return Ok(());
    }
    app.engine.delete_thread(&app.tenant, &id, "cli").await?;
    say(app, &json!({"deleted": id}), || format!("thread {id} is deleted, with its runs"))
}

/// Asks the user to confirm the deletion of a thread, because it cannot be undone.
async fn is_sure(app: &App, id: &ThreadId) -> Result<bool, Failure> {
    let thread = app.store().thread(&app.tenant, id).await?;
    let entries = thread.branches.iter().map(|branch| branch.head.index + 1).max().unwrap_or_default();
    let what = count(entries, "entry", "entries");
    note_part(&format!("delete thread {id} with its {what} and its runs? [y/N] "));
    let mut answer = String::new();
    stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// The current state of the thread that a command names.
async fn look(app: &App, thread: &str) -> Result<ThreadView, Failure> {
    let id: ThreadId = app.thread_id(thread).await?;
    Ok(app.store().thread(&app.tenant, &id).await?)
}

fn now() -> Timestamp {
    SystemClock.now()
}

/// Prints the result, as JSON or as text.
fn say(app: &App, document: &Value, words: impl FnOnce() -> String) -> Result<(), Failure> {
    if app.json { say_json(document) } else { Ok(line(words())?) }
}

fn say_json(document: &Value) -> Result<(), Failure> {
    Ok(line(shape::pretty(document))?)
}
