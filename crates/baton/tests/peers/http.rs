//! The few plain requests that tests make to a peer themselves. Version 1.0, so that an answer comes in one piece.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;

use crate::peer::{PATIENCE, Peer};

/// The document at a path.
pub(crate) fn get(peer: &Peer, path: &str) -> Value {
    let mut stream = TcpStream::connect(peer.address()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nhost: {}\r\n\r\n", peer.address()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains(" 200 "), "{answer}");
    serde_json::from_str(body).unwrap()
}
