//! Two Batons, one the execution and context service of the other, either of which is killed at any moment: no call
//! with effects is made twice, every repeated call has its one key, and no event is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::{Value, json};

use super::served::{PATIENCE, Served, until};
use super::several::{Die, Kept, Several, rounds};

/// The number of runs under way at once.
const WAVE: usize = 5;

/// Two services, and the state of their runs.
struct Pair {
    caller: Several,
    service: Several,
    port: String,
    running: [Option<Served>; 2],
    die: Die,
    seed: u64,
    /// All runs so far.
    runs: Vec<String>,
}

fn named(n: usize) -> String {
    format!("run-{n:04}.")
}

/// The model's replies in each run: two calls at once, two more, and an answer.
fn script(ledger: &Path) -> Value {
    let arguments = |line: &str| json!({"file": ledger, "line": line, "delay_ms": 20});
    let pays = |line: &str| {
        let mut arguments = arguments(line);
        arguments["class"] = json!("unsafe");
        json!({"call": {"name": "exec.test_effect", "arguments": arguments}})
    };
    let notes = |line: &str| json!({"call": {"name": "exec.test_note", "arguments": arguments(line)}});
    json!({"v": 1, "replies": [
        {"do": [{"text": "First these two. "}, pays("pays"), notes("notes")]},
        {"do": [{"text": "And these. "}, notes("notes again"), pays("pays again")]},
        {"do": [{"text": "That is all."}]},
    ]})
}

/// A port that the system gives to no other process by chance, so that a service finds it free when it comes back.
fn steady_port() -> String {
    static PAIRS: AtomicU16 = AtomicU16::new(0);
    let from = 20_000 + (std::process::id() % 10_000) as u16 + PAIRS.fetch_add(100, Ordering::Relaxed);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    (from..32_000).find(is_free).unwrap().to_string()
}

impl Pair {
    fn new(kept: Kept, seed: u64) -> Pair {
        let (caller, service, port) = (Several::new(kept), Several::new(kept), steady_port());
        service.play(&json!({"v": 1, "replies": []}), "");
        let url = format!("http://127.0.0.1:{port}");
        let settings = format!(
            "[services.execution]\nurl = \"{url}\"\nrefresh_s = 1\n\n[services.context]\nurl = \"{url}\"\n\n\
             [engine]\nadopt_ms = 50\n"
        );
        caller.play(&script(&service.path("effects")), &settings);
        let mut pair =
            Pair { caller, service, port, running: [None, None], die: Die(seed), seed, runs: Vec::new() };
        pair.start();
        pair
    }

    /// Starts the processes that do not run; the service first, as its caller asks it for its tools.
    fn start(&mut self) {
        if self.running[1].is_none() {
            self.running[1] = Some(self.service.start_with(&["--port", &self.port], &[]));
        }
        if self.running[0].is_none() {
            self.running[0] = Some(self.caller.start());
        }
    }

    /// Kills one of them, or both, and starts them anew.
    fn kill(&mut self) {
        let victim = self.die.roll(3);
        for n in 0..2 {
            if victim == n || victim == 2 {
                self.running[n] = None; // with SIGKILL
            }
        }
        self.start();
    }

    fn address(&self) -> &str {
        &self.running[0].as_ref().unwrap().address
    }

    /// Begins a run, and repeats the request until it is accepted.
    fn begin(&self, n: usize) -> String {
        let body = json!({"input": format!("{} please", named(n)), "correlation_id": named(n)}).to_string();
        let key = [("idempotency-key", named(n))];
        let mut run = String::new();
        until("a run begins", || {
            let answer = attempt(self.address(), "POST", "/v1/runs", &key, &body);
            let is_begun = answer.as_ref().is_some_and(|(status, _)| *status == 202);
            run = answer
                .map_or(String::new(), |(_, body)| body["run_id"].as_str().unwrap_or_default().to_owned());
            is_begun
        });
        run
    }

    fn status(&self, run: &str) -> String {
        let answer = attempt(self.address(), "GET", &format!("/v1/runs/{run}"), &[], "");
        answer.map_or(String::new(), |(_, body)| body["status"].as_str().unwrap_or_default().to_owned())
    }

    fn ledger(&self) -> usize {
        self.service.effects().values().map(Vec::len).sum()
    }

    /// Begins a few runs, kills a process at a random point of them, and waits until all have ended.
    fn wave(&mut self, numbers: Range<usize>) {
        let (begun, most) = (self.ledger(), numbers.len());
        let early = self.die.roll(3) == 0;
        let at_once = if early { self.die.roll(most + 1) } else { most };
        let mut runs: Vec<String> = numbers.clone().take(at_once).map(|n| self.begin(n)).collect();
        if !early {
            let (watched, frames, lines) = (self.die.roll(most), self.die.roll(16), self.die.roll(most * 4));
            if self.die.roll(2) == 0 {
                frames_seen(self.address(), &runs[watched], frames);
            } else {
                let all_ended = || runs.iter().all(|run| self.status(run) == "ok");
                until("the ledger grows", || self.ledger() >= begun + lines || all_ended());
            }
        }
        self.kill();
        runs.extend(numbers.skip(at_once).map(|n| self.begin(n)));
        for run in runs {
            until(&format!("seed {}: {run} ends well", self.seed), || self.status(&run) == "ok");
            self.runs.push(run);
        }
    }

    /// The keys under which each call was made, by its run.
    fn calls(&self) -> BTreeMap<(String, String), Vec<String>> {
        let mut calls: BTreeMap<_, Vec<String>> = BTreeMap::new();
        for (line, keys) in self.service.effects() {
            for key in keys {
                let run = self.runs.iter().find(|run| key.starts_with(run.as_str())).unwrap();
                calls.entry((run.clone(), line.clone())).or_default().push(key);
            }
        }
        calls
    }

    /// The events that the service received, by correlation id.
    fn told(&self) -> BTreeMap<String, Vec<String>> {
        let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut after = "0".to_owned();
        loop {
            let page =
                self.service.baton(&["audit", "ls", "--json", "--limit", "1000", "--after", &after]).json();
            for row in page["items"].as_array().unwrap() {
                let text = |field: &str| row[field].as_str().unwrap().to_owned();
                told.entry(text("correlation_id")).or_default().push(text("event_type"));
            }
            let Some(next) = page["next"].as_str() else { return told };
            after = next.to_owned();
        }
    }
}

/// An answer, if a whole one comes.
fn attempt(
    address: &str,
    method: &str,
    path: &str,
    headers: &[(&str, String)],
    body: &str,
) -> Option<(u16, Value)> {
    let mut socket = connected(address)?;
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += &format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    socket.write_all(text.as_bytes()).ok()?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).ok()?;
    let answer = String::from_utf8(answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, serde_json::from_str(body).ok()?))
}

fn connected(address: &str) -> Option<TcpStream> {
    let socket = TcpStream::connect(address).ok()?;
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    Some(socket)
}

/// Watches a run until that many frames were seen, or it has ended.
fn frames_seen(address: &str, run: &str, count: usize) {
    let mut socket = connected(address).unwrap();
    let head = format!("GET /v1/runs/{run}/events HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    socket.write_all(head.as_bytes()).unwrap();
    let (mut seen, mut piece) = (String::new(), [0; 1024]);
    while seen.matches("\nevent: ").count() < count {
        match socket.read(&mut piece) {
            Ok(read) if read > 0 => seen.push_str(&String::from_utf8_lossy(&piece[..read])),
            _ => return,
        }
    }
}

fn killed_at_random(kept: Kept, seed: u64) {
    let count = rounds(50, 500);
    let mut pair = Pair::new(kept, seed);
    for from in (0..count).step_by(WAVE) {
        pair.wave(from..(from + WAVE).min(count));
    }
    let calls = pair.calls();
    for ((run, line), keys) in &calls {
        let different = keys.iter().collect::<BTreeSet<_>>().len();
        assert_eq!(different, 1, "seed {seed}: {line} of {run} was called under {keys:?}");
        let is_once = line.contains("notes") || keys.len() == 1;
        assert!(is_once, "seed {seed}: {line} of {run} happened {} times", keys.len());
    }
    assert!(calls.len() > count * 2, "seed {seed}: too little was called to tell: {}", calls.len());

    let whole = || ["agent.started", "agent.completed"].map(str::to_owned).to_vec();
    let expected: BTreeMap<_, _> = (0..count).map(|n| (named(n), whole())).collect();
    // Tool calls are told of later, beside the runs.
    let lifecycles = || -> BTreeMap<_, _> {
        let mut told = pair.told();
        told.values_mut().for_each(|kinds| kinds.retain(|kind| kind != "tool.called"));
        told.into_iter().filter(|(_, kinds)| !kinds.is_empty()).collect()
    };
    until(&format!("seed {seed}: everything arrives"), || {
        lifecycles().values().map(Vec::len).sum::<usize>() >= count * 2
    });
    assert_eq!(lifecycles(), expected, "seed {seed}");
    for trail in [&pair.caller, &pair.service] {
        trail.baton(&["audit", "verify"]).ok();
    }
}

#[test]
fn either_of_two_is_killed_again_and_again_and_nothing_happens_twice_or_is_lost() {
    killed_at_random(Kept::Sqlite, 1);
}

#[test]
fn either_of_two_is_killed_again_and_again_and_nothing_happens_twice_or_is_lost_on_postgres() {
    killed_at_random(Kept::Postgres, 2);
}
