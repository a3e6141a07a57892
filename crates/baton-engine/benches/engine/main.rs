//! `cargo bench`: the cost of the engine beside the same SQLite without it, and the cost of history.
//!
//! Every figure is a ratio of two measurements in one run, taken in turns, because machines are noisy.
//! `BENCH_SECONDS` sets how long each measurement takes (2).

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark prints and stops"
)]

mod baseline;
mod history;
mod load;

use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    let seconds = std::env::var("BENCH_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2.0);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let time = Duration::from_secs_f64(seconds);
        // For a profiler: nothing but the engine, on one store.
        match std::env::var("BENCH_ONLY").as_deref() {
            Ok("memory") => return println!("{:.0}", load::memory(64, time).await),
            Ok("sqlite") => {
                return println!("{:.0}", load::sqlite(tempfile::tempdir().unwrap().path(), 64, time).await);
            }
            _ => transitions(time).await,
        }
        if std::env::var_os("BENCH_SKIP_HISTORY").is_none() {
            history::report().await;
        }
    });
}

/// Transitions a second at 1, 16 and 64 runs, and their share of plain SQLite.
async fn transitions(time: Duration) {
    println!("transitions a second (median of 3, in turns)");
    println!(
        "{:>5} {:>10} {:>10} {:>16} {:>18} {:>8}",
        "runs", "memory", "sqlite", "same rows, plain", "same bytes, 1 table", "share"
    );
    for runs in [1, 16, 64] {
        let (mut memory, mut sqlite, mut plain, mut append) = (vec![], vec![], vec![], vec![]);
        for _ in 0..3 {
            memory.push(load::memory(runs, time).await);
            let folder = tempfile::tempdir().unwrap();
            sqlite.push(load::sqlite(folder.path(), runs, time).await);
            let sample = baseline::Sample::of(folder.path());
            plain.push(sample.same_rows(runs, time));
            append.push(sample.one_table(runs, time));
        }
        let [memory, sqlite, plain, append] = [memory, sqlite, plain, append].map(median);
        let share = 100.0 * sqlite / plain;
        println!("{runs:>5} {memory:>10.0} {sqlite:>10.0} {plain:>16.0} {append:>18.0} {share:>7.0}%");
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
