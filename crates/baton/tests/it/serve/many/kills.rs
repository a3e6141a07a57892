//! SIGKILL of the process that drives.

use super::batch::Batch;
use super::pair::Pair;
use super::{chance, rounds, verdict};
use crate::postgres_server::Schema;

/// The number of runs for one kill.
const AT_ONCE: usize = 4;

#[test]
fn nothing_is_lost_or_done_twice_when_the_owner_is_killed() {
    let (schema, mut dice) = (Schema::new(), chance());
    let runs = rounds(20);
    let mut pair = Pair::new([schema.url.clone(), schema.url.clone()], runs);
    let mut kept = Vec::new();
    for first in (0..runs).step_by(AT_ONCE) {
        let victim = dice.below(2) as usize;
        let batch = Batch::begin(&pair, victim, first..first + AT_ONCE);
        batch.reaches(dice.below(batch.events() as u64) as usize);
        pair.kill(victim);
        pair.replace(victim);
        kept.extend(batch.ends());
    }
    verdict::everything(&pair, &kept, &|sql| schema.run(sql));
    assert!(kept.iter().any(|kept| kept.trails.iter().any(|trail| trail.moves > 0)), "somebody was cut off");
}
