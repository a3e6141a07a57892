//! The activity of a connection: when it has to be closed because nothing arrives, or nothing is read.
//!
//! On a connection with one request at a time, the socket notices a reader that takes nothing. Where many requests
//! share one (HTTP/2), each answer has a window of its own, and the socket stays writable: there the time is noted when
//! an answer has data to give, or gave it, and was not polled for more.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::Version;
use http_body::{Frame, SizeHint};
use tokio::time::Instant;

use crate::serve::limits::ServeLimits;

/// The divisor of a connection's limits while others wait for a place: it has to make progress that much sooner.
const PRESSURE: u32 = 10;

/// The value of a connection to its peer, when others find no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// It is kept for another request, since then.
    Idle(Instant),
    /// A request does not arrive, or an answer is not taken, for a tenth of the time after which it would be closed anyway.
    Stuck,
    /// Its first request, or its next one, is arriving.
    Arriving,
    /// Something is being answered and taken.
    Busy,
}

/// See the module. Shared by the socket, the requests and the answers of one connection.
#[derive(Debug, Clone)]
pub(super) struct Activity(Arc<Mutex<ActivityState>>);

#[derive(Debug)]
struct ActivityState {
    /// Requests that are not answered to the last byte yet.
    busy: usize,
    /// When it was accepted, or its last answer ended.
    since: Instant,
    /// Whether a request has arrived.
    served: bool,
    /// Since when a request has been arriving.
    arriving: Option<Instant>,
    /// Whether many requests share the connection (HTTP/2), as the parser reports with each request: then bytes need
    /// not be those of a request.
    is_shared: bool,
    /// Since when the socket takes none of the bytes that are to be written.
    blocked: Option<Instant>,
    /// The number of the latest request, and so of all requests.
    latest: u64,
    /// On a shared connection, the answers that are not polled for more, and since when.
    untaken: BTreeMap<u64, Instant>,
}

impl ActivityState {
    fn new(now: Instant) -> ActivityState {
        ActivityState {
            busy: 0,
            since: now,
            served: false,
            arriving: None,
            is_shared: false,
            blocked: None,
            latest: 0,
            untaken: BTreeMap::new(),
        }
    }

    fn begins(&mut self, version: Version) -> u64 {
        self.is_shared = version == Version::HTTP_2;
        self.busy += 1;
        self.served = true;
        self.arriving = None;
        self.latest += 1;
        self.latest
    }

    fn ends(&mut self, request: u64, now: Instant) {
        self.busy = self.busy.saturating_sub(1);
        self.since = now;
        self.untaken.remove(&request);
    }

    /// Notes that an answer has data to give.
    fn gives(&mut self, request: u64, now: Instant) {
        if self.is_shared {
            self.untaken.insert(request, now);
        }
    }

    /// Notes that an answer is polled for more.
    fn asked(&mut self, request: u64) {
        if self.is_shared {
            self.untaken.remove(&request);
        }
    }

    /// Notes that bytes arrived.
    fn heard(&mut self, now: Instant) {
        if self.busy == 0 && !self.is_shared && self.arriving.is_none() {
            // The time before the first byte counts: silence is no way to gain time.
            self.arriving = Some(if self.served { now } else { self.since });
        }
    }

    fn standing(&self, now: Instant, limits: &ServeLimits) -> ConnectionState {
        let is_due = |since: Instant, most: Duration| now >= since + most / PRESSURE;
        if self.busy > 0 {
            // It is stuck only if all of its answers are: other streams may well be read.
            let latest = self.untaken.values().max().filter(|_| self.untaken.len() == self.busy);
            let stuck = self.blocked.into_iter().chain(latest.copied()).min();
            let is_stuck = stuck.is_some_and(|since| is_due(since, limits.stall));
            return if is_stuck { ConnectionState::Stuck } else { ConnectionState::Busy };
        }
        if self.served && self.arriving.is_none() {
            return ConnectionState::Idle(self.since);
        }
        let since = self.arriving.unwrap_or(self.since);
        if is_due(since, limits.header_deadline) { ConnectionState::Stuck } else { ConnectionState::Arriving }
    }

    fn deadline(&self, limits: &ServeLimits) -> Option<Instant> {
        if self.busy > 0 {
            return self.untaken.values().min().map(|since| *since + limits.stall);
        }
        let (since, most) = match (self.arriving, self.served) {
            (Some(since), _) => (since, limits.header_deadline),
            (None, true) => (self.since, limits.idle),
            (None, false) => (self.since, limits.header_deadline),
        };
        Some(since + most)
    }
}

impl Activity {
    /// A connection that was just accepted.
    pub(super) fn new() -> Activity {
        Activity(Arc::new(Mutex::new(ActivityState::new(Instant::now()))))
    }

    /// A request of this version has arrived; it is being answered until the value is dropped.
    pub(super) fn begins(&self, version: Version) -> BusyGuard {
        let request = self.state().begins(version);
        BusyGuard { activity: self.clone(), request }
    }

    /// When the connection is to be closed, unless something happens; never while a request is being answered and its
    /// answer is read.
    pub(super) fn deadline(&self, limits: &ServeLimits) -> Option<Instant> {
        self.state().deadline(limits)
    }

    /// The value of the connection to its peer now.
    pub(super) fn standing(&self, now: Instant, limits: &ServeLimits) -> ConnectionState {
        self.state().standing(now, limits)
    }

    /// Since when no request is being answered; none while one is.
    pub(super) fn idle_since(&self) -> Option<Instant> {
        let state = self.state();
        (state.busy == 0).then_some(state.since)
    }

    /// Notes that bytes arrived on the socket.
    pub(super) fn heard(&self) {
        self.state().heard(Instant::now());
    }

    /// Notes whether the socket takes none of the bytes that are to be written.
    pub(super) fn blocks(&self, is_blocked: bool) {
        let mut state = self.state();
        state.blocked = is_blocked.then(|| state.blocked.unwrap_or_else(Instant::now));
    }

    fn state(&self) -> MutexGuard<'_, ActivityState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct BusyGuard {
    activity: Activity,
    request: u64,
}

impl BusyGuard {
    fn gives(&self) {
        self.activity.state().gives(self.request, Instant::now());
    }

    fn asked(&self) {
        self.activity.state().asked(self.request);
    }
}

impl Drop for BusyGuard {
    fn drop(&mut self) {
        self.activity.state().ends(self.request, Instant::now());
    }
}

/// An answer that keeps its connection busy to its last byte.
pub(super) struct TrackedBody {
    body: Body,
    /// None after the last byte.
    busy: Option<BusyGuard>,
}

impl TrackedBody {
    /// An answer to a request. Until it is polled for its first byte it counts as one that is not read.
    pub(super) fn new(body: Body, busy: BusyGuard) -> TrackedBody {
        busy.gives();
        TrackedBody { body, busy: Some(busy) }
    }
}

impl http_body::Body for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(busy) = &self.busy {
            busy.asked();
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        match (&frame, &self.busy) {
            (Some(Ok(_)), Some(busy)) => busy.gives(),
            _ => self.busy = None,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_as_long_as_what_it_does_may_take() {
        let (limits, began) = (ServeLimits::default(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut state = ActivityState::new(began);
        let told =
            |state: &ActivityState| state.deadline(&limits).map(|at| at.duration_since(began).as_secs());
        assert_eq!(told(&state), Some(10), "nothing was said yet");
        state.heard(at(4));
        assert_eq!(told(&state), Some(10), "a first byte gains no time");
        let (first, second) = (state.begins(Version::HTTP_11), state.begins(Version::HTTP_11));
        state.gives(first, at(4));
        assert_eq!(told(&state), None, "it is being answered, and the socket sees to the rest");
        state.ends(first, at(5));
        assert_eq!(told(&state), None);
        state.ends(second, at(10));
        assert_eq!(told(&state), Some(85), "it is kept for another request");
        state.heard(at(30));
        state.heard(at(39));
        assert_eq!(told(&state), Some(40), "which has begun to arrive");
    }

    #[test]
    fn on_a_shared_connection_bytes_are_no_request() {
        let (limits, began) = (ServeLimits::default(), Instant::now());
        let mut state = ActivityState::new(began);
        state.heard(began);
        assert_eq!(state.deadline(&limits), Some(began + limits.header_deadline));
        let request = state.begins(Version::HTTP_2);
        state.ends(request, began);
        state.heard(began);
        assert_eq!(state.deadline(&limits), Some(began + limits.idle));
    }

    #[test]
    fn on_a_shared_connection_each_answer_has_to_be_taken() {
        let (limits, began) = (ServeLimits::default(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut state = ActivityState::new(began);
        let told =
            |state: &ActivityState| state.deadline(&limits).map(|at| at.duration_since(began).as_secs());
        state.heard(began);
        let (first, second) = (state.begins(Version::HTTP_2), state.begins(Version::HTTP_2));
        assert_eq!(told(&state), None, "there is nothing to take yet");
        state.gives(first, at(1));
        state.gives(second, at(5));
        assert_eq!(told(&state), Some(31), "nobody asked for a first byte");
        state.asked(first);
        assert_eq!(told(&state), Some(35));
        state.gives(first, at(7));
        state.ends(second, at(8));
        assert_eq!(told(&state), Some(37), "the other was taken to its end");
        state.asked(first);
        assert_eq!(told(&state), None, "its reader waits for more");
        state.ends(first, at(9));
        assert_eq!(told(&state), Some(84));
    }

    #[test]
    fn a_connection_that_begins_in_two_writes_is_shared_as_soon_as_its_first_request_is_read() {
        let (limits, began) = (ServeLimits::default(), Instant::now());
        let mut state = ActivityState::new(began);
        // `P`, and then the rest of HTTP/2's beginning.
        state.heard(began);
        state.heard(began);
        let request = state.begins(Version::HTTP_2);
        state.gives(request, began);
        assert_eq!(state.deadline(&limits), Some(began + limits.stall));
    }

    #[test]
    fn a_connection_is_worth_what_its_peer_would_lose() {
        let (limits, began) = (ServeLimits::default(), Instant::now());
        let at = |ms| began + Duration::from_millis(ms);
        let mut state = ActivityState::new(began);
        let standing = |state: &ActivityState, ms| state.standing(at(ms), &limits);
        assert_eq!(
            [999, 1000].map(|ms| standing(&state, ms)),
            [ConnectionState::Arriving, ConnectionState::Stuck]
        );
        let (first, second) = (state.begins(Version::HTTP_2), state.begins(Version::HTTP_2));
        assert_eq!(standing(&state, 60_000), ConnectionState::Busy, "there is nothing to take yet");
        state.gives(first, at(0));
        assert_eq!(standing(&state, 60_000), ConnectionState::Busy, "the other may well be read");
        state.gives(second, at(500));
        assert_eq!(
            [3499, 3500].map(|ms| standing(&state, ms)),
            [ConnectionState::Busy, ConnectionState::Stuck]
        );
        state.ends(first, at(600));
        state.ends(second, at(700));
        assert_eq!(standing(&state, 700), ConnectionState::Idle(at(700)));
        let mut state = ActivityState::new(began);
        let request = state.begins(Version::HTTP_11);
        state.blocked = Some(at(0));
        assert_eq!(
            [2999, 3000].map(|ms| standing(&state, ms)),
            [ConnectionState::Busy, ConnectionState::Stuck]
        );
        state.blocked = None;
        state.ends(request, at(5000));
        state.heard(at(6000));
        assert_eq!(
            [6999, 7000].map(|ms| standing(&state, ms)),
            [ConnectionState::Arriving, ConnectionState::Stuck]
        );
    }
}
