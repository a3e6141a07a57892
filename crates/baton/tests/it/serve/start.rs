//! How a service begins and ends.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::served::{Served, command, rest};
use crate::postgres_server::Schema;
use crate::world::World;

#[test]
fn it_says_where_it_is_and_who_may_come_in() {
    let served = Served::with("");
    let api = format!("http://{}", served.address);
    let data = served.world.path("home/data/baton");
    let expected = json!({
        "api": api, "docs": format!("{api}/docs"), "data": data,
        "models": served.told["models"], "auth": "open to everybody on this machine; baton tokens add NAME closes it",
    });
    assert_eq!(served.told, expected);
    assert!(served.told["models"].as_str().unwrap().starts_with("offline ("), "{}", served.told);
    let health = served.send("GET", "/health", &[], None);
    let mut body = health.json();
    assert!(body["uptime_s"].as_u64().is_some_and(|seconds| seconds < 60), "{body}");
    body["uptime_s"] = json!(0);
    for size in ["database", "free"] {
        assert!(body["sizes"][size].as_u64().is_some_and(|bytes| bytes > 0), "{body}");
        body["sizes"][size] = json!(0);
    }
    let version = env!("CARGO_PKG_VERSION");
    let expected = json!({
        "status": "ok", "version": version, "store": "sqlite", "models": ["offline"], "uptime_s": 0,
        "queue": {"running": 0, "runs": 0, "model_calls": 0, "outbox": 0}, "sizes": {"database": 0, "free": 0},
    });
    assert_eq!((health.status, body), (200, expected));
}

#[test]
fn without_json_it_says_so_in_five_lines() {
    let world = World::new();
    world.settings("model = \"offline\"\n");
    let mut running = world.start(&["serve", "--port", "0"]);
    running.until_noted("auth ");
    running.until_noted("closes it\n");
    running.signal(Signal::TERM);
    let did = running.end();
    let names: Vec<&str> =
        did.err.lines().take(5).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!((did.code, did.out.as_str(), names), (0, "", vec!["api", "docs", "data", "models", "auth"]));
}

#[test]
fn others_are_kept_out_unless_there_is_a_token() {
    let world = World::new();
    world.settings("model = \"offline\"\n");
    for bind in ["0.0.0.0", "::", "192.0.2.1"] {
        let did = world.baton(&["serve", "--port", "0", "--bind", bind]);
        let why = format!(
            "error: {bind} can be reached from other machines, and there is no token that keeps them out"
        );
        assert_eq!((did.code, did.err.lines().next()), (2, Some(why.as_str())));
        assert!(did.err.contains("baton tokens add NAME"), "{}", did.err);
    }
    let served = Served::on(world, &["--bind", "0.0.0.0"], &[("BATON_TOKEN", "a-token-of-the-environment")]);
    assert_eq!(served.told["auth"], "1 token");
    assert_eq!(served.send("GET", "/health", &[], None).status, 200);
    assert_eq!(served.send("GET", "/v1/runs", &[], None).status, 401);
}

#[test]
fn it_has_as_many_threads_as_it_is_told() {
    let (many, one) = (Served::with("[serve]\nthreads = 40\n"), Served::with("[serve]\nthreads = 1\n"));
    assert!(many.threads() >= 40, "{}", many.threads());
    assert!(one.threads() < 20, "{}", one.threads());
    for served in [many, one] {
        let asked = r#"{"session_id": "s", "user_message": "What is 6 * 7?"}"#;
        let answer = served.send("POST", "/v1/requests", &[], Some(asked));
        assert!(
            answer.json()["reply"].as_str().is_some_and(|reply| reply.contains("42")),
            "{}",
            answer.json()
        );
    }
    let world = World::new();
    world.settings("[serve]\nthreads = 0\n");
    let did = world.baton(&["serve", "--port", "0"]);
    assert_eq!(did.code, 2);
    assert!(did.err.contains("`serve.threads`"), "{}", did.err);
}

#[test]
fn what_cannot_be_listened_at_is_said() {
    let served = Served::with("");
    let (_, port) = served.address.rsplit_once(':').unwrap();
    let did = served.world.baton(&["serve", "--port", port]);
    assert_eq!(did.code, 1);
    let why = format!("error: 127.0.0.1:{port} cannot be listened at: ");
    assert!(did.err.contains(&why) && did.err.contains("--port takes another port"), "{}", did.err);
    let did = served.world.baton(&["serve", "--bind", "example.com"]);
    assert_eq!(did.code, 2);
    assert!(did.err.contains("`serve.bind`: \"example.com\" is no address"), "{}", did.err);
}

#[test]
fn the_port_comes_from_a_flag_or_the_environment_or_the_file() {
    let world = World::new();
    world.settings("[serve]\nport = 8111\nbind = \"localhost\"\n");
    let shown = |world: &World, variables: &[(&str, &str)]| {
        let did = world.baton_with(variables, &["config", "show"]);
        did.out.lines().filter(|line| line.starts_with("serve.port ")).collect::<String>()
    };
    assert!(shown(&world, &[]).contains("= 8111 "));
    assert!(shown(&world, &[("PORT", "8222")]).contains("= 8222 "));
    let out = command(&world, &[]).env("PORT", "1").spawn().map(|mut child| {
        let mut first = [0; 20];
        child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        String::from_utf8_lossy(&first).into_owned()
    });
    assert_eq!(out.unwrap(), "{\"api\":\"http://127.0");
}

#[test]
fn a_password_is_shown_by_no_command() {
    let world = World::new();
    let variables = [("DATABASE_URL", "postgresql://baton:5ecre7@127.0.0.1:1/baton?sslmode=disable")];
    for args in [
        &["serve", "--port", "0"][..],
        &["config", "show"],
        &["config", "show", "--json"],
        &["doctor"],
        &["ask", "-vvv", "hi"],
    ] {
        let did = world.baton_with(&variables, args);
        let said = did.out + &did.err;
        assert!(
            said.contains("postgresql://baton@127.0.0.1:1/baton") && !said.contains("5ecre7"),
            "{args:?}: {said}"
        );
    }
    world.settings("[store]\nurl = \"postgresql://baton:5ecre7@127.0.0.1/baton\"\n");
    let did = world.baton(&["config", "show"]);
    assert_eq!(did.code, 2);
    assert!(
        did.err.contains("`store.url`: expected an address") && !did.err.contains("5ecre7"),
        "{}",
        did.err
    );
}

#[test]
fn a_signal_ends_it_in_order() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut served = Served::with("");
        // One that is kept, one that is silent, and one in the middle of a request.
        let (mut kept, mut silent, mut slow) = (served.connect(), served.connect(), served.connect());
        let host = served.address.clone();
        kept.write_all(format!("GET /health HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()).unwrap();
        let mut answer = [0; 12];
        kept.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
        slow.write_all(b"POST /process HTTP/1.1\r\n").unwrap();
        let began = Instant::now();
        served.signal(signal);
        assert_eq!(served.ended(), 0);
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        for socket in [&mut kept, &mut silent, &mut slow] {
            rest(socket);
        }
    }
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let world = World::new();
    // A model that never answers keeps the run, and with it the service, for as long as the shutdown allows.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    world.settings(&format!(
        "model = \"lab/m\"\n[providers.lab]\nbase_url = \"http://{address}/v1\"\napi = \"chat_completions\"\n"
    ));
    let mut served = Served::on(world, &[], &[]);
    let body = r#"{"flow": "turn", "input": "hi"}"#;
    assert_eq!(served.send("POST", "/v1/runs", &[], Some(body)).status, 202);
    let (_asked, _) = silent.accept().unwrap();
    let began = Instant::now();
    served.signal(Signal::TERM);
    super::served::until("it says that it ends", || served.log().contains("ending: runs finish"));
    served.signal(Signal::TERM);
    assert_eq!(served.ended(), 143);
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

#[test]
fn everything_can_be_kept_in_postgresql_by_every_command() {
    let (schema, world) = (Schema::new(), World::new());
    world.settings("model = \"offline\"\n");
    let variables = [("DATABASE_URL", schema.url.as_str())];
    let did = world.baton_with(&variables, &["ask", "--thread", "trip", "What is 17 * 23?"]);
    assert_eq!(did.code, 0, "{}", did.err);
    let listed = world.baton_with(&variables, &["threads", "ls"]);
    assert!(listed.out.contains("trip"), "{}", listed.out);
    let doctor = world.baton_with(&variables, &["doctor"]);
    assert!(doctor.out.contains(" answers"), "{}", doctor.out);
    let served = Served::on(world, &[], &variables);
    let health = served.send("GET", "/health", &[], None).json();
    assert_eq!((&health["status"], &health["store"]), (&json!("ok"), &json!("postgresql")));
    assert_eq!(served.send("GET", "/v1/threads/trip", &[], None).status, 200);
    let data = served.told["data"].as_str().unwrap();
    let address = format!("postgres://{}@127.0.0.1:", schema.name);
    assert!(data.starts_with(&address) && !data.contains("options"), "{data}");
    assert!(!served.world.path("home/data/baton/baton.db").exists());
}
