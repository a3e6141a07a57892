//! The connections to one service of the operator, with its address and its token.
//!
//! One pool for everything that is asked of it: connections are kept, for less time than servers usually keep
//! theirs, so that a request seldom meets a connection that is being closed. The token is sent to this address
//! alone and shows nowhere. A failure says whether anything can have been sent.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use baton_core::redact::Redactor;
use baton_http::{Server, target};
use hyper::Uri;
use hyper::body::Bytes;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
    USER_AGENT,
};
use reqwest::{Method, Url};
use tokio::sync::OnceCell;

use super::permitted_body::{NotPermitted, PermittedBody};
use crate::egress::{self, cause, is_this_computer};
use crate::secret::Secret;
use crate::tool::Permit;
use crate::typed::off_thread;

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a connection that nobody uses is kept. Many servers close theirs after 5 s.
const KEEP: Duration = Duration::from_secs(4);

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

/// How many headers there is room for, ours and the client's.
const ROOM: usize = 12;

/// The header that says which requests are one and the same.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Settings that no service can be reached with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadService {
    /// The address cannot be used.
    #[error("its address is not usable: write it like `http://127.0.0.1:8002`")]
    Address,
    /// The token cannot be sent.
    #[error("its token is empty or holds characters that no token has")]
    Token,
}

/// A request that got no whole answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Nothing was sent.
    #[error("it cannot be reached: {0}")]
    NotSent(String),
    /// It was sent, or some of it, and the answer did not come or did not end.
    #[error("it did not answer: {0}")]
    Unsure(String),
}

/// What a service answered, whatever its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceResponse {
    /// The status.
    pub status: u16,
    /// Whether it says when to come back.
    pub comes_back: bool,
    /// The body, or its beginning.
    pub body: Vec<u8>,
    /// Whether there is more of it than was read.
    pub is_cut: bool,
}

/// See the module.
pub struct Connection {
    base: String,
    token: Option<(Redactor, HeaderValue)>,
    transport: Transport,
    /// The first path that something was sent to, and its address: services have one, and are sent much.
    last_post: OnceLock<(String, ServiceUrl)>,
}

/// How a service is reached.
enum Transport {
    /// On this machine, and nothing is encrypted.
    Local(Server),
    /// The client is made when it is first needed: reading the system's certificates takes a while.
    Remote { client: OnceCell<reqwest::Client>, is_local: bool, is_plain: bool },
}

/// An address, and what is asked for there.
#[derive(Debug, Clone)]
struct ServiceUrl {
    url: Url,
    target: Uri,
}

/// What is asked.
struct ServiceRequest {
    method: Method,
    url: ServiceUrl,
    headers: HeaderMap,
    body: Vec<u8>,
    permit: Permit,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Connection {
    /// A service at an address, with our token for it. Nothing is sent yet.
    pub fn new(base: &str, token: Option<Secret>) -> Result<Connection, BadService> {
        let base = base.trim().trim_end_matches('/');
        let url = Url::parse(base).map_err(|_| BadService::Address)?;
        let is_bare = url.query().is_none() && url.fragment().is_none() && url.username().is_empty();
        if !matches!(url.scheme(), "http" | "https") || !is_bare || url.password().is_some() {
            return Err(BadService::Address);
        }
        let header = |token: Secret| {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose()))
                .ok()
                .filter(|_| !token.expose().is_empty())
                .ok_or(BadService::Token)?;
            value.set_sensitive(true);
            Ok((Redactor::new(token.expose()), value))
        };
        let token = token.map(header).transpose()?;
        Ok(Connection {
            base: base.to_owned(),
            token,
            transport: Transport::to(&url)?,
            last_post: OnceLock::new(),
        })
    }

    /// Asks for a document, of which at most so many bytes are read.
    pub async fn get(&self, path: &str, most: usize) -> Result<ServiceResponse, RequestError> {
        let (headers, body, permit) = (HeaderMap::with_capacity(ROOM), Vec::new(), Permit::default());
        self.send(ServiceRequest { method: Method::GET, url: self.url(path)?, headers, body, permit }, most)
            .await
    }

    /// Sends a document under a key, which is the same for every attempt, if that is still permitted once there is a
    /// connection.
    pub async fn post(
        &self,
        path: &str,
        key: &str,
        more: HeaderMap,
        body: Vec<u8>,
        most: usize,
        permit: Permit,
    ) -> Result<ServiceResponse, RequestError> {
        let odd =
            |_| RequestError::NotSent("the key of the call holds characters that no key has".to_owned());
        let key = HeaderValue::from_str(key).map_err(odd)?;
        let url = match self.last_post.get() {
            Some((known, url)) if known == path => url.clone(),
            _ => {
                let url = self.url(path)?;
                self.last_post.get_or_init(|| (path.to_owned(), url.clone()));
                url
            }
        };
        let mut headers = HeaderMap::with_capacity(ROOM);
        headers.extend(more);
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(IDEMPOTENCY_KEY, key);
        self.send(ServiceRequest { method: Method::POST, url, headers, body, permit }, most).await
    }

    /// A text of the service as it may be shown: without our token, if it is repeated there.
    pub fn redacted(&self, text: &str) -> String {
        match &self.token {
            Some((token, _)) => token.redact(text),
            None => text.to_owned(),
        }
    }

    /// Whether a text repeats our token.
    pub(super) fn is_repeated(&self, text: &str) -> bool {
        self.token.as_ref().is_some_and(|(token, _)| token.is_in(text))
    }

    /// The address of a path.
    fn url(&self, path: &str) -> Result<ServiceUrl, RequestError> {
        let url = Url::parse(&format!("{}{path}", self.base))
            .map_err(|error| RequestError::NotSent(error.to_string()))?;
        let target = target(url.path(), url.query()).map_err(|broken| RequestError::NotSent(broken.cause))?;
        Ok(ServiceUrl { url, target })
    }

    async fn send(&self, mut request: ServiceRequest, most: usize) -> Result<ServiceResponse, RequestError> {
        request.headers.insert(ACCEPT, JSON);
        request.headers.insert(ACCEPT_ENCODING, IDENTITY);
        request.headers.extend(self.token.iter().map(|(_, token)| (AUTHORIZATION, token.clone())));
        let mut response = self.transport.send(request).await?;
        let status = response.status();
        let comes_back = response.headers().contains_key(RETRY_AFTER);
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await? {
            let room = most - body.len();
            body.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.len() > room {
                return Ok(ServiceResponse { status, comes_back, body, is_cut: true });
            }
        }
        Ok(ServiceResponse { status, comes_back, body, is_cut: false })
    }
}

impl Transport {
    fn to(url: &Url) -> Result<Transport, BadService> {
        let (is_local, is_plain) = (is_this_computer(url), url.scheme() == "http");
        match (url.host_str(), url.port_or_known_default()) {
            (Some(host), Some(port)) if is_local && is_plain => {
                Server::new(host, port, CONNECT, KEEP).map(Transport::Local).map_err(|_| BadService::Address)
            }
            _ => Ok(Transport::Remote { client: OnceCell::new(), is_local, is_plain }),
        }
    }

    async fn send(&self, request: ServiceRequest) -> Result<TransportResponse, RequestError> {
        let ServiceRequest { method, url, mut headers, body, permit } = request;
        let (client, is_local, is_plain) = match self {
            Transport::Local(server) => {
                headers.insert(USER_AGENT, HeaderValue::from_static(egress::USER_AGENT));
                let may = || permit.holds();
                return Ok(TransportResponse::Local(
                    server.send_if(method, url.target, headers, body, may).await?,
                ));
            }
            Transport::Remote { client, is_local, is_plain } => (client, *is_local, *is_plain),
        };
        let make = || async {
            let built = off_thread(move || build(is_local, is_plain)).await;
            let built = built.map_err(|error| RequestError::NotSent(error.message))?;
            built.map_err(|error| RequestError::NotSent(cause(error)))
        };
        let mut request = reqwest::Request::new(method, url.url);
        *request.headers_mut() = headers;
        let is_refused = Arc::new(AtomicBool::new(false));
        *request.body_mut() =
            (!body.is_empty()).then(|| PermittedBody::body(body, permit, is_refused.clone()));
        match client.get_or_try_init(make).await?.execute(request).await {
            Err(_) if is_refused.load(SeqCst) => Err(RequestError::NotSent(NotPermitted.to_string())),
            answered => Ok(TransportResponse::Remote(answered?)),
        }
    }
}

/// An answer whose head has arrived.
enum TransportResponse {
    Local(baton_http::Answer),
    Remote(reqwest::Response),
}

impl TransportResponse {
    fn status(&self) -> u16 {
        match self {
            TransportResponse::Local(answer) => answer.status().as_u16(),
            TransportResponse::Remote(response) => response.status().as_u16(),
        }
    }

    fn headers(&self) -> &HeaderMap {
        match self {
            TransportResponse::Local(answer) => answer.headers(),
            TransportResponse::Remote(response) => response.headers(),
        }
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, RequestError> {
        match self {
            TransportResponse::Local(answer) => Ok(answer.chunk().await?),
            TransportResponse::Remote(response) => Ok(response.chunk().await?),
        }
    }
}

impl From<baton_http::Broken> for RequestError {
    fn from(broken: baton_http::Broken) -> RequestError {
        RequestError::told(broken.is_connect, broken.is_timeout, broken.cause)
    }
}

impl From<reqwest::Error> for RequestError {
    fn from(error: reqwest::Error) -> RequestError {
        RequestError::told(error.is_connect() || error.is_builder(), error.is_timeout(), cause(error))
    }
}

impl RequestError {
    fn told(is_before: bool, is_timeout: bool, why: String) -> RequestError {
        match (is_before, is_timeout) {
            (true, true) => {
                RequestError::NotSent(format!("there was no connection within {} s", CONNECT.as_secs()))
            }
            (true, false) => RequestError::NotSent(why),
            (false, _) => RequestError::Unsure(why),
        }
    }
}

fn build(is_local: bool, is_plain: bool) -> reqwest::Result<reqwest::Client> {
    let mut builder = reqwest::Client::builder()
        .user_agent(egress::USER_AGENT)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .http1_only()
        .tcp_nodelay(true)
        .connect_timeout(CONNECT)
        .pool_idle_timeout(KEEP);
    if is_local {
        builder = builder.no_proxy();
    }
    if is_plain {
        // No certificate is needed, and there may be none.
        builder = builder.tls_certs_only([]);
    }
    builder.build()
}
