//! A database that restarts again and again, in order and as after a crash.

use super::batch::Batch;
use super::pair::Pair;
use super::{chance, rounds, verdict};
use crate::postgres_server::OwnServer;

/// Runs at once.
const AT_ONCE: usize = 10;

#[test]
fn a_database_that_restarts_again_and_again_loses_nothing() {
    let (server, mut dice) = (OwnServer::start(&[]), chance());
    let runs = rounds(20);
    let pair = Pair::new([server.url(), server.url()], runs);
    let mut kept = Vec::new();
    for first in (0..runs).step_by(AT_ONCE) {
        let batch = Batch::begin(&pair, dice.below(2) as usize, first..first + AT_ONCE);
        // Each time some reader has come further, so that no restart is in vain.
        let mut next = 1;
        while batch.reaches(next) {
            server.restart(dice.pick(&["fast", "immediate"]));
            next = batch.progress.seen() + 1 + dice.below(batch.events() as u64 / 4) as usize;
        }
        kept.extend(batch.ends());
    }
    verdict::everything(&pair, &kept, &|sql| server.run(sql));
}
