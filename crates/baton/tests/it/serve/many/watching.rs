//! Watching a run that the other process drives.

use std::time::{Duration, Instant};

use serde_json::json;

use super::super::wire::{self, Stream};
use super::pair::Pair;
use crate::postgres_server::Schema;
use crate::world::World;

/// The promised delay.
const SOON: Duration = Duration::from_millis(500);
/// The pieces of the text, one every 40 ms.
const PIECES: usize = 200;

/// The arrival of each piece of text, by its number.
fn arrivals(mut stream: Stream) -> Vec<(String, Instant)> {
    let mut arrived = Vec::new();
    while let Some(frame) = stream.next() {
        if frame.event == "delta" {
            arrived.push((frame.id.unwrap(), Instant::now()));
        }
    }
    arrived
}

/// Text is stored every two seconds if no other process watches: then half of it would come after a second.
#[test]
fn text_arrives_at_the_other_process_while_the_model_speaks() {
    let (schema, stage) = (Schema::new(), World::new());
    let text = "word ".repeat(PIECES);
    let script = json!({"v": 1, "piece_ms": 40, "replies": [{"do": [{"text": text}]}]});
    let pair = Pair::playing(stage, &script, [schema.url.clone(), schema.url.clone()], "");
    let accept = [("accept", "text/event-stream")];
    let body = json!({"flow": "turn", "input": "go", "dialect": "raw"}).to_string();
    let [here, there] = [0, 1].map(|which: usize| pair.homes[which].address.clone());
    let mut near = wire::open(&here, "POST", "/v1/runs", &accept, Some(&body));
    near.until("delta");
    let run = near.head.header("x-run-id").to_owned();
    let far = wire::open(&there, "GET", &format!("/v1/runs/{run}/events?dialect=raw"), &[], None);
    let [near, far] = [near, far].map(|stream| std::thread::spawn(move || arrivals(stream)));
    let [near, far] = [near.join().unwrap(), far.join().unwrap()];
    let numbers = |seen: &[(String, Instant)]| seen.iter().map(|it| it.0.clone()).collect::<Vec<_>>();
    assert_eq!(far.len(), PIECES);
    assert_eq!(numbers(&near), numbers(&far)[1..], "the first one was seen before");
    let mut late: Vec<Duration> =
        near.iter().zip(&far[1..]).map(|(near, far)| far.1.saturating_duration_since(near.1)).collect();
    late.sort();
    let median = late[late.len() / 2];
    assert!(median < SOON, "half of it comes later than {median:?}; all: {late:?}");
}
