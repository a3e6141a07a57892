//! The service's output about itself: its log and its metrics. Neither holds a secret or a tenant's data.

use std::collections::BTreeSet;

use serde_json::Value;

use super::served::{Served, until};
use crate::world::World;

const SECRET: &str = "5ecre7-of-the-environment";

#[test]
fn every_line_is_an_object_and_none_holds_a_secret() {
    let world = World::new();
    world.settings("model = \"offline\"\n[log]\nlevel = \"trace\"\n");
    let variables =
        [("BATON_TOKEN", SECRET), ("EXECUTION_SERVICE_TOKEN", SECRET), ("OPENAI_API_KEY", SECRET)];
    let served = Served::on(world, &[], &variables);
    let authorization = format!("Bearer {SECRET}");
    let headers = [("authorization", authorization.as_str()), ("cookie", SECRET), ("x-api-key", SECRET)];
    let said = r#"{"message": "My words are 5ecre7 words", "thread_id": "trip"}"#;
    assert_eq!(served.send("POST", "/process", &headers, Some(said)).status, 200);
    assert_eq!(served.send("GET", "/v1/runs?status=5ecre7", &headers, None).status, 400);
    assert_eq!(served.send("GET", "/5ecre7", &headers, None).status, 404);
    assert_eq!(
        served.send("GET", "/v1/threads/5ecre7", &[("authorization", "Bearer 5ecre7")], None).status,
        401
    );
    assert_eq!(served.send("POST", "/process", &headers, Some("{\"message\": 5ecre7}")).status, 400);
    let line = "\"route\":\"-\",\"status\":401}";
    until("all was logged", || served.log().contains(line) && served.log().contains("\"status\":400}"));
    let log = served.log();
    assert!(!log.contains("5ecre7"), "{log}");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for line in &lines {
        let known = ["ts", "level", "target", "msg"].iter().all(|name| line[*name].is_string());
        assert!(known && line["target"].as_str().unwrap().starts_with("baton"), "{line}");
    }
    let answered = lines.iter().find(|line| line["msg"] == "answered" && line["status"] == 200).unwrap();
    let names: BTreeSet<&str> = answered.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "correlation_id",
        "level",
        "method",
        "ms",
        "msg",
        "route",
        "run_id",
        "status",
        "target",
        "thread_id",
        "trace_id",
        "ts",
    ];
    assert_eq!(names, BTreeSet::from(expected), "{answered}");
    assert_eq!((&answered["route"], &answered["thread_id"]), (&"/process".into(), &"trip".into()));
}

#[test]
fn figures_count_what_was_done_and_name_nobody() {
    let served = Served::with("");
    let said = r#"{"message": "What is 17 * 23?", "thread_id": "a-name-of-mine"}"#;
    assert_eq!(served.send("POST", "/process", &[], Some(said)).status, 200);
    let (mut answer, mut text) = (served.send("GET", "/metrics", &[], None), String::new());
    until("the connection of the first request is gone", || {
        answer = served.send("GET", "/metrics", &[], None);
        text = String::from_utf8(answer.body.clone()).unwrap();
        text.contains("\nbaton_connections_open 1\n")
    });
    assert_eq!(answer.header("content-type"), "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let figure = |name: &str| {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).unwrap_or("none")
    };
    let told = [
        "baton_http_requests_total{method=\"POST\",route=\"/process\",status=\"200\"}",
        "baton_http_request_seconds_count{route=\"/process\"}",
        "baton_runs_started_total",
        "baton_runs_ended_total{status=\"ok\"}",
        "baton_runs_live",
        "baton_model_calls_total",
        "baton_tool_calls_total",
        "baton_store_up",
        "baton_streams_open",
        "baton_connections_open",
        "baton_outbox_depth",
    ]
    .map(figure);
    assert_eq!(told, ["1", "1", "1", "1", "0", "2", "1", "1", "0", "1", "0"], "{text}");
    let commits: u64 = figure("baton_commit_seconds_count").parse().unwrap();
    assert_eq!(figure("baton_commit_seconds_bucket{le=\"+Inf\"}"), commits.to_string());
    assert!(
        commits >= 4 && figure("baton_prompt_tokens_total") != "0" && text.ends_with("# EOF\n"),
        "{text}"
    );
    assert!(!text.contains("a-name-of-mine") && !text.contains("local"), "{text}");
}

#[test]
fn more_runs_than_there_is_room_for_are_told_to_come_back() {
    let world = World::new();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    world.settings(&format!(
        "model = \"lab/m\"\n[providers.lab]\nbase_url = \"http://{address}/v1\"\napi = \"chat_completions\"\n\
         [serve]\nruns = 2\n"
    ));
    let served = Served::on(world, &[], &[]);
    let begin = || served.send("POST", "/v1/runs", &[], Some(r#"{"flow": "turn", "input": "hi"}"#));
    let runs: Vec<String> = (0..2).map(|_| begin().json()["run_id"].as_str().unwrap().to_owned()).collect();
    for path in ["/v1/runs", "/process", "/v1/agent/run", "/v1/requests"] {
        let body = match path {
            "/v1/runs" => r#"{"flow": "turn", "input": "hi", "thread_id": "t"}"#,
            "/process" => r#"{"message": "hi", "thread_id": "t"}"#,
            "/v1/requests" => r#"{"session_id": "t", "user_message": "hi"}"#,
            _ => r#"{"input": "hi", "thread_id": "t"}"#,
        };
        let refused = served.send("POST", path, &[], Some(body));
        assert_eq!(
            (refused.problem(), refused.header("retry-after")),
            ((503, "overloaded".into()), "1"),
            "{path}"
        );
    }
    assert_eq!(served.send("GET", "/v1/threads/t", &[], None).status, 404, "nothing was begun");
    let cancelled = served.send("POST", &format!("/v1/runs/{}/cancel", runs[0]), &[], None);
    assert_eq!(cancelled.status, 202);
    until("there is room again", || begin().status == 202);
}
