//! `baton bench`: it measures the engine, and touches nothing of the user's.

use serde_json::{Value, json};

use crate::postgres_server::Schema;
use crate::world::World;

/// The shape of a document: its numbers become `"n"`, but for those that were chosen.
fn shape(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let chosen = ["clients", "runs", "tools"];
            fields
                .iter_mut()
                .filter(|(name, _)| !chosen.contains(&name.as_str()))
                .for_each(|(_, value)| shape(value));
        }
        Value::Array(items) => items.iter_mut().for_each(shape),
        Value::Number(_) => *value = json!("n"),
        _ => {}
    }
}

#[test]
fn a_measurement_has_every_figure_and_leaves_nothing_behind() {
    let world = World::new();
    // Settings that cannot be read would stop any command that reads them.
    world.settings("this is no TOML");
    let did = world.baton(&["bench", "--runs", "12", "--clients", "3", "--tools", "1", "--json"]);
    assert_eq!((did.code, did.err.as_str()), (0, ""), "{did:?}");
    let mut report = did.json();
    let number =
        |place: &str| report.pointer(place).and_then(Value::as_f64).unwrap_or_else(|| panic!("{place}"));
    for place in
        ["/load/0/runs_per_s", "/load/1/cpu_ms_per_run", "/load/1/p50_ms", "/thread/turn_ms/turn_200"]
    {
        assert!(number(place) > 0.0, "{place}: {report}");
    }
    assert!(number("/load/1/p99_ms") >= number("/load/1/p50_ms"), "{report}");
    // Four transitions a run with one tool.
    let commits = number("/load/1/commits_per_s") / number("/load/1/runs_per_s");
    assert!((commits - 4.0).abs() < 0.01, "{report}");
    let grows = number("/thread/bytes_stored/ratio");
    assert!((0.9..1.1).contains(&grows), "a late turn stores what an early one does: {report}");
    assert_eq!(report["version"].take(), json!(env!("CARGO_PKG_VERSION")));
    shape(&mut report);
    let load = |clients: u32, runs: u32| {
        json!({"clients": clients, "runs": runs, "runs_per_s": "n", "commits_per_s": "n", "cpu_ms_per_run": "n",
               "p50_ms": "n", "p99_ms": "n"})
    };
    let pair = json!({"turn_10": "n", "turn_200": "n", "ratio": "n"});
    let (seen, bytes) =
        if cfg!(target_os = "linux") { (pair.clone(), json!("n")) } else { (json!(null), json!(null)) };
    let expected = json!({
        "version": null, "store": "sqlite", "cores": "n", "tools": 1, "load": [load(1, 2), load(3, 12)],
        "ratios": {"runs_per_s": "n", "cpu_ms_per_run": "n"},
        "thread": {"turn_ms": pair, "bytes_stored": pair, "bytes_written": seen},
        "memory": {"idle_bytes": bytes, "peak_bytes": bytes},
    });
    assert_eq!(report, expected);
    assert!(!world.path("home/data").exists(), "the person's own data was not touched");
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let world = World::new();
    let refused = |args: &[&str]| {
        let did = world.baton(&[&["bench"], args].concat());
        assert_eq!((did.code, did.out.as_str()), (2, ""), "{did:?}");
        did.err
    };
    assert!(refused(&["--runs", "0"]).contains("1..=1000000"));
    assert!(refused(&["--tools", "51"]).contains("0..=50"));
    // An address may hold a password.
    let told = refused(&["--store", "mysql://u:hunter2@127.0.0.1/x"]);
    assert!(told.contains("this is no address of PostgreSQL") && !told.contains("hunter2"), "{told}");
    let did = world.baton(&["bench", "--store", "postgresql://u:hunter2@127.0.0.1:1/x"]);
    assert_eq!((did.code, did.out.as_str()), (1, ""), "{did:?}");
    assert!(
        did.err.contains("the database cannot be reached") && !did.err.contains("hunter2"),
        "{}",
        did.err
    );
}

#[test]
fn a_database_is_measured_unless_somebody_keeps_something_in_it() {
    let (world, schema) = (World::new(), Schema::new());
    let bench = ["bench", "--store", &schema.url, "--runs", "4", "--clients", "2", "--tools", "0", "--json"];
    for time in ["the first time", "and again"] {
        let did = world.baton(&bench);
        assert_eq!((did.code, did.err.as_str()), (0, ""), "{time}: {did:?}");
        let report = did.json();
        let seen = (&report["store"], &report["load"][1]["runs"], &report["thread"]["bytes_written"]);
        assert_eq!(seen, (&json!("postgresql"), &json!(4), &json!(null)), "{time}: {report}");
    }
    let there = [("DATABASE_URL", schema.url.as_str())];
    let asked = world.baton_with(&there, &["ask", "--model", "offline", "What is 2 + 2?"]);
    assert_eq!(asked.code, 0, "{asked:?}");
    let did = world.baton(&bench);
    assert_eq!((did.code, &did.json()["code"]), (2, &json!("invalid_request")), "{did:?}");
    assert!(did.err.contains("somebody keeps something in this database"), "{}", did.err);
}
