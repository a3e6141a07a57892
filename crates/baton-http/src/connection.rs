//! One connection, which makes progress only while a task waits for a response on it.
//!
//! Inside, hyper's connection and its user wake each other for every chunk. Both are polled here, so a relay
//! ([`Relay`]) catches those wake-ups and they mean one more round; the task outside is woken only by events from
//! outside.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use http_body_util::Full;
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::http1::{Builder, Connection, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::HttpError;

/// How many rounds are made before other tasks get a turn. Two are usual. Without a bound, a task that tokio asks to
/// yield would never do so.
const MAX_ROUNDS: usize = 16;

/// See the module.
pub(super) struct ClientConnection {
    sender: SendRequest<Full<Bytes>>,
    /// None once it has ended. Boxed: it is large, and is moved between pool and response.
    connection: Option<Box<Connection<TokioIo<TcpStream>, Full<Bytes>>>>,
    relay: Arc<Relay>,
    waker: Waker,
}

impl std::fmt::Debug for ClientConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_open = self.connection.is_some();
        f.debug_struct("ClientConnection").field("is_open", &is_open).finish_non_exhaustive()
    }
}

/// A request that got no response, with the request itself if none of it was sent.
pub(super) struct SendError {
    pub(super) error: HttpError,
    pub(super) request: Option<Request<Full<Bytes>>>,
}

impl ClientConnection {
    pub(super) async fn handshake(stream: TcpStream) -> Result<ClientConnection, HttpError> {
        let (sender, connection) =
            Builder::new().handshake(TokioIo::new(stream)).await.map_err(HttpError::from_error)?;
        let relay = Arc::new(Relay::default());
        let waker = relay.clone().into();
        Ok(ClientConnection { sender, connection: Some(Box::new(connection)), relay, waker })
    }

    /// Sends a request, and waits for the head of the response.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, SendError> {
        let mut sending = pin!(self.sender.try_send_request(request));
        let ClientConnection { connection, relay, waker, .. } = self;
        let response = poll_fn(|cx| drive(connection, relay, waker, cx, |cx| sending.as_mut().poll(cx)));
        response.await.map_err(|mut error| {
            let request = error.take_message();
            SendError { request, error: HttpError::from_error(error.into_error()) }
        })
    }

    /// The next bytes of a body; none at its end.
    pub(super) async fn read(&mut self, body: &mut Incoming) -> Option<hyper::Result<Bytes>> {
        let ClientConnection { connection, relay, waker, .. } = self;
        loop {
            let frame =
                poll_fn(|cx| drive(connection, relay, waker, cx, |cx| Pin::new(&mut *body).poll_frame(cx)));
            match frame.await? {
                Err(error) => return Some(Err(error)),
                // Frames without data are trailers, which have no reader.
                Ok(frame) => {
                    if let Ok(data) = frame.into_data() {
                        return Some(Ok(data));
                    }
                }
            }
        }
    }

    /// Whether it can carry another request, as far as can be seen without waiting.
    pub(super) fn is_idle(&mut self) -> bool {
        let ClientConnection { connection, relay, waker, .. } = self;
        let _ =
            drive(connection, relay, waker, &mut Context::from_waker(Waker::noop()), |_| Poll::<()>::Pending);
        self.connection.is_some() && self.sender.is_ready()
    }
}

/// Polls a connection and then its waiter, until the waiter is ready or neither makes progress.
fn drive<T>(
    connection: &mut Option<Box<Connection<TokioIo<TcpStream>, Full<Bytes>>>>,
    relay: &Relay,
    waker: &Waker,
    cx: &mut Context<'_>,
    mut wait: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    relay.outside.register(cx.waker());
    let mut inside = Context::from_waker(waker);
    for _ in 0..MAX_ROUNDS {
        relay.enter();
        if let Some(open) = connection
            && Pin::new(open).poll(&mut inside).is_ready()
        {
            *connection = None; // the waiter gets the error
        }
        let waited = wait(&mut inside);
        if !relay.leave() || waited.is_ready() {
            return waited;
        }
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// The waker of the connection and its waiter: while they are polled, it notes that there is progress; otherwise it
/// wakes the task.
#[derive(Debug, Default)]
struct Relay {
    outside: AtomicWaker,
    is_inside: AtomicBool,
    moved: AtomicBool,
}

impl Relay {
    fn enter(&self) {
        self.is_inside.store(true, SeqCst);
        self.moved.store(false, SeqCst);
    }

    /// Returns whether there was progress. Later progress wakes the task: the waker sets `moved` and then reads
    /// `is_inside`, this function clears `is_inside` and then reads `moved`, so one of both sees the other.
    fn leave(&self) -> bool {
        self.is_inside.store(false, SeqCst);
        self.moved.load(SeqCst)
    }
}

impl Wake for Relay {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.moved.store(true, SeqCst);
        if !self.is_inside.load(SeqCst) {
            self.outside.wake();
        }
    }
}
