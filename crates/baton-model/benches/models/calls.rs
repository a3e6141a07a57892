//! What a call costs its client, beside a bare call that sends and reads the same bytes.
//!
//! Each client is one thread, so its time on a processor is known; the server's threads do not count. The
//! aim is at most 1.3 times a bare call, where pieces come one by one as models write them. Where all of
//! them are there at once nothing is waited for, and reading costs what it costs: that is the worst case.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use baton_core::chat::{ChatMessage, Role};
use baton_core::tool::{EffectClass, ToolSpec};
use baton_model::wire::{Call, Names, Wire};
use baton_model::{Catalog, Delta, Endpoint, Model, ModelEntry, ModelRequest, Provider, Secret};
use futures_util::StreamExt;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use serde_json::json;

use crate::frames;
use crate::median;
use crate::server::{self, Pace};

const MODEL: &str = "bench/m";
const WORDS: usize = 200;
const ROUNDS: u32 = 9;

pub(crate) fn report(time: Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (pace, title) in [(Pace::OneByOne, "one by one"), (Pace::AtOnce, "all at once")] {
        println!(
            "\na call whose answer has {WORDS} words, sent {title} (µs; medians of {ROUNDS} rounds, in turns)"
        );
        println!(
            "{:>17} {:>10} {:>10} {:>7} {:>10} {:>10} {:>7}",
            "format", "bare, cpu", "ours, cpu", "ratio", "bare, wall", "ours, wall", "ratio"
        );
        for wire in Wire::ALL {
            runtime.block_on(compare(wire, pace, time));
        }
    }
}

async fn compare(wire: Wire, pace: Pace, time: Duration) {
    let pieces = frames::answer(wire, WORDS);
    let length = pieces.iter().map(String::len).sum();
    let content_type = if wire == Wire::Ollama { "application/x-ndjson" } else { "text/event-stream" };
    let bare = Bare::new(wire, &server::start(content_type, &pieces, pace), length);
    let ours = model(wire, &server::start(content_type, &pieces, pace));
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let bare = each(time / ROUNDS, || bare.call()).await;
        rounds.push([bare, each(time / ROUNDS, || call(&ours)).await]);
    }
    let of = |pick: fn(&[Cost; 2]) -> f64| median(rounds.iter().map(pick).collect());
    println!(
        "{:>17} {:>10.0} {:>10.0} {:>7.2} {:>10.0} {:>10.0} {:>7.2}",
        wire.as_str(),
        of(|[bare, _]| bare.cpu),
        of(|[_, ours]| ours.cpu),
        of(|[bare, ours]| ours.cpu / bare.cpu),
        of(|[bare, _]| bare.wall),
        of(|[_, ours]| ours.wall),
        of(|[bare, ours]| ours.wall / bare.wall),
    );
}

/// What one call took, in microseconds.
struct Cost {
    cpu: f64,
    wall: f64,
}

/// Makes calls one after the other for a while; what each took on average.
async fn each<F: Future<Output = ()>>(time: Duration, call: impl Fn() -> F) -> Cost {
    // The first one may have to connect.
    call().await;
    let (begun, cpu) = (Instant::now(), on_processor());
    let mut calls = 0.0;
    while begun.elapsed() < time {
        call().await;
        calls += 1.0;
    }
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / calls;
    Cost { cpu: micros(on_processor() - cpu), wall: micros(begun.elapsed()) }
}

/// How long this thread has been on a processor. Linux says so; elsewhere it is not known, and 0.
fn on_processor() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(told.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

/// The same request and the same bytes without us.
struct Bare {
    client: reqwest::Client,
    url: reqwest::Url,
    body: Vec<u8>,
    length: usize,
}

impl Bare {
    fn new(wire: Wire, address: &str, length: usize) -> Self {
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
        let request = question();
        let names = Names::of(&request.tools, &request.messages);
        let body = wire.encode(&Call { model: "m", name: MODEL, request: &request, names: &names });
        let url = Endpoint::parse(address).unwrap().address(wire);
        Bare { client, url, body, length }
    }

    async fn call(&self) {
        let request = self
            .client
            .post(self.url.clone())
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream")
            .header(AUTHORIZATION, "Bearer key")
            .body(self.body.clone());
        let mut response = request.send().await.unwrap();
        let mut length = 0;
        while let Some(bytes) = response.chunk().await.unwrap() {
            length += bytes.len();
        }
        assert_eq!(length, self.length);
    }
}

fn model(wire: Wire, address: &str) -> Arc<dyn Model> {
    let base_url = Endpoint::parse(address).unwrap();
    let provider =
        Provider { name: "bench".to_owned(), base_url, api: Some(wire), key: Some(Secret::new("key")) };
    Catalog::new(vec![provider], vec![ModelEntry::new(MODEL)]).unwrap().model(MODEL).unwrap()
}

async fn call(model: &Arc<dyn Model>) {
    let mut stream = model.stream(question());
    let (mut words, mut finished) = (0, false);
    while let Some(delta) = stream.next().await {
        match delta.unwrap() {
            Delta::Text(_) => words += 1,
            Delta::Finish(_) => finished = true,
            _ => {}
        }
    }
    assert_eq!((words, finished), (WORDS, true));
}

/// A question with a little history and three tools.
fn question() -> ModelRequest {
    let said = [
        (Role::System, "You answer briefly, and you use tools where they help."),
        (Role::User, "What was the first question about?"),
        (Role::Assistant, "It was about the weather in the north, and I said that it rains."),
        (Role::User, "And what is (17 * 23) / 4?"),
    ];
    let messages = said.map(|(role, words)| ChatMessage::text(role, words)).to_vec();
    let tools = ["exec.calculator", "get_time", "kb.search"].map(|name| ToolSpec {
        name: name.to_owned(),
        description: "does what its name says, and nothing else".to_owned(),
        input_schema: json!({"type": "object", "properties": {"expression": {"type": "string"}},
            "required": ["expression"]}),
        output_schema: None,
        class: EffectClass::SideEffectFree,
        timeout_ms: 1000,
    });
    ModelRequest { tools: Arc::from(tools), ..ModelRequest::new("reasoning", messages) }
}
