//! A real MLflow server as the collector of a service: its record of an agent's turn, read back from it.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::http;
use crate::peer::{self, Peer};
use crate::served::{Served, until};
use crate::world::World;

/// Starts the server with an empty database, as its own documentation has it.
fn serve() -> Peer {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [
        "server",
        "--host=127.0.0.1",
        "--port=0",
        "--backend-store-uri=sqlite:///mlflow.db",
        "--default-artifact-root=artifacts",
        "--workers=1",
    ];
    let mut command = peer::command("mlflow", &arguments.map(str::to_owned), folder.path());
    // Without these it would start programs of its own, and report to its makers.
    command.envs([("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false"), ("MLFLOW_DISABLE_TELEMETRY", "true")]);
    Peer::saying("running on http://", command, folder)
}

/// A service that sends its spans there, with a model that uses a tool.
fn watched(mlflow: &Peer) -> Served {
    let world = World::new();
    let model = world.script(&json!({"v": 1, "replies": [
        {"do": [{"call": {"name": "calculator", "arguments": {"expression": "6*7"}}}]},
        {"do": [{"text": "It is 42."}]},
    ]}));
    world.settings(&format!("model = '{model}'\n[telemetry]\nendpoint = {:?}\n", mlflow.url()));
    Served::on(world, &[], &[("OTEL_EXPORTER_OTLP_HEADERS", "x-mlflow-experiment-id=0")])
}

/// A span in MLflow's record: its name, its type, and the name of its parent.
fn told(spans: &[Value]) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let names: BTreeMap<String, String> =
        spans.iter().map(|span| (text(&span["span_id"]), text(&span["name"]))).collect();
    let kind = |span: &Value| {
        let attributes = span["attributes"].as_array().unwrap();
        attributes
            .iter()
            .find(|it| it["key"] == "mlflow.spanType")
            .map_or("-".to_owned(), |it| text(&it["value"]["string_value"]))
    };
    let parent = |span: &Value| names.get(&text(&span["parent_span_id"])).cloned().unwrap_or("-".to_owned());
    spans.iter().map(|span| (text(&span["name"]), kind(span), parent(span))).collect()
}

#[test]
fn a_turn_is_one_trace_of_an_agent_its_model_and_its_tool() {
    let mlflow = serve();
    let served = watched(&mlflow);
    let said = r#"{"message": "What is six times seven?", "thread_id": "sums"}"#;
    let answer = served.send("POST", "/process", &[], Some(said));
    assert_eq!((answer.status, &answer.json()["response"]), (200, &json!("It is 42.")), "{answer:?}");
    let trace = format!("tr-{}", answer.header("x-trace-id"));
    let path = format!("/api/3.0/mlflow/traces/batchGet?trace_ids={trace}");
    let mut found = Value::Null;
    until("MLflow has the whole trace", || {
        found = http::get(&mlflow, &path)["traces"][0].clone();
        found["spans"]
            .as_array()
            .is_some_and(|spans| spans.iter().any(|span| span["parent_span_id"].is_null()))
    });
    let mut spans = found["spans"].as_array().unwrap().clone();
    spans.sort_by_key(|span| span["start_time_unix_nano"].as_u64());
    spans.retain(|span| span["name"] != "commit");
    let chat = format!("chat {}", served.world.path("script.json").display());
    let agent = "invoke_agent baton";
    let expected = [
        (agent, "AGENT", "-"),
        (&chat, "CHAT_MODEL", agent),
        ("execute_tool calculator", "TOOL", agent),
        (&chat, "CHAT_MODEL", agent),
    ];
    assert_eq!(
        told(&spans),
        expected.map(|(name, kind, parent)| (name.to_owned(), kind.to_owned(), parent.to_owned()))
    );
    let info = &found["trace_info"];
    let usage: Value =
        serde_json::from_str(info["trace_metadata"]["mlflow.trace.tokenUsage"].as_str().unwrap()).unwrap();
    let used = answer.json()["usage"].clone();
    let expected = json!({
        "input_tokens": used["prompt_tokens"], "output_tokens": used["completion_tokens"],
        "total_tokens": used["tokens"],
    });
    assert_eq!(
        json!([
            info["trace_id"],
            info["state"],
            info["trace_metadata"]["mlflow.trace.session"],
            info["tags"]["service.name"],
            usage
        ]),
        json!([trace, "OK", "sums", "baton", expected])
    );
}
