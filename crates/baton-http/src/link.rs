//! One connection, which moves only while somebody waits for what it carries.
//!
//! Inside, hyper's connection and its user wake each other for every piece. Both are here, so that is heard by a relay
//! ([`Relay`]) and means one more round; the task outside is woken only by what comes from outside.

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

use super::Broken;

/// How many rounds are made before others get a turn. Two are usual. Without an end, a task that tokio asks to give way
/// would never do so.
const ROUNDS: usize = 16;

/// See the module.
pub(super) struct Link {
    sender: SendRequest<Full<Bytes>>,
    /// None once it has ended. Boxed: it is large, and goes from hand to hand.
    connection: Option<Box<Connection<TokioIo<TcpStream>, Full<Bytes>>>>,
    relay: Arc<Relay>,
    waker: Waker,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link").field("is_open", &self.connection.is_some()).finish_non_exhaustive()
    }
}

/// A request that got no answer, and the request itself if none of it was sent.
pub(super) struct Refused {
    pub(super) broken: Broken,
    pub(super) request: Option<Request<Full<Bytes>>>,
}

impl Link {
    pub(super) async fn over(stream: TcpStream) -> Result<Link, Broken> {
        let (sender, connection) =
            Builder::new().handshake(TokioIo::new(stream)).await.map_err(Broken::before)?;
        let relay = Arc::new(Relay::default());
        let waker = relay.clone().into();
        Ok(Link { sender, connection: Some(Box::new(connection)), relay, waker })
    }

    /// Sends a request, and waits for the head of the answer.
    pub(super) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, Refused> {
        let mut answer = pin!(self.sender.try_send_request(request));
        let Link { connection, relay, waker, .. } = self;
        let answer = poll_fn(|cx| drive(connection, relay, waker, cx, |cx| answer.as_mut().poll(cx)));
        answer.await.map_err(|mut refused| {
            let request = refused.take_message();
            Refused { request, broken: Broken::before(refused.into_error()) }
        })
    }

    /// The next bytes of a body; none at its end.
    pub(super) async fn read(&mut self, body: &mut Incoming) -> Option<hyper::Result<Bytes>> {
        let Link { connection, relay, waker, .. } = self;
        loop {
            let frame =
                poll_fn(|cx| drive(connection, relay, waker, cx, |cx| Pin::new(&mut *body).poll_frame(cx)));
            match frame.await? {
                Err(error) => return Some(Err(error)),
                // What is no data are trailers, which nobody reads.
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
        let Link { connection, relay, waker, .. } = self;
        let _ =
            drive(connection, relay, waker, &mut Context::from_waker(Waker::noop()), |_| Poll::<()>::Pending);
        self.connection.is_some() && self.sender.is_ready()
    }
}

/// Drives a connection, and then whoever waits for it, until that one has what it waits for or nothing moves.
fn drive<T>(
    connection: &mut Option<Box<Connection<TokioIo<TcpStream>, Full<Bytes>>>>,
    relay: &Relay,
    waker: &Waker,
    cx: &mut Context<'_>,
    mut wait: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Poll<T> {
    relay.outside.register(cx.waker());
    let mut inside = Context::from_waker(waker);
    for _ in 0..ROUNDS {
        relay.enter();
        if let Some(open) = connection
            && Pin::new(open).poll(&mut inside).is_ready()
        {
            *connection = None; // why it ended is told to whoever waits
        }
        let waited = wait(&mut inside);
        if !relay.leave() || waited.is_ready() {
            return waited;
        }
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// Hears who is woken: inside, that something moved; outside, the task.
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

    /// Answers whether anything moved. What moves later wakes the task: whoever moves it looks where we are afterwards, and
    /// we look what moved after we left, so one of both sees the other.
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
