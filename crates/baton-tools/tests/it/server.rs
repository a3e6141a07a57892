//! Small servers for tests: one with scripted responses, and one that no request should reach.

use std::net::{IpAddr, SocketAddr, TcpListener as Listener};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A scripted response.
pub(crate) struct CannedResponse {
    bytes: Vec<u8>,
    /// Whether the connection then stays open until the client has had enough.
    stays: bool,
}

impl CannedResponse {
    /// A whole answer.
    pub(crate) fn new(status: &str, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> CannedResponse {
        let body = body.as_ref();
        let mut head =
            format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n", body.len());
        headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
        let mut bytes = format!("{head}\r\n").into_bytes();
        bytes.extend_from_slice(body);
        CannedResponse { bytes, stays: false }
    }

    pub(crate) fn page(content_type: &str, body: impl AsRef<[u8]>) -> CannedResponse {
        CannedResponse::new("200 OK", &[("Content-Type", content_type)], body)
    }

    pub(crate) fn redirect(to: &str) -> CannedResponse {
        CannedResponse::new("302 Found", &[("Location", to)], "")
    }

    /// Bytes as they are, and then nothing more.
    pub(crate) fn and_silence(bytes: impl AsRef<[u8]>) -> CannedResponse {
        CannedResponse { bytes: bytes.as_ref().to_vec(), stays: true }
    }

    /// Bytes as they are, and then the end.
    pub(crate) fn and_end(bytes: impl AsRef<[u8]>) -> CannedResponse {
        CannedResponse { bytes: bytes.as_ref().to_vec(), stays: false }
    }
}

/// A server on loopback. It ends with the test's runtime.
pub(crate) struct FakeServer {
    pub(crate) address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl FakeServer {
    /// Answers each request by its path and query.
    pub(crate) async fn start(answer: impl Fn(&str) -> CannedResponse + Send + Sync + 'static) -> FakeServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = FakeServer { address: listener.local_addr().unwrap(), requests: Arc::default() };
        let (requests, answer) = (Arc::clone(&server.requests), Arc::new(answer));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (requests, answer) = (Arc::clone(&requests), Arc::clone(&answer));
                tokio::spawn(async move { serve(stream, &requests, &*answer).await });
            }
        });
        server
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn at(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// All that was asked so far: head and body.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// The first lines of all requests so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.requests().iter().map(|request| request.lines().next().unwrap().to_owned()).collect()
    }
}

async fn serve(
    mut stream: TcpStream,
    requests: &Mutex<Vec<String>>,
    answer: &(impl Fn(&str) -> CannedResponse + ?Sized),
) {
    let mut bytes = Vec::new();
    while !is_whole(&bytes) {
        // A client that speaks TLS, or goes away, is none of ours.
        if !matches!(stream.read_buf(&mut bytes).await, Ok(1..)) || bytes[0] == 0x16 {
            return;
        }
    }
    let request = String::from_utf8(bytes).unwrap();
    let path = request.split(' ').nth(1).unwrap().to_owned();
    requests.lock().unwrap().push(request);
    let answer = answer(&path);
    // A client that has enough may hang up before the end.
    let _ = stream.write_all(&answer.bytes).await;
    if answer.stays {
        let _ = stream.read(&mut [0]).await;
    }
    let _ = stream.shutdown().await;
}

fn is_whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    body.len() >= length.unwrap_or(0)
}

/// A listener that counts connections. A connection to loopback is in its queue before the client knows of it, so
/// no connection is missed.
pub(crate) struct Canary {
    listeners: Vec<Listener>,
    pub(crate) port: u16,
}

impl Canary {
    /// On every loopback address that the system has.
    pub(crate) fn start() -> Canary {
        let first = Listener::bind("127.0.0.1:0").unwrap();
        let port = first.local_addr().unwrap().port();
        let more = ["::1", "127.0.0.2", "127.0.1.1", "127.1.2.3"];
        let more = more.into_iter().filter_map(|at| Canary::listen(at.parse().unwrap(), port));
        Canary { listeners: [first].into_iter().chain(more).collect(), port }
    }

    /// On another loopback address than the first, at the port of another server; where the system has one.
    pub(crate) fn beside(port: u16) -> Option<(Canary, IpAddr)> {
        let at = ["127.0.0.2", "::1"].map(|at| at.parse().unwrap());
        at.into_iter().find_map(|at| {
            let listeners = vec![Canary::listen(at, port)?];
            Some((Canary { listeners, port }, at))
        })
    }

    fn listen(at: IpAddr, port: u16) -> Option<Listener> {
        Listener::bind(SocketAddr::new(at, port)).ok()
    }

    /// The number of connections since the last call.
    pub(crate) fn reached(&self) -> usize {
        let mut count = 0;
        for listener in &self.listeners {
            listener.set_nonblocking(true).unwrap();
            while listener.accept().is_ok() {
                count += 1;
            }
        }
        count
    }
}
