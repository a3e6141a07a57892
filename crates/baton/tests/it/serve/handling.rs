//! Existing runs: read, listed, steered, decided, forked.

use serde_json::{Value, json};

use super::house::House;
use crate::mask::Mask;
use crate::world::World;

fn looks_up() -> Value {
    json!([
        {"do": [{"text": "Let me see. "}, {"call": {"name": "calculator", "arguments": {"expression": "6*7"}}}]},
        {"do": [{"text": "It is {last_result}."}]},
    ])
}

/// A service on which a run waits for an approval: the service, the run and the approval.
fn asked() -> (House, String, String) {
    let world = World::new();
    let file = world.path("effects").display().to_string();
    let call = json!({"name": "test_effect", "arguments": {"file": file, "line": "as asked", "class": "unsafe", "delay_ms": 0}});
    let script =
        json!({"v": 1, "replies": [{"do": [{"call": call}]}, {"do": [{"text": "Done: {last_result}"}]}]});
    let house = House::with(world, &script, "[policy]\napprove = [\"test_effect\"]\n");
    let mut stream = house.run(json!({"input": "the effect", "thread_id": "t"}));
    let asked = stream.until("approval_required");
    let run = stream.head.header("x-run-id").to_owned();
    assert_eq!(stream.rest().last().unwrap().data["status"], "suspended");
    let approval = asked.data["approval_id"].as_str().unwrap().to_owned();
    (house, run, approval)
}

fn effects(house: &House) -> Vec<String> {
    let text = std::fs::read_to_string(house.world.path("effects")).unwrap_or_default();
    text.lines().map(|line| line.split_once('\t').map_or(line, |(_, line)| line).to_owned()).collect()
}

#[test]
fn a_run_says_where_it_stands() {
    let house = House::playing(looks_up());
    let run =
        house.post("/process", json!({"message": "hi", "thread_id": "t"})).header("x-run-id").to_owned();
    let read = house.get(&format!("/v1/runs/{run}"));
    let mut document = Mask::default().value(read.json());
    let (steps, usage) = (document["steps"].take(), document["usage"].take());
    let kinds: Vec<&str> =
        steps.as_array().unwrap().iter().map(|step| step["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["llm_call", "tool_call", "llm_call"]);
    assert_eq!(usage["cost_usd"], 0.0);
    let expected = json!({
        "id": document["id"], "thread_id": "t", "branch": "main", "flow": "turn", "definition": "HASH", "status": "ok",
        "result": "It is {\"exact\":true,\"result\":\"42\"}.", "waiting": [], "usage": null, "limits": {"iterations": 3, "active_s": 120, "answer_tokens": 4096}, "steps": null,
        "created": "TIME", "ended": "TIME",
    });
    assert_eq!(document, expected);
    let listed = house.get("/v1/runs?thread=t&status=ok").json();
    assert_eq!(listed, json!({"items": [read.json()]}));
    assert_eq!(house.get("/v1/runs?status=running").json(), json!({"items": []}));
    assert_eq!(house.get("/v1/runs?thread=t&status=error").json(), json!({"items": []}));
    assert_eq!(house.get("/v1/runs?thread=nobody").problem(), (404, "not_found".to_owned()));
    for wrong in ["status=x", "limit=0", "limit=1001", "thread=a+b", "nonsense=1", "after=x"] {
        assert_eq!(house.get(&format!("/v1/runs?{wrong}")).problem().0, 400, "{wrong}");
    }
}

#[test]
fn runs_are_listed_newest_first_in_pages() {
    let house =
        House::with(World::new(), &json!({"v": 1, "replies": [], "otherwise": {"do": [{"text": "ok"}]}}), "");
    let made: Vec<String> = (0..5)
        .map(|_| house.post("/process", json!({"message": "hi"})).header("x-run-id").to_owned())
        .collect();
    let (mut seen, mut query) = (Vec::new(), "?limit=2".to_owned());
    loop {
        let page = house.get(&format!("/v1/runs{query}")).json();
        let ids = page["items"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned());
        seen.extend(ids);
        let Some(next) = page["next"].as_str() else { break };
        query = format!("?limit=2&after={next}");
    }
    assert_eq!(seen, made.into_iter().rev().collect::<Vec<_>>());
}

#[test]
fn every_transition_is_a_checkpoint() {
    let house = House::playing(looks_up());
    let run =
        house.post("/process", json!({"message": "hi", "thread_id": "t"})).header("x-run-id").to_owned();
    let answer = house.get(&format!("/v1/runs/{run}/checkpoints"));
    assert_eq!(answer.header("x-run-id"), run);
    let all = answer.json();
    let items = all["items"].as_array().unwrap();
    let row = |item: &Value| {
        (
            item["step"].as_u64().unwrap(),
            item["node"].clone(),
            item["next_action"].clone(),
            item["head_index"].as_i64().unwrap(),
        )
    };
    assert_eq!(
        items.iter().map(row).collect::<Vec<_>>(),
        [
            (1, json!("start"), Value::Null, 0),
            (2, json!("reasoning"), json!("call_tool"), 2),
            (3, json!("tool_call"), Value::Null, 3),
            (4, json!("respond"), json!("respond"), 4),
        ]
    );
    let keys: Vec<&String> = items[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["branch", "head_index", "next_action", "node", "seq", "step", "ts", "usage"]);
    let page = house.get(&format!("/v1/runs/{run}/checkpoints?limit=3")).json();
    assert_eq!((page["items"].as_array().unwrap().len(), &page["next"]), (3, &json!("3")));
    let rest = house.get(&format!("/v1/runs/{run}/checkpoints?after=3")).json();
    assert_eq!(rest, json!({"items": [items[3]]}));
}

#[test]
fn a_run_goes_on_from_a_checkpoint_on_a_branch_of_its_own() {
    let house = House::playing(looks_up());
    let run =
        house.post("/process", json!({"message": "hi", "thread_id": "t"})).header("x-run-id").to_owned();
    let path = format!("/v1/runs/{run}/fork");
    let failed = || house.send("POST", &path, &[("idempotency-key", "f")], Some(json!({"step": 99})));
    assert_eq!([failed().problem().0, failed().problem().0], [404, 404]);
    let forked = house.send("POST", &path, &[("idempotency-key", "k")], Some(json!({"step": 3})));
    assert_eq!(forked.status, 201, "{forked:?}");
    let new = forked.header("x-run-id").to_owned();
    assert_eq!(forked.json(), json!({"run_id": new}));
    assert_ne!(new, run);
    house.until(&new, "ok");
    let again = house.send("POST", &path, &[("idempotency-key", "k")], Some(json!({"step": 3})));
    assert_eq!((again.status, again.json()), (201, json!({"run_id": new})));
    let other = house.send("POST", &path, &[("idempotency-key", "k")], Some(json!({"step": 2})));
    assert_eq!(other.problem(), (422, "idempotency_mismatch".to_owned()));
    let read = house.get(&format!("/v1/runs/{new}")).json();
    assert_ne!(read["branch"], "main");
    assert_eq!(read["result"], "It is {\"exact\":true,\"result\":\"42\"}.");
    assert_eq!(house.post(&path, json!({"step": 99})).problem(), (404, "not_found".to_owned()));
    assert_eq!(house.post(&path, json!({"step": 4})).problem(), (400, "invalid_request".to_owned()));
}

#[test]
fn a_trace_is_a_tree() {
    let house = House::playing(looks_up());
    let run = house.post("/process", json!({"message": "hi"})).header("x-run-id").to_owned();
    let answer = house.get(&format!("/v1/runs/{run}/trace"));
    let trace = answer.json();
    assert_eq!(trace["trace_id"], answer.header("x-trace-id"));
    let children = trace["spans"][0]["children"].as_array().unwrap();
    let tools = children.iter().filter(|span| span["name"] == "execute_tool calculator").count();
    assert_eq!((children.len(), tools), (3, 1), "{trace}");
}

#[test]
fn a_running_agent_is_steered() {
    let script = json!([
        {"match": "go", "do": [{"call": {"name": "calculator", "arguments": {"expression": "1"}}}, {"stall_ms": 300}]},
        {"match": "red", "do": [{"text": "You said: {user}"}]},
    ]);
    let house = House::playing(script);
    let named = house.post("/v1/runs", json!({"input": "go"}));
    let run = named.header("x-run-id").to_owned();
    let sent = house.post(&format!("/v1/runs/{run}/input"), json!({"text": "red"}));
    assert_eq!(sent.status, 202, "{sent:?}");
    let frames = house.stream("GET", &format!("/v1/runs/{run}/events"), &[], None).rest();
    let taken = frames.iter().find(|frame| frame.event == "input").unwrap();
    assert_eq!(taken.data, json!({"type": "input", "input_id": sent.json()["input_id"]}));
    assert_eq!(house.get(&format!("/v1/runs/{run}")).json()["result"], "You said: red");
    let late = house.post(&format!("/v1/runs/{run}/input"), json!({"text": "blue"}));
    assert_eq!(late.problem(), (409, "finished".to_owned()));
    let cancelled = house.post(&format!("/v1/runs/{run}/cancel"), json!({}));
    assert_eq!((cancelled.status, cancelled.json()), (202, json!({"status": "ok"})));
    assert_eq!(house.post(&format!("/v1/runs/{run}/input"), json!({"text": " "})).problem().0, 400);
}

#[test]
fn an_approved_call_runs_and_the_run_goes_on() {
    let (house, run, approval) = asked();
    let pending = house.get("/v1/approvals?status=pending").json();
    assert_eq!(pending["items"][0]["id"], approval.as_str());
    assert_eq!(effects(&house), [] as [&str; 0]);
    let mut watcher = house.stream("GET", &format!("/v1/runs/{run}/events"), &[], None);
    watcher.until("approval_required");
    let path = format!("/v1/runs/{run}/approvals/{approval}");
    let decided = house.post(&path, json!({"decision": "approve", "reason": "fine"}));
    assert_eq!((decided.status, &decided.json()["status"]), (200, &json!("approved")), "{decided:?}");
    let seen = watcher.rest();
    assert_eq!(seen.last().unwrap().data["status"], "ok", "{seen:?}");
    assert_eq!(effects(&house), ["as asked"]);
    let again = house.post(&path, json!({"decision": "deny"}));
    assert_eq!(again.problem(), (409, "already_decided".to_owned()));
    assert_eq!(house.get("/v1/approvals?status=pending").json(), json!({"items": []}));
    assert_eq!(house.get("/v1/approvals").json()["items"][0]["status"], "approved");
    let after = house.get(&format!("/v1/approvals?status=pending&after={approval}"));
    assert_eq!(
        (after.status, after.json()),
        (200, json!({"items": []})),
        "a page goes on after what was decided"
    );
    assert_eq!(house.get("/v1/approvals?after=ap-x").problem(), (404, "not_found".to_owned()));
}

#[test]
fn a_decision_has_to_fit() {
    let (house, run, approval) = asked();
    let path = format!("/v1/runs/{run}/approvals/{approval}");
    for wrong in [
        json!({"decision": "maybe"}),
        json!({"decision": "edit"}),
        json!({"decision": "edit", "arguments": {"line": 7}}),
        json!({"decision": "approve", "arguments": {}}),
        json!({}),
    ] {
        assert_eq!(
            house.post(&path, wrong.clone()).problem(),
            (400, "invalid_request".to_owned()),
            "{wrong}"
        );
    }
    let nobody = "01890a5d-ac96-774b-bcce-b302099a8057";
    for missing in
        [format!("/v1/runs/{nobody}/approvals/{approval}"), format!("/v1/runs/{run}/approvals/ap-x")]
    {
        assert_eq!(
            house.post(&missing, json!({"decision": "approve"})).problem(),
            (404, "not_found".to_owned())
        );
    }
    let file = house.world.path("effects").display().to_string();
    let arguments = json!({"file": file, "line": "otherwise", "class": "unsafe"});
    let edited = house.post(&path, json!({"decision": "edit", "arguments": arguments}));
    assert_eq!((edited.status, &edited.json()["status"]), (200, &json!("edited")), "{edited:?}");
    house.until(&run, "ok");
    assert_eq!(effects(&house), ["otherwise"]);
}

#[test]
fn a_run_that_waits_can_be_cancelled() {
    let (house, run, approval) = asked();
    let told = house.post(&format!("/v1/runs/{run}/cancel"), json!({}));
    assert_eq!(told.status, 202, "{told:?}");
    house.until(&run, "cancelled");
    let late = house.post(&format!("/v1/runs/{run}/approvals/{approval}"), json!({"decision": "approve"}));
    assert_eq!(late.problem(), (409, "already_decided".to_owned()));
    assert_eq!(effects(&house), [] as [&str; 0]);
}
