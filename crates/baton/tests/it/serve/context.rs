//! Sending events to a context service: in order, at least once, and without delaying any run.

use std::sync::{Arc, OnceLock};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::mask::Mask;
use crate::postgres_server::until;
use crate::server::{Answer, Server};
use crate::world::World;

const TOKEN: &str = "token-0123456789abcdef";

fn with(url: &str, more: &str) -> World {
    let world = World::new();
    world.settings(&format!("[services.context]\nurl = \"{url}\"\n{more}"));
    world
}

/// A model that answers everything with one number.
fn model(world: &World) -> String {
    world.script(&json!({"v": 1, "replies": [{"do": [{"text": "391"}]}]}))
}

fn taking() -> Server {
    Server::deciding(|_, _| Answer::whole(202, &[], ""))
}

fn bodies(server: &Server) -> Vec<Value> {
    server.requests().iter().map(|it| serde_json::from_str(&it.body).unwrap()).collect()
}

/// The events that arrived: the type of each, with its correlation id.
fn kinds(server: &Server) -> Vec<(String, String)> {
    let told = |body: Value| {
        let text = |field: &str| body[field].as_str().unwrap().to_owned();
        (text("correlation_id"), text("event_type"))
    };
    bodies(server).into_iter().map(told).collect()
}

#[test]
fn a_run_is_told_when_it_begins_and_when_it_ends() {
    let server = taking();
    let world = with(&server.url(), "source = \"desk\"\n");
    let did = world.baton_with(
        &[("CONTEXT_SERVICE_TOKEN", TOKEN)],
        &["ask", "--model", &model(&world), "What is 17 * 23?"],
    );
    assert_eq!((did.code, did.out.as_str()), (0, "391\n"), "{}", did.err);

    let requests = server.requests();
    let heads: Vec<_> = requests
        .iter()
        .map(|it| (it.method.as_str(), it.path.as_str(), it.header("authorization").unwrap()))
        .collect();
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(heads, [("POST", "/events", bearer.as_str()); 2]);
    let keys: Vec<&str> = requests.iter().map(|it| it.header("idempotency-key").unwrap()).collect();
    assert!(keys[0] != keys[1] && keys.iter().all(|key| key.len() > 32), "{keys:?}");

    let mut mask = Mask::default();
    let told: Vec<Value> = bodies(&server).into_iter().map(|body| mask.value(body)).collect();
    let event = |kind: &str| json!({"correlation_id": "ID1", "event_type": kind, "source": "desk"});
    let mut expected = [event("agent.started"), event("agent.completed")];
    expected[0]["payload"] =
        json!({"run_id": "ID1", "thread_id": "ID2", "trace_id": told[0]["payload"]["trace_id"]});
    expected[1]["payload"] = told[1]["payload"].clone();
    assert_eq!(told, expected);
    assert!(told[1]["payload"]["usage"].is_object(), "{told:?}");
    let all = format!("{told:?}");
    assert!(!all.contains("17 * 23") && !all.contains("391"), "nobody asked for text: {all}");
}

#[test]
fn text_is_told_where_the_operator_says_so() {
    let server = taking();
    let world = with(&server.url(), "with_text = true\n");
    world.baton(&["ask", "--model", &model(&world), "What is 17 * 23?"]).ok();
    let told = bodies(&server);
    assert_eq!(
        json!([told[0]["payload"]["message"], told[1]["payload"]["response"]]),
        json!(["What is 17 * 23?", "391"])
    );
}

#[test]
fn runs_go_on_while_nobody_takes_events_and_all_arrive_later_in_order() {
    let world = with(&Server::nobody(), "");
    for question in ["What is 1 + 1?", "What is 2 + 2?", "What is 3 + 3?"] {
        let did = world.baton(&["ask", "--model", &model(&world), question]);
        assert_eq!(did.code, 0, "{did:?}");
        assert_eq!(
            did.err.matches("the context service takes no events; they wait").count(),
            1,
            "{}",
            did.err
        );
    }
    let runs = world.baton(&["runs", "ls", "--json"]).json();
    let runs: Vec<String> =
        runs["items"].as_array().unwrap().iter().map(|it| it["id"].as_str().unwrap().to_owned()).collect();
    let server = taking();
    world.settings(&format!("[services.context]\nurl = \"{}\"\n", server.url()));
    world.baton(&["runs", "ls"]).ok();
    let mut told = kinds(&server);
    told.sort_by_key(|(run, _)| runs.iter().rev().position(|it| it == run));
    let both = |run: &String| ["agent.started", "agent.completed"].map(|kind| (run.clone(), kind.to_owned()));
    let expected: Vec<_> = runs.iter().rev().flat_map(both).collect();
    assert_eq!(told, expected, "of each run, its beginning came first");
    world.baton(&["runs", "ls"]).ok();
    assert_eq!(kinds(&server).len(), 6, "what was taken is not sent again");
}

#[test]
fn an_event_that_failed_is_sent_again_under_its_key_before_the_next() {
    let server = Server::deciding(|n, _| match n {
        0 => Answer::json(500, ""),
        _ => Answer::whole(202, &[], ""),
    });
    let world = with(&server.url(), "");
    world.baton(&["ask", "--model", &model(&world), "What is 1 + 1?"]).ok();
    world.baton(&["runs", "ls"]).ok();
    let kinds: Vec<String> = kinds(&server).into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(kinds, ["agent.started", "agent.started", "agent.completed"]);
    let keys: Vec<String> =
        server.requests().iter().map(|it| it.header("idempotency-key").unwrap().to_owned()).collect();
    assert_eq!(keys[0], keys[1]);
    assert_ne!(keys[1], keys[2]);
}

#[test]
fn an_event_that_is_refused_as_it_is_holds_up_nobody() {
    let server = Server::deciding(|n, _| match n {
        0 => Answer::json(422, ""),
        _ => Answer::whole(202, &[], ""),
    });
    let world = with(&server.url(), "");
    let did = world.baton(&["ask", "--model", &model(&world), "What is 1 + 1?"]);
    assert_eq!(did.code, 0, "{did:?}");
    assert!(did.err.contains("the context service refuses an event: it is given up"), "{}", did.err);
    let kinds: Vec<String> = kinds(&server).into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(kinds, ["agent.started", "agent.completed"]);
    let rows = world.baton(&["audit", "ls", "--json"]).json();
    assert_eq!(rows["items"].as_array().unwrap().len(), 2, "the chain has it all the same");
}

#[test]
fn a_service_that_never_answers_holds_nobody_up_for_long() {
    let server = Server::deciding(|_, _| Answer::nothing().stall());
    let world = with(&server.url(), "");
    let began = std::time::Instant::now();
    let did = world.baton(&["ask", "--model", &model(&world), "What is 1 + 1?"]);
    assert_eq!((did.code, did.out.as_str()), (0, "391\n"), "{}", did.err);
    assert!(began.elapsed() < std::time::Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn a_correlation_id_whose_events_are_not_taken_holds_up_no_other_however_many_they_are() {
    let stuck = Arc::new(OnceLock::new());
    let first = stuck.clone();
    let server = Server::deciding(move |_, request| {
        let body: Value = serde_json::from_str(&request.body).unwrap();
        let id = body["correlation_id"].as_str().unwrap().to_owned();
        match *first.get_or_init(|| id.clone()) == id {
            true => Answer::json(500, ""),
            false => Answer::whole(202, &[], ""),
        }
    });
    let world = with(&server.url(), "");
    let model = model(&world);
    world.baton(&["ask", "--thread", "stuck", "--model", &model, "What is 1 + 1?"]).ok();
    let db = rusqlite::Connection::open(world.path("home/data/baton/baton.db")).unwrap();
    let unsent: i64 =
        db.query_row("SELECT count(*) FROM outbox WHERE send = 1", [], |row| row.get(0)).unwrap();
    assert_eq!(unsent, 2);
    let columns = "tenant, at, correlation, kind, source, digest, send, bytes, body, crc, external";
    let copies = format!(
        "WITH RECURSIVE c(k) AS (VALUES(1) UNION ALL SELECT k + 1 FROM c WHERE k < 600)
         INSERT INTO outbox({columns}) SELECT {columns} FROM outbox, c WHERE kind = 'agent.started'"
    );
    assert_eq!(db.execute(&copies, []).unwrap(), 600);
    world.baton(&["ask", "--thread", "other", "--model", &model, "What is 1 + 1?"]).ok();
    let service = world.start(&["serve", "--port", "0", "--model", &model, "--json"]);
    let stuck = stuck.get().unwrap();
    until("the events behind are sent", || {
        kinds(&server).iter().any(|(id, kind)| id != stuck && kind == "agent.completed")
    });
    service.signal(Signal::TERM);
    service.end();
    let unsent: i64 =
        db.query_row("SELECT count(*) FROM outbox WHERE send = 1", [], |row| row.get(0)).unwrap();
    assert_eq!(unsent, 602, "none of the others is lost");
}
