//! The inputs of a run: messages, outcomes, deadlines; and intents that a crash left behind.

use std::pin::pin;
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
use crate::engine::is_poison;
use crate::error::EngineError;
use crate::patience::patiently;
use crate::perform::{Signal, What, given_up};

/// How many signals are taken before messages and deadlines are looked at again.
const AT_ONCE: usize = 256;

impl Driver {
    /// The start of a run in this process: intents that a crash left, and messages posted meanwhile.
    pub(super) async fn begin(&mut self) -> Result<Going, EngineError> {
        self.row.attempts += self.shared.breakdowns(self.run());
        if is_poison(self.row.attempts, &self.shared.settings) {
            return self.poisoned().await;
        }
        if self.row.inbox > self.inbox_read {
            self.inbox_known = self.row.inbox;
            self.read_inbox().await?;
        }
        self.note_wanted(&self.flow.next());
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

    /// Decides about effects that had started and have no outcome: one that may run again and is still wanted is
    /// started again by the next plan, every other one gets an outcome now.
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

    /// Waits for the next input; none: the process shuts down and nothing is in flight.
    pub(super) async fn next_input(&mut self) -> Result<Option<Queued>, EngineError> {
        // The futures besides signals are made once, however many signals come.
        let (shared, wake) = (self.shared.clone(), self.wake.clone());
        let (mut woken, mut going_down) = (pin!(wake.notified()), pin!(shared.went_down()));
        let mut alarm = pin!(tokio::time::sleep_until(self.deadline()));
        loop {
            if self.is_lost {
                let (run, epoch) = (self.run(), self.row.epoch);
                return Err(StoreError::Fenced { run, epoch }.into());
            }
            if let Some(queued) = self.queue.pop_front() {
                return Ok(Some(queued));
            }
            if let Some(input) = self.late() {
                return Ok(Some(input));
            }
            // Looked at once: a stop that begins after this wakes it below.
            let is_leaving = shared.closing.is_cancelled();
            if is_leaving && (self.flying.is_empty() || shared.is_out_of_time()) {
                return Box::pin(self.last_outcome()).await;
            }
            let deadline = self.deadline();
            if deadline < alarm.deadline() || alarm.is_elapsed() {
                alarm.as_mut().reset(deadline); // a deadline that is too early only makes the loop check once more
            }
            tokio::select! {
                biased;
                signal = self.signals.recv() => {
                    let input = self.hear(signal).await?;
                    if input.is_some() {
                        return Ok(input);
                    }
                }
                () = woken.as_mut() => {
                    woken.set(wake.notified());
                    Box::pin(self.look_for_messages()).await?;
                }
                () = going_down.as_mut(), if !is_leaving => {}
                () = alarm.as_mut() => self.on_time().await?,
            }
        }
    }

    /// An outcome that is already there when the process shuts down is still committed.
    async fn last_outcome(&mut self) -> Result<Option<Queued>, EngineError> {
        while let Ok(signal) = self.signals.try_recv() {
            let heard = self.hear(Some(signal)).await?;
            // One that came while text was saved waits in the queue.
            let input = heard.or_else(|| self.queue.pop_front());
            if input.is_some() {
                return Ok(input);
            }
        }
        Ok(None)
    }

    /// Takes a signal and all others that are ready, up to the first outcome.
    async fn hear(&mut self, signal: Option<Signal>) -> Result<Option<Queued>, EngineError> {
        let input = signal.and_then(|signal| self.hear_all(signal, self.row.seq + 1));
        if input.is_none() && self.has_much_unsaved() {
            Box::pin(self.save_text()).await?;
        }
        Ok(input)
    }

    /// Takes signals like `hear`, and shows the text among them, whose first piece has this number: text comes in many
    /// small pieces, and those that are ready together are shown together.
    pub(super) fn hear_all(&mut self, signal: Signal, first: u64) -> Option<Queued> {
        let (mut next, mut left, mut input) = (Some(signal), AT_ONCE, None);
        while let Some(signal) = next {
            input = self.heard(signal);
            left -= 1;
            let goes_on = input.is_none() && left > 0 && !self.has_much_unsaved();
            next = if goes_on { self.signals.try_recv().ok() } else { None };
        }
        self.hub.show(first, &self.unsaved);
        input
    }

    /// Takes one signal of a task: an outcome is an input, a piece of text is yet to be shown and saved.
    fn heard(&mut self, signal: Signal) -> Option<Queued> {
        let Signal { n, attempt, what } = signal;
        let flight = self.flying.get_mut(&n)?;
        if flight.intent.attempt != attempt {
            return None; // late: it was given up already
        }
        let (text, reasoning) = match what {
            What::Done(result) => {
                return Some(Queued::Input(Input::Outcome { effect: n, result: *result }));
            }
            What::Lost => {
                self.is_lost = true;
                return None;
            }
            What::Piece { text, reasoning } => (text, reasoning),
        };
        let EffectKind::Model { message_id, .. } = &flight.intent.effect.kind else { return None };
        flight.intent.shown = true;
        self.unsaved_bytes += text.len();
        self.unsaved_since.get_or_insert_with(Instant::now);
        self.unsaved.push(Event::Delta { effect: n, message_id: message_id.clone(), text, reasoning });
        None
    }

    /// Whether the pieces that are not saved are long enough to be saved alone.
    pub(super) fn has_much_unsaved(&self) -> bool {
        self.unsaved_bytes >= self.shared.settings.flush_bytes
    }

    /// An input that is due by the clock: a wait that expired, a limit of time, a grace period that is over.
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

    /// The active time that is left; none while nothing is in progress.
    fn active_left(&self) -> Option<Duration> {
        let since = self.active_since?;
        let left = self.budget.active_left_ms(&self.definition.decision.limits);
        Some(Duration::from_millis(left).saturating_sub(since.elapsed()))
    }

    /// When the loop has to wake up even if nothing happens.
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
            Box::pin(self.save_text()).await?;
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

    /// Replaces the budget reserved for an effect by its actual usage.
    fn settle(&self, n: u32, result: &Outcome, budget: &mut Budget) {
        let flying = self.flying.get(&n).map(|flight| &*flight.intent);
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

    /// The reasoning of a model call that ended without any text is void: the next try reasons anew.
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
