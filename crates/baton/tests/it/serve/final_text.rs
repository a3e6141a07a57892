//! `done` carries the run's final text: the same at every door, however the stream was joined and the run ended.

use serde_json::{Value, json};

use super::house::House;
use crate::world::World;

const ANSWER: &str = "It is\n\n42 \u{2028}in all.";

/// Words, a tool, a blank message beside another call, and the answer.
fn computes() -> Value {
    let call = json!({"call": {"name": "calculator", "arguments": {"expression": "6*7"}}});
    json!([
        {"do": [{"text": "Let me see. "}, call]},
        {"do": [{"text": " \n"}, call]},
        {"do": [{"text": ANSWER}]},
    ])
}

/// The final text in every way of reading a run that has ended.
fn told_everywhere(house: &House, run: &str) -> Vec<Value> {
    let path = format!("/v1/runs/{run}/events");
    let whole = house.stream("GET", &path, &[], None).rest();
    let mut places: Vec<&str> = whole.iter().filter_map(|frame| frame.id.as_deref()).collect();
    places.pop(); // nothing comes after the last
    let mut told: Vec<Value> = places
        .into_iter()
        .map(|place| house.stream("GET", &path, &[("last-event-id", place)], None).rest())
        .chain([whole.clone()])
        .map(|frames| frames.last().unwrap().data["response"].clone())
        .collect();
    // Another process reads the stored run.
    let tailed = house.world.baton(&["runs", "tail", run, "--json"]).out;
    let done: Value = serde_json::from_str(tailed.lines().last().unwrap()).unwrap();
    told.push(done["response"].clone());
    told.push(house.get(&format!("/v1/runs/{run}")).json()["result"].clone());
    told.dedup();
    told
}

#[test]
fn done_carries_the_final_text_on_every_door() {
    let house = House::playing(computes());
    let mut stream = house.run(json!({"input": "hi"}));
    let done = stream.rest().pop().unwrap();
    assert_eq!((done.event.as_str(), &done.data["response"]), ("done", &json!(ANSWER)));
    assert_eq!(told_everywhere(&house, stream.head.header("x-run-id")), [json!(ANSWER)]);
    assert_eq!(house.post("/process", json!({"message": "hi"})).json()["response"], json!(ANSWER));
    let world = World::new();
    let model = world.script(&json!({"v": 1, "replies": computes()}));
    let objects = world.baton(&["ask", "--json", "--model", &model, "hi"]).objects();
    assert_eq!(objects.last().unwrap()["response"], json!(ANSWER));
    let raw = house
        .stream("GET", &format!("/v1/runs/{}/events?dialect=raw", stream.head.header("x-run-id")), &[], None)
        .rest();
    assert_eq!(raw.last().unwrap().data.get("response"), None, "raw shows the log as it is");
}

#[test]
fn a_text_that_is_longer_than_a_stream_keeps_is_whole() {
    // A few long words: each of them is an event.
    let long = format!("{} ", "x".repeat(40_000)).repeat(4);
    let house = House::playing(json!([{"do": [{"text": long}]}]));
    let mut stream = house.run(json!({"input": "hi"}));
    let done = stream.rest().pop().unwrap();
    assert_eq!(done.data["response"].as_str().map(str::len), Some(long.len()));
    assert_eq!(told_everywhere(&house, stream.head.header("x-run-id")), [json!(long)]);
}

#[test]
fn a_run_that_fails_or_is_cancelled_has_the_text_that_it_came_to() {
    let fails = json!([{"do": [{"text": "Half an"}, {"error": {"code": "llm_auth", "message": "no key"}}]}]);
    let house = House::playing(fails);
    let mut stream = house.run(json!({"input": "hi"}));
    let done = stream.rest().pop().unwrap();
    assert_eq!((&done.data["status"], &done.data["response"]), (&json!("error"), &json!("Half an")));
    assert_eq!(told_everywhere(&house, stream.head.header("x-run-id")), [json!("Half an")]);

    let house = House::playing(json!([{"do": [{"text": "First "}, {"stall": true}]}]));
    let mut stream = house.run(json!({"input": "hi"}));
    stream.until("thinking");
    let run = stream.head.header("x-run-id").to_owned();
    assert_eq!(house.post(&format!("/v1/runs/{run}/cancel"), json!({})).status, 202);
    let done = stream.rest().pop().unwrap();
    assert_eq!((&done.data["status"], &done.data["response"]), (&json!("cancelled"), &json!("First ")));
    assert_eq!(told_everywhere(&house, &run), [json!("First ")]);
}

#[test]
fn a_run_that_says_nothing_has_an_empty_text() {
    let house = House::playing(json!([{"do": [{"error": {"code": "llm_auth", "message": "no key"}}]}]));
    let mut stream = house.run(json!({"input": "hi"}));
    let done = stream.rest().pop().unwrap();
    assert_eq!((&done.data["status"], &done.data["response"]), (&json!("error"), &json!("")));
}

#[test]
fn a_stream_that_closes_while_the_run_waits_carries_the_question() {
    let asks = json!([{"do": [
        {"text": "One moment. "}, {"call": {"name": "ask_user", "arguments": {"question": "Which colour?"}}}
    ]}]);
    let house = House::playing(asks);
    for dialect in ["agent", "raw"] {
        let body = json!({"flow": "turn", "input": "hi", "dialect": dialect}).to_string();
        let accept = [("accept", "text/event-stream")];
        let frames = super::wire::open(&house.address, "POST", "/v1/runs", &accept, Some(&body)).rest();
        let done = &frames.last().unwrap().data;
        assert_eq!((&done["status"], &done["response"]), (&json!("suspended"), &json!("Which colour?")));
    }
    let waits = house.post("/process", json!({"message": "hi"})).json();
    assert_eq!((&waits["status"], &waits["response"]), (&json!("suspended"), &json!("Which colour?")));

    let call = json!({"call": {"name": "calculator", "arguments": {"expression": "6*7"}}});
    let script = json!({"v": 1, "replies": [{"do": [{"text": "One moment. "}, call]}]});
    let house = House::with(World::new(), &script, "[policy]\napprove = [\"calc*\"]\n");
    let done = house.run(json!({"input": "hi"})).rest().pop().unwrap().data;
    assert_eq!((&done["status"], &done["response"]), (&json!("suspended"), &json!("")), "nothing was asked");
}

#[test]
fn a_text_that_was_said_again_after_a_crash_is_told_once() {
    let world = World::new();
    let model = world.script(&json!({"v": 1, "replies": [{"do": [{"text": "one two three"}]}]}));
    let mut command = world.command(&["ask", "--json", "--model", &model, "hi"]);
    let killed = command.env("BATON_FAILPOINT", "llm.mid_stream:2").output().unwrap();
    assert!(!killed.status.success(), "{killed:?}");
    let run = world.baton(&["runs", "ls", "--json"]).json()["items"][0]["id"].as_str().unwrap().to_owned();
    world.baton(&["runs", "resume", &run]).ok();
    let objects = world.baton(&["runs", "tail", &run, "--json"]).objects();
    let done = objects.last().unwrap();
    assert_eq!((&done["status"], &done["response"]), (&json!("ok"), &json!("one two three")));
}
