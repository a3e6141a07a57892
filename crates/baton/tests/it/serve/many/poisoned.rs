//! A run that brings down every process that drives it.

use serde_json::json;

use super::super::wire;
use super::pair::open;
use crate::postgres_server::Schema;
use crate::world::World;

/// The process dies at the first piece of text, each time.
const DEADLY: (&str, &str) = ("BATON_FAILPOINT", "llm.mid_stream:1");

#[test]
fn a_run_that_kills_its_host_five_times_is_given_up() {
    let (schema, stage) = (Schema::new(), World::new());
    // Not at once, so that each host can report that it listens.
    let reply = json!({"do": [{"stall_ms": 500}, {"text": "It is poison."}]});
    let settings = format!("model = '{}'\n", stage.script(&json!({"v": 1, "replies": [reply]})));
    let host = || open(&settings, &schema.url, &[DEADLY]);
    let mut dead = vec![host()]; // their locks stay where they are, so that no process waits for a lease
    let begun = dead[0].send("POST", "/v1/runs", &[], Some(r#"{"flow": "turn", "input": "go"}"#));
    assert_eq!(begun.status, 202, "{begun:?}");
    let run = begun.json()["run_id"].as_str().unwrap().to_owned();
    assert_eq!(dead[0].ended(), -1, "killed");
    for _ in 0..4 {
        let mut next = host();
        assert_eq!(next.ended(), -1, "killed");
        dead.push(next);
    }
    let last = host();
    let path = format!("/v1/runs/{run}/events?dialect=raw");
    let log = wire::open(&last.address, "GET", &path, &[], None).rest();
    let end = log.last().unwrap();
    assert_eq!((end.event.as_str(), &end.data["status"]), ("ended", &json!("error")), "{log:?}");
    assert_eq!(end.data["error"]["code"], "poisoned", "{end:?}");
    assert_eq!(schema.run("SELECT count(*) FROM claims"), "5", "everybody but the first took it");
    assert_eq!(last.send("GET", "/health", &[], None).status, 200);
}
