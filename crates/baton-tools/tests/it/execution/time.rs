//! Calls that are stopped or take too long, and connections that are kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use baton_core::effect::ToolOutcome;
use baton_core::thread::Closing;
use baton_tools::{Registry, ToolCallResult};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{TOOLS, answering, registry, service, unknown};
use crate::server::{CannedResponse, FakeServer};
use crate::{context, ok};

#[tokio::test]
async fn a_stopped_call_hangs_up_and_has_an_unknown_outcome() {
    let (server, registry) = answering(|| CannedResponse::and_silence("")).await;
    for name in ["look", "pay"] {
        let stop = context("k");
        let (cancel, before) = (stop.cancel.clone(), server.requests().len());
        let calling = tokio::spawn({
            let registry = registry.clone();
            async move { registry.call(name, json!({}), stop).await }
        });
        while server.requests().len() == before {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
        let said = "The call was stopped before the execution service answered.";
        assert_eq!(calling.await.unwrap(), unknown(said), "{name}");
    }
}

#[tokio::test]
async fn a_stopped_call_with_effects_still_waits_a_moment_for_its_outcome() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (server, registry) = answering(|| CannedResponse::and_end("")).await;
    drop(registry);
    let offer = service(&server.at("")).discover().await.unwrap();
    let (tools, _) = service(&url).tools(&offer, &|_| false, &|_| None);
    let stop = context("k");
    let cancel = stop.cancel.clone();
    let calling =
        tokio::spawn(async move { Registry::new(tools).unwrap().call("pay", json!({}), stop).await });
    let (mut stream, _) = listener.accept().await.unwrap();
    stream.read_exact(&mut [0; 16]).await.unwrap();
    cancel.cancel();
    let body = r#"{"status":"ok","output":"paid"}"#;
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(answer.as_bytes()).await.unwrap();
    assert_eq!(calling.await.unwrap(), ok(json!("paid")));
}

#[tokio::test]
async fn a_call_that_times_out_has_an_unknown_outcome() {
    let slow = r#"[{"name": "slow", "timeout_s": 0.05}]"#;
    let server = FakeServer::start(move |path| match path {
        "/tools" => CannedResponse::page("application/json", slow),
        _ => CannedResponse::and_silence(""),
    })
    .await;
    let registry = registry(&service(&server.at(""))).await;
    let outcome =
        ToolOutcome::new(Closing::Error, json!("`slow` did not finish within 50 ms and was stopped."));
    let expected = ToolCallResult { outcome, blob: None, before_start: false, timed_out: true };
    assert_eq!(registry.call("slow", json!({}), context("k")).await, expected);
}

/// Many calls, side by side and one after the other, and as few connections as there were calls at once.
#[tokio::test]
async fn connections_are_kept_and_shared_by_all_tools() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(async move {
                let mut bytes = Vec::new();
                while matches!(stream.read_buf(&mut bytes).await, Ok(1..)) {
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                    if body.len() < length.map_or(0, |length| length.parse().unwrap()) {
                        continue;
                    }
                    let said = if head.starts_with("GET") { TOOLS } else { r#"{"status":"ok","output":1}"# };
                    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{said}", said.len());
                    stream.write_all(answer.as_bytes()).await.unwrap();
                    bytes.clear();
                }
            });
        }
    });
    let registry = registry(&service(&url)).await;
    for _ in 0..20 {
        for name in ["look", "pay", "greet"] {
            assert_eq!(registry.call(name, json!({}), context("k")).await, ok(json!(1)));
        }
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}
