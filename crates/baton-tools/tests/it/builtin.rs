//! Each built-in tool once, with the real schemas around it.

use baton_core::json::sha256_hex;
use baton_core::thread::Closing;
use baton_core::tool::{ASK_USER, Cause, EffectClass, Trust, UPDATE_PLAN};
use serde_json::json;

use super::{BROKEN, call, failed, ok, refused, registry};

#[test]
fn the_built_in_tools() {
    let specs = registry(&[]).specs();
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    let expected = [
        "ask_user",
        "calculator",
        "clock",
        "list_files",
        "read_blob",
        "read_file",
        "search_blob",
        "search_files",
        "system_health",
        "system_logs",
        "test_effect",
        "update_plan",
    ];
    assert_eq!(names, expected);
    for spec in specs.iter().filter(|spec| spec.name != "test_effect") {
        // These tools write their own results; the others pass on foreign text.
        let own = ["ask_user", "calculator", "clock", "system_health", "update_plan"];
        // A kept output is as private as what it was kept of, which whoever runs the tool knows.
        let blobs = baton_core::tool::BLOB_TOOLS;
        let trust = match spec.name.as_str() {
            name if own.contains(&name) => Trust::BUILT_IN,
            name if blobs.contains(&name) => Trust { untrusted_output: true, ..Trust::BUILT_IN },
            _ => Trust::LOCAL_DATA,
        };
        assert_eq!((spec.class, spec.trust), (EffectClass::SideEffectFree, trust), "{}", spec.name);
        assert_eq!(spec.input_schema["type"], json!("object"), "{}", spec.name);
        assert!(spec.input_schema["properties"].is_object(), "{}", spec.name);
        assert_eq!(spec.input_schema["additionalProperties"], json!(false), "{}", spec.name);
    }
    let effect = specs.iter().find(|spec| spec.name == "test_effect").unwrap();
    assert_eq!(effect.trust, Trust::default());
}

#[tokio::test]
async fn calculator_and_clock_answer() {
    let registry = registry(&[]);
    let sum = call(&registry, "calculator", json!({"expression": "0.1+0.2"})).await;
    assert_eq!(sum, ok(json!({"result": "0.3", "exact": true})));
    let bad = call(&registry, "calculator", json!({"expression": "1/0"})).await;
    assert_eq!(bad, refused("Division by zero."));
    let now = call(&registry, "clock", json!({"timezone": "+02:00"})).await;
    let expected = json!({
        "time": "2026-01-01T02:00:00.000+02:00",
        "weekday": "Thursday",
        "timezone": "+02:00",
        "unix_ms": 1_767_225_600_000_i64,
    });
    assert_eq!(now, ok(expected));
    assert!(registry.validate("clock", &json!({"timezone": "Mars"})).is_err());
    assert_eq!(registry.validate("clock", &json!({"timezone": null})), Ok(()));
}

#[tokio::test]
async fn whole_floats_are_refused_before_anything_happens() {
    // JSON Schema calls 1.0 an integer; Rust does not.
    let ran = call(&registry(&[]), "list_files", json!({"depth": 1.0})).await;
    let told = (ran.outcome.status, ran.outcome.cause, ran.before_start);
    assert_eq!(told, (Closing::Error, Some(Cause::Asked), true));
}

#[tokio::test]
async fn ask_user_is_answered_by_the_flow() {
    let ran = call(&registry(&[]), ASK_USER, json!({"question": "Which?"})).await;
    let message = "The run waits for the person's answer; there is nothing to call.";
    assert_eq!(ran, refused(message));
}

#[tokio::test]
async fn system_health_fits_its_output_schema() {
    let ran = call(&registry(&[]), "system_health", json!({})).await;
    assert_eq!(ran.outcome.status, Closing::Ok, "{:?}", ran.outcome.result);
    let health = ran.outcome.result;
    assert!(health["cpu"]["logical_cores"].as_u64().unwrap() > 0, "{health}");
    assert!(health["memory"]["total_bytes"].as_u64().unwrap() > 0, "{health}");
    assert!(health["busiest_by_memory"].as_array().unwrap().len() <= 5, "{health}");
}

#[tokio::test]
async fn system_logs_returns_lines_or_a_reason() {
    let ran = call(&registry(&[]), "system_logs", json!({"limit": 3, "min_priority": "error"})).await;
    assert_eq!(ran.outcome.status, Closing::Ok, "{:?}", ran.outcome.result);
    let logs = ran.outcome.result;
    let told_why = logs["note"].as_str().unwrap().starts_with("not available: ");
    assert_ne!(logs["available"].as_bool().unwrap(), told_why, "{logs}");
    assert!(logs["lines"].as_array().unwrap().len() <= 3);
}

#[tokio::test]
async fn files_are_found_and_read() {
    let registry = registry(&[]);
    let read = call(&registry, "read_file", json!({"path": "lib.rs"})).await;
    assert!(read.outcome.result.as_str().unwrap().starts_with("//! Tools that an agent"));
    let found =
        call(&registry, "search_files", json!({"pattern": "^//! Tools that an agent", "path": "lib.rs"}))
            .await;
    assert_eq!(found.outcome.result["matches"][0]["line"], json!(1));
    let listed = call(&registry, "list_files", json!({"path": "builtin", "depth": 1})).await;
    assert_eq!(listed.outcome.result["entries"][0]["path"], json!("builtin/ask_user.rs"));
}

#[tokio::test]
async fn blobs_are_read_in_parts() {
    let blob = "0123456789é".repeat(10_000);
    let (hash, registry) = (sha256_hex(blob.as_bytes()), registry(&[blob.as_bytes()]));
    let part = call(&registry, "read_blob", json!({"hash": hash, "offset": 12, "limit": 11})).await;
    assert_eq!(part, ok(json!("0123456789\n[bytes 12 to 22 of 120000; read on with offset 22]")));
    let usual = call(&registry, "read_blob", json!({"hash": hash})).await;
    assert_eq!(usual.blob, None, "reading a blob must not make another one");
    let end = call(&registry, "read_blob", json!({"hash": hash, "offset": 120_000})).await;
    assert_eq!(end, ok(json!("\n[bytes 120000 to 120000 of 120000]")));
    let binary = vec![0xff; 30_000];
    let registry = super::registry(&[&binary]);
    let shown = call(&registry, "read_blob", json!({"hash": sha256_hex(&binary)})).await;
    assert_eq!((shown.outcome.status, shown.blob), (Closing::Ok, None));
}

#[tokio::test]
async fn blobs_are_searched() {
    let blob = b"{\"a\":\"one\"}\n{\"a\":\"two\"}\n";
    let (hash, registry) = (sha256_hex(blob), registry(&[blob]));
    let found = call(&registry, "search_blob", json!({"hash": hash, "pattern": "t.o"})).await;
    let expected = json!({"matches": [{"offset": 18, "line": 2, "text": "{\"a\":\"two\"}"}], "more": false});
    assert_eq!(found, ok(expected));
}

#[tokio::test]
async fn missing_blobs_are_explained() {
    let registry = registry(&[]);
    let hash = sha256_hex(b"nothing");
    let message = format!("There is no blob {hash}. Use the hash from an abridged output.");
    assert_eq!(call(&registry, "read_blob", json!({"hash": hash})).await, refused(&message));
    assert_eq!(call(&registry, "read_blob", json!({"hash": BROKEN})).await, failed("The store is down."));
    for hash in ["", "abc", "../../etc/passwd"] {
        assert!(registry.validate("read_blob", &json!({"hash": hash})).is_err());
    }
}

#[tokio::test]
async fn a_plan_is_returned_as_it_was_given() {
    let registry = registry(&[]);
    let step = |step: &str, status: &str| json!({"step": step, "status": status});
    let plans = [
        json!({"plan": [step("Look", "done"), step("Think", "in_progress"), step("Say", "pending")]}),
        json!({"plan": [step("x", "pending")]}),
        json!({"plan": vec![step(&"ü".repeat(200), "done"); 30]}),
    ];
    for plan in plans {
        assert_eq!(call(&registry, UPDATE_PLAN, plan.clone()).await, ok(plan));
    }
    let two = json!({"plan": [step("a", "in_progress"), step("b", "done"), step("c", "in_progress")]});
    let message = "2 steps are in progress. Send the plan with at most one of them.";
    assert_eq!(call(&registry, UPDATE_PLAN, two).await, refused(message));

    let unfit = [
        json!({}),
        json!({"plan": []}),
        json!({"plan": vec![step("x", "done"); 31]}),
        json!({"plan": [step("", "done")]}),
        json!({"plan": [step(&"x".repeat(201), "done")]}),
        json!({"plan": [step("x", "begun")]}),
        json!({"plan": [{"step": "x"}]}),
        json!({"plan": [{"step": "x", "status": "done", "note": ""}]}),
        json!({"plan": [], "more": 1}),
    ];
    for plan in unfit {
        assert!(registry.validate(UPDATE_PLAN, &plan).is_err(), "{plan}");
    }
}

#[tokio::test]
async fn an_error_names_the_call_or_the_tool_as_its_cause() {
    let registry = registry(&[]);
    let outside = "Absolute paths are not accepted. Write it relative to the folder that list_files shows.";
    let missing = "\"nothing.rs\" cannot be used: there is no such file; list_files shows what there is.";
    let folder = "\"builtin\" cannot be used: it is a folder; use list_files.";
    let table = [
        ("read_file", json!({"path": "nothing.rs"}), missing),
        ("read_file", json!({"path": "builtin"}), folder),
        ("read_file", json!({"path": "/etc/passwd"}), outside),
        ("list_files", json!({"path": "nothing.rs"}), missing),
        ("search_files", json!({"pattern": "x", "path": "nothing.rs"}), missing),
        ("calculator", json!({"expression": "2 km"}), "`k` at character 3 is not expected there."),
    ];
    for (tool, arguments, message) in table {
        assert_eq!(call(&registry, tool, arguments.clone()).await, refused(message), "{tool} {arguments}");
    }
    let asked = [
        ("read_file", json!({"path": "../Cargo.toml"})),
        ("read_file", json!({"path": "lib.rs/x"})),
        ("read_file", json!({"path": "x".repeat(4000)})),
        ("read_file", json!({"path": "nul\0"})),
        ("list_files", json!({"path": "lib.rs"})),
        ("search_files", json!({"pattern": "("})),
        ("search_blob", json!({"hash": BROKEN, "pattern": "("})),
    ];
    for (tool, arguments) in asked {
        let ran = call(&registry, tool, arguments.clone()).await;
        let told = (ran.outcome.status, ran.outcome.cause, ran.before_start);
        assert_eq!(told, (Closing::Error, Some(Cause::Asked), true), "{tool} {arguments}");
    }
    assert_eq!(
        call(&registry, "search_blob", json!({"hash": BROKEN, "pattern": "x"})).await,
        failed("The store is down.")
    );
}
