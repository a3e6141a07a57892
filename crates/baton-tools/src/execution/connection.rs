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

use super::permitted::{Permitted, Refused};
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
pub enum Broken {
    /// Nothing was sent.
    #[error("it cannot be reached: {0}")]
    NotSent(String),
    /// It was sent, or some of it, and the answer did not come or did not end.
    #[error("it did not answer: {0}")]
    Unsure(String),
}

/// What a service answered, whatever its status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
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
    way: Way,
    /// The first path that something was sent to, and its address: services have one, and are sent much.
    sent: OnceLock<(String, Address)>,
}

/// How a service is reached.
enum Way {
    /// On this machine, and nothing is encrypted.
    Near(Server),
    /// The client is made when it is first needed: reading the system's certificates takes a while.
    Full { client: OnceCell<reqwest::Client>, is_local: bool, is_plain: bool },
}

/// An address, and what is asked for there.
#[derive(Debug, Clone)]
struct Address {
    url: Url,
    target: Uri,
}

/// What is asked.
struct Request {
    method: Method,
    at: Address,
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
        Ok(Connection { base: base.to_owned(), token, way: Way::to(&url)?, sent: OnceLock::new() })
    }

    /// Asks for a document, of which at most so many bytes are read.
    pub async fn get(&self, path: &str, most: usize) -> Result<Answer, Broken> {
        let (headers, body, permit) = (HeaderMap::with_capacity(ROOM), Vec::new(), Permit::default());
        self.send(Request { method: Method::GET, at: self.at(path)?, headers, body, permit }, most).await
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
    ) -> Result<Answer, Broken> {
        let odd = |_| Broken::NotSent("the key of the call holds characters that no key has".to_owned());
        let key = HeaderValue::from_str(key).map_err(odd)?;
        let at = match self.sent.get() {
            Some((known, at)) if known == path => at.clone(),
            _ => {
                let at = self.at(path)?;
                self.sent.get_or_init(|| (path.to_owned(), at.clone()));
                at
            }
        };
        let mut headers = HeaderMap::with_capacity(ROOM);
        headers.extend(more);
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(IDEMPOTENCY_KEY, key);
        self.send(Request { method: Method::POST, at, headers, body, permit }, most).await
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
    fn at(&self, path: &str) -> Result<Address, Broken> {
        let url = Url::parse(&format!("{}{path}", self.base))
            .map_err(|error| Broken::NotSent(error.to_string()))?;
        let target = target(url.path(), url.query()).map_err(|broken| Broken::NotSent(broken.cause))?;
        Ok(Address { url, target })
    }

    async fn send(&self, mut request: Request, most: usize) -> Result<Answer, Broken> {
        request.headers.insert(ACCEPT, JSON);
        request.headers.insert(ACCEPT_ENCODING, IDENTITY);
        request.headers.extend(self.token.iter().map(|(_, token)| (AUTHORIZATION, token.clone())));
        let mut response = self.way.send(request).await?;
        let status = response.status();
        let comes_back = response.headers().contains_key(RETRY_AFTER);
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await? {
            let room = most - body.len();
            body.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.len() > room {
                return Ok(Answer { status, comes_back, body, is_cut: true });
            }
        }
        Ok(Answer { status, comes_back, body, is_cut: false })
    }
}

impl Way {
    fn to(url: &Url) -> Result<Way, BadService> {
        let (is_local, is_plain) = (is_this_computer(url), url.scheme() == "http");
        match (url.host_str(), url.port_or_known_default()) {
            (Some(host), Some(port)) if is_local && is_plain => {
                Server::new(host, port, CONNECT, KEEP).map(Way::Near).map_err(|_| BadService::Address)
            }
            _ => Ok(Way::Full { client: OnceCell::new(), is_local, is_plain }),
        }
    }

    async fn send(&self, request: Request) -> Result<Response, Broken> {
        let Request { method, at, mut headers, body, permit } = request;
        let (client, is_local, is_plain) = match self {
            Way::Near(server) => {
                headers.insert(USER_AGENT, HeaderValue::from_static(egress::USER_AGENT));
                let may = || permit.holds();
                return Ok(Response::Near(server.send_if(method, at.target, headers, body, may).await?));
            }
            Way::Full { client, is_local, is_plain } => (client, *is_local, *is_plain),
        };
        let make = || async {
            let built = off_thread(move || build(is_local, is_plain)).await;
            let built = built.map_err(|error| Broken::NotSent(error.message))?;
            built.map_err(|error| Broken::NotSent(cause(error)))
        };
        let mut request = reqwest::Request::new(method, at.url);
        *request.headers_mut() = headers;
        let is_refused = Arc::new(AtomicBool::new(false));
        *request.body_mut() = (!body.is_empty()).then(|| Permitted::body(body, permit, is_refused.clone()));
        match client.get_or_try_init(make).await?.execute(request).await {
            Err(_) if is_refused.load(SeqCst) => Err(Broken::NotSent(Refused.to_string())),
            answered => Ok(Response::Full(answered?)),
        }
    }
}

/// An answer whose head has arrived.
enum Response {
    Near(baton_http::Answer),
    Full(reqwest::Response),
}

impl Response {
    fn status(&self) -> u16 {
        match self {
            Response::Near(answer) => answer.status().as_u16(),
            Response::Full(response) => response.status().as_u16(),
        }
    }

    fn headers(&self) -> &HeaderMap {
        match self {
            Response::Near(answer) => answer.headers(),
            Response::Full(response) => response.headers(),
        }
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, Broken> {
        match self {
            Response::Near(answer) => Ok(answer.chunk().await?),
            Response::Full(response) => Ok(response.chunk().await?),
        }
    }
}

impl From<baton_http::Broken> for Broken {
    fn from(broken: baton_http::Broken) -> Broken {
        Broken::told(broken.is_connect, broken.is_timeout, broken.cause)
    }
}

impl From<reqwest::Error> for Broken {
    fn from(error: reqwest::Error) -> Broken {
        Broken::told(error.is_connect() || error.is_builder(), error.is_timeout(), cause(error))
    }
}

impl Broken {
    fn told(is_before: bool, is_timeout: bool, why: String) -> Broken {
        match (is_before, is_timeout) {
            (true, true) => {
                Broken::NotSent(format!("there was no connection within {} s", CONNECT.as_secs()))
            }
            (true, false) => Broken::NotSent(why),
            (false, _) => Broken::Unsure(why),
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
