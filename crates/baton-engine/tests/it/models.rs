//! The choice of models, the messages that they see, and the fallbacks when they fail.

pub(crate) mod cast;
mod earlier;
mod showing;

use baton_core::budget::Limits;
use baton_core::chat::TokenUsage;
use baton_core::event::Event;
use baton_core::fault::{Code, Fault};
use baton_core::run::RunStatus;
use baton_core::thread::Entry;
use baton_engine::{EngineError, Rested, RunRequest};
use baton_model::Delta;
use serde_json::{Value, json};

use crate::check::check;
use crate::everywhere;
use crate::world::{TENANT, World, kinds};
use cast::{Cast, cut, fails, says, thinks, wants};

everywhere!(
    the_next_model_stands_in,
    a_lesser_role_stands_in,
    a_model_that_was_slow_is_not_asked_again,
    an_answer_nobody_understands_is_asked_for_once_more,
    reasoning_goes_back_to_whoever_thought_it,
    a_call_that_was_cut_is_counted,
);

fn down() -> Fault {
    Fault::new(Code::LlmConnection, "connection refused")
}

/// The account of a run, without spans: those depend on its id.
async fn account(engine: &baton_engine::Engine, run: baton_core::id::RunId) -> Value {
    let mut view = crate::world::insist(|| async {
        engine.view(&TENANT, run).await.map_err(|error| match error {
            EngineError::Store(error) => error,
            other => panic!("{other}"),
        })
    })
    .await;
    for step in &mut view.steps {
        step.metadata.remove("span_id");
    }
    serde_json::to_value(view.steps).unwrap()
}

async fn the_next_model_stands_in(world: World) {
    let cast = Cast::new([("a/big", vec![fails(down())]), ("b/mid", vec![says("Hello")])]);
    let engine = cast.engine(&world);
    let mut handle = engine.start(cast.request("hi")).await.unwrap();
    assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Ok));
    let events = world.events(handle.run).await;
    assert_eq!(kinds(&events), ["started", "warning llm_connection", "delta", "ended ok"]);
    assert_eq!(
        account(&engine, handle.run).await,
        json!([
            {"type": "warning", "description": "connection refused; asking b/mid",
             "metadata": {"error": "llm_connection", "model": "a/big", "model_role": "reasoning", "reason": "fallback"}},
            {"type": "llm_call", "description": "b/mid answered",
             "metadata": {"model": "b/mid", "model_role": "reasoning", "usage": {"prompt_tokens": 3, "completion_tokens": 2, "cost_usd": 0.0}}},
        ])
    );
    assert_eq!(cast.asked(), ["a/big reasoning", "b/mid reasoning"]);
    check(&world, handle.run, &[]).await.unwrap();
}

async fn a_lesser_role_stands_in(world: World) {
    let again = || fails(down().retry_after_ms(0));
    let cast = Cast::new([
        ("a/big", vec![again(), again(), again()]),
        ("b/mid", vec![fails(down())]),
        ("c/small", vec![says("Small hello")]),
    ]);
    let engine = cast.engine(&world);
    let mut handle = engine.start(cast.request("hi")).await.unwrap();
    assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Ok));
    let big = "a/big reasoning";
    assert_eq!(cast.asked(), [big, big, big, "b/mid reasoning", "c/small router"]);
    let last_resorts: Vec<bool> = cast.heard().iter().map(|request| request.last_resort).collect();
    assert_eq!(last_resorts, [false, false, false, false, true]);
    let attempts: Vec<u32> = cast.heard().iter().map(|request| request.attempt).collect();
    assert_eq!(attempts, [1, 2, 3, 1, 1]);
    let said: Vec<String> = warnings(&world, handle.run).await;
    assert_eq!(
        said,
        [
            "connection refused; trying again",
            "connection refused; trying again",
            "connection refused; asking b/mid",
            "connection refused; asking c/small as router",
        ]
    );
    check(&world, handle.run, &[]).await.unwrap();
}

async fn warnings(world: &World, run: baton_core::id::RunId) -> Vec<String> {
    let said = |event: baton_core::event::NumberedEvent| match event.event {
        Event::Warning { message, .. } => Some(message),
        _ => None,
    };
    world.events(run).await.into_iter().filter_map(said).collect()
}

async fn a_model_that_was_slow_is_not_asked_again(world: World) {
    let slow = Fault::new(Code::LlmTimeout, "no first byte within 5 s");
    let cast = Cast::new([
        ("a/big", vec![fails(slow)]),
        ("b/mid", vec![wants("safe", json!({"do": "ok"})), says("Done")]),
    ]);
    let engine = cast.engine(&world);
    let mut handle = engine.start(cast.request("hi")).await.unwrap();
    assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Ok));
    assert_eq!(cast.asked(), ["a/big reasoning", "b/mid reasoning", "b/mid reasoning"]);
    check(&world, handle.run, &[]).await.unwrap();
}

async fn an_answer_nobody_understands_is_asked_for_once_more(world: World) {
    let cast = Cast::new([("a/big", vec![says(""), says(" \n")]), ("b/mid", vec![])]);
    let engine = cast.engine(&world);
    let mut handle =
        engine.start(RunRequest { roles: Default::default(), ..cast.request("hi") }).await.unwrap();
    assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Error));
    assert_eq!(cast.asked(), ["a/big reasoning", "a/big reasoning"], "the one model, twice and no more");
    let second = &cast.heard()[1].messages;
    assert_eq!(
        second.last().unwrap().content,
        "Your last answer could not be read. Answer in plain text, or call one tool with valid JSON arguments."
    );
    let events = world.events(handle.run).await;
    let Some(Event::Ended { error: Some(fault), .. }) = events.last().map(|e| e.event.clone()) else {
        panic!()
    };
    assert_eq!(
        fault.message,
        "The model's answer could not be understood: the model gave an empty answer. Ask again, perhaps in other words, or choose another model."
    );
}

async fn reasoning_goes_back_to_whoever_thought_it(world: World) {
    let cast = Cast::new([("a/big", vec![thinks("safe", json!({"do": "ok"})), says("Done"), says("Yes")])]);
    let engine = cast.engine(&world);
    for text in ["hi", "really?"] {
        let mut handle = engine.start(cast.request(text)).await.unwrap();
        assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Ok));
        check(&world, handle.run, &[]).await.unwrap();
    }
    for request in &cast.heard()[1..] {
        let thought = request.messages[1].reasoning.clone().unwrap();
        assert_eq!((thought.model.as_str(), thought.wire.as_str()), ("a/big", "told"));
        assert_eq!(thought.blocks, [json!({"signed": "hm"})]);
        assert_eq!(request.messages.iter().filter(|message| message.reasoning.is_some()).count(), 1);
    }
    let entries = world.entries().await;
    assert!(
        !entries.iter().any(|placed| placed.entry.data().to_string().contains("signed")),
        "nobody is shown it"
    );
    assert!(
        entries
            .iter()
            .any(|placed| matches!(&placed.entry, Entry::AssistantMessage(m) if m.reasoning.is_some()))
    );
}

async fn a_call_that_was_cut_is_counted(world: World) {
    let cast = Cast::new([("a/big", vec![cut("Once upon a time")])]);
    let engine = cast.engine(&world);
    let mut handle = engine.start(cast.request("hi")).await.unwrap();
    assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Error));
    let events = world.events(handle.run).await;
    let Some(Event::Ended { usage, .. }) = events.last().map(|event| event.event.clone()) else { panic!() };
    assert_eq!((usage.completion_tokens, usage.cost_usd, usage.estimated), (4, Some(0.0), true));
    assert!((100..400).contains(&usage.prompt_tokens), "the question and the tools: {usage:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cost_limit_and_no_price_is_no_call() {
    let mut world = World::new(crate::world::Kept::Memory, crate::world::Mode::Plain);
    world.decision.limits = Limits { cost_micro_usd: Some(1_000), ..Limits::default() };
    let cast = Cast::new([("dear/one", vec![says("Hello")])]);
    let engine = cast.engine(&world);
    let request =
        RunRequest { model: "dear/one".to_owned(), roles: Default::default(), ..cast.request("hi") };
    let mut handle = engine.start(request).await.unwrap();
    assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Error));
    assert_eq!(cast.asked(), [] as [&str; 0]);
    assert_eq!(kinds(&world.events(handle.run).await), ["started", "ended error price_unknown"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_counts_as_time() {
    let mut world = World::new(crate::world::Kept::Memory, crate::world::Mode::Plain);
    world.decision.limits.active_ms = 30;
    let cast = Cast::new([("a/big", vec![fails(down().retry_after_ms(50_000))])]);
    let engine = cast.engine(&world);
    let mut handle = engine.start(cast.request("hi")).await.unwrap();
    assert_eq!(handle.rested().await, Rested::Ended(RunStatus::Error));
    let ended = kinds(&world.events(handle.run).await);
    assert_eq!(ended, ["started", "warning llm_connection", "ended error deadline"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn usage_that_a_provider_sent_before_it_failed_counts() {
    let world = World::new(crate::world::Kept::Memory, crate::world::Mode::Plain);
    let said =
        TokenUsage { prompt_tokens: 70, completion_tokens: 9, cost_micro_usd: Some(3), estimated: false };
    let reply = vec![Ok(Delta::Usage(said)), Ok(Delta::Text("half".to_owned())), Err(down())];
    let cast = Cast::new([("a/big", vec![reply])]);
    let engine = cast.engine(&world);
    let mut handle = engine.start(cast.request("hi")).await.unwrap();
    handle.rested().await;
    let events = world.events(handle.run).await;
    let Some(Event::Ended { usage, .. }) = events.last().map(|event| event.event.clone()) else { panic!() };
    assert_eq!((usage.prompt_tokens, usage.completion_tokens, usage.cost_usd), (70, 9, Some(0.000_003)));
}
