//! Clients, each of which begins its next run when the last has ended.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;

use crate::stand_in::WORDS;

/// The figures of a load with that many clients.
pub(crate) struct Load {
    pub(crate) runs_per_s: f64,
    /// The median.
    pub(crate) first_token_ms: f64,
}

/// Makes runs, each on a thread of its own.
pub(crate) async fn drive(address: &str, clients: u32, runs: u32) -> Load {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let (next, began) = (AtomicU32::new(0), Instant::now());
    let client = |_| async {
        let mut waits = Vec::new();
        while next.fetch_add(1, Relaxed) < runs {
            waits.push(turn(&http, address).await);
        }
        waits
    };
    let mut waits: Vec<Duration> = join_all((0..clients).map(client)).await.into_iter().flatten().collect();
    let runs_per_s = f64::from(runs) / began.elapsed().as_secs_f64();
    waits.sort_unstable();
    Load { runs_per_s, first_token_ms: waits[waits.len() / 2].as_secs_f64() * 1000.0 }
}

/// Makes one run; returns the time to its first word. A run that fails ends the benchmark.
async fn turn(http: &reqwest::Client, address: &str) -> Duration {
    let (began, mut first, mut stream) = (Instant::now(), None, String::new());
    let body = json!({"input": "please look three times, and say what you found"}).to_string();
    let asked = http.post(address).header("content-type", "application/json").body(body);
    let mut answer = asked.send().await.unwrap().error_for_status().unwrap();
    while let Some(bytes) = answer.chunk().await.unwrap() {
        stream += std::str::from_utf8(&bytes).unwrap();
        if first.is_none() && stream.contains("\"thinking\"") {
            first = Some(began.elapsed());
        }
    }
    let last = format!("w{} ", WORDS - 1);
    assert!(stream.contains(&last) && stream.contains("\"done\""), "a run did not end well: {stream}");
    first.unwrap()
}
