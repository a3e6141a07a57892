//! The route to one address: client, path and headers, prepared once for all requests there.
//!
//! The key is in a header that is marked as sensitive, so that no `Debug` shows it. A request that got no reply
//! is a fault; a reply with an error status is a reply.

use std::pin::pin;
use std::sync::Arc;

use baton_core::fault::{Code, Fault};
use baton_http::{HttpError, request_target};
use hyper::Uri;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};

use super::client::HttpClient;
use super::{CallDeadlines, HttpReply, RequestTarget, no_reply_fault};
use crate::endpoint::Endpoint;
use crate::wire::Wire;

/// The header that names the caller's span.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The capacity for headers, ours and the client's.
const HEADERS_CAPACITY: usize = 8;

/// A route to one address.
#[derive(Debug)]
pub(crate) struct HttpRoute {
    client: HttpClient,
    endpoint: Endpoint,
    url: Url,
    /// The path and the query of the address.
    path: Uri,
    headers: HeaderMap,
    key: Option<(HeaderName, HeaderValue)>,
}

impl HttpRoute {
    pub(super) fn new(client: HttpClient, url: Url, to: RequestTarget<'_>) -> Result<Self, Fault> {
        let endpoint = to.endpoint.clone();
        let unusable = |broken: HttpError| {
            Fault::new(Code::LlmConnection, format!("cannot ask {endpoint}: {}", broken.cause))
        };
        let path = request_target(url.path(), url.query()).map_err(unusable)?;
        Ok(HttpRoute { client, endpoint, url, path, headers: headers(to.wire), key: key(to)? })
    }

    /// The base URL.
    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// The address.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// The path of the address.
    pub(crate) fn path(&self) -> &str {
        self.url.path()
    }

    /// Sends a POST request and waits for the head of the reply; an error status is a reply, too.
    pub(crate) async fn post(
        self: &Arc<Self>,
        span: Option<&str>,
        body: Vec<u8>,
        limits: CallDeadlines,
    ) -> Result<HttpReply, Fault> {
        self.send(Method::POST, span, body, limits).await
    }

    /// Sends a GET request and waits for the head of the reply; an error status is a reply, too.
    pub(super) async fn get(
        self: &Arc<Self>,
        span: Option<&str>,
        limits: CallDeadlines,
    ) -> Result<HttpReply, Fault> {
        self.send(Method::GET, span, Vec::new(), limits).await
    }

    fn headers(&self, span: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(HEADERS_CAPACITY);
        headers.extend(self.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        if let Some(span) = span.and_then(|span| HeaderValue::from_str(span).ok()) {
            headers.insert(TRACEPARENT, span);
        }
        headers.extend(self.key.clone());
        headers
    }

    async fn send(
        self: &Arc<Self>,
        method: Method,
        span: Option<&str>,
        body: Vec<u8>,
        limits: CallDeadlines,
    ) -> Result<HttpReply, Fault> {
        let mut timer = limits.sending().timer();
        // Pinned here: passed by value, the future would be copied into each future that awaits it.
        let sending = pin!(self.client.send(method, (&self.url, &self.path), self.headers(span), body));
        match timer.first(sending).await? {
            Ok(response) => HttpReply::new(response, self.clone(), timer),
            Err(broken) => Err(no_reply_fault(&self.endpoint, &limits.timeouts, &broken)),
        }
    }
}

/// The headers of every request in a format.
fn headers(wire: Wire) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static(wire.protocol().accept));
    if let Some((name, version)) = wire.protocol().version_header {
        headers.insert(name, HeaderValue::from_static(version));
    }
    headers
}

/// The header with the key, as the format has it.
fn key(to: RequestTarget<'_>) -> Result<Option<(HeaderName, HeaderValue)>, Fault> {
    let Some(key) = to.key else { return Ok(None) };
    let (name, scheme) = to.wire.protocol().key_header;
    let mut value = HeaderValue::from_str(&format!("{scheme}{}", key.expose())).map_err(|_| {
        Fault::new(Code::LlmAuth, "the key holds characters that no header can carry; is it the key?")
    })?;
    value.set_sensitive(true);
    Ok(Some((HeaderName::from_static(name), value)))
}
