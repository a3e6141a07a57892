//! A network between Baton and PostgreSQL that is cut, silent, slow, or loses the answer to a commit.

use super::batch::{Batch, Kept};
use super::dice::Dice;
use super::pair::{Pair, put_apart};
use super::proxy::{Proxy, Weather};
use super::{chance, rounds, verdict};
use crate::postgres_server::Schema;

/// Runs at once.
const AT_ONCE: usize = 10;

/// Two processes, each behind a network of its own.
struct Wired {
    schema: Schema,
    proxies: [Proxy; 2],
    pair: Pair,
    dice: Dice,
    runs: usize,
}

impl Wired {
    fn new(runs: usize) -> Wired {
        let (schema, mut dice) = (Schema::new(), chance());
        let proxies = [0, 1].map(|_| Proxy::new(&schema.url, dice.below(u64::MAX)));
        let urls = [0, 1].map(|which: usize| proxies[which].url.clone());
        let pair = Pair::new(urls, runs);
        put_apart(&schema); // on one machine a process that is cut off keeps its runs
        Wired { schema, proxies, pair, dice, runs }
    }

    /// Makes all runs, a few at a time; `disturb` disturbs each batch until all of its readers are done.
    fn run(mut self, mut disturb: impl FnMut(&mut Wired, &Batch, usize)) {
        let mut kept: Vec<Kept> = Vec::new();
        for first in (0..self.runs).step_by(AT_ONCE) {
            let at = self.dice.below(2) as usize;
            let batch = Batch::begin(&self.pair, at, first..self.runs.min(first + AT_ONCE));
            disturb(&mut self, &batch, at);
            kept.extend(batch.ends());
            self.proxies.iter().for_each(Proxy::heal);
            (0..2).for_each(|which| self.pair.until_idle(which));
        }
        self.everywhere(Weather::Fine);
        self.proxies.iter().for_each(Proxy::cut); // also those that would break at their next use
        verdict::everything(&self.pair, &kept, &|sql| self.schema.run(sql));
    }

    fn everywhere(&self, weather: Weather) {
        self.proxies.iter().for_each(|proxy| proxy.weather(weather));
    }
}

#[test]
fn connections_that_are_cut_lose_nothing() {
    Wired::new(rounds(20)).run(|wired, batch, _| {
        let mut next = 1;
        while batch.reaches(next) {
            wired.proxies[wired.dice.below(2) as usize].cut();
            next = batch.progress.seen() + 1 + wired.dice.below(batch.events() as u64 / 20) as usize;
        }
    });
}

#[test]
fn questions_that_are_cut_off_before_their_answer_are_asked_again_with_care() {
    let wired = Wired::new(rounds(20));
    wired.everywhere(Weather::Hasty { percent: 5 });
    wired.run(|_, _, _| {});
}

#[test]
fn commits_whose_answer_is_lost_are_not_repeated() {
    let wired = Wired::new(rounds(20));
    wired.everywhere(Weather::Swallows { percent: 20 });
    wired.run(|_, _, _| {});
}

#[test]
fn a_slow_network_only_takes_longer() {
    let wired = Wired::new(rounds(20));
    wired.everywhere(Weather::Slow { most_ms: 40 });
    wired.run(|_, _, _| {});
}

#[test]
fn a_process_that_the_database_hears_nothing_of_loses_its_runs_and_adds_nothing() {
    Wired::new(rounds(20)).run(|wired, batch, at| {
        batch.reaches(wired.dice.below(batch.events() as u64 / 2) as usize);
        wired.proxies[at].go_dark();
        // The other process has them when their readers go on; writes that were under way then arrive too late.
        batch.reaches(usize::MAX);
    });
}

/// The network forgets the connections of both processes, and new ones are fine: neither process counts as dead.
#[test]
fn connections_that_went_silent_are_given_up() {
    Wired::new(AT_ONCE).run(|wired, batch, _| {
        batch.reaches(wired.dice.below(batch.events() as u64 / 2) as usize);
        wired.proxies.iter().for_each(Proxy::forget_connections);
    });
}
