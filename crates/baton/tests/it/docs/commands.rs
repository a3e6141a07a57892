//! Every `baton …` line of a fenced `console` or `sh` block runs, in order, with the real binary.
//!
//! The commands of one page share a folder and its data, as they would for a user who follows the page. A block whose
//! info string says `no-test: WHY` is left out. Lines of other programs are not run. The lines that a `console` block
//! shows below a command are printed by it, in order, with any lines in between. A command succeeds, unless a comment
//! behind it says `exit code N`. On the page about models an imitation of Ollama answers, and on the one about the
//! personal agent a search service; everywhere else there is none.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::imitation::ollama;
use crate::server::{Answer, Server};
use crate::tidy::{none, root, texts};
use crate::world::{NO_OLLAMA, PATIENT, World};

/// A command, and the lines of its output that the page shows.
#[derive(Debug, PartialEq)]
struct Shown {
    command: String,
    output: Vec<String>,
}

/// The commands of a page.
fn commands(page: &str) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    let mut fence: Option<bool> = None;
    let mut is_ours = false;
    for line in page.lines() {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            is_ours = false;
            fence = match fence {
                Some(_) => None,
                None => Some(is_run(info)),
            };
        } else if fence == Some(true) {
            let command = line.trim().strip_prefix("$ ");
            let text = command.unwrap_or(line.trim());
            if text == "baton" || text.starts_with("baton ") {
                found.push(Shown { command: text.to_owned(), output: Vec::new() });
                is_ours = command.is_some();
            } else if command.is_some() {
                is_ours = false;
            } else if is_ours && !text.is_empty() {
                found.last_mut().unwrap().output.push(line.trim_end().to_owned());
            }
        }
    }
    found
}

/// The exit code that a command's comment states.
fn exit_code(command: &str) -> i32 {
    let said = command.rsplit_once("exit code ").and_then(|(_, code)| code.trim().parse().ok());
    said.unwrap_or_default()
}

fn is_run(info: &str) -> bool {
    let language = info.split(' ').next().unwrap_or_default();
    let excused = info.split_once("no-test: ").is_some_and(|(_, why)| !why.is_empty());
    matches!(language, "console" | "sh") && !excused
}

/// Runs a command in a folder that is its whole world; returns the first mismatch.
#[allow(clippy::disallowed_methods, reason = "a test starts programs as a person does")]
fn run(shown: &Shown, folder: &Path, ollama: &str) -> Result<(), String> {
    let command = &shown.command;
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
    let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    let said = said.concat();
    let mut printed = said.lines().map(str::trim_end);
    let missing = shown.output.iter().find(|line| !printed.any(|printed| printed == line.as_str()));
    if let Some(line) = missing {
        return Err(format!("{command}: does not print {line:?} there, but\n{said}"));
    }
    if output.status.code() == Some(exit_code(command)) {
        return Ok(());
    }
    Err(format!("{command}: {}\n{said}", output.status))
}

/// Settings with a search service that knows one page.
fn searching(folder: &Path) {
    let page = json!({"title": "K2", "url": "https://example.com/k2", "content": "K2 is 8,611 m high."});
    let found = json!({"results": [page]}).to_string();
    let service = Server::deciding(move |_, _| Answer::json(200, &found));
    let settings = folder.join(".config/baton");
    std::fs::create_dir_all(&settings).unwrap();
    let text = format!("[search]\nprovider = \"searxng\"\nurl = \"{}\"\n", service.url());
    std::fs::write(settings.join("baton.toml"), text).unwrap();
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
        if page.path == "docs/personal-agent.md" {
            searching(folder.path());
        }
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
    let page = "```console\n$ baton a\n  output\n\nmore\n$ cargo b\nnot ours\n```\nbaton c\n```sh\nbaton d # why\nls\n```\n\
                ```console no-test: needs a terminal\n$ baton chat\n```\n```text\nbaton e\n```\n```sh\nbaton\nbatons\n```\n";
    let shown = |command: &str, output: &[&str]| Shown {
        command: command.to_owned(),
        output: output.iter().map(|line| (*line).to_owned()).collect(),
    };
    assert_eq!(
        commands(page),
        [shown("baton a", &["  output", "more"]), shown("baton d # why", &[]), shown("baton", &[])]
    );
    assert_eq!(["baton a", "baton a  # it waits: exit code 3"].map(exit_code), [0, 3]);
}

/// A result without the values that differ every time.
fn without_ids(mut result: Value) -> Value {
    result["trace_id"] = json!("…");
    for step in result["steps"].as_array_mut().unwrap() {
        for id in ["span_id", "call_id"] {
            if let Some(id) = step["metadata"].get_mut(id) {
                *id = json!("…");
            }
        }
    }
    result
}

#[test]
fn the_result_that_is_shown_is_what_comes_back() {
    let page = std::fs::read_to_string(root().join("docs/personal-agent.md")).unwrap();
    let shown = page.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let out = World::new().baton(&["ask", "--json", "--steps", "What is 17 * 23?"]).ok();
    let result: Value = serde_json::from_str(out.lines().last().unwrap()).unwrap();
    assert_eq!(serde_json::from_str::<Value>(shown).unwrap(), without_ids(result));
}
