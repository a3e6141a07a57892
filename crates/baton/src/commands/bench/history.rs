//! The cost of history: compares an early turn on a thread with a late one.

use std::time::Instant;

use baton_core::id::RunId;
use baton_store::Slice;

use super::load::millis;
use super::machine;
use super::stage::BenchStage;
use crate::failure::Failure;

/// The turns that are compared, and how many turns around each are measured; the median counts.
const EARLY: u32 = 10;
const LATE: u32 = 200;
const AROUND: u32 = 4;
/// The number of turns in all.
pub(super) const LAST: u32 = LATE + AROUND;

const THREAD: &str = "history";

/// One figure for the early and for the late turn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pair {
    pub(super) early: f64,
    pub(super) late: f64,
}

/// The three figures of the comparison.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct History {
    /// The duration of a turn.
    pub(super) time_ms: Pair,
    /// The bytes that a turn added to the log and the thread, as JSON.
    pub(super) stored: Pair,
    /// The bytes that a turn wrote to files, in whole pages; only where the operating system reports them, and only for
    /// files of this process.
    pub(super) written: Option<Pair>,
}

/// The figures of one turn.
struct HistoryTurn {
    time_ms: f64,
    stored: f64,
    written: Option<f64>,
}

/// Makes all turns on one thread and compares the early ones with the late ones.
pub(super) async fn measure(stage: &BenchStage, say: &dyn Fn(u32)) -> Result<History, Failure> {
    let (mut early, mut late) = (Vec::new(), Vec::new());
    for n in 1..=LAST {
        say(n);
        let turn = turn(stage).await?;
        if n.abs_diff(EARLY) <= AROUND {
            early.push(turn);
        } else if n.abs_diff(LATE) <= AROUND {
            late.push(turn);
        }
    }
    let pair = |of: fn(&HistoryTurn) -> Option<f64>| {
        Some(Pair { early: middle(early.iter().map(of))?, late: middle(late.iter().map(of))? })
    };
    let nothing = Pair { early: 0.0, late: 0.0 };
    Ok(History {
        time_ms: pair(|turn| Some(turn.time_ms)).unwrap_or(nothing),
        stored: pair(|turn| Some(turn.stored)).unwrap_or(nothing),
        written: pair(|turn| turn.written),
    })
}

async fn turn(stage: &BenchStage) -> Result<HistoryTurn, Failure> {
    let (before, began) = (machine::written(), Instant::now());
    let run = stage.turn(Some(THREAD)).await?;
    let (time_ms, after) = (millis(began.elapsed()), machine::written());
    let written =
        before.zip(after).filter(|_| stage.is_local()).map(|(before, after)| (after - before) as f64);
    Ok(HistoryTurn { time_ms, stored: stored(stage, run).await?, written })
}

/// The bytes that a run added to its log and to the thread.
async fn stored(stage: &BenchStage, run: RunId) -> Result<f64, Failure> {
    let (store, tenant) = (stage.engine.store(), &stage.tenant);
    let mut bytes = 0;
    for step in store.steps(tenant, run, 0, 1000).await? {
        bytes += serde_json::to_vec(&step.checkpoint).map_or(0, |text| text.len());
    }
    let thread = THREAD.parse().map_err(|error| Failure::failed(format!("{error}")))?;
    let slice = Slice { before: None, last_n: Some(200) };
    for placed in store.entries(tenant, &thread, None, slice).await? {
        if placed.run == Some(run) {
            bytes += placed.entry.data().to_string().len();
        }
    }
    Ok(bytes as f64)
}

/// The median of several figures, if all are known.
fn middle(figures: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let mut figures: Vec<f64> = figures.collect::<Option<_>>()?;
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_what_is_there() {
        assert_eq!(middle([3.0, 1.0, 9.0].map(Some).into_iter()), Some(3.0));
        assert_eq!(middle([Some(3.0), None].into_iter()), None);
        assert_eq!(middle(std::iter::empty()), None);
    }
}
