//! Client for one service of the operator, with its address and its token.
//!
//! One pool for all requests: idle connections are kept, for less time than servers usually keep
//! theirs, so that a request seldom meets a connection that is being closed. The token is sent to this address
//! alone and shows nowhere. An error says whether anything can have been sent.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use baton_core::redact::Redactor;
use baton_http::{LocalClient, request_target};
use hyper::Uri;
use hyper::body::Bytes;
use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER,
    USER_AGENT,
};
use reqwest::{Method, Url};
use tokio::sync::OnceCell;

use super::permitted_body::{NotPermitted, PermittedBody};
use crate::egress::{self, ServiceRoute, cause};
use crate::secret::Secret;
use crate::tool::CallPermit;
use crate::typed::off_thread;

/// The timeout of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an idle connection is kept. Many servers close theirs after 5 s.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const IDENTITY: HeaderValue = HeaderValue::from_static("identity");

/// The capacity for headers: our own and those that the HTTP client adds.
const HEADER_CAPACITY: usize = 12;

/// The header that makes repeated requests recognizable as one.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Why a service cannot be reached with its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadService {
    /// The address cannot be used.
    #[error("its address is not usable: write it like `http://127.0.0.1:8002`")]
    Address,
    /// The token cannot be sent.
    #[error("its token is empty or holds characters that no token has")]
    Token,
}

/// Why a request got no whole response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Nothing was sent.
    #[error("it cannot be reached: {0}")]
    NotSent(String),
    /// It was sent, or some of it, and the response did not come or did not end.
    #[error("it did not answer: {0}")]
    Unsure(String),
}

/// The response of a service, with any status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceResponse {
    /// The status.
    pub status: u16,
    /// Whether it has a `Retry-After` header.
    pub has_retry_after: bool,
    /// The body, or its beginning.
    pub body: Vec<u8>,
    /// Whether the body is longer than the limit.
    pub is_cut: bool,
}

/// See the module.
pub struct ServiceClient {
    base: String,
    token: Option<(Redactor, HeaderValue)>,
    transport: Transport,
    /// The first path that was posted to, with its parsed address: services have one such path, and many posts go
    /// there.
    post_url: OnceLock<(String, ServiceUrl)>,
}

/// How a service is reached.
enum Transport {
    /// A server on this machine, without encryption.
    Local(LocalClient),
    /// Any other server. The client is made when it is first needed: reading the system's certificates takes a while.
    Remote { client: OnceCell<reqwest::Client>, route: ServiceRoute },
}

/// A URL of the service, and its request target.
#[derive(Debug, Clone)]
struct ServiceUrl {
    url: Url,
    target: Uri,
}

/// One request.
struct ServiceRequest {
    method: Method,
    url: ServiceUrl,
    headers: HeaderMap,
    body: Vec<u8>,
    permit: CallPermit,
}

impl fmt::Debug for ServiceClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceClient").field("base", &self.base).finish_non_exhaustive()
    }
}

impl ServiceClient {
    /// A client for the service at an address, with our token for it. Nothing is sent yet.
    pub fn new(base: &str, token: Option<Secret>) -> Result<ServiceClient, BadService> {
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
        Ok(ServiceClient {
            base: base.to_owned(),
            token,
            transport: Transport::to(&url)?,
            post_url: OnceLock::new(),
        })
    }

    /// Fetches a document, of which at most `max_bytes` are read.
    pub async fn get(&self, path: &str, max_bytes: usize) -> Result<ServiceResponse, RequestError> {
        let (headers, body, permit) =
            (HeaderMap::with_capacity(HEADER_CAPACITY), Vec::new(), CallPermit::default());
        self.send(
            ServiceRequest { method: Method::GET, url: self.url(path)?, headers, body, permit },
            max_bytes,
        )
        .await
    }

    /// Posts a document under an idempotency key, which is the same for every attempt, if that is still permitted once
    /// there is a connection. At most `max_bytes` of the response are read.
    pub async fn post(
        &self,
        path: &str,
        key: &str,
        extra_headers: HeaderMap,
        body: Vec<u8>,
        max_bytes: usize,
        permit: CallPermit,
    ) -> Result<ServiceResponse, RequestError> {
        let unusable =
            |_| RequestError::NotSent("the key of the call holds characters that no key has".to_owned());
        let key = HeaderValue::from_str(key).map_err(unusable)?;
        let url = match self.post_url.get() {
            Some((known, url)) if known == path => url.clone(),
            _ => {
                let url = self.url(path)?;
                self.post_url.get_or_init(|| (path.to_owned(), url.clone()));
                url
            }
        };
        let mut headers = HeaderMap::with_capacity(HEADER_CAPACITY);
        headers.extend(extra_headers);
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(IDEMPOTENCY_KEY, key);
        self.send(ServiceRequest { method: Method::POST, url, headers, body, permit }, max_bytes).await
    }

    /// A text of the service without our token, which the service may have repeated.
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
        let target =
            request_target(url.path(), url.query()).map_err(|error| RequestError::NotSent(error.cause))?;
        Ok(ServiceUrl { url, target })
    }

    async fn send(
        &self,
        mut request: ServiceRequest,
        max_bytes: usize,
    ) -> Result<ServiceResponse, RequestError> {
        request.headers.insert(ACCEPT, JSON);
        request.headers.insert(ACCEPT_ENCODING, IDENTITY);
        request.headers.extend(self.token.iter().map(|(_, token)| (AUTHORIZATION, token.clone())));
        let mut response = self.transport.send(request).await?;
        let status = response.status();
        let has_retry_after = response.headers().contains_key(RETRY_AFTER);
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            let room = max_bytes - body.len();
            body.extend_from_slice(&chunk[..chunk.len().min(room)]);
            if chunk.len() > room {
                return Ok(ServiceResponse { status, has_retry_after, body, is_cut: true });
            }
        }
        Ok(ServiceResponse { status, has_retry_after, body, is_cut: false })
    }
}

impl Transport {
    fn to(url: &Url) -> Result<Transport, BadService> {
        let route = ServiceRoute::to(url);
        match (url.host_str(), url.port_or_known_default()) {
            (Some(host), Some(port)) if route.is_local && route.is_plain => {
                LocalClient::new(host, port, CONNECT_TIMEOUT, IDLE_TIMEOUT)
                    .map(Transport::Local)
                    .map_err(|_| BadService::Address)
            }
            _ => Ok(Transport::Remote { client: OnceCell::new(), route }),
        }
    }

    async fn send(&self, request: ServiceRequest) -> Result<TransportResponse, RequestError> {
        let ServiceRequest { method, url, mut headers, body, permit } = request;
        let (client, route) = match self {
            Transport::Local(server) => {
                headers.insert(USER_AGENT, HeaderValue::from_static(egress::USER_AGENT));
                let is_permitted = || permit.holds();
                let response = server.send_if(method, url.target, headers, body, is_permitted).await?;
                return Ok(TransportResponse::Local(response));
            }
            Transport::Remote { client, route } => (client, *route),
        };
        let make = || async {
            let built = off_thread(move || build(route)).await;
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
            response => Ok(TransportResponse::Remote(response?)),
        }
    }
}

/// A response whose head has arrived.
enum TransportResponse {
    Local(baton_http::HttpResponse),
    Remote(reqwest::Response),
}

impl TransportResponse {
    fn status(&self) -> u16 {
        match self {
            TransportResponse::Local(response) => response.status().as_u16(),
            TransportResponse::Remote(response) => response.status().as_u16(),
        }
    }

    fn headers(&self) -> &HeaderMap {
        match self {
            TransportResponse::Local(response) => response.headers(),
            TransportResponse::Remote(response) => response.headers(),
        }
    }

    async fn chunk(&mut self) -> Result<Option<Bytes>, RequestError> {
        match self {
            TransportResponse::Local(response) => Ok(response.chunk().await?),
            TransportResponse::Remote(response) => Ok(response.chunk().await?),
        }
    }
}

impl From<baton_http::HttpError> for RequestError {
    fn from(error: baton_http::HttpError) -> RequestError {
        RequestError::classify(error.is_connect, error.is_timeout, error.cause)
    }
}

impl From<reqwest::Error> for RequestError {
    fn from(error: reqwest::Error) -> RequestError {
        RequestError::classify(error.is_connect() || error.is_builder(), error.is_timeout(), cause(error))
    }
}

impl RequestError {
    fn classify(is_before: bool, is_timeout: bool, why: String) -> RequestError {
        match (is_before, is_timeout) {
            (true, true) => RequestError::NotSent(format!(
                "there was no connection within {} s",
                CONNECT_TIMEOUT.as_secs()
            )),
            (true, false) => RequestError::NotSent(why),
            (false, _) => RequestError::Unsure(why),
        }
    }
}

fn build(route: ServiceRoute) -> reqwest::Result<reqwest::Client> {
    let builder = route.client().referer(false).http1_only().tcp_nodelay(true);
    builder.connect_timeout(CONNECT_TIMEOUT).pool_idle_timeout(IDLE_TIMEOUT).build()
}
