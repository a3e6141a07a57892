//! Rules about dependencies, read from `cargo metadata` and `Cargo.lock`.
//!
//! The lock file names the packages of every platform; their licences and features are only known where
//! cargo has them, so those are checked for the platform that runs the test.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

use super::{none, root};

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";
const MOST_PACKAGES: usize = 500;

/// The allowed dependencies between our crates. Every other package is foreign.
const EDGES: [(&str, &[&str]); 7] = [
    ("baton-core", &[]),
    ("baton-http", &[]),
    ("baton-store", &["baton-core"]),
    ("baton-model", &["baton-core", "baton-http"]),
    ("baton-tools", &["baton-core", "baton-http"]),
    ("baton-engine", &["baton-core", "baton-store", "baton-model", "baton-tools"]),
    ("baton", &["baton-core", "baton-store", "baton-model", "baton-tools", "baton-engine"]),
];

/// All dependencies of the core: no clock, no I/O, no randomness, no async. Name, default features, features.
const CORE: [(&str, bool, &[&str]); 6] = [
    ("jiff", false, &["alloc"]),
    ("serde", true, &["derive", "rc"]),
    ("serde_json", true, &["float_roundtrip", "raw_value"]),
    ("sha2", false, &[]),
    ("thiserror", true, &[]),
    ("uuid", false, &["serde", "std"]),
];

/// Banned packages, and the replacement of each.
const BANNED: [(&str, &str); 7] = [
    ("openssl", "no C TLS: rustls"),
    ("openssl-sys", "no C TLS: rustls"),
    ("native-tls", "no C TLS: rustls"),
    ("ring", "aws-lc-rs is the one crypto provider"),
    ("sqlx", "it cannot share a lock file with rusqlite"),
    ("async-std", "tokio is the one runtime"),
    ("actix-rt", "tokio is the one runtime"),
];

/// Packages that only these may bring in.
const FORCED: [(&str, &[&str]); 1] = [("chrono", &["reedline"])];

const LICENCES: [&str; 14] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "MPL-2.0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

static METADATA: LazyLock<Value> = LazyLock::new(|| {
    let host = cargo(&["-vV"]);
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned();
    let text =
        cargo(&["metadata", "--format-version", "1", "--offline", "--locked", "--filter-platform", &host]);
    serde_json::from_str(&text).unwrap()
});

#[allow(clippy::disallowed_methods, reason = "a test starts programs as a person does")]
fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "cargo {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn packages() -> &'static [Value] {
    METADATA["packages"].as_array().unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Our own packages.
pub(crate) fn ours() -> impl Iterator<Item = &'static Value> {
    packages().iter().filter(|package| package["source"].is_null())
}

/// The foreign packages that the workspace names itself.
pub(crate) fn direct() -> BTreeSet<String> {
    let foreign = |dependency: &&Value| dependency["path"].is_null();
    let asked = ours().flat_map(|package| package["dependencies"].as_array().unwrap()).filter(foreign);
    asked.map(|dependency| text(&dependency["name"]).to_owned()).collect()
}

/// Name, source and the names that it depends on, of every package on every platform in a lock file.
fn locked(file: &str) -> Vec<(String, Option<String>, Vec<String>)> {
    let lock: toml::Table = std::fs::read_to_string(root().join(file)).unwrap().parse().unwrap();
    let word = |value: &toml::Value| value.as_str().unwrap_or_default().to_owned();
    let name = |value: &toml::Value| word(value).split(' ').next().unwrap_or_default().to_owned();
    let packages = lock["package"].as_array().unwrap().iter();
    let read = |package: &toml::Value| {
        let needs = package.get("dependencies").and_then(toml::Value::as_array);
        let needs = needs.map(|all| all.iter().map(name).collect()).unwrap_or_default();
        (word(&package["name"]), package.get("source").map(word), needs)
    };
    packages.map(read).collect()
}

#[test]
fn our_crates_use_one_another_only_as_drawn() {
    let drawn: BTreeSet<&str> = EDGES.iter().map(|(name, _)| *name).collect();
    let ours: Vec<&Value> = ours().collect();
    let there: BTreeSet<&str> = ours.iter().map(|package| text(&package["name"])).collect();
    assert_eq!(there, drawn, "a new crate needs a reason, and its place in EDGES and ARCHITECTURE.md");
    let mut breaches = Vec::new();
    for package in ours {
        let name = text(&package["name"]);
        let allowed = EDGES.iter().find(|(from, _)| *from == name).map_or(&[][..], |(_, to)| to);
        for used in package["dependencies"].as_array().unwrap().iter().map(|to| text(&to["name"])) {
            if used != name && there.contains(used) && !allowed.contains(&used) {
                breaches.push(format!("{name} uses {used}"));
            }
        }
    }
    none(breaches, "the picture in ARCHITECTURE.md has no such edge: move the code, or pass the value in");
}

#[test]
fn the_core_asks_for_nothing_that_acts() {
    let core = ours().find(|package| package["name"] == "baton-core").unwrap();
    let normal = core["dependencies"].as_array().unwrap().iter().filter(|d| d["kind"].is_null());
    let asked: BTreeSet<(String, bool, Vec<String>)> = normal
        .map(|dependency| {
            let features = dependency["features"].as_array().unwrap().iter();
            let mut features: Vec<String> = features.map(|f| text(f).to_owned()).collect();
            features.sort();
            (text(&dependency["name"]).to_owned(), dependency["uses_default_features"] == true, features)
        })
        .collect();
    let allowed = CORE.iter().map(|(name, default, features)| {
        ((*name).to_owned(), *default, features.iter().map(|f| (*f).to_owned()).collect())
    });
    assert_eq!(
        asked,
        allowed.collect(),
        "baton-core has no clock, no I/O, no randomness and no async: ask for it in another crate; if the new \
         dependency only computes, add it to CORE"
    );
}

#[test]
fn there_is_one_cargo_feature() {
    let mut breaches = Vec::new();
    for package in ours() {
        let features = package["features"].as_object().unwrap().keys();
        let others = features.filter(|feature| *feature != "failpoints");
        breaches.extend(others.map(|feature| format!("{}: {feature}", text(&package["name"]))));
    }
    none(breaches, "one build has everything: make these a setting, or leave them out");
}

/// Checks the packages that are built, not those of the lock file: it also lists optional ones that no feature enables.
#[test]
fn banned_packages_stay_out() {
    let tree = cargo(&["tree", "--workspace", "--edges", "all", "--prefix", "none", "--offline", "--locked"]);
    let built: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(built.contains("rusqlite"), "this is not the tree");
    let breaches = BANNED.iter().filter(|(banned, _)| built.contains(banned));
    let breaches = breaches.map(|(name, why)| format!("{name}: {why}"));
    none(breaches.collect(), "find who brought these in with cargo tree -i NAME, and leave it out");
}

#[test]
fn unwanted_packages_come_only_where_they_are_forced() {
    let mut breaches = Vec::new();
    for (name, _, needs) in locked("Cargo.lock") {
        let unwanted = FORCED
            .iter()
            .filter(|(forced, by)| needs.iter().any(|need| need == forced) && !by.contains(&name.as_str()));
        breaches.extend(unwanted.map(|(forced, _)| format!("{name} brings in {forced}")));
    }
    none(breaches, "leave these out: jiff tells the time here");
}

#[test]
fn objects_keep_one_order() {
    let nodes = METADATA["resolve"]["nodes"].as_array().unwrap();
    let json = nodes.iter().filter(|node| text(&node["id"]).contains("#serde_json@"));
    let kept = json.filter(|node| node["features"].as_array().unwrap().iter().any(|f| f == "preserve_order"));
    none(
        kept.map(|node| text(&node["id"]).to_owned()).collect(),
        "preserve_order changes every digest: find who asked for it with cargo tree -e features -i serde_json",
    );
}

#[test]
fn packages_come_from_one_place_and_are_not_too_many() {
    let locked = locked("Cargo.lock");
    assert!(locked.len() <= MOST_PACKAGES, "{} packages: leave something out", locked.len());
    let elsewhere = locked.iter().filter(|(name, source, _)| match source {
        Some(source) => source != CRATES_IO,
        None => !EDGES.iter().any(|(ours, _)| ours == name),
    });
    none(elsewhere.map(|(name, ..)| name.clone()).collect(), "use a release from crates.io for these");
}

/// The fuzz targets are a workspace of their own, which only the full test builds.
#[test]
fn the_fuzz_targets_know_what_our_crates_need() {
    let asks = |package: &Value| -> BTreeSet<String> {
        let all = package["dependencies"].as_array().unwrap().iter();
        all.filter(|asked| asked["kind"] != "dev").map(|asked| text(&asked["name"]).to_owned()).collect()
    };
    let locked = locked("fuzz/Cargo.lock").into_iter();
    let known: Vec<_> = locked.filter(|(name, source, _)| source.is_none() && name != "baton-fuzz").collect();
    assert!(known.iter().any(|(name, ..)| name == "baton-model"), "this is not their lock file");
    let mut breaches = Vec::new();
    for (name, _, needs) in known {
        let package = ours().find(|package| package["name"] == name.as_str());
        if package.map(asks) != Some(needs.into_iter().collect()) {
            breaches.push(name);
        }
    }
    none(breaches, "run cargo update --workspace --manifest-path fuzz/Cargo.toml");
}

#[test]
fn licences_are_permissive() {
    let mut breaches = Vec::new();
    for package in packages() {
        let licence = text(&package["license"]);
        if !is_allowed(licence) {
            breaches.push(format!("{}: {licence:?}", text(&package["name"])));
        }
    }
    none(breaches, "leave these out; or, if the licence allows what we do, add it to LICENCES");
}

/// Whether an SPDX expression can be satisfied with allowed licences alone.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.trim();
    let split = |operator: &str| -> Option<(String, String)> {
        let at = expression.match_indices(operator).map(|(at, _)| at);
        let depth = |at: usize| expression[..at].matches('(').count() - expression[..at].matches(')').count();
        let at = at.into_iter().find(|at| depth(*at) == 0)?;
        Some((expression[..at].to_owned(), expression[at + operator.len()..].to_owned()))
    };
    if let Some((left, right)) = split(" OR ").or_else(|| split("/")) {
        return is_allowed(&left) || is_allowed(&right);
    }
    if let Some((left, right)) = split(" AND ") {
        return is_allowed(&left) && is_allowed(&right);
    }
    match expression.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        Some(inner) => is_allowed(inner),
        None => LICENCES.contains(&expression),
    }
}

#[test]
fn licence_expressions_are_understood() {
    for yes in ["MIT", "GPL-3.0 OR MIT", "MIT/Apache-2.0", "(GPL-2.0 OR MIT) AND Unicode-3.0", "(MIT)"] {
        assert!(is_allowed(yes), "{yes}");
    }
    for no in ["", "GPL-3.0", "MIT AND GPL-3.0", "(GPL-2.0 OR AGPL-3.0) AND MIT", "MITx"] {
        assert!(!is_allowed(no), "{no}");
    }
}
