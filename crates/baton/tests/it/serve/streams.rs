//! `POST /v1/agent/run` and `GET /v1/runs/{id}/events`: the streamed frames, and resuming a stream.

use serde_json::{Value, json};

use super::house::House;
use super::wire::Frame;
use crate::mask::Mask;
use crate::server::{Answer, Barrier, Server};
use crate::world::World;

fn looks_up() -> Value {
    let usage = json!({"usage": {"prompt_tokens": 3, "completion_tokens": 2}});
    json!([
        {"do": [{"text": "Let me see. "}, {"call": {"name": "calculator", "arguments": {"expression": "6*7"}}}, usage]},
        {"do": [{"text": "It is\n\nevent: done\u{2028}42"}, usage]},
    ])
}

/// A script that stalls half-way until it is cancelled.
fn stalls() -> Value {
    json!([{"do": [{"text": "First "}, {"stall": true}]}])
}

/// A script that asks the user.
fn asks() -> Value {
    json!([
        {"do": [{"call": {"name": "ask_user", "arguments": {"question": "Which colour?"}}}]},
        {"do": [{"text": "You like {last_result}."}]},
    ])
}

/// Frames as they can be compared.
fn masked(frames: &[Frame]) -> Vec<(Option<String>, String, Value)> {
    let mut mask = Mask::default();
    frames.iter().map(|it| (it.id.clone(), it.event.clone(), mask.value(it.data.clone()))).collect()
}

fn names(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.event.as_str()).collect()
}

#[test]
fn a_message_is_answered_as_it_arrives_and_done_comes_last() {
    let house = House::playing(looks_up());
    let mut stream = house.run(json!({"input": "hi", "thread_id": "t", "correlation_id": "c-1"}));
    let frames = stream.rest();
    assert_eq!(stream.head.status, 200);
    for (name, expected) in [
        ("content-type", "text/event-stream"),
        ("cache-control", "no-store"),
        ("x-accel-buffering", "no"),
        ("x-thread-id", "t"),
        ("x-correlation-id", "c-1"),
        ("content-encoding", ""),
    ] {
        assert_eq!(stream.head.header(name), expected, "{name}");
    }
    let run = stream.head.header("x-run-id");
    assert_eq!(stream.head.header("x-trace-id"), run.replace('-', ""));
    assert_eq!(stream.between.len(), 1, "{:?}", stream.between);
    let retry: u32 = stream.between[0].strip_prefix("retry: ").unwrap().parse().unwrap();
    assert!((1000..=3000).contains(&retry), "{retry}");

    let thinking = |content: &str, n: u32| json!({"type": "thinking", "content": content, "message_id": format!("ID1-{n}")});
    let seen = masked(&frames);
    let ids: Vec<u64> = seen
        .iter()
        .map(|(id, ..)| id.as_ref().unwrap().strip_prefix("1.").unwrap().parse().unwrap())
        .collect();
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    let texts: String =
        seen.iter().filter(|it| it.1 == "thinking").map(|it| it.2["content"].as_str().unwrap()).collect();
    assert_eq!(texts, "Let me see. It is\n\nevent: done\u{2028}42");
    assert_eq!(seen[0].2, thinking("Let ", 0));
    let others: Vec<&Value> = seen.iter().filter(|it| it.1 != "thinking").map(|it| &it.2).collect();
    let usage = json!({"tokens": 10, "prompt_tokens": 6, "completion_tokens": 4, "cost_usd": null});
    assert_eq!(
        others,
        [
            &json!({"type": "tool_start", "name": "calculator", "args": {"expression": "6*7"}, "call_id": "ID1-1"}),
            &json!({"type": "tool_result", "name": "calculator", "result": "{\"exact\":true,\"result\":\"42\"}",
                    "call_id": "ID1-1", "is_error": false}),
            &json!({"type": "done", "status": "ok", "response": "It is\n\nevent: done\u{2028}42", "usage": usage}),
        ]
    );
    assert_eq!(house.get("/v1/threads/t").status, 200);
}

#[test]
fn what_is_missing_is_made_for_the_caller() {
    let house = House::playing(looks_up());
    let mut stream = house.run(json!({"input": "hi"}));
    stream.rest();
    let (run, thread) =
        (stream.head.header("x-run-id").to_owned(), stream.head.header("x-thread-id").to_owned());
    assert_eq!(stream.head.header("x-correlation-id"), run);
    let read = house.get(&format!("/v1/runs/{run}"));
    assert_eq!(
        (read.json()["thread_id"].as_str(), read.header("x-run-id")),
        (Some(thread.as_str()), run.as_str())
    );
}

#[test]
fn a_trace_goes_on_and_one_that_cannot_be_read_is_none() {
    let house = House::playing(looks_up());
    let trace = "0af7651916cd43dd8448eb211c80319c";
    for (parent, expected) in [
        (format!("00-{trace}-b7ad6b7169203331-01"), Some(trace)),
        (format!("00-{trace}-b7ad6b7169203331"), None),
        ("nonsense".to_owned(), None),
    ] {
        let body = Some(json!({"message": "hi"}));
        let answer = house.send("POST", "/process", &[("traceparent", &parent)], body);
        let own = answer.header("x-run-id").replace('-', "");
        assert_eq!(answer.header("x-trace-id"), expected.unwrap_or(&own), "{parent}");
        assert_eq!(answer.json()["trace_id"], answer.header("x-trace-id"));
    }
}

#[test]
fn a_log_can_be_read_again_from_every_place() {
    let house = House::playing(looks_up());
    let mut live = house.run(json!({"input": "hi"}));
    let all = live.rest();
    let path = format!("/v1/runs/{}/events", live.head.header("x-run-id"));
    let again = house.stream("GET", &path, &[], None).rest();
    assert_eq!(again, all, "a late watcher sees the same");
    for (n, frame) in all.iter().enumerate() {
        let id = frame.id.as_ref().unwrap();
        let by_header = house.stream("GET", &path, &[("last-event-id", id)], None).rest();
        assert_eq!(by_header, all[n + 1..], "after {id}");
        let by_query = house.stream("GET", &format!("{path}?after={id}"), &[], None).rest();
        assert_eq!(by_query, all[n + 1..], "after {id}");
    }
    let raw = house.stream("GET", &format!("{path}?dialect=raw"), &[], None).rest();
    let numbers: Vec<String> = raw.iter().map(|frame| frame.id.clone().unwrap()).collect();
    assert_eq!(numbers, (1..=raw.len()).map(|n| format!("1.{n}")).collect::<Vec<_>>());
    assert_eq!((raw[0].event.as_str(), raw.last().unwrap().event.as_str()), ("started", "ended"));
}

#[test]
fn a_place_that_is_not_in_the_log_is_refused() {
    let house = House::playing(looks_up());
    let mut live = house.run(json!({"input": "hi"}));
    let last = live.rest().pop().unwrap().id.unwrap();
    let path = format!("/v1/runs/{}/events", live.head.header("x-run-id"));
    let beyond = format!("1.{}", last[2..].parse::<u64>().unwrap() + 1);
    for wrong in ["x", "1", "1.", "-1.2", "1.2.3", "2.1", "99.1", "1.99999999999999999999", &beyond] {
        let answer = house.send("GET", &path, &[("last-event-id", wrong)], None);
        assert_eq!(answer.problem(), (400, "invalid_request".to_owned()), "{wrong}");
    }
    for wrong in ["goal", "rag", "AGENT", ""] {
        let answer = house.get(&format!("{path}?dialect={wrong}"));
        assert_eq!(answer.problem(), (400, "invalid_request".to_owned()), "{wrong}");
    }
    let nobody = "01890a5d-ac96-774b-bcce-b302099a8057";
    for missing in [format!("/v1/runs/{nobody}/events"), "/v1/runs/x/events".to_owned()] {
        assert_eq!(house.get(&missing).problem(), (404, "not_found".to_owned()));
    }
}

#[test]
fn two_watchers_see_the_same_and_one_that_leaves_changes_nothing() {
    let house = House::playing(stalls());
    let mut first = house.run(json!({"input": "hi"}));
    let begun = first.until("thinking");
    let run = first.head.header("x-run-id").to_owned();
    let path = format!("/v1/runs/{run}/events");
    let mut second = house.stream("GET", &path, &[], None);
    assert_eq!(second.until("thinking"), begun);
    drop(first);
    let mut third = house.stream("GET", &path, &[], None);
    assert_eq!(third.until("thinking"), begun);
    let told = house.post(&format!("/v1/runs/{run}/cancel"), json!({}));
    assert_eq!(told.status, 202);
    let (second, third) = (second.rest(), third.rest());
    assert_eq!(second, third);
    let done = second.last().unwrap();
    assert_eq!((done.event.as_str(), &done.data["status"]), ("done", &json!("cancelled")));
}

#[test]
fn going_away_cancels_only_what_was_to_be_cancelled() {
    let house = House::playing(stalls());
    let begin = |config: Value| {
        let mut stream = house.run(json!({"input": "hi", "config": config}));
        stream.until("thinking");
        let run = stream.head.header("x-run-id").to_owned();
        drop(stream);
        run
    };
    let stays = begin(json!({}));
    let goes = begin(json!({"on_disconnect": "cancel"}));
    house.until(&goes, "cancelled");
    assert_eq!(house.get(&format!("/v1/runs/{stays}")).json()["status"], "running");
}

#[test]
fn a_stream_closes_when_the_run_waits_and_the_log_stays_open() {
    let house = House::playing(asks());
    let mut asked = house.run(json!({"input": "paint", "thread_id": "t"}));
    let frames = asked.rest();
    let done = frames.last().unwrap();
    assert_eq!(
        (done.id.as_ref(), done.event.as_str(), &done.data["status"]),
        (None, "done", &json!("suspended"))
    );
    let run = asked.head.header("x-run-id").to_owned();

    let mut watcher = house.stream("GET", &format!("/v1/runs/{run}/events"), &[], None);
    watcher.until("tool_start");
    let mut answered = house.run(json!({"input": "blue", "thread_id": "t"}));
    let after = answered.rest();
    assert_eq!(answered.head.header("x-run-id"), run, "the answer belongs to the run that asked");
    assert_eq!(names(&after).last(), Some(&"done"));
    let said: String = after
        .iter()
        .filter(|it| it.event == "thinking")
        .map(|it| it.data["content"].as_str().unwrap())
        .collect();
    assert_eq!(said, "You like blue.");
    assert_eq!(
        names(&after).iter().filter(|name| **name == "tool_start").count(),
        0,
        "what was seen is not repeated"
    );
    let seen = watcher.rest();
    assert_eq!(seen.iter().filter(|frame| frame.event == "done").count(), 1);
    assert_eq!(seen.last(), after.last());
}

#[test]
fn a_silent_stream_says_that_it_is_there_and_ends_with_the_process() {
    let script = json!({"v": 1, "replies": [{"do": [{"stall": true}]}]});
    let house = House::with(crate::world::World::new(), &script, "[serve]\nheartbeat_s = 1\n");
    let mut stream = house.run(json!({"input": "hi"}));
    let path = format!("/v1/runs/{}/events", stream.head.header("x-run-id"));
    let mut second = house.stream("GET", &path, &[], None);
    // There is no event to see, so the first thing that comes is the comment.
    std::thread::scope(|scope| {
        let closing = scope.spawn(|| {
            while !second.between.iter().any(|line| line == ": ping") {
                second.peek();
            }
            house.close();
            second.rest()
        });
        assert_eq!(stream.rest(), [], "it ends without an event: the run goes on elsewhere");
        assert_eq!(closing.join().unwrap(), []);
    });
    assert!(stream.between.last().unwrap().starts_with("retry: "), "{:?}", stream.between);
}

/// A model behind HTTP sends its next words only when the ones before were seen.
#[test]
fn every_word_is_seen_before_the_next_is_said() {
    let line = |text: &str, is_done: bool| {
        let message = json!({"role": "assistant", "content": text});
        format!("{}\n", json!({"message": message, "done": is_done, "done_reason": "stop"}))
    };
    let barriers = [Barrier::new(), Barrier::new()];
    let answer = Answer::stream("application/x-ndjson").chunk(line("one ", false)).wait(&barriers[0]);
    let answer = answer.chunk(line("two ", false)).wait(&barriers[1]).chunk(line("three", false));
    let answer = answer.chunk(line("", true)).end();
    let model = Server::deciding(move |_, request| match request.path.as_str() {
        "/api/chat" => answer.clone(),
        _ => Answer::json(404, "{}"),
    });
    let world = World::new();
    world.settings(&format!("model = 'ollama/m'\n[providers.ollama]\nbase_url = '{}'\n", model.url()));
    let house = House::open(world);
    let mut stream = house.run(json!({"input": "Count."}));
    let mut frames = Vec::new();
    for barrier in &barriers {
        frames.push(stream.until("thinking"));
        barrier.open();
    }
    frames.extend(stream.rest());
    let seen = frames.iter().map(|it| (it.id.as_deref(), it.data["content"].as_str(), it.event.as_str()));
    let expected = [
        (Some("1.2"), Some("one "), "thinking"),
        (Some("1.3"), Some("two "), "thinking"),
        (Some("1.4"), Some("three"), "thinking"),
        (Some("1.5"), None, "done"),
    ];
    assert_eq!(seen.collect::<Vec<_>>(), expected);
}
