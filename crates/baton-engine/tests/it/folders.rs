//! A run reads the files of the folder that it was begun in, whichever folder the resuming process runs in.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_core::run::{ApprovalStatus, Choice, RunStatus};
use baton_engine::{Engine, EngineError, Rested, RunRequest};
use baton_tools::{Builtin, Tool, builtin};
use serde_json::json;

use crate::everywhere;
use crate::world::{NOW, TENANT, World, insist};

everywhere!(an_approved_call_reads_where_it_was_asked_for, a_folder_that_is_gone_is_not_replaced);

/// An engine of a process whose working folder is this one.
fn standing_in(world: &World, folder: &Path) -> Engine {
    let options =
        Builtin { secrets: Default::default(), roots: vec![folder.to_owned()], blobs: None, now: || NOW };
    let mut files = builtin(options).unwrap();
    files.retain(|tool: &Arc<dyn Tool>| tool.spec().name == "read_file");
    world.engine_of(world.scripted(), files)
}

/// Two folders with a file of the same name.
fn two() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let all = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| {
        let folder = all.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("notes.txt"), format!("the notes of {name}")).unwrap();
        folder
    });
    (all, a, b)
}

/// Begins a run in `a` that wants to read a file, lets `meanwhile` happen, and approves in `b`; answers the result that
/// the model was given.
async fn approved_elsewhere(world: &mut World, a: &Path, b: &Path, meanwhile: impl FnOnce()) -> String {
    world.decision.approvals = vec!["read_file".to_owned()];
    world.script(json!([
        [{"call": {"name": "read_file", "arguments": {"path": "notes.txt"}}}],
        [{"text": "{last_result}"}],
    ]));
    let engine = standing_in(world, a);
    let request = RunRequest { roots: vec![a.to_owned()], ..world.request("read my notes") };
    let mut handle = engine.start(request).await.unwrap();
    assert_eq!(handle.rested().await, Rested::Suspended);
    engine.shutdown().await;
    meanwhile();

    let engine = standing_in(world, b);
    let asked = insist(|| world.store.approvals(&TENANT, Some(ApprovalStatus::Pending), None, 9)).await;
    engine.decide(&TENANT, &asked[0].id, Choice::Approve, None, None, None).await.unwrap();
    let rested = engine.drive(&TENANT, handle.run).await.unwrap().unwrap().rested().await;
    assert_eq!(rested, Rested::Ended(RunStatus::Ok));
    engine.view(&TENANT, handle.run).await.unwrap().result.unwrap()
}

async fn an_approved_call_reads_where_it_was_asked_for(mut world: World) {
    let (_all, a, b) = two();
    assert_eq!(approved_elsewhere(&mut world, &a, &b, || ()).await, "the notes of a");
}

async fn a_folder_that_is_gone_is_not_replaced(mut world: World) {
    let (_all, a, b) = two();
    let told = approved_elsewhere(&mut world, &a, &b, || std::fs::remove_dir_all(&a).unwrap()).await;
    let expected = format!(
        "Error: The files are out of reach: cannot open the folder {}: No such file or directory (os error 2); \
         check that it exists and may be read. The cause lies in what was asked: call it with other arguments, \
         or ask the person to change the request.",
        a.display()
    );
    assert_eq!(told, expected);
}

#[tokio::test]
async fn equal_requests_in_two_folders_are_two_definitions() {
    let (_all, a, b) = two();
    let world = World::new(crate::world::Kept::Memory, crate::world::Mode::Plain);
    world.script(json!([[{"text": "hi"}], [{"text": "hi"}], [{"text": "hi"}]]));
    let engine = world.engine();
    let mut pinned = Vec::new();
    for roots in [vec![a.clone()], vec![b.clone()], vec![]] {
        let mut handle = engine.start(RunRequest { roots, ..world.request("hi") }).await.unwrap();
        handle.rested().await;
        pinned.push(engine.view(&TENANT, handle.run).await.unwrap().definition.unwrap().roots);
    }
    let text = |path: &Path| vec![path.to_str().unwrap().to_owned()];
    assert_eq!(pinned, [text(&a), text(&b), vec![]]);
}

#[cfg(unix)]
#[tokio::test]
async fn a_folder_that_cannot_be_pinned_is_refused() {
    use std::os::unix::ffi::OsStrExt;

    let world = World::new(crate::world::Kept::Memory, crate::world::Mode::Plain);
    world.script(json!([]));
    let engine = world.engine();
    let nameless = PathBuf::from(std::ffi::OsStr::from_bytes(b"/a\xff"));
    for (root, why) in [
        (PathBuf::from("here"), "the folder \"here\" is not given by its whole path"),
        (
            nameless,
            "the name of the folder \"/a\\xFF\" is not UTF-8, so a run cannot be pinned to it: use another folder",
        ),
    ] {
        let refused = engine.start(RunRequest { roots: vec![root], ..world.request("hi") }).await;
        assert_eq!(refused.unwrap_err(), EngineError::Invalid(why.to_owned()));
    }
}
