//! A run reads the files of the folder that it was begun in, in whichever folder the commands that resume it are run.

use serde_json::json;

use crate::mask::Mask;
use crate::stage::Did;
use crate::world::World;

/// A run begun in `work` that waits for the approval to read a file; `other` has a file of that name, too.
fn asked() -> (World, String) {
    let world = World::new();
    world.settings("[policy]\napprove = [\"read_file\"]\n");
    world.write("work/notes.txt", "the notes of work");
    world.write("other/notes.txt", "the notes of other");
    let script = world.script(&json!({"v": 1, "replies": [
        {"do": [{"call": {"name": "read_file", "arguments": {"path": "notes.txt"}}}]},
        {"do": [{"text": "{last_result}"}]},
    ]}));
    let did = world.baton(&["ask", "--thread", "t", "--model", &script, "hi"]);
    assert_eq!(did.code, 3, "{did:?}");
    assert!(!did.err.contains("in the folder"), "nobody has to be told where they are: {did:?}");
    let pending = world.baton(&["approvals", "ls", "--json"]).json();
    let id = pending["items"][0]["id"].as_str().unwrap().to_owned();
    (world, id)
}

/// Runs a command in `other`.
fn elsewhere(world: &World, args: &[&str]) -> Did {
    let output = world.command(args).current_dir(world.path("other")).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Did { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
}

/// The folder that runs are begun in, as a process sees it.
fn work(world: &World) -> String {
    world.path("work").canonicalize().unwrap().display().to_string()
}

#[test]
fn what_is_approved_elsewhere_reads_where_it_was_asked_for() {
    let (world, id) = asked();
    let did = elsewhere(&world, &["approvals", "approve", &id]);
    assert_eq!((did.code, did.out.as_str()), (0, "the notes of work\n"), "{did:?}");
}

#[test]
fn what_is_resumed_elsewhere_reads_where_it_was_asked_for() {
    let (world, id) = asked();
    assert_eq!(elsewhere(&world, &["approvals", "approve", &id, "--detach"]).code, 0);
    let run = world.baton(&["runs", "ls", "--json"]).json()["items"][0]["id"].clone();
    let did = elsewhere(&world, &["runs", "resume", run.as_str().unwrap()]);
    assert_eq!((did.code, did.out.as_str()), (0, "the notes of work\n"), "{did:?}");
}

#[test]
fn what_is_said_in_a_chat_is_pinned_too() {
    let (world, _) = asked();
    let run = world.baton(&["runs", "ls", "--json"]).json()["items"][0]["id"].clone();
    assert_eq!(world.baton(&["runs", "cancel", run.as_str().unwrap()]).code, 0);
    let script = format!("scripted/{}", world.path("script.json").display());
    let did = world.baton_reading(&["chat", "--model", &script], "hi\n");
    assert_eq!((did.code, did.out.as_str()), (0, "May read_file run? {\"path\":\"notes.txt\"}\n"), "{did:?}");
    let pending = world.baton(&["approvals", "ls", "--json"]).json();
    let did = elsewhere(&world, &["approvals", "approve", pending["items"][0]["id"].as_str().unwrap()]);
    assert_eq!((did.code, did.out.as_str()), (0, "the notes of work\n"), "{did:?}");
}

#[test]
fn a_folder_that_is_gone_is_named_and_no_other_takes_its_place() {
    let (world, id) = asked();
    let folder = work(&world);
    std::fs::remove_dir_all(world.path("work")).unwrap();
    let did = elsewhere(&world, &["approvals", "approve", &id]);
    let told = format!("Error: The files are out of reach: cannot open the folder {folder}: No such file");
    assert_eq!((did.code, did.out.starts_with(&told)), (0, true), "{did:?}");
    assert!(!did.out.contains("the notes of"), "{did:?}");
}

#[test]
fn whoever_is_asked_elsewhere_is_told_the_folder() {
    let (world, id) = asked();
    let folder = work(&world);
    let shown = |args: &[&str]| {
        let here = world.baton(args);
        assert!(!here.out.contains(&folder) && !here.err.contains(&folder), "{here:?}");
        let there = elsewhere(&world, args);
        Mask::default().text(&(there.out + &there.err).replace(&folder, "WORK"))
    };
    let approval = shown(&["approvals", "show", &id]);
    assert!(approval.contains("  digest   HASH\n  folder   WORK\n  arguments\n"), "{approval}");
    let run = world.baton(&["runs", "ls", "--json"]).json()["items"][0]["id"].clone();
    let run = run.as_str().unwrap();
    let account = shown(&["runs", "show", run]);
    assert!(account.contains("\n  folder     WORK\n"), "{account}");
    let tail = shown(&["runs", "tail", run]);
    let expected = "May read_file run? {\"path\":\"notes.txt\"}\n  in the folder WORK\n  \
                    rule \"CHAT/MODERATE\" asks before read_file runs (until TIME)\n  \
                    baton approvals approve ap-ID1-1\n  \
                    baton approvals deny ap-ID1-1\n";
    assert!(tail.ends_with(expected), "{tail}");
    let there = world
        .command(&["chat", "--thread", "t", "--model", "offline"])
        .current_dir(world.path("other"))
        .output();
    let said = String::from_utf8(there.unwrap().stderr).unwrap();
    assert!(said.contains(&format!("\nin the folder {folder}\n")), "{said}");
}
