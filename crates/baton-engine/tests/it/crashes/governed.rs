//! Crashes in the middle of turns with policy decisions: retries, checks, revisions, calls by rule.

use std::sync::Arc;

use baton_core::budget::Budget;
use baton_core::chat::TokenUsage;
use baton_core::event::Event;
use baton_core::policy::{Decision, OnUnknown, SelfCheck, ToolRule};
use baton_core::run::{ApprovalStatus, Choice, RunStatus};
use baton_core::tool::{EffectClass, Trust};
use baton_engine::{Engine, Rested};
use baton_model::{DeltaStream, Model, ModelRequest};
use futures_util::stream;
use serde_json::json;

use super::{copy_prefix, resume};
use crate::check::check;
use crate::everywhere;
use crate::governance::{decided, doubtful};
use crate::models::cast::{Line, says, wants};
use crate::world::{Kept, Mode, TENANT, World, insist, kinds, source};

everywhere!(
    a_second_try_that_is_interrupted_is_made_again,
    an_approved_outcome_is_not_lost,
    a_second_run_that_is_interrupted_is_asked_about_again,
    a_call_by_rule_with_effects_is_never_repeated,
);

async fn a_second_try_that_is_interrupted_is_made_again(world: World) {
    let flaky = json!({"call": {"name": "safe", "arguments": {"do": "flaky"}}});
    world.script(json!([[flaky], [{"text": "and so it ended"}]]));
    let engine = world.engine();
    let run = engine.start(world.request("go")).await.unwrap().run;
    world.ledger.arrived(2).await;
    engine.crash().await;
    world.ledger.open();
    let engine = world.engine();
    assert_eq!(resume(&engine, run).await, Rested::Ended(RunStatus::Ok));
    assert_eq!(world.ledger.count("safe"), 3, "it failed, it was interrupted, it worked");
    let kinds = kinds(&world.events(run).await);
    assert_eq!(kinds, ["started", "tool_start safe", "tool_result safe Ok", "delta", "ended ok"]);
    let view = engine.view(&TENANT, run).await.unwrap();
    let said: Vec<&str> = view.steps.iter().map(|step| step.description.as_str()).collect();
    assert_eq!(said, ["scripted asked for safe", "safe did not work", "safe worked", "scripted answered"]);
    let budget = view.row.budget;
    assert_eq!((budget.tool_calls, budget.errors), (2, 1), "a crash makes no call of its own: {budget:?}");
    check(&world, run, &[]).await.unwrap();
}

/// The process dies after a user approved and before the run was resumed.
async fn an_approved_outcome_is_not_lost(mut world: World) {
    let (engine, run, id) = doubtful(&mut world).await;
    engine.decide(&TENANT, &id, Choice::Approve, None, None, None).await.unwrap();
    engine.crash().await;
    let engine = world.engine();
    assert_eq!(resume(&engine, run).await, Rested::Ended(RunStatus::Ok));
    assert_eq!(world.ledger.count("once"), 2);
    check(&world, run, &[]).await.unwrap();
}

/// The process dies in the repeated run of the call that the user allowed: its outcome is unknown, too.
async fn a_second_run_that_is_interrupted_is_asked_about_again(mut world: World) {
    let (engine, run, first) = doubtful(&mut world).await;
    world.ledger.shut();
    engine.decide(&TENANT, &first, Choice::Approve, None, None, None).await.unwrap();
    engine.drive(&TENANT, run).await.unwrap().unwrap();
    world.ledger.arrived(2).await;
    engine.crash().await;
    world.ledger.open();
    let engine = world.engine();
    assert_eq!(decided(&engine, run).await, Rested::Suspended);
    assert_eq!(world.ledger.count("once"), 2, "nobody asked for a third");
    check(&world, run, &[]).await.unwrap();
    let mut asked = insist(|| world.store.approvals(&TENANT, Some(ApprovalStatus::Pending), None, 9)).await;
    let second = asked.pop().unwrap();
    assert_eq!((asked.len(), second.id != first, second.args), (0, true, json!({"do": "hold", "n": 5})));
    engine.decide(&TENANT, &second.id, Choice::Deny, None, None, None).await.unwrap();
    assert_eq!(decided(&engine, run).await, Rested::Ended(RunStatus::Ok));
    assert_eq!(world.ledger.count("once"), 2);
    check(&world, run, &[]).await.unwrap();
}

/// A call by rule has its intent in the first transition, before any model was called.
async fn a_call_by_rule_with_effects_is_never_repeated(mut world: World) {
    world.decision.search_first = Some("search".to_owned());
    world.script(json!([[{"text": "never"}], [{"text": "{last_result}"}]])); // the rule speaks first
    let tool = || vec![source("search", EffectClass::Unsafe, Trust::BUILT_IN, &world.ledger)];
    let engine = world.engine_of(world.scripted(), tool());
    let run = engine.start(world.request("Look up K2")).await.unwrap().run;
    world.ledger.arrived(1).await;
    engine.crash().await;
    world.ledger.open();
    let engine = world.engine_of(world.scripted(), tool());
    assert_eq!(resume(&engine, run).await, Rested::Ended(RunStatus::Ok));
    assert_eq!(world.ledger.count("search"), 1);
    let kinds = kinds(&world.events(run).await);
    assert_eq!(kinds, ["started", "tool_start search", "tool_result search Unknown", "delta", "ended ok"]);
    check(&world, run, &[]).await.unwrap();
}

/// A model whose answer depends only on the request: the same request gets the same answer.
struct Mind(fn(&ModelRequest) -> Line);

impl Model for Mind {
    fn name(&self) -> String {
        "mind".to_owned()
    }

    fn stream(&self, request: ModelRequest) -> DeltaStream {
        Box::pin(stream::iter((self.0)(&request)))
    }

    fn cost(&self, _: &TokenUsage) -> Option<u64> {
        Some(0)
    }
}

/// A turn under a decision of its own.
struct Turn {
    text: &'static str,
    decision: fn(&mut Decision),
    model: fn(&ModelRequest) -> Line,
    /// The kinds of its events.
    kinds: &'static [&'static str],
    /// How many calls of models and tools it makes.
    calls: (u32, u32),
}

fn last(request: &ModelRequest) -> &str {
    request.messages.last().map_or("", |message| message.content.as_str())
}

/// Checks for a unit, and adds it in a revision.
fn measuring(request: &ModelRequest) -> Line {
    match last(request) {
        said if request.schema.is_some() && said.ends_with("7 m.") => says(r#"{"ok": true, "missing": ""}"#),
        _ if request.schema.is_some() => says(r#"{"ok": false, "missing": "the unit"}"#),
        said if said.contains("once more") => says("It is 7 m."),
        _ => says("It is 7."),
    }
}

/// Calls a tool that always fails, and reports that.
fn failing(request: &ModelRequest) -> Line {
    match last(request) {
        "go" => wants("safe", json!({"do": "fail"})),
        _ => says("It does not work."),
    }
}

fn turns() -> [Turn; 4] {
    [
        Turn {
            text: "How long?",
            decision: |decision| decision.self_check = SelfCheck::Always,
            model: measuring,
            kinds: &[
                "started",
                "delta",
                "warning verification_failed",
                "restarted",
                "delta",
                "history_cut 0 Revised",
                "ended ok",
            ],
            calls: (4, 0),
        },
        Turn {
            text: "go",
            decision: |_| {},
            model: failing,
            kinds: &["started", "tool_start safe", "tool_result safe Error", "delta", "ended ok"],
            calls: (2, 2),
        },
        Turn {
            text: "Look up K2",
            decision: |decision| decision.search_first = Some("search".to_owned()),
            model: |_| says("It is 8611 m high."),
            kinds: &["started", "tool_start search", "tool_result search Ok", "delta", "ended ok"],
            calls: (1, 1),
        },
        Turn {
            text: "How is it?",
            decision: |decision| {
                decision.tool_rule = ToolRule::Required;
                decision.first_tool = Some("search".to_owned());
                decision.on_unknown = OnUnknown::AskPerson;
            },
            model: |_| says("All is well."),
            kinds: &["started", "tool_start search", "tool_result search Ok", "delta", "ended ok"],
            calls: (2, 1),
        },
    ]
}

impl Turn {
    fn world(&self, kept: Kept) -> (World, Engine) {
        let mut world = World::new(kept, Mode::Plain);
        (self.decision)(&mut world.decision);
        world.ledger.open();
        let search = source("search", EffectClass::SideEffectFree, Trust::BUILT_IN, &world.ledger);
        let engine = world.engine_of(Arc::new(Mind(self.model)), vec![search]);
        (world, engine)
    }
}

/// The usage of a run, without the time that it took.
async fn used(world: &World, run: baton_core::id::RunId) -> Budget {
    Budget { active_ms: 0, ..insist(|| world.store.run(&TENANT, run)).await.budget }
}

/// The committed log is cut after each transition, and the run goes on from there: the same answer, the same account,
/// the same metrics, and no tool runs whose outcome was recorded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_prefix_of_a_governed_turn_goes_on_to_the_same_end() {
    for turn in turns() {
        let (whole, engine) = turn.world(Kept::Memory);
        let (handle, rested, events) = whole.turn(&engine, turn.text).await;
        assert_eq!(rested, Rested::Ended(RunStatus::Ok), "{}", turn.text);
        assert_eq!(kinds(&events), turn.kinds, "{}", turn.text);
        let budget = used(&whole, handle.run).await;
        assert_eq!((budget.model_calls, budget.tool_calls), turn.calls, "{}", turn.text);
        let (said, account) =
            (whole.transcript().await, engine.view(&TENANT, handle.run).await.unwrap().steps);
        let steps = insist(|| whole.store.steps(&TENANT, handle.run, 0, 100)).await;
        for (kept, prefix) in
            [Kept::Memory, Kept::Sqlite].into_iter().flat_map(|k| (1..steps.len()).map(move |p| (k, p)))
        {
            let about = format!("{}, cut after {prefix}", turn.text);
            let (world, engine) = turn.world(kept);
            let run = copy_prefix(&whole, &world, handle.run, prefix as u32).await;
            assert_eq!(resume(&engine, run).await, Rested::Ended(RunStatus::Ok), "{about}");
            assert_eq!(world.transcript().await, said, "{about}");
            assert_eq!(engine.view(&TENANT, run).await.unwrap().steps, account, "{about}");
            assert_eq!(used(&world, run).await, budget, "{about}");
            let has_result = |event: &Event| matches!(event, Event::ToolResult { .. });
            let was_closed = steps[..prefix].iter().any(|step| step.checkpoint.events.iter().any(has_result));
            let is_left = turn.calls.1 > 0 && !was_closed;
            assert_eq!(!world.ledger.calls().is_empty(), is_left, "{about}");
            check(&world, run, &[]).await.unwrap_or_else(|found| panic!("{about}: {found}"));
        }
    }
}
