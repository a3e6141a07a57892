//! `baton gc`: deletes data that is past its retention, and prints how much.
//!
//! Messages are kept: entries go only with their thread, and a thread only when its own time is over. The audit trail
//! is never deleted. See [`crate::retention`] for the collection that a service runs by itself.

use baton_engine::{Clock, SystemClock};
use baton_store::Collected;
use clap::Args;
use serde_json::{Value, json};

use crate::app::App;
use crate::columns::columns;
use crate::failure::{Failure, exit};
use crate::retention;
use crate::shape;
use crate::terminal::{line, note};

const EXAMPLES: &str = "\
Examples:
  baton gc --dry-run      says what would go, and removes nothing
  baton gc --json

What has had its time is said by [retention] in baton.toml. `baton serve` does the same by itself.";

/// The arguments of `baton gc`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GcArgs {
    /// Deletes nothing, and prints what would go
    #[arg(long)]
    dry_run: bool,
}

/// Runs the command.
pub(crate) async fn run(app: &App, args: GcArgs) -> Result<u8, Failure> {
    let (retention, dry_run) = (&app.config.retention, args.dry_run);
    let gone = app.engine.collect(&retention::request(retention, SystemClock.now(), dry_run), "cli").await?;
    if app.json {
        line(shape::pretty(&shown(&gone, dry_run)))?;
        return Ok(exit::OK);
    }
    line(columns(["WHAT", if dry_run { "WOULD GO" } else { "GONE" }], &rows(&gone)))?;
    if retention.runs.is_none() {
        note("runs are kept for ever: retention.runs_days in baton.toml says otherwise");
    }
    Ok(exit::OK)
}

fn shown(gone: &Collected, dry_run: bool) -> Value {
    let Collected { threads, runs, blobs, blob_bytes, keys } = gone;
    json!({
        "threads": threads, "runs": runs, "blobs": blobs, "blob_bytes": blob_bytes, "keys": keys, "dry_run": dry_run,
    })
}

fn rows(gone: &Collected) -> [[String; 2]; 4] {
    let blobs = match gone.blobs {
        0 => "0".to_owned(),
        blobs => format!("{blobs} ({} bytes)", gone.blob_bytes),
    };
    [
        ("threads past their time", gone.threads.to_string()),
        ("runs that ended", gone.runs.to_string()),
        ("long outputs that nothing names", blobs),
        ("keys of requests", gone.keys.to_string()),
    ]
    .map(|(what, count)| [what.to_owned(), count])
}
