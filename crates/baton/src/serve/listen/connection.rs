//! One connection, from its first byte to its last.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::activity::{Activity, TrackedBody};
use super::places::Leave;
use super::socket::Socket;
use super::{LEAVING, Listening};
use crate::serve::{self, Arrived};

/// One connection, before it is driven.
pub(super) struct ServedConnection<'a> {
    pub(super) stream: TcpStream,
    /// The address of the peer.
    pub(super) peer: IpAddr,
    pub(super) shared: &'a Arc<Listening>,
    pub(super) activity: Activity,
    /// Receives the order to make room.
    pub(super) leave: oneshot::Receiver<Leave>,
    pub(super) is_reserve: bool,
}

impl ServedConnection<'_> {
    /// Serves requests until either side ends the connection, or its place is needed for another.
    pub(super) async fn drive(self) {
        let ServedConnection { stream, peer, shared, activity, mut leave, is_reserve } = self;
        let limits = shared.service.limits();
        let Ok(local) = stream.local_addr() else { return };
        let closing = shared.service.closing();
        // Until the first byte a connection costs no more than this.
        tokio::select! {
            () = closing.cancelled() => return,
            _ = &mut leave => {
                shared.service.metrics().evicted();
                return;
            }
            first = timeout(limits.header_deadline, stream.readable()) => {
                let Ok(Ok(())) = first else { return };
            }
        }
        let _ = stream.set_nodelay(true);
        let io = TokioIo::new(Socket::new(stream, activity.clone(), limits.stall));
        let arrived = Arrived { local, peer, is_reserve };
        // Boxed: hyper keeps room for the work on a request as long as the connection is open, and a stream needs none.
        let service =
            service_fn(|request| Box::pin(answer(request, shared.clone(), arrived, activity.clone())));
        let mut connection = pin!(shared.builder.serve_connection(io, service));
        let mut ending = pin!(ending(closing, leave));
        let mut ends = None;
        let mut alarm = pin!(sleep_until(Instant::now() + limits.header_deadline));
        poll_fn(|context| {
            if ends.is_none()
                && let Poll::Ready(end) = ending.as_mut().poll(context)
            {
                if end != CloseReason::Closing {
                    shared.service.metrics().evicted();
                }
                if end == CloseReason::Now {
                    return Poll::Ready(());
                }
                ends = Some((end, Instant::now()));
                connection.as_mut().graceful_shutdown();
            }
            if let Poll::Ready(ended) = connection.as_mut().poll(context) {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended");
                }
                return Poll::Ready(());
            }
            // The poll of the connection may have moved its deadline.
            while let Some(mut deadline) = activity.deadline(limits) {
                if let Some((CloseReason::Idle, since)) = ends {
                    deadline = deadline
                        .min(activity.idle_since().map_or(deadline, |idle| idle.max(since) + LEAVING));
                }
                if alarm.deadline() != deadline {
                    alarm.as_mut().reset(deadline);
                }
                if alarm.as_mut().poll(context).is_pending() {
                    break;
                }
                if deadline <= Instant::now() {
                    return Poll::Ready(());
                }
            }
            Poll::Pending
        })
        .await;
    }
}

/// Why a connection is closed before either side ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CloseReason {
    /// The service closes: requests in progress are answered.
    Closing,
    /// Another connection needs its place, and this one is idle: a request that came just now is answered.
    Idle,
    /// Another connection needs its place at once.
    Now,
}

async fn ending(closing: &CancellationToken, leave: oneshot::Receiver<Leave>) -> CloseReason {
    tokio::select! {
        () = closing.cancelled() => CloseReason::Closing,
        leave = leave => match leave {
            Ok(Leave::Idle) => CloseReason::Idle,
            Ok(Leave::Now) => CloseReason::Now,
            // The sender was dropped with the place, which is given back after the connection ends.
            Err(_) => std::future::pending().await,
        },
    }
}

async fn answer(
    request: Request<Incoming>,
    shared: Arc<Listening>,
    arrived: Arrived,
    activity: Activity,
) -> Result<Response<TrackedBody>, Infallible> {
    let busy = activity.begins(request.version());
    let response = serve::answer(&shared.service, &shared.router, arrived, request.map(Body::new)).await;
    Ok(response.map(|body| TrackedBody::new(body, busy)))
}
