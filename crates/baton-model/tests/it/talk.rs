//! What the tests over real sockets share: a model at a server, and everything that it says.

use std::sync::Arc;
use std::time::Duration;

use baton_core::chat::{ChatMessage, FinishReason, Role, TokenUsage};
use baton_core::fault::Fault;
use baton_model::wire::Wire;
use baton_model::{Catalog, Delta, Endpoint, Model, ModelEntry, ModelRequest, Provider, Secret, Timeouts};
use futures_util::StreamExt;
use serde_json::json;

use crate::server::Answer;

/// The model of these tests.
pub(crate) const MODEL: &str = "ollama/m";

/// Ollama's type of a stream.
pub(crate) const NDJSON: &str = "application/x-ndjson";

/// A provider named `ollama` at an address.
pub(crate) fn provider(url: &str) -> Provider {
    let base_url = Endpoint::parse(url).unwrap();
    Provider { name: "ollama".to_owned(), base_url, api: None, key: None }
}

/// The same with a key.
pub(crate) fn keyed(url: &str, wire: Wire, key: &str) -> Provider {
    Provider { api: Some(wire), key: Some(Secret::new(key)), ..provider(url) }
}

/// A model at an address, treated as any other.
pub(crate) fn model(url: &str) -> Arc<dyn Model> {
    at(provider(url), ModelEntry::new(MODEL))
}

/// A model at a provider.
pub(crate) fn at(provider: Provider, entry: ModelEntry) -> Arc<dyn Model> {
    Catalog::new(vec![provider], vec![entry]).unwrap().model(MODEL).unwrap()
}

/// Limits in milliseconds; where a test waits for none of them, they are long.
pub(crate) fn limits(first_byte: u64, idle: u64, total: u64) -> ModelEntry {
    let ms = Duration::from_millis;
    let timeouts =
        Timeouts { connect: ms(20_000), first_byte: ms(first_byte), idle: ms(idle), total: ms(total) };
    ModelEntry { timeouts, ..ModelEntry::new(MODEL) }
}

/// A short question.
pub(crate) fn question() -> ModelRequest {
    ModelRequest::new("router", vec![ChatMessage::text(Role::User, "hello?")])
}

/// Everything that a model says to a short question: its deltas, and how it failed if it did.
pub(crate) async fn heard(model: &Arc<dyn Model>) -> (Vec<Delta>, Option<Fault>) {
    let mut stream = model.stream(question());
    let mut deltas = Vec::new();
    while let Some(delta) = stream.next().await {
        match delta {
            Ok(delta) => deltas.push(delta),
            Err(fault) => {
                assert_eq!(stream.next().await, None, "after an error there is nothing more");
                return (deltas, Some(fault));
            }
        }
    }
    (deltas, None)
}

/// The fault of a question that fails before anything is said.
pub(crate) async fn failed(model: &Arc<dyn Model>) -> Fault {
    match heard(model).await {
        (deltas, Some(fault)) if deltas.is_empty() => fault,
        other => panic!("it did not just fail: {other:?}"),
    }
}

/// A fault whose pause is our own, for a first try: about half a second. The pause is made exact, so that
/// the fault can be compared whole.
pub(crate) fn paused(mut fault: Fault) -> Fault {
    let pause = fault.retry_after_ms.unwrap_or_else(|| panic!("no other try: {fault:?}"));
    assert!((450..=550).contains(&pause), "{fault:?}");
    fault.retry_after_ms = Some(500);
    fault
}

/// One line of an Ollama's answer.
pub(crate) fn line(text: &str) -> String {
    format!("{}\n", json!({"message": {"role": "assistant", "content": text}, "done": false}))
}

/// The last line.
pub(crate) fn done() -> String {
    let (message, counts) = (json!({"role": "assistant", "content": ""}), [7, 3]);
    let done = json!({"message": message, "done": true, "done_reason": "stop",
        "prompt_eval_count": counts[0], "eval_count": counts[1]});
    format!("{done}\n")
}

/// A whole answer in one piece.
pub(crate) fn says(text: &str) -> Answer {
    Answer::stream(NDJSON).chunk(line(text)).chunk(done()).end()
}

/// The deltas of such an answer, from a server on this machine.
pub(crate) fn said(text: &str) -> Vec<Delta> {
    said_at(text, Some(0))
}

/// The same with another cost.
pub(crate) fn said_at(text: &str, cost_micro_usd: Option<u64>) -> Vec<Delta> {
    let usage = TokenUsage { prompt_tokens: 7, completion_tokens: 3, cost_micro_usd, estimated: false };
    vec![Delta::Text(text.to_owned()), Delta::Usage(usage), Delta::Finish(FinishReason::Stop)]
}

/// Waits for something that blocks, while the client goes on.
pub(crate) async fn blocking(wait: impl FnOnce() + Send + 'static) {
    tokio::task::spawn_blocking(wait).await.unwrap();
}
