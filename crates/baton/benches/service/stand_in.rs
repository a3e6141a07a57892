//! A model that speaks as Ollama does, an execution service and a context service, all of which answer at once.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::{get, post};
use axum::serve::ListenerExt;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// The number of tools that a run calls, one after the other.
const TOOLS: usize = 3;
/// The number of words in its answer.
pub(crate) const WORDS: usize = 32;

/// Starts it; returns its address.
pub(crate) async fn open() -> String {
    let router = Router::new()
        .route("/api/chat", post(chat))
        .route("/tools", get(tools))
        .route("/execute", post(execute))
        .route("/events", post(async || "{}"));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    // Without this, the kernel holds the end of every answer back until the beginning was acknowledged.
    let listener = listener.tap_io(|connection| connection.set_nodelay(true).unwrap());
    tokio::spawn(async { axum::serve(listener, router).await });
    address
}

async fn tools() -> String {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    json!({"tools": [{"name": "look", "description": "Looks something up.", "input_schema": schema}]})
        .to_string()
}

async fn execute() -> String {
    json!({"status": "success", "result": "it is there"}).to_string()
}

/// Asks for a tool until there are results enough, and then speaks, a line for every word.
async fn chat(body: Bytes) -> Body {
    let asked: Value = serde_json::from_slice(&body).unwrap();
    let messages = asked["messages"].as_array().unwrap();
    let results = messages.iter().rev().take_while(|message| message["role"] != "user");
    let n = results.filter(|message| message["role"] == "tool").count();
    let said = if n < TOOLS {
        let call = json!({"function": {"name": "look", "arguments": {"n": n}}});
        vec![json!({"role": "assistant", "content": "", "tool_calls": [call]})]
    } else {
        (0..WORDS).map(|n| json!({"role": "assistant", "content": format!("w{n} ")})).collect()
    };
    let last = json!({"message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop",
        "prompt_eval_count": 100, "eval_count": 10});
    let lines = said.into_iter().map(|message| json!({"message": message, "done": false})).chain([last]);
    let lines = lines.map(|line| Ok::<_, std::io::Error>(format!("{line}\n")));
    Body::from_stream(futures_util::stream::iter(lines))
}
