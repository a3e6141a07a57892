//! `GET /tools` and `POST /execute`: Baton as an execution service.

use serde_json::{Value, json};

use super::house::House;
use crate::world::World;

fn house(settings: &str) -> House {
    House::with(World::new(), &json!({"v": 1, "replies": []}), settings)
}

fn names(house: &House) -> Vec<String> {
    let listed = house.get("/tools").json();
    listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

/// Calls a tool; returns the status of the answer and the document without its time.
fn call(house: &House, headers: &[(&str, &str)], body: Value) -> (u16, Value) {
    let answer = house.send("POST", "/execute", headers, Some(body));
    let mut document = answer.json();
    if answer.status == 200 {
        assert!(document["execution_time_ms"].is_number(), "{document}");
        document["execution_time_ms"].take();
    }
    (answer.status, document)
}

fn error(output: &str) -> (u16, Value) {
    (200, json!({"status": "error", "output": output, "execution_time_ms": null}))
}

fn success(output: Value) -> (u16, Value) {
    (200, json!({"status": "success", "output": output, "execution_time_ms": null}))
}

fn effect(house: &House, class: &str, more: Value) -> Value {
    let mut arguments = json!({"file": house.world.path("effects"), "line": "done", "class": class});
    arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"tool_name": "test_effect", "arguments": arguments})
}

fn effects(world: &World) -> Vec<String> {
    let text = std::fs::read_to_string(world.path("effects")).unwrap_or_default();
    text.lines().map(|line| line.split_once('\t').unwrap().0.to_owned()).collect()
}

#[test]
fn the_tools_that_a_caller_may_call_are_listed() {
    let open = house("");
    let listed = open.get("/tools").json();
    let clock =
        listed["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "update_plan").unwrap();
    let mut fields: Vec<&String> = clock.as_object().unwrap().keys().collect();
    fields.sort();
    let expected = [
        "description",
        "idempotent",
        "input_schema",
        "name",
        "output_schema",
        "requires_context",
        "side_effect_free",
        "timeout_s",
    ];
    let expected: Vec<&str> = expected.into_iter().filter(|name| clock.get(name).is_some()).collect();
    assert_eq!(fields, expected);
    let names_of_all = names(&open);
    assert!(names_of_all.contains(&"test_effect".to_owned()), "{names_of_all:?}");
    assert!(!names_of_all.contains(&"ask_user".to_owned()), "only a run can answer it: {names_of_all:?}");

    let few = house(
        "[policy.channels.EXECUTE]\ntools = [\"clock\", \"calculator\", \"system_*\"]\n\n[tools.system_logs]\napprove = true\n",
    );
    assert_eq!(names(&few), ["calculator", "clock", "system_health"]);
}

#[test]
fn a_call_answers_what_the_tool_returned() {
    let house = house("");
    let body = json!({"tool_name": "calculator", "arguments": {"expression": "6*7"}, "timeout": 5});
    assert_eq!(call(&house, &[], body), success(json!({"exact": true, "result": "42"})));
}

#[test]
fn anything_about_the_tool_or_its_arguments_is_an_answer() {
    let house = house(
        "[policy.channels.EXECUTE]\ntools = [\"calculator\", \"clock\", \"test_effect\"]\n\n[tools.clock]\napprove = true\n",
    );
    let calculator = |arguments: Value| json!({"tool_name": "calculator", "arguments": arguments});
    let table = [
        (json!({"tool_name": "nothing", "arguments": {}}), "there is no tool \"nothing\""),
        (json!({"tool_name": "", "arguments": {}}), "there is no tool \"\""),
        (calculator(json!([])), "The arguments are not a JSON object."),
        (
            calculator(json!({})),
            "The arguments do not fit `calculator`: \"expression\" is a required property.",
        ),
        (
            json!({"tool_name": "system_health", "arguments": {}}),
            "system_health is not allowed here (rule \"EXECUTE/EXPLORATORY\")",
        ),
        (
            json!({"tool_name": "clock", "arguments": {}}),
            "clock needs a person's approval, which only a run can ask for",
        ),
        (effect(&house, "unsafe", json!({"fail": true})), "failed as told"),
    ];
    for (body, output) in table {
        assert_eq!(call(&house, &[], body.clone()), error(output), "{body}");
    }
    let mut slow = effect(&house, "unsafe", json!({"delay_ms": 600_000}));
    slow["timeout"] = json!(0.05);
    assert_eq!(call(&house, &[], slow), error("test_effect did not finish in time and was stopped"));
}

#[test]
fn what_is_no_call_is_a_problem() {
    let house = house("");
    let wrong = [
        json!({"arguments": {}}),
        json!({"tool_name": "clock"}),
        json!({"tool_name": 3, "arguments": {}}),
        json!({"tool_name": "clock", "arguments": {}, "timeout": 0}),
        json!({"tool_name": "clock", "arguments": {}, "timeout": -1}),
        json!({"tool_name": "clock", "arguments": {}, "timeout": 86_401}),
        json!({"tool_name": "clock", "arguments": {}, "timeout": "5"}),
        json!({"tool_name": "clock", "arguments": {}, "context": {}}),
        json!([]),
    ];
    for body in wrong {
        let answer = house.send("POST", "/execute", &[], Some(body.clone()));
        assert_eq!(answer.problem(), (400, "invalid_request".to_owned()), "{body}");
    }
    let body = json!({"tool_name": "clock", "arguments": {}});
    let answer = house.send("POST", "/execute", &[("x-baton-context", "{")], Some(body.clone()));
    assert_eq!(answer.problem(), (400, "invalid_request".to_owned()));
    let answer = house.send("POST", "/execute", &[("x-baton-context", "{\"who\": \"me\"}")], Some(body));
    assert_eq!(answer.status, 200);
}

#[test]
fn a_call_with_a_key_is_made_once() {
    let house = house("");
    let once = effect(&house, "unsafe", json!({}));
    let key = [("idempotency-key", "k-1")];
    let first = house.send("POST", "/execute", &key, Some(once.clone()));
    let mut with_time = once.clone();
    with_time["timeout"] = json!(9);
    for body in [once.clone(), with_time] {
        let again = house.send("POST", "/execute", &key, Some(body));
        assert_eq!((again.status, again.json()), (first.status, first.json()), "the very same answer");
    }
    assert_eq!(effects(&house.world), ["k-1"]);
    let other = effect(&house, "idempotent", json!({}));
    let answer = house.send("POST", "/execute", &key, Some(other.clone()));
    assert_eq!(answer.problem(), (422, "idempotency_mismatch".to_owned()));
    assert_eq!(call(&house, &[("idempotency-key", "k-2")], once.clone()), success(json!("wrote done")));
    assert_eq!(effects(&house.world), ["k-1", "k-2"]);
    call(&house, &[], once.clone());
    call(&house, &[], once);
    assert_eq!(effects(&house.world).len(), 4, "without a key, every call is another one");
}

#[test]
fn a_call_whose_process_died_is_made_again_only_where_that_does_no_harm() {
    let unknown = "the call was interrupted, and nobody knows whether it took effect; it is not made again";
    let stopped = "test_effect did not finish in time and was stopped";
    for (class, expected) in [("unsafe", unknown), ("idempotent", stopped)] {
        let house = house("");
        let key = [("idempotency-key", "k-1")];
        // Its answer never comes; that it has begun shows in the file.
        let slow = effect(&house, class, json!({"delay_ms": 600_000}));
        let asking = std::thread::spawn({
            let (address, body) = (house.address.clone(), slow.to_string());
            move || {
                let mut socket = std::net::TcpStream::connect(&address).unwrap();
                let head = format!(
                    "POST /execute HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\nidempotency-key: k-1\r\n\
                     content-length: {}\r\n\r\n{body}",
                    body.len()
                );
                std::io::Write::write_all(&mut socket, head.as_bytes()).unwrap();
                let _ = std::io::Read::read(&mut socket, &mut [0]);
            }
        });
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while effects(&house.world).is_empty() {
            assert!(std::time::Instant::now() < deadline, "it never began");
            std::thread::yield_now();
        }
        let house = House::open(house.killed());
        asking.join().unwrap();
        // The timeout is no part of the request's identity: it is the same call.
        let mut again = slow.clone();
        again["timeout"] = json!(0.2);
        assert_eq!(call(&house, &key, again), error(expected), "{class}");
        assert_eq!(effects(&house.world), ["k-1"], "{class}");
    }
}

#[test]
fn a_process_that_has_enough_to_do_makes_no_calls() {
    let script = json!({"v": 1, "replies": [{"do": [{"text": "First "}, {"stall": true}]}]});
    let house = House::with(World::new(), &script, "[serve]\nruns = 1\n");
    let body = json!({"tool_name": "calculator", "arguments": {"expression": "1+1"}});
    assert_eq!(house.post("/execute", body.clone()).status, 200);
    let mut stream = house.run(json!({"input": "hi"}));
    stream.until("thinking");
    let refused = house.post("/execute", body);
    assert_eq!((refused.problem(), refused.header("retry-after")), ((503, "overloaded".to_owned()), "1"));
}
