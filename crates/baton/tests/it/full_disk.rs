//! A full disk: one line that names the folder, a hint, and no loss of acknowledged data.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::stage::Did;
use crate::world::World;

/// How SQLite's file is laid out.
const PAGE: u64 = 8192;
/// A message so long that no free space in the file holds it, and that cannot be compressed.
fn long() -> String {
    let mut state = 1_u32;
    let letter = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(b'!' + u8::try_from((state >> 24) % 90).unwrap())
    };
    (0..100_000).map(letter).collect()
}

fn world() -> World {
    let world = World::new();
    let model = world.script(&json!({"v": 1, "replies": [], "otherwise": {"do": [{"text": "Noted."}]}}));
    world.settings(&format!("model = '{model}'\n[engine]\nstore_patience_s = 1\n"));
    world
}

/// Checks the error of a command where the disk of this folder is full.
fn says_so(did: &Did, folder: &Path, helps: &str) {
    let told = format!("error: the disk of {} is full\n  {helps}\n", folder.display());
    assert_eq!((did.code, did.out.as_str(), did.err.as_str()), (1, "", told.as_str()));
}

const ANOTHER: &str = "free some space there, or name another folder with --data DIR";
const AGAIN: &str = "free some space there, and say it again: nothing is lost that was acknowledged";

#[test]
fn a_folder_that_cannot_be_made_ready_is_named() {
    let world = world();
    let folder = world.path("full");
    let args = ["--data", folder.to_str().unwrap(), "ask", "hello"];
    says_so(&world.baton_with(&[("BATON_FAILPOINT_PAGES", "3")], &args), &folder, ANOTHER);
    let told = world.baton_with(&[("BATON_FAILPOINT_PAGES", "3")], &[&args[..], &["--json"]].concat());
    let problem: Value = told.json();
    assert_eq!((&problem["code"], &problem["hint"]), (&json!("store_unavailable"), &json!(ANOTHER)));
    assert_eq!(world.baton(&args).ok(), "Noted.\n", "with space again, the same folder is taken");
}

#[test]
fn a_message_that_does_not_fit_is_refused_and_nothing_else_is_lost() {
    let world = world();
    world.baton(&["ask", "--thread", "t", "first"]).ok();
    let data = world.path("home/data/baton");
    let shown = || world.baton(&["threads", "show", "t", "--json"]).json();
    let before = shown();
    let pages = std::fs::metadata(data.join("baton.db")).unwrap().len() / PAGE;
    let full = pages.to_string();
    let long = format!("say: {}", long());
    let did = world.baton_with(&[("BATON_FAILPOINT_PAGES", &full)], &["ask", "--thread", "t", &long]);
    let last: Vec<&str> = did.err.lines().rev().take(2).collect();
    let told = format!("error: the store cannot be written to: the disk of {} is full", data.display());
    assert_eq!((did.code, did.out.as_str()), (1, ""), "{did:?}");
    assert_eq!(last, [format!("  {AGAIN}").as_str(), told.as_str()], "{did:?}");
    assert_eq!(shown(), before, "nothing was written, and nothing was lost");
    assert_eq!(world.baton(&["ask", "--thread", "t", &long]).ok(), "Noted.\n");
}

/// Runs a command where this folder is a file system of its own, of that many bytes: as the root of a user namespace,
/// which needs no administrator. `None` where the machine does not allow that.
#[allow(clippy::disallowed_methods, reason = "the machine's own programs make the file system")]
fn on_a_small_disk(world: &World, folder: &Path, bytes: usize, script: &str) -> Option<Output> {
    let allowed = Command::new("unshare").args(["--user", "--map-root-user", "--mount", "true"]).output();
    if !allowed.is_ok_and(|tried| tried.status.success()) {
        return None;
    }
    let baton = world.command(&[]);
    let mut command = Command::new("unshare");
    command.env_clear().envs(baton.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    if let Some(place) = baton.get_current_dir() {
        command.current_dir(place);
    }
    let mounts = format!("mount -t tmpfs -o size={bytes} tmpfs \"$1\" && baton=$2 && {script}");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &mounts, "sh"]);
    Some(command.arg(folder).arg(baton.get_program()).output().unwrap())
}

#[test]
fn a_real_disk_that_is_full_is_named() {
    let world = world();
    let folder = world.path("small");
    std::fs::create_dir(&folder).unwrap();
    // A disk that is full before the first write, and one that is full once there is a conversation.
    let scripts = [
        "head -c 9000000 /dev/zero > \"$1/filled\" 2> /dev/null; \"$baton\" --data \"$1/data\" ask hello",
        "\"$baton\" --data \"$1/data\" ask --thread t first > /dev/null 2>&1 || exit 9
         head -c 9000000 /dev/zero > \"$1/filled\" 2> /dev/null
         head -c 780000 /dev/urandom | base64 -w 0 | \"$baton\" --data \"$1/data\" ask --thread t -",
    ];
    for script in scripts {
        let Some(output) = on_a_small_disk(&world, &folder, 8 << 20, script) else {
            // The tests above show the same by SQLite's own limit.
            assert!(
                std::env::var_os("BATON_FULL").is_none(),
                "this machine gives no file system of one's own"
            );
            return;
        };
        let err = String::from_utf8_lossy(&output.stderr);
        let told = format!("the disk of {} is full", folder.join("data").display());
        let lines: Vec<&str> = err.lines().filter(|line| line.contains("is full")).collect();
        assert_eq!((output.status.code(), lines.len()), (Some(1), 1), "{err}");
        assert!(lines[0].starts_with("error: ") && lines[0].ends_with(&told), "{err}");
        assert!(err.lines().last().unwrap().starts_with("  free some space there, "), "{err}");
    }
}
