//! The one HTTP path: every request to a provider goes through here.
//!
//! It promises that a key is sent to the address that was configured and to no other (redirects are not
//! followed), that every wait has a limit, and that every failure is a [`Fault`] that names a remedy, holds
//! no key and no query, and carries whether a retry makes sense. Dropping a request or a reply closes
//! its socket.
//!
//! Proxies (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`, in capitals or not) and the system's
//! certificates are honoured because they are reqwest's defaults: in 0.13.5 `ClientBuilder::build` asks
//! `ProxyMatcher::system()`, which reads the environment without any feature, and with the feature `rustls`
//! it verifies with `rustls-platform-verifier`, which reads the system's store. Requests to a loopback
//! address never pass a proxy, and need no certificates unless it is `https`; over plain HTTP reqwest is not
//! used at all ([`client`]). No compression is requested: none of reqwest's features for it is on.
//!
//! It does not retry, and it knows nothing of models, roles or breakers.

mod client;
mod limits;
mod proxy;
mod reply;
mod retry;
mod route;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_core::fault::{Code, Fault, without_credentials};
use baton_core::json;
use reqwest::Url;

use crate::endpoint::Endpoint;
use crate::secret::Secret;
use crate::wire::{PROXY, Wire};
use baton_http::HttpError;
use client::HttpClient;
pub use limits::Timeouts;
pub(crate) use limits::{CallDeadlines, format_duration};
pub(crate) use reply::{BodyKind, HttpReply};
pub(crate) use retry::with_retry_after;
pub(crate) use route::HttpRoute;

/// How long an idle connection stays in the pool.
const POOL_IDLE: Duration = Duration::from_secs(30);

/// The error of hyper-util for a proxy that answered with the status 407 before there was a connection.
const PROXY_AUTH_REQUIRED: &str = "proxy authorization required";

/// The longest message of a fault, in bytes.
const MAX_MESSAGE: usize = 2000;

/// The HTTP clients of one catalog, and so its pools of connections.
#[derive(Debug, Default)]
pub(crate) struct HttpClients {
    clients: Mutex<HashMap<ClientKey, HttpClient>>,
}

/// The key of a client: endpoints with equal keys share one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ClientKey {
    local: bool,
    /// Host and port, for a server on this machine over plain HTTP.
    local_plain: Option<(String, u16)>,
    connect: Duration,
    /// Whether idle connections are kept.
    keep_alive: bool,
}

/// The target of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestTarget<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) key: Option<&'a Secret>,
    pub(crate) wire: Wire,
    /// The header `traceparent`, where the server is to get it.
    pub(crate) span: Option<&'a str>,
}

impl HttpClients {
    /// A prepared route to an address.
    pub(crate) fn route(
        &self,
        to: RequestTarget<'_>,
        url: Url,
        connect: Duration,
    ) -> Result<Arc<HttpRoute>, Fault> {
        Ok(Arc::new(HttpRoute::new(self.client(to, connect)?, url, to)?))
    }

    /// Sends a GET request and waits for the head of the reply; an error status is a reply, too.
    pub(crate) async fn get(
        &self,
        to: RequestTarget<'_>,
        url: Url,
        limits: CallDeadlines,
    ) -> Result<HttpReply, Fault> {
        self.route(to, url, limits.timeouts.connect)?.get(to.span, limits).await
    }

    /// The client for an endpoint. It owns the pool of connections, so it is made once.
    fn client(&self, to: RequestTarget<'_>, connect: Duration) -> Result<HttpClient, Fault> {
        let (local, plain) = (to.endpoint.is_local(), to.endpoint.is_plain());
        let local_plain = (local && plain).then(|| (to.endpoint.host().to_owned(), to.endpoint.port()));
        let keep_alive = local_plain.is_none() || to.wire.protocol().keeps_local_connections;
        let key = ClientKey { local, local_plain, connect, keep_alive };
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let client = HttpClient::new(&key).map_err(|broken| {
            Fault::new(Code::LlmConnection, format!("cannot set up connections: {}", broken.cause))
        })?;
        clients.insert(key, client.clone());
        Ok(client)
    }
}

/// The fault of a request that got no reply. The server has not answered, so each is worth a retry,
/// unless a proxy demands authorization before it connects.
fn no_reply_fault(endpoint: &Endpoint, timeouts: &Timeouts, broken: &HttpError) -> Fault {
    let (cause, proxy) = (&broken.cause, proxy::variable(endpoint));
    // A setting's value may hold a password, so the message has only its name.
    let through = proxy.map(|name| format!(" through the proxy of {name}")).unwrap_or_default();
    let problem = if broken.is_connect && broken.is_timeout {
        format!("cannot connect to {endpoint}{through} within {}", format_duration(timeouts.connect))
    } else if proxy.is_some() && cause.ends_with(PROXY_AUTH_REQUIRED) {
        return Fault::new(Code::LlmConnection, format!("{PROXY} (status 407)"));
    } else if broken.is_connect {
        let who = if proxy.is_some() { "proxy" } else { "server" };
        format!("cannot connect to {endpoint}{through}: {cause}; is the {who} running?")
    } else {
        format!("the connection to {endpoint}{through} broke before it answered: {cause}")
    };
    Fault::new(Code::LlmConnection, problem).retry_after_ms(0)
}

/// A fault that may be shown: without the key, without the credentials of a proxy, and of bounded length.
pub(crate) fn redacted(mut fault: Fault, key: Option<&Secret>) -> Fault {
    fault.message = without_credentials(&fault.message);
    if let Some(key) = key {
        fault.message = key.redact(&fault.message);
    }
    if fault.message.len() > MAX_MESSAGE {
        fault.message = format!("{}…", json::cut(&fault.message, MAX_MESSAGE));
    }
    fault
}
