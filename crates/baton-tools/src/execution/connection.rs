//! The connections to one service of the operator, with its address and its token.
//!
//! One pool for everything that is asked of it: connections are kept, for less time than servers usually keep
//! theirs, so that a request seldom meets a connection that is being closed. The token is sent to this address
//! alone and shows nowhere. A failure says whether anything can have been sent.

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
};
use reqwest::{Client, Method, Request, Url};
use tokio::sync::OnceCell;

use crate::egress::{USER_AGENT, cause, is_this_computer};
use crate::secret::Secret;
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
    token: Option<(Secret, HeaderValue)>,
    is_local: bool,
    is_plain: bool,
    client: OnceCell<Client>,
    /// The first path that something was sent to, and its address: services have one, and are sent much.
    sent: OnceLock<(String, Url)>,
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
            Ok((token, value))
        };
        Ok(Connection {
            base: base.to_owned(),
            token: token.map(header).transpose()?,
            is_local: is_this_computer(&url),
            is_plain: url.scheme() == "http",
            client: OnceCell::new(),
            sent: OnceLock::new(),
        })
    }

    /// Asks for a document, of which at most so many bytes are read.
    pub async fn get(&self, path: &str, most: usize) -> Result<Answer, Broken> {
        self.send(Request::new(Method::GET, self.at(path)?), most).await
    }

    /// Sends a document under a key, which is the same for every attempt.
    pub async fn post(
        &self,
        path: &str,
        key: &str,
        more: HeaderMap,
        body: Vec<u8>,
        most: usize,
    ) -> Result<Answer, Broken> {
        let odd = |_| Broken::NotSent("the key of the call holds characters that no key has".to_owned());
        let key = HeaderValue::from_str(key).map_err(odd)?;
        let url = match self.sent.get() {
            Some((known, url)) if known == path => url.clone(),
            _ => {
                let url = self.at(path)?;
                self.sent.get_or_init(|| (path.to_owned(), url.clone()));
                url
            }
        };
        let mut request = Request::new(Method::POST, url);
        let headers = request.headers_mut();
        headers.reserve(ROOM);
        headers.extend(more);
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(IDEMPOTENCY_KEY, key);
        *request.body_mut() = Some(body.into());
        self.send(request, most).await
    }

    /// A text of the service as it may be shown: without our token, if it is repeated there.
    pub fn redacted(&self, text: &str) -> String {
        match &self.token {
            Some((token, _)) => text.replace(token.expose(), "[redacted]"),
            None => text.to_owned(),
        }
    }

    /// Whether a text repeats our token.
    pub(super) fn is_repeated(&self, text: &str) -> bool {
        self.token.as_ref().is_some_and(|(token, _)| text.contains(token.expose()))
    }

    /// The address of a path.
    fn at(&self, path: &str) -> Result<Url, Broken> {
        Url::parse(&format!("{}{path}", self.base)).map_err(|error| Broken::NotSent(error.to_string()))
    }

    async fn send(&self, mut request: Request, most: usize) -> Result<Answer, Broken> {
        let headers = request.headers_mut();
        headers.insert(ACCEPT, JSON);
        headers.insert(ACCEPT_ENCODING, IDENTITY);
        headers.extend(self.token.iter().map(|(_, token)| (AUTHORIZATION, token.clone())));
        let sending = self.client().await?.execute(request);
        let mut response = sending.await.map_err(|error| self.broken(error))?;
        let status = response.status().as_u16();
        let comes_back = response.headers().contains_key(RETRY_AFTER);
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| self.broken(error))? {
            let room = most - body.len();
            body.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.len() > room {
                return Ok(Answer { status, comes_back, body, is_cut: true });
            }
        }
        Ok(Answer { status, comes_back, body, is_cut: false })
    }

    fn broken(&self, error: reqwest::Error) -> Broken {
        if error.is_connect() && error.is_timeout() {
            return Broken::NotSent(format!("there was no connection within {} s", CONNECT.as_secs()));
        }
        let (is_before, why) = (error.is_connect() || error.is_builder(), cause(error));
        if is_before { Broken::NotSent(why) } else { Broken::Unsure(why) }
    }

    /// The client, made when it is first needed: reading the system's certificates takes a while.
    async fn client(&self) -> Result<&Client, Broken> {
        let make = || async {
            let (is_local, is_plain) = (self.is_local, self.is_plain);
            let built = off_thread(move || build(is_local, is_plain)).await;
            let built = built.map_err(|error| Broken::NotSent(error.message))?;
            built.map_err(|error| Broken::NotSent(cause(error)))
        };
        self.client.get_or_try_init(make).await
    }
}

fn build(is_local: bool, is_plain: bool) -> reqwest::Result<Client> {
    let mut builder = Client::builder()
        .user_agent(USER_AGENT)
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
