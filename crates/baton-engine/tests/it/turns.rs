//! The entries and events that a turn leaves, on every store and in every mode.

use baton_core::run::RunStatus;
use baton_engine::Rested;
use baton_store::{ForkAt, Slice};
use serde_json::json;

use crate::check::check;
use crate::everywhere;
use crate::world::{NOW, TENANT, World, insist, kinds, sure};

everywhere!(
    an_answer_is_two_entries,
    a_tool_round_is_recorded,
    parallel_calls_are_all_closed,
    a_bad_call_is_told_to_the_model,
    a_failing_call_stops_after_three,
    rounds_are_limited,
    a_model_failure_ends_in_one_error,
    a_retryable_failure_is_tried_again,
    a_cut_stream_is_no_answer,
    a_panicking_tool_is_a_tool_error,
    a_tool_with_effects_that_panics_may_have_had_them,
    a_long_result_is_a_blob,
    open_calls_of_the_branch_are_closed_first,
    two_turns_see_each_other,
    a_process_that_has_not_seen_a_thread_finds_where_it_goes_on,
    a_busy_branch_refuses_a_second_run,
);

async fn an_answer_is_two_entries(world: World) {
    world.script(json!([[{"text": "Hello there"}]]));
    let (handle, rested, events) = world.turn(&world.engine(), "hi").await;
    assert_eq!(rested, Rested::Ended(RunStatus::Ok));
    assert_eq!(world.transcript().await, ["UserMessage: hi", "AssistantMessage: Hello there"]);
    assert_eq!(kinds(&events), ["started", "delta", "ended ok"]);
    check(&world, handle.run, &[]).await.unwrap();
}

async fn a_tool_round_is_recorded(world: World) {
    world.script(json!([[{"text": "Let me see. "}, {"call": {"name": "once", "arguments": {"do": "ok", "n": 7}}}], [{"text": "It gave {last_result}"}]]));
    let (handle, rested, events) = world.turn(&world.engine(), "hi").await;
    assert_eq!(rested, Rested::Ended(RunStatus::Ok));
    assert_eq!(
        world.transcript().await,
        [
            "UserMessage: hi",
            "AssistantMessage: Let me see. ",
            "ToolCall: once",
            "ToolResult: {\"did\":\"ok\",\"n\":7}",
            "AssistantMessage: It gave {\"did\":\"ok\",\"n\":7}",
        ]
    );
    assert_eq!(
        kinds(&events),
        ["started", "delta", "tool_start once", "tool_result once Ok", "delta", "ended ok"]
    );
    let steps = world.store.steps(&TENANT, handle.run, 0, 99).await;
    if let Ok(steps) = steps {
        let nodes: Vec<_> = steps.iter().map(|s| (s.checkpoint.node, s.checkpoint.next_action)).collect();
        assert_eq!(
            serde_json::to_value(nodes).unwrap(),
            json!([["start", null], ["reasoning", "call_tool"], ["tool_call", null], ["respond", "respond"]])
        );
    }
    check(&world, handle.run, &[]).await.unwrap();
}

async fn parallel_calls_are_all_closed(world: World) {
    let call = |name: &str, n: i32| json!({"call": {"name": name, "arguments": {"do": "ok", "n": n}}});
    let calls: Vec<_> = (0..12).map(|n| call(["safe", "idem", "once"][n as usize % 3], n)).collect();
    world.script(json!([calls, [{"text": "all done"}]]));
    let (handle, rested, events) = world.turn(&world.engine(), "hi").await;
    assert_eq!(rested, Rested::Ended(RunStatus::Ok));
    assert_eq!(world.ledger.calls().len(), 12);
    assert_eq!(kinds(&events).iter().filter(|k| k.starts_with("tool_result")).count(), 12);
    check(&world, handle.run, &[]).await.unwrap();
}

async fn a_bad_call_is_told_to_the_model(world: World) {
    world.script(json!([
        [{"call": {"name": "nothing", "arguments": {}}}, {"call": {"name": "safe", "arguments": {"do": "dance"}}}, {"call": {"name": "safe", "arguments": "{\"do\": \"o"}}],
        [{"text": "sorry"}]
    ]));
    let (handle, rested, events) = world.turn(&world.engine(), "hi").await;
    assert_eq!(rested, Rested::Ended(RunStatus::Ok));
    assert_eq!(world.ledger.calls(), [], "nothing ran");
    assert_eq!(kinds(&events).iter().filter(|k| k.ends_with("Error")).count(), 3);
    check(&world, handle.run, &[]).await.unwrap();
}

async fn a_failing_call_stops_after_three(world: World) {
    let fail = json!([{"call": {"name": "safe", "arguments": {"do": "fail"}}}]);
    world.script(
        json!([fail, fail, [{"text": "I give up"}, {"call": {"name": "safe", "arguments": {"do": "fail"}}}]]),
    );
    let (handle, rested, events) = world.turn(&world.engine(), "hi").await;
    assert_eq!(rested, Rested::Ended(RunStatus::Ok));
    assert_eq!(world.ledger.count("safe"), 3, "twice for the first call, once for the second");
    assert_eq!(kinds(&events)[5..], ["warning no_progress", "delta", "ended ok"]);
    check(&world, handle.run, &[]).await.unwrap();
}

async fn rounds_are_limited(mut world: World) {
    world.decision.limits.iterations = 2;
    let call = |n: i32| json!([{"call": {"name": "safe", "arguments": {"do": "ok", "n": n}}}]);
    world.script(json!([call(1), call(2), [{"text": "that is all"}], call(3)]));
    let (handle, rested, events) = world.turn(&world.engine(), "hi").await;
    assert_eq!(rested, Rested::Ended(RunStatus::Ok));
    assert_eq!(world.ledger.count("safe"), 2);
    assert_eq!(kinds(&events)[5..], ["warning budget_exceeded", "delta", "ended ok"]);
    check(&world, handle.run, &[]).await.unwrap();
}

async fn a_model_failure_ends_in_one_error(world: World) {
    world.script(json!([[{"text": "I was about to"}, {"error": {"code": "llm_server", "message": "boom"}}]]));
    let (handle, rested, events) = world.turn(&world.engine(), "hi").await;
    assert_eq!(rested, Rested::Ended(RunStatus::Error));
    assert_eq!(kinds(&events), ["started", "delta", "ended error llm_server"]);
    assert_eq!(
        world.transcript().await,
        ["UserMessage: hi", "AssistantMessage: I was about to [error:llm_server]"]
    );
    check(&world, handle.run, &[]).await.unwrap();
}

async fn a_retryable_failure_is_tried_again(world: World) {
    let error = json!({"error": {"code": "llm_rate_limited", "message": "slow down", "retry_after_ms": 0, "until_attempt": 2}});
    world.script(json!([[error, {"text": "now it works"}]]));
    let (handle, rested, _) = world.turn(&world.engine(), "hi").await;
    assert_eq!(rested, Rested::Ended(RunStatus::Ok));
    let kinds = kinds(&world.events(handle.run).await);
    assert_eq!(
        kinds,
        ["started", "warning llm_rate_limited", "warning llm_rate_limited", "delta", "ended ok"]
    );
    check(&world, handle.run, &[]).await.unwrap();
}

async fn a_cut_stream_is_no_answer(world: World) {
    world.script(json!([[{"text": "half an ans"}, {"cut": true}]]));
    let (handle, rested, events) = world.turn(&world.engine(), "hi").await;
    assert_eq!(rested, Rested::Ended(RunStatus::Error));
    assert_eq!(kinds(&events), ["started", "delta", "ended error llm_invalid_response"]);
    check(&world, handle.run, &[]).await.unwrap();
}

async fn a_panicking_tool_is_a_tool_error(world: World) {
    world.script(json!([[{"call": {"name": "idem", "arguments": {"do": "panic"}}}], [{"text": "oh"}]]));
    let (handle, rested, events) = world.turn(&world.engine(), "hi").await;
    assert_eq!(rested, Rested::Ended(RunStatus::Ok));
    assert!(kinds(&events).contains(&"tool_result idem Error".to_owned()), "{:?}", kinds(&events));
    check(&world, handle.run, &[]).await.unwrap();
}

async fn a_tool_with_effects_that_panics_may_have_had_them(world: World) {
    world.script(json!([[{"call": {"name": "once", "arguments": {"do": "panic"}}}], [{"text": "oh"}]]));
    let (handle, rested, events) = world.turn(&world.engine(), "hi").await;
    assert_eq!(rested, Rested::Ended(RunStatus::Ok));
    assert_eq!(kinds(&events)[1..3], ["tool_start once", "tool_result once Unknown"]);
    assert_eq!(world.ledger.count("once"), 1);
    check(&world, handle.run, &[]).await.unwrap();
}

async fn a_long_result_is_a_blob(world: World) {
    world.script(json!([[{"call": {"name": "safe", "arguments": {"do": "long"}}}], [{"text": "long"}]]));
    let engine = world.engine();
    let (handle, _, events) = world.turn(&engine, "hi").await;
    let blob = events.iter().find_map(|event| match &event.event {
        baton_core::event::Event::ToolResult { blob, result, .. } => Some((blob.clone(), result.len())),
        _ => None,
    });
    let (Some(blob), length) = blob.unwrap() else { panic!("no blob") };
    assert_eq!((blob.size, blob.dropped), (100_000, 0));
    assert!(length < 32 << 10);
    let bytes = crate::world::insist(|| world.store.blob(&TENANT, &blob.hash)).await;
    assert_eq!(bytes.unwrap(), "x".repeat(100_000).into_bytes());
    check(&world, handle.run, &[]).await.unwrap();
}

async fn open_calls_of_the_branch_are_closed_first(world: World) {
    world.script(json!([[{"text": "fine"}]]));
    let engine = world.engine();
    world.turn(&engine, "hi").await;
    let id = "t".parse().unwrap();
    let call = baton_core::thread::Entry::from_parts(
        "ToolCall",
        1,
        json!({"id": "c1", "function_name": "safe", "arguments": {}}),
    )
    .unwrap();
    let new = baton_core::thread::NewEntry {
        id: baton_core::id::EntryId(uuid::Uuid::now_v7()),
        at: crate::world::NOW,
        entry: call,
    };
    sure(&world.store).push(&TENANT, &id, None, new).await.unwrap();
    world.script(json!([[{"text": "x"}], [{"text": "going on"}]]));
    let (handle, rested, _) = world.turn(&world.engine(), "and now").await;
    assert_eq!(rested, Rested::Ended(RunStatus::Ok));
    assert_eq!(
        world.transcript().await[2..],
        [
            "ToolCall: safe",
            "ToolResult: the conversation went on without it (cancelled)",
            "UserMessage: and now",
            "AssistantMessage: going on"
        ]
    );
    check(&world, handle.run, &[]).await.unwrap();
}

async fn two_turns_see_each_other(world: World) {
    world.script(json!([[{"text": "one"}], [{"text": "two"}]]));
    let engine = world.engine();
    world.turn(&engine, "first").await;
    world.turn(&engine, "second").await;
    assert_eq!(
        world.transcript().await,
        ["UserMessage: first", "AssistantMessage: one", "UserMessage: second", "AssistantMessage: two"]
    );
}

/// The rewound main branch is as empty as that of a thread that does not exist yet.
async fn a_process_that_has_not_seen_a_thread_finds_where_it_goes_on(world: World) {
    world.script(json!([[{"text": "one"}], [{"text": "two"}]]));
    world.turn(&world.engine(), "first").await;
    let (thread, main, side) = ("t".parse().unwrap(), "main".parse().unwrap(), "side".parse().unwrap());
    let store = sure(&world.store);
    store.fork(&TENANT, &thread, None, &ForkAt::Head, "side".parse().unwrap(), NOW).await.unwrap();
    store.checkout(&TENANT, &thread, &side).await.unwrap();
    store.rewind(&TENANT, &thread, Some(&main), -1).await.unwrap();
    world.turn(&world.engine(), "second").await;
    assert_eq!(
        world.transcript().await,
        ["UserMessage: first", "AssistantMessage: one", "UserMessage: second", "AssistantMessage: two"]
    );
    assert_eq!(insist(|| store.entries(&TENANT, &thread, Some(&main), Slice::default())).await, []);
}

async fn a_busy_branch_refuses_a_second_run(world: World) {
    world.script(json!([[{"call": {"name": "safe", "arguments": {"do": "hold"}}}], [{"text": "done"}]]));
    let engine = world.engine();
    let mut first = engine.start(world.request("hi")).await.unwrap();
    let second = engine.submit(world.request("me too")).await.unwrap_err();
    assert_eq!(second.to_string(), format!("branch \"main\" is busy with run {}", first.run));
    world.ledger.open();
    assert_eq!(first.rested().await, Rested::Ended(RunStatus::Ok));
    check(&world, first.run, &[]).await.unwrap();
}
