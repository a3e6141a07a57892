//! Silence of other owners, as one process measures it on its own clock.
//!
//! An owner raises its beat, a number in its row, three times per lease. No clock is compared with a moment that
//! another process wrote: an owner is silent for as long as this process has found its beat unchanged. Time counts only
//! while this process could renew its own lease, and at most half a lease of it between two renewals: while the
//! database is away, no beat can be observed, and after a sleep every owner has time to be observed again.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use uuid::Uuid;

/// After this many leases of silence an owner counts as dead.
pub(super) const GONE: u32 = 10;

/// The observed beats; see the module.
#[derive(Debug)]
pub(super) struct Beats {
    lease: Duration,
    heard: HashMap<Uuid, Heard>,
}

#[derive(Debug)]
struct Heard {
    beat: i64,
    /// The moment up to which its silence is counted.
    at: Instant,
    silent: Duration,
}

impl Beats {
    pub(super) fn new(lease: Duration) -> Beats {
        Beats { lease, heard: HashMap::new() }
    }

    /// Notes an owner's beat; returns whether it has been silent for a lease.
    pub(super) fn is_silent(&mut self, owner: Uuid, beat: i64, now: Instant) -> bool {
        let known = self.heard.get(&owner).filter(|heard| heard.beat == beat);
        match known {
            Some(heard) => heard.silent >= self.lease,
            None => {
                self.heard.insert(owner, Heard { beat, at: now, silent: Duration::ZERO });
                false
            }
        }
    }

    /// Notes the beats of all owners, after this process requested its own lease at `renewed` and got it. Returns the
    /// owners that were silent for so long that they are gone, with their last beats.
    pub(super) fn round(&mut self, all: &[(Uuid, i64)], renewed: Instant, now: Instant) -> Vec<(Uuid, i64)> {
        self.heard.retain(|owner, _| all.iter().any(|(known, _)| known == owner));
        let mut gone = Vec::new();
        for (owner, beat) in all {
            self.is_silent(*owner, *beat, now);
            let Some(heard) = self.heard.get_mut(owner) else { continue };
            let passed = renewed.saturating_duration_since(heard.at);
            heard.silent += passed.min(self.lease / 2);
            heard.at = heard.at.max(renewed);
            if heard.silent >= self.lease * GONE {
                gone.push((*owner, *beat));
            }
        }
        gone
    }

    /// Simulates that this much time has passed without a change of any beat. For tests.
    #[cfg(feature = "failpoints")]
    pub(super) fn unheard(&mut self, leases: u32) {
        for heard in self.heard.values_mut() {
            heard.silent += self.lease * leases;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);
    const ONE: Uuid = Uuid::from_u128(1);
    const TWO: Uuid = Uuid::from_u128(2);

    /// A process that renews its lease at some seconds, and the beats that it observes then.
    struct Seen {
        start: Instant,
        beats: Beats,
    }

    impl Seen {
        fn new() -> Seen {
            Seen { start: Instant::now(), beats: Beats::new(LEASE) }
        }

        fn at(&self, seconds: u64) -> Instant {
            self.start + Duration::from_secs(seconds)
        }

        fn round(&mut self, seconds: u64, all: &[(Uuid, i64)]) -> Vec<(Uuid, i64)> {
            let at = self.at(seconds);
            self.beats.round(all, at, at)
        }

        fn is_silent(&mut self, seconds: u64, owner: Uuid, beat: i64) -> bool {
            let at = self.at(seconds);
            self.beats.is_silent(owner, beat, at)
        }
    }

    #[test]
    fn an_owner_is_silent_after_a_lease_without_another_beat_and_gone_after_ten() {
        let mut seen = Seen::new();
        for seconds in (0..=10).step_by(5) {
            assert_eq!(seen.round(seconds, &[(ONE, 7), (TWO, seconds as i64)]), []);
            assert!(!seen.is_silent(seconds, ONE, 7), "{seconds}");
        }
        for seconds in (15..150).step_by(5) {
            assert_eq!(seen.round(seconds, &[(ONE, 7), (TWO, seconds as i64)]), []);
            assert!(seen.is_silent(seconds, ONE, 7), "{seconds}");
            assert!(!seen.is_silent(seconds, TWO, seconds as i64), "{seconds}");
        }
        assert_eq!(seen.round(150, &[(ONE, 7), (TWO, 150)]), [(ONE, 7)]);
        assert!(!seen.is_silent(151, ONE, 8), "it is heard of again");
        assert_eq!(seen.round(155, &[(ONE, 8), (TWO, 155)]), []);
    }

    #[test]
    fn what_passes_while_nobody_could_look_hardly_counts() {
        let mut seen = Seen::new();
        seen.round(0, &[(ONE, 7)]);
        assert_eq!(
            seen.round(3600, &[(ONE, 7)]),
            [],
            "a database that was away, or a process that was stopped"
        );
        assert!(!seen.is_silent(3601, ONE, 7));
        assert_eq!(seen.round(3605, &[(ONE, 7)]), []);
        assert!(!seen.is_silent(3605, ONE, 7), "half a lease and five seconds");
        seen.round(3610, &[(ONE, 7)]);
        assert!(seen.is_silent(3610, ONE, 7));
    }

    #[test]
    fn whoever_cannot_renew_its_own_lease_takes_nobody_for_dead() {
        let mut seen = Seen::new();
        seen.round(0, &[(ONE, 7)]);
        for seconds in 0..1000 {
            assert!(!seen.is_silent(seconds, ONE, 7), "it only looks");
        }
        let renewed = seen.at(5);
        assert_eq!(seen.beats.round(&[(ONE, 7)], renewed, seen.at(1000)), []);
        assert!(!seen.is_silent(1000, ONE, 7), "up to its own renewal, which took long");
    }

    #[test]
    fn time_counts_from_the_first_look_on() {
        let mut seen = Seen::new();
        seen.round(0, &[]);
        assert!(!seen.is_silent(4, ONE, 7));
        for seconds in [5, 10, 15] {
            seen.round(seconds, &[(ONE, 7)]);
            assert!(!seen.is_silent(seconds, ONE, 7), "{seconds}");
        }
        seen.round(20, &[(ONE, 7)]);
        assert!(seen.is_silent(20, ONE, 7));
    }

    #[test]
    fn owners_that_have_no_row_are_forgotten() {
        let mut seen = Seen::new();
        seen.round(0, &[(ONE, 7), (TWO, 1)]);
        seen.round(5, &[(TWO, 1)]);
        let known: Vec<&Uuid> = seen.beats.heard.keys().collect();
        assert_eq!(known, [&TWO]);
    }
}
