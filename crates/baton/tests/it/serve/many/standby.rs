//! Commits that wait for a standby which is not there: callers give up long before, and their requests are committed
//! all the same. No run is left without a driver.

use std::io::Write;
use std::net::TcpStream;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::served::{Served, until};
use super::super::several::{post, rounds};
use super::pair::{APART, Pair};
use crate::postgres_server::OwnServer;
use crate::world::World;

/// The times for which commits wait, in seconds. With `BATON_FULL=1` also for longer than a lease, the timeout of a
/// query (30 s) and the deadline of a start.
fn stalls() -> &'static [u64] {
    if rounds(0, 1) == 0 { &[1] } else { &[1, 40, 150] }
}

/// Makes every commit wait from now on, or releases them all.
fn stall(server: &OwnServer, stalls: bool) {
    let setting =
        if stalls { "SET synchronous_standby_names = 'missing'" } else { "RESET synchronous_standby_names" };
    server.run(&format!("ALTER SYSTEM {setting}"));
    server.run("SELECT pg_reload_conf()");
    let expected = if stalls { "missing" } else { "" };
    until("the server has its settings", || server.run("SHOW synchronous_standby_names") == expected);
}

/// The number of run commits that wait. Commits that renew leases wait, too.
fn waiting(server: &OwnServer) -> u32 {
    let sql =
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query NOT LIKE '%owners%'";
    server.run(sql).parse().unwrap()
}

/// Lets time pass: as long as commits wait, there is no event to wait for.
fn pass(time: Duration) {
    let (_open, never) = mpsc::channel::<()>();
    assert_eq!(never.recv_timeout(time), Err(mpsc::RecvTimeoutError::Timeout));
}

/// Sends a request without waiting for the answer. It is given up when the value is dropped.
fn asked(served: &Served, path: &str, body: &Value) -> TcpStream {
    let (mut socket, body) = (served.connect(), body.to_string());
    let head =
        format!("POST {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n", served.address);
    write!(socket, "{head}content-length: {}\r\n\r\n{body}", body.len()).unwrap();
    socket
}

fn message(thread: &str) -> Value {
    json!({"flow": "turn", "input": "go", "thread_id": thread})
}

/// Begins a run on a thread as soon as it is free; returns it.
fn begun(served: &Served, thread: &str) -> String {
    let mut begun = None;
    until("the thread takes a message", || {
        let answer = post(served, "/v1/runs", message(thread));
        assert!(matches!(answer.status, 202 | 409 | 503), "{answer:?}");
        begun = (answer.status == 202).then(|| answer.json()["run_id"].as_str().unwrap().to_owned());
        begun.is_some()
    });
    begun.unwrap()
}

fn stalled(seconds: u64) {
    let (server, stage) = (OwnServer::start(&[]), World::new());
    let effect = json!({"file": stage.path("ledger"), "line": "paid", "class": "unsafe"});
    let replies = json!([{"do": [{"call": {"name": "test_effect", "arguments": effect}}]}, {"do": [{"text": "Done."}]}]);
    let settings = "[store]\nlease_s = 3\n[engine]\npoll_ms = 50\nadopt_ms = 100\n";
    let pair =
        Pair::playing(stage, &json!({"v": 1, "replies": replies}), [server.url(), server.url()], settings);
    server.run(APART);
    let all_ended = || server.run("SELECT count(*) FROM runs WHERE status < 3") == "0";
    let [first, second] = &pair.homes;
    let whole = begun(first, "forked");
    until("a run ends", all_ended);

    stall(&server, true);
    let since = Instant::now();
    let started = ["a", "b"].map(|thread| asked(first, "/v1/runs", &message(thread)));
    let forked = asked(second, &format!("/v1/runs/{whole}/fork"), &json!({"step": 2}));
    until("their commits wait", || waiting(&server) >= 2);
    let [gives_up, _waits] = started;
    drop((gives_up, forked));
    pass(Duration::from_secs(seconds).saturating_sub(since.elapsed()));
    stall(&server, false);

    for thread in ["a", "b", "forked"] {
        begun(second, thread);
    }
    // Calls that the fork left open are asked about again, so it waits for a decision at most.
    until("nothing is left without a driver", || {
        server.run("SELECT count(*) FROM runs WHERE status NOT IN (2) AND status < 3") == "0"
    });
    assert_eq!(server.run("SELECT count(*) FROM runs WHERE status > 3"), "0", "none failed");
    let ledger = std::fs::read_to_string(pair.ledger()).unwrap();
    let mut keys: Vec<&str> = ledger.lines().map(|line| line.split('\t').next().unwrap()).collect();
    let effects = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), effects, "no call was made twice: {ledger}");
}

#[test]
fn what_lands_after_a_missing_standby_held_it_up_is_driven_or_let_go() {
    for seconds in stalls() {
        stalled(*seconds);
    }
}
