//! SIGSTOP of the process that drives, for longer than its lease; then it goes on.

use std::fs::File;

use rustix::process::Signal;

use super::super::served::until;
use super::batch::Batch;
use super::pair::{Pair, put_apart};
use super::{chance, rounds, verdict};
use crate::postgres_server::Schema;

/// The number of runs for one stop.
const AT_ONCE: usize = 10;

/// Stops a process, but not while it has the file of effects locked: the others could not write to it.
fn stop(pair: &Pair, which: usize) {
    let options = File::options().append(true).create(true).clone();
    let ledger = options.open(pair.ledger()).unwrap();
    loop {
        pair.homes[which].stop();
        if ledger.try_lock().is_ok() {
            return ledger.unlock().unwrap();
        }
        pair.homes[which].signal(Signal::CONT);
    }
}

#[test]
fn a_process_that_was_stopped_past_its_lease_adds_nothing() {
    let (schema, mut dice) = (Schema::new(), chance());
    let runs = rounds(20);
    let pair = Pair::new([schema.url.clone(), schema.url.clone()], runs);
    put_apart(&schema); // on one machine a stopped process keeps its runs
    let mut kept = Vec::new();
    for first in (0..runs).step_by(AT_ONCE) {
        let victim = dice.below(2) as usize;
        let claims = || schema.run("SELECT count(*) FROM claims").parse::<usize>().unwrap();
        let before = claims();
        let batch = Batch::begin(&pair, victim, first..first + AT_ONCE);
        // In the first half of its work, so that something is left to take.
        batch.reaches(dice.below(batch.events() as u64 / 2) as usize);
        stop(&pair, victim);
        until("the other process takes a run", || claims() > before);
        let while_others_work = dice.chance(50);
        if while_others_work {
            pair.homes[victim].signal(Signal::CONT);
        }
        kept.extend(batch.ends());
        pair.homes[victim].signal(Signal::CONT);
        pair.until_idle(victim);
    }
    verdict::everything(&pair, &kept, &|sql| schema.run(sql));
}
