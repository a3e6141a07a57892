//! What a call costs its client, beside a bare call that sends and reads the same bytes.
//!
//! Each client is one thread, so its time on a processor is known; the server's threads do not count. The
//! aim is at most 1.3 times a bare call where words come one by one, each after the last was read, as
//! models write them. Where all of them are there at once nothing is waited for, and reading costs what it
//! costs: that is the worst case.
//!
//! Ours makes a new connection to a server on this machine each time, so the bare call does, too; what one
//! costs that keeps its connection is shown beside it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use baton_core::chat::{ChatMessage, Role};
use baton_core::tool::{EffectClass, ToolSpec};
use baton_model::wire::{Wire, WireNames, WireRequest};
use baton_model::{Catalog, Delta, Endpoint, Model, ModelEntry, ModelRequest, Provider, Secret};
use futures_util::StreamExt;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use serde_json::json;

use crate::frames;
use crate::median;
use crate::server::{self, Piece, Progress};

const MODEL: &str = "bench/m";
const WORDS: usize = 200;
const ROUNDS: u32 = 9;

/// How words are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    OneByOne,
    AtOnce,
}

pub(crate) fn report(time: Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (pace, title) in [(Pace::OneByOne, "one by one"), (Pace::AtOnce, "all at once")] {
        println!(
            "\na call whose answer has {WORDS} words, {title} (µs; medians of {ROUNDS} rounds, in turns)"
        );
        println!(
            "{:>17} {:>10} {:>10} {:>10} {:>7} {:>11} {:>10} {:>10} {:>7}",
            "format", "cpu: kept", "bare", "ours", "ratio", "wall: kept", "bare", "ours", "ratio"
        );
        for wire in Wire::ALL {
            runtime.block_on(compare(wire, pace, time));
        }
    }
}

async fn compare(wire: Wire, pace: Pace, time: Duration) {
    let [kept, bare] = [true, false].map(|keeps| Bare::new(wire, pace, keeps));
    let ours = Ours::new(wire, pace);
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let kept = each(time / ROUNDS, || kept.call()).await;
        let bare = each(time / ROUNDS, || bare.call()).await;
        rounds.push([kept, bare, each(time / ROUNDS, || ours.call()).await]);
    }
    let of = |pick: fn(&[Cost; 3]) -> f64| median(rounds.iter().map(pick).collect());
    println!(
        "{:>17} {:>10.0} {:>10.0} {:>10.0} {:>7.2} {:>11.0} {:>10.0} {:>10.0} {:>7.2}",
        wire.as_str(),
        of(|[kept, ..]| kept.cpu),
        of(|[_, bare, _]| bare.cpu),
        of(|[.., ours]| ours.cpu),
        of(|[_, bare, ours]| ours.cpu / bare.cpu),
        of(|[kept, ..]| kept.wall),
        of(|[_, bare, _]| bare.wall),
        of(|[.., ours]| ours.wall),
        of(|[_, bare, ours]| ours.wall / bare.wall),
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

/// A server for one client; `before` says how far that one is when it has read so many pieces.
fn serve(wire: Wire, pace: Pace, progress: &Progress, before: impl Fn(usize) -> usize) -> Endpoint {
    let words = frames::first_word(wire)..frames::first_word(wire) + WORDS;
    let waits = |at: usize| pace == Pace::OneByOne && words.contains(&at);
    let pieces: Vec<Piece> = (frames::answer(wire, WORDS).into_iter().enumerate())
        .map(|(at, text)| Piece { after: if waits(at) { before(at) } else { 0 }, text })
        .collect();
    let content_type = if wire == Wire::Ollama { "application/x-ndjson" } else { "text/event-stream" };
    Endpoint::parse(&server::start(content_type, &pieces, progress.clone())).unwrap()
}

/// The same request and the same bytes without us.
struct Bare {
    client: reqwest::Client,
    url: reqwest::Url,
    body: Vec<u8>,
    length: usize,
    /// In pieces.
    progress: Progress,
}

impl Bare {
    fn new(wire: Wire, pace: Pace, keeps: bool) -> Self {
        let idle = if keeps { 1 } else { 0 };
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).pool_max_idle_per_host(idle);
        let request = question();
        let names = WireNames::new(&request.tools, &request.messages);
        let call =
            WireRequest { model: "m", name: MODEL, request: &request, names: &names, is_openai: false };
        let body = wire.encode(&call);
        let length = frames::answer(wire, WORDS).concat().len();
        let progress = Progress::default();
        let url = serve(wire, pace, &progress, |pieces| pieces).address(wire);
        Bare { client: client.build().unwrap(), url, body, length, progress }
    }

    async fn call(&self) {
        self.progress.store(0, Ordering::Relaxed);
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
            self.progress.fetch_add(1, Ordering::Relaxed);
        }
        assert_eq!(length, self.length);
    }
}

/// A model of ours.
struct Ours {
    model: Arc<dyn Model>,
    /// The tools of a run are the same in each call.
    question: ModelRequest,
    /// In words.
    progress: Progress,
}

impl Ours {
    fn new(wire: Wire, pace: Pace) -> Self {
        let progress = Progress::default();
        let base_url = serve(wire, pace, &progress, |pieces| pieces - frames::first_word(wire));
        let key = Some(Secret::new("key"));
        let provider = Provider { name: "bench".to_owned(), base_url, api: Some(wire), key };
        let catalog = Catalog::new(vec![provider], vec![ModelEntry::new(MODEL)]).unwrap();
        Ours {
            model: catalog.model(MODEL).unwrap(),
            question: ModelRequest { is_piecemeal: true, ..question() },
            progress,
        }
    }

    async fn call(&self) {
        self.progress.store(0, Ordering::Relaxed);
        let mut stream = self.model.stream(self.question.clone());
        let (mut words, mut finished) = (0, false);
        while let Some(delta) = stream.next().await {
            match delta.unwrap() {
                Delta::Text(_) => {
                    words += 1;
                    self.progress.store(words, Ordering::Relaxed);
                }
                Delta::Finish(_) => finished = true,
                _ => {}
            }
        }
        assert_eq!((words, finished), (WORDS, true));
    }
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
        ..ToolSpec::default()
    });
    ModelRequest { tools: Arc::from(tools), ..ModelRequest::new("reasoning", messages) }
}
