//! The tools of an execution service: Baton's handling of them, however the service behaves.

use serde_json::{Value, json};

use crate::server::{Answer, Request, Server};
use crate::stage::Did;
use crate::world::World;

const TOKEN: &str = "token-0123456789abcdef";

/// A service with these tools that answers a call with its request.
fn service(tools: Value) -> Server {
    Server::deciding(move |_, request| answered(request, &tools))
}

fn answered(request: &Request, tools: &Value) -> Answer {
    match request.path.as_str() {
        "/tools" => Answer::json(200, &json!({"tools": tools}).to_string()),
        "/execute" => {
            let body: Value = serde_json::from_str(&request.body).unwrap();
            let output = json!({"called": body["tool_name"], "with": body["arguments"]});
            Answer::json(
                200,
                &json!({"status": "success", "output": output, "execution_time_ms": 1.0}).to_string(),
            )
        }
        _ => Answer::json(404, "{}"),
    }
}

fn tickets() -> Value {
    json!([
        {"name": "find_tickets", "description": "Finds tickets.", "side_effect_free": true, "timeout_s": 5,
         "parameters": {"type": "object", "properties": {"words": {"type": "string"}}, "required": ["words"]}},
        {"name": "close_ticket", "description": "Closes a ticket.", "inputSchema": {"type": "object", "properties": {"id": {"type": "integer"}}}},
        {"name": "clock", "description": "Another clock."},
        {"name": "not a name"},
    ])
}

fn with(server: &Server) -> World {
    with_more(&server.url(), "")
}

fn with_more(url: &str, more: &str) -> World {
    let world = World::new();
    world.settings(&format!("[services.execution]\nurl = \"{url}\"\n{more}"));
    world
}

/// A model that makes one call and repeats its result.
fn calling(world: &World, name: &str, arguments: Value) -> String {
    world.script(&json!({"v": 1, "replies": [
        {"do": [{"call": {"name": name, "arguments": arguments}}]},
        {"do": [{"text": "{last_result}"}]},
    ]}))
}

fn ask(world: &World, name: &str, arguments: Value, more: &[&str]) -> Did {
    let model = calling(world, name, arguments);
    let args = [&["ask", "--model", &model], more, &["Please do it"]].concat();
    world.baton(&args)
}

fn tool(listed: &Value, name: &str) -> Option<Value> {
    listed["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == name).cloned()
}

#[test]
fn the_tools_of_a_service_are_offered_beside_the_built_in_ones() {
    let server = service(tickets());
    let did = with(&server).baton(&["tools", "ls", "--json"]);
    let listed = did.json();
    let expected = json!({
        "name": "find_tickets", "description": "Finds tickets.",
        "input_schema": {"type": "object", "properties": {"words": {"type": "string"}}, "required": ["words"]},
        "side_effect_free": true, "idempotent": true, "requires_context": false, "built_in": false,
        "untrusted_output": false, "private_output": false, "egress": "no", "to_service": false, "approve": false, "timeout_s": 5.0,
    });
    assert_eq!(tool(&listed, "find_tickets"), Some(expected));
    let clocks = ["clock", "exec.clock"].map(|name| tool(&listed, name).unwrap()["built_in"].clone());
    assert_eq!(clocks, [json!(true), json!(false)], "a name that is taken is offered under another");
    assert_eq!(tool(&listed, "close_ticket").unwrap()["idempotent"], json!(false), "nothing was said of it");
    assert!(
        did.err.contains("a tool of the execution service is left out tool=\"not a name\""),
        "{}",
        did.err
    );
}

#[test]
fn a_model_calls_them_and_the_service_is_shown_our_token_and_a_key() {
    let server = service(tickets());
    let world = with(&server);
    let model = calling(&world, "close_ticket", json!({"id": 7}));
    let did =
        world.baton_with(&[("EXECUTION_SERVICE_TOKEN", TOKEN)], &["ask", "--model", &model, "Close it"]);
    assert_eq!(
        (did.code, did.out.as_str()),
        (0, "{\"called\":\"close_ticket\",\"with\":{\"id\":7}}\n"),
        "{}",
        did.err
    );

    let requests = server.requests();
    let asked: Vec<_> =
        requests.iter().map(|it| (it.method.as_str(), it.path.as_str(), it.body.as_str())).collect();
    let body = r#"{"tool_name":"close_ticket","arguments":{"id":7},"timeout":29.0}"#;
    assert_eq!(asked, [("GET", "/tools", ""), ("POST", "/execute", body)]);
    let bearer = format!("Bearer {TOKEN}");
    let shown: Vec<_> = requests.iter().map(|it| it.header("authorization").unwrap()).collect();
    assert_eq!(shown, [bearer.as_str(); 2]);
    let run = world.baton(&["runs", "ls", "--json"]).json()["items"][0]["id"].as_str().unwrap().to_owned();
    let key = requests[1].header("idempotency-key").unwrap();
    assert!(key.starts_with(&run), "{key} names the effect of run {run}");
}

#[test]
fn what_a_service_says_of_a_failure_is_what_the_model_sees() {
    let server = Server::deciding(|_, request| match request.path.as_str() {
        "/tools" => Answer::json(200, &tickets().to_string()),
        _ => Answer::json(
            200,
            r#"{"status": "error", "output": "ticket 7 is locked", "execution_time_ms": 2}"#,
        ),
    });
    let did = ask(&with(&server), "close_ticket", json!({"id": 7}), &[]);
    let said = "Error: ticket 7 is locked. The cause lies in what was asked: call it with other arguments, or ask the person \
                to change the request.\n";
    assert_eq!((did.code, did.out.as_str()), (0, said), "{}", did.err);
    assert_eq!(server.paths(), ["/tools", "/execute"]);
}

#[test]
fn a_call_whose_answer_is_lost_is_not_made_again() {
    let server = Server::deciding(|_, request| match request.path.as_str() {
        "/tools" => Answer::json(200, &tickets().to_string()),
        _ => Answer::nothing().hang_up(),
    });
    let world = with(&server);
    let did = ask(&world, "close_ticket", json!({"id": 7}), &[]);
    let said = "Unknown outcome: it was interrupted, and nobody knows whether it took effect; check before you call it again\n";
    assert_eq!((did.code, did.out.as_str()), (0, said), "{}", did.err);
    assert_eq!(server.paths(), ["/tools", "/execute"], "nobody knows whether it took effect");
}

#[test]
fn a_call_that_changes_nothing_is_tried_once_more() {
    let server = Server::deciding(|n, request| match (request.path.as_str(), n) {
        ("/tools", _) => Answer::json(200, &tickets().to_string()),
        (_, 1) => Answer::nothing().hang_up(),
        _ => answered(request, &json!([])),
    });
    let did = ask(&with(&server), "find_tickets", json!({"words": "x"}), &[]);
    assert_eq!((did.code, server.paths().len()), (0, 3), "{did:?}");
    let keys: Vec<_> =
        server.requests()[1..].iter().map(|it| it.header("idempotency-key").unwrap().to_owned()).collect();
    assert_eq!(keys.len(), 2);
}

#[test]
fn a_service_that_is_down_is_a_warning_and_everything_else_works() {
    let world = with_more(&Server::nobody(), "\n[tools.close_ticket]\napprove = true\n");
    let did = ask(&world, "calculator", json!({"expression": "17 * 23"}), &[]);
    assert_eq!((did.code, did.out.as_str()), (0, "{\"exact\":true,\"result\":\"391\"}\n"), "{}", did.err);
    let warning =
        "the execution service does not give out its tools; it is asked again why=it cannot be reached: ";
    assert!(did.err.contains(warning), "{}", did.err);
    let did = world.baton(&["tools", "ls", "--json"]);
    assert_eq!(tool(&did.json(), "close_ticket"), None);
}

#[test]
fn the_operator_says_what_a_tool_of_a_service_may_be_trusted_with() {
    let server = service(tickets());
    let said = "\n[tools.close_ticket]\napprove = true\ntimeout_s = 3\n\n[tools.find_tickets]\nuntrusted_output = true\n\n\
                [tools.exec.clock]\nenabled = false\n";
    let said = said.replace("[tools.exec.clock]", "[tools.\"exec.clock\"]");
    let world = with_more(&server.url(), &said);
    let listed = world.baton(&["tools", "ls", "--json"]).json();
    let close = tool(&listed, "close_ticket").unwrap();
    let find = tool(&listed, "find_tickets").unwrap();
    assert_eq!(
        json!([close["approve"], close["timeout_s"], find["untrusted_output"], tool(&listed, "exec.clock")]),
        json!([true, 3.0, true, null])
    );
    let did = ask(&world, "close_ticket", json!({"id": 7}), &[]);
    assert_eq!(did.code, 3, "{did:?}");
    let id =
        world.baton(&["approvals", "ls", "--json"]).json()["items"][0]["id"].as_str().unwrap().to_owned();
    let did = world.baton(&["approvals", "approve", &id]);
    assert_eq!(did.code, 0, "{did:?}");
    let executed: Vec<String> =
        server.requests().into_iter().filter(|it| it.path == "/execute").map(|it| it.body).collect();
    assert_eq!(executed, [r#"{"tool_name":"close_ticket","arguments":{"id":7},"timeout":2.7}"#]);
}

#[test]
fn something_said_of_a_tool_that_nobody_has_is_a_warning_where_tools_may_come_and_else_an_error() {
    let said = "\n[tools.close_tickets]\napprove = true\n";
    let did = with_more(&service(tickets()).url(), said).baton(&["tools", "ls"]);
    assert_eq!(did.code, 0, "{did:?}");
    assert!(did.err.contains("[tools.close_tickets] is about a tool that nobody has"), "{}", did.err);
    let world = World::new();
    world.settings(said);
    let did = world.baton(&["tools", "ls"]);
    assert_eq!(did.code, 2, "{did:?}");
}

#[test]
fn the_policy_holds_for_them() {
    let server = service(tickets());
    let world = with(&server);
    let did = ask(&world, "close_ticket", json!({"id": 7}), &["--mode", "CONSERVATIVE"]);
    assert!(did.out.contains("not allowed"), "{did:?}");
    let did = ask(&world, "find_tickets", json!({"words": "x"}), &["--mode", "CONSERVATIVE"]);
    assert_eq!(did.code, 0, "{did:?}");
    let executed: Vec<_> = server.requests().into_iter().filter(|it| it.path == "/execute").collect();
    assert_eq!(executed.len(), 1, "{did:?}");
}

#[test]
fn a_token_shows_nowhere() {
    let server = Server::deciding(|_, request| match request.path.as_str() {
        "/tools" => Answer::json(200, &tickets().to_string()),
        _ => Answer::json(401, &format!(r#"{{"detail": "{TOKEN}"}}"#)),
    });
    let world = with(&server);
    let model = calling(&world, "close_ticket", json!({"id": 7}));
    let did = world
        .baton_with(&[("EXECUTION_SERVICE_TOKEN", TOKEN)], &["-vvv", "ask", "--model", &model, "Close it"]);
    assert_eq!(did.code, 0, "{did:?}");
    assert!(did.out.contains("does not accept Baton's token (status 401)"), "{did:?}");
    let config = world.baton_with(&[("EXECUTION_SERVICE_TOKEN", TOKEN)], &["config", "show"]);
    assert!(![did.out, did.err, config.out, config.err].iter().any(|text| text.contains(TOKEN)));
}

#[test]
fn a_token_that_was_named_has_to_be_there() {
    let server = service(tickets());
    let world = with_more(&server.url(), "key_file = \"exec.token\"\n");
    let did = world.baton(&["tools", "ls"]);
    assert_eq!(did.code, 2, "{did:?}");
    assert!(did.err.contains("`services.execution.key_file` names the file of our token"), "{}", did.err);
    world.write("home/config/baton/exec.token", &format!("{TOKEN}\n"));
    assert_eq!(world.baton(&["tools", "ls"]).code, 0);
    let shown = server.requests().last().unwrap().header("authorization").unwrap().to_owned();
    assert_eq!(shown, format!("Bearer {TOKEN}"));
}

#[test]
fn the_doctor_says_what_a_service_offers() {
    let check = |world: &World| {
        let found = world.baton(&["doctor", "--json"]).json();
        found["checks"].as_array().unwrap().iter().find(|it| it["name"] == "execution service").cloned()
    };
    let server = service(tickets());
    let offers = "127.0.0.1 offers find_tickets, close_ticket, clock, not a name";
    let expected = json!({"name": "execution service", "state": "ok", "detail": offers});
    assert_eq!(check(&with(&server)), Some(expected));
    assert_eq!(check(&World::new()), None);
    let odd = Server::deciding(|_, _| Answer::json(500, ""));
    let expected = json!({"name": "execution service", "state": "warning", "detail": "127.0.0.1: it answers with status 500",
        "fix": "is it running, and are `services.execution.url` and its token right?"});
    assert_eq!(check(&with(&odd)), Some(expected));
}
