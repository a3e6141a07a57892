//! Two Batons, one the execution and context service of the other; and a service whose neighbours come and go.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::house::House;
use crate::server::{Answer, Server};
use crate::world::World;

/// Waits for a condition.
fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::yield_now();
    }
}

/// A Baton whose model calls one tool and repeats its result.
fn calling(name: &str, arguments: Value, settings: &str) -> House {
    let script = json!({"v": 1, "replies": [
        {"do": [{"call": {"name": name, "arguments": arguments}}]},
        {"do": [{"text": "{last_result}"}]},
    ]});
    House::with(World::new(), &script, settings)
}

fn plain() -> House {
    House::with(World::new(), &json!({"v": 1, "replies": []}), "")
}

fn asked(house: &House, correlation: &str) -> Value {
    let answer = house.post("/process", json!({"message": "Please do it", "correlation_id": correlation}));
    assert_eq!(answer.status, 200, "{}", String::from_utf8_lossy(&answer.body));
    answer.json()
}

fn both(url: &str) -> String {
    format!(
        "[services.execution]\nurl = \"{url}\"\n\n[services.context]\nurl = \"{url}\"\nsource = \"desk\"\n"
    )
}

/// The events that a Baton received, by correlation id.
fn told(house: &House) -> Vec<(String, String, String)> {
    let listed = house.world.baton(&["audit", "ls", "--json"]).json();
    let text = |row: &Value, field: &str| row[field].as_str().unwrap().to_owned();
    let row = |row: &Value| (text(row, "correlation_id"), text(row, "event_type"), text(row, "source"));
    listed["items"].as_array().unwrap().iter().map(row).collect()
}

#[test]
fn one_baton_calls_the_tools_of_another_and_tells_it_what_happened() {
    let service = plain();
    let url = format!("http://{}", service.address);
    let house = calling("exec.calculator", json!({"expression": "6*7"}), &both(&url));
    let answer = asked(&house, "c-1");
    assert_eq!(answer["response"], json!(r#"{"exact":true,"result":"42"}"#), "{answer}");
    let rows = until("both events", || Some(told(&service)).filter(|rows| rows.len() == 2));
    let row = |kind: &str| ("c-1".to_owned(), kind.to_owned(), "desk".to_owned());
    assert_eq!(rows, [row("agent.started"), row("agent.completed")]);
    assert_eq!(told(&house), rows, "and keeps a trail of its own");
}

#[test]
fn a_tool_with_effects_runs_once_on_the_other_side() {
    let service = plain();
    let file = service.world.path("effects");
    let arguments = json!({"file": file, "line": "paid", "class": "unsafe"});
    let house = calling("exec.test_effect", arguments, &both(&format!("http://{}", service.address)));
    let answer = asked(&house, "c-1");
    assert_eq!(answer["response"], json!("wrote paid"), "{answer}");
    let ledger = std::fs::read_to_string(&file).unwrap();
    let (key, line) = ledger.trim_end().split_once('\t').unwrap();
    assert_eq!(line, "paid");
    assert!(key.starts_with(answer["run_id"].as_str().unwrap()), "the key names the effect: {key}");
}

#[test]
fn a_tool_that_failed_on_the_other_side_is_told_to_the_model() {
    let service = plain();
    let url = both(&format!("http://{}", service.address));
    let house = calling("exec.calculator", json!({"expression": "1/0"}), &url);
    let answer = asked(&house, "c-1");
    assert!(answer["response"].as_str().unwrap().starts_with("Error: "), "{answer}");
}

#[test]
fn tools_appear_when_the_service_answers() {
    let is_up = Arc::new(AtomicBool::new(false));
    let up = Arc::clone(&is_up);
    let server = Server::deciding(move |_, request| match request.path.as_str() {
        _ if !up.load(Ordering::SeqCst) => Answer::json(503, "{}"),
        "/tools" => Answer::json(200, r#"{"tools": [{"name": "look", "side_effect_free": true}]}"#),
        _ => Answer::json(200, r#"{"status": "completed", "output": "here it is"}"#),
    });
    let settings = format!("[services.execution]\nurl = \"{}\"\nrefresh_s = 1\n", server.url());
    let house = calling("look", json!({}), &settings);
    let answer = asked(&house, "c-1");
    assert!(answer["response"].as_str().unwrap().contains("look"), "{answer}");
    assert_ne!(answer["response"], json!("here it is"));
    let log = || std::fs::read_to_string(house.world.path("log")).unwrap();
    assert!(log().contains("the execution service does not give out its tools"), "{}", log());
    is_up.store(true, Ordering::SeqCst);
    until("the service's answer", || log().contains("the execution service answers again").then_some(()));
    let answer =
        until("the tool", || Some(asked(&house, "c-2")).filter(|it| it["response"] == json!("here it is")));
    assert_eq!(answer["status"], json!("ok"));
}

#[test]
fn while_nobody_takes_events_runs_go_on_and_the_order_holds() {
    let is_up = Arc::new(AtomicBool::new(false));
    let up = Arc::clone(&is_up);
    let server = Server::deciding(move |_, _| match up.load(Ordering::SeqCst) {
        true => Answer::whole(202, &[], ""),
        false => Answer::json(503, ""),
    });
    let settings = format!("[services.context]\nurl = \"{}\"\n", server.url());
    let house = calling("calculator", json!({"expression": "6*7"}), &settings);
    for correlation in ["a", "b", "a", "b", "a"] {
        asked(&house, correlation);
    }
    let says = |words: &str| {
        let log = std::fs::read_to_string(house.world.path("log")).unwrap();
        log.contains(words).then_some(())
    };
    until("the warning", || says("the context service takes no events; they wait"));
    is_up.store(true, Ordering::SeqCst);
    let taken = || -> Vec<(String, String)> {
        let mut seen = Vec::new();
        let mut keys = std::collections::BTreeSet::new();
        for request in server.requests().into_iter().rev() {
            // The last attempt at each event is the accepted one.
            if keys.insert(request.header("idempotency-key").unwrap().to_owned()) {
                let body: Value = serde_json::from_str(&request.body).unwrap();
                let text = |field: &str| body[field].as_str().unwrap().to_owned();
                seen.push((text("correlation_id"), text("event_type")));
            }
        }
        seen.reverse();
        seen
    };
    until("all events", || (taken().len() == 10).then_some(()));
    until("the end of it", || says("the context service takes events again"));
    let of = |correlation: &str| -> Vec<String> {
        taken().into_iter().filter(|(of, _)| of == correlation).map(|(_, kind)| kind).collect()
    };
    let turns = |count: usize| ["agent.started", "agent.completed"].repeat(count);
    assert_eq!(of("a"), turns(3));
    assert_eq!(of("b"), turns(2));
}

/// Each is the other's execution service: calls do not go in circles.
#[test]
fn two_that_name_each_other_do_not_call_in_circles() {
    let first = plain();
    let second = House::with(
        World::new(),
        &json!({"v": 1, "replies": []}),
        &format!("[services.execution]\nurl = \"http://{}\"\nrefresh_s = 1\n", first.address),
    );
    let names = |house: &House| -> Vec<String> {
        let listed = house.get("/tools").json();
        listed["tools"]
            .as_array()
            .unwrap()
            .iter()
            .map(|tool| tool["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&second), names(&first), "tools of the other are not passed on");
    let answer = second.post("/execute", json!({"tool_name": "exec.clock", "arguments": {}})).json();
    assert_eq!(
        json!([answer["status"], answer["output"]]),
        json!(["error", "there is no tool \"exec.clock\""])
    );
}
