//! A session as the user sees it: the result of each request, the plan that holds, and the usage.

use serde_json::{Value, json};

use crate::mask::Mask;
use crate::world::World;

/// Asks in session `s`; returns the exit code and the two last objects, `done` and the result.
fn ask(world: &World, model: &str, text: &str) -> (i32, [Value; 2]) {
    let did = world.baton(&["ask", "--json", "--steps", "--thread", "s", "--model", model, text]);
    let objects = did.objects();
    let [.., done, result] = &objects[..] else { panic!("{did:?}") };
    (did.code, [done["status"].clone(), result.clone()])
}

/// A call of the router.
fn llm(n: u32, said: &str, [read, written]: [u64; 2]) -> Value {
    json!({"type": "llm_call", "description": format!("MODEL {said}"), "metadata": {
        "span_id": format!("SPAN{n}"), "model_role": "router", "model": "MODEL",
        "reason": "a short question for a fact",
        "usage": {"prompt_tokens": read, "completion_tokens": written, "cost_usd": 0.0},
    }})
}

/// A question that was answered: nothing ran, so it has no span.
fn answered(n: u32) -> Value {
    json!({"type": "tool_call", "description": "ask_user worked", "metadata": {
        "tool_name": "ask_user", "call_id": format!("ID1-{n}"),
    }})
}

fn warning(description: &str, metadata: Value) -> Value {
    json!({"type": "warning", "description": description, "metadata": metadata})
}

/// A document in which the model, whose name is a path, is `MODEL`.
fn named(model: &str, value: Value) -> Value {
    serde_json::from_str(&value.to_string().replace(model, "MODEL")).unwrap()
}

fn used(read: u64, written: u64) -> Value {
    json!({"usage": {"prompt_tokens": read, "completion_tokens": written, "cost_micro_usd": 0}})
}

#[test]
fn an_answer_is_told_without_what_was_told_before_it() {
    let world = World::new();
    let question = json!({"call": {"name": "ask_user", "arguments": {"question": "Which colour?"}}});
    let model = world.script(&json!({"v": 1, "replies": [
        {"do": [question, used(7, 2)]}, {"do": [{"text": "You like {last_result}."}, used(9, 3)]},
    ]}));
    let (code, [status, result]) = ask(&world, &model, "What is my colour?");
    let waiting = json!({"kind": "user_input", "run_id": "ID1", "deadline": "TIME"});
    let asked = llm(1, "asked for ask_user", [7, 2]);
    let steps = [asked, warning("the run waits for an answer", json!({ "waiting": waiting }))];
    let expected = json!({"reply": "Which colour?", "steps": steps, "trace_id": "ID1"});
    assert_eq!((code, status, named(&model, result)), (3, json!("suspended"), expected));

    let (code, [status, result]) = ask(&world, &model, "blue");
    let steps = [answered(1), llm(1, "answered", [9, 3])];
    let expected = json!({"reply": "You like blue.", "steps": steps, "trace_id": "ID1"});
    assert_eq!((code, status, named(&model, result)), (0, json!("ok"), expected));
}

#[test]
fn a_session_is_shown_with_its_plan_and_what_it_used() {
    let world = World::new();
    let plan = json!([{"step": "look", "status": "done"}, {"step": "write", "status": "in_progress"}]);
    let first = json!([{"step": "look", "status": "pending"}]);
    let update = |plan: &Value| json!({"call": {"name": "update_plan", "arguments": {"plan": plan}}});
    let model = world.script(&json!({"v": 1, "replies": [
        {"do": [update(&first), used(1, 1)]},
        {"do": [update(&plan), used(2, 2)]},
        {"do": [{"text": "Half done."}, used(3, 3)]},
    ]}));
    let (code, [_, result]) = ask(&world, &model, "Plan the work and begin it");
    let kinds: Vec<&str> =
        result["steps"].as_array().unwrap().iter().map(|step| step["type"].as_str().unwrap()).collect();
    let expected = ["llm_call", "tool_call", "plan", "llm_call", "tool_call", "plan", "llm_call"];
    assert_eq!((code, &kinds[..]), (0, &expected[..]), "{result}");

    let mut shown = Mask::default().value(world.baton(&["threads", "show", "s", "--json"]).json());
    assert_eq!(shown["items"].take().as_array().unwrap().len(), 10);
    let call = |n: u32, plan: &Value| {
        let function = json!({"name": "update_plan", "arguments": json!({ "plan": plan }).to_string()});
        let call = json!({"id": format!("ID2-{n}"), "type": "function", "function": function});
        json!({"role": "assistant", "content": "", "tool_calls": [call]})
    };
    let told = |n: u32, plan: &Value| {
        let content = json!({ "plan": plan }).to_string();
        json!({"role": "tool", "content": content, "tool_call_id": format!("ID2-{n}")})
    };
    let messages = [
        json!({"role": "user", "content": "Plan the work and begin it"}),
        call(1, &first),
        told(1, &first),
        call(3, &plan),
        told(3, &plan),
        json!({"role": "assistant", "content": "Half done."}),
    ];
    let metrics = json!({"llm_calls": 3, "tools": 2, "tokens": 12, "errors": 0});
    let expected =
        json!({"items": null, "messages": messages, "last_plan": plan, "session_metrics": metrics});
    assert_eq!(shown, expected);

    let told = world.baton(&["threads", "show", "s"]).err;
    let expected = "thread s, branch main, 10 entries\n\
                    so far: 3 model calls, 2 tool calls, 12 tokens, 0 errors\n\
                    plan:\n  done        look\n  in progress write\n";
    assert_eq!(told, expected);
}

#[test]
fn a_failure_is_counted_and_told() {
    let world = World::new();
    let error = json!({"error": {"code": "llm_auth", "message": "the key is not right"}});
    let model = world.script(&json!({"v": 1, "replies": [{"do": [{"text": "Once"}, error]}]}));
    let (code, [status, result]) = ask(&world, &model, "Tell me a story about the sea");
    let reply = "The key is not right. Check the key and the account; `baton doctor` says where the key is read from.\n\n\
                 What was said until then:\n\nOnce";
    assert_eq!((code, status, &result["reply"]), (1, json!("error"), &json!(reply)));
    let metadata = &result["steps"].as_array().unwrap().last().unwrap()["metadata"];
    assert_eq!((&metadata["error"], &result["trace_id"]), (&json!("llm_auth"), &json!("ID1")));
    let shown = world.baton(&["threads", "show", "s", "--json"]).json();
    assert_eq!(shown["session_metrics"]["errors"], 1);
    assert_eq!(shown["last_plan"], Value::Null);
}

#[test]
fn steps_are_read_line_by_line() {
    let world = World::new();
    let call =
        |expression: &str| json!({"call": {"name": "calculator", "arguments": {"expression": expression}}});
    let model = world.script(&json!({"v": 1, "replies": [
        {"do": [call("1/0")]}, {"do": [{"text": "It cannot be done."}]},
    ]}));
    let did = world.baton(&["ask", "--steps", "--model", &model, "What is 1/0?"]);
    let told = Mask::default().text(&did.err).replace(&model, "MODEL");
    let (_, steps) = told.split_once("steps (trace ").unwrap();
    let expected = "ID1):\n  \
                    llm_call   MODEL asked for calculator · role router · a short question for a fact\n  \
                    tool_call  calculator did not work · error Division by zero.\n  \
                    llm_call   MODEL answered · role reasoning · tools have run\n";
    assert_eq!((did.code, did.out.as_str(), steps), (0, "It cannot be done.\n", expected));
}
