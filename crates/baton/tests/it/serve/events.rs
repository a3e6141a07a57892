//! `POST /events`: Baton as a context service.

use serde_json::{Value, json};

use super::house::House;
use crate::world::World;

fn house() -> House {
    House::with(World::new(), &json!({"v": 1, "replies": []}), "")
}

fn event(n: u32) -> Value {
    json!({"correlation_id": "c-1", "event_type": "ticket.closed", "source": "desk", "payload": {"n": n}})
}

/// The rows of the chain that came from outside.
fn rows(world: &World) -> Vec<Value> {
    let listed = world.baton(&["audit", "ls", "--json"]).json();
    let row = |row: &Value| json!([row["correlation_id"], row["event_type"], row["source"]]);
    listed["items"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn what_was_accepted_is_kept_even_if_the_process_dies_at_once() {
    let house = house();
    for n in 0..3 {
        assert_eq!(house.post("/events", event(n)).status, 202);
    }
    let world = house.killed();
    assert_eq!(rows(&world), vec![json!(["c-1", "ticket.closed", "desk"]); 3]);
    assert_eq!(world.baton(&["audit", "verify"]).code, 0);
}

#[test]
fn an_event_that_comes_again_under_its_key_is_one_event() {
    let house = house();
    let send =
        |key: &str, body: Value| house.send("POST", "/events", &[("idempotency-key", key)], Some(body));
    assert_eq!(send("a", event(1)).status, 202);
    assert_eq!(send("a", event(1)).status, 202);
    assert_eq!(send("a", event(2)).problem(), (422, "idempotency_mismatch".to_owned()));
    assert_eq!(send("b", event(1)).status, 202);
    assert_eq!(rows(&house.world).len(), 2);
}

#[test]
fn what_is_no_event_is_a_problem() {
    let house = house();
    let with = |field: &str, value: Value| {
        let mut event = event(1);
        event[field] = value;
        event
    };
    let mut without = event(1);
    without.as_object_mut().unwrap().remove("payload");
    let wrong = [
        without,
        with("event_type", json!("")),
        with("event_type", json!("x".repeat(256))),
        with("source", json!("a\nb")),
        with("correlation_id", json!("\u{0}")),
        with("correlation_id", json!(7)),
        with("more", json!(1)),
    ];
    for body in wrong {
        assert_eq!(
            house.post("/events", body.clone()).problem(),
            (400, "invalid_request".to_owned()),
            "{body}"
        );
    }
    assert_eq!(
        house.post("/events", with("correlation_id", json!(""))).status,
        202,
        "what Baton itself sends"
    );
    assert_eq!(rows(&house.world).len(), 1);
}
