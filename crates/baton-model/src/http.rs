//! The one HTTP path: every request to a provider goes through here.
//!
//! It promises that a key is sent to the address that was configured and to no other (redirects are not
//! followed), that every wait has a limit, and that every failure is a [`Fault`] that says what to do, holds
//! no key and no query, and carries whether another try is worth it. Dropping a request or a reply closes
//! its socket.
//!
//! Proxies (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`, in capitals or not) and the system's
//! certificates are honoured because they are reqwest's defaults: in 0.13.5 `ClientBuilder::build` asks
//! `ProxyMatcher::system()`, which reads the environment without any feature, and with the feature `rustls`
//! it verifies with `rustls-platform-verifier`, which reads the system's store. What goes to a loopback
//! address never passes a proxy, and needs no certificates unless it is `https`; if it is not, reqwest is not
//! asked ([`client`]). No compression is asked for: none of reqwest's features for it is on.
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
use baton_http::Broken;
use client::HttpClient;
pub use limits::Timeouts;
pub(crate) use limits::{CallDeadlines, words};
pub(crate) use reply::{BodyKind, HttpReply};
pub(crate) use retry::settle;
pub(crate) use route::HttpRoute;

/// How long a connection that nobody uses is kept.
const KEEP: Duration = Duration::from_secs(30);

/// How hyper-util puts it that a proxy answered with the status 407 before there was a connection.
const NOT_INTRODUCED: &str = "proxy authorization required";

/// The longest message of a fault, in bytes.
const MAX_MESSAGE: usize = 2000;

/// The connections of one catalog.
#[derive(Debug, Default)]
pub(crate) struct HttpClients {
    clients: Mutex<HashMap<ClientKey, HttpClient>>,
}

/// What has to be equal for two endpoints to share a client.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ClientKey {
    local: bool,
    /// Where it is, if it is on this machine and not encrypted.
    near: Option<(String, u16)>,
    connect: Duration,
    /// Whether connections are kept.
    keeps: bool,
}

/// Whom a request goes to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestTarget<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) key: Option<&'a Secret>,
    pub(crate) wire: Wire,
    /// The span that asks, for those who are told.
    pub(crate) span: Option<&'a str>,
}

impl HttpClients {
    /// The way to an address, prepared.
    pub(crate) fn way(
        &self,
        to: RequestTarget<'_>,
        url: Url,
        connect: Duration,
    ) -> Result<Arc<HttpRoute>, Fault> {
        Ok(Arc::new(HttpRoute::new(self.client(to, connect)?, url, to)?))
    }

    /// Asks for a document and waits for the head of the reply, whatever its status.
    pub(crate) async fn get(
        &self,
        to: RequestTarget<'_>,
        url: Url,
        limits: CallDeadlines,
    ) -> Result<HttpReply, Fault> {
        self.way(to, url, limits.timeouts.connect)?.get(to.span, limits).await
    }

    /// The client for an endpoint. Connections are kept in it, so it is made once.
    fn client(&self, to: RequestTarget<'_>, connect: Duration) -> Result<HttpClient, Fault> {
        let (local, plain) = (to.endpoint.is_local(), to.endpoint.is_plain());
        // A local server may close a connection after its answer although it promised to keep it (llama.cpp's
        // does), and a request that crosses that close is lost. Ollama keeps its promise.
        let near = (local && plain).then(|| (to.endpoint.host().to_owned(), to.endpoint.port()));
        let keeps = near.is_none() || to.wire == Wire::Ollama;
        let kin = ClientKey { local, near, connect, keeps };
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&kin) {
            return Ok(client.clone());
        }
        let client = HttpClient::new(&kin).map_err(|broken| {
            Fault::new(Code::LlmConnection, format!("cannot set up connections: {}", broken.cause))
        })?;
        clients.insert(kin, client.clone());
        Ok(client)
    }
}

/// A request that got no reply. No such failure is the server's answer, so each is worth another try,
/// unless a proxy refused to make the connection before it knows who we are.
fn unsent(endpoint: &Endpoint, timeouts: &Timeouts, broken: &Broken) -> Fault {
    let (cause, proxy) = (&broken.cause, proxy::variable(endpoint));
    // A setting's value may hold a password, so only its name is told.
    let through = proxy.map(|name| format!(" through the proxy of {name}")).unwrap_or_default();
    let told = if broken.is_connect && broken.is_timeout {
        format!("cannot connect to {endpoint}{through} within {}", words(timeouts.connect))
    } else if proxy.is_some() && cause.ends_with(NOT_INTRODUCED) {
        return Fault::new(Code::LlmConnection, format!("{PROXY} (status 407)"));
    } else if broken.is_connect {
        let who = if proxy.is_some() { "proxy" } else { "server" };
        format!("cannot connect to {endpoint}{through}: {cause}; is the {who} running?")
    } else {
        format!("the connection to {endpoint}{through} broke before it answered: {cause}")
    };
    Fault::new(Code::LlmConnection, told).retry_after_ms(0)
}

/// A fault as it may be shown: without the key, without what we told a proxy, and not endless.
pub(crate) fn shown(mut fault: Fault, key: Option<&Secret>) -> Fault {
    fault.message = without_credentials(&fault.message);
    if let Some(key) = key {
        fault.message = key.redact(&fault.message);
    }
    if fault.message.len() > MAX_MESSAGE {
        fault.message = format!("{}…", json::cut(&fault.message, MAX_MESSAGE));
    }
    fault
}
