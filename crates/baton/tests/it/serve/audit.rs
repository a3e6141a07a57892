//! The audit trail: its content, and that a change is never unseen.

use serde_json::{Value, json};

use crate::mask::Mask;
use crate::world::World;

/// A machine on which two questions were answered: four rows.
fn with_four_rows() -> World {
    let world = World::new();
    for question in ["What is 1 + 1?", "What is 2 + 2?"] {
        world.baton(&["ask", "--model", "offline", question]).ok();
    }
    world
}

fn head(world: &World) -> String {
    world.baton(&["audit", "verify"]).ok().trim().to_owned()
}

/// Changes the rows behind Baton's back.
fn tampered(world: &World, sql: &str) {
    let db = rusqlite::Connection::open(world.path("home/data/baton/baton.db")).unwrap();
    assert_eq!(db.execute(sql, []).unwrap(), 1, "{sql}");
}

/// The result of `verify`: its exit code and its output.
fn found(world: &World, more: &[&str]) -> (i32, String) {
    let did = world.baton(&[&["audit", "verify"], more].concat());
    (did.code, format!("{}{}", did.out, did.err).trim().to_owned())
}

#[test]
fn the_trail_says_what_happened() {
    let world = with_four_rows();
    let mut mask = Mask::default();
    let rows = mask.value(world.baton(&["audit", "ls", "--json"]).json());
    let row = |n: i64, run: &str, kind: &str| {
        let prev = if n == 1 { "0".repeat(64) } else { "HASH".to_owned() };
        json!({
            "n": n, "tenant": "local", "at": "TIME", "correlation_id": run, "event_type": kind, "source": "baton",
            "external": false,
            "digest": "HASH", "prev": mask_zeros(&prev), "hash": "HASH",
        })
    };
    let expected = [
        row(1, "ID1", "agent.started"),
        row(2, "ID1", "agent.completed"),
        row(3, "ID2", "agent.started"),
        row(4, "ID2", "agent.completed"),
    ];
    assert_eq!(rows, json!({ "items": expected }));

    let page = world.baton(&["audit", "ls", "--json", "--after", "1", "--limit", "2"]).json();
    let numbers: Vec<&Value> = page["items"].as_array().unwrap().iter().map(|row| &row["n"]).collect();
    assert_eq!((numbers, &page["next"]), (vec![&json!(2), &json!(3)], &json!("3")));
    let nobody = world.baton(&["audit", "ls", "--json", "--tenant", "nobody"]).json();
    assert_eq!(nobody, json!({ "items": [] }));
    let shown = world.baton(&["audit", "ls"]).ok();
    assert_eq!(shown.lines().count(), 5, "{shown}");
}

/// All hashes look alike once they are masked.
fn mask_zeros(hash: &str) -> String {
    Mask::default().text(hash)
}

#[test]
fn a_chain_that_nobody_changed_is_whole_and_has_the_head_that_was_noted() {
    let world = with_four_rows();
    let noted = head(&world);
    let whole = world.baton(&["audit", "verify", "--json"]).json();
    assert_eq!(whole, json!({"status": "ok", "rows": 4, "head": noted}));
    world.baton(&["ask", "--model", "offline", "What is 3 + 3?"]).ok();
    let now = head(&world);
    assert_ne!(noted, now);
    for head in [&noted, &now, &noted.to_uppercase()] {
        assert_eq!(world.baton(&["audit", "verify", "--head", head]).ok().trim(), now);
    }
    assert_eq!(World::new().baton(&["audit", "verify"]).ok().trim(), "0".repeat(64), "nothing happened yet");
}

#[test]
fn a_row_that_was_changed_is_named() {
    let columns = [
        ("at", "at + 1"),
        ("correlation", "'x'"),
        ("kind", "'agent.failed'"),
        ("source", "'x'"),
        ("digest", "'x'"),
        ("prev", "'x'"),
        ("seal", "'x'"),
        ("tenant", "'other'"),
        ("external", "1"),
    ];
    for (column, value) in columns {
        let world = with_four_rows();
        tampered(&world, &format!("UPDATE audit SET {column} = {value} WHERE n = 2"));
        let said = (1, "error: row 2 of the audit trail was changed".to_owned());
        assert_eq!(found(&world, &[]), said, "{column}");
        let broken = world.baton(&["audit", "verify", "--json"]);
        let expected =
            json!({"status": "broken", "row": 2, "detail": "row 2 of the audit trail was changed"});
        assert_eq!((broken.code, broken.json()), (1, expected), "{column}");
    }
}

#[test]
fn a_row_that_was_removed_is_missed() {
    let world = with_four_rows();
    tampered(&world, "DELETE FROM audit WHERE n = 3");
    assert_eq!(found(&world, &[]), (1, "error: row 3 of the audit trail is missing".to_owned()));
}

#[test]
fn a_chain_that_was_cut_off_is_found_by_the_head_that_it_had() {
    let world = with_four_rows();
    let noted = head(&world);
    tampered(&world, "DELETE FROM audit WHERE n = 4");
    assert_eq!(found(&world, &[]), (1, "error: row 4 of the audit trail is missing".to_owned()));
    // The note of the chain's end was changed together with it.
    tampered(&world, "UPDATE chain SET (rows, head) = (SELECT n, seal FROM audit WHERE n = 3)");
    assert_eq!(found(&world, &[]).0, 0, "by itself it looks whole");
    let said = format!(
        "error: no row of the audit trail has the hash {noted}: rows were removed from its end, or it was written anew"
    );
    assert_eq!(found(&world, &["--head", &noted]), (1, said));
}

#[test]
fn a_head_that_is_no_hash_is_refused() {
    for head in ["", "abc", &"x".repeat(64)] {
        let did = World::new().baton(&["audit", "verify", "--head", head]);
        assert_eq!(did.code, 2, "{did:?}");
    }
}
