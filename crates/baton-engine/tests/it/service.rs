//! The engine's functions for a service: single calls, forks of runs, the audit trail, tools that come and go.

use std::sync::Arc;

use baton_core::id::{RunId, Tenant};
use baton_core::policy::Mode;
use baton_core::run::{ApprovalStatus, Choice, RunStatus};
use baton_core::time::Timestamp;
use baton_engine::{Engine, EngineError, Execute, Executed, Rested, RunHandle, RunRequest, Submitted};
use baton_store::{NewKey, StoreError};
use baton_tools::Registry;
use serde_json::{Value, json};

use crate::check::check;
use crate::everywhere;
use crate::world::{NOW, TENANT, World, insist, kinds};

everywhere!(
    a_tool_is_called_outside_any_run,
    a_keyed_call_is_made_once,
    a_call_whose_maker_died_is_made_again_only_where_that_does_no_harm,
    a_run_goes_on_from_a_step_of_another,
    a_call_that_was_open_is_asked_about_again,
    a_step_that_is_not_there_is_refused,
    a_key_forks_once,
    the_audit_trail_tells_of_every_run,
    the_audit_trail_tells_what_was_decided,
    tools_come_and_go,
);

fn call(name: &str, arguments: Value, key: Option<&str>) -> Execute {
    let key = key.map(|key| NewKey {
        route: "/execute".to_owned(),
        key: key.to_owned(),
        body_hash: format!("{name}{arguments}"),
        expires_at: Timestamp(NOW.0 + 86_400_000),
    });
    let (tenant, mode) = (Tenant::local(), Mode::Exploratory);
    let (name, metadata, by) = (name.to_owned(), Value::Null, Some("ann".to_owned()));
    Execute { tenant, mode, name, arguments, timeout: None, key, metadata, by }
}

/// The result of a call, without how long it took.
fn told(executed: Executed) -> (bool, Value) {
    (executed.is_ok, executed.output)
}

async fn a_tool_is_called_outside_any_run(mut world: World) {
    world.decision.approvals = vec!["once".to_owned()];
    world.decision.tools = vec!["safe".to_owned(), "once".to_owned()];
    world.script(json!([]));
    let engine = world.engine();
    let made = |name: &'static str, arguments| {
        let engine = engine.clone();
        async move { told(engine.execute(call(name, arguments, None)).await.unwrap()) }
    };
    assert_eq!(made("safe", json!({"do": "ok"})).await, (true, json!({"did": "ok", "n": null})));
    assert_eq!(made("safe", json!({"do": "fail"})).await, (false, json!("it failed as told")));
    assert_eq!(made("nope", json!({})).await, (false, json!("there is no tool \"nope\"")));
    let denied = "idem is not allowed here (rule \"default\")";
    assert_eq!(made("idem", json!({"do": "ok"})).await, (false, json!(denied)));
    let asks = "once needs a person's approval, which only a run can ask for";
    assert_eq!(made("once", json!({"do": "ok"})).await, (false, json!(asks)));
    let (is_ok, output) = made("safe", json!({"do": "dance"})).await;
    assert!(!is_ok && output.as_str().unwrap().starts_with("The arguments do not fit `safe`"), "{output}");
    assert_eq!(world.ledger.calls().len(), 2, "what is refused never runs");
}

async fn a_keyed_call_is_made_once(world: World) {
    world.script(json!([]));
    let engine = world.engine();
    let again = || engine.execute(call("once", json!({"do": "ok"}), Some("k")));
    let both = tokio::join!(again(), again());
    assert_eq!(told(both.0.unwrap()), (true, json!({"did": "ok", "n": null})));
    assert_eq!(told(both.1.unwrap()), (true, json!({"did": "ok", "n": null})));
    assert!(told(again().await.unwrap()).0);
    assert_eq!(world.ledger.calls(), [("k".to_owned(), "once".to_owned())], "with the caller's key");
    let other = engine.execute(call("once", json!({"do": "ok", "n": 2}), Some("k"))).await;
    assert_eq!(other, Err(EngineError::KeyMismatch));
}

async fn a_call_whose_maker_died_is_made_again_only_where_that_does_no_harm(world: World) {
    world.script(json!([]));
    let dying = world.engine();
    for name in ["once", "idem"] {
        let dying = dying.clone();
        tokio::spawn(async move { dying.execute(call(name, json!({"do": "hold"}), Some(name))).await });
    }
    world.ledger.arrived(2).await;
    dying.bury();
    let engine = world.engine();
    let unknown = "the call was interrupted, and nobody knows whether it took effect; it is not made again";
    let once = || engine.execute(call("once", json!({"do": "hold"}), Some("once")));
    assert_eq!(told(once().await.unwrap()), (false, json!(unknown)));
    assert_eq!(told(once().await.unwrap()), (false, json!(unknown)), "and so it stays");
    world.ledger.open();
    let idem = engine.execute(call("idem", json!({"do": "hold"}), Some("idem"))).await.unwrap();
    assert_eq!(told(idem), (true, json!({"did": "hold", "n": null})));
    assert_eq!((world.ledger.count("once"), world.ledger.count("idem")), (1, 1), "one key is one effect");
}

async fn fork(engine: &Engine, run: RunId, step: u32) -> RunHandle {
    match engine.fork_run(&TENANT, run, step, None).await.unwrap() {
        Submitted::Started(handle) => handle,
        other => panic!("{other:?}"),
    }
}

/// A fork whose answer was lost is asked for again by its key.
async fn a_key_forks_once(world: World) {
    world.script(json!([[{"text": "done"}]]));
    let engine = world.engine();
    let (handle, ..) = world.turn(&engine, "go").await;
    let key = |body: &str| {
        Some(NewKey {
            route: "/fork".to_owned(),
            key: "k".to_owned(),
            body_hash: body.to_owned(),
            expires_at: Timestamp(NOW.0 + 86_400_000),
        })
    };
    let first = engine.fork_run(&TENANT, handle.run, 1, key("1")).await.unwrap();
    let again = engine.fork_run(&TENANT, handle.run, 1, key("1")).await.unwrap();
    assert!(matches!(again, Submitted::Repeated(run) if run == first.run()), "{again:?}");
    let other = engine.fork_run(&TENANT, handle.run, 1, key("2")).await;
    assert_eq!(other.err(), Some(EngineError::KeyMismatch));
    let branches = insist(|| world.store.thread(&TENANT, &handle.thread)).await.branches;
    assert_eq!(branches.len(), 2);
}

async fn a_run_goes_on_from_a_step_of_another(world: World) {
    let safe = json!([{"call": {"name": "safe", "arguments": {"do": "ok"}}}]);
    world.script(json!([safe, [{"text": "the end"}]]));
    let engine = world.engine();
    let (handle, rested, _) = world.turn(&engine, "go").await;
    assert_eq!(rested, Rested::Ended(RunStatus::Ok));
    let steps = insist(|| world.store.steps(&TENANT, handle.run, 0, 99)).await;
    let after_tool = steps[2].step;
    let mut forked = fork(&engine, handle.run, after_tool).await;
    assert_eq!(forked.rested().await, Rested::Ended(RunStatus::Ok));
    assert_eq!(kinds(&world.events(forked.run).await), ["started", "delta", "ended ok"]);
    let row = insist(|| world.store.run(&TENANT, forked.run)).await;
    assert!(row.branch.as_str().starts_with("fork-"), "{}", row.branch);
    let view = engine.view(&TENANT, forked.run).await.unwrap();
    assert_eq!(view.result.as_deref(), Some("the end"));
    let thread = insist(|| world.store.thread(&TENANT, &forked.thread)).await;
    let ends: Vec<(String, i64)> =
        thread.branches.iter().map(|branch| (branch.name.to_string(), branch.head.index)).collect();
    assert_eq!(ends, [(row.branch.to_string(), 4), ("main".to_owned(), 4)], "each has an end of its own");
    assert_eq!(world.ledger.count("safe"), 1, "what was done before the step is not done again");
    check(&world, forked.run, &[]).await.unwrap();
}

async fn a_call_that_was_open_is_asked_about_again(world: World) {
    let once = json!([{"call": {"name": "once", "arguments": {"do": "ok", "n": 7}}}]);
    world.script(json!([once, [{"text": "first"}], [{"text": "second"}]]));
    let engine = world.engine();
    let (handle, ..) = world.turn(&engine, "go").await;
    let mut forked = fork(&engine, handle.run, 2).await;
    assert_eq!(forked.rested().await, Rested::Suspended);
    assert_eq!(world.ledger.count("once"), 1, "nothing runs by itself");
    let asked = insist(|| world.store.approvals(&TENANT, Some(ApprovalStatus::Pending), None, 9)).await;
    let expected = (forked.run, "once", json!({"do": "ok", "n": 7}));
    assert_eq!((asked[0].run_id, asked[0].name.as_str(), asked[0].args.clone()), expected);
    engine.decide(&TENANT, &asked[0].id, Choice::Approve, None, None, None).await.unwrap();
    let mut again = engine.drive(&TENANT, forked.run).await.unwrap().unwrap();
    assert_eq!(again.rested().await, Rested::Ended(RunStatus::Ok));
    assert_eq!(world.ledger.count("once"), 2);
    check(&world, forked.run, &[]).await.unwrap();
}

async fn a_step_that_is_not_there_is_refused(world: World) {
    world.script(json!([[{"text": "done"}]]));
    let engine = world.engine();
    let (handle, ..) = world.turn(&engine, "go").await;
    let none =
        |step: &str| Some(EngineError::Store(StoreError::NotFound { what: "step", id: step.to_owned() }));
    assert_eq!(engine.fork_run(&TENANT, handle.run, 0, None).await.err(), none("0"));
    assert_eq!(engine.fork_run(&TENANT, handle.run, 99, None).await.err(), none("99"));
    let last = insist(|| world.store.run(&TENANT, handle.run)).await.step;
    let why = format!("the run ends with step {last}: fork from an earlier one");
    assert_eq!(engine.fork_run(&TENANT, handle.run, last, None).await.err(), Some(EngineError::Invalid(why)));
    let branches = insist(|| world.store.thread(&TENANT, &handle.thread)).await.branches;
    assert_eq!(branches.len(), 1, "no branch is left behind");
}

/// The trail as `(type, run, payload without ids)`.
async fn trail(world: &World) -> Vec<(String, String, Value)> {
    let rows = insist(|| world.store.outbox(0, 99)).await;
    let tell = |row: baton_store::Outgoing| {
        let mut payload = row.event.payload;
        for name in ["thread_id", "trace_id", "usage", "run_id"] {
            payload.as_object_mut().unwrap().remove(name);
        }
        (row.event.kind, row.event.correlation, payload)
    };
    rows.into_iter().map(tell).collect()
}

async fn the_audit_trail_tells_of_every_run(mut world: World) {
    world.settings.audit.send = true;
    let ask = json!([{"call": {"name": "ask_user", "arguments": {"question": "Which?"}}}]);
    world.script(json!([ask, [{"text": "done"}]]));
    let engine = world.engine();
    let correlated = RunRequest {
        correlation: Some("case-7".to_owned()),
        metadata: json!({"desk": 3}),
        ..world.request("go")
    };
    let mut handle = engine.start(correlated).await.unwrap();
    handle.rested().await;
    engine.cancel(&TENANT, handle.run).await.unwrap();
    engine.drive(&TENANT, handle.run).await.unwrap().unwrap().rested().await;
    let line = |kind: &str| (kind.to_owned(), "case-7".to_owned(), json!({"metadata": {"desk": 3}}));
    assert_eq!(
        trail(&world).await,
        [line("agent.started"), line("agent.suspended"), line("agent.cancelled")]
    );
    let failing = world.engine();
    let mut handle = failing.start(RunRequest { thread: None, ..world.request("x") }).await.unwrap();
    handle.rested().await;
    let run: RunId = handle.run;
    let last: Vec<_> = trail(&world).await.into_iter().filter(|(_, id, _)| *id == run.to_string()).collect();
    assert_eq!(last.first().map(|(kind, ..)| kind.as_str()), Some("agent.started"));
}

/// Of two calls one is edited and one denied; each decision is recorded once, with the arguments asked for and those
/// that run.
async fn the_audit_trail_tells_what_was_decided(mut world: World) {
    world.settings.audit.send = true;
    world.decision.approvals = vec!["once".to_owned()];
    let call = |n: usize| json!({"call": {"name": "once", "arguments": {"do": "ok", "n": n}}});
    world.script(json!([[call(0), call(1)], [{"text": "done"}]]));
    let engine = world.engine();
    let mut handle = engine.start(world.request("go")).await.unwrap();
    handle.rested().await;
    let waiting = engine.view(&TENANT, handle.run).await.unwrap().waiting;
    let ids: Vec<&str> = waiting.iter().map(|waiting| waiting.id.as_str()).collect();
    let asked = [
        insist(|| world.store.approval(&TENANT, ids[0])).await,
        insist(|| world.store.approval(&TENANT, ids[1])).await,
    ];
    let (by, why) = (|| Some("ann".to_owned()), || Some("too much".to_owned()));
    let edit = json!({"do": "ok", "n": 7});
    engine.decide(&TENANT, ids[0], Choice::Edit, Some(edit.clone()), why(), by()).await.unwrap();
    engine.decide(&TENANT, ids[1], Choice::Deny, None, why(), by()).await.unwrap();
    let again = engine.decide(&TENANT, ids[1], Choice::Approve, None, None, by()).await;
    assert!(matches!(again, Err(EngineError::Store(StoreError::AlreadyDecided { .. }))), "{again:?}");

    let decided: Vec<_> = trail(&world).await.into_iter().filter(|row| row.0 == "approval.decided").collect();
    let payload = |n: usize, decision: &str| {
        json!({
            "approval_id": ids[n], "call_id": asked[n].call_id, "kind": "call", "name": "once", "at": NOW,
            "decision": decision, "by": "ann", "digest": asked[n].digest, "arguments": {"do": "ok", "n": n},
            "reason": "too much",
        })
    };
    let mut expected = [payload(0, "edit"), payload(1, "deny")];
    expected[0]["edited_arguments"] = edit.clone();
    let at = |row: &(String, String, Value)| row.2["at"].clone();
    for (expected, told) in expected.iter_mut().zip(&decided) {
        expected["at"] = at(told);
    }
    let row = |payload: Value| ("approval.decided".to_owned(), handle.run.to_string(), payload);
    assert_eq!(decided, expected.map(row));

    let [edited, denied] = [
        insist(|| world.store.approval(&TENANT, ids[0])).await,
        insist(|| world.store.approval(&TENANT, ids[1])).await,
    ];
    assert_eq!((edited.original_args, edited.args), (Some(asked[0].args.clone()), edit));
    assert_eq!((denied.original_args, denied.args), (None, asked[1].args.clone()));
    assert_eq!([edited.decision_reason, denied.decision_reason], [why(), why()]);
}

async fn tools_come_and_go(world: World) {
    let safe = json!([{"call": {"name": "safe", "arguments": {"do": "ok"}}}]);
    world.script(json!([safe, [{"text": "{results}"}]]));
    let engine = world.engine();
    let all = engine.tools();
    engine.set_tools(Registry::new(Vec::new()).unwrap());
    assert_eq!(engine.tools().specs(), []);
    engine.set_tools(Registry::new(vec![Arc::clone(all.get("safe").unwrap())]).unwrap());
    let (handle, rested, _) = world.turn(&engine, "go").await;
    assert_eq!(rested, Rested::Ended(RunStatus::Ok));
    assert_eq!(world.ledger.count("safe"), 1);
    let offered = engine.view(&TENANT, handle.run).await.unwrap().definition.unwrap().tools;
    assert_eq!(offered.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["safe"]);
}
