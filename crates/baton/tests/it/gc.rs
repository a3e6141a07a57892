//! `baton gc`: data past its retention is deleted, and nothing else.

use rusqlite::Connection;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::postgres_server::Schema;
use crate::world::World;

const DAY_MS: i64 = 86_400_000;

fn ask(world: &World, thread: &str) {
    world.baton(&["ask", "--thread", thread, "--model", "offline", "What is 2 + 2?"]).ok();
}

fn database(world: &World) -> Connection {
    Connection::open(world.path("home/data/baton/baton.db")).unwrap()
}

/// Three threads with a run each: `ended` is past its time, the run of `old` ended 100 days ago, `new` is new. Two
/// outputs that no entry names, 31 and 29 days old, and two keys, one of which has expired.
fn lived_in() -> World {
    let world = World::new();
    for thread in ["ended", "old", "new"] {
        ask(&world, thread);
    }
    let db = database(&world);
    let now: i64 = db.query_row("SELECT max(ended) FROM runs", [], |row| row.get(0)).unwrap();
    db.execute("UPDATE threads SET ttl_at = ?1 WHERE thread = 'ended'", [now - 1]).unwrap();
    db.execute("UPDATE runs SET ended = ?1 WHERE thread = 'old'", [now - 100 * DAY_MS]).unwrap();
    for (hash, days) in [("a", 31), ("b", 29)] {
        let sql = "INSERT INTO blobs(tenant, hash, size, touched_at, body) VALUES ('local', ?1, 5, ?2, x'0102030405')";
        db.execute(sql, (hash, now - days * DAY_MS)).unwrap();
    }
    for (key, expires_at) in [("gone", now - 1), ("fresh", now + DAY_MS)] {
        let sql =
            "INSERT INTO keys(tenant, route, key, body_hash, expires_at) VALUES ('local', '/x', ?1, '', ?2)";
        db.execute(sql, (key, expires_at)).unwrap();
    }
    world
}

fn gone(world: &World, args: &[&str]) -> Value {
    world.baton(&[&["gc", "--json"], args].concat()).json()
}

fn threads(world: &World) -> Vec<String> {
    let list = world.baton(&["threads", "ls", "--json"]).json();
    list["items"].as_array().unwrap().iter().map(|thread| thread["id"].as_str().unwrap().to_owned()).collect()
}

fn runs(world: &World) -> Vec<String> {
    let list = world.baton(&["runs", "ls", "--json"]).json();
    list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["thread_id"].as_str().unwrap().to_owned())
        .collect()
}

fn expected(runs: u32, dry_run: bool) -> Value {
    json!({"threads": 1, "runs": runs, "blobs": 1, "blob_bytes": 5, "keys": 1, "dry_run": dry_run})
}

#[test]
fn what_would_go_is_told_and_stays() {
    let world = lived_in();
    assert_eq!(gone(&world, &["--dry-run"]), expected(0, true));
    world.settings("[retention]\nruns_days = 90\n");
    assert_eq!(gone(&world, &["--dry-run"]), expected(1, true));
    assert_eq!(
        (threads(&world), runs(&world)),
        (strings(&["new", "old", "ended"]), strings(&["new", "old", "ended"]))
    );
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn what_has_had_its_time_goes_once_and_what_was_said_stays() {
    let world = lived_in();
    world.settings("[retention]\nruns_days = 90\n");
    assert_eq!(gone(&world, &[]), expected(1, false));
    let nothing = json!({"threads": 0, "runs": 0, "blobs": 0, "blob_bytes": 0, "keys": 0, "dry_run": false});
    assert_eq!(gone(&world, &[]), nothing);
    assert_eq!((threads(&world), runs(&world)), (strings(&["new", "old"]), strings(&["new"])));
    let said = world.baton(&["threads", "show", "old"]).ok();
    assert!(said.contains("What is 2 + 2?"), "{said}");
    let db = database(&world);
    let left = |sql: &str| db.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(
        [left("SELECT group_concat(hash) FROM blobs"), left("SELECT group_concat(key) FROM keys")],
        ["b", "fresh"]
    );
    ask(&world, "old");
    assert_eq!(runs(&world), strings(&["old", "new"]), "the thread goes on");
    assert_eq!(world.baton(&["audit", "verify"]).code, 0, "the trail is whole: it is never thrown away");
}

#[test]
fn people_read_what_went_and_what_is_kept() {
    let world = lived_in();
    let shown = |heading: &str| {
        format!(
            "WHAT                             {heading}\nthreads past their time          1\n\
             runs that ended                  0\nlong outputs that nothing names  1 (5 bytes)\n\
             keys of requests                 1\n"
        )
    };
    let kept = "runs are kept for ever: retention.runs_days in baton.toml says otherwise\n";
    for (args, heading) in [(vec!["gc", "--dry-run"], "WOULD GO"), (vec!["gc"], "GONE")] {
        let did = world.baton(&args);
        assert_eq!((did.code, did.out, did.err), (0, shown(heading), kept.to_owned()));
    }
}

#[test]
fn a_service_throws_away_by_itself() {
    let world = lived_in();
    world.settings("[retention]\nruns_days = 90\n");
    let mut service = world.start(&["serve", "--port", "0", "--model", "offline", "--json"]);
    service.until_noted("what has had its time is gone");
    assert_eq!((threads(&world), runs(&world)), (strings(&["new", "old"]), strings(&["new"])));
    service.signal(Signal::TERM);
    let did = service.end();
    assert_eq!(did.code, 0, "{did:?}");
    let told = did.err.lines().find(|line| line.contains("what has had its time")).unwrap();
    let mut told: Value = serde_json::from_str(told).unwrap();
    assert!(told.as_object_mut().unwrap().remove("ts").is_some());
    let expected = json!({
        "level": "INFO", "target": "baton::retention", "msg": "what has had its time is gone", "threads": 1, "runs": 1,
        "blobs": 1, "blob_bytes": 5, "keys": 1,
    });
    assert_eq!(told, expected);
}

#[test]
fn a_time_that_makes_no_sense_is_refused() {
    let world = lived_in();
    world.settings("[retention]\nruns_days = 0\n");
    let did = world.baton(&["gc"]);
    assert_eq!((did.code, did.out.as_str()), (2, ""));
    assert!(did.err.contains("`retention.runs_days`"), "{}", did.err);
}

#[test]
fn a_database_is_cleared_as_a_file_is() {
    let (world, schema) = (World::new(), Schema::new());
    let there = [("DATABASE_URL", schema.url.as_str())];
    for thread in ["ended", "new"] {
        let args = ["ask", "--thread", thread, "--model", "offline", "What is 2 + 2?"];
        let did = world.baton_with(&there, &args);
        assert_eq!(did.code, 0, "{did:?}");
    }
    schema.run("UPDATE threads SET ttl_at = 1 WHERE thread = 'ended'");
    let gone = |args: &[&str]| world.baton_with(&there, &[&["gc", "--json"], args].concat()).json();
    let expected = |threads: u32, dry_run: bool| json!({"threads": threads, "runs": 0, "blobs": 0, "blob_bytes": 0, "keys": 0, "dry_run": dry_run});
    let told = [gone(&["--dry-run"]), gone(&[]), gone(&[])];
    assert_eq!(told, [expected(1, true), expected(1, false), expected(0, false)]);
    assert_eq!(schema.run("SELECT string_agg(thread, ',') FROM threads").trim(), "new");
}
