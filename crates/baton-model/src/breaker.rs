//! The circuit breaker: the mark "temporarily degraded", shared by all calls of one endpoint or model.
//!
//! Closed, it lets everyone through and remembers how the calls of the last [`WINDOW`] went. It opens when
//! there were [`MIN_FAILURES`] failures and nothing else, when there were [`MIN_MIXED_FAILURES`] and they are half of all (an
//! endpoint that fails now and then is better than none), and at once on a timeout, which costs too much to
//! be repeated. Open, it refuses for [`PAUSE`], so that a run goes on to the next model without
//! waiting; after that it lets one probe at a time through, and a probe that is answered closes it.
//!
//! Who has nobody else to ask is better off trying than being refused. Where connections or servers fail,
//! they fail fast: everybody who says so is let through as if it were closed, and whatever the flow does
//! about a failure goes on. Where a timeout opened it, each try costs its whole time, so even then one at a
//! time is let through, as a probe. Whoever is answered closes it.
//!
//! It decides and nothing else: moments are passed in, and what counts as a failure is for the caller to
//! say. A call that is dropped without a verdict, because it was cancelled, counts as neither.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use baton_core::fault::{Code, Fault};

/// How long a call is remembered.
pub(crate) const WINDOW: Duration = Duration::from_secs(30);

/// How long nobody is let through.
pub(crate) const PAUSE: Duration = Duration::from_secs(30);

/// The fewest failures that open it where nothing went well.
pub(crate) const MIN_FAILURES: usize = 5;

/// The fewest failures that open it where something did.
pub(crate) const MIN_MIXED_FAILURES: usize = 20;

/// The most calls that are remembered; busier endpoints are judged by their latest ones.
const MAX_REMEMBERED: usize = 1000;

/// A breaker. Clones are the same breaker.
#[derive(Debug, Clone)]
pub(crate) struct Breaker {
    /// What it stands for, as people know it.
    name: Arc<str>,
    state: Arc<Mutex<BreakerState>>,
}

#[derive(Debug, Default)]
struct BreakerState {
    /// When each call ended, and whether it failed; oldest first.
    calls: VecDeque<(Instant, bool)>,
    open: Option<OpenState>,
    /// Whether a probe is on its way.
    probing: bool,
}

/// Why it is open.
#[derive(Debug, Clone, Copy)]
struct OpenState {
    until: Instant,
    /// The code of the last failure.
    code: Code,
    failures: usize,
}

impl Breaker {
    /// A closed one, for something with this name.
    pub(crate) fn new(name: &str) -> Self {
        Breaker { name: name.into(), state: Arc::default() }
    }

    /// Asks to make a call. Who has nobody else to ask says so with `last_resort`.
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

    /// No; `left`: how long whoever asked has to wait, if that is what is missing.
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
        // Nothing in here panics half-way, so a poisoned state is still a good one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The permission to make one call. It ends with a verdict, or by being dropped, which is none.
#[derive(Debug)]
#[must_use]
pub(crate) struct BreakerPermit {
    breaker: Breaker,
    kind: PermitKind,
    /// Whether an answer has begun.
    begun: bool,
}

/// Why a call was let through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PermitKind {
    /// The breaker was closed.
    Closed,
    /// It was open, and this is the one call that tries whether it still has to be.
    Probe,
    /// It was open, and whoever asked has nobody else.
    LastResort,
}

impl BreakerPermit {
    /// An answer has begun. That is all there is to find out while it is open: the breaker closes, however long the
    /// answer takes, and the call goes on as any other. It counts as a call that goes well: an answer takes
    /// its time and a failure does not, so in a rush of calls the failures would all come first.
    pub(crate) fn answer_began(&mut self, now: Instant) {
        let mut state = self.breaker.lock();
        match std::mem::replace(&mut self.kind, PermitKind::Closed) {
            PermitKind::Closed => {}
            PermitKind::Probe => *state = BreakerState::default(),
            // Another call may be the probe, and goes on being it.
            PermitKind::LastResort => {
                *state = BreakerState { probing: state.probing, ..BreakerState::default() }
            }
        }
        if !std::mem::replace(&mut self.begun, true) {
            state.remember(now, false);
        }
    }

    /// The call went well.
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
            // It began before the breaker opened, or in spite of that, and says nothing new.
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
