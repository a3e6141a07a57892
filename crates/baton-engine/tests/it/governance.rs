//! Policy decisions in a turn, in the engine: choices, checks, revisions, unknown outcomes.

use baton_core::chat::Role;
use baton_core::policy::{OnUnknown, SelfCheck, ToolRule};
use baton_core::role::Candidate;
use baton_core::run::{ApprovalKind, ApprovalStatus, Choice, RunStatus};
use baton_engine::{Engine, Rested};
use baton_model::ToolChoice;
use baton_store::ClaimMode;
use serde_json::json;

use crate::check::{History, check};
use crate::everywhere;
use crate::models::cast::{Cast, fails, says, wants};
use crate::world::{TENANT, World, insist, kinds};

everywhere!(
    a_required_tool_is_chosen_unseen,
    an_answer_is_checked_and_given_once_more,
    a_person_says_whether_a_call_happened,
    a_person_says_what_came_of_a_call,
    nobody_says_whether_a_call_happened,
    errors_are_counted,
    the_policy_caps_the_temperature,
);

fn said(message: &baton_core::chat::ChatMessage) -> (Role, String) {
    (message.role, message.content.clone())
}

async fn a_required_tool_is_chosen_unseen(mut world: World) {
    world.decision.tool_rule = ToolRule::Required;
    world.decision.after_tools = Some("reasoning".to_owned());
    let choice = wants("safe", json!({"do": "ok", "n": 1}));
    let cast = Cast::new([("a/big", vec![says("All is well.")]), ("c/small", vec![choice])]);
    let engine = cast.engine(&world);
    let mut handle = engine.start(cast.request("How is it?")).await.unwrap();
    assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Ok));
    assert_eq!(cast.asked(), ["c/small router", "a/big reasoning"]);
    let heard = cast.heard();
    let offered: Vec<(ToolChoice, usize)> =
        heard.iter().map(|request| (request.tool_choice, request.tools.len())).collect();
    assert_eq!(offered, [(ToolChoice::Required, 4), (ToolChoice::Auto, 0)]);
    assert_eq!(
        kinds(&world.events(handle.run).await),
        ["started", "tool_start safe", "tool_result safe Ok", "delta", "ended ok"]
    );
    check(&world, handle.run, &[]).await.unwrap();
}

async fn an_answer_is_checked_and_given_once_more(mut world: World) {
    world.decision.self_check = SelfCheck::Always;
    let lacks = says(r#"{"ok": false, "missing": "the unit"}"#);
    let cast = Cast::new([
        ("a/big", vec![says("It is 7."), says("It is 7 m."), says("Goodbye.")]),
        ("c/small", vec![lacks, says(r#"{"ok": true}"#), says(r#"{"ok": true}"#)]),
    ]);
    let engine = cast.engine(&world);
    let mut handle = engine.start(cast.request("How long?")).await.unwrap();
    assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Ok));
    let big = "a/big reasoning";
    assert_eq!(cast.asked(), [big, "c/small router", big, "c/small router"]);
    let heard = cast.heard();
    let schemas: Vec<bool> = heard.iter().map(|request| request.schema.is_some()).collect();
    assert_eq!(schemas, [false, true, false, true]);
    let shown = said(heard[1].messages.last().unwrap());
    assert_eq!(shown, (Role::User, "User: How long?\nAssistant: It is 7.".to_owned()));
    let revised: Vec<(Role, String)> = heard[2].messages.iter().map(said).collect();
    assert_eq!(
        revised[..2],
        [(Role::User, "How long?".to_owned()), (Role::Assistant, "It is 7.".to_owned())]
    );
    assert_eq!(revised[2].0, Role::User, "a remark is no instruction");
    assert!(revised[2].1.ends_with("(a remark, not an instruction): \"the unit\""), "{revised:?}");
    let shown = said(heard[3].messages.last().unwrap());
    assert_eq!(shown.1, "User: How long?\nAssistant: It is 7 m.", "the first answer is gone");
    assert_eq!(
        kinds(&world.events(handle.run).await),
        [
            "started",
            "delta",
            "warning verification_failed",
            "restarted",
            "delta",
            "history_cut 0 Revised",
            "ended ok"
        ]
    );
    assert_eq!(
        world.transcript().await,
        ["UserMessage: How long?", "AssistantMessage: It is 7.", "AssistantMessage: It is 7 m. [revision]"]
    );
    check(&world, handle.run, &[]).await.unwrap();

    let mut next = engine.start(cast.request("Bye")).await.unwrap();
    assert_eq!(next.rested().await, Rested::Ended(RunStatus::Ok));
    let seen: Vec<String> = cast.heard()[4].messages.iter().map(|message| message.content.clone()).collect();
    assert_eq!(seen, ["How long?", "It is 7 m.", "Bye"], "and later turns do not see it");
}

/// A run that died in a call with effects, and that asks the user about it.
pub(crate) async fn doubtful(world: &mut World) -> (Engine, baton_core::id::RunId, String) {
    world.decision.on_unknown = OnUnknown::AskPerson;
    world.script(json!([
        [{"call": {"name": "once", "arguments": {"do": "hold", "n": 5}}}],
        [{"text": "It gave {last_result}"}],
    ]));
    let engine = world.engine();
    let handle = engine.start(world.request("go")).await.unwrap();
    world.ledger.arrived(1).await;
    engine.crash().await;
    world.ledger.open();
    let engine = world.engine();
    let mut handle = engine.resume(&TENANT, handle.run, ClaimMode::IfFree).await.unwrap();
    assert_eq!(handle.rested().await, Rested::Suspended);
    let mut asked = insist(|| world.store.approvals(&TENANT, Some(ApprovalStatus::Pending), None, 9)).await;
    let asked = asked.pop().unwrap();
    let expected = (ApprovalKind::Outcome, "once", json!({"do": "hold", "n": 5}));
    assert_eq!((asked.kind, asked.name.as_str(), asked.args), expected);
    (engine, handle.run, asked.id)
}

pub(crate) async fn decided(engine: &Engine, run: baton_core::id::RunId) -> Rested {
    match engine.drive(&TENANT, run).await.unwrap() {
        Some(mut handle) => handle.rested().await,
        None => panic!("somebody else drives it"),
    }
}

async fn a_person_says_whether_a_call_happened(mut world: World) {
    let (engine, run, id) = doubtful(&mut world).await;
    engine.decide(&TENANT, &id, Choice::Approve, None, None, None).await.unwrap();
    assert_eq!(decided(&engine, run).await, Rested::Ended(RunStatus::Ok));
    let calls = world.ledger.calls();
    assert_eq!((calls.len(), calls[0].0 == calls[1].0), (2, true), "again, with the same key");
    assert_eq!(
        world.transcript().await.last().unwrap(),
        "AssistantMessage: It gave {\"did\":\"hold\",\"n\":5}"
    );
    let mut history = History::of(&world, run, &[]).await;
    history.check().unwrap();
    history.ledger.push(calls[0].clone());
    assert!(history.check().is_err(), "once more than a person asked for");
}

async fn a_person_says_what_came_of_a_call(mut world: World) {
    let (engine, run, id) = doubtful(&mut world).await;
    let bad = engine.decide(&TENANT, &id, Choice::Edit, Some(json!({"do": "ok"})), None, None).await;
    assert_eq!(bad.unwrap_err().to_string(), "say what came of the call, as {\"output\": …}");
    let found = json!({"output": {"did": "it happened"}});
    engine.decide(&TENANT, &id, Choice::Edit, Some(found), None, None).await.unwrap();
    assert_eq!(decided(&engine, run).await, Rested::Ended(RunStatus::Ok));
    assert_eq!(world.ledger.count("once"), 1);
    assert_eq!(
        world.transcript().await.last().unwrap(),
        "AssistantMessage: It gave {\"did\":\"it happened\"}"
    );
    check(&world, run, &[]).await.unwrap();
}

async fn nobody_says_whether_a_call_happened(mut world: World) {
    let (engine, run, id) = doubtful(&mut world).await;
    engine.decide(&TENANT, &id, Choice::Deny, None, None, None).await.unwrap();
    assert_eq!(decided(&engine, run).await, Rested::Ended(RunStatus::Ok));
    assert_eq!(world.ledger.count("once"), 1);
    let transcript = world.transcript().await;
    assert!(transcript.last().unwrap().contains("nobody knows whether it took effect"), "{transcript:?}");
    check(&world, run, &[]).await.unwrap();
}

async fn errors_are_counted(world: World) {
    let down = baton_core::fault::Fault::new(baton_core::fault::Code::LlmConnection, "refused");
    let fail = wants("safe", json!({"do": "fail"}));
    let cast = Cast::new([("a/big", vec![fails(down)]), ("b/mid", vec![fail, says("It does not work.")])]);
    let engine = cast.engine(&world);
    let mut handle = engine.start(cast.request("Explain it")).await.unwrap();
    assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Ok));
    let budget = insist(|| world.store.run(&TENANT, handle.run)).await.budget;
    assert_eq!((budget.model_calls, budget.tool_calls, budget.errors), (3, 2, 3), "{budget:?}");
}

async fn the_policy_caps_the_temperature(mut world: World) {
    world.decision.temperature = Some(0.5);
    let cast = Cast::new([("a/big", vec![says("one")]), ("c/small", vec![says("two")])]);
    let engine = cast.engine(&world);
    for own in [None, Some(0.9), Some(0.1)] {
        let candidate = Candidate { temperature: own, ..Candidate::of("a/big") };
        let mut request = cast.request("hi");
        request.roles.insert("reasoning".to_owned(), vec![candidate]);
        assert_eq!(engine.start(request).await.unwrap().rested().await, Rested::Ended(RunStatus::Ok));
    }
    let sent: Vec<Option<f64>> = cast.heard().iter().map(|request| request.temperature).collect();
    assert_eq!(sent, [Some(0.5), Some(0.5), Some(0.1)]);
    assert_eq!(cast.heard()[0].max_tokens, 4096);
}
