//! Commits transitions, and publishes each only after its commit.

use std::pin::pin;

use baton_core::budget::Budget;
use baton_core::effect::EffectKind;
use baton_core::event::Event;
use baton_core::fault::{Code, Fault};
use baton_core::flow::{Flow, FlowRecord, Node, Record};
use baton_core::id::{EntryId, Tenant};
use baton_core::run::{ApprovalKind, RunStatus, Verdict};
use baton_core::thread::{Entry, NewEntry};
use baton_core::time::Timestamp;
use baton_store::failpoint::point;
use baton_store::{
    AuditEvent, CHECKPOINT_VERSION, Checkpoint, Intent, RunHalt, StepRow, StoreError, Transition,
};
use tokio::time::Instant;
use uuid::Uuid;

use super::{Driver, Queued, text_of};
use crate::audit::{self, Told};
use crate::bug::EngineBug;
use crate::engine::Shared;
use crate::error::EngineError;
use crate::patience::{Patience, patiently};
use crate::perform::Hold;
use crate::plan::Plan;

/// The longest state that a flow may have.
const MOST_STATE: usize = 64 << 10;

/// A transition before it is planned and written: the flow's result for an input.
pub(super) struct Draft<'a> {
    pub(super) record: Record,
    pub(super) state: FlowRecord,
    pub(super) budget: Budget,
    /// The input.
    pub(super) queued: Option<&'a Queued>,
    /// The effect that it ended.
    pub(super) leaving: Option<u32>,
    /// Whether more inputs wait, so that nothing starts or ends.
    pub(super) held: bool,
}

/// The work that goes on while a transition is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    /// Nothing: everything that follows depends on it.
    Wait,
    /// More text is shown.
    Listen,
}

impl Driver {
    /// Commits a draft with the plan's additions, and publishes it.
    pub(super) async fn write(&mut self, draft: Draft<'_>, plan: &Plan) -> Result<(), EngineError> {
        let Draft { mut record, state, mut budget, queued, leaving, held } = draft;
        if record.asked.iter().any(|asked| asked.kind == ApprovalKind::Outcome) {
            Box::pin(self.name_what_ran(&mut record)).await?;
        }
        budget.active_ms += self.active_ms();
        let inbox_read = match queued {
            Some(Queued::Message(posted)) => posted.n,
            _ => self.inbox_read,
        };
        let mut events = self.take_unsaved();
        let shown = events.len();
        events.extend(self.restarts_of(plan));
        events.append(&mut record.events);
        let rest = match plan {
            Plan::Go(_) | Plan::Stuck => RunHalt::Running,
            Plan::Suspend(wake_at) => RunHalt::Suspended { wake_at: *wake_at },
            Plan::End(verdict) => {
                let (status, mut ended) = ended(verdict, &budget);
                if self.shared.settings.has(EngineBug::WrongReceipt) {
                    misreport(&mut ended);
                }
                events.push(ended);
                RunHalt::Ended(status)
            }
        };
        let starts: &[Intent] = if let Plan::Go(starts) = plan { starts } else { &[] };
        let mut transition = Transition {
            // While inputs wait, nothing starts or ends: then newly posted messages do not matter.
            inbox: (!held).then_some(inbox_read),
            progress: leaving.is_some(),
            rest,
            ..self.transition(record, events, budget, inbox_read, self.in_flight(leaving, starts), state)
        };
        let told = match plan {
            Plan::End(verdict) => Some(Told::Ended(verdict, transition.checkpoint.budget.usage())),
            Plan::Suspend(_) => Some(Told::Suspended),
            Plan::Go(_) | Plan::Stuck => None,
        };
        if let Some(told) = told {
            let line = self.audit_line(transition.checkpoint.at, &told, last_said(&transition.entries));
            transition.audit.push(line);
        }
        for intent in starts {
            point(if matches!(intent.effect.kind, EffectKind::Model { .. }) {
                "llm.pre_intent"
            } else {
                "tool.pre_intent"
            });
        }
        self.save(transition, shown, Meanwhile::Wait).await?;
        if let Plan::End(Verdict::Error(fault)) = plan {
            self.span.failed(fault.code);
            // The code alone: a message may hold words of the caller.
            tracing::info!(run = %self.run(), code = fault.code.as_str(), "the run failed");
        }
        self.mark(plan, queued, leaving);
        Ok(())
    }

    /// A line of the audit trail, which commits with the transition that it reports.
    pub(super) fn audit_line(&self, at: Timestamp, told: &Told<'_>, said: Option<&str>) -> AuditEvent {
        audit::line(&self.shared.settings.audit, &self.row, at, told, said)
    }

    /// The internal fault of a draft, if it has one.
    pub(super) fn broken(&self, record: &Record, plan: &Plan, state: &FlowRecord) -> Option<Fault> {
        let internal = |why: String| Some(Fault::new(Code::Internal, why));
        if let Some(refused) = &record.refused {
            return internal(refused.to_string());
        }
        if *plan == Plan::Stuck {
            return internal("the flow wants nothing and has not ended".to_owned());
        }
        let length = state.data.get().len();
        if length > MOST_STATE || self.shared.settings.has(EngineBug::GrowState) {
            return internal(format!("the flow's state has grown to {length} bytes"));
        }
        None
    }

    fn restarts_of(&self, plan: &Plan) -> Vec<Event> {
        let forgets = self.shared.settings.has(EngineBug::ForgetRestart);
        if !forgets && matches!(plan, Plan::Go(starts) if !starts.is_empty()) {
            self.restarts()
        } else {
            Vec::new()
        }
    }

    pub(super) fn in_flight(&self, leaving: Option<u32>, starts: &[Intent]) -> Vec<Intent> {
        if self.shared.settings.has(EngineBug::DropIntent) {
            return Vec::new();
        }
        let flying = self.flying.values().map(|flight| &*flight.intent);
        let interrupted = self.again.iter().filter(|i| !starts.iter().any(|s| s.effect.n == i.effect.n));
        // An effect that ends may start again at once, by the same number.
        let staying = flying.chain(interrupted).filter(|intent| Some(intent.effect.n) != leaving);
        staying.chain(starts).cloned().collect()
    }

    pub(super) fn transition(
        &self,
        record: Record,
        events: Vec<Event>,
        mut budget: Budget,
        inbox_read: u32,
        in_flight: Vec<Intent>,
        state: FlowRecord,
    ) -> Transition {
        let at = self.shared.clock.now();
        budget.errors += record.errors();
        let new = |entry: Entry| NewEntry { id: EntryId(Uuid::now_v7()), at, entry };
        Transition {
            run: self.run(),
            thread: self.row.thread.clone(),
            lane: self.row.lane,
            epoch: self.row.epoch,
            step: self.row.step + 1,
            frame: self.performer.path.clone(),
            entries: record.entries.into_iter().map(new).collect(),
            last_seq: self.row.seq + events.len() as u64,
            checkpoint: Checkpoint {
                v: CHECKPOINT_VERSION,
                at,
                node: record.node,
                next_action: record.next_action,
                state,
                in_flight,
                inbox_read,
                head: record.head,
                budget,
                tail: record.tail,
                waiting: self.flow.waiting(),
                account: record.steps,
                events,
            },
            inbox: None,
            progress: false,
            asked: record.asked,
            settled: record.settled,
            audit: Vec::new(),
            rest: RunHalt::Running,
        }
    }

    /// Commits a transition, then applies and publishes it. The first of its events are pieces of text that are shown
    /// already.
    async fn save(
        &mut self,
        transition: Transition,
        shown: usize,
        meanwhile: Meanwhile,
    ) -> Result<(), EngineError> {
        if self.shared.settings.has(EngineBug::PublishEarly) {
            self.hub.commit(self.row.seq + 1, transition.checkpoint.events.clone());
        }
        point("step.pre_commit");
        let since = self.performer.track.now();
        let (began, hold) = (Instant::now(), Hold::of(&self.shared, self.row.epoch));
        let committed = match meanwhile {
            Meanwhile::Wait => commit(&self.shared, &self.performer.tenant, &transition).await,
            Meanwhile::Listen => self.commit_text(&transition).await,
        };
        self.shared.figures.committed(began.elapsed());
        self.performer.track.committed(since, transition.step, committed.as_ref().err());
        if let Err(error) = committed {
            let later = std::mem::replace(&mut self.unsaved, transition.checkpoint.events);
            self.unsaved.truncate(shown);
            self.unsaved_bytes += self.unsaved.iter().map(text_of).map(str::len).sum::<usize>();
            self.unsaved.extend(later);
            return Err(error);
        }
        self.hold = hold;
        point("step.post_commit");
        tracing::debug!(run = %self.run(), step = transition.step, seq = transition.last_seq, "committed");
        self.remember(transition);
        self.reload().await
    }

    /// Applies a committed transition to the driver, and publishes its events.
    pub(super) fn remember(&mut self, transition: Transition) {
        let Transition { step, last_seq, entries, checkpoint, rest, progress, .. } = transition;
        if progress && std::mem::take(&mut self.row.attempts) > 0 {
            self.shared.cleared(self.run(), self.row.epoch);
        }
        let first = self.row.seq + 1;
        (self.row.step, self.row.seq, self.row.head) = (step, last_seq, checkpoint.head);
        if let RunHalt::Ended(status) = rest {
            self.shared.figures.used(&checkpoint.budget);
            self.row.status = status;
        }
        self.performer.recent.append(checkpoint.head, entries.into_iter().map(|new| new.entry));
        self.state = checkpoint.state;
        self.tail = checkpoint.tail;
        self.budget = checkpoint.budget;
        self.inbox_read = checkpoint.inbox_read;
        self.active_since = self.active_since.map(|_| Instant::now());
        point("step.pre_publish");
        self.hub.commit(first, checkpoint.events);
    }

    /// Drops the state just applied and reads it back, where the settings ask for it.
    pub(super) async fn reload(&mut self) -> Result<(), EngineError> {
        if self.shared.settings.reload {
            Box::pin(self.forget()).await?;
        }
        Ok(())
    }

    /// Commits pieces of text alone, so that no reader loses more than a moment of them.
    pub(super) async fn save_text(&mut self) -> Result<(), EngineError> {
        let record = Record::at(self.tail.clone(), self.row.head, Node::Reasoning);
        let mut budget = self.budget.clone();
        budget.active_ms += self.active_ms();
        let in_flight = self.in_flight(None, &[]);
        let (state, pieces) = (self.state.clone(), self.take_unsaved());
        let shown = pieces.len();
        let transition = self.transition(record, pieces, budget, self.inbox_read, in_flight, state);
        self.save(transition, shown, Meanwhile::Listen).await
    }

    /// The pieces of text that were shown and are about to be committed.
    fn take_unsaved(&mut self) -> Vec<Event> {
        (self.unsaved_bytes, self.unsaved_since) = (0, None);
        std::mem::take(&mut self.unsaved)
    }

    /// Commits pieces of text, and shows further text meanwhile: a slow store does not hold up readers. The outcome of
    /// an effect waits for its turn, and no signal is taken after it.
    async fn commit_text(&mut self, transition: &Transition) -> Result<(), EngineError> {
        let (shared, performer) = (self.shared.clone(), self.performer.clone());
        let mut committed = pin!(commit(&shared, &performer.tenant, transition));
        loop {
            let hears = self.queue.is_empty() && !self.has_much_unsaved();
            tokio::select! {
                biased;
                committed = committed.as_mut() => return committed,
                Some(signal) = self.signals.recv(), if hears => {
                    let input = self.hear_all(signal, transition.last_seq + 1);
                    self.queue.extend(input);
                }
            }
        }
    }

    /// Time of activity that is not in the budget yet.
    fn active_ms(&self) -> u64 {
        let active = self.active_since.map(|since| since.elapsed()).unwrap_or_default();
        u64::try_from(active.as_millis()).unwrap_or(u64::MAX)
    }

    /// Drops all state that can be read back, and reads it back.
    async fn forget(&mut self) -> Result<(), EngineError> {
        let (tenant, run) = (self.performer.tenant.clone(), self.run());
        let store = self.shared.store.clone();
        let row = patiently!(self.shared, store.run(&tenant, run))?;
        let step = self.row.step;
        let last = patiently!(self.shared, store.steps(&tenant, run, step - 1, 1))?.pop();
        let last = last.ok_or_else(|| EngineError::Invalid("the last step is gone".to_owned()))?;
        self.performer.recent.forget();
        self.flow = Flow::restore(self.setting(), last.checkpoint.state)?;
        self.tail = last.checkpoint.tail;
        self.inbox_read = last.checkpoint.inbox_read;
        self.budget = row.budget.clone();
        let watched_until = self.row.watched_until;
        self.row = baton_store::RunRow { watched_until, ..row };
        Ok(())
    }

    /// The points after a commit at which tests kill the process.
    fn mark(&self, plan: &Plan, queued: Option<&Queued>, leaving: Option<u32>) {
        if let Some(Queued::Message(posted)) = queued {
            match posted.message {
                baton_core::run::Message::Cancel => point("cancel.post_commit"),
                baton_core::run::Message::Decision { .. } => point("approval.post_decision"),
                baton_core::run::Message::Input { .. } => {}
            }
        }
        if let Plan::Suspend(_) = plan {
            point("approval.post_request");
        }
        let ended = leaving.and_then(|n| self.flying.get(&n));
        if ended.is_some_and(|flight| matches!(flight.intent.effect.kind, EffectKind::Tool { .. })) {
            point("tool.post_commit");
        }
    }
}

/// Commits a transition; after an ambiguous error it is looked for in the store, never blindly repeated.
async fn commit(shared: &Shared, tenant: &Tenant, transition: &Transition) -> Result<(), EngineError> {
    let mut patience = Patience::of(shared.settings.store_patience);
    let mut unsure = false;
    loop {
        let error = match shared.store.commit(tenant, transition).await {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        unsure |= matches!(error, StoreError::Ambiguous(_));
        // A commit that was still under way when it was looked for fences the next try: then it is ours all the same.
        let may_be_there = matches!(error, StoreError::Ambiguous(_) | StoreError::Fenced { .. });
        if unsure && may_be_there && Box::pin(is_written(shared, tenant, transition)).await? {
            return Ok(());
        }
        let is_leaving = shared.closing.is_cancelled() && matches!(error, StoreError::Blocked { .. });
        if is_leaving || !patience.one_more(&error).await {
            return Err(error.into());
        }
    }
}

/// Whether a transition of this process is in the store.
async fn is_written(shared: &Shared, tenant: &Tenant, transition: &Transition) -> Result<bool, EngineError> {
    let back = patiently!(shared, shared.store.steps(tenant, transition.run, transition.step - 1, 1))?;
    let is_it = |step: &StepRow| step.epoch == transition.epoch && step.step == transition.step;
    Ok(back.first().is_some_and(is_it))
}

/// The last text that the model wrote.
fn last_said(entries: &[NewEntry]) -> Option<&str> {
    entries.iter().rev().find_map(|new| match &new.entry {
        Entry::AssistantMessage(said) if !said.content.is_empty() => Some(said.content.as_str()),
        _ => None,
    })
}

/// A planted fault: calls that were stopped are reported as never started.
fn misreport(ended: &mut Event) {
    if let Event::Ended { receipt: Some(receipt), .. } = ended {
        receipt.not_started.append(&mut receipt.stopped);
    }
}

/// The last event of a log, and the status that goes with it.
pub(super) fn ended(verdict: &Verdict, budget: &Budget) -> (RunStatus, Event) {
    let (status, error, receipt) = match verdict {
        Verdict::Ok => (RunStatus::Ok, None, None),
        Verdict::Error(fault) => (RunStatus::Error, Some(fault.clone()), None),
        Verdict::Cancelled(receipt) => (RunStatus::Cancelled, None, Some(receipt.clone())),
    };
    (status, Event::Ended { status, error, usage: budget.usage(), receipt })
}
