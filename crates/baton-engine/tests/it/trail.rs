//! The tool calls of runs in the audit trail, which are added beside the runs.

use baton_core::id::ThreadId;
use baton_core::redact::Redactor;
use baton_core::run::{Choice, RunStatus};
use baton_core::time::Timestamp;
use baton_engine::{Engine, EngineError, Execute, KnownSecrets, Rested};
use baton_store::{GcRequest, NewKey, NewThread, StoreError, verify};
use serde_json::{Value, json};

use crate::everywhere;
use crate::world::{NOW, TENANT, World, sure};

everywhere!(
    a_call_with_effects_leaves_one_row,
    a_call_is_told_of_when_its_run_waits_and_not_again_when_it_ends,
    arguments_of_a_call_are_told_without_secrets_and_cut_off,
    a_call_that_was_interrupted_is_told_as_unknown,
    two_processes_tell_of_each_call_once,
    a_thread_goes_after_its_calls_are_told_of,
    a_call_outside_a_run_is_told_of_before_and_after,
);

async fn tell(engine: &Engine) {
    // Where the store fails now and then, rows that are missing are added the next time.
    while let Err(error) = engine.tell_calls().await {
        assert!(matches!(&error, EngineError::Store(error) if error.is_transient()), "{error:?}");
    }
}

/// The payloads of all rows about calls, without the ids of their thread and trace. The chain holds as many.
async fn called(world: &World, engine: &Engine) -> Vec<Value> {
    tell(engine).await;
    tell(engine).await; // nothing twice
    let store = sure(&world.store);
    let sealed = store.audit(None, 0, 99).await.unwrap();
    verify(sealed.clone(), None).unwrap();
    let rows = store.outbox(0, 99).await.unwrap().into_iter().filter(|row| row.event.kind == "tool.called");
    let payload = |row: baton_store::Outgoing| {
        let mut payload = row.event.payload;
        let fields = payload.as_object_mut().unwrap();
        fields.retain(|name, _| !["thread_id", "trace_id", "digest"].contains(&name.as_str()));
        payload
    };
    let told: Vec<Value> = rows.map(payload).collect();
    let in_chain = sealed.iter().filter(|row| row.kind == "tool.called").count();
    assert_eq!(in_chain, told.len(), "{sealed:?}");
    told
}

fn call(name: &str, arguments: Value) -> Value {
    json!({"call": {"name": name, "arguments": arguments}})
}

/// The fields of a row that identify a call.
fn brief(row: &Value) -> Value {
    json!([row["name"], row["class"], row["arguments"]["n"], row["outcome"], row["attempts"]])
}

fn briefly(rows: &[Value]) -> Vec<Value> {
    rows.iter().map(brief).collect()
}

async fn a_call_with_effects_leaves_one_row(mut world: World) {
    world.settings.audit.send = true;
    world.script(json!([
        [call("safe", json!({"do": "ok"})), call("once", json!({"do": "ok", "n": 1}))],
        [call("idem", json!({"do": "fail", "n": 2})), call("once", json!({"n": 3})), call("nope", json!({}))],
        [{"text": "done"}],
    ]));
    let engine = world.engine();
    let (handle, rested, _) = world.turn(&engine, "go").await;
    assert_eq!(rested, Rested::Ended(RunStatus::Ok));
    let rows = called(&world, &engine).await;
    let expected = [
        json!(["once", "unsafe", 1, "ok", 1]),
        // A call whose arguments do not fit was not made.
        json!(["once", "unsafe", 3, "error", 0]),
        json!(["idem", "idempotent", 2, "error", 2]),
    ];
    let mut told = briefly(&rows);
    told.sort_by_key(|row| row[2].as_u64());
    let mut sorted = expected.to_vec();
    sorted.sort_by_key(|row| row[2].as_u64());
    assert_eq!(told, sorted);
    let first = &rows[0];
    let whole = json!({
        "run_id": handle.run, "at": first["at"], "call_id": first["call_id"], "name": "once", "class": "unsafe",
        "arguments": {"do": "ok", "n": 1}, "outcome": "ok", "attempts": 1,
    });
    assert_eq!(*first, whole);
}

async fn a_call_is_told_of_when_its_run_waits_and_not_again_when_it_ends(mut world: World) {
    world.settings.audit.send = true;
    world.decision.approvals = vec!["idem".to_owned()];
    world.script(json!([
        [call("once", json!({"do": "ok", "n": 1})), call("idem", json!({"do": "ok", "n": 2}))],
        [call("idem", json!({"do": "ok", "n": 3}))],
        [{"text": "done"}],
    ]));
    let engine = world.engine();
    let (handle, rested, _) = world.turn(&engine, "go").await;
    assert_eq!(rested, Rested::Suspended);
    let first = json!(["once", "unsafe", 1, "ok", 1]);
    assert_eq!(briefly(&called(&world, &engine).await), std::slice::from_ref(&first));
    let decide = async |choice, arguments: Option<Value>| {
        let waiting = engine.view(&TENANT, handle.run).await.unwrap().waiting;
        engine.decide(&TENANT, &waiting[0].id, choice, arguments, None, None).await.unwrap();
        let mut driven = engine.drive(&TENANT, handle.run).await.unwrap().unwrap();
        (driven.rested().await, waiting[0].id.clone())
    };
    let (rested, _) = decide(Choice::Deny, None).await;
    assert_eq!(rested, Rested::Suspended);
    // The row of the denied one is added only after the run has rested again; then that of the last one, with its
    // arguments.
    let (rested, approval) = decide(Choice::Edit, Some(json!({"do": "ok", "n": 9}))).await;
    assert_eq!(rested, Rested::Ended(RunStatus::Ok));
    let rows = called(&world, &engine).await;
    let denied = json!(["idem", "idempotent", 2, "denied", 0]);
    let edited = json!(["idem", "unsafe", 9, "ok", 1]);
    assert_eq!(briefly(&rows), [first, denied, edited]);
    assert_eq!((&rows[0]["approval_id"], &rows[2]["approval_id"]), (&Value::Null, &json!(approval)));
}

async fn arguments_of_a_call_are_told_without_secrets_and_cut_off(mut world: World) {
    world.settings.audit.send = true;
    world.settings.audit.secrets = KnownSecrets::new(|| vec![Redactor::new("sk-12345678")]);
    let url = "https://me:pass@h/?k=sk-12345678";
    world.script(json!([
        [call("once", json!({"do": "ok", "note": url})), call("once", json!({"do": "ok", "note": "x".repeat(9000)}))],
        [{"text": "done"}],
    ]));
    let engine = world.engine_of(world.scripted(), Vec::new());
    world.turn(&engine, "go").await;
    let rows = called(&world, &engine).await;
    assert!(
        !format!("{rows:?}").contains("sk-12345678") && !format!("{rows:?}").contains("me:pass"),
        "{rows:?}"
    );
    let lengths: Vec<usize> = rows.iter().map(|row| row["arguments"].to_string().len()).collect();
    assert!(lengths.iter().all(|length| *length < 5000), "{lengths:?}");
}

async fn a_call_that_was_interrupted_is_told_as_unknown(mut world: World) {
    world.settings.audit.send = true;
    world.script(json!([[call("once", json!({"do": "hold", "n": 1}))], [{"text": "done"}]]));
    let dying = world.engine();
    let handle = dying.start(world.request("go")).await.unwrap();
    world.ledger.arrived(1).await;
    assert_eq!(called(&world, &dying).await, Vec::<Value>::new(), "it is under way");
    dying.bury();
    let engine = world.engine();
    let mut driven = engine.drive(&TENANT, handle.run).await.unwrap().unwrap();
    assert_eq!(driven.rested().await, Rested::Ended(RunStatus::Ok));
    world.ledger.open();
    let rows = called(&world, &engine).await;
    assert_eq!(briefly(&rows), [json!(["once", "unsafe", 1, "unknown", 1])]);
}

async fn two_processes_tell_of_each_call_once(mut world: World) {
    world.settings.audit.send = true;
    let once = |n: usize| [call("once", json!({"do": "ok", "n": n}))];
    world.script(json!([once(0), [{"text": "a"}], once(1), [{"text": "b"}], once(2), [{"text": "c"}]]));
    let (one, other) = (world.engine(), world.engine());
    for _ in 0..3 {
        world.turn(&one, "go").await;
    }
    tokio::join!(tell(&one), tell(&other));
    let rows = called(&world, &other).await;
    assert_eq!(briefly(&rows), [0, 1, 2].map(|n| json!(["once", "unsafe", n, "ok", 1])));
}

async fn a_thread_goes_after_its_calls_are_told_of(mut world: World) {
    world.settings.audit.send = true;
    let once = [call("once", json!({"do": "ok", "n": 1}))];
    world.script(json!([once, [{"text": "a"}], once, [{"text": "b"}]]));
    let engine = world.engine();
    world.turn(&engine, "go").await;
    let id: ThreadId = "t".parse().unwrap();
    while let Err(error) = engine.delete_thread(&TENANT, &id, "ann").await {
        if matches!(error, EngineError::Store(StoreError::NotFound { .. })) {
            break; // done before, but the answer was lost
        }
        assert!(matches!(&error, EngineError::Store(error) if error.is_transient()), "{error:?}");
    }
    // And a thread that has expired.
    let store = sure(&world.store);
    let mortal = NewThread { id: id.clone(), at: NOW, ttl_at: Some(NOW), meta: json!({}) };
    store.create_thread(&TENANT, mortal).await.unwrap();
    world.turn(&engine, "go").await;
    let now = Timestamp(NOW.0 + 60_000);
    let request = GcRequest { now, runs_before: Some(now), blobs_before: None, dry_run: false };
    while store.thread(&TENANT, &id).await.is_ok() {
        let _ = engine.collect(&request, "retention").await;
    }
    assert_eq!(called(&world, &engine).await.len(), 2);
    let rows = store.outbox(0, 99).await.unwrap();
    let kinds: Vec<_> = rows.iter().map(|row| row.event.kind.as_str()).collect();
    let of_thread = ["agent.started", "agent.completed", "tool.called", "thread.deleted"];
    assert_eq!(kinds, [of_thread, of_thread].concat());
    let by: Vec<&Value> = rows.iter().map(|row| &row.event.payload["by"]).collect();
    assert_eq!((by[3], by[7]), (&json!("ann"), &json!("retention")));
}

async fn a_call_outside_a_run_is_told_of_before_and_after(mut world: World) {
    world.settings.audit.send = true;
    world.script(json!([]));
    let engine = world.engine();
    let execute = |name: &str, arguments: Value, key: Option<&str>| {
        let body_hash = format!("{name}{arguments}");
        let expires_at = Timestamp(NOW.0 + 86_400_000);
        let key = key.map(|key| NewKey {
            route: "/execute".to_owned(),
            key: key.to_owned(),
            body_hash,
            expires_at,
        });
        let (mode, by) = (baton_core::policy::Mode::Exploratory, Some("ann".to_owned()));
        let (tenant, name, metadata) = (TENANT.clone(), name.to_owned(), Value::Null);
        Execute { tenant, mode, name, arguments, timeout: None, key, metadata, by }
    };
    engine.execute(execute("safe", json!({"do": "ok"}), None)).await.unwrap();
    engine.execute(execute("once", json!({"do": "ok", "n": 1}), None)).await.unwrap();
    engine.execute(execute("idem", json!({"do": "fail", "n": 2}), Some("k"))).await.unwrap();
    engine.execute(execute("idem", json!({"do": "fail", "n": 2}), Some("k"))).await.unwrap();
    let mut rows = called(&world, &engine).await;
    rows.dedup(); // a write with an unknown outcome is made again
    let told: Vec<Value> = rows
        .iter()
        .map(|row| json!([row["name"], row["arguments"]["n"], row["outcome"], row["by"]]))
        .collect();
    let row = |name: &str, n: u32, outcome: &str| json!([name, n, outcome, "ann"]);
    let expected =
        [row("once", 1, "started"), row("once", 1, "ok"), row("idem", 2, "started"), row("idem", 2, "error")];
    assert_eq!(told, expected, "and the answer to a key that was used is no call");
    assert_eq!((&rows[2]["call_id"], &rows[3]["call_id"]), (&json!("k"), &json!("k")));
}
