//! One connection, from its first byte to its last.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use axum::body::Body;
use axum::http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep_until, timeout};

use super::Listening;
use super::activity::{Activity, Answer, Socket};
use crate::serve::{self, Arrived};

/// Answers what comes until either side has enough.
pub(super) async fn drive(stream: TcpStream, shared: &Arc<Listening>, is_reserve: bool) {
    let limits = shared.service.limits();
    let Ok(local) = stream.local_addr() else { return };
    let activity = Activity::new();
    // Until something comes a connection costs no more than this.
    let closing = shared.service.closing();
    let first = closing.run_until_cancelled(timeout(limits.header_deadline, stream.readable())).await;
    let Some(Ok(Ok(()))) = first else { return };
    let _ = stream.set_nodelay(true);
    let io = TokioIo::new(Socket::new(stream, activity.clone(), limits.stall));
    let arrived = Arrived { local, is_reserve };
    // Boxed: hyper keeps room for the work on a request as long as the connection is open, and a stream needs none.
    let service = service_fn(|request| Box::pin(answer(request, shared.clone(), arrived, activity.clone())));
    let mut connection = pin!(shared.builder.serve_connection(io, service));
    let (mut closed, mut is_told) = (pin!(closing.cancelled()), false);
    let mut alarm = pin!(sleep_until(Instant::now() + limits.header_deadline));
    poll_fn(|context| {
        if !is_told && closed.as_mut().poll(context).is_ready() {
            is_told = true;
            connection.as_mut().graceful_shutdown();
        }
        if let Poll::Ready(ended) = connection.as_mut().poll(context) {
            if let Err(error) = ended {
                tracing::debug!(%error, "a connection ended");
            }
            return Poll::Ready(());
        }
        // Whatever the connection did just now may have moved its deadline.
        while let Some(deadline) = activity.deadline(limits) {
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

async fn answer(
    request: Request<Incoming>,
    shared: Arc<Listening>,
    arrived: Arrived,
    activity: Activity,
) -> Result<Response<Answer>, Infallible> {
    let busy = activity.begins();
    let response = serve::answer(&shared.service, &shared.router, arrived, request.map(Body::new)).await;
    Ok(response.map(|body| Answer::new(body, busy)))
}
