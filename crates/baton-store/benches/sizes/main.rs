//! `cargo bench --bench sizes`: compares the cost of each query on a large store with its cost on a small one.
//!
//! Stores are filled by SQL with 1,000, 100,000 and 1,000,000 runs (`BENCH_SIZES` sets other numbers), and each query
//! runs on all of them in turns. Every figure is a ratio to the smallest, because machines are noisy.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark prints and stops"
)]
#![allow(dead_code, reason = "it uses a part of what the tests have")]

#[path = "../../tests/it/home.rs"]
mod home;
#[path = "../../tests/it/pen.rs"]
mod pen;
#[path = "../../tests/it/postgres_server.rs"]
mod postgres_server;
#[path = "../../tests/it/values.rs"]
mod values;

mod fill;
mod measure;

use home::Home;
use measure::Bench;

fn main() {
    let sizes = std::env::var("BENCH_SIZES").unwrap_or_else(|_| "1000,100000,1000000".to_owned());
    let sizes: Vec<u64> = sizes.split(',').map(|size| size.parse().expect("BENCH_SIZES: numbers")).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        report("SQLite", Home::sqlite, fill::sqlite, &sizes).await;
        report("PostgreSQL", Home::postgres, fill::postgres, &sizes).await;
    });
}

async fn report(name: &str, make: fn() -> Home, fill: fn(&Home, u64), sizes: &[u64]) {
    let mut bench = Bench { stores: Vec::new(), figures: Vec::new() };
    for &size in sizes {
        bench.stores.push(measure::filled(make(), fill, size).await);
    }
    bench.ask_all().await;
    print!("\n{name:<40} {:>12}", format!("µs at {}", sizes[0]));
    sizes[1..].iter().for_each(|size| print!(" {size:>10}"));
    println!();
    for (question, times) in bench.figures {
        let least = times[0].as_secs_f64();
        print!("{question:<40} {:>12.0}", least * 1e6);
        times[1..].iter().for_each(|time| print!(" {:>9.2}×", time.as_secs_f64() / least));
        println!();
    }
}
