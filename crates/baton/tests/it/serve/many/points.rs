//! SIGSTOP at every point of a turn for longer than a lease, as on machines of their own: another process takes the run
//! and ends it; then the stopped one goes on.

use std::fs::File;
use std::io::Write;

use rustix::process::Signal;
use serde_json::json;

use super::super::served::{Served, until};
use super::pair::{LEASE_S, figure, open, put_apart};
use super::{play, rounds, verdict};
use crate::points::{By, passed};
use crate::postgres_server::Schema;
use crate::world::World;

/// The number of stops that are tried at once: most of the time they wait for a lease to run out.
const AT_ONCE: usize = 6;

/// A stop of a process that drives one run.
fn stop_at(point: &str, hit: u32) {
    let (schema, stage) = (Schema::new(), World::new());
    let ledger = stage.path("ledger");
    let model = stage.script(&play::script(1, &ledger, 1));
    let settings = format!("model = '{model}'\n\n[store]\nlease_s = {LEASE_S}\n");
    let stops = format!("{point}:{hit}:stop");
    let victim = open(&settings, &schema.url, &[("BATON_FAILPOINT", stops.as_str())]);
    let other = open(&settings, &schema.url, &[]);
    put_apart(&schema);
    let count = |what: &str| schema.run(&format!("SELECT count(*) FROM {what}")).parse::<u32>().unwrap();

    let body = json!({"flow": "turn", "input": play::message(0)}).to_string();
    let mut asking = victim.connect();
    let head =
        format!("POST /v1/runs HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n", victim.address);
    write!(asking, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    until(&format!("it stops at {stops}"), || victim.stands_still());
    leaves_the_ledger(&victim, &ledger);
    let all_ended = || count("runs WHERE status < 3") == 0;
    // Before its first commit there is no run to claim; the stopped process then begins it when it goes on.
    if count("runs") > 0 {
        until(&format!("another process ends the run, {stops}"), all_ended);
        assert!(count("claims") > 0 || hit > 1, "{stops}: it was taken");
    }
    victim.signal(Signal::CONT);
    until(&format!("all have ended, {stops}"), || count("runs") == 1 && all_ended());
    until("a process rests", || figure(&victim, "runs_live") == 0);
    verdict::of_one(&[&victim.address, &other.address], &schema.run("SELECT run FROM runs"), 0, &ledger);
    if (point, hit) == ("tool.post_intent", 1) {
        let paid = play::line(0, play::EFFECTS[0].0);
        assert!(
            !play::written(&ledger).contains_key(&paid),
            "what was not sent by then is not sent any more"
        );
    }
    assert_eq!(schema.run(verdict::STALE), "0", "{stops}: somebody wrote to a run that was taken from them");
}

/// Lets a process that has the file of effects locked go on until it has released it: the others could not write to it.
fn leaves_the_ledger(victim: &Served, ledger: &std::path::Path) {
    let file = File::options().append(true).create(true).open(ledger).unwrap();
    while file.try_lock().is_err() {
        victim.signal(Signal::CONT);
        victim.stop();
    }
}

/// With `BATON_FULL=1` every point, twice; otherwise those around the sending, once.
fn stops() -> Vec<(&'static str, u32)> {
    if rounds(1) == 1 {
        return vec![("tool.post_intent", 1), ("tool.pre_send", 1), ("store.post_commit", 2)];
    }
    let hits = |point| {
        let once = matches!(point, "admit.pre_commit" | "admit.post_commit");
        (1..=if once { 1 } else { 2 }).map(move |hit| (point, hit))
    };
    passed(By::Turn).flat_map(hits).collect()
}

#[test]
fn a_process_that_is_stopped_past_its_lease_at_any_point_does_nothing_twice() {
    for some in stops().chunks(AT_ONCE) {
        std::thread::scope(|scope| {
            for (point, hit) in some {
                scope.spawn(|| stop_at(point, *hit));
            }
        });
    }
}
