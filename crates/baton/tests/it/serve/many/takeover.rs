//! The delay until a run goes on elsewhere: at once, after the lease, or as soon as it was released.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::super::served::until;
use super::super::wire;
use super::pair::{LEASE_S, Pair};
use crate::postgres_server::Schema;
use crate::world::World;

/// Two processes, and a run that the first one drives and that takes longer than any wait of the test.
struct Long {
    schema: Schema,
    pair: Pair,
    run: String,
}

impl Long {
    fn new(settings: &str) -> Long {
        let (schema, stage) = (Schema::new(), World::new());
        let script = json!({"v": 1, "replies": [{"do": [{"text": "I begin. "}, {"stall": true}]}]});
        let urls = [schema.url.clone(), schema.url.clone()];
        let pair = Pair::playing(stage, &script, urls, settings);
        let accept = [("accept", "text/event-stream")];
        let body = json!({"flow": "turn", "input": "go", "dialect": "raw"}).to_string();
        let mut stream = wire::open(&pair.homes[0].address, "POST", "/v1/runs", &accept, Some(&body));
        stream.until("delta");
        let run = stream.head.header("x-run-id").to_owned();
        Long { schema, pair, run }
    }

    fn is_taken(&self) -> bool {
        self.schema.run(&format!("SELECT count(*) FROM claims WHERE run = '{}'", self.run)) != "0"
    }

    /// Waits until the other process drives it; returns how long that took.
    fn taken(&self, since: Instant) -> Duration {
        until("it is taken", || self.is_taken());
        since.elapsed()
    }
}

#[test]
fn a_killed_process_of_the_same_machine_is_not_waited_for() {
    let mut long = Long::new("[store]\nlease_s = 3600\n");
    long.pair.kill(0);
    let took = long.taken(Instant::now());
    assert!(took < Duration::from_secs(30), "{took:?} of a lease of an hour");
}

#[test]
fn a_killed_process_whose_lock_nobody_sees_is_waited_for_as_long_as_its_lease() {
    let mut long = Long::new(&format!("[store]\nlease_s = {LEASE_S}\n"));
    // As on another machine: the lock file is not where the lease says.
    let data = long.pair.homes[0].world.path("home/data");
    std::fs::rename(&data, long.pair.homes[0].world.path("elsewhere")).unwrap();
    long.pair.kill(0);
    let took = long.taken(Instant::now());
    let lease = Duration::from_secs(LEASE_S);
    assert!(took >= lease / 3, "it was waited for: {took:?}");
    assert!(took < lease + Duration::from_secs(5), "{took:?}");
}

#[test]
fn a_process_that_ends_in_order_hands_over_within_a_second() {
    let mut long = Long::new("[engine]\nshutdown_s = 1\n\n[store]\nlease_s = 3600\n");
    let began = Instant::now();
    long.pair.homes[0].signal(Signal::TERM);
    assert_eq!(long.pair.homes[0].ended(), 0);
    let (ended, took) = (Instant::now(), began.elapsed());
    assert!(took < Duration::from_secs(10), "{took:?}");
    let took = long.taken(ended);
    assert!(took < Duration::from_secs(1), "{took:?} after the end");
}

/// The default settings: eight seconds for runs that are under way.
#[test]
fn a_process_that_ends_in_order_ends_within_ten_seconds() {
    let mut long = Long::new("[store]\nlease_s = 3600\n");
    let began = Instant::now();
    long.pair.homes[0].signal(Signal::TERM);
    assert_eq!(long.pair.homes[0].ended(), 0);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    long.taken(Instant::now());
}
