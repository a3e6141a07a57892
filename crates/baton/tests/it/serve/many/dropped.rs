//! Requests that are dropped at any point: while they are sent, while they are answered, in order or not.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::super::served::{Served, until};
use super::dice::Dice;
use super::pair::figure;
use super::{chance, rounds};
use crate::postgres_server::OwnServer;
use crate::world::World;

/// The most additional memory afterwards.
const MOST_MEMORY: u64 = 64 << 20;
/// The number of clients that drop requests at once.
const CLIENTS: usize = 8;
/// Connections of ours that wait inside a transaction.
const INSIDE: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE state LIKE 'idle in transaction%' AND application_name = 'baton'";

fn post(path: &str, body: Value) -> String {
    let body = body.to_string();
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: HOST\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// A request of some kind.
fn request(dice: &mut Dice, run: &str) -> String {
    let thread = format!("t{}", dice.below(20));
    let config = json!({"on_disconnect": dice.pick(&["continue", "cancel"]), "on_busy": dice.pick(&["reject", "enqueue", "interrupt"])});
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: HOST\r\n\r\n");
    match dice.below(12) {
        0 => post("/v1/agent/run", json!({"input": "hi"})),
        1 => post("/v1/agent/run", json!({"input": "hi", "config": {"on_disconnect": "cancel"}})),
        2 => post("/v1/agent/run", json!({"input": "hi", "thread_id": thread, "config": config})),
        3 => post("/process", json!({"message": "hi", "thread_id": thread, "config": config})),
        4 => post("/v1/runs", json!({"flow": "turn", "input": "hi"})),
        5 => post("/v1/requests", json!({"session_id": thread, "user_message": "hi"})),
        6 => post("/v1/threads", json!({"id": thread})),
        7 => post(&format!("/v1/threads/{thread}/fork"), json!({})),
        8 => post(&format!("/v1/runs/{run}/cancel"), json!({})),
        9 => get(&format!("/v1/runs/{run}/events")),
        10 => get(&format!("/v1/threads/{thread}/entries")),
        _ => get("/v1/runs?limit=5"),
    }
}

/// Sends a part of a request or all of it, takes a part of the answer or nothing, and leaves.
fn drop_one(address: &str, request: &str, dice: &mut Dice) {
    let mut socket = TcpStream::connect(address).unwrap();
    // Some wait longer for an answer than others.
    socket.set_read_timeout(Some(Duration::from_millis(1 + dice.below(100)))).unwrap();
    let bytes = request.replace("HOST", address).into_bytes();
    let sent = if dice.chance(30) { dice.below(bytes.len() as u64) as usize } else { bytes.len() };
    // It may be refused before it is read to its end.
    let mut ok = socket.write_all(&bytes[..sent]).is_ok();
    let mut piece = [0; 64];
    let pieces = if sent < bytes.len() { 0 } else { dice.below(8) };
    for _ in 0..pieces {
        ok = ok && matches!(socket.read(&mut piece), Ok(1..));
    }
    if dice.chance(30) {
        let _ = socket.shutdown(Shutdown::Write);
    }
    // Bytes that arrived and were not read make this a reset.
    let _ = ok && dice.chance(30) && sent == bytes.len() && matches!(socket.peek(&mut piece), Ok(1..));
}

/// Drops that many requests.
fn storm(served: &Served, run: &str, dice: &mut Dice, requests: usize) {
    let left = AtomicUsize::new(requests);
    let another =
        || left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
    std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            let mut dice = Dice::new(dice.below(u64::MAX), 1);
            let another = &another;
            scope.spawn(move || {
                while another() {
                    let request = request(&mut dice, run);
                    drop_one(&served.address, &request, &mut dice);
                }
            });
        }
    });
}

fn working(served: &Served) -> usize {
    ["running", "queued"]
        .map(|status| served.send("GET", &format!("/v1/runs?status={status}"), &[], None).json())
        .iter()
        .map(|list| list["items"].as_array().unwrap().len())
        .sum()
}

#[test]
fn dropped_requests_leave_nothing_behind() {
    let (server, mut dice) = (OwnServer::start(&[]), chance());
    let world = World::new();
    let script = json!({"v": 1, "piece_ms": 1, "replies": [
        {"match": "hi", "do": [{"text": "I look. "}, {"call": {"name": "calculator", "arguments": {"expression": "6*7"}}}]},
        {"match": "hi", "do": [{"text": "It is forty-two, as it always was."}]},
    ]});
    let model = world.script(&script);
    world.settings(&format!("model = '{model}'\n"));
    let served = Served::on(world, &[], &[("DATABASE_URL", &server.url())]);
    let first = served.send("POST", "/v1/runs", &[], Some(r#"{"flow": "turn", "input": "hi"}"#));
    let run = first.json()["run_id"].as_str().unwrap().to_owned();
    let all = rounds(1000);
    storm(&served, &run, &mut dice, all / 5); // everything that is kept once is there now
    let before = served.memory();
    storm(&served, &run, &mut dice, all - all / 5);
    until("nobody waits inside a transaction", || server.run(INSIDE) == "0");
    until("no run is stuck", || working(&served) == 0);
    until("no stream is open", || figure(&served, "streams_open") == 0);
    until("only this connection is open", || figure(&served, "connections_open") == 1);
    let after = served.memory();
    assert!(after.saturating_sub(before) < MOST_MEMORY, "{before} → {after}");
    let asked = served.send("POST", "/process", &[], Some(r#"{"message": "hi"}"#));
    assert_eq!((asked.status, &asked.json()["status"]), (200, &json!("ok")));
    // The server itself ends connections that wait there for ten seconds, and logs it.
    let log = std::fs::read_to_string(server.folder.join("log")).unwrap();
    assert!(!log.contains("idle-in-transaction"), "{log}");
    until("nobody stays inside a transaction", || server.run(INSIDE) == "0");
}
