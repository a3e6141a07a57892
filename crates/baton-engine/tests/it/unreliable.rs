//! Many runs at once against a server that fails three calls in ten, over real sockets.

use std::collections::BTreeSet;
use std::sync::Arc;

use baton_core::run::RunStatus;
use baton_engine::{Rested, RunRequest};
use baton_model::wire::Wire;
use baton_model::{Catalog, Endpoint, Provider};
use serde_json::json;

use crate::check::check;
use crate::world::{Kept, Mode, World};
use crate::{rounds, server};
use server::{Answer, Request, Server};

/// A frame of Chat Completions.
fn frame(choice: serde_json::Value) -> String {
    format!("data: {}\n\n", json!({"choices": [choice]}))
}

/// The answer of a server that works: a call first, and words once it has the call's result.
fn works(request: &Request) -> Answer {
    let (delta, reason) = if request.body.contains("\"role\":\"tool\"") {
        (json!({"content": "Done."}), "stop")
    } else {
        let function = json!({"name": "once", "arguments": "{\"do\":\"ok\"}"});
        (json!({"tool_calls": [{"index": 0, "id": "c", "function": function}]}), "tool_calls")
    };
    Answer::stream("text/event-stream")
        .chunk(frame(json!({"index": 0, "delta": delta})))
        .chunk(frame(json!({"index": 0, "delta": {}, "finish_reason": reason})))
        .chunk("data: [DONE]\n\n")
        .end()
}

/// One of the ways to fail before any text was sent.
fn broken(way: u64) -> Answer {
    match way % 6 {
        0 => Answer::json(500, r#"{"error":{"message":"boom"}}"#),
        1 => Answer::json(503, r#"{"error":{"type":"unavailable_error","message":"Loading model"}}"#),
        2 => Answer::nothing().reset(),
        3 => Answer::stream("text/event-stream").chunk(": wait\n\n").hang_up(),
        4 => Answer::stream("text/event-stream").chunk(": wait\n\n").end(),
        _ => Answer::whole(429, &[("retry-after", "0.2"), ("content-type", "application/json")], "{}"),
    }
}

/// A number without a pattern from a number in order.
fn scattered(n: u64) -> u64 {
    let mixed = (n.wrapping_add(0x9e37_79b9_7f4a_7c15)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 31)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 33
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_run_ends_once_though_three_calls_in_ten_fail() {
    let server = Server::deciding(|n, request| {
        let dice = scattered(n as u64);
        if dice % 10 < 3 { broken(dice / 10) } else { works(request) }
    });
    let mut world = World::new(Kept::Sqlite, Mode::Plain);
    world.other_clock = Some(std::sync::Arc::new(baton_engine::SystemClock));
    let base_url = Endpoint::parse(&server.url()).unwrap();
    let provider = Provider { name: "lab".to_owned(), base_url, api: Some(Wire::ChatCompletions), key: None };
    let catalog = Catalog::new(vec![provider], Vec::new()).unwrap();
    let engine = world.engine_with(Arc::new(move |name| catalog.model(name)), Default::default(), Vec::new());
    let count = rounds(100, 1_000);
    let mut runs = tokio::task::JoinSet::new();
    for n in 0..count {
        let engine = engine.clone();
        runs.spawn(async move {
            let thread = Some(format!("t{n}").parse().unwrap());
            let request = RunRequest { thread, ..RunRequest::new("go", "lab/one") };
            let mut handle = engine.start(request).await.unwrap();
            (handle.run, handle.rested().await)
        });
    }
    let ended = runs.join_all().await;
    let mut well = 0;
    for (run, rested) in &ended {
        assert!(matches!(rested, Rested::Ended(RunStatus::Ok | RunStatus::Error)), "{run}: {rested:?}");
        check(&world, *run, &[]).await.unwrap_or_else(|broken| panic!("{run}: {broken}"));
        well += u64::from(*rested == Rested::Ended(RunStatus::Ok));
    }
    assert!(well > count / 2, "only {well} of {count} runs ended well");
    let keys: Vec<String> = world.ledger.calls().into_iter().map(|(key, _)| key).collect();
    let once: BTreeSet<&String> = keys.iter().collect();
    assert_eq!(once.len(), keys.len(), "no call reached its tool twice");
    assert!(keys.len() as u64 >= well, "every run that ended well had called its tool");
}
