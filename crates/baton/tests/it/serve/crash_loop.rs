//! A service that is killed again and again while it drives many runs: none of them is the cause, and none is given up.

use serde_json::{Value, json};

use super::served::{Served, until};
use super::several::{Kept, Several, get, post, status};

const SETTINGS: &str = "[engine]\nadopt_ms = 50\n";
/// More kills than a run may cause before it is given up.
const KILLS: usize = 7;

fn script(does: &Value) -> Value {
    json!({"v": 1, "replies": [], "otherwise": {"do": [does]}})
}

/// The number of runs that a process drives now.
fn driven(served: &Served) -> u64 {
    let text = String::from_utf8(get(served, "/metrics").body).unwrap();
    let figure = text.lines().find_map(|line| line.strip_prefix("baton_runs_live ")).unwrap();
    figure.trim().parse().unwrap()
}

fn loses_none(kept: Kept) {
    let several = Several::new(kept);
    several.play(&script(&json!({"stall": true})), SETTINGS);
    let served = several.start();
    let begin = |n| {
        let begun = post(&served, "/v1/runs", json!({"flow": "turn", "input": format!("of {n}")}));
        begun.json()["run_id"].as_str().unwrap().to_owned()
    };
    let runs: Vec<String> = (0..10).map(begin).collect();
    until("it drives all of them", || driven(&served) == 10);
    drop(served); // with SIGKILL
    for kill in 1..KILLS {
        let served = several.start();
        // At first all of them are claimed; those that two processes died with are driven alone.
        let at_least = if kill == 1 { 10 } else { 1 };
        until("it drives some of them", || driven(&served) >= at_least);
        assert!(kill == 1 || driven(&served) == 1, "suspects are driven alone");
    }
    several.play(&script(&json!({"text": "Done."})), SETTINGS);
    let served = several.start();
    for run in &runs {
        until(&format!("{run} ends"), || !matches!(status(&served, run).as_str(), "running" | "queued"));
    }
    let ends: Vec<String> = runs.iter().map(|run| status(&served, run)).collect();
    assert_eq!(ends, ["ok"; 10]);
}

#[test]
fn ten_runs_of_a_service_that_is_killed_again_and_again_all_end_well() {
    loses_none(Kept::Sqlite);
}

#[test]
fn ten_runs_of_a_service_that_is_killed_again_and_again_all_end_well_on_postgres() {
    loses_none(Kept::Postgres);
}
