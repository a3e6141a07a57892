//! Runs as trees with times, from stored transitions: finished, waiting, resumed, killed.

use baton_core::id::{EffectId, FramePath, RunId};
use baton_core::policy::OnUnknown;
use baton_core::run::{ApprovalStatus, Choice, RunStatus};
use baton_core::trace::TraceParent;
use baton_engine::{Engine, EngineError, Rested, RunRequest, TraceSpan, trace_id_of};
use baton_store::{ClaimMode, Store};
use serde_json::{Value, json};

use crate::everywhere;
use crate::world::{NOW, TENANT, World, insist, sure};

everywhere!(
    a_wait_stands_between_what_two_claims_did,
    what_a_crash_interrupted_is_shown_as_such,
    a_call_of_which_nobody_knows_is_unknown,
    each_try_of_a_call_has_a_span_of_its_own,
    a_run_that_a_person_asked_for_has_a_span_of_its_own,
    a_claim_that_committed_nothing_is_shown,
    a_parent_outlives_the_process,
);

/// A tree as lines: depth, name, start and end relative to the run's start, and the main attributes.
async fn lines(world: &World, engine: &Engine, run: RunId) -> Vec<String> {
    let mut spans = engine.trace(&TENANT, run).await.unwrap().spans;
    if matches!(world.store, Store::Faulty(_)) {
        without_lost_claims(&mut spans);
    }
    let mut lines = Vec::new();
    for span in &spans {
        add(span, 0, &mut lines);
    }
    lines
}

/// A claim whose answer was lost is made once more: the first of the two did nothing.
fn without_lost_claims(spans: &mut Vec<TraceSpan>) {
    let is_claim = |span: &TraceSpan| span.attributes.contains_key("baton.epoch");
    let is_lost = |span: &TraceSpan| {
        is_claim(span) && span.children.is_empty() && span.attributes["baton.status"] == "interrupted"
    };
    spans.retain(|span| !is_lost(span));
    for (epoch, span) in spans.iter_mut().filter(|span| is_claim(span)).enumerate() {
        span.attributes.insert("baton.epoch".to_owned(), json!(epoch + 1));
    }
}

fn add(span: &TraceSpan, depth: usize, lines: &mut Vec<String>) {
    let end = span.end.map_or("".to_owned(), |end| end.ms_since(NOW).to_string());
    let known = ["baton.epoch", "baton.attempt", "baton.status", "gen_ai.usage.output_tokens", "error.type"];
    let known = known.into_iter().filter_map(|name| span.attributes.get(name)).map(Value::to_string);
    let known: Vec<String> = known.collect();
    lines.push(format!(
        "{}{} {}..{end} {}",
        "  ".repeat(depth),
        span.name,
        span.start.ms_since(NOW),
        known.join(" ")
    ));
    for child in &span.children {
        assert_eq!(child.parent_span_id.as_ref(), Some(&span.span_id));
        add(child, depth + 1, lines);
    }
}

async fn a_wait_stands_between_what_two_claims_did(mut world: World) {
    world.decision.approvals = vec!["once".to_owned()];
    let usage = json!({"usage": {"prompt_tokens": 7, "completion_tokens": 3}});
    let call = json!({"call": {"name": "once", "arguments": {"do": "fail"}}});
    world.script(json!([[call, usage], [{"text": "so be it"}, usage]]));
    let engine = world.engine();
    let (handle, rested, _) = world.turn(&engine, "please").await;
    assert_eq!(rested, Rested::Suspended);
    let so_far =
        ["invoke_agent baton 0..0 1 \"suspended\"", "  chat scripted 0..0 1 3", "wait approval 0.. "];
    assert_eq!(lines(&world, &engine, handle.run).await, so_far);

    world.clock.advance_ms(5_000);
    let pending = insist(|| world.store.approvals(&TENANT, Some(ApprovalStatus::Pending), None, 9)).await;
    engine.decide(&TENANT, &pending[0].id, Choice::Approve, None, None, None).await.unwrap();
    let rested = engine.drive(&TENANT, handle.run).await.unwrap().unwrap().rested().await;
    assert_eq!(rested, Rested::Ended(RunStatus::Ok));
    assert_eq!(
        lines(&world, &engine, handle.run).await,
        [
            "invoke_agent baton 0..0 1 \"suspended\"",
            "  chat scripted 0..0 1 3",
            "wait approval 0..5000 ",
            "invoke_agent baton 5000..5000 2 \"ok\"",
            "  execute_tool once 5000..5000 1 \"tool_failed\"",
            "  chat scripted 5000..5000 1 3",
        ]
    );
}

/// A run that holds in a tool when its process dies, seven seconds after it began.
async fn interrupted(world: &World, tool: &str) -> RunId {
    let usage = json!({"usage": {"prompt_tokens": 7, "completion_tokens": 3}});
    let hold = json!({"call": {"name": tool, "arguments": {"do": "hold"}}});
    world.script(json!([[hold, usage], [{"text": "and so it ended"}, usage]]));
    let engine = world.engine();
    let handle = engine.start(world.request("go")).await.unwrap();
    world.ledger.arrived(1).await;
    let driven = [
        "invoke_agent baton 0.. 1 \"running\"".to_owned(),
        "  chat scripted 0..0 1 3".to_owned(),
        format!("  execute_tool {tool} 0.. 1"),
    ];
    assert_eq!(lines(world, &engine, handle.run).await, driven, "it is driven");
    engine.crash().await;
    world.ledger.open();
    world.clock.advance_ms(7_000);
    handle.run
}

async fn resume(engine: &Engine, run: RunId) {
    let rested = engine.resume(&TENANT, run, ClaimMode::IfFree).await.unwrap().rested().await;
    assert_eq!(rested, Rested::Ended(RunStatus::Ok));
}

async fn what_a_crash_interrupted_is_shown_as_such(world: World) {
    let run = interrupted(&world, "safe").await;
    let engine = world.engine();
    let left = [
        "invoke_agent baton 0..0 1 \"interrupted\"",
        "  chat scripted 0..0 1 3",
        "  execute_tool safe 0..0 1 \"interrupted\"",
    ];
    assert_eq!(lines(&world, &engine, run).await, left);
    resume(&engine, run).await;
    let then = [
        "invoke_agent baton 7000..7000 2 \"ok\"",
        "  execute_tool safe 7000..7000 2",
        "  chat scripted 7000..7000 1 3",
    ];
    assert_eq!(lines(&world, &engine, run).await, [left, then].concat());
    let spans = engine.trace(&TENANT, run).await.unwrap().spans;
    for (epoch, span) in (1..).zip(&spans) {
        assert_eq!(span.span_id, run.span_id(epoch));
    }
    // Between the two there may be claims whose answers were lost.
    let [first, .., last] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(first.children[1].span_id, last.children[0].span_id, "it is the same effect");
}

async fn a_call_of_which_nobody_knows_is_unknown(world: World) {
    let run = interrupted(&world, "once").await;
    let engine = world.engine();
    resume(&engine, run).await;
    assert_eq!(
        lines(&world, &engine, run).await,
        [
            "invoke_agent baton 0..0 1 \"interrupted\"",
            "  chat scripted 0..0 1 3",
            "  execute_tool once 0..0 1 \"unknown\"",
            "invoke_agent baton 7000..7000 2 \"ok\"",
            "  chat scripted 7000..7000 1 3",
        ]
    );
}

/// The spans of tools in a trace, and those that the account names, in order.
async fn tool_spans(engine: &Engine, run: RunId) -> (Vec<String>, Vec<String>) {
    let claims = engine.trace(&TENANT, run).await.unwrap().spans;
    let spans = claims.into_iter().flat_map(|claim| claim.children);
    let tools = spans.filter(|span| span.name.starts_with("execute_tool")).map(|span| span.span_id).collect();
    let steps = engine.view(&TENANT, run).await.unwrap().steps;
    let named = steps.iter().filter(|step| step.metadata.contains_key("tool_name"));
    let named = named.map(|step| step.metadata["span_id"].as_str().unwrap().to_owned()).collect();
    (tools, named)
}

async fn each_try_of_a_call_has_a_span_of_its_own(world: World) {
    let usage = json!({"usage": {"prompt_tokens": 7, "completion_tokens": 3}});
    let flaky = json!({"call": {"name": "safe", "arguments": {"do": "flaky"}}});
    world.script(json!([[flaky, usage], [{"text": "and so it ended"}, usage]]));
    let engine = world.engine();
    let mut handle = engine.start(world.request("go")).await.unwrap();
    world.ledger.arrived(2).await;
    world.clock.advance_ms(3_000);
    world.ledger.open();
    assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Ok));
    assert_eq!(
        lines(&world, &engine, handle.run).await,
        [
            "invoke_agent baton 0..3000 1 \"ok\"",
            "  chat scripted 0..0 1 3",
            "  execute_tool safe 0..0 1 \"tool_failed\"",
            "  execute_tool safe 0..3000 1",
            "  chat scripted 3000..3000 1 3",
        ]
    );
    let (tools, named) = tool_spans(&engine, handle.run).await;
    let effect = EffectId { run: handle.run, path: FramePath::root(), n: 1 };
    assert_eq!(tools, [effect.span_id_of(0), effect.span_id_of(1)]);
    assert_eq!(named, tools, "and the account tells them apart");
}

async fn a_run_that_a_person_asked_for_has_a_span_of_its_own(mut world: World) {
    world.decision.on_unknown = OnUnknown::AskPerson;
    let run = interrupted(&world, "once").await;
    let engine = world.engine();
    let rested = engine.resume(&TENANT, run, ClaimMode::IfFree).await.unwrap().rested().await;
    assert_eq!(rested, Rested::Suspended);
    world.clock.advance_ms(5_000);
    let pending = insist(|| world.store.approvals(&TENANT, Some(ApprovalStatus::Pending), None, 9)).await;
    engine.decide(&TENANT, &pending[0].id, Choice::Approve, None, None, None).await.unwrap();
    resume(&engine, run).await;
    assert_eq!(
        lines(&world, &engine, run).await,
        [
            "invoke_agent baton 0..0 1 \"interrupted\"",
            "  chat scripted 0..0 1 3",
            "  execute_tool once 0..0 1 \"unknown\"",
            "invoke_agent baton 7000..7000 2 \"suspended\"",
            "wait approval 7000..12000 ",
            "invoke_agent baton 12000..12000 3 \"ok\"",
            "  execute_tool once 12000..12000 1",
            "  chat scripted 12000..12000 1 3",
        ]
    );
    let (tools, named) = tool_spans(&engine, run).await;
    let effect = EffectId { run, path: FramePath::root(), n: 1 };
    assert_eq!(tools, [effect.span_id_of(0), effect.span_id_of(1)]);
    assert_eq!(named, [effect.span_id_of(1)], "the account tells of the run that came to something");
}

async fn a_claim_that_committed_nothing_is_shown(world: World) {
    let run = interrupted(&world, "safe").await;
    let dead = insist(|| async { world.store.enlist() }).await;
    sure(&world.store).claim(&TENANT, run, dead.id, ClaimMode::Take, NOW).await.unwrap();
    drop(dead);
    let engine = world.engine();
    resume(&engine, run).await;
    let spans = engine.trace(&TENANT, run).await.unwrap().spans;
    let told = |span: &TraceSpan| (span.children.is_empty(), span.attributes["baton.status"].clone());
    let mut claims: Vec<(bool, Value)> = spans.iter().map(told).collect();
    claims.dedup(); // one whose answer was lost is made once more
    let (did_nothing, interrupted) = (true, json!("interrupted"));
    assert_eq!(
        claims,
        [(!did_nothing, interrupted.clone()), (did_nothing, interrupted), (!did_nothing, json!("ok"))]
    );
    if !matches!(world.store, Store::Faulty(_)) {
        let lines = lines(&world, &engine, run).await;
        let claims: Vec<&str> =
            lines.iter().map(String::as_str).filter(|line| line.starts_with("invoke_agent")).collect();
        assert_eq!(
            claims,
            [
                "invoke_agent baton 0..0 1 \"interrupted\"",
                "invoke_agent baton 0..0 2 \"interrupted\"",
                "invoke_agent baton 7000..7000 3 \"ok\"",
            ]
        );
    }
}

async fn a_parent_outlives_the_process(world: World) {
    world.script(json!([[{"text": "hello"}]]));
    let parent: TraceParent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
    let request =
        |metadata: Value| RunRequest { traceparent: Some(parent.clone()), metadata, ..world.request("hi") };
    let refused = world.engine().start(request(json!("a remark"))).await.unwrap_err();
    assert!(matches!(refused, EngineError::Invalid(_)), "{refused}");
    let forged = json!({"traceparent": parent.to_string()});
    for traceparent in [None, Some(parent.clone())] {
        let request = RunRequest { traceparent, ..request(forged.clone()) };
        let refused = world.engine().start(request).await.unwrap_err();
        let why = "the metadata of a run hold no \"traceparent\": give it as the request's own";
        assert_eq!(refused, EngineError::Invalid(why.to_owned()));
    }
    let mut handle = world.engine().start(request(json!({"by": "me"}))).await.unwrap();
    assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Ok));

    let row = insist(|| world.store.run(&TENANT, handle.run)).await;
    assert_eq!(row.metadata, json!({"by": "me", "traceparent": parent.to_string()}));
    assert_eq!(trace_id_of(&row), parent.trace_id);
    let trace = world.engine().trace(&TENANT, handle.run).await.unwrap();
    assert_eq!(trace.trace_id, parent.trace_id);
    assert_eq!(trace.spans[0].parent_span_id, Some(parent.span_id));
}
