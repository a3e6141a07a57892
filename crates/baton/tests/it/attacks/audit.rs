//! The audit trail: events from outside that pose as ours, and a trail with removed rows.

use serde_json::{Value, json};

use crate::serve::house::House;
use crate::world::World;

/// The rows of the trail: the event type, its source, and whether it came from outside.
pub(super) fn rows(world: &World) -> Vec<Value> {
    let listed = world.baton(&["audit", "ls", "--json"]).json();
    let row = |row: &Value| json!([row["event_type"], row["source"], row["external"]]);
    listed["items"].as_array().unwrap().iter().map(row).collect()
}

pub(super) fn verified(world: &World) -> (i32, String) {
    let did = world.baton(&["audit", "verify"]);
    (did.code, did.err.trim().to_owned())
}

fn tampered(world: &World, sql: &str) {
    let db = rusqlite::Connection::open(world.path("home/data/baton/baton.db")).unwrap();
    db.execute_batch(sql).unwrap();
}

#[test]
fn an_event_from_outside_with_our_source_and_type_is_marked_and_cannot_be_unmarked() {
    let house = House::with(World::new(), &json!({"v": 1, "replies": []}), "");
    for source in ["baton", "desk"] {
        let payload = json!({"approval_id": "a-1", "decision": "approve", "by": "the operator"});
        let event = json!({
            "correlation_id": "c-1", "event_type": "approval.decided", "source": source, "payload": payload,
        });
        assert_eq!(house.post("/events", event).status, 202);
    }
    // No field of the request can claim that the event is ours.
    let claims = json!({
        "correlation_id": "c-1", "event_type": "approval.decided", "source": "baton", "payload": {}, "external": false,
    });
    assert_eq!(house.post("/events", claims).problem(), (400, "invalid_request".to_owned()));
    let world = house.killed();
    world.baton(&["ask", "--model", "offline", "What is 1 + 1?"]).ok();
    let expected = [
        json!(["approval.decided", "baton", true]),
        json!(["approval.decided", "desk", true]),
        json!(["agent.started", "baton", false]),
        json!(["agent.completed", "baton", false]),
    ];
    assert_eq!(rows(&world), expected);
    let shown = world.baton(&["audit", "ls"]).ok();
    let marked: Vec<bool> = shown.lines().skip(1).map(|line| line.contains("(external)")).collect();
    assert_eq!(marked, [true, true, false, false], "{shown}");
    assert_eq!(verified(&world).0, 0);
    for (n, external) in [(1, "0"), (1, "NULL"), (3, "1"), (3, "NULL")] {
        tampered(
            &world,
            &format!(
                "CREATE TABLE kept AS SELECT * FROM audit; UPDATE audit SET external = {external} WHERE n = {n}"
            ),
        );
        let changed = (1, format!("error: row {n} of the audit trail was changed"));
        assert_eq!(verified(&world), changed, "{external}");
        tampered(&world, "DELETE FROM audit; INSERT INTO audit SELECT * FROM kept; DROP TABLE kept");
    }
    assert_eq!(verified(&world).0, 0);
}

#[test]
fn a_trail_that_was_emptied_or_shortened_fails_without_a_noted_hash() {
    for (removed, missing) in [("1 = 1", 1), ("n > 1", 2), ("n = 4", 4), ("n IN (2, 4)", 2)] {
        for goes_on in [false, true] {
            let world = World::new();
            for _ in 0..2 {
                world.baton(&["ask", "--model", "offline", "What is 1 + 1?"]).ok();
            }
            assert_eq!(verified(&world).0, 0);
            tampered(&world, &format!("DELETE FROM audit WHERE {removed}"));
            if goes_on {
                // New rows follow the removed ones and not those that are left.
                world.baton(&["ask", "--model", "offline", "What is 2 + 2?"]).ok();
            }
            let expected = (1, format!("error: row {missing} of the audit trail is missing"));
            assert_eq!(verified(&world), expected, "{removed} {goes_on}");
            let broken = world.baton(&["audit", "verify", "--json"]).json();
            assert_eq!((&broken["status"], &broken["row"]), (&json!("broken"), &json!(missing)));
        }
    }
}

#[test]
fn a_trail_whose_note_of_its_end_is_gone_is_not_taken_for_an_empty_one() {
    let world = World::new();
    world.baton(&["ask", "--model", "offline", "What is 1 + 1?"]).ok();
    assert_eq!(verified(&world).0, 0);
    tampered(&world, "DELETE FROM audit; DELETE FROM chain");
    let (code, said) = verified(&world);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("chain"), "{said}");
}

/// Adding or removing a token or a thread leaves a row, which holds nothing that helps to guess a token.
#[test]
fn tokens_and_threads_that_come_and_go_leave_a_row() {
    let world = World::new();
    world.baton(&["ask", "--thread", "t", "--model", "offline", "What is 1 + 1?"]).ok();
    let added = world.baton(&["tokens", "add", "ci", "--tenant", "desk", "--json"]).json();
    let id = added["id"].as_str().unwrap();
    world.baton(&["tokens", "revoke", id]).ok();
    assert_eq!(world.baton(&["tokens", "revoke", id]).code, 1, "it is gone");
    world.baton(&["threads", "rm", "t"]).ok();
    assert_eq!(world.baton(&["threads", "rm", "t"]).code, 1, "it is gone");
    let listed = world.baton(&["audit", "ls", "--json"]).json();
    let row = |row: &Value| json!([row["tenant"], row["event_type"], row["correlation_id"], row["external"]]);
    let rows: Vec<Value> = listed["items"].as_array().unwrap().iter().skip(2).map(row).collect();
    let expected = [
        json!(["desk", "token.added", id, false]),
        json!(["desk", "token.revoked", id, false]),
        json!(["local", "thread.deleted", "t", false]),
    ];
    assert_eq!(rows, expected);
    assert_eq!(verified(&world).0, 0);
}

#[test]
fn a_context_service_is_told_of_tokens_without_their_secret() {
    let server = crate::server::Server::deciding(|_, _| crate::server::Answer::whole(202, &[], ""));
    let world = World::new();
    world.settings(&format!("[services.context]\nurl = \"{}\"\n", server.url()));
    let added = world.baton(&["tokens", "add", "ci", "--scope", "read", "--json"]).json();
    let (id, secret) = (added["id"].as_str().unwrap(), added["token"].as_str().unwrap());
    world.baton(&["tokens", "revoke", id]).ok();
    world.baton(&["runs", "ls"]).ok(); // seals the remaining events
    let bodies: Vec<Value> =
        server.requests().iter().map(|it| serde_json::from_str(&it.body).unwrap()).collect();
    let kinds: Vec<&Value> = bodies.iter().map(|body| &body["event_type"]).collect();
    assert_eq!(kinds, [&json!("token.added"), &json!("token.revoked")]);
    let mut payload = bodies[0]["payload"].clone();
    payload["at"].take();
    let expected = json!({
        "token_id": id, "name": "ci", "scopes": ["read"], "max_mode": "MODERATE", "agents": [], "expires_at": null,
        "by": "cli", "at": null,
    });
    assert_eq!(payload, expected);
    assert!(!format!("{bodies:?}").contains(secret));
}

#[test]
fn a_policy_that_changes_leaves_a_row() {
    let world = World::new();
    let asks = |settings: &str| {
        world.settings(settings);
        world.baton(&["ask", "--model", "offline", "What is 1 + 1?"]).ok();
    };
    let other = "[policy.channels.EXECUTE]\ntools = [\"calculator\"]\n";
    for settings in ["", "", other, other, ""] {
        asks(settings);
    }
    // Reading under another policy changes nothing.
    world.settings(other);
    world.baton(&["policy", "show"]).ok();
    let ours = |kind: &str| json!([kind, "baton", false]);
    let run = [ours("agent.started"), ours("agent.completed")];
    let changed = [ours("policy.changed")];
    assert_eq!(rows(&world), [&run[..], &run, &changed, &run, &run, &changed, &run].concat());
    assert_eq!(verified(&world).0, 0);
}
