//! Approvals, questions, steering and deadlines.

use baton_core::run::{ApprovalStatus, Choice, RunStatus};
use baton_core::thread::Entry;
use baton_engine::{Engine, EngineError, Rested, Submitted};
use baton_store::ClaimMode;
use serde_json::json;

use crate::check::check;
use crate::everywhere;
use crate::world::{TENANT, World, insist, kinds};

everywhere!(
    an_approved_call_runs_once,
    a_run_is_taken_up_only_once_by_a_process,
    a_denied_call_never_runs,
    an_edited_call_runs_with_the_edit,
    an_edited_call_is_never_repeated,
    a_late_decision_lets_the_run_go_on,
    a_late_answer_is_a_message_of_its_own,
    three_approvals_in_every_order,
    the_first_decision_wins,
    an_approval_expires_after_a_restart,
    a_question_is_answered_by_the_next_message,
    an_answer_may_be_as_long_as_a_message,
    steering_is_taken_in_at_the_boundary,
    a_suspended_run_can_be_cancelled,
);

async fn suspended(world: &mut World, calls: usize) -> (Engine, baton_core::id::RunId, Vec<String>) {
    world.decision.approvals = vec!["once".to_owned()];
    let call = |n: usize| json!({"call": {"name": "once", "arguments": {"do": "ok", "n": n}}});
    let all: Vec<_> = (0..calls).map(call).collect();
    world.script(json!([all, [{"text": "{results}"}]]));
    let engine = world.engine();
    let (handle, rested, _) = world.turn(&engine, "please").await;
    assert_eq!(rested, Rested::Suspended);
    assert_eq!(world.ledger.calls(), []);
    let mut ids: Vec<String> =
        insist(|| world.store.approvals(&TENANT, Some(ApprovalStatus::Pending), None, 99))
            .await
            .into_iter()
            .map(|a| a.id)
            .collect();
    ids.sort();
    assert_eq!(ids.len(), calls);
    (engine, handle.run, ids)
}

async fn go_on(engine: &Engine, run: baton_core::id::RunId) -> Rested {
    engine.drive(&TENANT, run).await.unwrap().unwrap().rested().await
}

async fn an_approved_call_runs_once(mut world: World) {
    let (engine, run, ids) = suspended(&mut world, 1).await;
    engine.decide(&TENANT, &ids[0], Choice::Approve, None, None, Some("me".to_owned())).await.unwrap();
    assert_eq!(go_on(&engine, run).await, Rested::Ended(RunStatus::Ok));
    assert_eq!(world.ledger.count("once"), 1);
    assert_eq!(
        kinds(&world.events(run).await),
        ["started", "approval_required once", "tool_start once", "tool_result once Ok", "delta", "ended ok"]
    );
    check(&world, run, &[]).await.unwrap();
}

async fn a_run_is_taken_up_only_once_by_a_process(world: World) {
    let hold = json!({"call": {"name": "safe", "arguments": {"do": "hold"}}});
    world.script(
        json!([[{"call": {"name": "ask_user", "arguments": {"question": "?"}}}], [hold], [{"text": "ok"}]]),
    );
    let engine = world.engine();
    let (handle, ..) = world.turn(&engine, "go").await;
    let run = handle.run;
    engine.input(&TENANT, run, "go on").await.unwrap();
    let (one, _, two) =
        tokio::join!(engine.drive(&TENANT, run), engine.adopt_once(), engine.drive(&TENANT, run));
    let (mut one, mut two) = (one.unwrap().unwrap(), two.unwrap().unwrap());
    world.ledger.arrived(1).await;
    world.ledger.open();
    let ended = Rested::Ended(RunStatus::Ok);
    assert_eq!((one.rested().await, two.rested().await), (ended.clone(), ended));
    check(&world, run, &[]).await.unwrap();
}

async fn a_denied_call_never_runs(mut world: World) {
    let (engine, run, ids) = suspended(&mut world, 1).await;
    engine.decide(&TENANT, &ids[0], Choice::Deny, None, Some("too risky".to_owned()), None).await.unwrap();
    assert_eq!(go_on(&engine, run).await, Rested::Ended(RunStatus::Ok));
    assert_eq!(world.ledger.calls(), []);
    assert!(world.transcript().await.contains(&"ToolResult: too risky (denied)".to_owned()));
    check(&world, run, &[]).await.unwrap();
}

async fn an_edited_call_runs_with_the_edit(mut world: World) {
    let (engine, run, ids) = suspended(&mut world, 1).await;
    let bad = engine.decide(&TENANT, &ids[0], Choice::Edit, Some(json!({"do": "dance"})), None, None).await;
    assert!(matches!(bad, Err(baton_engine::EngineError::Invalid(_))), "{bad:?}");
    engine
        .decide(&TENANT, &ids[0], Choice::Edit, Some(json!({"do": "ok", "n": 99})), None, None)
        .await
        .unwrap();
    assert_eq!(go_on(&engine, run).await, Rested::Ended(RunStatus::Ok));
    assert!(world.transcript().await.contains(&"ToolResult: {\"did\":\"ok\",\"n\":99}".to_owned()));
    check(&world, run, &[]).await.unwrap();
}

async fn three_approvals_in_every_order(mut world: World) {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let before = world.ledger.calls().len();
        world.script(json!([]));
        world.decision.approvals = vec!["once".to_owned()];
        let call = |n: usize| json!({"call": {"name": "once", "arguments": {"do": "ok", "n": n}}});
        world.script(json!([[call(0), call(1), call(2)], [{"text": "{results}"}]]));
        let engine = world.engine();
        let request = baton_engine::RunRequest { thread: None, ..world.request("please") };
        let mut handle = engine.start(request).await.unwrap();
        assert_eq!(handle.rested().await, Rested::Suspended);
        let view = engine.view(&TENANT, handle.run).await.unwrap();
        let ids: Vec<String> = view.waiting.iter().map(|w| w.id.clone()).collect();
        for at in order {
            let choice = if at == 1 { Choice::Deny } else { Choice::Approve };
            engine.decide(&TENANT, &ids[at], choice, None, None, None).await.unwrap();
            if let Some(mut handle) = engine.drive(&TENANT, handle.run).await.unwrap() {
                handle.rested().await;
            }
        }
        assert_eq!(insist(|| world.store.run(&TENANT, handle.run)).await.status, RunStatus::Ok);
        assert_eq!(world.ledger.calls().len() - before, 2);
        check(&world, handle.run, &[]).await.unwrap();
    }
}

async fn the_first_decision_wins(mut world: World) {
    let (engine, run, ids) = suspended(&mut world, 1).await;
    let decide = async |n: usize| {
        let choice = if n.is_multiple_of(2) { Choice::Approve } else { Choice::Deny };
        engine.decide(&TENANT, &ids[0], choice, None, None, Some(n.to_string())).await
    };
    let all: Vec<_> = futures_util::future::join_all((0..20).map(decide)).await;
    assert_eq!(all.iter().filter(|result| result.is_ok()).count(), 1);
    go_on(&engine, run).await;
    assert!(world.ledger.calls().len() <= 1);
    check(&world, run, &[]).await.unwrap();
}

async fn an_approval_expires_after_a_restart(mut world: World) {
    let (engine, run, ids) = suspended(&mut world, 1).await;
    engine.shutdown().await;
    let engine = world.engine();
    assert_eq!(engine.adopt_once().await, [], "it is not due yet");
    world.clock.advance_ms(24 * 60 * 60 * 1000);
    let taken = loop {
        let taken = engine.adopt_once().await;
        if !taken.is_empty() {
            break taken;
        }
    };
    assert_eq!(taken, [run]);
    let seen = crate::world::watch(&engine, run, Default::default()).await;
    assert!(matches!(seen.last(), Some(baton_engine::Seen::Event(last)) if last.event.is_terminal()));
    assert_eq!(insist(|| world.store.approval(&TENANT, &ids[0])).await.status, ApprovalStatus::Expired);
    assert_eq!(world.ledger.calls(), []);
    assert!(world.transcript().await.contains(&"ToolResult: nobody decided in time (expired)".to_owned()));
    check(&world, run, &[]).await.unwrap();
}

async fn a_question_is_answered_by_the_next_message(world: World) {
    world.script(json!([[{"call": {"name": "ask_user", "arguments": {"question": "Which colour?"}}}], [{"text": "You said {last_result}"}]]));
    let engine = world.engine();
    let (handle, rested, _) = world.turn(&engine, "paint it").await;
    assert_eq!(rested, Rested::Suspended);
    let waiting = engine.view(&TENANT, handle.run).await.unwrap().waiting;
    assert_eq!(waiting[0].question.as_deref(), Some("Which colour?"));
    let submitted = engine.submit(world.request("blue")).await.unwrap();
    let Submitted::Answered(mut answered) = submitted else { panic!("it is an answer") };
    assert_eq!((answered.run, answered.rested().await), (handle.run, Rested::Ended(RunStatus::Ok)));
    assert_eq!(
        world.transcript().await[2..],
        [
            "ToolCall: ask_user",
            "Waiting: user_input",
            "UserResponse: blue",
            "ToolResult: blue",
            "AssistantMessage: You said blue"
        ]
    );
    check(&world, handle.run, &[]).await.unwrap();
}

/// It is an entry, and no part of the flow's state; only messages that wait in the state are bounded tightly.
async fn an_answer_may_be_as_long_as_a_message(world: World) {
    let ask = json!({"call": {"name": "ask_user", "arguments": {"question": "Which text?"}}});
    let hold = json!({"call": {"name": "safe", "arguments": {"do": "hold"}}});
    world.script(json!([[ask], [hold], [{"text": "read"}]]));
    let engine = world.engine();
    let (handle, rested, _) = world.turn(&engine, "read it").await;
    assert_eq!(rested, Rested::Suspended);
    let (run, longest) = (handle.run, "x".repeat(1 << 20));
    let too_long = engine.input(&TENANT, run, &format!("{longest}x")).await.unwrap_err();
    assert_eq!(too_long.to_string(), "the message is longer than 1 MiB: send less at once");
    let submitted = engine.submit(world.request(&longest)).await.unwrap();
    let Submitted::Answered(mut answered) = submitted else { panic!("it is an answer") };
    world.ledger.arrived(1).await;
    let last = insist(|| world.store.run(&TENANT, run)).await.step - 1;
    let checkpoint = insist(|| world.store.steps(&TENANT, run, last, 1)).await.remove(0).checkpoint;
    assert!(checkpoint.state.data.get().len() < 1_000, "{}", checkpoint.state.data.get());

    let steering = engine.input(&TENANT, run, &"x".repeat((8 << 10) + 1)).await.unwrap_err();
    let why = "a message to a run that works is at most 8192 bytes long: send less";
    assert_eq!(steering, EngineError::Invalid(why.to_owned()));
    engine.input(&TENANT, run, &"x".repeat(8 << 10)).await.unwrap();
    world.ledger.open();
    assert_eq!(answered.rested().await, Rested::Ended(RunStatus::Ok));
    let answers: Vec<usize> = world
        .entries()
        .await
        .iter()
        .filter_map(|placed| match &placed.entry {
            Entry::UserResponse(response) => Some(response.text.len()),
            _ => None,
        })
        .collect();
    assert_eq!(answers, [longest.len()]);
    check(&world, run, &[]).await.unwrap();
}

async fn steering_is_taken_in_at_the_boundary(world: World) {
    world.script(
        json!([[{"call": {"name": "safe", "arguments": {"do": "hold"}}}], [{"text": "as you wish"}]]),
    );
    let engine = world.engine();
    let mut handle = engine.start(world.request("go")).await.unwrap();
    world.ledger.arrived(1).await;
    engine.input(&TENANT, handle.run, "but gently").await.unwrap();
    let mut reader = engine.events(&TENANT, handle.run, Default::default()).await.unwrap();
    while !matches!(reader.next().await.unwrap(), Some(baton_engine::Seen::Event(e)) if matches!(e.event, baton_core::event::Event::Input { .. }))
    {
    }
    world.ledger.open();
    assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Ok));
    assert_eq!(
        world.transcript().await[2..],
        [
            "ToolCall: safe",
            "ToolResult: {\"did\":\"hold\",\"n\":null}",
            "UserMessage: but gently [steering]",
            "AssistantMessage: as you wish"
        ]
    );
    check(&world, handle.run, &[]).await.unwrap();
}

async fn a_suspended_run_can_be_cancelled(mut world: World) {
    let (engine, run, ids) = suspended(&mut world, 2).await;
    engine.cancel(&TENANT, run).await.unwrap();
    let mut handle = engine.resume(&TENANT, run, ClaimMode::IfFree).await.unwrap();
    assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Cancelled));
    let late = engine.decide(&TENANT, &ids[0], Choice::Approve, None, None, None).await.unwrap_err();
    assert!(late.to_string().contains("already decided: cancelled"), "{late}");
    assert_eq!(world.ledger.calls(), []);
    check(&world, run, &[]).await.unwrap();
}

/// The declared class of a call holds for its arguments only: with others, the effect of a repeat is unknown.
async fn an_edited_call_is_never_repeated(mut world: World) {
    world.decision.approvals = vec!["safe".to_owned()];
    world.script(json!([[{"call": {"name": "safe", "arguments": {"do": "ok"}}}], [{"text": "so be it"}]]));
    let engine = world.engine();
    let (handle, rested, _) = world.turn(&engine, "please").await;
    assert_eq!(rested, Rested::Suspended);
    let id = engine.view(&TENANT, handle.run).await.unwrap().waiting[0].id.clone();
    engine.decide(&TENANT, &id, Choice::Edit, Some(json!({"do": "hold"})), None, None).await.unwrap();
    engine.drive(&TENANT, handle.run).await.unwrap();
    world.ledger.arrived(1).await;
    engine.crash().await;
    world.ledger.open();
    assert_eq!(go_on(&world.engine(), handle.run).await, Rested::Ended(RunStatus::Ok));
    assert_eq!(world.ledger.count("safe"), 1);
    assert!(kinds(&world.events(handle.run).await).contains(&"tool_result safe Unknown".to_owned()));
    check(&world, handle.run, &[]).await.unwrap();
}

async fn a_late_decision_lets_the_run_go_on(mut world: World) {
    let (engine, run, ids) = suspended(&mut world, 1).await;
    world.clock.advance_ms(24 * 60 * 60 * 1000);
    let late = engine.decide(&TENANT, &ids[0], Choice::Approve, None, None, None).await.unwrap_err();
    assert!(late.to_string().ends_with("is already decided: expired"), "{late}");
    assert_eq!(insist(|| world.store.run(&TENANT, run)).await.status, RunStatus::Ok);
    assert_eq!(insist(|| world.store.approval(&TENANT, &ids[0])).await.status, ApprovalStatus::Expired);
    assert_eq!(world.ledger.calls(), []);
    check(&world, run, &[]).await.unwrap();
}

async fn a_late_answer_is_a_message_of_its_own(world: World) {
    world.script(json!([
        [{"call": {"name": "ask_user", "arguments": {"question": "Which colour?"}}}],
        [{"text": "I took grey"}],
        [{"text": "blue, noted"}]
    ]));
    let engine = world.engine();
    let (asked, rested, _) = world.turn(&engine, "paint it").await;
    assert_eq!(rested, Rested::Suspended);
    world.clock.advance_ms(24 * 60 * 60 * 1000);
    let Submitted::Started(mut next) = engine.submit(world.request("blue")).await.unwrap() else {
        panic!("too late")
    };
    assert_eq!(next.rested().await, Rested::Ended(RunStatus::Ok));
    assert_ne!(next.run, asked.run);
    assert_eq!(
        world.transcript().await[3..],
        [
            "Waiting: user_input",
            "ToolResult: nobody answered in time (expired)",
            "AssistantMessage: I took grey",
            "UserMessage: blue",
            "AssistantMessage: blue, noted"
        ]
    );
    check(&world, next.run, &[]).await.unwrap();
}
