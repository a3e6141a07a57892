//! Which of the due runs are tried now. Decides without I/O.
//!
//! A run that cannot be driven here is tried less and less often, and so is a definition: of many runs that are pinned
//! to the same definition, one is tried. After a change the next try is at once: a message to the run, or other tools.
//!
//! A run whose process died repeatedly is *suspect*. Suspects are driven one at a time, each only after a while, so
//! that a crash of the process can be blamed on that one, and the process does not crash so often that it does nothing
//! else.

use std::collections::HashMap;
use std::time::Duration;

use baton_core::id::{RunId, Tenant};
use baton_store::Due;
use tokio::time::Instant;

use crate::settings::Settings;

/// A run is suspect after this many deaths of its owners: until then any of the runs driven then may be to blame.
const SUSPECT: u32 = 2;
/// The delay before a suspect is tried; doubled with each further death.
const SUSPECT_AFTER: Duration = Duration::from_millis(500);
/// The longest pause for a run that could not be driven lately.
const LONGEST: Duration = Duration::from_secs(300);
/// The longest pause for a definition, of whose runs one is tried.
const LONGEST_OF_DEFINITION: Duration = Duration::from_secs(30);

/// Whether a run is driven alone.
pub(crate) fn is_suspect(attempts: u32) -> bool {
    attempts >= SUSPECT
}

/// Whether a run is given up: it brought its process down too often while it was driven alone.
pub(crate) fn is_poison(attempts: u32, settings: &Settings) -> bool {
    attempts >= settings.most_attempts.saturating_add(SUSPECT)
}

/// The state of the choice: runs and definitions that wait for their next try. See the module.
#[derive(Debug, Default)]
pub(super) struct Attention {
    runs: HashMap<RunId, Case>,
    definitions: HashMap<(Tenant, String), Wait>,
    /// The generation of the tools that the waits refer to.
    generation: u64,
    /// How often all due runs were read.
    sweep: u64,
}

#[derive(Debug)]
struct Case {
    sweep: u64,
    /// Its attempts and messages when it was last seen.
    attempts: u32,
    inbox: u32,
    /// When it was first seen with these.
    since: Instant,
    /// Since when it cannot be driven here because something is missing, in spite of new attempts or messages.
    lacking: Option<Instant>,
    wait: Option<Wait>,
}

/// How long a run or definition is not tried.
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

/// Why a run was not adopted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The definition: no run that is pinned to it can be driven here.
    Definition,
    /// The run itself cannot be driven.
    Run,
}

impl Attention {
    /// Chooses the runs that are tried now, in the given order; `is_alone` is whether no suspect is driven.
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
            // It may have been cancelled, and ending it needs none of the missing tools: then it is tried itself.
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
        // The suspect with the fewest attempts is tried first: a run that is not to blame is soon cleared.
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

    /// Notes that a run was refused; answers whether that is news.
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
            // A definition counts as refused once per look, however many of its runs were tried in it.
            if wait.is_none_or(|wait| wait.until <= now) {
                self.definitions.insert(known, Wait::longer(wait, first, LONGEST_OF_DEFINITION, now));
            }
        }
        is_news
    }

    /// Whether a queued run that is first in line was refused for so long that no process will begin it: one that could
    /// would have done so, as its branch is free.
    pub(super) fn is_hopeless(&self, due: &Due, settings: &Settings, now: Instant) -> bool {
        let lacking = self.runs.get(&due.run).and_then(|case| case.lacking);
        due.is_queued && lacking.is_some_and(|since| now >= since + settings.turn_grace)
    }

    /// Notes that a run was adopted, so that its definition can be driven.
    pub(super) fn taken(&mut self, due: &Due) {
        self.runs.remove(&due.run);
        self.definitions.remove(&(due.tenant.clone(), due.definition.clone()));
    }

    /// Notes that all due runs were read since the last time, with these tools.
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

/// How long a run is left alone after its owners died so often.
fn back_off(attempts: u32, settings: &Settings) -> Duration {
    if !is_suspect(attempts) || is_poison(attempts, settings) {
        return Duration::ZERO;
    }
    SUSPECT_AFTER.saturating_mul(1 << (attempts - SUSPECT).min(20)).min(settings.most_back_off)
}

#[cfg(test)]
mod tests;
