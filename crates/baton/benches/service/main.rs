//! `cargo bench -p baton`: the whole service over HTTP, beside stand-ins for a model and the services around it.
//!
//! The binary is started as a user would start it: on SQLite in a temporary folder, then on a PostgreSQL of its own.
//! Clients make runs as fast as they go; each run calls three tools and ends with an answer of 32 words. Clients,
//! service, stand-ins and database share the machine, so only the ratios of one table say something. `./dist` makes the
//! profile of a release from this.
//!
//! `BENCH_RUNS` sets how many runs are made at 64 clients (4000), fewer clients make fewer; `BENCH_ONLY` (`sqlite`,
//! `postgres`) leaves the other store out.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark prints and stops"
)]

mod load;
#[path = "../../../baton-store/tests/it/postgres_server.rs"]
mod postgres_server;
mod service;
mod stand_in;

use postgres_server::OwnServer;
use service::Service;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let runs = std::env::var("BENCH_RUNS").ok().and_then(|text| text.parse().ok()).unwrap_or(4000);
    let (sqlite, postgres) = match std::env::var("BENCH_ONLY").as_deref() {
        Err(_) => (true, true),
        Ok("sqlite") => (true, false),
        Ok("postgres") => (false, true),
        Ok(other) => panic!("BENCH_ONLY is sqlite or postgres, not {other}"),
    };
    let upstream = stand_in::open().await;
    if sqlite {
        report("SQLite", &Service::open(&upstream, None), runs).await;
    }
    if postgres {
        let database = OwnServer::start(&[]);
        report("PostgreSQL", &Service::open(&upstream, Some(&database.url())), runs).await;
    }
}

/// Prints the figures of 1, 16 and 64 clients, and how they compare with one.
async fn report(store: &str, service: &Service, runs: u32) {
    println!("{store:<12} {:>8} {:>8} {:>7} {:>15}", "clients", "runs/s", "times", "first token ms");
    let mut alone = None;
    for (clients, runs) in [(1, runs / 16 + 1), (16, runs / 2 + 1), (64, runs)] {
        let load::Load { runs_per_s, first_token_ms } = load::drive(service.address(), clients, runs).await;
        let times = runs_per_s / *alone.get_or_insert(runs_per_s);
        println!("{:<12} {clients:>8} {runs_per_s:>8.0} {times:>7.1} {first_token_ms:>15.2}", "");
    }
}
