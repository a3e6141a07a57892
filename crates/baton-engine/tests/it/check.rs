//! The checker: the promises as predicates over the store, the effect ledger and the items that readers saw.
//!
//! It is itself tested: `planted.rs` builds engines and stores with faults, and it has to find each.

use std::collections::{BTreeMap, HashMap};

use baton_core::event::Event;
use baton_core::id::RunId;
use baton_core::run::{Approval, ApprovalKind, ApprovalStatus, RunStatus};
use baton_core::thread::{Closing, Entry, Tail};
use baton_engine::Seen;
use baton_store::{ClaimRow, RunRow, StepRow};

use crate::world::{TENANT, World, insist};

/// The whole stored and observed history of a run that has come to rest.
pub(crate) struct History {
    pub(crate) row: RunRow,
    pub(crate) steps: Vec<StepRow>,
    pub(crate) claims: Vec<ClaimRow>,
    pub(crate) entries: Vec<baton_core::thread::PlacedEntry>,
    pub(crate) approvals: Vec<Approval>,
    pub(crate) ledger: Vec<(String, String)>,
    pub(crate) seen: Vec<Seen>,
    /// The number of the last step when a cancel was acknowledged.
    pub(crate) cancelled_at: Option<u32>,
}

impl History {
    pub(crate) async fn of(world: &World, run: RunId, seen: &[Seen]) -> History {
        let tenant = TENANT.clone();
        let row = insist(|| world.store.run(&tenant, run)).await;
        History {
            steps: insist(|| world.store.steps(&tenant, run, 0, 100_000)).await,
            claims: insist(|| world.store.claims(&tenant, run)).await,
            entries: insist(|| {
                world.store.entries(&tenant, &row.thread, Some(&row.branch), Default::default())
            })
            .await,
            approvals: insist(|| world.store.approvals(&tenant, None, None, 10_000)).await,
            row,
            ledger: world.ledger.calls(),
            seen: seen.to_vec(),
            cancelled_at: None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        self.numbers_are_gapless()?;
        self.the_log_ends_once()?;
        self.steps_belong_to_their_claim()?;
        self.entries_are_in_order()?;
        self.results_were_recorded_once()?;
        self.effects_happened_once()?;
        self.what_was_seen_is_stored()?;
        self.text_is_what_was_said()?;
        self.nothing_starts_after_a_cancel()?;
        self.the_receipt_is_true()
    }

    fn events(&self) -> impl Iterator<Item = &Event> {
        self.steps.iter().flat_map(|step| &step.checkpoint.events)
    }

    fn numbers_are_gapless(&self) -> Result<(), String> {
        let mut last = 0;
        for (at, step) in (1..).zip(&self.steps) {
            let count = step.checkpoint.events.len() as u64;
            if step.step != at || step.first_seq != last + 1 || step.last_seq + 1 != step.first_seq + count {
                return Err(format!(
                    "step {} has numbers {}..{} after {last}",
                    step.step, step.first_seq, step.last_seq
                ));
            }
            last = step.last_seq;
        }
        if (last, self.steps.len()) != (self.row.seq, self.row.step as usize) {
            return Err(format!("the run says {} events in {} steps", self.row.seq, self.row.step));
        }
        Ok(())
    }

    fn the_log_ends_once(&self) -> Result<(), String> {
        let ends = self.events().filter(|event| event.is_terminal()).count();
        let ended = self.row.status.has_ended();
        let last = self.events().last().is_some_and(Event::is_terminal);
        if (ends, last) != (usize::from(ended), ended) {
            return Err(format!("{ends} terminal events, and the run is {}", self.row.status.as_str()));
        }
        Ok(())
    }

    fn steps_belong_to_their_claim(&self) -> Result<(), String> {
        for step in &self.steps {
            // The claim in force is the newest whose base lies before the step's first event.
            let too_old =
                self.claims.iter().any(|claim| claim.epoch > step.epoch && claim.base_seq < step.last_seq);
            if too_old {
                return Err(format!(
                    "step {} of epoch {} was written after a later claim",
                    step.step, step.epoch
                ));
            }
        }
        Ok(())
    }

    fn entries_are_in_order(&self) -> Result<(), String> {
        let mut tail = Tail::default();
        for (index, placed) in (0..).zip(&self.entries) {
            if placed.index != index {
                return Err(format!("entry {} stands at {index}", placed.index));
            }
            tail.append(&placed.entry).map_err(|error| error.to_string())?;
        }
        if self.row.status.has_ended() && !tail.open.is_empty() {
            return Err(format!("calls are still open: {:?}", tail.open));
        }
        if self.entries.len() as i64 != self.row.head + 1 {
            return Err(format!(
                "the head is {} and there are {} entries",
                self.row.head,
                self.entries.len()
            ));
        }
        Ok(())
    }

    /// Each call that was shown has exactly one result, in the log as in the thread.
    fn results_were_recorded_once(&self) -> Result<(), String> {
        let mut results: BTreeMap<&str, u32> = BTreeMap::new();
        for event in self.events() {
            if let Event::ToolResult { call_id, .. } = event {
                *results.entry(call_id).or_default() += 1;
            }
        }
        for placed in self.entries.iter().filter(|placed| placed.run == Some(self.row.id)) {
            let Entry::ToolCall(call) = &placed.entry else { continue };
            let count = results.get(call.id.as_str()).copied().unwrap_or_default();
            if self.row.status.has_ended() && count != 1 {
                let given_up =
                    matches!(self.events().last(), Some(Event::Ended { status: RunStatus::Error, .. }));
                if !given_up {
                    return Err(format!("call {} has {count} results in the log", call.id));
                }
            }
        }
        Ok(())
    }

    /// A call with effects runs only once, unless a user stated that it had not happened and may run again.
    fn effects_happened_once(&self) -> Result<(), String> {
        let mut counts: HashMap<&(String, String), u32> = HashMap::new();
        for call in self.ours() {
            *counts.entry(call).or_default() += 1;
        }
        let most = |key: &str| 1 + self.let_run_again(key);
        match counts.iter().find(|((key, tool), count)| tool != "safe" && **count > most(key)) {
            Some(((key, tool), count)) => Err(format!("{tool} took effect {count} times for {key}")),
            None => Ok(()),
        }
    }

    /// How often a user let a call with an unknown outcome run again.
    fn let_run_again(&self, key: &str) -> u32 {
        let n = key.rsplit('/').next();
        let is_it = |approval: &&Approval| {
            approval.run_id == self.row.id
                && approval.kind == ApprovalKind::Outcome
                && approval.status == ApprovalStatus::Approved
                && approval.call_id.rsplit('-').next() == n
        };
        self.approvals.iter().filter(is_it).map(|_| 1).sum()
    }

    fn ours(&self) -> impl Iterator<Item = &(String, String)> {
        let run = self.row.id.to_string();
        self.ledger.iter().filter(move |(key, _)| key.starts_with(&run))
    }

    /// The events that a reader saw, without those withdrawn, are the log, each event once and in order.
    fn what_was_seen_is_stored(&self) -> Result<(), String> {
        let stored: Vec<&Event> = self.events().collect();
        let mut kept: BTreeMap<u64, &Event> = BTreeMap::new();
        let mut last = 0;
        for seen in &self.seen {
            match seen {
                Seen::Suspended => {}
                Seen::Resumed { last_seq } => {
                    let gone = kept.split_off(&(last_seq + 1));
                    if let Some(event) = gone.values().find(|event| !matches!(event, Event::Delta { .. })) {
                        return Err(format!("a reader saw {event:?}, which was never committed"));
                    }
                    last = *last_seq;
                }
                Seen::Event(event) => {
                    if event.seq != last + 1 {
                        return Err(format!("a reader saw {} after {last}", event.seq));
                    }
                    last = event.seq;
                    kept.insert(event.seq, &event.event);
                }
            }
        }
        for (seq, event) in kept {
            match stored.get(usize::try_from(seq).unwrap_or(usize::MAX) - 1) {
                Some(there) if *there == event => {}
                there => return Err(format!("a reader saw {event:?} as {seq}, and the store has {there:?}")),
            }
        }
        Ok(())
    }

    /// The pieces of a message, without those withdrawn, are the message.
    fn text_is_what_was_said(&self) -> Result<(), String> {
        let mut pieces: Vec<(&str, String)> = Vec::new();
        for event in self.events() {
            match event {
                Event::Delta { message_id, text, reasoning: false, .. } => {
                    match pieces.iter_mut().find(|(id, _)| id == message_id) {
                        Some((_, said)) => said.push_str(text),
                        None => pieces.push((message_id, text.clone())),
                    }
                }
                Event::Restarted { message_id } => {
                    if let Some((_, said)) = pieces.iter_mut().find(|(id, _)| id == message_id) {
                        said.clear();
                    }
                }
                _ => {}
            }
        }
        let shown: Vec<&String> =
            pieces.iter().map(|(_, said)| said).filter(|said| !said.is_empty()).collect();
        let mut said: Vec<&String> = Vec::new();
        for placed in self.entries.iter().filter(|placed| placed.run == Some(self.row.id)) {
            let Entry::AssistantMessage(message) = &placed.entry else { continue };
            if message.meta.as_deref() == Some("revision") {
                said.pop(); // it replaces the one before it
            }
            said.extend((!message.content.is_empty()).then_some(&message.content));
        }
        if self.row.status == RunStatus::Ok && shown != said {
            return Err(format!("shown {shown:?}, said {said:?}"));
        }
        Ok(())
    }

    fn nothing_starts_after_a_cancel(&self) -> Result<(), String> {
        let Some(cancelled_at) = self.cancelled_at else { return Ok(()) };
        let mut before: Vec<u32> = Vec::new();
        for step in &self.steps {
            let now: Vec<u32> = step.checkpoint.in_flight.iter().map(|intent| intent.effect.n).collect();
            if step.step > cancelled_at
                && let Some(n) = now.iter().find(|n| !before.contains(n))
            {
                return Err(format!(
                    "effect {n} started in step {} after a cancel at {cancelled_at}",
                    step.step
                ));
            }
            before = now;
        }
        Ok(())
    }

    fn the_receipt_is_true(&self) -> Result<(), String> {
        let Some(Event::Ended { receipt: Some(receipt), .. }) = self.events().last() else { return Ok(()) };
        let happened = |call_id: &str| {
            let n = call_id.rsplit('-').next().unwrap_or_default();
            self.ours().any(|(key, _)| key.ends_with(&format!("/{n}")))
        };
        for call in receipt.finished.iter().chain(&receipt.stopped) {
            let asked = call.name == baton_core::tool::ASK_USER;
            if !asked && !happened(&call.call_id) {
                return Err(format!("{} is on the receipt and never reached its tool", call.call_id));
            }
        }
        if let Some(call) = receipt.not_started.iter().find(|call| happened(&call.call_id)) {
            return Err(format!("{} reached its tool and is said never to have started", call.call_id));
        }
        let closed = |call_id: &str| {
            self.entries.iter().find_map(|placed| match &placed.entry {
                Entry::ToolResult(result) if result.tool_call_id == call_id => Some(result.status),
                _ => None,
            })
        };
        let wrong = receipt.unknown.iter().find(|call| closed(&call.call_id) != Some(Closing::Unknown));
        wrong.map_or(Ok(()), |call| Err(format!("{} is unknown on the receipt only", call.call_id)))
    }
}

/// Checks a run that has come to rest.
pub(crate) async fn check(world: &World, run: RunId, seen: &[Seen]) -> Result<(), String> {
    History::of(world, run, seen).await.check()
}
