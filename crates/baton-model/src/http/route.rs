//! The way to one address: what is the same in each request that goes there, prepared once.
//!
//! The key is in a header that is marked as sensitive, so that nothing shows it. A request that got no reply
//! is a fault, and a reply is given on whatever its status.

use std::pin::pin;
use std::sync::Arc;

use baton_core::fault::{Code, Fault};
use baton_http::{Broken, target};
use hyper::Uri;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};

use super::client::HttpClient;
use super::{CallDeadlines, HttpReply, RequestTarget, unsent};
use crate::endpoint::Endpoint;
use crate::wire::Wire;

/// The version of Anthropic's API that the codec speaks.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// The header that names the span that asks.
const SPAN: HeaderName = HeaderName::from_static("traceparent");

/// How many headers there is room for, ours and the client's.
const ROOM: usize = 8;

/// See the module.
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
        let odd = |broken: Broken| {
            Fault::new(Code::LlmConnection, format!("cannot ask {endpoint}: {}", broken.cause))
        };
        let path = target(url.path(), url.query()).map_err(odd)?;
        Ok(HttpRoute { client, endpoint, url, path, headers: headers(to.wire), key: key(to)? })
    }

    /// The base of the address.
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

    /// Sends the body of a question and waits for the head of the reply, whatever its status.
    pub(crate) async fn ask(
        self: &Arc<Self>,
        span: Option<&str>,
        body: Vec<u8>,
        limits: CallDeadlines,
    ) -> Result<HttpReply, Fault> {
        self.send(Method::POST, span, body, limits).await
    }

    /// Asks for a document and waits for the head of the reply, whatever its status.
    pub(super) async fn get(
        self: &Arc<Self>,
        span: Option<&str>,
        limits: CallDeadlines,
    ) -> Result<HttpReply, Fault> {
        self.send(Method::GET, span, Vec::new(), limits).await
    }

    fn headers(&self, span: Option<&str>) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(ROOM);
        headers.extend(self.headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        if let Some(span) = span.and_then(|span| HeaderValue::from_str(span).ok()) {
            headers.insert(SPAN, span);
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
        let mut watch = limits.sending().watch();
        // It stays where it is: handed on by value, each who waits for it would have room for it of their own.
        let sending = pin!(self.client.send(method, (&self.url, &self.path), self.headers(span), body));
        match watch.first(sending).await? {
            Ok(response) => HttpReply::new(response, self.clone(), watch),
            Err(broken) => Err(unsent(&self.endpoint, &limits.timeouts, &broken)),
        }
    }
}

/// The headers of every request in a format.
fn headers(wire: Wire) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(
        ACCEPT,
        HeaderValue::from_static(match wire {
            Wire::Ollama => "application/x-ndjson, application/json",
            Wire::ChatCompletions | Wire::Responses | Wire::Anthropic => {
                "text/event-stream, application/json"
            }
        }),
    );
    if wire == Wire::Anthropic {
        headers.insert("anthropic-version", HeaderValue::from_static(ANTHROPIC_VERSION));
    }
    headers
}

/// The key, where each provider wants it.
fn key(to: RequestTarget<'_>) -> Result<Option<(HeaderName, HeaderValue)>, Fault> {
    let Some(key) = to.key else { return Ok(None) };
    let (name, value) = match to.wire {
        Wire::Anthropic => (HeaderName::from_static("x-api-key"), key.expose().to_owned()),
        Wire::Ollama | Wire::ChatCompletions | Wire::Responses => {
            (AUTHORIZATION, format!("Bearer {}", key.expose()))
        }
    };
    let mut value = HeaderValue::from_str(&value).map_err(|_| {
        Fault::new(Code::LlmAuth, "the key holds characters that no header can carry; is it the key?")
    })?;
    value.set_sensitive(true);
    Ok(Some((name, value)))
}
