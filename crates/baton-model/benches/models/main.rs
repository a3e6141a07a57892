//! `cargo bench -p baton-model`: how fast each format is read, and what a call costs beside a bare one.
//!
//! A bare call sends the same bytes with the same HTTP library to the same server on loopback and reads the
//! answer to its end without looking at it. Every ratio is of two measurements in one run, taken in turns,
//! because machines are noisy. `BENCH_SECONDS` sets how long each measurement takes (1), `BENCH_ONLY` picks
//! one of `decode`, `short` and `calls`.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark prints and stops"
)]

mod calls;
mod decode;
mod frames;
mod server;
mod short;

use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let seconds = std::env::var("BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1.0);
    let time = Duration::from_secs_f64(seconds);
    let only = std::env::var("BENCH_ONLY").ok();
    let wanted = |part: &str| only.as_deref().is_none_or(|only| only == part);
    if wanted("decode") {
        decode::report(time);
    }
    if wanted("short") {
        short::report(time);
    }
    if wanted("calls") {
        calls::report(time);
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
