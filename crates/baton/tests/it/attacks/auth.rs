//! Ways in without a token: after a restart, through a proxy, by a variable that is empty.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::postgres_server::Schema;
use crate::serve::served::{Served, until};
use crate::world::World;

const OPEN: &str = "open to everybody on this machine; baton tokens add NAME closes it";
const CLOSED: &str = "open to nobody: there is no token any more; baton tokens add NAME makes one";

fn offline() -> World {
    let world = World::new();
    world.settings("model = \"offline\"\n");
    world
}

/// A restart: the same machine, and a new process.
fn again(mut served: Served, variables: &[(&str, &str)]) -> Served {
    served.signal(Signal::TERM);
    assert_eq!(served.ended(), 0);
    let world = std::mem::replace(&mut served.world, World::new());
    Served::on(world, &[], variables)
}

/// The status of a request with each of these tokens, and without any.
fn statuses(served: &Served, tokens: &[&str]) -> Vec<u16> {
    let asked = |headers: &[(&str, &str)]| served.send("GET", "/v1/runs", headers, None).status;
    let with = |token: &&str| asked(&[("authorization", &format!("Bearer {token}"))]);
    std::iter::once(asked(&[])).chain(tokens.iter().map(with)).collect()
}

fn a_service_stays_closed(variables: &[(&str, &str)]) {
    let served = Served::on(offline(), &[], variables);
    assert_eq!((&served.told["auth"], statuses(&served, &[])), (&json!(OPEN), vec![200]));
    let baton = |served: &Served, args: &[&str]| served.world.baton_with(variables, args);
    let made = baton(&served, &["tokens", "add", "--json", "ci"]).json();
    let (token, id) = (made["token"].as_str().unwrap(), made["id"].as_str().unwrap());
    assert_eq!(statuses(&served, &[token]).last(), Some(&200));
    assert_eq!(baton(&served, &["tokens", "revoke", id]).code, 0);
    let served = again(served, variables);
    assert_eq!((&served.told["auth"], statuses(&served, &[token, "any"])), (&json!(CLOSED), vec![401; 3]));
    let listed = baton(&served, &["tokens", "ls"]);
    assert!(listed.err.starts_with("There are no tokens any more: the service lets nobody in"), "{listed:?}");
    let doctor = baton(&served, &["doctor", "--json"]);
    let fix = "or baton tokens reopen, which lets everybody on this machine in";
    let expected = json!({"name": "service", "state": "warning", "detail": CLOSED, "fix": fix});
    assert_eq!((doctor.code, check(&doctor.json(), "service")), (0, expected));
    assert_eq!(baton(&served, &["tokens", "reopen"]).code, 0);
    let served = again(served, variables);
    assert_eq!((&served.told["auth"], statuses(&served, &[])), (&json!(OPEN), vec![200]), "a person said so");
}

fn check(found: &Value, name: &str) -> Value {
    let checks = found["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).cloned().unwrap()
}

#[test]
fn a_service_whose_last_token_was_revoked_stays_closed_after_a_restart() {
    a_service_stays_closed(&[]);
}

#[test]
fn a_service_whose_last_token_was_revoked_stays_closed_after_a_restart_on_postgresql() {
    let schema = Schema::new();
    a_service_stays_closed(&[("DATABASE_URL", schema.url.as_str())]);
}

#[test]
fn a_service_that_loses_the_token_of_its_environment_does_not_open() {
    let served = Served::on(offline(), &[], &[("BATON_TOKEN", "opensesame")]);
    assert_eq!(statuses(&served, &["opensesame"]), [401, 200]);
    let mut served = again(served, &[]);
    assert_eq!((&served.told["auth"], statuses(&served, &["opensesame"])), (&json!(CLOSED), vec![401; 2]));
    served.signal(Signal::TERM);
    served.ended();
    for empty in ["", " "] {
        let did = served.world.baton_with(&[("BATON_TOKEN", empty)], &["serve", "--port", "0"]);
        let says = "error: BATON_TOKEN is set, and empty\n  give it a value, or unset BATON_TOKEN to use the service without it\n";
        assert_eq!((did.code, did.err.as_str()), (2, says));
    }
}

#[test]
fn tokens_that_are_there_are_not_reopened_over() {
    let world = offline();
    assert_eq!(world.baton(&["tokens", "add", "ci"]).code, 0);
    let did = world.baton(&["tokens", "reopen"]);
    assert_eq!(did.code, 1);
    assert!(
        did.err.contains("there are tokens") && did.err.contains("baton tokens revoke ID"),
        "{}",
        did.err
    );
    let served = Served::on(world, &[], &[]);
    assert_eq!((&served.told["auth"], statuses(&served, &[])), (&json!("1 token"), vec![401]));
}

#[test]
fn named_hosts_and_pages_need_a_token() {
    let hosts = "hosts = [\"baton.example.com\"]\n";
    let pages = "origins = [\"https://app.example.com\"]\n";
    let cases = [
        (hosts.to_owned(), "`serve.hosts` names hosts that others can use"),
        (pages.to_owned(), "`serve.origins` names pages that others can use"),
        (
            format!("{hosts}{pages}"),
            "`serve.hosts` and `serve.origins` name hosts and pages that others can use",
        ),
    ];
    for (settings, why) in cases {
        let world = World::new();
        world.settings(&format!("model = \"offline\"\n[serve]\n{settings}"));
        let did = world.baton(&["serve", "--port", "0"]);
        let first = format!("error: {why}, and there is no token that keeps them out");
        assert_eq!((did.code, did.err.lines().next()), (2, Some(first.as_str())));
        assert!(did.err.contains("baton tokens add NAME makes one"), "{}", did.err);
        let doctor = world.baton(&["doctor", "--json"]);
        let found = check(&doctor.json(), "service");
        let detail = format!("{why}, and there is no token that keeps them out: baton serve does not begin");
        assert_eq!((doctor.code, &found["state"], &found["detail"]), (1, &json!("failed"), &json!(detail)));
        assert_eq!(world.baton(&["tokens", "add", "ci"]).code, 0);
        let doctor = world.baton(&["doctor", "--json"]);
        let expected = json!({"name": "service", "state": "ok", "detail": "1 token"});
        assert_eq!((doctor.code, check(&doctor.json(), "service")), (0, expected));
        assert_eq!(statuses(&Served::on(world, &[], &[]), &[]), [401]);
    }
}

#[test]
fn a_request_that_a_proxy_sent_on_needs_a_token() {
    let served = Served::on(offline(), &[], &[]);
    let message = Some(r#"{"message": "hi", "config": {"mode": "EXPLORATORY"}}"#);
    for header in ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via"] {
        let headers = [(header, "203.0.113.9")];
        for (method, path, body) in [("GET", "/metrics", None), ("POST", "/process", message)] {
            let refused = served.send(method, path, &headers, body);
            assert_eq!(refused.problem(), (401, "unauthorized".to_owned()), "{header} {path}");
            let detail = refused.json()["detail"].as_str().unwrap().to_owned();
            assert!(detail.contains("baton tokens add NAME"), "{detail}");
        }
        let health = served.send("GET", "/health", &headers, None);
        let expected = json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")});
        assert_eq!((health.status, health.json()), (200, expected), "{header}");
    }
    assert_eq!(served.send("POST", "/process", &[], message).status, 200);
}

/// More wrong tokens than are allowed at once, and than the one more per second can add meanwhile.
const MANY: usize = 100_000;

#[test]
fn wrong_tokens_are_throttled_and_the_right_one_is_not() {
    let world = offline();
    let made = world.baton(&["tokens", "add", "--json", "ci"]).json();
    let right = format!("Bearer {}", made["token"].as_str().unwrap());
    let served = Served::on(world, &[], &[]);
    let asked = |token: &str| served.send("GET", "/v1/runs", &[("authorization", token)], None);
    let wrong = |n: usize| asked(&format!("Bearer wrong-{n}"));
    let answers: Vec<_> = (0..MANY).map(wrong).take_while(|answer| answer.status == 401).collect();
    assert!((100..MANY).contains(&answers.len()), "{}", answers.len());
    // One a second is still allowed: of two at once, at least one is refused.
    let refused = [wrong(MANY), wrong(MANY)].into_iter().find(|answer| answer.status == 429).unwrap();
    assert_eq!((refused.problem(), refused.header("retry-after")), ((429, "rate_limited".into()), "1"));
    assert_eq!(asked(&right).status, 200, "the right one from the same address");
    let unsigned = served.send("GET", "/v1/runs", &[], None);
    assert_eq!(unsigned.problem(), (401, "unauthorized".into()), "none is no wrong one");
    assert_eq!(served.send("GET", "/health", &[("authorization", "Bearer wrong")], None).status, 200);
    let late = served.world.baton(&["tokens", "add", "--json", "late"]).json();
    let late = format!("Bearer {}", late["token"].as_str().unwrap());
    until("a token that is made now works", || asked(&late).status == 200);
}
