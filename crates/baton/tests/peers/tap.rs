//! A wire between Baton and a peer that keeps all bytes that go over it, unchanged.
//!
//! It shows the exact requests, where a peer's own record of them is shortened, and the exact answers, where Baton
//! rightly does not print them.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use crate::peer::Peer;

/// The wire.
pub(crate) struct Tap {
    address: String,
    wire: Arc<Wire>,
}

#[derive(Default)]
struct Wire {
    /// The bytes of the request and of the answer, one pair a connection.
    kept: Mutex<Vec<[Vec<u8>; 2]>>,
    late: bool,
}

impl Tap {
    /// A wire to this peer.
    pub(crate) fn to(peer: &Peer) -> Tap {
        Tap::with(peer, false)
    }

    /// A wire over which the news that the peer has closed a connection always comes too late: with the next request.
    pub(crate) fn late(peer: &Peer) -> Tap {
        Tap::with(peer, true)
    }

    fn with(peer: &Peer, late: bool) -> Tap {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (wire, peer) = (Arc::new(Wire { late, ..Wire::default() }), peer.address().to_owned());
        let kept = Arc::clone(&wire);
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(&peer) else { continue };
                kept.join(near, far);
            }
        });
        Tap { address, wire }
    }

    /// The URL at which Baton finds the peer.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests so far: path and body.
    pub(crate) fn requests(&self) -> Vec<(String, Value)> {
        let kept = self.wire.kept.lock().unwrap();
        kept.iter().flat_map(|[asked, _]| requests(asked)).collect()
    }

    /// All answers so far, of all connections.
    pub(crate) fn answered(&self) -> String {
        let kept = self.wire.kept.lock().unwrap();
        kept.iter().map(|[_, answered]| String::from_utf8_lossy(answered)).collect()
    }
}

impl Wire {
    /// Carries bytes both ways until one side has no more.
    fn join(self: &Arc<Wire>, near: TcpStream, far: TcpStream) {
        let connection = {
            let mut kept = self.kept.lock().unwrap();
            kept.push(Default::default());
            kept.len() - 1
        };
        let ends = [(near.try_clone(), far.try_clone()), (Ok(far), Ok(near))];
        let closed = Arc::new(AtomicBool::new(false));
        for (side, (from, to)) in ends.into_iter().enumerate() {
            let (wire, closed, from, to) =
                (Arc::clone(self), Arc::clone(&closed), from.unwrap(), to.unwrap());
            thread::spawn(move || wire.carry(connection, side, &closed, from, to));
        }
    }

    fn carry(
        &self,
        connection: usize,
        side: usize,
        closed: &AtomicBool,
        mut from: TcpStream,
        mut to: TcpStream,
    ) {
        let mut piece = [0; 4096];
        while let Ok(read) = from.read(&mut piece) {
            if read == 0 || closed.load(Ordering::SeqCst) || to.write_all(&piece[..read]).is_err() {
                break;
            }
            self.kept.lock().unwrap()[connection][side].extend_from_slice(&piece[..read]);
        }
        // The first side to close has closed for both: a peer sees that Baton has gone. Baton may have to find out.
        if !closed.swap(true, Ordering::SeqCst) && self.late && side == 1 {
            return;
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    }
}

/// The requests on one connection.
fn requests(mut bytes: &[u8]) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    while let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
        let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
        });
        let body = &bytes[at + 4..][..length.unwrap_or(0)];
        found.push((path, serde_json::from_slice(body).unwrap_or(Value::Null)));
        bytes = &bytes[at + 4 + body.len()..];
    }
    found
}
