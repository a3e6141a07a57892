//! The circuit breaker: the mark "temporarily degraded", shared by all calls of one endpoint or model.
//!
//! Closed, it admits every call and remembers the outcomes of the last [`WINDOW`]. It opens when
//! there were [`MIN_FAILURES`] failures and no success, when there were [`MIN_MIXED_FAILURES`] and they are half
//! of all (an endpoint that fails now and then is better than none), and at once on a timeout, which costs too
//! much to be repeated. Open, it refuses for [`PAUSE`], so that a run goes on to the next model without
//! waiting; after that it admits one probe at a time, and a probe that gets an answer closes it.
//!
//! A caller without another model (`last_resort`) is better off trying than being refused. Connections and
//! servers that fail do so fast: such a caller is admitted as if the breaker were closed, and the flow's
//! retries go on. Where a timeout opened it, each try costs its whole time, so even then such callers are
//! admitted one at a time, as a probe. Any answer closes it.
//!
//! It only decides: moments are passed in, and the caller says which outcome is a failure.
//! A call that is dropped without an outcome, because it was cancelled, counts as neither.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use baton_core::fault::{Code, Fault};

/// How long the outcome of a call counts.
pub(crate) const WINDOW: Duration = Duration::from_secs(30);

/// How long an open breaker refuses every call.
pub(crate) const PAUSE: Duration = Duration::from_secs(30);

/// The fewest failures that open it where there was no success.
pub(crate) const MIN_FAILURES: usize = 5;

/// The fewest failures that open it where there were successes.
pub(crate) const MIN_MIXED_FAILURES: usize = 20;

/// The most outcomes that are remembered; busier endpoints are judged by their latest ones.
const MAX_REMEMBERED: usize = 1000;

/// A circuit breaker. Clones share its state.
#[derive(Debug, Clone)]
pub(crate) struct Breaker {
    /// The endpoint or model, for messages.
    name: Arc<str>,
    state: Arc<Mutex<BreakerState>>,
}

#[derive(Debug, Default)]
struct BreakerState {
    /// The end of each call, and whether it failed; oldest first.
    calls: VecDeque<(Instant, bool)>,
    open: Option<OpenState>,
    /// Whether a probe is under way.
    probing: bool,
}

/// The reason and the end of an open breaker's refusal.
#[derive(Debug, Clone, Copy)]
struct OpenState {
    until: Instant,
    /// The code of the last failure.
    code: Code,
    failures: usize,
}

impl Breaker {
    /// A closed breaker for an endpoint or model with this name.
    pub(crate) fn new(name: &str) -> Self {
        Breaker { name: name.into(), state: Arc::default() }
    }

    /// Asks for the permit of one call; `last_resort`: the caller has no other model.
    pub(crate) fn admit(&self, now: Instant, last_resort: bool) -> Result<BreakerPermit, Fault> {
        let mut state = self.lock();
        let permit = |kind| Ok(BreakerPermit { breaker: self.clone(), kind, begun: false });
        let Some(open) = state.open else { return permit(PermitKind::Closed) };
        if last_resort && open.code != Code::LlmTimeout {
            return permit(PermitKind::LastResort);
        }
        let left = if last_resort { Duration::ZERO } else { open.until.saturating_duration_since(now) };
        if state.probing || !left.is_zero() {
            return Err(self.refusal(open, left));
        }
        state.probing = true;
        permit(PermitKind::Probe)
    }

    /// The fault of a refused call; `left`: the time until the first probe, zero while one is under way.
    fn refusal(&self, open: OpenState, left: Duration) -> Fault {
        let left = left.as_millis().div_ceil(1000);
        let failures =
            if open.failures == 1 { "1 failure".to_owned() } else { format!("{} failures", open.failures) };
        let words = match left {
            0 => format!(
                "{} is marked as degraded after {failures}, and is being tried by another call",
                self.name
            ),
            1 => format!("{} is marked as degraded for 1 more second after {failures}", self.name),
            left => format!("{} is marked as degraded for {left} more seconds after {failures}", self.name),
        };
        Fault::new(open.code, words).unsent()
    }

    fn lock(&self) -> MutexGuard<'_, BreakerState> {
        // No code panics half-way through a change, so a poisoned state is still consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The permit of one call. It ends with an outcome, or is dropped without one.
#[derive(Debug)]
#[must_use]
pub(crate) struct BreakerPermit {
    breaker: Breaker,
    kind: PermitKind,
    /// Whether the answer has begun.
    begun: bool,
}

/// The reason why a call was admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PermitKind {
    /// The breaker was closed.
    Closed,
    /// The breaker was open, and this call tests the endpoint.
    Probe,
    /// The breaker was open, and the caller has no other model.
    LastResort,
}

impl BreakerPermit {
    /// The answer has begun, which closes an open breaker, however long the answer takes. The call counts as a
    /// success from now on: answers take time and failures do not, so in a burst of calls the failures would
    /// all come first.
    pub(crate) fn answer_began(&mut self, now: Instant) {
        let mut state = self.breaker.lock();
        match std::mem::replace(&mut self.kind, PermitKind::Closed) {
            PermitKind::Closed => {}
            PermitKind::Probe => *state = BreakerState::default(),
            // Another call may be the probe, and stays it.
            PermitKind::LastResort => {
                *state = BreakerState { probing: state.probing, ..BreakerState::default() }
            }
        }
        if !std::mem::replace(&mut self.begun, true) {
            state.remember(now, false);
        }
    }

    /// The call succeeded.
    pub(crate) fn succeeded(mut self, now: Instant) {
        self.answer_began(now);
    }

    /// The call failed with this code.
    pub(crate) fn failed(mut self, now: Instant, code: Code) {
        let probe = std::mem::replace(&mut self.kind, PermitKind::Closed) == PermitKind::Probe;
        let mut state = self.breaker.lock();
        if probe {
            state.probing = false;
        }
        let before = state.open.map(|open| open.failures);
        match (before, probe) {
            (Some(before), true) => {
                state.open = Some(OpenState { until: now + PAUSE, code, failures: before + 1 })
            }
            // The call began before the breaker opened, or as a last resort, and adds no information.
            (Some(_), false) => {}
            (None, _) => {
                state.remember(now, true);
                let failures = state.calls.iter().filter(|(_, failed)| *failed).count();
                let enough = match state.calls.len() - failures {
                    0 => failures >= MIN_FAILURES,
                    well => failures >= MIN_MIXED_FAILURES && failures >= well,
                };
                if code == Code::LlmTimeout || enough {
                    state.open = Some(OpenState { until: now + PAUSE, code, failures });
                }
            }
        }
    }
}

impl Drop for BreakerPermit {
    fn drop(&mut self) {
        if self.kind == PermitKind::Probe {
            self.breaker.lock().probing = false;
        }
    }
}

impl BreakerState {
    fn remember(&mut self, now: Instant, failed: bool) {
        self.calls.push_back((now, failed));
        while let Some((then, _)) = self.calls.front()
            && (self.calls.len() > MAX_REMEMBERED || now.saturating_duration_since(*then) > WINDOW)
        {
            self.calls.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
