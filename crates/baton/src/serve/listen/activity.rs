//! What a connection is doing: when it has to be closed because nothing comes, or nothing is taken.
//!
//! On a connection with one request at a time a reader who takes nothing is felt by the socket. Where many requests share
//! one (HTTP/2), each answer has a window of its own, and the socket stays writable: there it is noted when an answer has
//! something to give, or gave it, and was not asked for more.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use http_body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use crate::serve::limits::Limits;

/// See the module. Shared by the socket, the requests and the answers of one connection.
#[derive(Debug, Clone)]
pub(super) struct Activity(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// Requests that are not answered to the last byte yet.
    busy: usize,
    /// Since when it is as it is.
    since: Instant,
    /// Whether a request has arrived.
    served: bool,
    /// Since when a request has been arriving.
    arriving: Option<Instant>,
    /// Whether many requests share the connection: then bytes need not be those of a request.
    is_shared: bool,
    /// How many requests there were: the number of the latest.
    latest: u64,
    /// On a shared connection, the answers that nobody asks for more, and since when.
    untaken: BTreeMap<u64, Instant>,
}

impl State {
    fn new(now: Instant) -> State {
        State {
            busy: 0,
            since: now,
            served: false,
            arriving: None,
            is_shared: false,
            latest: 0,
            untaken: BTreeMap::new(),
        }
    }

    fn begins(&mut self) -> u64 {
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

    /// An answer has something to give.
    fn gives(&mut self, request: u64, now: Instant) {
        if self.is_shared {
            self.untaken.insert(request, now);
        }
    }

    /// An answer is asked for more.
    fn asked(&mut self, request: u64) {
        if self.is_shared {
            self.untaken.remove(&request);
        }
    }

    fn heard(&mut self, bytes: &[u8], now: Instant) {
        if !self.served && self.arriving.is_none() && bytes.starts_with(b"PRI") {
            self.is_shared = true;
        }
        if self.busy == 0 && !self.is_shared && self.arriving.is_none() {
            // What began before the first byte goes on: silence is no way to gain time.
            self.arriving = Some(if self.served { now } else { self.since });
        }
    }

    fn deadline(&self, limits: &Limits) -> Option<Instant> {
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
    /// A connection that was just taken.
    pub(super) fn new() -> Activity {
        Activity(Arc::new(Mutex::new(State::new(Instant::now()))))
    }

    /// A request has arrived; it is being answered until the value is dropped.
    pub(super) fn begins(&self) -> Busy {
        let request = self.state().begins();
        Busy { activity: self.clone(), request }
    }

    /// When the connection is to be closed, unless something happens; never while something is being answered and
    /// taken.
    pub(super) fn deadline(&self, limits: &Limits) -> Option<Instant> {
        self.state().deadline(limits)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request that is being answered.
#[derive(Debug)]
pub(super) struct Busy {
    activity: Activity,
    request: u64,
}

impl Busy {
    fn gives(&self) {
        self.activity.state().gives(self.request, Instant::now());
    }

    fn asked(&self) {
        self.activity.state().asked(self.request);
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.activity.state().ends(self.request, Instant::now());
    }
}

/// An answer that keeps its connection busy to its last byte.
pub(super) struct Answer {
    body: Body,
    /// None after the last byte.
    busy: Option<Busy>,
}

impl Answer {
    /// An answer to a request. Until it is asked for its first byte it is one that nobody takes.
    pub(super) fn new(body: Body, busy: Busy) -> Answer {
        busy.gives();
        Answer { body, busy: Some(busy) }
    }
}

impl http_body::Body for Answer {
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

/// A socket that tells when something arrives, and gives up on a reader who takes nothing.
pub(super) struct Socket {
    stream: TcpStream,
    activity: Activity,
    patience: Duration,
    /// Runs while something waits to be taken.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, activity: Activity, patience: Duration) -> Socket {
        Socket { stream, activity, patience, stalled: None }
    }

    fn written<T>(&mut self, context: &mut Context<'_>, written: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let patience = self.patience;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(patience)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the reader takes nothing")))
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(context, buffer));
        if let Some(bytes) = buffer.filled().get(before..).filter(|bytes| !bytes.is_empty()) {
            self.activity.state().heard(bytes, Instant::now());
        }
        Poll::Ready(read)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.written(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_as_long_as_what_it_does_may_take() {
        let (limits, began) = (Limits::default(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut state = State::new(began);
        let told = |state: &State| state.deadline(&limits).map(|at| at.duration_since(began).as_secs());
        assert_eq!(told(&state), Some(10), "nothing was said yet");
        state.heard(b"GET / HT", at(4));
        assert_eq!(told(&state), Some(10), "a first byte gains no time");
        let (first, second) = (state.begins(), state.begins());
        state.gives(first, at(4));
        assert_eq!(told(&state), None, "it is being answered, and the socket sees to the rest");
        state.ends(first, at(5));
        assert_eq!(told(&state), None);
        state.ends(second, at(10));
        assert_eq!(told(&state), Some(85), "it is kept for another request");
        state.heard(b"GET", at(30));
        state.heard(b" / HT", at(39));
        assert_eq!(told(&state), Some(40), "which has begun to arrive");
    }

    #[test]
    fn on_a_shared_connection_bytes_are_no_request() {
        let (limits, began) = (Limits::default(), Instant::now());
        let mut state = State::new(began);
        state.heard(b"PRI * HTTP/2.0\r\n", began);
        assert_eq!(state.deadline(&limits), Some(began + limits.header_deadline));
        let request = state.begins();
        state.ends(request, began);
        state.heard(b"\0\0\x08\x06", began);
        assert_eq!(state.deadline(&limits), Some(began + limits.idle));
    }

    #[test]
    fn on_a_shared_connection_each_answer_has_to_be_taken() {
        let (limits, began) = (Limits::default(), Instant::now());
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut state = State::new(began);
        let told = |state: &State| state.deadline(&limits).map(|at| at.duration_since(began).as_secs());
        state.heard(b"PRI * HTTP/2.0\r\n", began);
        let (first, second) = (state.begins(), state.begins());
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
}
