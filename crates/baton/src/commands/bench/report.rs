//! The report of a benchmark, as text and as JSON.

use serde_json::{Value, json};

use super::history::{History, Pair};
use super::load::BenchLoad;
use super::machine;
use crate::columns::columns;

/// All figures of one benchmark.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Report {
    pub(super) store: &'static str,
    pub(super) tools: u32,
    /// The load with one client.
    pub(super) alone: BenchLoad,
    /// The load with all clients.
    pub(super) many: BenchLoad,
    pub(super) history: History,
    /// Bytes of memory before the first run that counts.
    pub(super) idle: Option<u64>,
    /// The peak of memory, in bytes.
    pub(super) peak: Option<u64>,
}

impl Report {
    fn throughput(&self) -> f64 {
        ratio(self.alone.runs_per_s, self.many.runs_per_s)
    }

    fn cpu(&self) -> f64 {
        ratio(self.alone.cpu_ms, self.many.cpu_ms)
    }

    /// The report as JSON.
    pub(super) fn to_json(&self) -> Value {
        let History { time_ms, stored, written } = &self.history;
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "store": self.store,
            "cores": machine::cores(),
            "tools": self.tools,
            "load": [load(&self.alone), load(&self.many)],
            "ratios": {"runs_per_s": rounded(self.throughput()), "cpu_ms_per_run": rounded(self.cpu())},
            "thread": {
                "turn_ms": pair(time_ms),
                "bytes_stored": pair(stored),
                "bytes_written": written.as_ref().map(pair),
            },
            "memory": {"idle_bytes": self.idle, "peak_bytes": self.peak},
        })
    }

    /// The report as text.
    pub(super) fn to_text(&self) -> String {
        let store = match self.store {
            "sqlite" => "SQLite with synchronous=FULL",
            _ => "PostgreSQL",
        };
        let heading = ["CLIENTS", "RUNS", "RUNS/S", "COMMITS/S", "CPU MS/RUN", "P50 MS", "P99 MS"];
        let (cores, tools) = (machine::cores(), self.tools);
        let mut lines = vec![
            format!("{store}, a scripted model, {tools} tool calls a run, {cores} cores"),
            String::new(),
            columns(heading, &[row(&self.alone), row(&self.many)]),
            String::new(),
            format!(
                "{} clients make {} times as many runs a second as one, at {} times the processor time a run.",
                self.many.clients,
                shown(self.throughput()),
                shown(self.cpu())
            ),
            String::new(),
            columns(["ONE THREAD", "TURN 10", "TURN 200", "RATIO"], &self.thread()),
        ];
        if let (Some(idle), Some(peak)) = (self.idle, self.peak) {
            let (idle, peak) = (mebibytes(idle), mebibytes(peak));
            lines.extend([String::new(), format!("Memory: {idle} MiB before the runs, {peak} MiB at most.")]);
        }
        lines.join("\n")
    }

    fn thread(&self) -> Vec<[String; 4]> {
        let History { time_ms, stored, written } = &self.history;
        let row = |what: &str, it: &Pair| {
            [what.to_owned(), shown(it.early), shown(it.late), shown(ratio(it.early, it.late))]
        };
        let mut rows = vec![row("ms a turn", time_ms), row("bytes stored a turn", stored)];
        rows.extend(written.as_ref().map(|it| row("bytes written a turn", it)));
        rows
    }
}

fn row(load: &BenchLoad) -> [String; 7] {
    [
        load.clients.to_string(),
        load.runs.to_string(),
        shown(load.runs_per_s),
        shown(load.commits_per_s),
        shown(load.cpu_ms),
        shown(load.p50_ms),
        shown(load.p99_ms),
    ]
}

fn load(load: &BenchLoad) -> Value {
    json!({
        "clients": load.clients,
        "runs": load.runs,
        "runs_per_s": rounded(load.runs_per_s),
        "commits_per_s": rounded(load.commits_per_s),
        "cpu_ms_per_run": rounded(load.cpu_ms),
        "p50_ms": rounded(load.p50_ms),
        "p99_ms": rounded(load.p99_ms),
    })
}

fn pair(pair: &Pair) -> Value {
    let ratio = rounded(ratio(pair.early, pair.late));
    json!({"turn_10": rounded(pair.early), "turn_200": rounded(pair.late), "ratio": ratio})
}

/// The second figure as a multiple of the first; 0 if the first is 0.
fn ratio(first: f64, second: f64) -> f64 {
    if first > 0.0 { second / first } else { 0.0 }
}

fn rounded(figure: f64) -> f64 {
    (figure * 1000.0).round() / 1000.0
}

/// A figure with as many digits as its size deserves.
fn shown(figure: f64) -> String {
    match figure {
        it if it >= 100.0 => format!("{it:.0}"),
        it if it >= 10.0 => format!("{it:.1}"),
        it => format!("{it:.2}"),
    }
}

fn mebibytes(bytes: u64) -> u64 {
    bytes >> 20
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(written: Option<Pair>) -> Report {
        let load = |clients, runs, rate: f64| BenchLoad {
            clients,
            runs,
            runs_per_s: rate,
            commits_per_s: rate * 8.0,
            cpu_ms: 1.25,
            p50_ms: 12.3456,
            p99_ms: 99.99,
        };
        let pair = |early, late| Pair { early, late };
        Report {
            store: "sqlite",
            tools: 3,
            alone: load(1, 10, 100.0),
            many: load(64, 100, 750.0),
            history: History { time_ms: pair(2.0, 3.0), stored: pair(8000.0, 8080.0), written },
            idle: Some(20 << 20),
            peak: Some(31 << 20),
        }
    }

    #[test]
    fn people_read_figures_and_ratios() {
        let text = report(Some(Pair { early: 40_000.0, late: 41_000.0 })).to_text();
        let (first, rest) = text.split_once('\n').unwrap();
        assert!(first.starts_with("SQLite with synchronous=FULL, a scripted model, 3 tool calls a run, "));
        let expected = "
CLIENTS  RUNS  RUNS/S  COMMITS/S  CPU MS/RUN  P50 MS  P99 MS
1        10    100     800        1.25        12.3    100.0
64       100   750     6000       1.25        12.3    100.0

64 clients make 7.50 times as many runs a second as one, at 1.00 times the processor time a run.

ONE THREAD            TURN 10  TURN 200  RATIO
ms a turn             2.00     3.00      1.50
bytes stored a turn   8000     8080      1.01
bytes written a turn  40000    41000     1.02

Memory: 20 MiB before the runs, 31 MiB at most.";
        assert_eq!(rest, expected);
    }

    #[test]
    fn programs_read_the_same_and_what_is_not_known_is_null() {
        let load = |clients: u32, runs: u32, rate: f64| {
            json!({"clients": clients, "runs": runs, "runs_per_s": rate, "commits_per_s": rate * 8.0,
                   "cpu_ms_per_run": 1.25, "p50_ms": 12.346, "p99_ms": 99.99})
        };
        let pair =
            |early: f64, late: f64, ratio: f64| json!({"turn_10": early, "turn_200": late, "ratio": ratio});
        let expected = json!({
            "version": env!("CARGO_PKG_VERSION"), "store": "sqlite", "cores": machine::cores(), "tools": 3,
            "load": [load(1, 10, 100.0), load(64, 100, 750.0)],
            "ratios": {"runs_per_s": 7.5, "cpu_ms_per_run": 1.0},
            "thread": {"turn_ms": pair(2.0, 3.0, 1.5), "bytes_stored": pair(8000.0, 8080.0, 1.01),
                       "bytes_written": null},
            "memory": {"idle_bytes": 20 << 20, "peak_bytes": 31 << 20},
        });
        assert_eq!(report(None).to_json(), expected);
    }
}
