//! Data that cannot be written to: it can still be read, nothing there is changed, and a command that writes gives the
//! reason why it cannot.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::stage::Did;
use crate::world::World;

/// The user for commands where the tests run as root, which permissions do not bind. It owns nothing.
const NOBODY: u32 = 65534;

/// A copy of a machine's data that is not writable, and a Baton that every user can run.
struct Copy {
    world: World,
    data: PathBuf,
    baton: PathBuf,
}

impl Copy {
    /// A copy as it is while the machine works, with or without the files that SQLite keeps beside the database.
    fn made(keep: &[&str]) -> Copy {
        let world = World::new();
        let model = world
            .script(&json!({"v": 1, "replies": [], "otherwise": {"do": [{"text": "You said {user}."}]}}));
        let mut chat = world.command(&["chat", "--thread", "t", "--model", &model]);
        chat.stdin(std::process::Stdio::piped());
        let mut chat = world.start_command(chat); // as long as it is there, the log is, too
        std::io::Write::write_all(chat.input(), b"hello\n/branches\n").unwrap();
        chat.until("main ends at 1"); // the turn is over
        let (data, from) = (world.path("copy"), world.path("home/data/baton"));
        fs::create_dir(&data).unwrap();
        if keep.is_empty() {
            let db = rusqlite::Connection::open(from.join("baton.db")).unwrap();
            db.execute("VACUUM INTO ?1", [data.join("baton.db").to_str()]).unwrap();
        } else {
            for name in ["baton.db"].iter().chain(keep) {
                fs::copy(from.join(name), data.join(name)).unwrap();
            }
        }
        for name in files(&data) {
            fs::set_permissions(data.join(name), Permissions::from_mode(0o444)).unwrap();
        }
        let baton = world.path("baton");
        fs::hard_link(env!("CARGO_BIN_EXE_baton"), &baton)
            .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_baton"), &baton).map(|_| ()))
            .unwrap();
        for (path, mode) in [(world.path("."), 0o755), (data.clone(), 0o555)] {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
        Copy { world, data, baton }
    }

    #[allow(clippy::disallowed_methods, reason = "a test starts programs as a person does")]
    fn run(&self, args: &[&str]) -> Did {
        let template = self.world.command(&[]);
        let mut command = std::process::Command::new(&self.baton);
        command.arg("--data").arg(&self.data).args(args).current_dir("/").env_clear();
        command.envs(template.get_envs().filter_map(|(name, value)| Some((name, value?))));
        if fs::metadata("/proc/self").unwrap().uid() == 0 {
            command.uid(NOBODY).gid(NOBODY);
        }
        let output = command.stdin(std::process::Stdio::null()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Did { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = fs::set_permissions(&self.data, Permissions::from_mode(0o755));
    }
}

fn files(folder: &Path) -> Vec<String> {
    let name = |file: fs::DirEntry| file.file_name().into_string().unwrap();
    let mut names: Vec<String> = fs::read_dir(folder).unwrap().map(|file| name(file.unwrap())).collect();
    names.sort();
    names
}

#[test]
fn a_copy_that_cannot_be_written_to_can_be_looked_at() {
    for keep in [&["baton.db-wal", "baton.db-shm"][..], &["baton.db-wal"], &[]] {
        let copy = Copy::made(keep);
        let before = files(&copy.data);
        let threads = copy.run(&["threads", "ls", "--json"]);
        assert_eq!(
            (threads.code, threads.json()["items"][0]["id"].clone()),
            (0, json!("t")),
            "{keep:?}: {threads:?}"
        );
        let why = format!("nothing can be written here, so it is only read: {}: ", copy.data.display());
        assert!(threads.err.starts_with(&why), "{}", threads.err);
        let shown = copy.run(&["threads", "show", "t"]);
        assert!(shown.code == 0 && shown.out.contains("You said hello."), "{shown:?}");
        let runs = copy.run(&["runs", "ls", "--json"]).json();
        let run = runs["items"][0]["id"].as_str().unwrap();
        let account = copy.run(&["runs", "show", run, "--json"]).json();
        assert_eq!(account["status"], json!("ok"));
        let exported = copy.run(&["threads", "export", "t"]);
        assert!(exported.code == 0 && exported.out.contains("You said hello."), "{exported:?}");
        for command in ["usage", "approvals ls", "runs trace", "audit ls", "audit verify", "tools ls"] {
            let mut args: Vec<&str> = command.split(' ').collect();
            args.extend((command == "runs trace").then_some(run));
            let did = copy.run(&args);
            assert_eq!(did.code, 0, "{command}: {did:?}");
        }
        assert_eq!(files(&copy.data), before, "nothing was made there");
    }
}

#[test]
fn what_would_write_says_which_folder_it_cannot_write_to() {
    let copy = Copy::made(&[]);
    let folder = copy.data.display().to_string();
    for command in ["threads rm t", "threads fork t", "threads finish t"] {
        let did = copy.run(&command.split(' ').collect::<Vec<_>>());
        let last = did.err.lines().rev().nth(1).unwrap();
        assert!(
            did.code == 1
                && last.starts_with("error: the store cannot be written to: ")
                && last.contains(&folder),
            "{did:?}"
        );
    }
    for command in ["ask --model offline hello", "gc", "serve"] {
        let did = copy.run(&command.split(' ').collect::<Vec<_>>());
        assert!(did.code == 2 && did.err.starts_with(&format!("error: {folder}: ")), "{command}: {did:?}");
    }
    assert_eq!(files(&copy.data), ["baton.db"]);
}
