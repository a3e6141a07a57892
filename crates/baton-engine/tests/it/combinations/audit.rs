//! Checks that hold for every session.

use std::collections::BTreeSet;

use baton_core::effect::EffectKind;
use baton_core::event::Event;
use baton_core::fault::Code;
use baton_core::id::{EffectId, FramePath, RunId};
use baton_core::run::{OrchestratorResult, RunStatus, SessionMetrics, Step, StepKind};
use baton_core::thread::Closing;
use baton_engine::{Engine, RunView};
use baton_store::{Intent, RunFilter, RunRow, StepRow};

use super::endpoint::Book;
use super::shop::Shop;
use crate::world::{TENANT, World};

/// The counts of a session, for the sum of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    pub(super) runs: u64,
    pub(super) well: u64,
    pub(super) failed: u64,
    pub(super) cancelled: u64,
    pub(super) waiting: u64,
    pub(super) limited: u64,
    /// Model calls that were not made, because the endpoint was marked as degraded.
    pub(super) unsent: u64,
    pub(super) metrics: SessionMetrics,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Tally) {
        self.runs += other.runs;
        self.well += other.well;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.waiting += other.waiting;
        self.limited += other.limited;
        self.unsent += other.unsent;
        self.metrics.llm_calls += other.metrics.llm_calls;
        self.metrics.tools += other.metrics.tools;
        self.metrics.tokens += other.metrics.tokens;
        self.metrics.errors += other.metrics.errors;
    }
}

/// The runs of the session, oldest first.
pub(super) async fn runs(world: &World) -> Vec<RunRow> {
    let filter = RunFilter { thread: Some("s".parse().unwrap()), limit: 100, ..RunFilter::default() };
    let mut runs = world.store.runs(&TENANT, &filter).await.unwrap();
    runs.sort_by_key(|row| row.id.0);
    runs
}

/// A result has a reply, and its steps are those of its run, beginning with one of them.
pub(super) fn result(result: &OrchestratorResult, run: Option<&RunView>) -> Result<(), String> {
    if result.reply.trim().is_empty() {
        return Err(format!("nothing was replied: {result:?}"));
    }
    let is_busy = |step: &Step| step.metadata.get("reason").is_some_and(|reason| reason == "busy");
    let Some(view) = run.filter(|_| !result.steps.iter().any(is_busy)) else {
        let refused = result.trace_id.is_none() && result.steps.len() == 1;
        return refused.then_some(()).ok_or_else(|| format!("no run, and {result:?}"));
    };
    if result.trace_id != Some(view.row.id.trace_id()) {
        return Err(format!("the trace of {} is not {:?}", view.row.id, result.trace_id));
    }
    let is_waiting = |step: &&Step| step.metadata.contains_key("waiting");
    let waits = result.steps.iter().rev().take_while(is_waiting).count();
    let own = &result.steps[..result.steps.len() - waits];
    if !view.steps.ends_with(own) || waits != view.waiting.len() {
        return Err(format!("{:?} is not the end of {:?}", result.steps, view.steps));
    }
    Ok(())
}

/// All checks of a session after its last request.
pub(super) async fn session(
    world: &World,
    engine: &Engine,
    book: &Book,
    shop: &Shop,
) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let (mut stopped_models, mut stopped_tools, mut errors) = (0, 0, 0);
    for row in runs(world).await {
        let view = engine.view(&TENANT, row.id).await.map_err(|error| error.to_string())?;
        let steps = world.store.steps(&TENANT, row.id, 0, 10_000).await.unwrap();
        let rests =
            row.status.has_ended() || (row.status == RunStatus::Suspended && !view.waiting.is_empty());
        if !rests {
            return Err(format!("{} is {} and waits for {:?}", row.id, row.status.as_str(), view.waiting));
        }
        in_order(row.id, &steps)?;
        let was_stopped = row.status == RunStatus::Cancelled || is_out_of_time(&steps);
        if was_stopped {
            stopped_models += unaccounted(row.id, &steps, |kind| matches!(kind, EffectKind::Model { .. }));
            stopped_tools += stopped(&steps);
        }
        errors += view.steps.iter().filter(|step| step.metadata.contains_key("error")).count();
        tally.runs += 1;
        tally.well += u64::from(row.status == RunStatus::Ok);
        tally.failed += u64::from(row.status == RunStatus::Error);
        tally.cancelled += u64::from(row.status == RunStatus::Cancelled);
        tally.waiting += u64::from(row.status == RunStatus::Suspended);
        tally.limited += u64::from(is_limited(&steps));
        let degraded = |step: &&Step| step.description.contains("is marked as degraded");
        tally.unsent += view.steps.iter().filter(degraded).count() as u64;
    }
    let thread = "s".parse().unwrap();
    if tally.runs > 0 {
        let session = engine.session(&TENANT, &thread, None).await.map_err(|error| error.to_string())?;
        tally.metrics = session.metrics;
    }
    let said = book.said();
    let slack = Slack { models: stopped_models, tools: stopped_tools };
    figures(&tally.metrics, &said, shop.reached().len(), errors, &slack)?;
    Ok(tally)
}

/// Calls that were started and stopped at once, by a cancel or a limit of time, may not have reached a server or tool.
struct Slack {
    models: usize,
    tools: usize,
}

/// The metrics of the session are those of the servers and the tools.
fn figures(
    metrics: &SessionMetrics,
    said: &[u64],
    reached: usize,
    errors: usize,
    slack: &Slack,
) -> Result<(), String> {
    let (asked, tokens) = (said.len() as u64, said.iter().sum::<u64>());
    let most = said.iter().max().copied().unwrap_or_default() * slack.models as u64;
    let fits = (asked..=asked + slack.models as u64).contains(&metrics.llm_calls)
        && (tokens.saturating_sub(most)..=tokens).contains(&metrics.tokens)
        && (reached as u64..=(reached + slack.tools) as u64).contains(&metrics.tools)
        && metrics.errors == errors as u64;
    let counted = format!("{asked} requests, {tokens} tokens, {reached} calls, {errors} errors");
    fits.then_some(()).ok_or_else(|| format!("{metrics:?}, but counted were {counted}"))
}

/// How many calls of tools were stopped, or given up.
fn stopped(steps: &[StepRow]) -> usize {
    let events = steps.iter().flat_map(|step| &step.checkpoint.events);
    let is_stopped = |event: &&Event| {
        matches!(event, Event::ToolResult { status: Closing::Cancelled | Closing::Unknown, .. })
    };
    events.filter(is_stopped).count()
}

/// An effect and its try: a call that runs again leaves and comes back at once.
type Try = (u32, u32);

fn try_of(intent: &Intent) -> Try {
    (intent.effect.n, intent.effect.kind.again())
}

/// The tries that were started.
fn started(steps: &[StepRow], of: impl Fn(&EffectKind) -> bool) -> BTreeSet<Try> {
    let in_flight = steps.iter().flat_map(|step| &step.checkpoint.in_flight);
    in_flight.filter(|intent| of(&intent.effect.kind)).map(try_of).collect()
}

fn span(run: RunId, (n, again): Try) -> String {
    EffectId { run, path: FramePath::root(), n }.span_id_of(again)
}

/// How many effects were started that are missing from the account.
fn unaccounted(run: RunId, steps: &[StepRow], of: impl Fn(&EffectKind) -> bool) -> usize {
    let lines: Vec<&Step> = steps.iter().flat_map(|step| &step.checkpoint.account).collect();
    let told =
        |of: &Try| lines.iter().any(|line| line.metadata.get("span_id") == Some(&span(run, *of).into()));
    started(steps, of).iter().filter(|of| !told(of)).count()
}

/// Each model call is in the account as soon as its outcome is, and each call of a tool not before; all by the spans of
/// this run's effects.
fn in_order(run: RunId, steps: &[StepRow]) -> Result<(), String> {
    let all = started(steps, |_| true);
    let (mut before, mut over, mut last_model) = (BTreeSet::new(), BTreeSet::<Try>::new(), None);
    for step in steps {
        let now: BTreeSet<Try> = step.checkpoint.in_flight.iter().map(try_of).collect();
        let left: BTreeSet<Try> = before.difference(&now).copied().collect();
        over.extend(&left);
        for line in &step.checkpoint.account {
            let told = line.metadata.get("span_id").and_then(|span| span.as_str());
            let named = all.iter().copied().find(|of| told == Some(span(run, *of).as_str()));
            if told.is_some() && named.is_none() {
                return Err(format!("{line:?} has a span of no effect"));
            }
            match line.kind {
                StepKind::LlmCall | StepKind::Summary => {
                    let of = named.filter(|of| left.contains(of) && Some(*of) > last_model);
                    last_model = Some(of.ok_or_else(|| format!("{line:?} is out of order"))?);
                }
                StepKind::ToolCall if named.is_some_and(|of| !over.contains(&of)) => {
                    return Err(format!("{line:?} came before its outcome"));
                }
                StepKind::ToolCall => {
                    let call = named.map(|(n, _)| EffectId { run, path: FramePath::root(), n }.call_id());
                    let told = line.metadata.get("call_id").and_then(|id| id.as_str());
                    if call.is_some_and(|call| Some(call.as_str()) != told) {
                        return Err(format!("{line:?} has the span of another call"));
                    }
                }
                StepKind::Plan | StepKind::Warning => {}
            }
        }
        before = now;
    }
    Ok(())
}

fn codes(steps: &[StepRow]) -> impl Iterator<Item = Code> {
    steps.iter().flat_map(|step| &step.checkpoint.events).filter_map(|event| match event {
        Event::Warning { code, .. } => Some(*code),
        Event::Ended { error: Some(fault), .. } => Some(fault.code),
        _ => None,
    })
}

fn is_out_of_time(steps: &[StepRow]) -> bool {
    codes(steps).any(|code| code == Code::Deadline)
}

fn is_limited(steps: &[StepRow]) -> bool {
    codes(steps).any(|code| matches!(code, Code::Deadline | Code::BudgetExceeded))
}

#[test]
fn figures_that_are_not_those_of_the_servers_are_found() {
    let metrics = SessionMetrics { llm_calls: 2, tools: 1, tokens: 30, errors: 1 };
    let exact = Slack { models: 0, tools: 0 };
    assert_eq!(figures(&metrics, &[10, 20], 1, 1, &exact), Ok(()));
    for (said, reached, errors) in
        [(&[10, 21][..], 1, 1), (&[30], 1, 1), (&[10, 20], 2, 1), (&[10, 20], 1, 0)]
    {
        assert!(figures(&metrics, said, reached, errors, &exact).is_err(), "{said:?} {reached} {errors}");
    }
    let stopped = Slack { models: 1, tools: 1 };
    assert_eq!(figures(&metrics, &[30], 0, 1, &stopped), Ok(()), "one never reached anybody");
    assert_eq!(figures(&metrics, &[30, 15], 1, 1, &stopped), Ok(()), "one was not heard to its end");
    assert!(figures(&metrics, &[30, 15, 1], 1, 1, &stopped).is_err());
}
