//! Requests to a server that does exactly what it is told, over real sockets. Nothing is waited for by the clock: what
//! does not come leaves a test hanging, and the test runner ends it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use baton_http::{Answer, Broken, Server, target};
use hyper::Method;
use hyper::header::{HeaderMap, HeaderValue};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const LONG: Duration = Duration::from_secs(60);
const SHORT: &str = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
const LASTS: &str = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n";

/// The other side.
struct Listener(TcpListener);

impl Listener {
    async fn new() -> Listener {
        Listener(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    /// The server as it is asked, whose connections are kept so long.
    fn kept(&self, keep: Duration) -> Server {
        Server::new("127.0.0.1", self.port(), LONG, keep).unwrap()
    }

    async fn accept(&self) -> Peer {
        Peer(self.0.accept().await.unwrap().0)
    }

    /// A request on a new connection, and its answer in pieces.
    async fn first(&self, server: &Server, says: &[&str]) -> (Result<Answer, Broken>, Peer) {
        tokio::join!(ask(server), async {
            let mut peer = self.accept().await;
            peer.asked().await;
            peer.say(says).await;
            peer
        })
    }
}

/// One connection, from the other side.
struct Peer(TcpStream);

impl Peer {
    /// The next request, which has a body of two bytes.
    async fn asked(&mut self) -> String {
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\nhi") {
            asked.push(self.0.read_u8().await.unwrap());
        }
        String::from_utf8(asked).unwrap()
    }

    async fn say(&mut self, pieces: &[&str]) {
        for piece in pieces {
            self.0.write_all(piece.as_bytes()).await.unwrap();
        }
    }

    /// Waits until the client has closed it.
    async fn closed(&mut self) {
        assert!(matches!(self.0.read(&mut [0; 64]).await, Ok(0) | Err(_)), "there is another request");
    }

    /// A request that comes on this connection, and its answer.
    async fn next(&mut self, server: &Server, says: &[&str]) -> Result<Answer, Broken> {
        let asked = async {
            self.asked().await;
            self.say(says).await;
        };
        tokio::join!(ask(server), asked).0
    }
}

async fn ask(server: &Server) -> Result<Answer, Broken> {
    let mut headers = HeaderMap::new();
    headers.insert("x-key", HeaderValue::from_static("k"));
    server.send(Method::POST, target("/ask", Some("a=1")).unwrap(), headers, b"hi".to_vec()).await
}

/// Somebody may lose the right to ask while there is no connection yet, or between two requests on one.
#[tokio::test]
async fn what_may_not_be_sent_any_more_is_not_sent() {
    let listener = Listener::new().await;
    let server = listener.kept(LONG);
    let refused = |server: Server| async move {
        let path = target("/ask", None).unwrap();
        let may = || std::future::ready(false);
        server.send_if(Method::POST, path, HeaderMap::new(), b"hi".to_vec(), may).await.map(|_| ())
    };
    let told =
        Broken { is_connect: true, is_timeout: false, cause: "it may not be sent any more".to_owned() };
    let (answer, mut peer) = tokio::join!(refused(server.clone()), listener.accept());
    assert_eq!(answer, Err(told.clone()));
    peer.closed().await;
    let (answer, mut peer) = listener.first(&server, &[SHORT]).await;
    assert_eq!(whole(answer).await, hello());
    assert_eq!(refused(server.clone()).await, Err(told));
    peer.closed().await;
}

async fn whole(answer: Result<Answer, Broken>) -> Result<String, Broken> {
    let (mut answer, mut all) = (answer?, Vec::new());
    while let Some(bytes) = answer.chunk().await? {
        all.extend_from_slice(&bytes);
    }
    Ok(String::from_utf8(all).unwrap())
}

fn hello() -> Result<String, Broken> {
    Ok("hello".to_owned())
}

#[tokio::test]
async fn a_request_says_what_it_should_and_an_answer_comes_in_pieces() {
    let listener = Listener::new().await;
    let server = listener.kept(LONG);
    let (answer, mut peer) = tokio::join!(ask(&server), async {
        let mut peer = listener.accept().await;
        let expected = format!(
            "POST /ask?a=1 HTTP/1.1\r\nx-key: k\r\nhost: 127.0.0.1:{}\r\ncontent-length: 2\r\n\r\nhi",
            listener.port()
        );
        assert_eq!(peer.asked().await, expected);
        peer.say(&["HTTP/1.1 418 Short\r\nTransfer-Encoding: chunked\r\nx-told: yes\r\n\r\n"]).await;
        peer
    });
    let mut answer = answer.unwrap();
    assert_eq!(answer.status().as_u16(), 418);
    let headers: Vec<(&str, &[u8])> =
        answer.headers().iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
    assert_eq!(headers, [("transfer-encoding", &b"chunked"[..]), ("x-told", b"yes")]);
    for piece in ["one", "two"] {
        peer.say(&["3\r\n", piece, "\r\n"]).await;
        assert_eq!(answer.chunk().await.unwrap().unwrap(), piece.as_bytes());
    }
    peer.say(&["0\r\n\r\n"]).await;
    assert_eq!(answer.chunk().await, Ok(None));
    assert_eq!(answer.chunk().await, Ok(None), "the end stays the end");
}

#[tokio::test]
async fn a_name_of_this_machine_is_found() {
    let listener = Listener::new().await;
    let server = Server::new("localhost", listener.port(), LONG, LONG).unwrap();
    assert_eq!(whole(listener.first(&server, &[SHORT]).await.0).await, hello());
}

#[tokio::test]
async fn a_connection_whose_answer_was_read_to_its_end_is_used_again() {
    let listener = Listener::new().await;
    let server = listener.kept(LONG);
    let (answer, mut peer) = listener.first(&server, &[SHORT]).await;
    assert_eq!(whole(answer).await, hello());
    let answers = [
        (&[LASTS, "0\r\n\r\n"][..], "one"),
        (&["HTTP/1.1 204 No\r\n\r\n"], ""),
        (&["HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"], ""),
        (&[SHORT], "hello"),
    ];
    for (says, expected) in answers {
        assert_eq!(whole(peer.next(&server, says).await).await, Ok(expected.to_owned()));
    }
}

#[tokio::test]
async fn two_requests_at_a_time_have_two_connections_and_both_are_used_again() {
    let listener = Listener::new().await;
    let server = listener.kept(LONG);
    let (first, mut one) = listener.first(&server, &[LASTS]).await;
    let (second, mut two) = listener.first(&server, &[LASTS]).await;
    for (answer, peer) in [(first, &mut one), (second, &mut two)] {
        peer.say(&["0\r\n\r\n"]).await;
        assert_eq!(whole(answer).await, Ok("one".to_owned()));
    }
    // What was laid down last is used first.
    let again = two.next(&server, &[LASTS]).await;
    assert_eq!(whole(one.next(&server, &[SHORT]).await).await, hello());
    two.say(&["0\r\n\r\n"]).await;
    assert_eq!(whole(again).await, Ok("one".to_owned()));
}

#[tokio::test]
async fn an_answer_that_is_dropped_closes_its_connection() {
    let listener = Listener::new().await;
    let server = listener.kept(LONG);
    let (answer, mut peer) = listener.first(&server, &[LASTS]).await;
    let mut answer = answer.unwrap();
    assert_eq!(answer.chunk().await.unwrap().unwrap(), "one");
    drop(answer);
    peer.closed().await;
    assert_eq!(whole(listener.first(&server, &[SHORT]).await.0).await, hello());
}

#[tokio::test]
async fn a_request_that_is_dropped_closes_its_connection() {
    let listener = Listener::new().await;
    let server = listener.kept(LONG);
    let mut peer = tokio::select! {
        biased;
        _ = ask(&server) => panic!("nobody answered"),
        peer = async {
            let mut peer = listener.accept().await;
            peer.asked().await;
            peer
        } => peer,
    };
    peer.closed().await;
}

#[tokio::test]
async fn a_connection_that_the_server_closed_while_it_rested_costs_no_request() {
    let listener = Listener::new().await;
    let server = listener.kept(LONG);
    for _ in 0..3 {
        let (answer, peer) = listener.first(&server, &[SHORT]).await;
        assert_eq!(whole(answer).await, hello());
        drop(peer);
        tokio::task::yield_now().await; // only then is anybody told of it
    }
}

#[tokio::test]
async fn who_says_that_it_closes_is_believed() {
    let listener = Listener::new().await;
    let server = listener.kept(LONG);
    let closes = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello";
    let (answer, mut peer) = listener.first(&server, &[closes]).await;
    assert_eq!(whole(answer).await, hello());
    peer.closed().await;
    let (answer, peer) = listener.first(&server, &["HTTP/1.0 200 OK\r\n\r\nhel", "lo"]).await;
    drop(peer);
    assert_eq!(whole(answer).await, hello(), "what has no length ends with its connection");
}

#[tokio::test]
async fn a_connection_that_nobody_uses_is_closed_in_time_or_at_once() {
    let listener = Listener::new().await;
    for keep in [Duration::ZERO, Duration::from_millis(20)] {
        let server = listener.kept(keep);
        let (answer, mut peer) = listener.first(&server, &[SHORT]).await;
        assert_eq!(whole(answer).await, hello());
        peer.closed().await;
    }
}

#[tokio::test]
async fn who_is_not_there_was_sent_nothing() {
    let listener = Listener::new().await;
    let server = listener.kept(LONG);
    drop(listener);
    let cause = "Connection refused (os error 111)".to_owned();
    assert_eq!(ask(&server).await.unwrap_err(), Broken { is_connect: true, is_timeout: false, cause });
}

#[tokio::test]
async fn who_hangs_up_is_told_apart_from_who_is_not_there() {
    let listener = Listener::new().await;
    let server = listener.kept(LONG);
    let (answer, peer) = tokio::join!(ask(&server), async {
        let mut peer = listener.accept().await;
        peer.asked().await;
    });
    let cause = "connection closed before message completed".to_owned();
    assert_eq!(answer.unwrap_err(), Broken { is_connect: false, is_timeout: false, cause });
    let () = peer;

    let (answer, peer) = listener.first(&server, &[LASTS]).await;
    drop(peer);
    let mut answer = answer.unwrap();
    assert_eq!(answer.chunk().await.unwrap().unwrap(), "one");
    let cause = "unexpected EOF during chunk size line".to_owned();
    assert_eq!(answer.chunk().await, Err(Broken { is_connect: false, is_timeout: false, cause }));
}

#[tokio::test]
async fn what_is_no_http_is_refused() {
    let listener = Listener::new().await;
    let server = listener.kept(LONG);
    let (answer, _) = listener.first(&server, &["SSH-2.0-OpenSSH\r\n\r\n"]).await;
    let cause = "invalid HTTP version parsed".to_owned();
    assert_eq!(answer.unwrap_err(), Broken { is_connect: false, is_timeout: false, cause });
}

/// Pieces that come while they are read, from another thread: whoever waits is woken for each, or hangs here.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_piece_is_missed_however_they_come() {
    let listener = Listener::new().await;
    let server = listener.kept(LONG);
    let pieces: Vec<String> = (0..2000).map(|n| "x".repeat(1 + n * 7919 % 97)).collect();
    let speaking = tokio::spawn({
        let pieces = pieces.clone();
        async move {
            for _ in 0..8 {
                let (mut peer, pieces) = (listener.accept().await, pieces.clone());
                tokio::spawn(async move {
                    peer.asked().await;
                    peer.say(&["HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"]).await;
                    for piece in &pieces {
                        peer.say(&[&format!("{:x}\r\n{piece}\r\n", piece.len())]).await;
                        tokio::task::yield_now().await;
                    }
                    peer.say(&["0\r\n\r\n"]).await;
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

/// A body that is always there must not keep others of the same thread from their turn for ever.
#[tokio::test]
async fn a_long_answer_is_read_to_its_end_and_others_get_their_turn() {
    let listener = Listener::new().await;
    let server = listener.kept(LONG);
    let long = "y".repeat(8 << 20);
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", long.len());
    let (read, ()) = tokio::join!(async { whole(ask(&server).await).await }, async {
        let mut peer = listener.accept().await;
        peer.asked().await;
        peer.say(&[&head, &long]).await;
    });
    assert_eq!(read.unwrap().len(), long.len());
}
