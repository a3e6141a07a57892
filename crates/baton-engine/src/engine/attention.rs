//! Which of the runs that are due are tried now. Decides without I/O.
//!
//! A run that nobody here may drive is tried less and less often, and so is a definition: whatever many runs are pinned
//! to is tried with one of them. What changed is tried at once: a run that was written to, or other tools.
//!
//! A run whose process died again and again is *suspect*. One suspect at a time is driven, and each only after a
//! while, so that a process which goes down is brought down by that one, and not so often that it does nothing else.

use std::collections::HashMap;
use std::time::Duration;

use baton_core::id::{RunId, Tenant};
use baton_store::Due;
use tokio::time::Instant;

use crate::settings::Settings;

/// After so many deaths of its owners a run is suspect: until then any of those that were driven may be to blame.
const SUSPECT: u32 = 2;
/// How soon a suspect is tried; twice as late after each further death.
const SUSPECT_AFTER: Duration = Duration::from_millis(500);
/// How long a run is not tried that could not be driven lately, at most.
const LONGEST: Duration = Duration::from_secs(300);
/// The same for a definition, of whose runs one is tried.
const LONGEST_OF_DEFINITION: Duration = Duration::from_secs(30);

/// Whether a run is driven alone.
pub(crate) fn is_suspect(attempts: u32) -> bool {
    attempts >= SUSPECT
}

/// Whether a run is to be given up: it brought its process down too often while it was driven alone.
pub(crate) fn is_poison(attempts: u32, settings: &Settings) -> bool {
    attempts >= settings.most_attempts.saturating_add(SUSPECT)
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Attention {
    runs: HashMap<RunId, Case>,
    definitions: HashMap<(Tenant, String), Wait>,
    /// Which tools the waits are about.
    generation: u64,
    /// How often all that is due was looked at.
    sweep: u64,
}

#[derive(Debug)]
struct Case {
    sweep: u64,
    /// What it looked like.
    attempts: u32,
    inbox: u32,
    /// When it was first seen like that.
    since: Instant,
    /// Since when it cannot be driven here for want of something, however it looked.
    lacking: Option<Instant>,
    wait: Option<Wait>,
}

/// How long something is not tried.
#[derive(Debug, Clone, Copy)]
struct Wait {
    tries: u32,
    until: Instant,
}

impl Wait {
    fn longer(known: Option<Wait>, first: Duration, longest: Duration, now: Instant) -> Wait {
        let tries = known.map_or(0, |wait| wait.tries);
        let pause = first.saturating_mul(1 << tries.min(20)).min(longest);
        Wait { tries: tries + 1, until: now + pause }
    }
}

/// Why a run was not taken up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No run that is pinned to the same can be driven here.
    Definition,
    /// It cannot be driven.
    Run,
}

impl Attention {
    /// Which of some runs are tried now, in the order in which they are; `is_alone` is whether no suspect is driven.
    pub(super) fn choose(
        &mut self,
        due: Vec<Due>,
        is_alone: bool,
        settings: &Settings,
        now: Instant,
    ) -> Vec<Due> {
        let mut chosen: Vec<Due> = Vec::new();
        let mut probed: Vec<(Tenant, String)> = Vec::new();
        for due in due {
            if !self.may_be_tried(&due, settings, now) {
                continue;
            }
            // It may have been cancelled, which needs nothing of what is missing: then it is tried itself.
            let is_news = due.inbox > 0 && self.runs.get(&due.run).is_some_and(|case| case.wait.is_none());
            let definition = (due.tenant.clone(), due.definition.clone());
            if let Some(wait) = self.definitions.get(&definition).filter(|_| !is_news) {
                if wait.until > now || probed.contains(&definition) {
                    continue;
                }
                probed.push(definition);
            }
            chosen.push(due);
        }
        let alone = |due: &Due| is_suspect(due.attempts) && !is_poison(due.attempts, settings);
        let suspects = chosen.iter().filter(|due| alone(due));
        // Whoever was to blame least often is tried first: those who are not to blame are soon cleared.
        let next = suspects.min_by_key(|due| due.attempts).map(|due| due.run).filter(|_| is_alone);
        chosen.retain(|due| !alone(due) || Some(due.run) == next);
        chosen
    }

    fn may_be_tried(&mut self, due: &Due, settings: &Settings, now: Instant) -> bool {
        let (attempts, inbox) = (due.attempts, due.inbox);
        let fresh = Case { sweep: self.sweep, attempts, inbox, since: now, lacking: None, wait: None };
        let case = self.runs.entry(due.run).or_insert(fresh);
        case.sweep = self.sweep;
        if (case.attempts, case.inbox) != (attempts, inbox) {
            let lacking = case.lacking;
            *case = Case { sweep: self.sweep, attempts, inbox, since: now, lacking, wait: None };
        }
        now >= case.since + back_off(attempts, settings) && case.wait.is_none_or(|wait| wait.until <= now)
    }

    /// A run was not taken up; whether that is news.
    pub(super) fn refused(&mut self, due: &Due, why: Refusal, settings: &Settings, now: Instant) -> bool {
        let first = settings.adopt_every * 2;
        let Some(case) = self.runs.get_mut(&due.run) else { return true };
        let is_news = case.wait.is_none();
        let mut wait = Wait::longer(case.wait, first, LONGEST, now);
        if why == Refusal::Definition && due.is_queued {
            let hopeless_at = *case.lacking.get_or_insert(now) + settings.turn_grace;
            wait.until = wait.until.min(hopeless_at.max(now));
        }
        case.wait = Some(wait);
        if why == Refusal::Definition && !due.is_queued {
            let known = (due.tenant.clone(), due.definition.clone());
            let wait = self.definitions.get(&known).copied();
            // It is refused once a look, however many of its runs were tried then.
            if wait.is_none_or(|wait| wait.until <= now) {
                self.definitions.insert(known, Wait::longer(wait, first, LONGEST_OF_DEFINITION, now));
            }
        }
        is_news
    }

    /// Whether a run that is first in line was refused for so long that nobody else will begin it, either: whoever could
    /// would have, as its branch is free.
    pub(super) fn is_hopeless(&self, due: &Due, settings: &Settings, now: Instant) -> bool {
        let lacking = self.runs.get(&due.run).and_then(|case| case.lacking);
        due.is_queued && lacking.is_some_and(|since| now >= since + settings.turn_grace)
    }

    /// A run was taken up, so that its definition can be driven.
    pub(super) fn taken(&mut self, due: &Due) {
        self.runs.remove(&due.run);
        self.definitions.remove(&(due.tenant.clone(), due.definition.clone()));
    }

    /// All that is due was seen since the last time, with these tools.
    pub(super) fn swept(&mut self, generation: u64, now: Instant) {
        let sweep = self.sweep;
        self.runs.retain(|_, case| case.sweep == sweep);
        self.definitions.retain(|_, wait| wait.until + LONGEST_OF_DEFINITION > now);
        self.sweep += 1;
        if self.generation != generation {
            self.generation = generation;
            self.definitions.clear();
            self.runs.values_mut().for_each(|case| case.wait = None);
        }
    }
}

/// How long a run is left alone after it was seen to have lost its owner so often.
fn back_off(attempts: u32, settings: &Settings) -> Duration {
    if !is_suspect(attempts) || is_poison(attempts, settings) {
        return Duration::ZERO;
    }
    SUSPECT_AFTER.saturating_mul(1 << (attempts - SUSPECT).min(20)).min(settings.most_back_off)
}

#[cfg(test)]
mod tests;
