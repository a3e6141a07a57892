//! Rules about files: how they begin, their length, their names, and words that they never contain.

use super::{Text, none, texts};

/// The longest file that needs no reason.
const MOST_LINES: usize = 400;

/// Longer files, and why each is better whole.
const LONG_FILES: [(&str, &str); 2] = [
    ("crates/baton-core/src/thread/entry.rs", "the eleven entry types and their one conversion"),
    ("crates/baton-store/src/lib.rs", "the store's whole surface, one method after the other"),
];

/// Names that do not describe the content.
const EMPTY_NAMES: [&str; 8] = ["mod", "util", "utils", "helper", "helpers", "common", "types", "misc"];

fn rust() -> Vec<Text> {
    texts().into_iter().filter(|file| file.path.ends_with(".rs")).collect()
}

fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

#[test]
fn modules_open_with_what_they_are_for() {
    let undocumented = rust().into_iter().filter(|file| !is_test(&file.path));
    let undocumented = undocumented.filter(|file| !file.text.starts_with("//!"));
    none(
        undocumented.map(|file| file.path).collect(),
        "open each of these with `//!`: what the module is for",
    );
}

#[test]
fn files_stay_short() {
    let reason = |path: &str| LONG_FILES.iter().any(|(long, _)| *long == path);
    let long = |file: &Text| file.text.lines().count() > MOST_LINES;
    let breaches = rust().into_iter().filter(|file| long(file) && !reason(&file.path)).map(|file| file.path);
    none(breaches.collect(), "split these files, or add them to LONG_FILES with the reason why not");
}

#[test]
fn reasons_for_long_files_are_still_needed() {
    let files = rust();
    let long =
        |path: &str| files.iter().any(|file| file.path == path && file.text.lines().count() > MOST_LINES);
    let breaches = LONG_FILES.iter().filter(|(path, why)| !long(path) || why.is_empty());
    none(breaches.map(|(path, _)| (*path).to_owned()).collect(), "take these out of LONG_FILES");
}

#[test]
fn names_say_what_is_inside() {
    let stem = |path: &str| path.rsplit('/').next().unwrap_or(path).trim_end_matches(".rs").to_owned();
    let breaches = rust().into_iter().filter(|file| EMPTY_NAMES.contains(&stem(&file.path).as_str()));
    none(
        breaches.map(|file| file.path).collect(),
        "name these after what is in them (and write foo.rs beside foo/, not foo/mod.rs)",
    );
}

const MACHINE: &str = "a path of one machine: use a folder that the program is given";
const REGISTRY: &str = "where packages come from is the package manager's business";
const UNFINISHED: &str = "finish it, or leave it out";

/// Words that no file contains, in two halves so that this one does not contain them either.
const NEVER_SAID: [([&str; 2], &str); 14] = [
    (["/wo", "rk/"], MACHINE),
    (["/ro", "ot/"], MACHINE),
    (["/ho", "me/"], MACHINE),
    (["/Us", "ers/"], MACHINE),
    (["index.", "crates.io"], REGISTRY),
    (["static.", "crates.io"], REGISTRY),
    (["spar", "se+"], REGISTRY),
    (["registry.", "npmjs"], REGISTRY),
    (["python", "hosted"], REGISTRY),
    (["sub", "agent"], "write sub-agent"),
    (["to", "do!("], UNFINISHED),
    (["unimple", "mented!("], UNFINISHED),
    (["FIX", "ME"], UNFINISHED),
    (
        ["#[ig", "nore"],
        "a test that does not run shows nothing; what writes files on request asks a variable",
    ),
];

#[test]
fn some_things_are_never_said() {
    let never = NEVER_SAID.map(|(halves, why)| (halves.concat(), why));
    let mut breaches = Vec::new();
    for Text { path, text } in texts() {
        for (at, line) in text.lines().enumerate() {
            let said = never.iter().filter(|(words, _)| line.contains(words.as_str()));
            breaches.extend(said.map(|(words, why)| format!("{path}:{}: {words}: {why}", at + 1)));
        }
    }
    none(breaches, "take these out:");
}

/// The core decides; it does no I/O. Its manifest shows that for crates, this for `std`.
#[test]
fn the_core_uses_nothing_of_std_that_acts() {
    let acts = ["fs", "net", "env", "process", "io", "os"].map(|module| format!("std::{module}"));
    let acts = acts.into_iter().chain(["std::thread", "Instant", "SystemTime", "async "].map(str::to_owned));
    let acts: Vec<String> = acts.collect();
    let mut breaches = Vec::new();
    let of_core =
        |file: &Text| file.path.starts_with("crates/baton-core/src/") && !file.path.contains("/tests/");
    for Text { path, text } in rust().into_iter().filter(of_core) {
        let code = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        for (at, line) in code {
            let used = acts.iter().filter(|word| line.contains(word.as_str()));
            breaches.extend(used.map(|word| format!("{path}:{}: {word}", at + 1)));
        }
    }
    none(breaches, "baton-core only decides: let the engine do this and pass the value in");
}

/// The code that may speak HTTP: models, the three ways out of the tools, and the exporter of telemetry.
const SPEAK_HTTP: [&str; 6] = [
    "crates/baton-model/src/",
    "crates/baton-tools/src/egress.rs",
    "crates/baton-tools/src/egress/",
    "crates/baton-tools/src/builtin/web_search",
    "crates/baton-tools/src/execution/",
    "crates/baton/src/telemetry",
];

#[test]
fn only_models_tools_and_telemetry_speak_http() {
    let of_ours = |file: &Text| file.path.starts_with("crates/") && file.path.contains("/src/");
    let may = |file: &Text| SPEAK_HTTP.iter().any(|place| file.path.starts_with(place));
    let mut breaches = Vec::new();
    for Text { path, text } in rust().into_iter().filter(|file| of_ours(file) && !may(file)) {
        // An address alone sends nothing.
        let names = |line: &str| line.replace("reqwest::Url", "").contains("reqwest");
        let found = text.lines().enumerate().filter(|(_, line)| names(line));
        breaches.extend(found.map(|(at, line)| format!("{path}:{}: {}", at + 1, line.trim())));
    }
    none(breaches, "reach models through baton-model, and what a model names through the egress client");
}

#[test]
fn who_may_speak_http_does() {
    let files = rust();
    let speaks =
        |place: &str| files.iter().any(|it| it.path.starts_with(place) && it.text.contains("reqwest"));
    let breaches = SPEAK_HTTP.iter().filter(|place| !speaks(place));
    none(breaches.map(|place| (*place).to_owned()).collect(), "take these out of SPEAK_HTTP");
}
