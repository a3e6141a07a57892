//! Lists of long items: what one request costs does not follow from how much is stored, and nothing is left out.

use serde_json::{Value, json};

use crate::serve::house::House;
use crate::serve::served::Served;
use crate::serve::wire::Answer;

/// How long a page is at most, with the item that ends it.
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
