//! The sockets: which connections are accepted, how long they may stay silent, and how they end.
//!
//! An accept loop of our own, because a connection costs something before its first request: one that sends nothing, or
//! too slowly, is closed ([`connection`]); the number of open ones is limited, and the last of them serve nothing but
//! `/health` and cancels, so that a service that is full can still be watched and relieved. Where all places are taken,
//! idle connections and those of greedy addresses give way ([`places`]). [`super::answer`] handles the requests.

mod activity;
mod connection;
mod places;
mod socket;

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use activity::Activity;
use connection::ServedConnection;
use places::{ConnectionSlots, SlotGrant, SlotKind};

use super::limits::ServeLimits;
use super::state::Service;

/// How long connections have to end on their own once the service is closing and its runs rest.
const LEAVING: Duration = Duration::from_millis(500);
/// How long the accept loop pauses when no connection can be accepted, for want of file descriptors.
const FULL: Duration = Duration::from_millis(100);

/// The state that all connections share.
struct Listening {
    service: Service,
    router: Router,
    builder: Builder<TokioExecutor>,
    places: Mutex<ConnectionSlots>,
}

/// Serves until the service closes; then ends the open connections, as soon as `rest` reports that its runs rest.
pub(crate) async fn serve(
    listener: TcpListener,
    service: Service,
    router: Router,
    rest: impl Future<Output = ()>,
) {
    let (builder, places) = (builder(service.limits()), ConnectionSlots::new(service.limits().connections));
    let shared = Arc::new(Listening { service, router, builder, places: Mutex::new(places) });
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = shared.service.closing().cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => shared.take(stream, peer.ip(), &connections),
            Err(error) => pause(&error).await,
        }
    }
    drop(listener);
    rest.await;
    connections.close();
    let _ = tokio::time::timeout(LEAVING, connections.wait()).await;
}

impl Listening {
    fn take(self: &Arc<Self>, stream: TcpStream, peer: IpAddr, connections: &TaskTracker) {
        let activity = Activity::new();
        let given = self.places().give(peer, &activity, Instant::now(), self.service.limits());
        let Some(SlotGrant { id, kind, leave }) = given else { return }; // dropping the stream closes it
        let place = ConnectionSlot { shared: self.clone(), id, _counted: self.service.metrics().connected() };
        connections.spawn(async move {
            let is_reserve = kind == SlotKind::Reserve;
            ServedConnection { stream, peer, shared: &place.shared, activity, leave, is_reserve }
                .drive()
                .await;
            drop(place);
        });
    }

    fn places(&self) -> MutexGuard<'_, ConnectionSlots> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place among the open connections.
struct ConnectionSlot {
    shared: Arc<Listening>,
    id: u64,
    _counted: super::metrics::Connected,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.shared.places().take_back(self.id);
    }
}

/// Handles a failed accept: a peer that disconnected early is ignored; a lack of file descriptors is logged and pauses
/// the loop.
async fn pause(error: &io::Error) {
    if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
        return;
    }
    tracing::warn!(%error, "a connection could not be taken");
    tokio::time::sleep(FULL).await;
}

/// The settings of HTTP. Deadlines for headers are kept by [`connection`]: here they would cut off idle connections,
/// too.
fn builder(limits: &ServeLimits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_headers(limits.headers)
        .max_buf_size(limits.header_bytes);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(Some(128))
        .max_pending_accept_reset_streams(Some(20))
        .max_local_error_reset_streams(Some(128))
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .max_send_buf_size(64 << 10)
        .keep_alive_interval(Some(Duration::from_secs(20)))
        .keep_alive_timeout(Duration::from_secs(10));
    builder
}
