//! The usage that a provider reports for an answer: any number at all.

use baton_core::chat::FinishReason::{Stop, ToolCalls};
use baton_core::chat::TokenUsage;
use baton_core::event::{Event, NumberedEvent};
use baton_core::fault::Fault;
use baton_core::run::Usage;
use baton_model::Delta;

use crate::check::check;
use crate::world::{Kept, Mode, World, kinds};

use super::{Anything, Case, Played, arguments, finish, play, start, text};

const MOST: TokenUsage = TokenUsage {
    prompt_tokens: u64::MAX,
    completion_tokens: u64::MAX,
    cost_micro_usd: Some(u64::MAX),
    estimated: false,
};

fn used(usage: TokenUsage) -> Result<Delta, Fault> {
    Ok(Delta::Usage(usage))
}

fn tokens(prompt_tokens: u64, completion_tokens: u64) -> Result<Delta, Fault> {
    used(TokenUsage { prompt_tokens, completion_tokens, cost_micro_usd: Some(1), estimated: false })
}

fn sum(events: &[NumberedEvent]) -> Usage {
    match &events.last().unwrap().event {
        Event::Ended { usage, .. } => *usage,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_number_is_too_large() {
    let reply =
        |usage: TokenUsage| vec![start(0, "anything"), arguments(0, "{}"), used(usage), finish(ToolCalls)];
    for (name, usage) in [
        ("all of it", MOST),
        ("tokens read", TokenUsage { prompt_tokens: u64::MAX, ..TokenUsage::default() }),
        ("tokens written", TokenUsage { completion_tokens: u64::MAX, ..TokenUsage::default() }),
        ("money", TokenUsage { cost_micro_usd: Some(u64::MAX), ..TokenUsage::default() }),
        ("as much as a signed number holds", TokenUsage { prompt_tokens: i64::MAX as u64, ..MOST }),
    ] {
        for kept in [Kept::Memory, Kept::Sqlite] {
            play(kept, vec![Case::runs(name, "anything", reply(usage))]).await;
            let world = World::new(kept, Mode::Plain);
            let replies = vec![reply(usage), reply(usage), vec![text("a"), used(usage), finish(Stop)]];
            let engine = world.engine_of(Played::new(replies), vec![Anything::new()]);
            let (handle, _, events) = world.turn(&engine, "hi").await;
            assert_eq!(kinds(&events).last().unwrap(), "ended ok", "{name}");
            let sum = sum(&events);
            let expected = sum.prompt_tokens.saturating_add(sum.completion_tokens);
            assert!(sum.tokens == expected && sum.tokens >= usage.prompt_tokens, "{name}: {sum:?}");
            check(&world, handle.run, &[]).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_used_beyond_a_limit_ends_the_turn() {
    for limits in [(Some(1_000), None), (None, Some(1_000))] {
        let mut world = World::new(Kept::Sqlite, Mode::Plain);
        (world.decision.limits.tokens, world.decision.limits.cost_micro_usd) = limits;
        world.decision.limits.answer_tokens = 100;
        let reply = vec![start(0, "anything"), arguments(0, "{}"), used(MOST), finish(ToolCalls)];
        let engine = world.engine_of(Played::new(vec![reply]), vec![Anything::new()]);
        let (handle, _, events) = world.turn(&engine, "hi").await;
        assert_eq!(
            kinds(&events),
            ["started", "tool_start anything", "tool_result anything Ok", "ended error budget_exceeded"],
            "{limits:?}"
        );
        check(&world, handle.run, &[]).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_number_counts() {
    let world = World::new(Kept::Memory, Mode::Plain);
    let reply = vec![tokens(1, 1), text("a"), tokens(7, 8), finish(Stop), tokens(30, 5)];
    let (_, _, events) = world.turn(&world.engine_of(Played::new(vec![reply]), vec![]), "hi").await;
    let expected =
        Usage { tokens: 35, prompt_tokens: 30, completion_tokens: 5, cost_usd: Some(1e-6), estimated: false };
    assert_eq!(sum(&events), expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_without_end_are_no_answer() {
    let reply = (0..10_000).map(|n| tokens(n, n)).collect();
    let told = "stream ended early";
    play(Kept::Memory, vec![Case::fails("numbers", reply, false, "llm_invalid_response", told)]).await;
}
