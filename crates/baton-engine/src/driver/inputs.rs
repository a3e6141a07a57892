//! What happens next: messages, outcomes, moments; and what a crash left behind.

use std::time::Duration;

use baton_core::budget::{Budget, Limit, Limits};
use baton_core::effect::{EffectKind, Outcome};
use baton_core::event::Event;
use baton_core::flow::{Input, Next, Record};
use baton_core::run::Message;
use baton_store::failpoint::point;
use baton_store::{Intent, StoreError};
use tokio::time::Instant;

use super::{Driver, Going, Queued};
use crate::bug::EngineBug;
use crate::error::EngineError;
use crate::patience::patiently;
use crate::perform::{Signal, What, given_up};

/// How many signals are taken before messages and moments are looked at again.
const AT_ONCE: usize = 256;

impl Driver {
    /// What a run begins with in this process: what a crash left, and what was posted meanwhile.
    pub(super) async fn begin(&mut self) -> Result<Going, EngineError> {
        if self.row.attempts >= self.shared.settings.most_attempts {
            return self.poisoned().await;
        }
        if self.row.inbox > self.inbox_read {
            self.inbox_known = self.row.inbox;
            self.read_inbox().await?;
        }
        self.note_wanted();
        if self.again.is_empty() {
            let late = self.late();
            self.queue.extend(late);
            if !self.flying.is_empty() || !self.queue.is_empty() {
                return Ok(Going::On); // it was just started, or there is something to go on with
            }
        }
        point("recover.mid");
        self.sort_out();
        self.step(None).await
    }

    /// Decides what becomes of effects that had started and have no outcome: what may run again and is
    /// still wanted is started again by the next plan, everything else has an outcome now.
    pub(super) fn sort_out(&mut self) {
        if self.again.is_empty() {
            return;
        }
        let wanted = match self.flow.next() {
            Next::Want(wanted) => wanted,
            Next::Finish(_) => Vec::new(),
        };
        for intent in &self.again {
            let n = intent.effect.n;
            let is_ended = |queued: &Queued| matches!(queued, Queued::Input(Input::Outcome { effect, .. }) if *effect == n);
            let is_wanted = wanted.iter().any(|effect| effect.n == n);
            let careless = self.shared.settings.has(EngineBug::RunUnsafeAgain);
            let repeatable = careless || intent.effect.kind.may_run_again();
            if (repeatable && is_wanted) || self.queue.iter().any(is_ended) {
                continue;
            }
            let result = given_up(&intent.effect.kind);
            self.queue.push_back(Queued::Input(Input::Outcome { effect: n, result }));
        }
    }

    /// The model calls that run again although some of their text was stored.
    pub(super) fn restarts(&self) -> Vec<Event> {
        let message = |intent: &Intent| match &intent.effect.kind {
            EffectKind::Model { message_id, .. } if intent.shown => Some(message_id.clone()),
            _ => None,
        };
        self.again.iter().filter_map(message).map(|message_id| Event::Restarted { message_id }).collect()
    }

    /// Waits for the next input; none: the process goes down and nothing is in flight.
    pub(super) async fn next_input(&mut self) -> Result<Option<Queued>, EngineError> {
        loop {
            if let Some(queued) = self.queue.pop_front() {
                return Ok(Some(queued));
            }
            if let Some(input) = self.late() {
                return Ok(Some(input));
            }
            if self.shared.closing.is_cancelled() && (self.flying.is_empty() || self.shared.is_out_of_time())
            {
                return self.last_outcome().await;
            }
            let deadline = self.deadline();
            let shared = self.shared.clone();
            tokio::select! {
                biased;
                signal = self.signals.recv() => {
                    // Take what else is there before looking up again: text comes in many small pieces.
                    let (mut next, mut left) = (signal, AT_ONCE);
                    while let Some(signal) = next {
                        if let Some(input) = self.heard(signal).await? {
                            return Ok(Some(input));
                        }
                        left -= 1;
                        next = if left > 0 { self.signals.try_recv().ok() } else { None };
                    }
                }
                () = self.wake.notified() => self.look_for_messages().await?,
                () = shared.went_down(), if !shared.closing.is_cancelled() => {}
                () = tokio::time::sleep_until(deadline) => self.on_time().await?,
            }
        }
    }

    /// An outcome that is already there when the process goes down: it is too good to be lost.
    async fn last_outcome(&mut self) -> Result<Option<Queued>, EngineError> {
        while let Ok(signal) = self.signals.try_recv() {
            if let Some(input) = self.heard(signal).await? {
                return Ok(Some(input));
            }
        }
        Ok(None)
    }

    /// Takes a signal of a task: pieces of text are shown at once, an outcome is an input.
    async fn heard(&mut self, signal: Signal) -> Result<Option<Queued>, EngineError> {
        let Signal { n, attempt, what } = signal;
        if self.flying.get(&n).is_none_or(|flight| flight.intent.attempt != attempt) {
            return Ok(None); // late: it was given up already
        }
        match what {
            What::Done(result) => Ok(Some(Queued::Input(Input::Outcome { effect: n, result }))),
            What::Piece { text, reasoning } => {
                self.show(n, text, reasoning);
                if self.unsaved_bytes >= self.shared.settings.flush_bytes {
                    self.save_text().await?;
                }
                Ok(None)
            }
        }
    }

    fn show(&mut self, n: u32, text: String, reasoning: bool) {
        let Some(flight) = self.flying.get_mut(&n) else { return };
        let EffectKind::Model { message_id, .. } = &flight.intent.effect.kind else { return };
        flight.intent.shown = true;
        let event = Event::Delta { effect: n, message_id: message_id.clone(), text, reasoning };
        if let Event::Delta { text, .. } = &event {
            self.unsaved_bytes += text.len();
        }
        self.unsaved_since.get_or_insert_with(Instant::now);
        self.unsaved.push(event.clone());
        self.hub.show(self.row.seq + self.unsaved.len() as u64, event);
    }

    /// An input that is due by the clock: a wait that expired, a limit of time, a grace that is over.
    fn late(&mut self) -> Option<Queued> {
        let now = Instant::now();
        let over = |flight: &super::Flight| flight.until.is_some_and(|until| until <= now);
        if let Some((n, flight)) = self.flying.iter().find(|(_, flight)| over(flight)) {
            flight.task.abort();
            let result = given_up(&flight.intent.effect.kind);
            return Some(Queued::Input(Input::Outcome { effect: *n, result }));
        }
        if self.active_left() == Some(Duration::ZERO) && self.flying.values().all(|f| f.until.is_none()) {
            return Some(Queued::Limit(Limit::ActiveTime, None));
        }
        if self.waits.is_empty() {
            return None;
        }
        let clock = self.shared.clock.now();
        let (effect, _) = *self.waits.iter().find(|(_, deadline)| *deadline <= clock)?;
        Some(Queued::Input(Input::Outcome { effect, result: Outcome::Expired }))
    }

    /// What is left of the active time; none while nothing is done.
    fn active_left(&self) -> Option<Duration> {
        let since = self.active_since?;
        let left = self.budget.active_left_ms(&self.definition.decision.limits);
        Some(Duration::from_millis(left).saturating_sub(since.elapsed()))
    }

    /// When the loop has to look up even if nothing happens.
    fn deadline(&self) -> Instant {
        let now = Instant::now();
        let mut deadline = self.shared.goes_down_at().unwrap_or(now + Duration::from_secs(3600));
        let flush = self.unsaved_since.map(|since| since + self.flush_after());
        let limit = self.active_left().map(|left| now + left);
        let graces = self.flying.values().filter_map(|flight| flight.until);
        for moment in flush.into_iter().chain(limit).chain(graces) {
            deadline = deadline.min(moment);
        }
        if let Some((_, at)) = self.waits.iter().min_by_key(|(_, at)| *at) {
            deadline = deadline.min(now + Duration::from_millis(at.ms_since(self.shared.clock.now())));
        }
        deadline
    }

    fn flush_after(&self) -> Duration {
        if self.row.watched_until.is_some_and(|until| until > self.shared.clock.now()) {
            self.shared.settings.flush_watched
        } else {
            self.shared.settings.flush_after
        }
    }

    async fn on_time(&mut self) -> Result<(), EngineError> {
        if self.unsaved_since.is_some_and(|since| since.elapsed() >= self.flush_after()) {
            self.save_text().await?;
        }
        Ok(())
    }

    async fn look_for_messages(&mut self) -> Result<(), EngineError> {
        if self.shared.seems_lost(self.run()) {
            let (tenant, run) = (&self.performer.tenant, self.run());
            let epoch = patiently!(self.shared, self.shared.store.run(tenant, run))?.epoch;
            if epoch != self.row.epoch {
                return Err(StoreError::Fenced { run, epoch }.into());
            }
        }
        let pulse = self.shared.pulse(self.run());
        if let Some(pulse) = pulse {
            self.row.watched_until = pulse.watched_until;
            self.inbox_known = self.inbox_known.max(pulse.inbox);
        }
        if self.inbox_known > self.inbox_read {
            self.read_inbox().await?;
        }
        Ok(())
    }

    /// Puts unread messages before everything else that waits.
    pub(super) async fn read_inbox(&mut self) -> Result<(), EngineError> {
        let queued = self.queue.iter().filter_map(|queued| match queued {
            Queued::Message(posted) => Some(posted.n),
            _ => None,
        });
        let after = queued.max().unwrap_or(self.inbox_read);
        let (tenant, run) = (self.performer.tenant.clone(), self.run());
        let store = self.shared.store.clone();
        let posted = patiently!(self.shared, store.inbox(&tenant, run, after))?;
        let at = self.queue.iter().take_while(|queued| matches!(queued, Queued::Message(_))).count();
        for (offset, posted) in posted.into_iter().enumerate() {
            self.inbox_known = self.inbox_known.max(posted.n);
            self.queue.insert(at + offset, Queued::Message(posted));
        }
        Ok(())
    }

    /// Applies an input to the flow; answers the effect that it ends, if it ends one.
    pub(super) fn fold(
        &mut self,
        queued: Option<&Queued>,
        record: &mut Record,
        budget: &mut Budget,
    ) -> Option<u32> {
        let at = self.shared.clock.now();
        let in_flight: Vec<u32> =
            self.flying.keys().copied().chain(self.again.iter().map(|i| i.effect.n)).collect();
        let input = match queued? {
            Queued::Input(input) => input.clone(),
            Queued::Message(posted) => match &posted.message {
                Message::Cancel => Input::Cancel { in_flight },
                other => Input::Message(other.clone()),
            },
            Queued::Limit(limit, effect) => Input::Limit { limit: *limit, effect: *effect, in_flight },
        };
        let mut leaving = None;
        if let Input::Outcome { effect, result } = &input {
            self.settle(*effect, result, budget);
            record.events.extend(self.void(*effect, result));
            leaving = Some(*effect);
        }
        self.flow.apply(input, at, record);
        leaving
    }

    /// Replaces what was set aside for an effect by what it used.
    fn settle(&self, n: u32, result: &Outcome, budget: &mut Budget) {
        let flying = self.flying.get(&n).map(|flight| &flight.intent);
        let intent = flying.or_else(|| self.again.iter().find(|interrupted| interrupted.effect.n == n));
        let kind = intent.map(|intent| &intent.effect.kind);
        let is_model = matches!(kind, Some(EffectKind::Model { .. }));
        let answer_tokens = kind.map_or(0, |kind| self.definition.answer_tokens(kind));
        let limits = &Limits { answer_tokens, ..self.definition.decision.limits.clone() };
        match result {
            Outcome::Reply(reply) => budget.settle_model(limits, Some(&reply.usage)),
            Outcome::ModelFailed { fault, .. } if fault.unsent => budget.unreserve_model(limits),
            Outcome::ModelFailed { used, .. } => budget.settle_model(limits, used.as_ref()),
            Outcome::Stopped { used, .. } if is_model => budget.settle_model(limits, used.as_ref()),
            Outcome::TooLong { .. } => budget.unreserve_model(limits),
            _ => {}
        }
    }

    /// What a model thought aloud before it ended without a word is void: another try thinks anew.
    fn void(&self, n: u32, result: &Outcome) -> Option<Event> {
        let intent = &self.flying.get(&n)?.intent;
        let EffectKind::Model { message_id, tools, .. } = &intent.effect.kind else { return None };
        let wordless = match result {
            Outcome::ModelFailed { shown, .. } => shown.trim().is_empty(),
            Outcome::Reply(reply) => reply.text.trim().is_empty() && (reply.calls.is_empty() || !tools),
            _ => false,
        };
        match message_id {
            message_id if intent.shown && wordless => {
                Some(Event::Restarted { message_id: message_id.clone() })
            }
            _ => None,
        }
    }
}
