//! Requests to a scripted server, over real sockets. No test waits by the clock: bytes that do not come leave a test
//! hanging, and the test runner ends it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use baton_http::{HttpError, HttpResponse, LocalClient, request_target};
use hyper::Method;
use hyper::header::{HeaderMap, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const LONG: Duration = Duration::from_secs(60);
const SHORT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
const CHUNKED: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n";

/// A server of which the test plays every byte.
struct TestServer(TcpListener);

impl TestServer {
    async fn new() -> TestServer {
        TestServer(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    /// A client that keeps its idle connections for `keep`.
    fn client(&self, keep: Duration) -> LocalClient {
        LocalClient::new("127.0.0.1", self.port(), LONG, keep).unwrap()
    }

    async fn accept(&self) -> ServerSide {
        ServerSide(self.0.accept().await.unwrap().0)
    }

    /// Makes a request on a new connection and answers it with `pieces`.
    async fn answer_first(
        &self,
        server: &LocalClient,
        pieces: &[&str],
    ) -> (Result<HttpResponse, HttpError>, ServerSide) {
        tokio::join!(ask(server), async {
            let mut peer = self.accept().await;
            peer.request().await;
            peer.send(pieces).await;
            peer
        })
    }
}

/// The server's side of one connection.
struct ServerSide(TcpStream);

impl ServerSide {
    /// The next request, which has a body of two bytes.
    async fn request(&mut self) -> String {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\nhi") {
            request.push(self.0.read_u8().await.unwrap());
        }
        String::from_utf8(request).unwrap()
    }

    async fn send(&mut self, pieces: &[&str]) {
        for piece in pieces {
            self.0.write_all(piece.as_bytes()).await.unwrap();
        }
    }

    /// Waits until the client has closed it.
    async fn closed(&mut self) {
        assert!(matches!(self.0.read(&mut [0; 64]).await, Ok(0) | Err(_)), "there is another request");
    }

    /// Makes a request that has to come on this connection, and answers it with `pieces`.
    async fn answer_next(
        &mut self,
        server: &LocalClient,
        pieces: &[&str],
    ) -> Result<HttpResponse, HttpError> {
        let answered = async {
            self.request().await;
            self.send(pieces).await;
        };
        tokio::join!(ask(server), answered).0
    }
}

async fn ask(server: &LocalClient) -> Result<HttpResponse, HttpError> {
    let mut headers = HeaderMap::new();
    headers.insert("x-key", HeaderValue::from_static("k"));
    server.send(Method::POST, request_target("/ask", Some("a=1")).unwrap(), headers, b"hi".to_vec()).await
}

/// A caller may lose the right to ask while there is no connection yet, or between two requests on one.
#[tokio::test]
async fn a_request_that_is_no_longer_permitted_is_not_sent() {
    let listener = TestServer::new().await;
    let server = listener.client(LONG);
    let refused = |server: LocalClient| async move {
        let path = request_target("/ask", None).unwrap();
        let is_permitted = || std::future::ready(false);
        server.send_if(Method::POST, path, HeaderMap::new(), b"hi".to_vec(), is_permitted).await.map(|_| ())
    };
    let error =
        HttpError { is_connect: true, is_timeout: false, cause: "it may not be sent any more".to_owned() };
    let (answer, mut peer) = tokio::join!(refused(server.clone()), listener.accept());
    assert_eq!(answer, Err(error.clone()));
    peer.closed().await;
    let (answer, mut peer) = listener.answer_first(&server, &[SHORT]).await;
    assert_eq!(whole(answer).await, hello());
    assert_eq!(refused(server.clone()).await, Err(error));
    peer.closed().await;
}

async fn whole(answer: Result<HttpResponse, HttpError>) -> Result<String, HttpError> {
    let (mut answer, mut all) = (answer?, Vec::new());
    while let Some(bytes) = answer.chunk().await? {
        all.extend_from_slice(&bytes);
    }
    Ok(String::from_utf8(all).unwrap())
}

fn hello() -> Result<String, HttpError> {
    Ok("hello".to_owned())
}

#[tokio::test]
async fn a_request_is_written_as_given_and_a_response_is_read_in_chunks() {
    let listener = TestServer::new().await;
    let server = listener.client(LONG);
    let (answer, mut peer) = tokio::join!(ask(&server), async {
        let mut peer = listener.accept().await;
        let expected = format!(
            "POST /ask?a=1 HTTP/1.1\r\nx-key: k\r\nhost: 127.0.0.1:{}\r\ncontent-length: 2\r\n\r\nhi",
            listener.port()
        );
        assert_eq!(peer.request().await, expected);
        peer.send(&["HTTP/1.1 418 Short\r\nTransfer-Encoding: chunked\r\nx-told: yes\r\n\r\n"]).await;
        peer
    });
    let mut answer = answer.unwrap();
    assert_eq!(answer.status().as_u16(), 418);
    let headers: Vec<(&str, &[u8])> =
        answer.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    assert_eq!(headers, [("transfer-encoding", &b"chunked"[..]), ("x-told", b"yes")]);
    for piece in ["one", "two"] {
        peer.send(&["3\r\n", piece, "\r\n"]).await;
        assert_eq!(answer.chunk().await.unwrap().unwrap(), piece.as_bytes());
    }
    peer.send(&["0\r\n\r\n"]).await;
    assert_eq!(answer.chunk().await, Ok(None));
    assert_eq!(answer.chunk().await, Ok(None), "the end stays the end");
}

#[tokio::test]
async fn a_host_name_of_this_machine_is_resolved() {
    let listener = TestServer::new().await;
    let server = LocalClient::new("localhost", listener.port(), LONG, LONG).unwrap();
    assert_eq!(whole(listener.answer_first(&server, &[SHORT]).await.0).await, hello());
}

#[tokio::test]
async fn a_connection_whose_response_was_read_to_its_end_is_used_again() {
    let listener = TestServer::new().await;
    let server = listener.client(LONG);
    let (answer, mut peer) = listener.answer_first(&server, &[SHORT]).await;
    assert_eq!(whole(answer).await, hello());
    let answers = [
        (&[CHUNKED, "0\r\n\r\n"][..], "one"),
        (&["HTTP/1.1 204 No\r\n\r\n"], ""),
        (&["HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"], ""),
        (&[SHORT], "hello"),
    ];
    for (pieces, expected) in answers {
        assert_eq!(whole(peer.answer_next(&server, pieces).await).await, Ok(expected.to_owned()));
    }
}

#[tokio::test]
async fn two_requests_at_a_time_have_two_connections_and_both_are_used_again() {
    let listener = TestServer::new().await;
    let server = listener.client(LONG);
    let (first, mut one) = listener.answer_first(&server, &[CHUNKED]).await;
    let (second, mut two) = listener.answer_first(&server, &[CHUNKED]).await;
    for (answer, peer) in [(first, &mut one), (second, &mut two)] {
        peer.send(&["0\r\n\r\n"]).await;
        assert_eq!(whole(answer).await, Ok("one".to_owned()));
    }
    // The connection that was used last is taken first.
    let again = two.answer_next(&server, &[CHUNKED]).await;
    assert_eq!(whole(one.answer_next(&server, &[SHORT]).await).await, hello());
    two.send(&["0\r\n\r\n"]).await;
    assert_eq!(whole(again).await, Ok("one".to_owned()));
}

#[tokio::test]
async fn a_response_that_is_dropped_closes_its_connection() {
    let listener = TestServer::new().await;
    let server = listener.client(LONG);
    let (answer, mut peer) = listener.answer_first(&server, &[CHUNKED]).await;
    let mut answer = answer.unwrap();
    assert_eq!(answer.chunk().await.unwrap().unwrap(), "one");
    drop(answer);
    peer.closed().await;
    assert_eq!(whole(listener.answer_first(&server, &[SHORT]).await.0).await, hello());
}

#[tokio::test]
async fn a_request_that_is_dropped_closes_its_connection() {
    let listener = TestServer::new().await;
    let server = listener.client(LONG);
    let mut peer = tokio::select! {
        biased;
        _ = ask(&server) => panic!("there was no answer"),
        peer = async {
            let mut peer = listener.accept().await;
            peer.request().await;
            peer
        } => peer,
    };
    peer.closed().await;
}

#[tokio::test]
async fn a_connection_that_the_server_closed_while_idle_costs_no_request() {
    let listener = TestServer::new().await;
    let server = listener.client(LONG);
    for _ in 0..3 {
        let (answer, peer) = listener.answer_first(&server, &[SHORT]).await;
        assert_eq!(whole(answer).await, hello());
        drop(peer);
        tokio::task::yield_now().await; // only then the runtime sees that it is closed
    }
}

#[tokio::test]
async fn a_connection_that_the_server_ends_is_not_used_again() {
    let listener = TestServer::new().await;
    let server = listener.client(LONG);
    let closes = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello";
    let (answer, mut peer) = listener.answer_first(&server, &[closes]).await;
    assert_eq!(whole(answer).await, hello());
    peer.closed().await;
    let (answer, peer) = listener.answer_first(&server, &["HTTP/1.0 200 OK\r\n\r\nhel", "lo"]).await;
    drop(peer);
    assert_eq!(whole(answer).await, hello(), "a body without a length ends with its connection");
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_time_or_at_once() {
    let listener = TestServer::new().await;
    for keep in [Duration::ZERO, Duration::from_millis(20)] {
        let server = listener.client(keep);
        let (answer, mut peer) = listener.answer_first(&server, &[SHORT]).await;
        assert_eq!(whole(answer).await, hello());
        peer.closed().await;
    }
}

#[tokio::test]
async fn a_refused_connection_is_an_error_before_anything_is_sent() {
    let listener = TestServer::new().await;
    let server = listener.client(LONG);
    drop(listener);
    let cause = "Connection refused (os error 111)".to_owned();
    assert_eq!(ask(&server).await.unwrap_err(), HttpError { is_connect: true, is_timeout: false, cause });
}

#[tokio::test]
async fn a_connection_that_the_server_drops_is_an_error_after_sending() {
    let listener = TestServer::new().await;
    let server = listener.client(LONG);
    let (answer, peer) = tokio::join!(ask(&server), async {
        let mut peer = listener.accept().await;
        peer.request().await;
    });
    let cause = "connection closed before message completed".to_owned();
    assert_eq!(answer.unwrap_err(), HttpError { is_connect: false, is_timeout: false, cause });
    let () = peer;

    let (answer, peer) = listener.answer_first(&server, &[CHUNKED]).await;
    drop(peer);
    let mut answer = answer.unwrap();
    assert_eq!(answer.chunk().await.unwrap().unwrap(), "one");
    let cause = "unexpected EOF during chunk size line".to_owned();
    assert_eq!(answer.chunk().await, Err(HttpError { is_connect: false, is_timeout: false, cause }));
}

#[tokio::test]
async fn a_response_that_is_not_http_is_an_error() {
    let listener = TestServer::new().await;
    let server = listener.client(LONG);
    let (answer, _) = listener.answer_first(&server, &["SSH-2.0-OpenSSH\r\n\r\n"]).await;
    let cause = "invalid HTTP version parsed".to_owned();
    assert_eq!(answer.unwrap_err(), HttpError { is_connect: false, is_timeout: false, cause });
}

/// Chunks that come while they are read, from another thread: the reader is woken for each, or hangs here.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_chunk_is_missed_while_the_server_writes_from_another_thread() {
    let listener = TestServer::new().await;
    let server = listener.client(LONG);
    let pieces: Vec<String> = (0..2000).map(|n| "x".repeat(1 + n * 7919 % 97)).collect();
    let speaking = tokio::spawn({
        let pieces = pieces.clone();
        async move {
            for _ in 0..8 {
                let (mut peer, pieces) = (listener.accept().await, pieces.clone());
                tokio::spawn(async move {
                    peer.request().await;
                    peer.send(&["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"]).await;
                    for piece in &pieces {
                        peer.send(&[&format!("{:x}\r\n{piece}\r\n", piece.len())]).await;
                        tokio::task::yield_now().await;
                    }
                    peer.send(&["0\r\n\r\n"]).await;
                });
            }
        }
    });
    let reading: Vec<_> = (0..8)
        .map(|_| {
            let server = server.clone();
            tokio::spawn(async move { whole(ask(&server).await).await })
        })
        .collect();
    speaking.await.unwrap();
    for read in reading {
        assert_eq!(read.await.unwrap().unwrap(), pieces.concat());
    }
}

/// A body that is always ready must not keep other tasks of the same thread from their turn for ever.
#[tokio::test]
async fn a_long_response_is_read_to_its_end_and_yields_to_other_tasks() {
    let listener = TestServer::new().await;
    let server = listener.client(LONG);
    let long = "y".repeat(8 << 20);
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", long.len());
    let (read, ()) = tokio::join!(async { whole(ask(&server).await).await }, async {
        let mut peer = listener.accept().await;
        peer.request().await;
        peer.send(&[&head, &long]).await;
    });
    assert_eq!(read.unwrap().len(), long.len());
}
