//! A network between Baton and PostgreSQL with faults on demand: it cuts, is silent, slow, or loses answers.
//!
//! The server's output is passed on answer by answer (up to `ReadyForQuery`), so that the answer to a commit can be
//! told from others. It speaks no TLS, and knows no more of the protocol than the end of a message.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::dice::Dice;

/// The state of the network.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Weather {
    /// It works.
    Fine,
    /// Everything takes up to that long.
    Slow { most_ms: u64 },
    /// This share of queries is passed on, and cut off before the answer.
    Hasty { percent: u64 },
    /// This share of commits is made, and cut off before the answer arrives.
    Swallows { percent: u64 },
}

/// The state of one connection.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fate {
    /// It follows the weather.
    Usual,
    /// Nothing passes.
    Mute,
    /// Bytes that were sent meanwhile arrive late, and then it is cut.
    Doomed,
}

/// A network with faults. It ends with the value.
pub(super) struct Proxy {
    /// The address of the database behind it.
    pub(super) url: String,
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    weather: Weather,
    /// Whether new connections are silent, too.
    dark: bool,
    over: bool,
    links: BTreeMap<u64, Link>,
    next: u64,
    dice: Dice,
}

struct Link {
    fate: Fate,
    sockets: [TcpStream; 2],
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl Proxy {
    /// A network before the database at an address.
    pub(super) fn new(url: &str, seed: u64) -> Proxy {
        let (before, rest) = url.split_once("127.0.0.1:").expect("a database on this machine");
        let (server, rest) = rest.split_once('/').expect("its port");
        let server: u16 = server.parse().expect("a port");
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let rest = rest.replace("sslmode=prefer", "sslmode=disable");
        let url = format!("{before}127.0.0.1:{port}/{rest}");
        let (links, dice) = (BTreeMap::new(), Dice::new(seed, 0));
        let state = State { weather: Weather::Fine, dark: false, over: false, links, next: 0, dice };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let accepting = shared.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if accepting.lock().over {
                    return;
                }
                // A server that is away refuses connections: so does the network before it.
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)) {
                    join(&accepting, client, server);
                }
            }
        });
        Proxy { url, port, shared }
    }

    /// Changes the state of the network.
    pub(super) fn weather(&self, weather: Weather) {
        self.shared.lock().weather = weather;
    }

    /// Cuts every connection.
    pub(super) fn cut(&self) {
        self.shared.lock().links.values().for_each(Link::cut);
    }

    /// Drops everything from now on, without closing a connection.
    pub(super) fn go_dark(&self) {
        self.shared.lock().dark = true;
        self.forget_connections();
    }

    /// Drops everything on the present connections; new ones work.
    pub(super) fn forget_connections(&self) {
        self.turn(Fate::Usual, Fate::Mute);
    }

    /// New connections work again. Silent ones deliver what was sent, and break.
    pub(super) fn heal(&self) {
        self.shared.lock().dark = false;
        self.turn(Fate::Mute, Fate::Doomed);
    }

    fn turn(&self, from: Fate, into: Fate) {
        let mut state = self.shared.lock();
        state.links.values_mut().filter(|link| link.fate == from).for_each(|link| link.fate = into);
        self.shared.changed.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.lock().over = true;
        self.cut();
        self.heal();
        let _ = TcpStream::connect(("127.0.0.1", self.port)); // wakes the thread that waits for connections
    }
}

impl Link {
    fn cut(&self) {
        for socket in &self.sockets {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

fn join(shared: &Arc<Shared>, client: TcpStream, server: TcpStream) {
    let (Ok(client_too), Ok(server_too)) = (client.try_clone(), server.try_clone()) else { return };
    let id = {
        let mut state = shared.lock();
        state.next += 1;
        let fate = if state.dark { Fate::Mute } else { Fate::Usual };
        let sockets = [client_too, server_too];
        let id = state.next;
        state.links.insert(id, Link { fate, sockets });
        id
    };
    let (Ok(to_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else { return };
    let ways: [Box<dyn FnOnce(Way) + Send>; 2] = [
        Box::new(move |way| way.questions(client, to_server)),
        Box::new(move |way| way.answers(server, to_client)),
    ];
    for pass in ways {
        let way = Way { shared: shared.clone(), id };
        std::thread::spawn(move || {
            let (shared, id) = (way.shared.clone(), way.id);
            pass(way);
            if let Some(link) = shared.lock().links.remove(&id) {
                link.cut();
            }
        });
    }
}

/// One direction of a connection. It ends when it returns.
struct Way {
    shared: Arc<Shared>,
    id: u64,
}

impl Way {
    fn questions(self, mut from: TcpStream, mut to: TcpStream) {
        let mut piece = [0; 16 << 10];
        loop {
            let Ok(read @ 1..) = from.read(&mut piece) else { return };
            let fate = self.passes();
            if to.write_all(&piece[..read]).is_err() || fate != Some(Fate::Usual) {
                return;
            }
            let mut state = self.shared.lock();
            if let Weather::Hasty { percent } = state.weather
                && state.dice.chance(percent)
            {
                return;
            }
        }
    }

    fn answers(self, mut from: TcpStream, mut to: TcpStream) {
        let (mut said, mut piece) = (Vec::new(), [0; 16 << 10]);
        while let Ok(read @ 1..) = from.read(&mut piece) {
            said.extend_from_slice(&piece[..read]);
            while let Some((length, commits)) = answer(&said) {
                if self.passes() != Some(Fate::Usual) || (commits && self.swallows()) {
                    return;
                }
                if to.write_all(&said[..length]).is_err() {
                    return;
                }
                said.drain(..length);
            }
        }
        // The last words of a server that hangs up are no whole answer.
        let _ = to.write_all(&said);
    }

    /// Waits as long as the network demands; returns the fate of the connection, or `None` if it is gone.
    fn passes(&self) -> Option<Fate> {
        let mut state = self.shared.lock();
        if let Weather::Slow { most_ms } = state.weather {
            let pause = Duration::from_millis(state.dice.below(most_ms));
            // The wait ends with the pause, unless the whole network ends before.
            let waits = |state: &mut State| !state.over;
            state = self.shared.changed.wait_timeout_while(state, pause, waits).unwrap().0;
        }
        let is_mute = |state: &mut State| state.links.get(&self.id).is_some_and(|it| it.fate == Fate::Mute);
        let state = self.shared.changed.wait_while(state, is_mute).unwrap();
        state.links.get(&self.id).map(|link| link.fate)
    }

    fn swallows(&self) -> bool {
        let mut state = self.shared.lock();
        match state.weather {
            Weather::Swallows { percent } => state.dice.chance(percent),
            _ => false,
        }
    }
}

/// The length of the first whole answer, up to `ReadyForQuery`, and whether it ended a commit.
fn answer(said: &[u8]) -> Option<(usize, bool)> {
    let (mut at, mut writes) = (0, false);
    loop {
        let head = said.get(at..at + 5)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let body = said.get(at + 5..at + 1 + length)?;
        at += 1 + length;
        match head[0] {
            b'C' => {
                let wrote = [&b"COMMIT"[..], b"INSERT", b"UPDATE", b"DELETE"];
                writes |= wrote.iter().any(|tag| body.starts_with(tag));
            }
            // `I`: outside of any transaction.
            b'Z' => return Some((at, writes && body == b"I")),
            _ => {}
        }
    }
}

#[test]
fn the_answer_to_a_commit_is_told_from_others() {
    let message =
        |kind: u8, body: &[u8]| [&[kind], &(body.len() as u32 + 4).to_be_bytes()[..], body].concat();
    let (inserted, ready, inside) =
        (message(b'C', b"INSERT 0 1\0"), message(b'Z', b"I"), message(b'Z', b"T"));
    let read = message(b'C', b"SELECT 1\0");
    let whole = |parts: &[&[u8]]| answer(&parts.concat());
    assert_eq!(whole(&[&inserted, &ready, &read]), Some((22, true)));
    assert_eq!(whole(&[&read, &ready]), Some((20, false)));
    assert_eq!(whole(&[&inserted, &inside]), Some((22, false)), "not yet");
    assert_eq!((whole(&[&inserted]), whole(&[&inserted, &ready[..5]]), whole(&[])), (None, None, None));
}
