//! Threads, branches and entries over HTTP.

use serde_json::{Value, json};

use super::house::House;
use crate::mask::Mask;
use crate::world::World;

fn house() -> House {
    let script = json!({"v": 1, "replies": [{"match": "wait", "do": [{"text": "First "}, {"stall": true}]}],
                        "otherwise": {"do": [{"text": "You said: {user}"}]}});
    House::with(World::new(), &script, "")
}

/// A thread with two turns on it.
fn talked(house: &House) {
    for text in ["one", "two"] {
        assert_eq!(house.post("/process", json!({"message": text, "thread_id": "t"})).status, 200);
    }
}

fn main_branch(head: i64) -> Value {
    json!({"name": "main", "head_index": head, "length": head + 1, "current": true})
}

#[test]
fn a_thread_is_made_read_listed_and_deleted() {
    let house = house();
    let made =
        house.post("/v1/threads", json!({"id": "t", "ttl_s": 60, "meta": {"k": 1}, "agent": "default"}));
    let expected = json!({"id": "t", "current": "main", "created": "TIME", "ttl_at": "TIME", "meta": {"k": 1}, "branches": [main_branch(-1)]});
    assert_eq!((made.status, made.header("location")), (201, "/v1/threads/t"), "{made:?}");
    assert_eq!(Mask::default().value(made.json()), expected);
    assert_eq!(house.get("/v1/threads/t").json(), made.json());
    let named = house.post("/v1/threads", json!({}));
    let id = named.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(house.post("/v1/threads", json!({"id": "t"})).problem(), (409, "conflict".to_owned()));
    for (wrong, status) in [
        (json!({"id": "a/b"}), 400),
        (json!({"ttl_s": 0}), 400),
        (json!({"meta": 7}), 400),
        (json!({"agent": "other"}), 403),
        (json!({"name": "t"}), 400),
    ] {
        assert_eq!(house.post("/v1/threads", wrong.clone()).problem().0, status, "{wrong}");
    }
    let listed = house.get("/v1/threads?limit=1").json();
    assert_eq!(listed, json!({"items": [named.json()], "next": id}));
    assert_eq!(house.get(&format!("/v1/threads?after={id}")).json(), json!({"items": [made.json()]}));
    assert_eq!(house.get("/v1/threads?after=nobody").problem(), (404, "not_found".to_owned()));
    let gone = house.delete("/v1/threads/t");
    assert_eq!((gone.status, gone.body.len()), (204, 0));
    for (method, path) in
        [("GET", "/v1/threads/t"), ("DELETE", "/v1/threads/t"), ("GET", "/v1/threads/a%20b")]
    {
        assert_eq!(
            house.send(method, path, &[], None).problem(),
            (404, "not_found".to_owned()),
            "{method} {path}"
        );
    }
}

#[test]
fn a_thread_is_made_only_once_for_a_key() {
    let house = house();
    let make =
        |key: &str, body: Value| house.send("POST", "/v1/threads", &[("idempotency-key", key)], Some(body));
    let first = make("k", json!({"meta": {"n": 1}}));
    assert_eq!(first.status, 201, "{first:?}");
    let again = make("k", json!({"meta": {"n": 1}}));
    assert_eq!((again.status, again.json()), (201, first.json()));
    assert_eq!(make("k", json!({"meta": {"n": 2}})).problem(), (422, "idempotency_mismatch".to_owned()));
    let other = make("k2", json!({"meta": {"n": 1}}));
    assert_ne!(other.json()["id"], first.json()["id"]);
    let named = make("k3", json!({"id": "t"}));
    assert_eq!((named.status, make("k3", json!({"id": "t"})).json()), (201, named.json()));
    assert_eq!(make("k4", json!({"id": "t"})).problem(), (409, "conflict".to_owned()));
    assert_eq!(house.get("/v1/threads").json()["items"].as_array().unwrap().len(), 3);
}

#[test]
fn deleting_a_thread_ends_what_runs_on_it() {
    let house = house();
    let mut running = house.run(json!({"input": "wait", "thread_id": "t"}));
    running.until("thinking");
    let config = json!({"on_busy": "enqueue"});
    let queued = house.post("/v1/runs", json!({"input": "wait", "thread_id": "t", "config": config}));
    assert_eq!(queued.status, 202, "{queued:?}");
    let gone = house.delete("/v1/threads/t");
    assert_eq!(gone.status, 204, "{gone:?}");
    assert_eq!(house.get("/v1/threads/t").status, 404);
    assert_eq!(house.get(&format!("/v1/runs/{}", queued.header("x-run-id"))).status, 404);
}

#[test]
fn entries_are_read_oldest_first() {
    let house = house();
    talked(&house);
    let all = house.get("/v1/threads/t/entries").json();
    let items = all["items"].as_array().unwrap();
    let said = |item: &Value| (item["index"].as_i64().unwrap(), item["t"].clone(), item["data"].clone());
    assert_eq!(
        items.iter().map(said).collect::<Vec<_>>(),
        [
            (0, json!("UserMessage"), json!({"text": "one"})),
            (1, json!("AssistantMessage"), json!({"content": "You said: one"})),
            (2, json!("UserMessage"), json!({"text": "two"})),
            (3, json!("AssistantMessage"), json!({"content": "You said: two"})),
        ]
    );
    let keys: Vec<&String> = items[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["data", "id", "index", "run_id", "t", "ts"]);
    let indices = |query: &str| {
        let page = house.get(&format!("/v1/threads/t/entries{query}")).json();
        let found: Vec<i64> =
            page["items"].as_array().unwrap().iter().map(|it| it["index"].as_i64().unwrap()).collect();
        (found, page["next"].as_str().map(str::to_owned))
    };
    assert_eq!(indices("?limit=3"), (vec![0, 1, 2], Some("2".to_owned())));
    assert_eq!(indices("?limit=3&after=2"), (vec![3], None));
    assert_eq!(indices("?limit=4"), (vec![0, 1, 2, 3], None));
    assert_eq!(indices("?last_n=2"), (vec![2, 3], None));
    assert_eq!(indices("?last_n=2&before=3"), (vec![1, 2], None));
    assert_eq!(indices("?before=1"), (vec![0], None));
    assert_eq!(indices("?after=9"), (vec![], None));
    assert_eq!(indices("?branch=main&after=-1&limit=1"), (vec![0], Some("0".to_owned())));
    assert_eq!(house.get("/v1/threads/t/entries?branch=x").problem().0, 404);
    for wrong in ["last_n=0", "last_n=1001", "limit=0", "before=x"] {
        assert_eq!(house.get(&format!("/v1/threads/t/entries?{wrong}")).problem().0, 400, "{wrong}");
    }
}

#[test]
fn an_entry_is_pushed_where_it_can_stand() {
    let house = house();
    talked(&house);
    let pushed =
        house.post("/v1/threads/t/entries", json!({"t": "UserMessageState", "data": {"text": "three"}}));
    let expected = json!({"index": 4, "id": "ID1", "ts": "TIME", "t": "UserMessage", "data": {"text": "three"}, "run_id": null});
    assert_eq!((pushed.status, Mask::default().value(pushed.json())), (201, expected), "{pushed:?}");
    assert_eq!(house.get("/v1/threads/t/entries?last_n=1").json(), json!({"items": [pushed.json()]}));
    let refused = house.post("/v1/threads/t/entries", json!({"t": "UserResponse", "data": {"text": "x"}}));
    assert_eq!(refused.problem(), (409, "conflict".to_owned()));
    assert!(!refused.json()["expected"].as_str().unwrap().is_empty(), "{refused:?}");
    for wrong in
        [json!({"t": "UserMessage", "data": {}}), json!({"t": "a b", "data": {}}), json!({"data": {}})]
    {
        assert_eq!(house.post("/v1/threads/t/entries", wrong.clone()).problem().0, 400, "{wrong}");
    }
    assert_eq!(house.post("/v1/threads/nobody/entries", json!({"t": "Finished"})).problem().0, 404);
}

#[test]
fn branches_are_forked_checked_out_rewound_and_removed() {
    let house = house();
    talked(&house);
    let forked = house.post("/v1/threads/t/fork", json!({"index": 1, "name": "b"}));
    let b = |current: bool| json!({"name": "b", "head_index": 1, "length": 2, "forked_from": {"branch": "main", "index": 1}, "current": current});
    assert_eq!((forked.status, forked.json()), (201, b(false)));
    let listed = house.get("/v1/threads/t/branches").json();
    assert_eq!(listed, json!({"items": [b(false), main_branch(3)]}));
    let made_up = house.post("/v1/threads/t/fork", json!({})).json();
    assert_eq!(made_up["length"], 4, "{made_up}");
    assert_eq!(
        house.post("/v1/threads/t/fork", json!({"name": "b"})).problem(),
        (409, "conflict".to_owned())
    );
    assert_eq!(house.post("/v1/threads/t/fork", json!({"index": 9})).problem().0, 400);
    assert_eq!(house.post("/v1/threads/t/fork", json!({"from": "x"})).problem().0, 404);
    let entry = "01890a5d-ac96-774b-bcce-b302099a8057";
    assert_eq!(house.post("/v1/threads/t/fork", json!({"entry": entry})).problem().0, 404);
    assert_eq!(house.post("/v1/threads/t/fork", json!({"entry": entry, "index": 1})).problem().0, 400);

    let out = house.post("/v1/threads/t/checkout", json!({"branch": "b"}));
    assert_eq!((out.status, out.json()), (200, b(true)));
    assert_eq!(house.post("/v1/threads/t/checkout", json!({"branch": "x"})).problem().0, 404);
    let rewound = house.post("/v1/threads/t/rewind", json!({"index": -1, "branch": "main"}));
    let expected = json!({"branch": "main", "head_index": -1, "previous_head": 3, "previous_entry": "ID1"});
    assert_eq!((rewound.status, Mask::default().value(rewound.json())), (200, expected));
    assert_eq!(house.post("/v1/threads/t/rewind", json!({"index": 7})).problem().0, 400);

    for kept in ["main", "b"] {
        assert_eq!(
            house.delete(&format!("/v1/threads/t/branches/{kept}")).problem(),
            (409, "conflict".to_owned())
        );
    }
    let name = made_up["name"].as_str().unwrap();
    assert_eq!(house.delete(&format!("/v1/threads/t/branches/{name}")).status, 204);
    assert_eq!(house.delete(&format!("/v1/threads/t/branches/{name}")).problem().0, 404);
    let would = house.post("/v1/threads/t/prune", json!({"dry_run": true}));
    assert_eq!(
        (would.status, &would.json()["dry_run"], &would.json()["entries"]),
        (200, &json!(true), &json!(2)),
        "{would:?}"
    );
    let pruned = house.post("/v1/threads/t/prune", json!({"older_than": "7d", "keep": ["b"]})).json();
    assert_eq!(
        pruned,
        json!({"branches": [], "lanes": would.json()["lanes"], "entries": 2, "dry_run": false})
    );
    assert_eq!(house.post("/v1/threads/t/prune", json!({"older_than": 3600})).status, 200);
    for wrong in [json!({"older_than": "soon"}), json!({"older_than": -1}), json!({"older_than": []})] {
        assert_eq!(house.post("/v1/threads/t/prune", wrong.clone()).problem().0, 400, "{wrong}");
    }
}

#[test]
fn a_busy_branch_is_left_alone() {
    let house = house();
    let mut running = house.run(json!({"input": "wait", "thread_id": "t"}));
    running.until("thinking");
    for (path, body) in
        [("entries", json!({"t": "UserMessage", "data": {"text": "x"}})), ("rewind", json!({"index": -1}))]
    {
        let refused = house.post(&format!("/v1/threads/t/{path}"), body);
        assert_eq!(refused.problem(), (409, "branch_busy".to_owned()), "{path}");
    }
    assert_eq!(house.post("/v1/threads/t/fork", json!({"name": "b"})).status, 201);
}

#[test]
fn a_thread_is_rendered_for_a_model() {
    let house = house();
    talked(&house);
    let roles = |query: &str| {
        let rendered = house.get(&format!("/v1/threads/t/render{query}")).json();
        rendered["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["role"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(roles(""), ["system", "user", "assistant", "user", "assistant"]);
    assert_eq!(roles("?policy=last_n&last_n=2"), ["system", "user", "assistant"]);
    assert_eq!(roles("?exclude=AssistantMessage"), ["system", "user", "user"]);
    for wrong in ["policy=x", "policy=last_n", "last_n=0"] {
        assert_eq!(house.get(&format!("/v1/threads/t/render?{wrong}")).problem().0, 400, "{wrong}");
    }
    assert_eq!(house.get("/v1/threads/nobody/render").problem().0, 404);
}

#[test]
fn what_there_is_not_is_a_problem_and_what_there_is_is_described() {
    let house = house();
    assert_eq!(house.get("/nowhere").problem(), (404, "not_found".to_owned()));
    let wrong = house.send("PUT", "/v1/threads", &[], Some(json!({})));
    assert_eq!(wrong.problem(), (405, "method_not_allowed".to_owned()));
    let mut allowed: Vec<&str> = wrong.header("allow").split(',').map(str::trim).collect();
    allowed.sort_unstable();
    assert_eq!(allowed, ["GET", "HEAD", "POST"]);
    let hash = "0".repeat(64);
    assert_eq!(house.get(&format!("/v1/blobs/{hash}")).problem(), (404, "not_found".to_owned()));
    let api = house.get("/openapi.json");
    assert_eq!((api.header("content-type"), &api.json()["openapi"]), ("application/json", &json!("3.1.0")));
    let root = house.get("/");
    assert_eq!((root.status, root.header("location")), (307, "/docs"));
    let page = house.get("/docs");
    assert!(page.header("content-security-policy").starts_with("default-src 'none'; script-src 'self';"));
    assert_eq!(house.get("/docs.js").header("content-type"), "text/javascript; charset=utf-8");
}

#[test]
fn the_policy_is_explained_as_on_the_command_line() {
    let world = World::new();
    // Without folders, a service has no file tools.
    let settings = format!("[files]\nroots = [{:?}]\n", world.path("home"));
    let house = House::with(world, &json!({"v": 1, "replies": []}), &settings);
    let said = |args: &[&str]| house.world.baton(&[&["policy", "explain", "--json"], args].concat()).json();
    let asked = |query: &str| house.get(&format!("/v1/policy{query}")).json();
    assert_eq!(asked(""), said(&[]));
    assert_eq!(
        asked("?mode=CONSERVATIVE&channel=code_task&message=Sort%20a%20list"),
        said(&["--mode", "CONSERVATIVE", "--channel", "CODE_TASK", "Sort a list"])
    );
    let refused = house.get("/v1/policy?channel=CODE");
    assert_eq!(refused.problem(), (400, "invalid_request".to_owned()));
    assert!(
        refused.json()["detail"].as_str().unwrap().contains("there is no channel \"CODE\""),
        "{refused:?}"
    );
    assert_eq!(house.get("/v1/policy?mode=BOLD").problem().0, 400);
}
