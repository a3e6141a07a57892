//! HTTP client for a server on this machine; its connections are driven by the task that asks.
//!
//! Over plain HTTP to this machine there is no proxy, no certificate and no other version of the protocol: a connection
//! of hyper's is enough. Clients usually give each connection a task of its own; then every chunk of a response goes
//! from task to task, which costs more than reading it. Here a connection belongs to the response that it carries, and
//! the task that waits for the response drives it ([`connection`]). Between two responses it is in a pool where no task
//! drives it ([`idle`]); before it is used again, the pool checks whether the server has closed it.
//!
//! Dropping a request or a response closes its connection, unless the response was read to its end. Nothing is sent
//! twice: a request goes to another connection only if none of it was sent.

mod connection;
mod idle;

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, StatusCode, Uri};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use connection::{ClientConnection, SendError};
use idle::IdlePool;

/// Client for one server on this machine, with a pool of idle connections to it. Clones share the pool.
#[derive(Debug, Clone)]
pub struct LocalClient {
    address: Arc<ServerAddress>,
    idle: Arc<IdlePool>,
}

#[derive(Debug)]
struct ServerAddress {
    host: String,
    port: u16,
    /// The value of the `Host` header.
    host_header: HeaderValue,
    connect_timeout: Duration,
}

impl LocalClient {
    /// A client for a name or an address, with or without the brackets of a URL; nothing is sent yet. An idle
    /// connection is kept for `keep`; if that is zero, each connection is used once.
    pub fn new(
        host: &str,
        port: u16,
        connect_timeout: Duration,
        keep: Duration,
    ) -> Result<LocalClient, HttpError> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let bracketed = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let host_header = if port == 80 { bracketed } else { format!("{bracketed}:{port}") };
        let host_header = HeaderValue::from_str(&host_header).map_err(HttpError::from_error)?;
        let address = ServerAddress { host: host.to_owned(), port, host_header, connect_timeout };
        Ok(LocalClient { address: Arc::new(address), idle: Arc::new(IdlePool::new(keep)) })
    }

    /// Sends a request, and waits for the head of the response. `path` may have a query.
    pub async fn send(
        &self,
        method: Method,
        path: Uri,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<HttpResponse, HttpError> {
        self.send_if(method, path, headers, body, || std::future::ready(true)).await
    }

    /// Sends a request if `is_permitted` still says so once there is a connection, and waits for the head of the
    /// response.
    pub async fn send_if<F: Future<Output = bool>>(
        &self,
        method: Method,
        path: Uri,
        mut headers: HeaderMap,
        body: Vec<u8>,
        is_permitted: impl Fn() -> F,
    ) -> Result<HttpResponse, HttpError> {
        headers.insert(HOST, self.address.host_header.clone());
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        *request.uri_mut() = path;
        *request.headers_mut() = headers;
        loop {
            let (mut connection, is_fresh) = match self.idle.take() {
                Some(connection) => (connection, false),
                None => (ClientConnection::handshake(self.connect().await?).await?, true),
            };
            if !is_permitted().await {
                let cause = "it may not be sent any more".to_owned();
                return Err(HttpError { is_connect: true, is_timeout: false, cause });
            }
            match connection.send(request).await {
                Ok(response) => {
                    let (head, body) = response.into_parts();
                    let (status, headers) = (head.status, head.headers);
                    let body = Some(BodyReader { connection, body, idle: self.idle.clone() });
                    return Ok(HttpResponse { status, headers, body });
                }
                Err(SendError { request: Some(unsent), .. }) if !is_fresh => request = unsent,
                Err(SendError { error, .. }) => return Err(error),
            }
        }
    }

    /// Connects. A name may stand for several addresses, of which some lead nowhere: each has its share of the time.
    async fn connect(&self) -> Result<TcpStream, HttpError> {
        let ServerAddress { host, port, connect_timeout, .. } = &*self.address;
        let late = || HttpError {
            is_connect: true,
            is_timeout: true,
            cause: "there was no connection in time".to_owned(),
        };
        let unreached = |error| HttpError { is_connect: true, ..HttpError::from_error(error) };
        let lookup =
            timeout(*connect_timeout, lookup_host((host.as_str(), *port))).await.map_err(|_| late())?;
        let addresses: Vec<SocketAddr> = lookup.map_err(unreached)?.collect();
        let share = *connect_timeout / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
        let mut last = late();
        for address in addresses {
            match timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Ok(Err(error)) => last = unreached(error),
                Err(_) => last = late(),
            }
        }
        Err(last)
    }
}

/// The request target (path and query) of an address whose parts are known to be well written.
pub fn request_target(path: &str, query: Option<&str>) -> Result<Uri, HttpError> {
    let parsed = match query {
        Some(query) => format!("{path}?{query}").parse(),
        None => path.parse(),
    };
    parsed.map_err(HttpError::from_error)
}

/// A response whose head has arrived.
#[derive(Debug)]
pub struct HttpResponse {
    status: StatusCode,
    headers: HeaderMap,
    /// None once the body has ended.
    body: Option<BodyReader>,
}

#[derive(Debug)]
struct BodyReader {
    connection: ClientConnection,
    body: Incoming,
    idle: Arc<IdlePool>,
}

impl HttpResponse {
    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The headers, so that the caller can drop them. They share a buffer with the body, and hyper uses that buffer
    /// again only once they are gone.
    pub fn headers_mut(&mut self) -> &mut HeaderMap {
        &mut self.headers
    }

    /// The next bytes of the body; none at its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        let Some(BodyReader { connection, body, .. }) = &mut self.body else { return Ok(None) };
        match connection.read(body).await {
            Some(Ok(bytes)) => Ok(Some(bytes)),
            Some(Err(error)) => {
                self.body = None;
                Err(HttpError::from_error(error))
            }
            None => {
                if let Some(BodyReader { connection, idle, .. }) = self.body.take() {
                    idle.put(connection);
                }
                Ok(None)
            }
        }
    }
}

/// Why there is no response, or no more of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpError {
    /// Whether there was no connection yet, so that nothing was sent.
    pub is_connect: bool,
    /// Whether time was up.
    pub is_timeout: bool,
    /// The message of the innermost error.
    pub cause: String,
}

impl HttpError {
    /// An error on an open connection, or before the first attempt to connect.
    fn from_error(error: impl Error + 'static) -> HttpError {
        let innermost = innermost(&error);
        let is_late = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
        let is_timeout = innermost.downcast_ref::<io::Error>().is_some_and(is_late);
        HttpError { is_connect: false, is_timeout, cause: innermost.to_string() }
    }
}

/// The innermost cause of an error. The outer layers only say that there is one.
pub fn innermost<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_header_is_written_as_in_a_url() {
        let table = [
            ("localhost", 80, "localhost", "localhost"),
            ("localhost", 8080, "localhost", "localhost:8080"),
            ("127.0.0.1", 80, "127.0.0.1", "127.0.0.1"),
            ("[::1]", 8080, "::1", "[::1]:8080"),
            ("::1", 80, "::1", "[::1]"),
        ];
        for (host, port, looked_up, header) in table {
            let server = LocalClient::new(host, port, Duration::ZERO, Duration::ZERO);
            let names = server.map(|it| (it.address.host.clone(), it.address.host_header.clone()));
            assert_eq!(names, Ok((looked_up.to_owned(), HeaderValue::from_static(header))));
        }
    }
}
