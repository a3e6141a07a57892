//! Requirements of the service that need a watching peer: each step is held back by a barrier until the event before it
//! was read, so a service that buffers, reorders or waits fails.

use std::net::TcpStream;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::house::House;
use super::served::{Served, until};
use super::several::{Kept, Several, get, post};
use super::wire::Frame;
use crate::imitation::said_to;
use crate::server::{Answer, Barrier, Request, Server};
use crate::world::World;

const NDJSON: &str = "application/x-ndjson";

/// One line of an Ollama answer.
fn line(message: Value, is_done: bool) -> String {
    let mut message = message;
    message["role"] = json!("assistant");
    format!("{}\n", json!({"message": message, "done": is_done, "done_reason": "stop"}))
}

fn text(text: &str) -> String {
    line(json!({"content": text}), false)
}

fn call(name: &str, arguments: Value) -> String {
    line(json!({"content": "", "tool_calls": [{"function": {"name": name, "arguments": arguments}}]}), false)
}

fn end() -> String {
    line(json!({"content": ""}), true)
}

/// An Ollama that gives these answers to `/api/chat`, in order.
fn ollama(answers: Vec<Answer>) -> Server {
    let next = std::sync::atomic::AtomicUsize::new(0);
    Server::deciding(move |_, request| match request.path.as_str() {
        "/api/chat" => {
            let nth = next.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            answers.get(nth).cloned().unwrap_or_else(|| Answer::json(500, "{}"))
        }
        _ => Answer::json(404, "{}"),
    })
}

/// The requests to the model, in order.
fn chats(model: &Server) -> Vec<Request> {
    model.requests().into_iter().filter(|request| request.path == "/api/chat").collect()
}

fn settings(model: &Server, more: &str) -> String {
    format!("model = 'ollama/m'\n[providers.ollama]\nbase_url = '{}'\n{more}", model.url())
}

/// An execution service with the tool `look`, whose answer waits for a barrier.
fn execution(barrier: &Barrier) -> Server {
    let barrier = barrier.clone();
    let tool = json!({"name": "look", "description": "Looks something up.", "side_effect_free": true,
        "requires_context": true, "input_schema": {"type": "object", "properties": {"at": {"type": "string"}}}});
    Server::deciding(move |_, request| match request.path.as_str() {
        "/tools" => Answer::json(200, &json!({"tools": [tool]}).to_string()),
        "/execute" => {
            let body = json!({"status": "success", "output": "42", "execution_time_ms": 1.0}).to_string();
            let answer = Answer::nothing().wait(&barrier);
            answer.head(200, &[("content-type", "application/json")], Some(body.len())).raw(body)
        }
        _ => Answer::json(404, "{}"),
    })
}

fn names(frames: &[Frame]) -> Vec<&str> {
    frames.iter().map(|frame| frame.event.as_str()).collect()
}

/// A chat service posts a message and reads the stream: the model says its next word, and the tool answers, only when the
/// event before was read.
#[test]
fn a_chat_service_reads_every_event_before_the_next_thing_happens() {
    let (word, tool, last) = (Barrier::new(), Barrier::new(), Barrier::new());
    let first = Answer::stream(NDJSON).chunk(text("Let me look. ")).wait(&word);
    let first = first.chunk(call("look", json!({"at": "it"}))).chunk(end()).end();
    let second = Answer::stream(NDJSON).chunk(text("It is 42")).wait(&last).chunk(end()).end();
    let (model, service) = (ollama(vec![first, second]), execution(&tool));
    let world = World::new();
    world.settings(&settings(&model, &format!("[services.execution]\nurl = \"{}\"\n", service.url())));
    let house = House::open(world);
    let config =
        json!({"max_iterations": 3, "metadata": {"channel_id": "general", "nested": {"any": [1, null]}}});
    let mut stream = house
        .run(json!({"input": "What is it?", "thread_id": "t", "correlation_id": "c-1", "config": config}));
    let mut frames = Vec::new();
    for (event, barrier) in [("thinking", &word), ("tool_start", &tool)] {
        frames.push(stream.until(event));
        barrier.open();
    }
    frames.push(stream.until("tool_result"));
    frames.push(stream.until("thinking"));
    last.open();
    frames.extend(stream.rest());
    assert_eq!(names(&frames), ["thinking", "tool_start", "tool_result", "thinking", "done"]);
    assert_eq!(frames.last().unwrap().data["status"], "ok");

    let execute = service.requests().pop().unwrap();
    let context: Value = serde_json::from_str(execute.header("x-baton-context").unwrap()).unwrap();
    assert_eq!(context, config["metadata"], "free data of the caller reaches a tool that requires context");

    // The agent's state: messages, thread, correlation, next action, at each of the three nodes.
    let run = stream.head.header("x-run-id").to_owned();
    let document = house.get(&format!("/v1/runs/{run}"));
    let ids = ["x-run-id", "x-thread-id", "x-correlation-id"].map(|name| document.header(name).to_owned());
    assert_eq!(ids, [run.as_str(), "t", "c-1"]);
    let checkpoints = house.get(&format!("/v1/runs/{run}/checkpoints")).json();
    let nodes: Vec<(&str, &Value)> = checkpoints["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| (it["node"].as_str().unwrap(), &it["next_action"]))
        .collect();
    let (calls, responds) = (json!("call_tool"), json!("respond"));
    assert_eq!(
        nodes,
        [("start", &Value::Null), ("reasoning", &calls), ("tool_call", &Value::Null), ("respond", &responds)]
    );
    let seen: Vec<(String, String)> = said_to(&chats(&model)[1])
        .iter()
        .map(|it| (it["role"].as_str().unwrap().to_owned(), it["content"].as_str().unwrap().to_owned()))
        .collect();
    let expected = [("user", "What is it?"), ("assistant", "Let me look. "), ("tool", "42")];
    assert_eq!(seen, expected.map(|(role, content)| (role.to_owned(), content.to_owned())));
}

/// A port below the range from which the system gives out ports, different for each test process.
fn own_port() -> u16 {
    let first = 20_000 + (std::process::id() % 10_000) as u16;
    (first..32_000).find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

#[test]
fn it_listens_where_port_says_and_at_8000_otherwise() {
    let world = World::new();
    world.settings("model = \"offline\"\n");
    let port = own_port().to_string();
    let mut child = world.command(&["serve", "--json"]);
    let mut child = child.env("PORT", &port).spawn().unwrap();
    let mut first = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut first).unwrap();
    let told: Value = serde_json::from_str(&first).unwrap();
    assert_eq!(told["api"], format!("http://127.0.0.1:{port}"));
    let address = format!("127.0.0.1:{port}");
    let health = super::wire::open(&address, "GET", "/health", &[], None).whole();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(health.status, 200);

    // Another process may hold 8000 on this machine: then the port is refused.
    let held = std::net::TcpListener::bind("127.0.0.1:8000");
    let did = world.baton(&["serve"]);
    drop(held);
    assert_eq!(did.code, 1, "{did:?}");
    assert!(did.err.starts_with("error: 127.0.0.1:8000 "), "{}", did.err);
}

/// The store is closed last: a run that was under way when the signal came is stored to its end, and its events are
/// sent, after the listener and every stream were closed.
#[test]
fn a_signal_closes_the_door_first_then_the_clients_and_the_store_last() {
    for kept in [Kept::Sqlite, Kept::Postgres] {
        let word = Barrier::new();
        let answer = Answer::stream(NDJSON).chunk(text("One. ")).wait(&word);
        let model = ollama(vec![answer.chunk(text("Two.")).chunk(end()).end()]);
        let context = Server::deciding(|_, _| Answer::whole(202, &[], ""));
        let several = Several::new(kept);
        several.settings(&settings(&model, &format!("[services.context]\nurl = \"{}\"\n", context.url())));
        let mut served = several.start();
        let body = json!({"input": "hi", "thread_id": "t"}).to_string();
        let mut stream = super::wire::open(&served.address, "POST", "/v1/agent/run", &[], Some(&body));
        stream.until("thinking");
        served.signal(Signal::TERM);
        until("nobody is let in", || TcpStream::connect(&served.address).is_err());
        assert_eq!(stream.rest(), [], "the stream is closed without an end: it can be taken up elsewhere");
        word.open();
        assert_eq!(served.ended(), 0);
        let run = stream.head.header("x-run-id");
        let shown = several.baton(&["runs", "show", run, "--json"]).json();
        assert_eq!((&shown["status"], &shown["result"]), (&json!("ok"), &json!("One. Two.")), "{kept:?}");
        let kinds: Vec<Value> = context
            .requests()
            .iter()
            .map(|it| serde_json::from_str::<Value>(&it.body).unwrap()["event_type"].clone())
            .collect();
        assert_eq!(kinds, ["agent.started", "agent.completed"], "sent once, and the store knows it");
    }
}

#[test]
fn a_run_that_fails_is_told_to_the_context_service_and_ends_the_stream_with_an_error() {
    let cut = Answer::stream(NDJSON).chunk(text("Once upon")).end();
    let (model, context) = (ollama(vec![cut]), Server::deciding(|_, _| Answer::whole(202, &[], "")));
    let world = World::new();
    world.settings(&settings(&model, &format!("[services.context]\nurl = \"{}\"\n", context.url())));
    let house = House::open(world);
    let mut stream = house.run(json!({"input": "hi", "thread_id": "t", "correlation_id": "c-1"}));
    let frames = stream.rest();
    assert_eq!(names(&frames), ["thinking", "error", "done"]);
    assert_eq!(
        (&frames[1].data["code"], &frames[2].data["status"]),
        (&json!("llm_connection"), &json!("error"))
    );
    context.until_requests(2);
    let told: Vec<Value> =
        context.requests().iter().map(|it| serde_json::from_str(&it.body).unwrap()).collect();
    let kinds: Vec<_> = told.iter().map(|it| (&it["correlation_id"], &it["event_type"])).collect();
    let correlation = json!("c-1");
    assert_eq!(kinds, [(&correlation, &json!("agent.started")), (&correlation, &json!("agent.failed"))]);
    assert_eq!(told[1]["payload"]["error"], "llm_connection", "{}", told[1]);
    let run = stream.head.header("x-run-id");
    let log = std::fs::read_to_string(house.world.path("log")).unwrap();
    let logged = log.lines().any(|line| line.contains(run) && line.contains("llm_connection"));
    assert!(logged, "the failure is in the log, with its run: {log}");
}

/// The context service never answers, and its connection is still open when the caller has read everything.
#[test]
fn an_audit_trail_that_hangs_holds_up_no_caller() {
    let context = Server::deciding(|_, _| Answer::nothing().stall());
    let world = World::new();
    let script = json!({"v": 1, "replies": [], "otherwise": {"do": [{"text": "You said: {user}"}]}});
    let house = House::with(world, &script, &format!("[services.context]\nurl = \"{}\"\n", context.url()));
    for n in 0..3 {
        let frames = house.run(json!({"input": "hi", "thread_id": format!("t{n}")})).rest();
        assert_eq!(frames.last().unwrap().data["status"], "ok");
        context.until_requests(1);
        assert!(!context.has_closed(0), "the first event still waits for its answer");
    }
    assert_eq!(house.post("/process", json!({"message": "hi"})).json()["response"], "You said: hi");
}

#[test]
fn a_tools_error_is_shown_to_the_model_which_repairs_the_call_or_reports_it() {
    let say =
        |lines: &[String]| lines.iter().fold(Answer::stream(NDJSON), |answer, line| answer.chunk(line)).end();
    let wrong = say(&[call("calculator", json!({"expression": "6*"})), end()]);
    let right = say(&[call("calculator", json!({"expression": "6*7"})), end()]);
    let model = ollama(vec![wrong, right, say(&[text("It is 42."), end()])]);
    let world = World::new();
    world.settings(&settings(&model, ""));
    let house = House::open(world);
    let frames = house.run(json!({"input": "What is 6*7?"})).rest();
    let results: Vec<_> = frames.iter().filter(|it| it.event == "tool_result").collect();
    let errors: Vec<_> = results.iter().map(|it| it.data["is_error"].as_bool().unwrap()).collect();
    assert_eq!((errors, frames.last().unwrap().data["status"].as_str()), (vec![true, false], Some("ok")));
    let seen = said_to(&chats(&model)[1]);
    let last = seen.last().unwrap();
    let (role, told) = (&last["role"], last["content"].as_str().unwrap());
    assert_eq!(
        (role, results[0].data["result"].as_str()),
        (&json!("tool"), Some("The expression ends too early."))
    );
    assert!(
        told.starts_with("Error: The expression ends too early. The cause lies in what was asked"),
        "{told}"
    );
    let seen = said_to(&chats(&model)[2]);
    assert!(seen.last().unwrap()["content"].as_str().unwrap().contains("42"), "{seen:?}");
}

#[test]
fn the_service_profile_is_postgresql_at_5433_and_the_environment_picks_another() {
    let world = World::new();
    let did = world.baton(&["init", "--service"]);
    assert_eq!(did.code, 0, "{did:?}");
    let shown = |variables: &[(&str, &str)]| {
        let did = world.baton_with(variables, &["config", "show"]);
        did.out.lines().find(|line| line.starts_with("store.url ")).unwrap().to_owned()
    };
    assert!(shown(&[]).contains("= \"postgresql://baton@localhost:5433/baton\""), "{}", shown(&[]));
    let other = shown(&[("DATABASE_URL", "postgresql://u@127.0.0.1:1/db")]);
    assert!(other.contains("postgresql://u@127.0.0.1:1/db") && other.contains("DATABASE_URL"), "{other}");
    let did = world.baton_with(&[("DATABASE_URL", "postgresql://u@127.0.0.1:1/db")], &["runs", "ls"]);
    assert!(did.code != 0 && did.err.contains("127.0.0.1:1"), "{did:?}");
}

/// Branches, the current one, heads and entries: all of them survive a kill, on both stores.
#[test]
fn a_stack_and_its_branches_outlive_a_killed_process() {
    for kept in [Kept::Sqlite, Kept::Postgres] {
        let several = Several::new(kept);
        several
            .play(&json!({"v": 1, "replies": [], "otherwise": {"do": [{"text": "You said: {user}"}]}}), "");
        let served = several.start();
        for message in ["one", "two"] {
            post(&served, "/process", json!({"message": message, "thread_id": "t"}));
        }
        for (path, body) in [
            ("fork", json!({"index": 1, "name": "other"})),
            ("checkout", json!({"branch": "other"})),
            ("rewind", json!({"index": 0, "branch": "other"})),
            ("entries", json!({"t": "AssistantMessage", "data": {"content": "another answer"}})),
        ] {
            let answer = post(&served, &format!("/v1/threads/t/{path}"), body);
            assert!(answer.status < 300, "{path}: {answer:?}");
        }
        let stack = |served: &Served| {
            ["branches", "entries?branch=main", "entries?branch=other"]
                .map(|path| get(served, &format!("/v1/threads/t/{path}")).json()["items"].clone())
        };
        let before = stack(&served);
        let heads: Vec<_> = before[0]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| (it["name"].as_str().unwrap(), it["head_index"].as_i64().unwrap(), &it["current"]))
            .collect();
        assert_eq!(heads, [("main", 3, &json!(false)), ("other", 1, &json!(true))]);
        served.signal(Signal::KILL);
        drop(served);
        assert_eq!(stack(&several.start()), before, "{kept:?}");
    }
}

#[test]
fn a_finished_conversation_refuses_every_operation_that_would_go_on_with_it() {
    let house = House::playing(json!([{"do": [{"text": "Hello."}]}]));
    house.post("/process", json!({"message": "hi", "thread_id": "t"}));
    assert_eq!(house.post("/v1/threads/t/entries", json!({"t": "Finished", "data": {}})).status, 201);
    for (path, body) in [
        ("/process", json!({"message": "more", "thread_id": "t"})),
        ("/v1/agent/run", json!({"input": "more", "thread_id": "t"})),
        ("/v1/runs", json!({"input": "more", "thread_id": "t"})),
        ("/v1/runs", json!({"input": "more", "thread_id": "t", "config": {"on_busy": "enqueue"}})),
        ("/v1/threads/t/entries", json!({"t": "UserMessage", "data": {"text": "more"}})),
        ("/v1/threads/t/entries", json!({"t": "my.Note", "data": {}})),
    ] {
        let answer = house.post(path, body.clone());
        assert_eq!(answer.problem(), (409, "conflict".to_owned()), "{path} {body}");
        assert_eq!(answer.json()["expected"], "nothing: fork before the Finished entry to go on", "{path}");
    }
    let branches = house.get("/v1/threads/t/branches").json();
    assert_eq!(branches["items"][0]["length"], 3, "nothing was written");
    let forked = house.post("/v1/threads/t/fork", json!({"index": 1, "name": "on"}));
    assert_eq!(forked.status, 201, "{forked:?}");
    let more = json!({"t": "UserMessage", "data": {"text": "more"}, "branch": "on"});
    assert_eq!(house.post("/v1/threads/t/entries", more).status, 201);
}
