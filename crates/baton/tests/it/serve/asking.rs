//! `POST /process`, `/v1/runs` and `/v1/requests`: three doors to one handler, and the fields of their requests.

use serde_json::{Value, json};

use super::house::House;
use crate::mask::Mask;
use crate::world::World;

/// A script that repeats the message.
fn echo() -> Value {
    json!({"v": 1, "replies": [], "otherwise": {"do": [{"text": "You said: {user}"}]}})
}

fn house() -> House {
    House::with(World::new(), &echo(), "")
}

/// A script that looks something up, again and again.
fn busy_with_tools() -> Value {
    let reply = |n: u32| {
        let call = json!({"name": "calculator", "arguments": {"expression": format!("{n}+1")}});
        json!({"do": [{"text": "Step. "}, {"call": call}]})
    };
    json!({"v": 1, "replies": (0..20).map(reply).collect::<Vec<Value>>()})
}

fn stalls() -> Value {
    json!({"v": 1, "replies": [{"match": "wait", "do": [{"text": "First "}, {"stall": true}]}],
           "otherwise": {"do": [{"text": "You said: {user}"}]}})
}

#[test]
fn a_message_is_answered_whole() {
    let house = house();
    let answer = house.post("/process", json!({"message": "hi", "thread_id": "t"}));
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut mask = Mask::default();
    mask.text(answer.header("x-run-id"));
    let document = mask.value(answer.json());
    let steps = document["steps"].clone();
    assert_eq!(
        document,
        json!({
            "status": "ok", "response": "You said: hi", "thread_id": "t", "run_id": "ID1", "trace_id": "ID1",
            "usage": {"tokens": document["usage"]["tokens"], "prompt_tokens": document["usage"]["prompt_tokens"],
                      "completion_tokens": document["usage"]["completion_tokens"], "cost_usd": 0.0},
            "steps": steps,
        })
    );
    let kinds: Vec<&str> =
        steps.as_array().unwrap().iter().map(|step| step["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["llm_call"]);
}

#[test]
fn a_run_that_waits_is_answered_with_its_question() {
    let script = json!({"v": 1, "replies": [
        {"do": [{"call": {"name": "ask_user", "arguments": {"question": "Which colour?"}}}]},
        {"do": [{"text": "You like {last_result}."}]},
    ]});
    let house = House::with(World::new(), &script, "");
    let asked = house.post("/process", json!({"message": "paint", "thread_id": "t"}));
    let document = asked.json();
    assert_eq!(
        (asked.status, &document["status"], &document["response"]),
        (200, &json!("suspended"), &json!("Which colour?"))
    );
    let waiting = Mask::default().value(document["waiting"].clone());
    assert_eq!(
        waiting,
        json!([{"kind": "user_input", "id": "ID1-1", "deadline": "TIME", "question": "Which colour?"}])
    );
    let answered = house.post("/process", json!({"message": "blue", "thread_id": "t"}));
    let told = answered.json();
    assert_eq!(
        (&told["status"], &told["response"], &told["run_id"]),
        (&json!("ok"), &json!("You like blue."), &document["run_id"])
    );
}

#[test]
fn a_run_that_failed_is_a_problem_with_its_account() {
    let failing = |code: &str| json!({"v": 1, "replies": [], "otherwise": {"do": [{"error": {"code": code, "message": "no"}}]}});
    for (code, status) in [
        ("llm_timeout", 504),
        ("llm_auth", 502),
        ("context_too_long", 502),
        ("refused", 502),
        ("internal", 500),
    ] {
        let house = House::with(World::new(), &failing(code), "");
        let answer = house.post("/process", json!({"message": "hi"}));
        assert_eq!(answer.problem(), (status, code.to_owned()), "{answer:?}");
        let body = answer.json();
        assert_eq!(body["run_id"], answer.header("x-run-id"));
        assert_eq!(body["trace_id"], answer.header("x-trace-id"));
        assert_eq!(body["steps"][0]["metadata"]["error"], code, "{body}");
    }
}

#[test]
fn a_run_that_was_cancelled_is_a_conflict() {
    let house = House::with(World::new(), &stalls(), "");
    let answer = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| house.post("/process", json!({"message": "wait", "thread_id": "t"})));
        let run = loop {
            let runs = house.get("/v1/runs?thread=t").json();
            if let Some(run) = runs["items"].get(0) {
                break run["id"].as_str().unwrap().to_owned();
            }
        };
        house.post(&format!("/v1/runs/{run}/cancel"), json!({}));
        waiting.join().unwrap()
    });
    assert_eq!(answer.problem(), (409, "cancelled".to_owned()));
}

#[test]
fn a_run_is_named_or_streamed_as_the_caller_wishes() {
    let house = house();
    let named = house.post("/v1/runs", json!({"input": "hi", "flow": "turn"}));
    assert_eq!((named.status, named.json()), (202, json!({"run_id": named.header("x-run-id")})));
    house.until(named.header("x-run-id"), "ok");
    let body = json!({"input": "hi", "dialect": "raw"});
    let mut streamed = house.stream("POST", "/v1/runs", &[("accept", "text/event-stream")], Some(body));
    let frames = streamed.rest();
    assert_eq!(frames[0].event, "started");
    assert_eq!(frames.last().unwrap().event, "ended");
    for flow in ["plan", "goal", "x"] {
        let refused = house.post("/v1/runs", json!({"input": "hi", "flow": flow}));
        assert_eq!(refused.problem(), (400, "invalid_request".to_owned()), "{flow}");
    }
}

#[test]
fn what_cannot_be_understood_is_said() {
    let house = house();
    let detail = |body: Value| {
        let answer = house.post("/v1/agent/run", body);
        assert_eq!(answer.problem(), (400, "invalid_request".to_owned()), "{answer:?}");
        answer.json()["detail"].as_str().unwrap().to_owned()
    };
    assert!(detail(json!({"inputs": "hi"})).contains("did you mean `input`?"));
    assert!(
        detail(json!({"input": "hi", "config": {"recursion_limt": 3}}))
            .contains("did you mean `recursion_limit`?")
    );
    assert_eq!(detail(json!({"input": " \n"})), "the message is empty: say what you want");
    assert!(detail(json!({"input": "hi", "thread_id": "a b"})).contains("is not a valid thread id"));
    assert!(detail(json!({"input": "hi", "correlation_id": "a b"})).contains("`correlation_id`"));
    assert!(detail(json!({"input": "hi", "config": {"mode": "WILD"}})).contains("MODERATE"));
    assert!(detail(json!({"input": "hi", "config": {"channel": "CHATT"}})).contains("did you mean"));
    assert!(detail(json!({"input": "hi", "config": {"recursion_limit": 0}})).contains("at least 1"));
    assert!(
        detail(json!({"input": "hi", "config": {"metadata": {"correlation_id": 1}}})).contains("metadata")
    );
    assert!(detail(json!({"input": 7})).contains("input"));
    assert_eq!(house.get("/v1/threads").json(), json!({"items": []}), "nothing was begun");
}

#[test]
fn names_outside_what_is_allowed_name_the_rule() {
    let house = house();
    let said = |config: Value| {
        let answer = house.post("/process", json!({"message": "hi", "config": config}));
        let (status, code) = answer.problem();
        (status, code, answer.json()["rule"].clone())
    };
    let refused = (403, "forbidden".to_owned(), json!("config.model"));
    assert_eq!(said(json!({"model": "scripted/other.json"})), refused);
    assert_eq!(said(json!({"model": "openai/gpt-5"})), refused);
    assert_eq!(said(json!({"agent": "other"})), (403, "forbidden".to_owned(), json!("config.agent")));
    assert_eq!(said(json!({"branch": "other"})), (404, "not_found".to_owned(), Value::Null));
    let model = format!("scripted/{}", house.world.path("script.json").display());
    let config = json!({"agent": "default", "branch": "main", "model": model, "mode": "EXPLORATORY", "channel": "chat"});
    let answer = house.post("/process", json!({"message": "hi", "config": config}));
    assert_eq!((answer.status, &answer.json()["response"]), (200, &json!("You said: hi")), "{answer:?}");
}

/// The number of tool calls, and the warnings.
fn rounds(house: &House, config: Value) -> (usize, Vec<String>, String) {
    let frames = house.run(json!({"input": "go", "config": config})).rest();
    let calls = frames.iter().filter(|frame| frame.event == "tool_result").count();
    let warnings = frames.iter().filter(|frame| frame.event == "warning");
    let warnings = warnings.map(|frame| frame.data["code"].as_str().unwrap().to_owned()).collect();
    (calls, warnings, frames.last().unwrap().data["status"].as_str().unwrap().to_owned())
}

#[test]
fn a_recursion_limit_is_rounds_and_numbers_above_the_policy_are_capped() {
    let house = House::with(World::new(), &busy_with_tools(), "[limits]\niterations = 3\n");
    let (calls, warnings, status) = rounds(&house, json!({"recursion_limit": 5}));
    assert_eq!((calls, status.as_str()), (2, "ok"), "{warnings:?}");
    let (calls, ..) = rounds(&house, json!({"max_iterations": 1}));
    assert_eq!(calls, 1);
    let (calls, ..) = rounds(&house, json!({"recursion_limit": 1}));
    assert_eq!(calls, 0);
    let (own, theirs) = (rounds(&house, json!({})), rounds(&house, json!({"max_iterations": 1000})));
    assert_eq!((own.0, theirs.0), (3, 3));
    assert_eq!(theirs.1.len(), own.1.len() + 1, "that it was capped is said: {:?}", theirs.1);
}

#[test]
fn the_same_key_and_body_are_the_same_run() {
    let house = house();
    let key = [("idempotency-key", "k-1")];
    let body = || Some(json!({"input": "hi", "config": {"max_iterations": 3}}));
    let mut first = house.stream("POST", "/v1/agent/run", &key, body());
    let frames = first.rest();
    let mut again = house.stream("POST", "/v1/agent/run", &key, body());
    assert_eq!(again.rest(), frames, "it is replayed from the start");
    assert_eq!(again.head.header("x-run-id"), first.head.header("x-run-id"));
    let reordered = "{ \"config\": {\"max_iterations\": 3},\n \"input\":\"hi\" }";
    let mut same = super::wire::open(&house.address, "POST", "/v1/agent/run", &key, Some(reordered));
    assert_eq!(same.rest(), frames);
    let other = house.send("POST", "/v1/agent/run", &key, Some(json!({"input": "ho"})));
    assert_eq!(other.problem(), (422, "idempotency_mismatch".to_owned()));
    let elsewhere = house.send("POST", "/process", &key, Some(json!({"message": "ho"})));
    assert_eq!(elsewhere.status, 200, "a key belongs to its path");
    for wrong in ["a b", &"x".repeat(256)] {
        let refused =
            house.send("POST", "/process", &[("idempotency-key", wrong)], Some(json!({"message": "hi"})));
        assert_eq!(refused.problem(), (400, "invalid_request".to_owned()));
    }
}

#[test]
fn a_busy_branch_refuses_queues_or_gives_way() {
    let house = House::with(World::new(), &stalls(), "");
    let begin =
        |text: &str, config: Value| house.run(json!({"input": text, "thread_id": "t", "config": config}));
    let mut first = begin("wait", json!({}));
    first.until("thinking");
    let run = first.head.header("x-run-id").to_owned();

    let refused = begin("next", json!({})).whole();
    assert_eq!(refused.problem(), (409, "branch_busy".to_owned()));
    assert_eq!(refused.json()["run_id"], run.as_str());

    let mut queued = begin("in line", json!({"on_busy": "enqueue"}));
    assert_eq!(house.get(&format!("/v1/runs/{}", queued.head.header("x-run-id"))).json()["status"], "queued");
    let mut next = begin("now", json!({"on_busy": "interrupt"}));
    let cancelled = first.rest().pop().unwrap();
    assert_eq!(cancelled.data["status"], "cancelled");
    for stream in [&mut queued, &mut next] {
        let frames = stream.rest();
        assert_eq!(frames.last().unwrap().data["status"], "ok", "{frames:?}");
    }
}

#[test]
fn a_request_is_always_answered() {
    let house = House::with(World::new(), &stalls(), "");
    let answer = house.post("/v1/requests", json!({"session_id": "s", "user_message": "hi"}));
    assert_eq!((answer.status, answer.header("x-thread-id")), (200, "s"), "{answer:?}");
    let document = answer.json();
    assert_eq!(
        (&document["reply"], &document["steps"][0]["type"]),
        (&json!("You said: hi"), &json!("llm_call"))
    );
    assert_eq!(document["trace_id"], answer.header("x-run-id").replace('-', ""));

    let failing = json!({"v": 1, "replies": [], "otherwise": {"do": [{"error": {"code": "llm_auth", "message": "no"}}]}});
    let broken = House::with(World::new(), &failing, "");
    let answer = broken.post("/v1/requests", json!({"session_id": "s", "user_message": "hi"}));
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(
        answer.json()["steps"].as_array().unwrap().iter().any(|step| step["metadata"]["error"] == "llm_auth")
    );

    for (wrong, status) in [
        (json!({"session_id": "a b", "user_message": "hi"}), 400),
        (json!({"session_id": "s", "user_message": " "}), 400),
        (json!({"session_id": "s", "user_message": "hi", "channel": "X"}), 400),
        (json!({"session_id": "s"}), 400),
    ] {
        assert_eq!(house.post("/v1/requests", wrong.clone()).problem().0, status, "{wrong}");
    }
}

#[test]
fn a_request_with_a_key_is_made_once() {
    let house = house();
    let key = [("idempotency-key", "k")];
    let ask = |text: &str| {
        house.send("POST", "/v1/requests", &key, Some(json!({"session_id": "s", "user_message": text})))
    };
    let (first, again) = (ask("hi"), ask("hi"));
    assert_eq!(
        (first.status, first.json(), first.header("x-run-id")),
        (again.status, again.json(), again.header("x-run-id"))
    );
    assert_eq!(ask("ho").problem(), (422, "idempotency_mismatch".to_owned()));
    assert_eq!(house.get("/v1/threads/s").json()["branches"][0]["length"], 2);
}

#[test]
fn a_keyed_request_answers_a_question_only_once() {
    let script = json!({"v": 1, "replies": [
        {"do": [{"call": {"name": "ask_user", "arguments": {"question": "Which colour?"}}}]},
        {"do": [{"call": {"name": "ask_user", "arguments": {"question": "Which size?"}}}]},
        {"do": [{"text": "A {last_result} one."}]},
    ]});
    let house = House::with(World::new(), &script, "");
    let say = |text: &str, headers: &[(&str, &str)]| {
        let body = json!({"session_id": "s", "user_message": text});
        house.send("POST", "/v1/requests", headers, Some(body))
    };
    let (first, key) = (say("paint", &[]), [("idempotency-key", "k")]);
    assert_eq!(first.json()["reply"], "Which colour?");
    let answered = say("blue", &key);
    assert_eq!(answered.json()["reply"], "Which size?", "{answered:?}");
    let again = say("blue", &key);
    assert_eq!(again.json()["reply"], "Which size?", "it is not the answer to the next question");
    assert_eq!(again.header("x-run-id"), first.header("x-run-id"));
    assert_eq!(say("red", &key).problem(), (422, "idempotency_mismatch".to_owned()));
    assert_eq!(say("large", &[]).json()["reply"], "A large one.");
}

#[test]
fn what_cannot_be_watched_is_not_begun() {
    let house = House::with(World::new(), &stalls(), "[serve]\nstreams_per_tenant = 1\n");
    let mut first = house.run(json!({"input": "wait"}));
    first.until("thinking");
    let accept = [("accept", "text/event-stream")];
    let body = json!({"flow": "turn", "input": "hi", "thread_id": "t"});
    for refused in [
        house.post("/v1/agent/run", json!({"input": "hi", "thread_id": "t"})),
        house.send("POST", "/v1/runs", &accept, Some(body.clone())),
    ] {
        assert_eq!((refused.problem(), refused.header("x-run-id")), ((429, "rate_limited".to_owned()), ""));
    }
    assert_eq!(house.get("/v1/runs?thread=t").problem(), (404, "not_found".to_owned()), "nothing was begun");
    assert_eq!(house.post("/v1/runs", body).status, 202, "and whoever does not watch is not refused");
}

#[test]
fn a_run_with_too_many_watchers_is_named_to_the_next() {
    let settings = "[serve]\nstreams_per_run = 1\n";
    let house = House::with(World::new(), &stalls(), settings);
    let ask = || {
        let body = json!({"input": "wait", "config": {"on_disconnect": "cancel"}});
        house.stream("POST", "/v1/agent/run", &[("idempotency-key", "k")], Some(body))
    };
    let mut first = ask();
    first.until("thinking");
    let run = first.head.header("x-run-id").to_owned();
    let refused = ask().whole();
    assert_eq!(refused.problem(), (429, "rate_limited".to_owned()));
    assert_eq!(refused.header("x-run-id"), run);
    assert_eq!(
        house.get(&format!("/v1/runs/{run}")).json()["status"],
        "running",
        "it is not cancelled for it"
    );
}
