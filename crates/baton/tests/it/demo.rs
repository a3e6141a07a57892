//! `baton demo crash`: a real process, a real SIGKILL.

use serde_json::{Value, json};

use crate::world::World;

#[test]
fn a_crash_loses_nothing_and_repeats_nothing() {
    let world = World::new();
    let did = world.baton(&["demo", "crash", "--json"]);
    assert_eq!((did.code, did.err.as_str()), (0, ""), "{did:?}");
    let found = did.json();
    assert_eq!(found["ok"], true);
    let of = |scenario: &Value| {
        let sequence = &scenario["sequence"]["unbroken"];
        json!([scenario["class"], scenario["status"], scenario["effects"], scenario["outcome"], sequence])
    };
    let scenarios: Vec<Value> = found["scenarios"].as_array().unwrap().iter().map(of).collect();
    assert_eq!(
        scenarios,
        [json!(["unsafe", "ok", 1, "unknown", true]), json!(["idempotent", "ok", 1, "ok", true])]
    );
    assert!(!world.path("home/data").exists(), "the person's own data is not touched");
}
