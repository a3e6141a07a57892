//! Who carries a request: reqwest, or hyper itself where there is nothing for reqwest to do.
//!
//! A server on this machine over plain HTTP has no proxy, no certificate and no other version of the protocol. There
//! hyper's own client is enough, and costs half as much for each request.

use std::error::Error;
use std::io;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use reqwest::header::{HeaderMap, HeaderValue, USER_AGENT};
use reqwest::{Method, StatusCode, Url};

use super::{KEEP, Kinship};

/// How we introduce ourselves.
const AGENT: &str = concat!("baton/", env!("CARGO_PKG_VERSION"));

/// See the module.
#[derive(Debug, Clone)]
pub(super) enum Client {
    Full(reqwest::Client),
    Bare(Box<legacy::Client<HttpConnector, Full<Bytes>>>),
}

impl Client {
    pub(super) fn new(kin: Kinship) -> reqwest::Result<Client> {
        if kin.local && kin.plain {
            Ok(Client::Bare(Box::new(bare(kin))))
        } else {
            full(kin).map(Client::Full)
        }
    }

    /// Sends a request, and waits for the head of the answer.
    pub(super) async fn send(
        &self,
        method: Method,
        url: &Url,
        mut headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Response, Broken> {
        match self {
            Client::Full(client) => {
                let mut request = reqwest::Request::new(method, url.clone());
                *request.headers_mut() = headers;
                *request.body_mut() = (!body.is_empty()).then(|| body.into());
                client.execute(request).await.map(Response::Full).map_err(Broken::of_full)
            }
            Client::Bare(client) => {
                headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
                let mut request = hyper::Request::new(Full::new(body.into()));
                *request.method_mut() = method;
                *request.uri_mut() = url.as_str().parse().map_err(Broken::before)?;
                *request.headers_mut() = headers;
                client.request(request).await.map(Response::Bare).map_err(Broken::of_bare)
            }
        }
    }
}

fn bare(kin: Kinship) -> legacy::Client<HttpConnector, Full<Bytes>> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(kin.connect));
    let mut builder = legacy::Client::builder(TokioExecutor::new());
    builder.pool_idle_timeout(KEEP).pool_timer(TokioTimer::new());
    if !kin.keeps {
        builder.pool_max_idle_per_host(0);
    }
    builder.build(connector)
}

fn full(kin: Kinship) -> reqwest::Result<reqwest::Client> {
    let mut builder = reqwest::Client::builder()
        .user_agent(AGENT)
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(kin.connect)
        .pool_idle_timeout(KEEP);
    if kin.local {
        builder = builder.no_proxy();
    }
    if !kin.keeps {
        builder = builder.pool_max_idle_per_host(0);
    }
    builder.build()
}

/// An answer whose head has arrived.
#[derive(Debug)]
pub(super) enum Response {
    Full(reqwest::Response),
    Bare(hyper::Response<Incoming>),
}

impl Response {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Response::Full(response) => response.status(),
            Response::Bare(response) => response.status(),
        }
    }

    pub(super) fn headers(&self) -> &HeaderMap {
        match self {
            Response::Full(response) => response.headers(),
            Response::Bare(response) => response.headers(),
        }
    }

    /// The next bytes of the body; none at its end.
    pub(super) async fn chunk(&mut self) -> Result<Option<Bytes>, Broken> {
        let body = match self {
            Response::Full(response) => return response.chunk().await.map_err(Broken::of_full),
            Response::Bare(response) => response.body_mut(),
        };
        while let Some(frame) = body.frame().await {
            // What is no data are trailers, which nobody reads.
            if let Ok(data) = frame.map_err(Broken::before)?.into_data() {
                return Ok(Some(data));
            }
        }
        Ok(None)
    }
}

/// Why a connection failed.
#[derive(Debug)]
pub(super) struct Broken {
    /// Whether there was none yet.
    pub(super) is_connect: bool,
    pub(super) is_timeout: bool,
    /// In the words of who found it.
    pub(super) cause: String,
}

impl Broken {
    fn of_full(error: reqwest::Error) -> Broken {
        let (is_connect, is_timeout) = (error.is_connect(), error.is_timeout());
        Broken { is_connect, is_timeout, cause: cause(&error) }
    }

    fn of_bare(error: legacy::Error) -> Broken {
        Broken { is_connect: error.is_connect(), ..Broken::before(error) }
    }

    /// With a connection, or before anybody tried to make one.
    fn before(error: impl Error + 'static) -> Broken {
        let innermost = innermost(&error);
        let is_late = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
        let is_timeout = innermost.downcast_ref::<io::Error>().is_some_and(is_late);
        Broken { is_connect: false, is_timeout, cause: innermost.to_string() }
    }
}

fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost
}

/// What an error comes from. The outer layers only say that there is one, and the outermost would show the URL.
pub(super) fn cause(error: &reqwest::Error) -> String {
    match error.source() {
        Some(source) => innermost(source).to_string(),
        None => "no reason is known".to_owned(),
    }
}
