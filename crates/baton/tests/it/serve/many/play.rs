//! The script of the runs in these tests: three answers word by word, and between them a call that must not run twice
//! and one that may be repeated.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

/// The model's answers.
pub(super) const SAYS: [&str; 3] = [
    "I begin with the first of the two things, and do not hurry over it. ",
    "One is done as far as anybody knows, so the second comes now, with care. ",
    "That was all there was to do, and it took as many words as were needed.",
];

/// The effects of a run: the line that is written, and the effect class, which decides how a crash closes the call.
pub(super) const EFFECTS: [(&str, &str); 2] = [("pays", "unsafe"), ("files", "idempotent")];

/// The message that run number `n` begins with; it is in no other.
pub(super) fn message(n: usize) -> String {
    format!("run-{n:05}.")
}

/// The line that an effect of a run leaves behind.
pub(super) fn line(n: usize, effect: &str) -> String {
    format!("{} {effect}", message(n))
}

/// A script for that many runs.
pub(super) fn script(runs: usize, ledger: &Path, piece_ms: u64) -> Value {
    let replies: Vec<Value> = (0..runs).flat_map(|n| replies(n, ledger)).collect();
    json!({"v": 1, "piece_ms": piece_ms, "replies": replies})
}

fn replies(n: usize, ledger: &Path) -> Vec<Value> {
    let reply = |(at, says): (usize, &&str)| {
        let mut items = vec![json!({"text": says})];
        if let Some((effect, class)) = EFFECTS.get(at) {
            let arguments = json!({"file": ledger, "line": line(n, effect), "class": class, "delay_ms": 10});
            items.push(json!({"call": {"name": "test_effect", "arguments": arguments}}));
        }
        json!({"match": message(n), "do": items})
    };
    SAYS.iter().enumerate().map(reply).collect()
}

/// The number of times that each line was written.
pub(super) fn written(ledger: &Path) -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(ledger).unwrap_or_default();
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let (_key, line) = line.split_once('\t').expect("a key and a line");
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    counts
}
