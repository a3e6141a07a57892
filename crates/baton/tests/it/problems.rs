//! `--json` errors: every command prints the problem that the service would answer, with the exit code that it also has
//! without `--json`.

use serde_json::{Value, json};

use crate::serve::house::House;
use crate::stage::Did;
use crate::world::World;

const NOBODY: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// The problem that a failed command printed, as the last line of its answer.
fn problem(did: &Did) -> Value {
    let last = did.out.lines().last().unwrap_or_else(|| panic!("it said nothing: {did:?}"));
    let problem: Value = serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {did:?}"));
    let told = problem["detail"].as_str().unwrap();
    let first = told.lines().next().unwrap();
    assert!(did.err.contains(first), "people are told the same: {did:?}");
    let code = problem["code"].as_str().unwrap();
    assert_eq!(problem["type"], format!("urn:baton:problem:{code}"));
    assert!(problem["title"].is_string() && problem["status"].is_u64(), "{problem}");
    problem
}

#[test]
fn every_command_tells_a_program_what_kind_of_problem_it_is() {
    let world = World::new();
    world.settings("model = 'offline'\n");
    world.baton(&["ask", "--thread", "t", "hello"]).ok();
    world.write("there.toml", "");
    let (there, folder) = (world.path("there.toml"), world.path("there.toml/data"));
    let (there, folder) = (there.to_str().unwrap(), folder.to_str().unwrap());
    let rows: [(&[&str], i32, u64, &str); 23] = [
        (&["ask"], 2, 400, "invalid_request"),
        (&["ask", "--mode", "WILD", "hi"], 2, 400, "invalid_request"),
        (&["ask", "--model", "gpt", "hi"], 2, 400, "invalid_request"),
        (&["ask", "--channel", "NONE", "hi"], 2, 400, "invalid_request"),
        (&["--data", folder, "ask", "hi"], 2, 503, "store_unavailable"),
        (&["aks", "hi"], 2, 400, "invalid_request"),
        (&["threads", "show", "none"], 1, 404, "not_found"),
        (&["threads", "push", "t", "--t", "ToolResult", "{}"], 2, 400, "invalid_request"),
        (&["threads", "fork", "t", "--index", "99"], 1, 400, "invalid_request"),
        (&["threads", "checkout", "t", "none"], 1, 404, "not_found"),
        (&["threads", "export", "t", there], 1, 409, "conflict"),
        (&["runs", "show", NOBODY], 1, 404, "not_found"),
        (&["runs", "show", "abcdabcdabcd"], 1, 404, "not_found"),
        (&["runs", "show", "x"], 2, 400, "invalid_request"),
        (&["runs", "tail", NOBODY], 1, 404, "not_found"),
        (&["approvals", "approve", "ap-none"], 1, 404, "not_found"),
        (&["tools", "show", "none"], 1, 404, "not_found"),
        (&["tools", "call", "none"], 2, 404, "not_found"),
        (&["tools", "call", "calculator", "x=1"], 2, 400, "invalid_request"),
        (&["audit", "verify", "--head", "x"], 2, 400, "invalid_request"),
        (&["tokens", "revoke", "none"], 1, 404, "not_found"),
        (&["policy", "explain", "--channel", "NONE", "hi"], 2, 400, "invalid_request"),
        (&["init", "--config", there], 1, 409, "conflict"),
    ];
    for (args, exit, status, code) in rows {
        let did = world.baton(&[args, &["--json"]].concat());
        let told = problem(&did);
        assert_eq!(
            (did.code, &told["status"], &told["code"]),
            (exit, &json!(status), &json!(code)),
            "{did:?}"
        );
        let plain = world.baton(args);
        assert_eq!((plain.code, plain.out.as_str()), (exit, ""), "{plain:?}");
        assert_eq!(plain.err, did.err, "{args:?}");
    }
}

#[test]
fn all_mistakes_of_the_settings_are_one_problem() {
    let world = World::new();
    world.settings("modell = \"offline\"\nlast_n = \"many\"\n");
    for args in [&["config", "show", "--json"][..], &["models", "ls", "--json"], &["serve", "--json"]] {
        let did = world.baton(args);
        let told = problem(&did);
        assert_eq!((did.code, &told["code"]), (2, &json!("invalid_request")), "{did:?}");
        let detail = told["detail"].as_str().unwrap();
        assert!(detail.starts_with("the settings have 2 mistakes\n"), "{detail}");
    }
}

/// A problem without the members that only a user at a terminal can use.
fn shared(mut problem: Value) -> Value {
    let fields = problem.as_object_mut().unwrap();
    fields.remove("hint");
    problem
}

#[test]
fn a_command_and_the_service_tell_the_same_problem() {
    let call = json!({"call": {"name": "calculator", "arguments": {"expression": "6*7"}}});
    let script = json!({"v": 1, "replies": [{"do": [call]}, {"do": [{"text": "So be it."}]}]});
    let house = House::with(World::new(), &script, "[policy]\napprove = [\"calc*\"]\n");
    let run = house.run(json!({"input": "hi", "thread_id": "t"}));
    let id = run.head.header("x-run-id").to_owned();
    house.until(&id, "suspended");
    let mut asked = house.get("/v1/approvals").json();
    let approval = asked["items"][0]["id"].take().as_str().unwrap().to_owned();

    let busy = house.post("/process", json!({"message": "more", "thread_id": "t"})).json();
    let did = house.world.baton(&["ask", "--json", "--thread", "t", "more"]);
    assert_eq!((did.code, shared(problem(&did))), (1, busy));

    let order = json!({"t": "UserMessage", "data": {"text": "more"}});
    let refused = house.post("/v1/threads/t/entries", order).json();
    let push = ["threads", "push", "t", "--t", "UserMessage", "{\"text\": \"more\"}", "--json"];
    assert_eq!(shared(problem(&house.world.baton(&push))), refused);

    let path = format!("/v1/runs/{id}/approvals/{approval}");
    assert_eq!(house.post(&path, json!({"decision": "approve"})).status, 200);
    house.until(&id, "ok");
    let late = house.post(&path, json!({"decision": "deny"})).json();
    let told = problem(&house.world.baton(&["approvals", "deny", &approval, "--json"]));
    for member in ["type", "title", "status", "code", "approval_status"] {
        assert_eq!(told[member], late[member], "{member}");
    }
    assert_eq!(told["hint"], "the first decision counts");
}
