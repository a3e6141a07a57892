//! The checks after all runs have ended: every promise was kept.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::wire::{self, Frame};
use super::batch::Kept;
use super::pair::Pair;
use super::play;
use super::reader::numbers;

/// Steps that were written under an epoch that was over, or that contradict their claim.
pub(super) const STALE: &str = "SELECT count(*) FROM claims c JOIN steps s USING (tenant, run)
    WHERE (s.epoch < c.epoch AND s.last_seq > c.base_seq) OR (s.epoch >= c.epoch AND s.first_seq <= c.base_seq)";

/// Checks everything. `sql` queries the database itself.
pub(super) fn everything(pair: &Pair, kept: &[Kept], sql: &dyn Fn(&str) -> String) {
    assert_eq!(sql(STALE), "0", "somebody wrote to a run that was taken from them");
    assert_eq!(sql("SELECT count(*) FROM runs"), kept.len().to_string(), "each key began one run");
    assert_eq!(sql("SELECT count(*) FROM runs WHERE status < 3"), "0", "all have ended");
    let written = play::written(&pair.ledger());
    for Kept { n, trails } in kept {
        let run = &trails[0].run;
        let [log, other] = [0, 1].map(|which| log(&pair.homes[which].address, run));
        assert_eq!(log, other, "both processes tell the same");
        for trail in trails {
            assert_eq!(trail.frames, log, "what was seen of run {n} is what is kept of it");
        }
        whole(*n, &log, &written);
    }
}

/// Checks one run, of a number, that is read at these processes.
pub(super) fn of_one(addresses: &[&str], run: &str, n: usize, ledger: &std::path::Path) {
    let logs: Vec<_> = addresses.iter().map(|address| log(address, run)).collect();
    assert!(logs.iter().all(|log| *log == logs[0]), "all processes tell the same: {logs:?}");
    whole(n, &logs[0], &play::written(ledger));
}

/// The log of a run, read from its start.
fn log(address: &str, run: &str) -> Vec<Frame> {
    wire::open(address, "GET", &format!("/v1/runs/{run}/events?dialect=raw"), &[], None).rest()
}

/// Checks that a log has no gaps, that its epochs only grow, and that it holds everything that the run did.
fn whole(n: usize, log: &[Frame], written: &BTreeMap<String, usize>) {
    let all: Vec<(u32, u64)> = log.iter().map(numbers).collect();
    assert_eq!(all.iter().map(|it| it.1).collect::<Vec<_>>(), (1..=log.len() as u64).collect::<Vec<_>>());
    assert!(all.is_sorted_by_key(|it| it.0), "{all:?}");
    let ends: Vec<&Value> = log.iter().filter(|it| it.event == "ended").map(|it| &it.data).collect();
    assert_eq!(ends.len(), 1, "{ends:?}");
    assert_eq!((&log.last().unwrap().data["type"], &ends[0]["status"]), (&"ended".into(), &"ok".into()));
    assert_eq!(texts(log), play::SAYS, "run {n}: {log:#?}");
    let named = |name: &str| log.iter().filter(|it| it.event == name).map(|it| &it.data).collect::<Vec<_>>();
    let results = named("tool_result");
    assert_eq!((named("tool_start").len(), results.len()), (2, 2), "{results:?}");
    for ((effect, class), result) in play::EFFECTS.into_iter().zip(results) {
        let times = written.get(&play::line(n, effect)).copied().unwrap_or_default();
        match result["status"].as_str().unwrap() {
            "ok" => assert_eq!(times, 1, "run {n}: {effect}"),
            // It may or may not have happened, and was not tried again.
            "unknown" => assert!(class == "unsafe" && times <= 1, "run {n}: {effect} happened {times} times"),
            other => panic!("run {n}: {effect} ended {other}: {result}"),
        }
    }
}

/// The text of each message, without void text.
fn texts(log: &[Frame]) -> Vec<String> {
    let mut texts: Vec<(String, String)> = Vec::new();
    for frame in log.iter().filter(|it| it.event == "delta" || it.event == "restarted") {
        let id = frame.data["message_id"].as_str().unwrap();
        let at = texts.iter().position(|(known, _)| known == id).unwrap_or_else(|| {
            texts.push((id.to_owned(), String::new()));
            texts.len() - 1
        });
        match frame.data["text"].as_str() {
            Some(piece) => texts[at].1.push_str(piece),
            None => texts[at].1.clear(),
        }
    }
    texts.into_iter().map(|(_, text)| text).collect()
}
