//! `export` and `import`: a thread to a file and back.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Read, Write};
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use baton_core::id::{Tenant, ThreadId};
use baton_core::thread::Entry;
use baton_store::{Slice, Store, StoreError};
use serde_json::json;

use super::archive::Archive;
use super::args::{ExportArgs, ImportArgs};
use super::restore::restore;
use super::{say, say_json};
use crate::app::App;
use crate::columns::count;
use crate::failure::Failure;
use crate::shape;

pub(super) async fn export(app: &App, args: ExportArgs) -> Result<(), Failure> {
    let id = app.thread_id(&args.thread).await?;
    let archive = archived(app.store(), &app.tenant, &id).await?;
    let document = json!(archive);
    let Some(file) = args.file.filter(|file| file != Path::new("-")) else {
        return say_json(&document);
    };
    write_new(&file, &shape::pretty(&document))?;
    let (branches, entries) = (archive.branches.len(), archive.entries.len());
    let written = json!({"thread_id": id, "file": file, "branches": branches, "entries": entries});
    say(app, &written, || {
        format!("thread {id} is in {}: {}", file.display(), count(entries as i64, "entry", "entries"))
    })
}

/// The document of a thread as it is now.
pub(super) async fn archived(store: &Store, tenant: &Tenant, id: &ThreadId) -> Result<Archive, StoreError> {
    let thread = store.thread(tenant, id).await?;
    let mut lines = Vec::new();
    for branch in &thread.branches {
        // Only up to the head read at the beginning, though the branch may be growing.
        let slice = Slice { before: Some(branch.head.index + 1), last_n: None };
        lines.push(store.entries(tenant, id, Some(&branch.name), slice).await?);
    }
    let mut blobs = BTreeMap::new();
    for placed in lines.iter().flatten() {
        let Entry::ToolResult(result) = &placed.entry else { continue };
        let Some(blob) = &result.blob else { continue };
        // A deleted blob is left out; the entry still has its beginning and its end.
        if let Some(bytes) = store.blob(tenant, &blob.hash).await? {
            blobs.insert(blob.hash.clone(), bytes);
        }
    }
    Ok(Archive::new(&thread, &lines, blobs))
}

/// Writes a file that was not there before, whole or not at all.
fn write_new(file: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::conflict(format!("there already is a file {}", file.display()))
                .hint("give another name, or remove it first")
        }
        _ => Failure::failed(format!("{} cannot be written: {error}", file.display())),
    };
    let mut options = OpenOptions::new();
    // A conversation is private to its owner, whatever the umask says.
    #[cfg(unix)]
    options.mode(0o600);
    let mut out = options.write(true).create_new(true).open(file).map_err(failed)?;
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
        Failure::failed(message)
            .hint("nothing was changed; baton threads export T FILE writes what can be imported")
    };
    let sound = Archive::read(&text).and_then(Archive::check).map_err(bad)?;
    let id = args.id.unwrap_or_else(|| sound.archive.id.clone());
    restore(app.store(), &app.tenant, &id, &sound, super::now()).await.map_err(|error| {
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
