//! The loop: one task a run.
//!
//! `next_input → apply → plan → commit → publish → perform`, until the run rests. One input is one
//! transition. Everything that the driver remembers can be read back from the last one, so a new run, a
//! resumed one and one that was taken over are driven by the same code.

mod commit;
mod first;
mod inputs;
mod last;

use std::collections::{BTreeMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use baton_core::budget::Budget;
use baton_core::effect::{Effect, EffectKind, Wait};
use baton_core::event::Event;
use baton_core::flow::{Flow, FlowRecord, Input, Next, Record, Setting};
use baton_core::id::RunId;
use baton_core::json::call_digest;
use baton_core::run::{ApprovalKind, Definition, RunStatus, Verdict};
use baton_core::thread::Tail;
use baton_core::time::Timestamp;
use baton_store::failpoint::point;
use baton_store::{Intent, RunRow};
use futures_util::FutureExt;
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::engine::Shared;
use crate::error::EngineError;
use crate::hub::Hub;
use crate::patience::patiently;
use crate::perform::{Hold, Performer, Signal};
use crate::plan::{Look, Plan};
use crate::spans::RunSpan;
use commit::Draft;

/// How the driving of a run ended in this process.
#[derive(Debug, Clone, PartialEq)]
pub enum Rested {
    /// It is over.
    Ended(RunStatus),
    /// It waits for users until a deadline.
    Suspended,
    /// This process released it; another one resumes it.
    Released,
    /// Another process took it.
    Lost,
    /// It could not be driven on; committed transitions are safe.
    Failed(EngineError),
}

/// An input that waits for its turn.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Queued {
    /// An outcome of the engine's own making.
    Input(Input),
    /// A message, with its number.
    Message(baton_store::Posted),
    /// A limit, and the effect that it stopped.
    Limit(baton_core::budget::Limit, Option<u32>),
}

/// An effect that is being performed.
pub(crate) struct Flight {
    pub(crate) intent: Box<Intent>,
    pub(crate) cancel: CancellationToken,
    pub(crate) task: AbortHandle,
    /// When it was cancelled, until when its outcome is awaited.
    pub(crate) until: Option<Instant>,
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.cancel.cancel();
        self.task.abort();
    }
}

/// The task of one run; see the module.
pub(crate) struct Driver {
    pub(crate) shared: Arc<Shared>,
    pub(crate) performer: Arc<Performer>,
    pub(crate) signals: mpsc::Receiver<Signal>,
    pub(crate) wake: Arc<Notify>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) definition: Arc<Definition>,
    pub(crate) flow: Flow,
    /// The flow's state as it was committed last.
    pub(crate) state: FlowRecord,
    /// The waits that are outstanding, and when they end.
    pub(crate) waits: Vec<(u32, Timestamp)>,
    pub(crate) row: RunRow,
    pub(crate) tail: Tail,
    pub(crate) budget: Budget,
    pub(crate) inbox_read: u32,
    /// How many messages are known to have been posted.
    pub(crate) inbox_known: u32,
    pub(crate) flying: BTreeMap<u32, Flight>,
    /// Intents that a crash interrupted, until they are started again or their outcome is recorded.
    pub(crate) again: Vec<Intent>,
    pub(crate) queue: VecDeque<Queued>,
    /// Pieces of text that were shown and not committed.
    pub(crate) unsaved: Vec<Event>,
    pub(crate) unsaved_bytes: usize,
    pub(crate) unsaved_since: Option<Instant>,
    /// The proof that the run was held at its last write.
    pub(crate) hold: Hold,
    /// Whether an effect was not begun because another process may own the run by now.
    pub(crate) is_lost: bool,
    /// Since when something is being done, to measure active time.
    pub(crate) active_since: Option<Instant>,
    /// The telemetry of the run.
    pub(crate) span: RunSpan,
}

/// Whether the loop goes on.
pub(crate) enum Going {
    On,
    Rest(Rested),
}

impl Driver {
    pub(crate) fn run(&self) -> RunId {
        self.row.id
    }

    pub(crate) fn setting(&self) -> Setting {
        let (run, path) = (self.run(), self.performer.path.clone());
        Setting { run, path, definition: self.definition.clone() }
    }

    /// Drives the run until it rests.
    pub(crate) async fn drive(mut self) -> Rested {
        self.span.begin(&self.performer.track, &self.row, &self.definition);
        let rested = AssertUnwindSafe(self.driven()).catch_unwind().await;
        // The message of a panic may hold any data, so it is not passed on.
        let rested = rested.unwrap_or_else(|_| {
            self.shared.broke_down(self.run());
            Err(EngineError::Invalid("what drives it broke down: this is a fault of Baton".to_owned()))
        });
        self.flying.clear();
        self.hub.close();
        let rested = rested.unwrap_or_else(|error| self.gave_up(error));
        if let Rested::Ended(_) = rested {
            self.performer.recent.leave(self.run(), &self.performer.kept);
            self.shared.mended(self.run());
        }
        self.span.rested(&rested);
        rested
    }

    async fn driven(&mut self) -> Result<Rested, EngineError> {
        // Rare work is boxed: the task of a run that waits for signals stays small.
        match Box::pin(self.begin()).await? {
            Going::On => self.go_on().await,
            Going::Rest(rested) => Ok(rested),
        }
    }

    async fn go_on(&mut self) -> Result<Rested, EngineError> {
        loop {
            let Some(queued) = self.next_input().await? else {
                return Box::pin(self.let_go()).await;
            };
            if let Going::Rest(rested) = Box::pin(self.step(Some(queued))).await? {
                return Ok(rested);
            }
        }
    }

    /// One transition: apply an input to the flow, plan the next effects, commit, then start them.
    pub(crate) async fn step(&mut self, queued: Option<Queued>) -> Result<Going, EngineError> {
        let mut record = Record::at(self.tail.clone(), self.row.head, baton_core::flow::Node::Start);
        let mut budget = self.budget.clone();
        let leaving = self.fold(queued.as_ref(), &mut record, &mut budget);
        let held = !self.queue.is_empty();
        let used = budget.clone();
        let (mut plan, over) = self.look(leaving, held, &mut budget);
        let state = self.flow.record();
        if let Some(fault) = self.broken(&record, &plan, &state) {
            tracing::error!(run = %self.run(), message = %fault.message, "a fault of Baton ends this run");
            // The usage so far is accounted for; effects that the plan reserved budget for never start.
            (record, budget) = (self.last_words(record.steps, &fault), used);
            plan = Plan::End(Verdict::Error(fault));
        }
        let draft = Draft { record, state, budget, queued: queued.as_ref(), leaving, held };
        match self.write(draft, &plan).await {
            Ok(()) => {}
            Err(EngineError::Store(baton_store::StoreError::Unread { inbox })) => {
                // Messages came first: they are applied first, then this input again.
                self.flow = Flow::restore(self.setting(), self.state.clone())?;
                self.queue.extend(queued);
                self.inbox_known = inbox;
                self.read_inbox().await?;
                return Ok(Going::On);
            }
            Err(error) => return Err(error),
        }
        if let Some(n) = leaving {
            self.flying.remove(&n);
            self.again.retain(|interrupted| interrupted.effect.n != n);
        }
        if let Some((limit, n)) = over {
            self.queue.push_front(Queued::Limit(limit, Some(n)));
        }
        self.after(plan)
    }

    /// Carries out a committed plan.
    fn after(&mut self, plan: Plan) -> Result<Going, EngineError> {
        match plan {
            Plan::End(_) => Ok(Going::Rest(Rested::Ended(self.row.status))),
            Plan::Suspend(_) => Ok(Going::Rest(Rested::Suspended)),
            Plan::Stuck => Ok(Going::Rest(Rested::Ended(RunStatus::Error))),
            Plan::Go(start) => {
                let next = self.flow.next();
                self.note_wanted(&next);
                self.start(start);
                self.sort_out();
                if pauses(&next) {
                    self.active_since.get_or_insert_with(Instant::now);
                } else if self.flying.is_empty() {
                    self.active_since = None;
                }
                Ok(Going::On)
            }
        }
    }

    fn look(
        &self,
        leaving: Option<u32>,
        held: bool,
        budget: &mut Budget,
    ) -> (Plan, Option<(baton_core::budget::Limit, u32)>) {
        let flying = self.flying.keys().copied().filter(|n| Some(*n) != leaving).collect();
        let again: Vec<Intent> =
            self.again.iter().filter(|intent| Some(intent.effect.n) != leaving).cloned().collect();
        let look = Look {
            next: self.flow.next(),
            flying: &flying,
            again: &again,
            limits: &self.definition.decision.limits,
            answer: &|kind| self.definition.answer_tokens(kind),
            // A process that shuts down starts nothing, but may end or suspend a run that is ready for it.
            at_once: if self.shared.closing.is_cancelled() {
                0
            } else {
                self.shared.settings.effects_at_once
            },
            hold: held,
        };
        look.decide(budget)
    }

    /// An approval that asks whether a call happened shows its exact arguments, which only the entry has.
    pub(super) async fn name_what_ran(&self, record: &mut Record) -> Result<(), EngineError> {
        for asked in record.asked.iter_mut().filter(|asked| asked.kind == ApprovalKind::Outcome) {
            let known = self.flying.values().map(|flight| &*flight.intent).chain(&self.again);
            let mut ran = known.filter_map(|intent| match &intent.effect.kind {
                EffectKind::Tool { call_id, entry, edited_by, .. } if *call_id == asked.call_id => {
                    Some((*entry, edited_by.clone()))
                }
                _ => None,
            });
            let Some((entry, edited_by)) = ran.next() else { continue };
            asked.args = self.performer.arguments(entry, edited_by.as_deref()).await?;
            asked.digest = call_digest(&asked.name, &asked.args);
            for event in &mut record.events {
                if let Event::ApprovalRequired { approval_id, args, digest, .. } = event
                    && *approval_id == asked.id
                {
                    (*args, *digest) = (asked.args.clone(), asked.digest.clone());
                }
            }
        }
        Ok(())
    }

    /// Starts effects whose intents are committed.
    pub(crate) fn start(&mut self, intents: Vec<Intent>) {
        for intent in intents {
            self.again.retain(|interrupted| interrupted.effect.n != intent.effect.n);
            if let EffectKind::Tool { edited_by: Some(_), .. } = &intent.effect.kind {
                point("approval.pre_execute");
            }
            tracing::debug!(run = %self.run(), effect = intent.effect.n, attempt = intent.attempt, "an effect starts");
            let cancel = CancellationToken::new();
            // Boxed: it is large, and a task is moved several times before it runs.
            let work = Box::pin(self.performer.clone().perform(intent.clone(), cancel.clone(), self.hold));
            let task = tokio::spawn(work).abort_handle();
            self.flying
                .insert(intent.effect.n, Flight { intent: Box::new(intent), cancel, task, until: None });
        }
        if self.active_since.is_none() && !self.flying.is_empty() {
            self.active_since = Some(Instant::now());
        }
    }

    /// Notes the outstanding waits, and cancels effects in flight that the flow no longer wants.
    pub(crate) fn note_wanted(&mut self, next: &Next) {
        let Next::Want(wanted) = next else { return };
        let wait = |effect: &Effect| match &effect.kind {
            EffectKind::Wait { deadline, .. } => Some((effect.n, *deadline)),
            EffectKind::Model { .. } | EffectKind::Tool { .. } => None,
        };
        self.waits = wanted.iter().filter_map(wait).collect();
        let until = Instant::now() + self.shared.settings.grace;
        for (n, flight) in &mut self.flying {
            if flight.until.is_none() && !wanted.iter().any(|effect| effect.n == *n) {
                point("cancel.pre_signal");
                flight.cancel.cancel();
                flight.until = Some(until);
            }
        }
    }

    fn gave_up(&self, error: EngineError) -> Rested {
        if let EngineError::Store(baton_store::StoreError::Fenced { epoch, .. }) = error {
            tracing::warn!(run = %self.run(), "somebody else drives this run now");
            if epoch == self.row.epoch {
                self.let_go_when_possible(); // not claimed since: it must not stay held without being driven
            }
            return Rested::Lost;
        }
        tracing::error!(run = %self.run(), %error, "the run cannot be driven on");
        self.let_go_when_possible();
        Rested::Failed(error)
    }

    /// A run that this process holds and does not drive is stuck: it is released as soon as the store answers, so that
    /// it can be claimed again, here or elsewhere.
    fn let_go_when_possible(&self) {
        let (shared, tenant) = (self.shared.clone(), self.performer.tenant.clone());
        let (run, epoch) = (self.run(), self.row.epoch);
        let letting_go = async move {
            while let Err(error) = shared.store.release(&tenant, run, epoch).await {
                if !error.is_transient() {
                    break;
                }
                tokio::time::sleep(shared.settings.adopt_every).await;
            }
        };
        // A process that shuts down keeps its lease for a while, so no other process can claim the run meanwhile.
        self.shared.before_leaving(letting_go);
    }

    /// Releases the run, because the process shuts down.
    async fn let_go(&mut self) -> Result<Rested, EngineError> {
        self.flying.clear();
        point("shutdown.pre_release");
        let (tenant, epoch) = (&self.performer.tenant, self.row.epoch);
        patiently!(self.shared, self.shared.store.release(tenant, self.run(), epoch))?;
        Ok(Rested::Released)
    }
}

/// Whether the run waits for a moment, which counts as active time like work does.
fn pauses(next: &Next) -> bool {
    let is_pause = |effect: &Effect| matches!(&effect.kind, EffectKind::Wait { what: Wait::Time, .. });
    matches!(next, Next::Want(wanted) if wanted.iter().any(is_pause))
}

/// The text of a piece.
fn text_of(event: &Event) -> &str {
    if let Event::Delta { text, .. } = event { text } else { "" }
}
