//! Plans the statements for the queued writes.
//!
//! Writes of a kind go into one statement: transitions, and runs that begin. All other writes go alone, and after these,
//! in a transaction of their own: so each transaction takes the rows of runs in one order, and no two wait for each
//! other.

use std::collections::HashSet;

use uuid::Uuid;

use super::super::pack::PackedStart;
use super::super::statement::Form;
use super::super::{Param, several};
use super::work::StatementValues;
use super::{Done, QueuedWrite, Work};

/// The approximate size of one statement's values.
const MOST_BYTES: usize = 8 << 20;

/// The way in which members are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchStage {
    /// As few statements as possible.
    Alike,
    /// Each by its own statement.
    Alone,
}

/// Members in the order in which they are written, each stage sorted by run. A run has one place in the first.
pub(super) fn stages(mut members: Vec<QueuedWrite>) -> impl Iterator<Item = (BatchStage, Vec<QueuedWrite>)> {
    members.sort_by_key(|member| member.work.run());
    let (mut runs, mut bytes) = (HashSet::new(), 0);
    let (alike, alone): (Vec<_>, Vec<_>) = members.into_iter().partition(|member| {
        bytes += member.work.bytes();
        bytes <= MOST_BYTES && member.work.goes_with_others() && runs.insert(member.work.run())
    });
    [(BatchStage::Alike, alike), (BatchStage::Alone, alone)]
        .into_iter()
        .filter(|(_, members)| !members.is_empty())
}

/// A statement, and the members that it writes.
pub(super) struct Planned<'a> {
    pub(super) form: Form,
    pub(super) values: StatementValues<'a>,
    /// The positions of its members, in the order of the statement's lists.
    members: Vec<usize>,
}

/// The statements of a stage.
pub(super) fn plan(stage: BatchStage, members: &[QueuedWrite]) -> Vec<Planned<'_>> {
    let (mut advances, mut begins, mut alone) = (Vec::new(), Vec::<(usize, &PackedStart)>::new(), Vec::new());
    let mut threads = HashSet::new();
    for (place, member) in members.iter().enumerate() {
        match &member.work {
            Work::Advance(packed) if stage == BatchStage::Alike => advances.push((place, &**packed)),
            Work::Begin(run)
                if several::may_begin_with(begins.first().map_or(run, |(_, first)| first), run)
                    && threads.insert(&run.first.thread) =>
            {
                begins.push((place, run));
            }
            _ => alone.push(place),
        }
    }
    let mut planned = Vec::new();
    if begins.len() > 1 {
        begins.sort_by(|(_, a), (_, b)| a.first.thread.cmp(&b.first.thread)); // others may lock these threads
        let (places, runs): (Vec<_>, Vec<_>) = begins.into_iter().unzip();
        planned.push(Planned::several(several::begins(&runs), places));
    } else {
        alone.extend(begins.into_iter().map(|(place, _)| place));
    }
    if advances.len() > 1 {
        let (places, runs): (Vec<_>, Vec<_>) = advances.into_iter().unzip();
        planned.push(Planned::several(several::advances(&runs), places));
    } else {
        alone.extend(advances.into_iter().map(|(place, _)| place));
    }
    alone.sort_unstable();
    planned.extend(alone.into_iter().map(|place| Planned::new(members[place].work.statement(), vec![place])));
    planned
}

impl<'a> Planned<'a> {
    fn several((form, values): (Form, Vec<Param<'a>>), members: Vec<usize>) -> Planned<'a> {
        Planned { form, values: StatementValues::Own(values), members }
    }

    fn new((form, values): (Form, StatementValues<'a>), members: Vec<usize>) -> Planned<'a> {
        Planned { form, values, members }
    }

    /// The member that it writes, if it writes only one.
    pub(super) fn only(&self) -> Option<usize> {
        match self.members[..] {
            [place] => Some(place),
            _ => None,
        }
    }

    /// The result of each of its members, by position.
    pub(super) fn done(&self, done: Done, members: &[QueuedWrite]) -> Vec<(usize, Done)> {
        if let Some(place) = self.only() {
            return vec![(place, done)];
        }
        let written: HashSet<Uuid> = done.rows.iter().filter_map(|row| row.try_get(0).ok()).collect();
        let changed = |place: &usize| u64::from(written.contains(&members[*place].work.run()));
        self.members
            .iter()
            .map(|place| (*place, Done { changed: changed(place), rows: Vec::new() }))
            .collect()
    }
}
