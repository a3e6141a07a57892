//! Connections that hold places: a client that opens as many as there are keeps no other out, with or without a token.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::serve::hostile::{frame, open_connections, request};
use crate::serve::house::House;
use crate::serve::served::{PATIENCE, Served, rest, until};
use crate::serve::wire::{self, Answer, Stream};
use crate::world::World;

/// The smallest number of places: fifteen, and one for `/health` and cancels.
const FEW: &str = "connections = 16\nheader_s = 3600\nstall_s = 3600\nidle_s = 3600\n";
const PLACES: usize = 15;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection from an address of this machine.
fn from(source: &str, address: &str) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let socket = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(format!("{source}:0").parse().unwrap()).unwrap();
        socket.connect(address.parse().unwrap()).await.unwrap().into_std().unwrap()
    });
    socket.set_nonblocking(false).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// A whole answer to a client at an address.
fn get(source: &str, address: &str, path: &str) -> Answer {
    wire::open_on(from(source, address), address, "GET", path, &[], None).whole()
}

/// Settings under which no answer can be sent to its end: the first window of every stream is shut.
fn shut() -> Vec<u8> {
    frame(4, 0, 0, &[&4_u16.to_be_bytes()[..], &0_u32.to_be_bytes()].concat())
}

/// A kept connection, after one request and its answer.
fn kept(source: &str, address: &str) -> TcpStream {
    let mut socket = from(source, address);
    write!(socket, "GET /health HTTP/1.1\r\nhost: {address}\r\n\r\n").unwrap();
    let mut reader = BufReader::new(&socket);
    let (mut lines, mut length) = (Vec::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim_end().is_empty() {
            break;
        }
        if let Some(bytes) = line.to_ascii_lowercase().strip_prefix("content-length: ") {
            length = bytes.trim_end().parse().unwrap();
        }
        lines.push(line);
    }
    assert!(lines[0].starts_with("HTTP/1.1 200"), "{lines:?}");
    reader.read_exact(&mut vec![0; length]).unwrap();
    socket
}

/// A service whose model begins to answer and never ends.
fn endless(settings: &str) -> House {
    let script = json!({"v": 1, "replies": [{"do": [{"text": "First "}, {"stall": true}]}]});
    House::with(World::new(), &script, &format!("[serve]\n{settings}"))
}

/// A stream of events that never ends, after its first event.
fn stream(source: &str, house: &House) -> Stream {
    let body = json!({"input": "hi"}).to_string();
    let socket = from(source, &house.address);
    let mut stream = wire::open_on(socket, &house.address, "POST", "/v1/agent/run", &[], Some(&body));
    assert_eq!(stream.head.status, 200, "{:?}", stream.head);
    stream.until("thinking");
    stream
}

#[test]
fn a_beginning_in_two_writes_gains_no_time() {
    let served = Served::with("[serve]\nstall_s = 1\n");
    let mut socket = from("127.0.0.2", &served.address);
    socket.write_all(&PREFACE[..1]).unwrap();
    // Others are answered meanwhile, so that the first byte was read alone.
    assert!((0..3).all(|_| served.send("GET", "/health", &[], None).status == 200));
    socket.write_all(&PREFACE[1..]).unwrap();
    socket.write_all(&shut()).unwrap();
    socket.write_all(&frame(1, 0x5, 1, &request(&served.address))).unwrap();
    let began = Instant::now();
    let mut bytes = Vec::new();
    let _ = socket.read_to_end(&mut bytes); // it may be reset, and does not time out
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(30), "it ended after {took:?}");
    until("its place is given back", || open_connections(&served) == 1);
}

#[test]
fn shut_windows_without_a_token_lock_nobody_else_out() {
    let world = World::new();
    world.settings(&format!("model = \"offline\"\n[serve]\n{FEW}"));
    let served = Served::on(world, &[], &[("BATON_TOKEN", "a-token-of-the-environment")]);
    let hold = |_| {
        let mut socket = from("127.0.0.2", &served.address);
        let asked = [PREFACE, &shut(), &frame(1, 0x5, 1, &request(&served.address))].concat();
        let _ = socket.write_all(&asked); // connections without a place are closed
        socket
    };
    let _held: Vec<TcpStream> = (0..64).map(hold).collect();
    let token = [("authorization", "Bearer a-token-of-the-environment")];
    for _ in 0..20 {
        let own = wire::open_on(
            from("127.0.0.1", &served.address),
            &served.address,
            "GET",
            "/v1/runs",
            &token,
            None,
        );
        assert_eq!(own.whole().status, 200);
    }
    assert_eq!(get("127.0.0.1", &served.address, "/health").status, 200);
}

#[test]
fn shut_windows_give_way_to_callers_of_the_same_address_too() {
    // They would be closed after an hour; a tenth of ten seconds counts while others wait.
    let served = Served::with("[serve]\nconnections = 16\nstall_s = 10\n");
    let hold = |_| {
        let mut socket = served.connect();
        socket.write_all(PREFACE).unwrap();
        socket.write_all(&shut()).unwrap();
        socket.write_all(&frame(1, 0x5, 1, &request(&served.address))).unwrap();
        socket
    };
    let mut held: Vec<TcpStream> = (0..PLACES).map(hold).collect();
    until("somebody else is answered", || served.send("GET", "/v1/runs", &[], None).status == 200);
    // Bytes of the protocol may still be buffered; then it is closed.
    let mut bytes = Vec::new();
    let _ = held[0].read_to_end(&mut bytes);
}

#[test]
fn silent_connections_lock_nobody_else_out() {
    let served = Served::with(&format!("[serve]\n{FEW}"));
    let _silent: Vec<TcpStream> = (0..64).map(|_| from("127.0.0.2", &served.address)).collect();
    for _ in 0..20 {
        assert_eq!(get("127.0.0.1", &served.address, "/v1/runs").status, 200);
    }
    assert_eq!(get("127.0.0.3", &served.address, "/health").status, 200);
}

#[test]
fn idle_connections_give_way() {
    let served = Served::with(&format!("[serve]\n{FEW}"));
    let address = &served.address;
    let mut idle: Vec<TcpStream> = (0..PLACES).map(|_| kept("127.0.0.1", address)).collect();
    // Each newcomer stays, too, and closes one of the idle connections.
    let mut newcomers: Vec<TcpStream> = Vec::new();
    for _ in 0..PLACES {
        newcomers.push(kept("127.0.0.1", address));
        assert_eq!(served.send("GET", "/v1/runs", &[], None).status, 200);
    }
    for socket in &mut idle {
        assert_eq!(rest(socket), "", "it ends in order");
    }
}

#[test]
fn endless_streams_of_one_address_make_room_for_another_up_to_its_share() {
    let house = endless(FEW);
    let mut greedy: Vec<Stream> = (0..PLACES).map(|_| stream("127.0.0.2", &house)).collect();
    assert_eq!(get("127.0.0.2", &house.address, "/v1/runs").problem(), (503, "overloaded".to_owned()));
    // Half of all: as many as the other may keep.
    let _others: Vec<Stream> = (0..PLACES / 2).map(|_| stream("127.0.0.3", &house)).collect();
    assert_eq!(get("127.0.0.3", &house.address, "/v1/runs").problem(), (503, "overloaded".to_owned()));
    assert_eq!(get("127.0.0.3", &house.address, "/health").status, 200);
    // The runs themselves go on, and a client that lost a stream may come back to it with its cursor.
    let run = greedy[PLACES - 1].head.header("x-run-id").to_owned();
    drop(greedy.drain(..));
    until("it runs", || {
        let read = get("127.0.0.2", &house.address, &format!("/v1/runs/{run}"));
        read.status == 200 && read.json()["status"] == "running"
    });
}

#[test]
fn a_proxy_has_no_share() {
    let house = endless(&format!("{FEW}proxies = [\"127.0.0.2\"]\n"));
    let _callers: Vec<Stream> = (0..PLACES).map(|_| stream("127.0.0.2", &house)).collect();
    assert_eq!(get("127.0.0.1", &house.address, "/v1/runs").problem(), (503, "overloaded".to_owned()));
    assert_eq!(get("127.0.0.1", &house.address, "/health").status, 200);
}
