//! Two processes on one PostgreSQL, and everything that can happen to them: kills, stops, a database that restarts,
//! a network that is cut, silent or slow, and answers that are lost.
//!
//! In every case: events that a reader saw under a number are in the log, logs have no gaps, a process that lost a run
//! adds nothing to it, no effect happens twice, a reader goes on at the other process without gap or repeat, and every
//! run ends.

mod batch;
mod clocks;
#[allow(dead_code, reason = "shared with others, who use all of it")]
#[path = "../../../../baton-engine/tests/it/combinations/dice.rs"]
mod dice;
mod dropped;
mod kills;
mod network;
mod pair;
mod play;
mod points;
mod poisoned;
mod proxy;
mod reader;
mod restarts;
mod standby;
mod stops;
mod takeover;
mod verdict;
mod watching;

use std::hash::{BuildHasher, Hasher, RandomState};

use dice::Dice;

/// How many rounds: a few, or with `BATON_FULL=1` ten times as many.
fn rounds(small: usize) -> usize {
    if std::env::var_os("BATON_FULL").is_some_and(|value| value == "1") { small * 10 } else { small }
}

/// Random choices with a printed seed, so that a failure can be repeated with `BATON_SEED`.
#[allow(clippy::print_stderr, reason = "shown when the test fails")]
fn chance() -> Dice {
    let given = std::env::var("BATON_SEED").ok().map(|seed| seed.parse().expect("BATON_SEED is a number"));
    let seed = given.unwrap_or_else(|| RandomState::new().build_hasher().finish());
    eprintln!("BATON_SEED={seed}");
    Dice::new(seed, 5)
}
