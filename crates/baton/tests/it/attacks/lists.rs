//! Lists of long items: the cost of one request does not grow with the amount of stored data, and nothing is left out.

use serde_json::{Value, json};

use crate::serve::house::House;
use crate::serve::served::Served;
use crate::serve::wire::Answer;

/// The longest page, with the item that ends it.
const MOST_BYTES: usize = (4 << 20) + 64;
/// Nearly as long as a body may be.
const LONG: usize = 1_000_000;

/// All items of a list by this field, page by page, and how many pages there were.
fn followed(get: impl Fn(&str) -> Answer, path: &str, field: &str) -> (Vec<Value>, usize) {
    let (mut found, mut pages, mut after) = (Vec::new(), 0, String::new());
    loop {
        let answer = get(&format!("{path}{after}"));
        assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"), "{path}");
        let body = answer.json();
        let items = body["items"].as_array().unwrap();
        assert!(answer.body.len() <= MOST_BYTES || items.len() == 1, "{path}: {}", answer.body.len());
        found.extend(items.iter().map(|item| item[field].clone()));
        pages += 1;
        match body["next"].as_str() {
            None => return (found, pages),
            Some(next) => after = format!("&after={next}"),
        }
    }
}

#[test]
fn a_page_of_long_entries_is_short_and_the_next_ones_have_the_rest() {
    let served = Served::with("");
    let post = |path: &str, body: Value| {
        let made = served.send("POST", path, &[], Some(&body.to_string()));
        assert_eq!(made.status, 201, "{made:?}");
    };
    post("/v1/threads", json!({"id": "long"}));
    // Long ones, and short ones between them.
    for n in 0..60 {
        let length = if n % 10 == 9 { 10 } else { LONG };
        let entry = json!({"t": "note", "data": {"n": n, "text": "x".repeat(length)}});
        post("/v1/threads/long/entries", entry);
    }
    let before = served.memory();
    let get = |path: &str| served.send("GET", path, &[], None);
    let entries = |query: &str| followed(get, &format!("/v1/threads/long/entries?{query}"), "index");
    let from = |first: i64| (first..60).map(Value::from).collect::<Vec<_>>();
    let (all, pages) = entries("limit=1000");
    assert_eq!((all, pages > 10), (from(0), true));
    let grown = served.memory().saturating_sub(before);
    assert!(grown < 128 << 20, "{} MiB", grown >> 20);
    assert_eq!(entries("last_n=12").0, from(48));
    assert_eq!(entries("last_n=12&before=30").0, from(18)[..12]);
    assert_eq!(entries("limit=3&before=11").0, from(0)[..11]);
}

#[test]
fn a_page_of_threads_with_long_remarks_is_short_and_the_next_ones_have_the_rest() {
    let served = Served::with("");
    for n in 0..20 {
        let body = json!({"id": format!("t-{n}"), "meta": {"x": "x".repeat(LONG)}}).to_string();
        assert_eq!(served.send("POST", "/v1/threads", &[], Some(&body)).status, 201);
    }
    let get = |path: &str| served.send("GET", path, &[], None);
    let (found, pages) = followed(get, "/v1/threads?limit=1000", "id");
    let newest_first: Vec<Value> = (0..20).rev().map(|n| json!(format!("t-{n}"))).collect();
    assert_eq!((found, pages), (newest_first, 5));
}

#[test]
fn a_page_of_runs_and_of_approvals_is_short_and_the_next_ones_have_the_rest() {
    let long = "7".repeat(500_000);
    let script = json!({"v": 1, "replies": [
        {"match": "say", "do": [{"text": long}]},
        {"match": "count", "do": [{"call": {"name": "calculator", "arguments": {"expression": "6*7"}}}]},
    ]});
    let house = House::with(crate::world::World::new(), &script, "[policy]\napprove = [\"calculator\"]\n");
    let begun = |message: &str, n: i32| {
        let body = json!({"message": message, "thread_id": format!("{message}-{n}")});
        let answer = house.post("/process", body);
        assert_eq!(answer.status, 200, "{message}");
        answer
    };
    let mut runs: Vec<Value> = (0..20).map(|n| json!(begun("say", n).header("x-run-id"))).collect();
    let pending: Vec<Answer> = (0..12).map(|n| begun("count", n)).collect();
    let mut approvals: Vec<Value> = pending.iter().map(|it| it.json()["waiting"][0]["id"].clone()).collect();
    runs.extend(pending.iter().map(|it| json!(it.header("x-run-id"))));
    runs.reverse();
    approvals.reverse();
    let get = |path: &str| house.get(path);
    let (found, pages) = followed(get, "/v1/runs?limit=1000", "id");
    assert_eq!((found, pages > 2), (runs.clone(), true));
    assert_eq!(followed(get, "/v1/runs?limit=3", "id").0, runs);
    assert_eq!(followed(get, "/v1/approvals?status=pending&limit=1000", "id"), (approvals.clone(), 1));
    assert_eq!(followed(get, "/v1/approvals?limit=5", "id"), (approvals, 3));
    let run = runs[31].as_str().unwrap();
    let steps = followed(get, &format!("/v1/runs/{run}/checkpoints?limit=1"), "step");
    assert_eq!(steps, (vec![json!(1), json!(2), json!(3)], 3));
}

#[test]
fn a_page_of_branches_is_short_and_the_next_ones_have_the_rest() {
    let served = Served::with("");
    let post = |path: &str, body: Value| {
        assert_eq!(served.send("POST", path, &[], Some(&body.to_string())).status, 201);
    };
    post("/v1/threads", json!({"id": "t"}));
    let names: Vec<Value> = (0..250).map(|n| json!(format!("b-{n:03}"))).chain([json!("main")]).collect();
    for name in &names[..250] {
        post("/v1/threads/t/fork", json!({"name": name}));
    }
    let get = |path: &str| served.send("GET", path, &[], None);
    assert_eq!(followed(get, "/v1/threads/t/branches?limit=100", "name"), (names.clone(), 3));
    assert_eq!(followed(get, "/v1/threads/t/branches?limit=1000", "name"), (names.clone(), 1));
    assert_eq!(followed(get, "/v1/threads/t/branches?limit=251", "name"), (names.clone(), 1));
    assert_eq!(followed(get, "/v1/threads/t/branches?limit=7", "name"), (names, 36));
    for wrong in ["limit=0", "limit=1001", "after=%20", "x=1"] {
        let refused = get(&format!("/v1/threads/t/branches?{wrong}"));
        assert_eq!(refused.problem(), (400, "invalid_request".to_owned()), "{wrong}");
    }
}

/// The texts of all messages of a thread, oldest first, answer by answer, and how many answers there were.
fn rendered(get: impl Fn(&str) -> Answer, query: &str) -> (Vec<String>, usize) {
    let (mut found, mut answers, mut before) = (Vec::new(), 0, String::new());
    loop {
        let answer = get(&format!("/v1/threads/long/render?{query}{before}"));
        assert_eq!((answer.status, answer.body.len() < 2 * MOST_BYTES), (200, true), "{}", answer.body.len());
        let body = answer.json();
        let messages = body["messages"].as_array().unwrap();
        let text = |message: &Value| {
            let calls = message["tool_calls"].as_array().map_or(0, Vec::len);
            let content = message["content"].as_str().unwrap_or_default();
            format!("{} {} {calls}", message["role"].as_str().unwrap(), content.trim_end_matches('x'))
        };
        // The system messages at the beginning of every answer are no part of the thread.
        let texts = messages.iter().filter(|message| message["role"] != "system").map(text);
        found.splice(0..0, texts.collect::<Vec<_>>());
        answers += 1;
        match body["next"].as_str() {
            None => return (found, answers),
            Some(next) => before = format!("&before={next}"),
        }
    }
}

#[test]
fn what_a_model_would_be_sent_is_rendered_in_short_answers() {
    let served = Served::with("");
    let post = |path: &str, body: Value| {
        let made = served.send("POST", path, &[], Some(&body.to_string()));
        assert_eq!(made.status, 201, "{made:?}");
    };
    post("/v1/threads", json!({"id": "long"}));
    let push = |t: &str, data: Value| post("/v1/threads/long/entries", json!({"t": t, "data": data}));
    let mut expected = Vec::new();
    // Each group has a call, whose result is as long as the words before it.
    for n in 0..30 {
        let (id, text) = (format!("c-{n}"), format!("{n} {}", "x".repeat(LONG / 2)));
        push("UserMessage", json!({"text": format!("{n}?")}));
        push("AssistantMessage", json!({"content": text}));
        push("ToolCall", json!({"id": id, "function_name": "look", "arguments": {}}));
        push("ToolResult", json!({"tool_call_id": id, "tool_name": "look", "result": text}));
        let group = [format!("user {n}? 0"), format!("assistant {n}  1"), format!("tool {n}  0")];
        expected.extend(group);
    }
    let before = served.memory();
    let get = |path: &str| served.send("GET", path, &[], None);
    let (all, answers) = rendered(get, "policy=full");
    assert_eq!((all, (7..=12).contains(&answers)), (expected.clone(), true), "{answers}");
    let grown = served.memory().saturating_sub(before);
    assert!(grown < 128 << 20, "{} MiB", grown >> 20);
    assert_eq!(rendered(get, "policy=last_n&last_n=4"), (expected[87..].to_vec(), 1), "it fits one answer");
    let early = get("/v1/threads/long/render?policy=full&before=4").json();
    assert_eq!((early["messages"].as_array().unwrap().len(), early.get("next")), (4, None));
    for wrong in ["before=x", "before="] {
        assert_eq!(get(&format!("/v1/threads/long/render?{wrong}")).problem().0, 400, "{wrong}");
    }
}

#[test]
fn a_group_that_is_longer_than_an_answer_is_split_and_nothing_else_is() {
    let served = Served::with("");
    let push = |body: Value| {
        let made = served.send("POST", "/v1/threads/long/entries", &[], Some(&body.to_string()));
        assert_eq!(made.status, 201, "{made:?}");
    };
    assert_eq!(served.send("POST", "/v1/threads", &[], Some("{\"id\": \"long\"}")).status, 201);
    push(json!({"t": "UserMessage", "data": {"text": "go"}}));
    push(json!({"t": "AssistantMessage", "data": {"content": "so"}}));
    for n in 0..8 {
        let call = json!({"id": format!("c-{n}"), "function_name": "look", "arguments": {}});
        push(json!({"t": "ToolCall", "data": call}));
    }
    for n in 0..8 {
        let result =
            json!({"tool_call_id": format!("c-{n}"), "tool_name": "look", "result": "x".repeat(LONG)});
        push(json!({"t": "ToolResult", "data": result}));
    }
    let get = |path: &str| served.send("GET", path, &[], None);
    let (_, answers) = rendered(get, "policy=full");
    assert!((2..=3).contains(&answers), "{answers}");
}
