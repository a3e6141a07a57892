//! Requests of attackers: each costs little, ends soon, and harms no other client.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::served::{Served, rest, until};

/// The most additional memory for any test here.
const MOST_MEMORY: u64 = 64 << 20;

fn post(served: &Served, lines: &str) -> Vec<u8> {
    let host = &served.address;
    format!("POST /v1/threads HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n{lines}\r\n")
        .into_bytes()
}

/// Writes a little every now and then until the other side has enough; returns how long that took.
fn trickle(socket: &mut TcpStream, bytes: &[u8]) -> Duration {
    let began = Instant::now();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    loop {
        if socket.write_all(bytes).is_err() {
            return began.elapsed();
        }
        let mut piece = [0; 1024];
        match socket.read(&mut piece) {
            Ok(0) => return began.elapsed(),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => return began.elapsed(),
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it goes on for ever");
    }
}

#[test]
fn slow_requests_are_ended() {
    let served = Served::with("[serve]\nheader_s = 2\nbody_s = 2\nidle_s = 3\n");
    let second = Duration::from_secs(1);
    let ended = |what: &str, took: Duration, least: u32, most: u32| {
        assert!(took >= second * least && took < second * most, "{what} ended after {took:?}");
    };
    std::thread::scope(|all| {
        all.spawn(|| {
            let mut socket = served.connect();
            let began = Instant::now();
            rest(&mut socket);
            ended("silence", began.elapsed(), 1, 8);
        });
        all.spawn(|| {
            let mut socket = served.connect();
            ended("a slow name of a method", trickle(&mut socket, b"G"), 1, 8);
        });
        all.spawn(|| {
            let mut socket = served.connect();
            socket.write_all(b"GET /health HTTP/1.1\r\n").unwrap();
            ended("slow headers", trickle(&mut socket, b"x: y\r\n"), 1, 8);
        });
        all.spawn(|| {
            let mut socket = served.connect();
            socket.write_all(b"PRI * HTTP/2.0").unwrap();
            let began = Instant::now();
            rest(&mut socket);
            ended("half of a beginning of HTTP/2", began.elapsed(), 1, 8);
        });
        all.spawn(|| {
            let mut socket = served.connect();
            socket.write_all(&post(&served, "content-length: 100000\r\n")).unwrap();
            ended("a slow body", trickle(&mut socket, b"x"), 1, 8);
        });
        all.spawn(|| {
            let mut socket = served.connect();
            socket.write_all(&post(&served, "transfer-encoding: chunked\r\n")).unwrap();
            ended("endless small chunks", trickle(&mut socket, b"1\r\nx\r\n"), 1, 8);
        });
        all.spawn(|| {
            let mut socket = served.connect();
            let host = &served.address;
            socket.write_all(format!("GET /health HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()).unwrap();
            let began = Instant::now();
            assert!(rest(&mut socket).starts_with("HTTP/1.1 200"));
            ended("a kept connection", began.elapsed(), 2, 9);
        });
    });
}

#[test]
fn long_requests_are_refused_before_they_cost_anything() {
    let served = Served::with("");
    let host = served.address.clone();
    assert_eq!(served.send("GET", "/health", &[], None).status, 200);
    let before = served.memory();
    let get = |lines: &str| {
        format!("GET /health HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{lines}\r\n").into_bytes()
    };
    let many = |count: usize| (0..count).map(|n| format!("x-{n}: y\r\n")).collect::<String>();
    assert_eq!(served.status(&get(&many(62))), 200, "64 headers");
    assert_eq!(served.status(&get(&many(63))), 431, "65 headers");
    assert_eq!(served.status(&get(&many(99))), 431);
    let long = |length: usize| format!("x: {}\r\n", "y".repeat(length));
    assert_eq!(served.status(&get(&long(15_000))), 200);
    assert_eq!(served.status(&get(&long(17_000))), 431);
    assert_eq!(served.status(&get(&long(300_000))), 431);
    assert_eq!(served.status(&format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(300_000)).into_bytes()), 431);
    assert_eq!(served.status(&post(&served, "content-length: 10737418240\r\n")), 413);
    assert_eq!(served.status(&post(&served, "content-length: 99999999999999999999999\r\n")), 400);
    let mut endless = post(&served, "transfer-encoding: chunked\r\n");
    for _ in 0..40 {
        endless.extend(format!("10000\r\n{}\r\n", "x".repeat(65_536)).into_bytes());
    }
    assert_eq!(served.status(&endless), 413);
    // One request that two programs may read as two.
    for lines in [
        "content-length: 2\r\ntransfer-encoding: chunked\r\n",
        "content-length: 2\r\ncontent-length: 3\r\n",
        "content-length: +2\r\n",
        "transfer-encoding: gzip\r\n",
    ] {
        let status = served.status(&[post(&served, lines), b"{}".to_vec()].concat());
        assert!([400, 413, 415].contains(&status), "{lines}: {status}");
    }
    for bytes in [
        &b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03"[..],
        b"\0\0\0\0\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /health HTTP/1.1\r\nno colon\r\n\r\n",
    ] {
        let answer = served.raw(bytes);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{answer}");
    }
    let after = served.memory();
    assert!(after.saturating_sub(before) < MOST_MEMORY, "{before} → {after}");
    assert_eq!(served.send("GET", "/health", &[], None).status, 200);
}

#[test]
fn bombs_of_json_do_not_go_off() {
    let served = Served::with("");
    let keys = |count: usize| (0..count).map(|n| format!("\"k{n}\":0")).collect::<Vec<_>>().join(",");
    let bombs = [
        ("depth 65", format!("{{\"meta\":{}1{}}}", "[".repeat(65), "]".repeat(65)), 400),
        ("depth 100000", "[".repeat(100_000), 400),
        ("objects 100000 deep", "{\"a\":".repeat(100_000), 400),
        ("10001 keys", format!("{{\"meta\":{{{}}}}}", keys(10_001)), 400),
        ("70000 keys", format!("{{{}}}", keys(70_000)), 400),
        ("a number of a million digits", format!("{{\"ttl_s\":{}}}", "9".repeat(1_000_000)), 400),
        ("a text of 10 MB", format!("{{\"id\":\"{}\"}}", "x".repeat(10 << 20)), 413),
        ("the same key", "{\"id\":\"a\",\"\\u0069d\":\"b\"}".to_owned(), 400),
        ("gzip", "\u{1f}\u{8b}\u{8}".to_owned(), 400),
    ];
    assert_eq!(served.send("POST", "/v1/threads", &[], Some("{}")).status, 201);
    let before = served.memory();
    for (what, body, expected) in &bombs {
        let answer = served.status(
            &[
                post(&served, &format!("connection: close\r\ncontent-length: {}\r\n", body.len())),
                body.as_bytes().to_vec(),
            ]
            .concat(),
        );
        assert_eq!(answer, *expected, "{what}");
    }
    let after = served.memory();
    assert!(after.saturating_sub(before) < MOST_MEMORY, "{before} → {after}");
    let threads = served.send("GET", "/v1/threads", &[], None).json();
    assert_eq!(threads["items"].as_array().unwrap().len(), 1, "nothing was made of them");
}

#[test]
fn many_idle_connections_leave_room_for_others() {
    let full = std::env::var_os("BATON_FULL").is_some();
    let wanted: usize = if full { 9_000 } else { 2_000 };
    let wanted = wanted.min(files().saturating_sub(200));
    let served = Served::with("[serve]\nheader_s = 3600\nconnections = 10000\n");
    assert_eq!(served.send("GET", "/health", &[], None).status, 200);
    let before = served.memory();
    let idle: Vec<TcpStream> = (0..wanted).map(|_| TcpStream::connect(&served.address).unwrap()).collect();
    until("all are taken", || open_connections(&served) > wanted as u64);
    assert_eq!(served.send("GET", "/health", &[], None).status, 200);
    assert_eq!(served.send("POST", "/v1/threads", &[], Some("{}")).status, 201);
    let after = served.memory();
    assert!(after.saturating_sub(before) < MOST_MEMORY, "{before} → {after}");
    drop(idle);
    until("their places are free", || open_connections(&served) < 10);
}

#[test]
fn a_reader_who_takes_nothing_is_left() {
    let served = Served::with("[serve]\nstall_s = 1\n");
    let mut socket = served.connect();
    socket.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let asked = format!("GET /openapi.json HTTP/1.1\r\nhost: {}\r\n\r\n", served.address);
    let taken = (0..2000).take_while(|_| socket.write_all(asked.as_bytes()).is_ok()).count();
    assert!(taken > 10, "{taken}");
    until("it is left", || open_connections(&served) == 1);
}

#[test]
fn the_last_places_are_for_health_and_cancels() {
    let served = Served::with("[serve]\nconnections = 40\nheader_s = 3600\n");
    let idle: Vec<TcpStream> = (0..38).map(|_| TcpStream::connect(&served.address).unwrap()).collect();
    let run = "/v1/runs/01a1dff3-037b-75c8-bb5f-3ef904772acc/cancel";
    until("they are full", || served.send("GET", "/v1/runs", &[], None).status == 503);
    let refused = served.send("GET", "/v1/runs", &[], None);
    assert_eq!((refused.problem(), refused.header("retry-after")), ((503, "overloaded".into()), "1"));
    assert_eq!(served.send("GET", "/health", &[], None).status, 200);
    assert_eq!(served.send("POST", run, &[], None).status, 404);
    drop(idle);
    until("there is room again", || served.send("GET", "/v1/runs", &[], None).status == 200);
}

/// The number of connections that the service counts, with the one that asks.
pub(crate) fn open_connections(served: &Served) -> u64 {
    let text = String::from_utf8(served.send("GET", "/metrics", &[], None).body).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("baton_connections_open "));
    line.unwrap().parse().unwrap()
}

/// The number of files that this process may open.
fn files() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| usize::try_from(most).unwrap())
}

#[test]
fn requests_that_are_taken_back_at_once_end_their_connection() {
    let served = Served::with("");
    let mut socket = served.connect();
    socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    socket.write_all(&frame(4, 0, 0, &[])).unwrap();
    let headers = request(&served.address);
    let mut stream = 1_u32;
    let began = Instant::now();
    let refused = loop {
        let mut bytes = Vec::new();
        for _ in 0..100 {
            bytes.extend(frame(1, 0x5, stream, &headers));
            bytes.extend(frame(3, 0, stream, &8_u32.to_be_bytes()));
            stream += 2;
        }
        if socket.write_all(&bytes).is_err() {
            break true;
        }
        if stream > 400_000 || began.elapsed() > Duration::from_secs(30) {
            break false;
        }
    };
    assert!(refused, "{stream} requests were taken back, and it went on");
    assert_eq!(served.send("GET", "/health", &[], None).status, 200);
}

#[test]
fn headers_that_never_end_end_their_connection() {
    let served = Served::with("");
    let before = served.memory();
    let mut socket = served.connect();
    socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    socket.write_all(&frame(4, 0, 0, &[])).unwrap();
    socket.write_all(&frame(1, 0, 1, &request(&served.address))).unwrap();
    // A header that is not kept in any table, again and again.
    let more: Vec<u8> = (0..1000).flat_map(|_| b"\x00\x03x-y\x03zzz".iter().copied()).collect();
    let refused = (0..2000).any(|_| socket.write_all(&frame(9, 0, 1, &more)).is_err());
    assert!(refused, "16 MB of headers were taken");
    let after = served.memory();
    assert!(after.saturating_sub(before) < MOST_MEMORY, "{before} → {after}");
    assert_eq!(served.send("GET", "/health", &[], None).status, 200);
}

#[test]
fn a_window_that_stays_shut_ends_its_connection() {
    let served = Served::with("[serve]\nstall_s = 1\n");
    let mut socket = served.connect();
    socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    let shut = [&4_u16.to_be_bytes()[..], &0_u32.to_be_bytes()].concat(); // the first window of every answer
    socket.write_all(&frame(4, 0, 0, &shut)).unwrap();
    socket.write_all(&frame(1, 0x5, 1, &request(&served.address))).unwrap();
    let began = Instant::now();
    let mut bytes = Vec::new();
    let _ = socket.read_to_end(&mut bytes); // it may be reset, and does not time out
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(30), "it ended after {took:?}");
    until("its place is given back", || open_connections(&served) == 1);
}

/// A frame of HTTP/2.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// `GET /health`, as HTTP/2 packs headers.
pub(crate) fn request(host: &str) -> Vec<u8> {
    let mut bytes = vec![0x82, 0x86]; // :method GET, :scheme http
    for (index, value) in [(4, "/health"), (1, host)] {
        bytes.push(index); // a literal under a known name, not kept
        bytes.push(u8::try_from(value.len()).unwrap());
        bytes.extend(value.bytes());
    }
    bytes
}
