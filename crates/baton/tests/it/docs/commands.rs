//! Every `baton …` line of a fenced `console` or `sh` block runs, in order, with the real binary.
//!
//! The commands of one page share a folder and its data, as they would for somebody who follows the page.
//! A block whose info string says `no-test: WHY` is left out. Lines of other programs are not run. On the
//! page about models an imitation of Ollama answers; everywhere else there is none.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::imitation::ollama;
use crate::tidy::{none, texts};
use crate::world::{NO_OLLAMA, PATIENT};

/// The commands of a page.
fn commands(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fence: Option<bool> = None;
    for line in page.lines() {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            fence = match fence {
                Some(_) => None,
                None => Some(is_run(info)),
            };
        } else if fence == Some(true) {
            let line = line.trim();
            let line = line.strip_prefix("$ ").unwrap_or(line);
            if line == "baton" || line.starts_with("baton ") {
                found.push(line.to_owned());
            }
        }
    }
    found
}

fn is_run(info: &str) -> bool {
    let language = info.split(' ').next().unwrap_or_default();
    let excused = info.split_once("no-test: ").is_some_and(|(_, why)| !why.is_empty());
    matches!(language, "console" | "sh") && !excused
}

/// Runs a command in a folder that is its whole world; answers what went wrong.
fn run(command: &str, folder: &Path, ollama: &str) -> Result<(), String> {
    let program = Path::new(env!("CARGO_BIN_EXE_baton")).parent().unwrap();
    let path = std::env::join_paths(
        std::iter::once(program.to_owned())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let output = Command::new("sh")
        .args(["-e", "-c", command])
        .current_dir(folder)
        .env_clear()
        .env("PATH", path.unwrap())
        .env("HOME", folder)
        .envs([(NO_OLLAMA.0, ollama), PATIENT])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    if output.status.success() {
        return Ok(());
    }
    let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    Err(format!("{command}: {}\n{}", output.status, said.concat()))
}

#[test]
fn every_command_that_is_shown_works() {
    let pages = texts().into_iter().filter(|file| {
        file.path.ends_with(".md") && (!file.path.contains('/') || file.path.starts_with("docs/"))
    });
    let mut breaches = Vec::new();
    let mut count = 0;
    let imitation = ollama(&["llama3.2:3b"], ["Yes, ", "I do."]).url();
    for page in pages {
        let folder = tempfile::tempdir().unwrap();
        let ollama = if page.path == "docs/models.md" { imitation.as_str() } else { NO_OLLAMA.1 };
        for command in commands(&page.text) {
            count += 1;
            breaches.extend(
                run(&command, folder.path(), ollama).err().map(|why| format!("{}: {why}", page.path)),
            );
        }
    }
    println!("{count} commands");
    none(breaches, "correct these, or write `no-test: WHY` behind the opening fence:");
}

#[test]
fn fences_are_understood() {
    let page = "```console\n$ baton a\noutput\n$ cargo b\n```\nbaton c\n```sh\nbaton d # why\nls\n```\n\
                ```console no-test: needs a terminal\n$ baton chat\n```\n```text\nbaton e\n```\n```sh\nbaton\nbatons\n```\n";
    assert_eq!(commands(page), ["baton a", "baton d # why", "baton"]);
}
