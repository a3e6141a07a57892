//! The database's clock is set forward under two processes that drive runs: all leases have expired by it, at once.

use super::batch::Batch;
use super::pair::{Pair, put_apart};
use super::{chance, rounds, verdict};
use crate::postgres_server::Schema;

/// Runs that a process drives at once.
const AT_ONCE: usize = 5;

#[test]
fn a_step_of_the_databases_clock_costs_nobody_a_run() {
    for apart in [false, true] {
        let (schema, mut dice) = (Schema::new(), chance());
        let runs = rounds(10);
        let pair = Pair::new([schema.url.clone(), schema.url.clone()], runs);
        if apart {
            put_apart(&schema);
        }
        let mut kept = Vec::new();
        for first in (0..runs).step_by(2 * AT_ONCE) {
            let middle = first + AT_ONCE;
            let batches =
                [Batch::begin(&pair, 0, first..middle), Batch::begin(&pair, 1, middle..middle + AT_ONCE)];
            let mut next = 1;
            while batches[0].reaches(next) {
                // As if the clock were an hour ahead, whichever process renews its lease meanwhile.
                schema.run("UPDATE owners SET expires_at = clock_timestamp() - interval '1 hour'");
                next = batches[0].progress.seen() + 1 + dice.below(5) as usize;
            }
            kept.extend(batches.into_iter().flat_map(Batch::ends));
        }
        assert_eq!(schema.run("SELECT count(*) FROM claims"), "0", "nobody took a run, apart: {apart}");
        verdict::everything(&pair, &kept, &|sql| schema.run(sql));
    }
}
