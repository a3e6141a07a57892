//! A token with a low mode, and runs with a higher one: every route that changes anything is tried.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::serve::house::House;
use crate::serve::wire::Answer;
use crate::world::World;

/// The effect of a route on a run with a higher mode.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Outcome {
    /// The route would act on the run, and is refused.
    Refused,
    /// The route does not concern the run: this status, and the run stays as it was.
    Apart(u16),
    /// The route ends the run, which any token may do.
    Stops(u16),
}
use Outcome::{Apart, Refused, Stops};

/// One try: the operation as it is described, its path with ids, and the body.
struct Try {
    operation: &'static str,
    path: String,
    body: Value,
    outcome: Outcome,
}

/// A try of every operation that changes anything; those that stop a run come last.
fn tries(asks: &str, pending: &str, approval: &str) -> Vec<Try> {
    let at = |operation, path: String, body, outcome| Try { operation, path, body, outcome };
    let on = |operation: &'static str, body, outcome| {
        let (_, path) = operation.split_once(' ').unwrap();
        at(operation, path.to_owned(), body, outcome)
    };
    let of = |operation, run: &str, rest: &str, body| {
        at(operation, format!("/v1/runs/{run}{rest}"), body, Refused)
    };
    let thread = |operation: &'static str, name: &str, body, outcome| {
        let (_, path) = operation.split_once(' ').unwrap();
        at(operation, path.replace("{id}", name).replace("{name}", "other"), body, outcome)
    };
    let decide = "post /v1/runs/{id}/approvals/{approval_id}";
    let mut tries = vec![
        on("post /v1/agent/run", json!({"input": "red", "thread_id": "asks"}), Refused),
        on("post /process", json!({"message": "red", "thread_id": "asks"}), Refused),
        on("post /v1/requests", json!({"session_id": "asks", "user_message": "red"}), Refused),
        on("post /v1/runs", json!({"flow": "turn", "input": "red", "thread_id": "asks"}), Refused),
        of("post /v1/runs/{id}/input", asks, "/input", json!({"text": "red"})),
        of("post /v1/runs/{id}/input", pending, "/input", json!({"text": "red"})),
        of("post /v1/runs/{id}/fork", asks, "/fork", json!({"step": 1})),
        of("post /v1/runs/{id}/fork", pending, "/fork", json!({"step": 1})),
        thread(
            "post /v1/threads/{id}/entries",
            "asks",
            json!({"t": "UserResponse", "data": {"text": "red"}}),
            Apart(409),
        ),
        thread("post /v1/threads/{id}/rewind", "asks", json!({"index": 0}), Apart(409)),
        thread("post /v1/threads/{id}/fork", "asks", json!({"name": "other"}), Apart(201)),
        thread("post /v1/threads/{id}/checkout", "asks", json!({"branch": "other"}), Apart(200)),
        thread("post /v1/threads/{id}/checkout", "asks", json!({"branch": "main"}), Apart(200)),
        thread("delete /v1/threads/{id}/branches/{name}", "asks", json!({}), Apart(204)),
        thread("post /v1/threads/{id}/prune", "asks", json!({}), Apart(200)),
        on("post /v1/threads", json!({}), Apart(201)),
        on(
            "post /execute",
            json!({"tool_name": "calculator", "arguments": {"expression": "1+1"}}),
            Apart(200),
        ),
        on(
            "post /events",
            json!({"correlation_id": "c", "event_type": "t", "source": "s", "payload": {}}),
            Apart(202),
        ),
    ];
    for body in [
        json!({"decision": "approve"}),
        json!({"decision": "deny"}),
        json!({"decision": "edit", "arguments": {"expression": "6*7"}}),
    ] {
        tries.push(of(decide, pending, &format!("/approvals/{approval}"), body));
    }
    let cancel = "post /v1/runs/{id}/cancel";
    tries.push(at(cancel, format!("/v1/runs/{asks}/cancel"), json!({}), Stops(202)));
    tries.push(at("delete /v1/threads/{id}", "/v1/threads/pending".to_owned(), json!({}), Stops(204)));
    tries
}

/// Every described operation that changes anything, as `method path`.
fn described(house: &House, authorization: &str) -> BTreeSet<String> {
    let described = house.send("GET", "/openapi.json", &[("authorization", authorization)], None).json();
    let paths = described["paths"].as_object().unwrap().iter();
    let operations = paths.flat_map(|(path, methods)| {
        methods.as_object().unwrap().keys().map(move |method| format!("{method} {path}"))
    });
    operations.filter(|operation| !operation.starts_with("get ")).collect()
}

#[test]
fn no_route_lets_a_token_act_on_a_run_that_may_do_more() {
    let world = World::new();
    let added = |name: &str, mode: &str| {
        let did = world.baton(&["tokens", "add", "--json", name, "--max-mode", mode]);
        format!("Bearer {}", did.json()["token"].as_str().unwrap())
    };
    let (most, less) = (added("most", "EXPLORATORY"), added("less", "CONSERVATIVE"));
    let script = json!({"v": 1, "replies": [
        {"match": "paint", "do": [{"call": {"name": "ask_user", "arguments": {"question": "Which colour?"}}}]},
        {"match": "paint", "do": [{"text": "You like {last_result}."}]},
        {"match": "count", "do": [{"call": {"name": "calculator", "arguments": {"expression": "2*3"}}}]},
        {"match": "count", "do": [{"text": "It is {last_result}."}]},
    ]});
    let house = House::with(world, &script, "[policy.modes.EXPLORATORY]\napprove = [\"calculator\"]\n");
    let send = |token: &str, operation: &str, path: &str, body: &Value| -> Answer {
        let (method, _) = operation.split_once(' ').unwrap();
        house.send(&method.to_uppercase(), path, &[("authorization", token)], Some(body.clone()))
    };
    let begun = |message: &str, thread: &str| {
        let config = json!({"mode": "EXPLORATORY"});
        let body = json!({"message": message, "thread_id": thread, "config": config});
        let begun = send(&most, "post ", "/process", &body);
        (begun.header("x-run-id").to_owned(), begun.json()["waiting"].clone())
    };
    let ((asks, question), (pending, approval)) = (begun("paint", "asks"), begun("count", "pending"));
    assert_eq!((&question[0]["kind"], &approval[0]["kind"]), (&json!("user_input"), &json!("approval")));
    let approval = approval[0]["id"].as_str().unwrap();
    let read = |run: &str| send(&most, "get ", &format!("/v1/runs/{run}"), &json!(null)).json();
    let before = (read(&asks), read(&pending));
    let tries = tries(&asks, &pending, approval);
    let tried: BTreeSet<String> = tries.iter().map(|it| it.operation.to_owned()).collect();
    assert_eq!(tried, described(&house, &most), "every route that changes something is in the table");
    for Try { operation, path, body, outcome } in &tries {
        let answer = send(&less, operation, path, body);
        match outcome {
            Refused => {
                assert_eq!(answer.problem(), (403, "forbidden".to_owned()), "{operation} {body}");
                assert_eq!(answer.json()["rule"], "token.max_mode", "{operation}");
            }
            Apart(status) | Stops(status) => assert_eq!(answer.status, *status, "{operation}: {answer:?}"),
        }
        if !matches!(outcome, Stops(_)) {
            assert_eq!((read(&asks), read(&pending)), before, "{operation} {body}");
        }
    }
    house.until_as(&most, &asks, "cancelled");
    let gone = send(&most, "get ", &format!("/v1/runs/{pending}"), &json!(null));
    assert_eq!(gone.status, 404);
}

#[test]
fn whoever_may_allow_as_much_decides() {
    let world = World::new();
    let did = world.baton(&["tokens", "add", "--json", "most", "--max-mode", "EXPLORATORY"]);
    let most = format!("Bearer {}", did.json()["token"].as_str().unwrap());
    let script = json!({"v": 1, "replies": [
        {"do": [{"call": {"name": "calculator", "arguments": {"expression": "2*3"}}}]},
        {"do": [{"text": "It is {last_result}."}]},
    ]});
    let house = House::with(world, &script, "[policy]\napprove = [\"calculator\"]\n");
    let send = |method: &str, path: &str, body: Option<Value>| {
        house.send(method, path, &[("authorization", &most)], body)
    };
    let body = json!({"message": "count", "config": {"mode": "EXPLORATORY"}});
    let begun = send("POST", "/process", Some(body));
    let (run, approval) =
        (begun.header("x-run-id"), begun.json()["waiting"][0]["id"].as_str().unwrap().to_owned());
    let edit = json!({"decision": "edit", "arguments": {"expression": "6*7"}});
    let decided = send("POST", &format!("/v1/runs/{run}/approvals/{approval}"), Some(edit));
    assert_eq!((decided.status, &decided.json()["by"]), (200, &json!("most")), "{decided:?}");
    house.until_as(&most, run, "ok");
    let result = send("GET", &format!("/v1/runs/{run}"), None).json()["result"].clone();
    assert!(result.as_str().unwrap().contains("42"), "{result}");
}
