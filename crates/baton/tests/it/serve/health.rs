//! `GET /health`: the answer for a store that cannot be written to, and for a disk that is almost full.

use std::time::Duration;

use serde_json::json;

use super::served::{Served, until};
use crate::world::World;

#[test]
fn a_store_that_cannot_be_written_to_is_degraded_and_then_ok_again() {
    let served = Served::with("[serve]\n");
    let health = || served.send("GET", "/health", &[], None).json();
    assert_eq!(health()["status"], "ok");
    let db = rusqlite::Connection::open(served.world.path("home/data/baton/baton.db")).unwrap();
    db.busy_timeout(Duration::from_secs(60)).unwrap();
    db.execute_batch("BEGIN IMMEDIATE").unwrap();
    until("it is noticed", || health()["status"] == "degraded");
    let told = health();
    assert_eq!((&told["status"], &told["store"]), (&json!("degraded"), &json!("sqlite")), "it can be read");
    assert!(told["why"].as_str().is_some_and(|why| why.contains("store")), "{told}");
    db.execute_batch("ROLLBACK").unwrap();
    until("it is well again", || health()["status"] == "ok");
    assert_eq!(health().get("why"), None);
}

#[test]
fn a_disk_that_is_almost_full_is_degraded_and_strangers_are_not_told_why() {
    let world = World::new();
    world.settings("model = \"offline\"\n[serve]\nlow_space_mb = 1073741824\n");
    let served = Served::on(world, &[], &[("BATON_TOKEN", "a-token-of-the-environment")]);
    let token = [("authorization", "Bearer a-token-of-the-environment")];
    let told = served.send("GET", "/health", &token, None);
    assert_eq!((told.status, &told.json()["status"]), (200, &json!("degraded")));
    let why = told.json()["why"].as_str().unwrap().to_owned();
    assert!(why.ends_with("less than 1073741824 (serve.low_space_mb): make room, or move the data"), "{why}");
    let stranger = served.send("GET", "/health", &[], None).json();
    assert_eq!(stranger, json!({"status": "degraded", "version": env!("CARGO_PKG_VERSION")}));
}
