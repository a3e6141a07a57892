//! The HTTP client: reqwest, or a plain connection ([`baton_http`]) where reqwest's features are not needed.
//!
//! A server on this machine over plain HTTP has no proxy, no certificate and no other version of the protocol;
//! there a request costs half as much.

use std::error::Error;
use std::time::Duration;

use baton_http::{HttpError, LocalClient, innermost};
use hyper::Uri;
use hyper::body::Bytes;
use reqwest::header::{HeaderMap, HeaderValue, USER_AGENT};
use reqwest::{Method, StatusCode, Url};

use super::{ClientKey, POOL_IDLE};

/// The header `User-Agent`.
const AGENT: &str = concat!("baton/", env!("CARGO_PKG_VERSION"));

/// A client with its pool of connections. Clones share the pool.
#[derive(Debug, Clone)]
pub(super) enum HttpClient {
    Reqwest(reqwest::Client),
    Local(LocalClient),
}

impl HttpClient {
    pub(super) fn new(key: &ClientKey) -> Result<HttpClient, HttpError> {
        match &key.local_plain {
            Some((host, port)) => {
                let keep = if key.keep_alive { POOL_IDLE } else { Duration::ZERO };
                LocalClient::new(host, *port, key.connect, keep).map(HttpClient::Local)
            }
            None => reqwest_client(key).map(HttpClient::Reqwest).map_err(from_reqwest),
        }
    }

    /// Sends a request, and waits for the head of the answer. The path is the one of the URL.
    pub(super) async fn send(
        &self,
        method: Method,
        (url, path): (&Url, &Uri),
        mut headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<ClientResponse, HttpError> {
        match self {
            HttpClient::Reqwest(client) => {
                let mut request = reqwest::Request::new(method, url.clone());
                *request.headers_mut() = headers;
                *request.body_mut() = (!body.is_empty()).then(|| body.into());
                client.execute(request).await.map(ClientResponse::Reqwest).map_err(from_reqwest)
            }
            HttpClient::Local(server) => {
                headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
                server.send(method, path.clone(), headers, body).await.map(ClientResponse::Local)
            }
        }
    }
}

fn reqwest_client(key: &ClientKey) -> reqwest::Result<reqwest::Client> {
    let mut builder = reqwest::Client::builder()
        .user_agent(AGENT)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(key.connect)
        .pool_idle_timeout(POOL_IDLE);
    if key.local {
        builder = builder.no_proxy();
    }
    if !key.keep_alive {
        builder = builder.pool_max_idle_per_host(0);
    }
    builder.build()
}

/// An answer whose head has arrived.
#[derive(Debug)]
pub(super) enum ClientResponse {
    Reqwest(reqwest::Response),
    Local(baton_http::HttpResponse),
}

impl ClientResponse {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            ClientResponse::Reqwest(response) => response.status(),
            ClientResponse::Local(answer) => answer.status(),
        }
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        match self {
            ClientResponse::Reqwest(response) => response.headers(),
            ClientResponse::Local(answer) => answer.headers(),
        }
    }

    /// Drops the headers. They share a buffer with the body, which is reused only without them.
    pub(super) fn drop_headers(&mut self) {
        let headers = match self {
            ClientResponse::Reqwest(response) => response.headers_mut(),
            ClientResponse::Local(answer) => answer.headers_mut(),
        };
        *headers = HeaderMap::new();
    }

    /// The next bytes of the body; none at its end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        match self {
            ClientResponse::Reqwest(response) => response.chunk().await.map_err(from_reqwest),
            ClientResponse::Local(answer) => answer.chunk().await,
        }
    }
}

fn from_reqwest(error: reqwest::Error) -> HttpError {
    let (is_connect, is_timeout) = (error.is_connect(), error.is_timeout());
    HttpError { is_connect, is_timeout, cause: cause(&error) }
}

/// The innermost cause of an error. The outer layers only say that there is one, and the outermost would show
/// the URL.
fn cause(error: &reqwest::Error) -> String {
    match error.source() {
        Some(source) => innermost(source).to_string(),
        None => "no reason is known".to_owned(),
    }
}
