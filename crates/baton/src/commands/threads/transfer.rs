//! `export` and `import`: a thread to a file and back.

use std::fs::OpenOptions;
use std::io::{self, Read, Write};
use std::path::Path;

use baton_core::thread::{Entry, PlacedEntry};
use baton_store::{Slice, StoreError};
use serde_json::json;

use super::archive::Archive;
use super::args::{ExportArgs, ImportArgs};
use super::restore::restore;
use super::{look, say, say_json};
use crate::app::App;
use crate::columns::count;
use crate::failure::Failure;
use crate::shape;

pub(super) async fn export(app: &App, args: ExportArgs) -> Result<(), Failure> {
    let thread = look(app, &args.thread).await?;
    let mut lines = Vec::new();
    for branch in &thread.branches {
        // No further than the thread looked at the beginning, though it may be growing.
        let slice = Slice { before: Some(branch.head.index + 1), last_n: None };
        lines.push(app.store().entries(&app.tenant, &thread.id, Some(&branch.name), slice).await?);
    }
    let blobs = blobs(app, lines.iter().flatten()).await?;
    let archive = Archive::new(&thread, &lines, blobs);
    let document = json!(archive);
    let Some(file) = args.file.filter(|file| file != Path::new("-")) else {
        return say_json(&document);
    };
    write_new(&file, &shape::pretty(&document))?;
    let written = json!({"thread_id": thread.id, "file": file, "branches": archive.branches.len(), "entries": archive.entries.len()});
    say(app, &written, || {
        let entries = count(archive.entries.len() as i64, "entry", "entries");
        format!("thread {} is in {}: {entries}", thread.id, file.display())
    })
}

/// The long results that entries point at; one that is gone is left out.
async fn blobs(
    app: &App,
    entries: impl Iterator<Item = &PlacedEntry>,
) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    let mut blobs = Vec::new();
    for placed in entries {
        let Entry::ToolResult(result) = &placed.entry else { continue };
        let Some(blob) = &result.blob else { continue };
        if let Some(bytes) = app.store().blob(&app.tenant, &blob.hash).await? {
            blobs.push((blob.hash.clone(), bytes));
        }
    }
    Ok(blobs)
}

/// Writes a file that was not there before, whole or not at all.
fn write_new(file: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => Failure::failed(format!("there already is a file {}", file.display()))
            .hint("give another name, or remove it first"),
        _ => Failure::failed(format!("{} cannot be written: {error}", file.display())),
    };
    let mut out = OpenOptions::new().write(true).create_new(true).open(file).map_err(failed)?;
    let written = writeln!(out, "{text}").and_then(|()| out.sync_all());
    written.map_err(|error| {
        let _ = std::fs::remove_file(file);
        failed(error)
    })
}

pub(super) async fn import(app: &App, args: ImportArgs) -> Result<(), Failure> {
    let text = read(&args.file)?;
    let bad = |error| {
        let message = format!("{} cannot be imported: {error}", args.file.display());
        Failure::failed(message).hint("nothing was changed; baton threads export T FILE writes what can be imported")
    };
    let sound = Archive::read(&text).and_then(Archive::check).map_err(bad)?;
    let id = args.id.unwrap_or_else(|| sound.archive.id.clone());
    restore(app.store(), &app.tenant, &id, &sound).await.map_err(|error| {
        let exists = matches!(error, StoreError::Exists { .. });
        let failure = Failure::from(error);
        if exists { failure.hint("--id gives the imported one another id") } else { failure }
    })?;
    let thread = app.store().thread(&app.tenant, &id).await?;
    say(app, &shape::thread(&thread), || {
        let branches = count(thread.branches.len() as i64, "branch", "branches");
        let entries = count(sound.entries.len() as i64, "entry", "entries");
        format!("thread {id} is here: {branches}, {entries}")
    })
}

fn read(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        io::stdin().read_to_string(&mut text)
    } else {
        std::fs::File::open(file).and_then(|mut file| file.read_to_string(&mut text))
    };
    read.map_err(|error| Failure::failed(format!("{} cannot be read: {error}", file.display())))?;
    Ok(text)
}
