//! The documents are true: the tests that they name exist, and the commands that they show work.

mod commands;

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::manifests::direct;
use crate::tidy::{none, root, texts};

/// The five documents and how many requirements each has.
const REQUIREMENTS: [(&str, u32); 5] = [("000", 65), ("001", 60), ("002", 85), ("003", 58), ("004", 46)];

fn page(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The cells of every table row of a page, without header rows and rules.
fn rows(page: &str) -> Vec<Vec<&str>> {
    let is_rule = |line: &str| line.chars().all(|c| matches!(c, '|' | '-' | ' ' | ':'));
    let lines: Vec<&str> = page.lines().collect();
    let is_header = |at: usize| lines.get(at + 1).is_some_and(|next| next.starts_with('|') && is_rule(next));
    let row = |at: &usize| lines[*at].starts_with('|') && !is_rule(lines[*at]) && !is_header(*at);
    let cells = |at: usize| lines[at].trim().trim_matches('|').split('|').map(str::trim).collect();
    (0..lines.len()).filter(row).map(cells).collect()
}

/// The texts between single backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The names of all tests: functions with a test attribute, and those that a macro makes tests of.
fn tests() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in texts().into_iter().filter(|file| file.path.ends_with(".rs")) {
        let mut marked = false;
        let mut listed = false;
        for line in file.text.lines().map(str::trim) {
            let function = line.trim_start_matches("pub(crate) ").trim_start_matches("async ");
            if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
                marked = true;
            } else if let Some(name) = function.strip_prefix("fn ") {
                found.extend(marked.then(|| identifier(name)));
                marked = false;
            } else if !line.starts_with("#[") && !line.starts_with("//") {
                marked = false;
            }
            if let Some(rest) = LISTS.iter().find_map(|list| line.strip_prefix(list)) {
                listed = !rest.ends_with(");"); // a short list stands on one line
                found.extend(rest.split(',').map(identifier).filter(|name| !name.is_empty()));
            } else if line.starts_with([')', '}']) {
                listed = false;
            } else if listed {
                let names = line.split(',').map(identifier).filter(|name| !name.is_empty());
                found.extend(names.take(if line.contains(':') { 1 } else { usize::MAX }));
            }
        }
    }
    found
}

/// Macros that make a test, or one a store and mode, of every name in them.
const LISTS: [&str; 4] = ["everywhere!(", "on_every_store!(", "on_every_store_with_rows!(", "caught! {"];

fn identifier(text: &str) -> String {
    text.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

#[test]
fn every_requirement_stands_there_once() {
    let page = page("docs/requirements.md");
    let ids: Vec<&str> = rows(&page).into_iter().map(|cells| cells[0]).collect();
    let all = |(document, last): &(&str, u32)| {
        (1..=*last).map(|n| format!("{document}-{n:02}")).collect::<Vec<_>>()
    };
    let expected: Vec<String> = REQUIREMENTS.iter().flat_map(all).collect();
    assert_eq!(expected.len(), 314);
    assert_eq!(ids, expected, "docs/requirements.md has each id once, in order");
}

#[test]
fn requirements_are_shown_by_tests_that_exist() {
    let (page, tests) = (page("docs/requirements.md"), tests());
    let mut breaches = Vec::new();
    let mut counts: BTreeMap<&str, [u32; 3]> = BTreeMap::new();
    for cells in rows(&page) {
        let (id, shown) = (cells[0], cells[2]);
        let count = counts.entry(&id[..3]).or_default();
        if shown == "open" {
            count[1] += 1;
        } else if shown.strip_prefix("none: ").is_some_and(|why| !why.is_empty()) {
            count[2] += 1;
        } else {
            count[0] += 1;
            let names: Vec<&str> = quoted(shown).collect();
            let only_names = names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            if names.is_empty() || shown != only_names {
                breaches.push(format!("{id}: {shown:?} is neither open, nor none: WHY, nor `test`, `test`"));
            }
            let missing = names.into_iter().filter(|name| !tests.contains(*name));
            breaches.extend(missing.map(|name| format!("{id}: there is no test {name}")));
        }
    }
    for (document, [shown, open, none]) in &counts {
        println!("{document}: {shown} shown, {open} open, {none} with nothing to show");
    }
    none(breaches, "docs/requirements.md: correct the column `shown by`");
}

#[test]
fn promises_name_tests_that_exist() {
    let (page, tests) = (page("docs/promises.md"), tests());
    let promises: Vec<&str> = page.split("\n## ").skip(1).collect();
    let numbers: Vec<String> =
        promises.iter().map(|promise| promise.split('.').next().unwrap().to_owned()).collect();
    assert_eq!(numbers, (1..=14).map(|n| n.to_string()).collect::<Vec<_>>(), "fourteen promises, in order");
    let mut breaches = Vec::new();
    for promise in promises {
        let title = promise.lines().next().unwrap_or_default();
        let words: Vec<&str> = promise.split_whitespace().collect();
        let words = words.join(" ");
        let silent = [" Covered: ", " Not covered: "].into_iter().filter(|what| !words.contains(what));
        breaches.extend(silent.map(|what| format!("{title}: does not say `{}`", what.trim())));
        let tried = promise.lines().filter(|line| line.starts_with("- `"));
        let names: Vec<&str> = tried.clone().filter_map(|line| quoted(line).next()).collect();
        if names.is_empty() && !promise.contains("\nLater: ") {
            breaches.push(format!("{title}: names no test, and no `Later:` says why"));
        }
        let missing = names.into_iter().filter(|name| !tests.contains(*name));
        breaches.extend(missing.map(|name| format!("{title}: there is no test {name}")));
    }
    none(breaches, "docs/promises.md: correct the lists of tests");
}

#[test]
fn every_dependency_has_a_reason() {
    let page = page("docs/dependencies.md");
    let rows = rows(&page);
    let named: Vec<String> =
        rows.iter().filter_map(|cells| quoted(cells[0]).next()).map(str::to_owned).collect();
    let once: BTreeSet<String> = named.iter().cloned().collect();
    assert_eq!(named.len(), once.len(), "docs/dependencies.md names a dependency twice");
    assert_eq!(
        once,
        direct(),
        "docs/dependencies.md (left) names exactly what the manifests ask for (right)"
    );
    let bare = rows.iter().filter(|cells| cells.len() != 3 || cells.iter().any(|cell| cell.is_empty()));
    none(
        bare.map(|cells| cells[0].to_owned()).collect(),
        "say what each of these is for, and what it replaces",
    );
}

/// Relative links, and paths between backticks that begin at the repository's root.
#[test]
fn what_a_page_points_at_is_there() {
    let mut breaches = Vec::new();
    for page in texts().into_iter().filter(|file| file.path.ends_with(".md")) {
        let folder = root().join(&page.path).parent().unwrap().to_owned();
        let links = page.text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        let links = links.filter(|link| !link.is_empty() && !link.contains("://"));
        let missing = links.filter(|link| !folder.join(link).exists());
        breaches.extend(missing.map(|link| format!("{}: {link}", page.path)));
        let paths =
            quoted(&page.text).filter(|path| path.starts_with("crates/") || path.starts_with("docs/"));
        let missing = paths.filter(|path| !root().join(path).exists());
        breaches.extend(missing.map(|path| format!("{}: {path}", page.path)));
    }
    none(breaches, "these are not there: correct the page");
}

/// A contributor finds every way to check Baton, and every benchmark.
#[test]
fn the_page_for_contributors_names_every_check() {
    let (page, test) = (page("CONTRIBUTING.md"), page("test"));
    let usage = test.lines().find_map(|line| line.strip_prefix("Usage: ./test [")).unwrap();
    let flags = usage.trim_end_matches(']').split(" | ").filter(|flag| *flag != "--help");
    let checks = flags.map(|flag| format!("./test {flag} "));
    let manifests = texts().into_iter().filter(|file| file.path.ends_with("Cargo.toml"));
    let benches = manifests.filter(|file| file.text.contains("[[bench]]")).map(|file| {
        let name = file.path.trim_start_matches("crates/").trim_end_matches("/Cargo.toml");
        format!("cargo bench -p {name} ")
    });
    let wanted: Vec<String> = checks.chain(benches).collect();
    assert!(wanted.len() >= 4, "{wanted:?}");
    none(
        wanted.into_iter().filter(|command| !page.contains(command)).collect(),
        "CONTRIBUTING.md: say what these are for",
    );
}
