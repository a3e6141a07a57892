//! A real nginx in front of a service, with the configuration that `docs/operations.md` gives, and a short timeout.
//!
//! It listens on a socket of its own folder, since nginx cannot choose a free port by itself. These tests take the time
//! that they are about: twenty seconds of silence.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::peer::{self, PATIENCE, Peer};
use crate::served::{Served, until};
use crate::world::World;

/// The words before and after the silence, and its length.
const SCRIPT: &str =
    r#"{"v": 1, "replies": [{"do": [{"text": "First. "}, {"stall_ms": 20000}, {"text": "Last."}]}]}"#;
/// The time that nginx waits for a byte.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The `location` of the documentation, with the timeout of the tests.
fn location() -> String {
    let page = include_str!("../../../../docs/operations.md");
    let block = page.split("```nginx\n").nth(1).and_then(|rest| rest.split("\n```").next()).unwrap();
    let from = block.find("    location / {").unwrap();
    let length = block[from..].find("\n    }").unwrap() + "\n    }".len();
    let location = block[from..from + length].to_owned();
    assert!(location.contains("proxy_read_timeout 60s;"), "{location}");
    location.replace("proxy_read_timeout 60s;", &format!("proxy_read_timeout {}s;", TIMEOUT.as_secs()))
}

/// An nginx, and its socket.
struct Front {
    _nginx: Peer,
    socket: PathBuf,
}

impl Front {
    fn of(served: &Served) -> Front {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("nginx.sock");
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .iter()
            .map(|kind| format!("    {kind}_temp_path {kind};\n"))
            .collect();
        let configuration = format!(
            "daemon off;\nmaster_process off;\nuser root root;\npid nginx.pid;\nerror_log stderr notice;\nevents {{}}\n\
             http {{\n    access_log off;\n{temporary}    upstream baton {{\n        server {};\n        keepalive 64;\n    }}\n\
             server {{\n    listen unix:{};\n    server_name baton.example.com;\n{}\n}}\n}}\n",
            served.address,
            socket.display(),
            location(),
        );
        std::fs::write(folder.path().join("nginx.conf"), configuration).unwrap();
        let place = folder.path().display().to_string();
        let arguments = ["-p", &place, "-c", "nginx.conf", "-e", "stderr"].map(str::to_owned);
        let command = peer::command("nginx", &arguments, folder.path());
        Front { _nginx: Peer::saying("using the \"epoll\" event method", command, folder), socket }
    }

    /// Sends a request, and reads until nginx closes; returns the pieces that came, each with its time.
    fn ask(&self, request: &str) -> Vec<(Duration, String)> {
        let mut stream = UnixStream::connect(&self.socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let (began, mut pieces, mut room) = (Instant::now(), Vec::new(), [0; 65536]);
        loop {
            match stream.read(&mut room) {
                Ok(0) => return pieces,
                Ok(read) => {
                    pieces.push((began.elapsed(), String::from_utf8_lossy(&room[..read]).into_owned()))
                }
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return pieces,
                Err(error) => panic!("{error}: {pieces:?}"),
            }
        }
    }
}

/// The token that a service with named hosts needs.
const TOKEN: &str = "a-token-of-the-environment";

/// A service that is known by the name in the documentation.
fn served(heartbeat_s: u32) -> Served {
    let world = World::new();
    let model = world.script(&serde_json::from_str(SCRIPT).unwrap());
    world.settings(&format!(
        "model = '{model}'\n[serve]\nhosts = [\"baton.example.com\"]\nheartbeat_s = {heartbeat_s}\n"
    ));
    Served::on(world, &[], &[("BATON_TOKEN", TOKEN)])
}

/// A message, for a stream.
fn request() -> String {
    let body = json!({"input": "Think about it", "thread_id": "t"}).to_string();
    format!(
        "POST /v1/agent/run HTTP/1.1\r\nhost: baton.example.com\r\nconnection: close\r\n\
         authorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// The time at which a text came.
fn when(pieces: &[(Duration, String)], text: &str) -> Option<Duration> {
    pieces.iter().find(|(_, piece)| piece.contains(text)).map(|(at, _)| *at)
}

#[test]
fn a_stream_survives_twenty_seconds_of_silence_and_nothing_is_held_back() {
    let served = served(2);
    let front = Front::of(&served);
    let pieces = front.ask(&request());
    let all: String = pieces.iter().map(|(_, piece)| piece.as_str()).collect();
    assert!(all.starts_with("HTTP/1.1 200 OK\r\n") && all.ends_with("\r\n0\r\n\r\n"), "{all}");
    let [first, last, done] = ["\"First. \"", "\"Last.\"", "\"status\":\"ok\""]
        .map(|text| when(&pieces, text).unwrap_or_else(|| panic!("no {text}: {all}")));
    assert!(
        last.checked_sub(first).is_some_and(|silence| silence > Duration::from_secs(15)) && done >= last,
        "{pieces:?}"
    );
    let comments =
        pieces.iter().filter(|(at, piece)| (first..last).contains(at) && piece.contains("\n:")).count();
    assert!(comments >= 5, "{pieces:?}");
}

/// The documentation warns of this: nginx ends such a stream silently. The run goes on.
#[test]
fn a_heartbeat_that_is_slower_than_the_timeout_loses_the_stream_and_not_the_run() {
    let served = served(15);
    let front = Front::of(&served);
    let pieces = front.ask(&request());
    let all: String = pieces.iter().map(|(_, piece)| piece.as_str()).collect();
    assert!(
        all.contains("\"First. \"") && !all.contains("\"Last.\"") && !all.contains("event: done"),
        "{all}"
    );
    let header = |line: &str| line.strip_prefix("x-run-id: ").map(str::to_owned);
    let run = all.split("\r\n").find_map(header).unwrap();
    let authorization = format!("Bearer {TOKEN}");
    let headers = [("authorization", authorization.as_str())];
    let ended = || served.send("GET", &format!("/v1/runs/{run}"), &headers, None).json();
    until("the run ends", || ended()["status"] != "running");
    assert_eq!((&ended()["status"], &ended()["result"]), (&json!("ok"), &json!("First. Last.")));
}
