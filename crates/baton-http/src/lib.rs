//! HTTP with a server on this machine, driven by the task that asks.
//!
//! Over plain HTTP to this machine there is no proxy, no certificate and no other version of the protocol: a connection of
//! hyper's is enough. Clients usually give each connection a task of its own; then every piece of an answer goes from task
//! to task, which costs more than reading it. Here a connection belongs to the answer that it carries, and whoever waits for
//! the answer drives it ([`link`]). Between two answers it rests where nobody drives it ([`rest`]), and before it is used
//! again it is looked whether the server has closed it.
//!
//! Dropping a request or an answer closes its connection, unless the answer was read to its end. Nothing is sent twice: a
//! request goes to another connection only if none of it was sent.

mod link;
mod rest;

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

use link::{Link, Refused};
use rest::Resting;

/// A server on this machine, and the connections to it that rest. Clones share them.
#[derive(Debug, Clone)]
pub struct Server {
    it: Arc<Address>,
    resting: Arc<Resting>,
}

#[derive(Debug)]
struct Address {
    host: String,
    port: u16,
    /// As the server is told whom it is.
    named: HeaderValue,
    /// How long connecting may take.
    connect: Duration,
}

impl Server {
    /// The server at a name or an address, as it stands in a URL or without brackets; nothing is sent yet. A connection
    /// that nobody uses is kept for `keep`; if that is no time at all, each is used once.
    pub fn new(host: &str, port: u16, connect: Duration, keep: Duration) -> Result<Server, Broken> {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let shown = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let named = if port == 80 { shown } else { format!("{shown}:{port}") };
        let named = HeaderValue::from_str(&named).map_err(Broken::before)?;
        let it = Arc::new(Address { host: host.to_owned(), port, named, connect });
        Ok(Server { it, resting: Arc::new(Resting::new(keep)) })
    }

    /// Sends a request, and waits for the head of the answer. The address is a path, and perhaps a query.
    pub async fn send(
        &self,
        method: Method,
        path: Uri,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Answer, Broken> {
        self.send_if(method, path, headers, body, || std::future::ready(true)).await
    }

    /// The same, if it may still be sent once there is a connection.
    pub async fn send_if<F: Future<Output = bool>>(
        &self,
        method: Method,
        path: Uri,
        mut headers: HeaderMap,
        body: Vec<u8>,
        may: impl Fn() -> F,
    ) -> Result<Answer, Broken> {
        headers.insert(HOST, self.it.named.clone());
        let mut request = Request::new(Full::new(Bytes::from(body)));
        *request.method_mut() = method;
        *request.uri_mut() = path;
        *request.headers_mut() = headers;
        loop {
            let (mut link, is_fresh) = match self.resting.wake() {
                Some(link) => (link, false),
                None => (Link::over(self.connected().await?).await?, true),
            };
            if !may().await {
                let cause = "it may not be sent any more".to_owned();
                return Err(Broken { is_connect: true, is_timeout: false, cause });
            }
            match link.send(request).await {
                Ok(response) => {
                    let (head, body) = response.into_parts();
                    let (status, headers) = (head.status, head.headers);
                    let reading = Some(Reading { link, body, resting: self.resting.clone() });
                    return Ok(Answer { status, headers, reading });
                }
                Err(Refused { request: Some(unsent), .. }) if !is_fresh => request = unsent,
                Err(Refused { broken, .. }) => return Err(broken),
            }
        }
    }

    /// A name may stand for several addresses, of which some lead nowhere: each has its share of the time.
    async fn connected(&self) -> Result<TcpStream, Broken> {
        let Address { host, port, connect, .. } = &*self.it;
        let late = || Broken {
            is_connect: true,
            is_timeout: true,
            cause: "there was no connection in time".to_owned(),
        };
        let unreached = |error| Broken { is_connect: true, ..Broken::before(error) };
        let found = timeout(*connect, lookup_host((host.as_str(), *port))).await.map_err(|_| late())?;
        let addresses: Vec<SocketAddr> = found.map_err(unreached)?.collect();
        let share = *connect / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
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

/// What a request asks for, from an address whose parts are known to be well written.
pub fn target(path: &str, query: Option<&str>) -> Result<Uri, Broken> {
    let parsed = match query {
        Some(query) => format!("{path}?{query}").parse(),
        None => path.parse(),
    };
    parsed.map_err(Broken::before)
}

/// An answer whose head has arrived.
#[derive(Debug)]
pub struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    /// None once the body has ended.
    reading: Option<Reading>,
}

#[derive(Debug)]
struct Reading {
    link: Link,
    body: Incoming,
    resting: Arc<Resting>,
}

impl Answer {
    /// The status.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The same, to be let go of. They share a buffer with what follows them, which is used again only without them.
    pub fn headers_mut(&mut self) -> &mut HeaderMap {
        &mut self.headers
    }

    /// The next bytes of the body; none at its end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Broken> {
        let Some(Reading { link, body, .. }) = &mut self.reading else { return Ok(None) };
        match link.read(body).await {
            Some(Ok(bytes)) => Ok(Some(bytes)),
            Some(Err(error)) => {
                self.reading = None;
                Err(Broken::before(error))
            }
            None => {
                if let Some(Reading { link, resting, .. }) = self.reading.take() {
                    resting.lay(link);
                }
                Ok(None)
            }
        }
    }
}

/// Why there is no answer, or no more of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Whether there was no connection yet, so that nothing was sent.
    pub is_connect: bool,
    /// Whether time was up.
    pub is_timeout: bool,
    /// In the words of who found it.
    pub cause: String,
}

impl Broken {
    /// With a connection, or before anybody tried to make one.
    fn before(error: impl Error + 'static) -> Broken {
        let innermost = innermost(&error);
        let is_late = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
        let is_timeout = innermost.downcast_ref::<io::Error>().is_some_and(is_late);
        Broken { is_connect: false, is_timeout, cause: innermost.to_string() }
    }
}

/// What an error comes from. The outer layers only say that there is one.
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
    fn a_server_is_told_whom_it_is_as_in_a_url() {
        let table = [
            ("localhost", 80, "localhost", "localhost"),
            ("localhost", 8080, "localhost", "localhost:8080"),
            ("127.0.0.1", 80, "127.0.0.1", "127.0.0.1"),
            ("[::1]", 8080, "::1", "[::1]:8080"),
            ("::1", 80, "::1", "[::1]"),
        ];
        for (host, port, asked, named) in table {
            let server = Server::new(host, port, Duration::ZERO, Duration::ZERO).map(|it| it.it);
            let told = server.map(|it| (it.host.clone(), it.named.clone()));
            assert_eq!(told, Ok((asked.to_owned(), HeaderValue::from_static(named))));
        }
    }
}
