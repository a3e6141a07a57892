//! Load: runs as fast as they go, each on a thread of its own.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;

use super::machine;
use super::stage::BenchStage;
use crate::failure::Failure;

/// The figures of a load with that many clients.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BenchLoad {
    pub(super) clients: u32,
    pub(super) runs: u32,
    pub(super) runs_per_s: f64,
    pub(super) commits_per_s: f64,
    pub(super) cpu_ms: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// Makes runs with that many clients, each of which begins its next run when its last has ended.
pub(super) async fn drive(
    stage: &BenchStage,
    runs: u32,
    clients: u32,
    say: &dyn Fn(u32),
) -> Result<BenchLoad, Failure> {
    let (next, commits) = (AtomicU32::new(0), commits(stage));
    let (began, cpu) = (Instant::now(), machine::processor_time());
    let client = |_| async {
        let mut times = Vec::new();
        loop {
            let n = next.fetch_add(1, Relaxed);
            if n >= runs {
                return Ok::<_, Failure>(times);
            }
            say(n + 1);
            let began = Instant::now();
            stage.turn(None).await?;
            times.push(began.elapsed());
        }
    };
    let times = try_join_all((0..clients).map(client)).await?;
    let (took, cpu) = (began.elapsed().as_secs_f64(), machine::processor_time().saturating_sub(cpu));
    let commits = self::commits(stage) - commits;
    let mut times: Vec<Duration> = times.into_iter().flatten().collect();
    times.sort_unstable();
    Ok(BenchLoad {
        clients,
        runs,
        runs_per_s: f64::from(runs) / took,
        commits_per_s: commits as f64 / took,
        cpu_ms: millis(cpu) / f64::from(runs),
        p50_ms: millis(share(&times, 0.50)),
        p99_ms: millis(share(&times, 0.99)),
    })
}

fn commits(stage: &BenchStage) -> u64 {
    stage.engine.figures().commits.iter().sum()
}

/// A percentile of sorted times: the time that this share of all does not exceed.
pub(super) fn share(times: &[Duration], share: f64) -> Duration {
    let at = (times.len() as f64 * share).ceil() as usize;
    times.get(at.saturating_sub(1)).copied().unwrap_or_default()
}

/// A time in milliseconds.
pub(super) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_the_time_that_so_many_do_not_exceed() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        let shares = [0.0, 0.5, 0.99, 1.0].map(|it| share(&times, it).as_millis());
        assert_eq!(shares, [1, 100, 198, 200]);
        assert_eq!((share(&times[..1], 0.99).as_millis(), share(&[], 0.5).as_millis()), (1, 0));
    }
}
