//! Plays operations on a store, in place of the callers that own the threads and the runs.

use std::collections::BTreeMap;

use baton_core::id::{BranchName, EntryId, OwnerId, ThreadId};
use baton_core::run::RunStatus;
use baton_core::thread::{Closing, Entry, NewEntry, Place};
use baton_store::{ForkAt, PruneRequest, Pruned, Rewound, RunHalt, Store, StoreError, Transition};
use uuid::Uuid;

use super::op::{At, Op};
use crate::pen::Pen;
use crate::values::{assistant, at, call, entry_id, file, run, tenant, untrusted, user};

/// The result of an operation.
#[derive(Debug, PartialEq)]
pub(super) enum Done {
    Nothing,
    Index(i64),
    Place(Place),
    Rewound(Rewound),
    Pruned(Pruned),
    /// There was no run to write with, or nothing to begin on.
    Skipped,
}

pub(super) struct Player {
    pub(super) store: Store,
    pub(super) thread: ThreadId,
    seed: u64,
    pens: BTreeMap<BranchName, Pen>,
}

/// The id of the `i`-th entry that an operation writes.
pub(super) fn id(seed: u64, n: usize, i: usize) -> EntryId {
    entry_id((u128::from(seed) << 64) + ((n as u128) << 16) + i as u128)
}

/// The entries of a run with untrusted content, every other time with private data as well.
pub(super) fn fetched(n: usize) -> Vec<Entry> {
    let id = format!("fetch-{n}");
    let brought = if n.is_multiple_of(2) { untrusted(&id) } else { file(&id) };
    vec![assistant("looking"), call(&id), brought]
}

/// The number of the run that an operation begins.
pub(super) fn run_number(seed: u64, n: usize) -> u128 {
    (u128::from(seed) << 64) + n as u128
}

impl Player {
    pub(super) fn new(store: Store, thread: ThreadId, seed: u64) -> Player {
        Player { store, thread, seed, pens: BTreeMap::new() }
    }

    pub(super) async fn play(&mut self, n: usize, op: &Op) -> Result<Done, StoreError> {
        let (tenant, store, thread, now) = (&tenant(), &self.store, &self.thread, at(n as u64));
        match op {
            Op::Push { on, entry } => {
                let new = NewEntry { id: id(self.seed, n, 0), at: now, entry: entry.clone() };
                store.push(tenant, thread, on.as_ref(), new).await.map(Done::Index)
            }
            Op::Fork { from, at, name } => {
                let at = match at {
                    At::Head => ForkAt::Head,
                    At::Index(index) => ForkAt::Index(*index),
                    At::EntryOf(n) => ForkAt::Entry(id(self.seed, *n, 0)),
                };
                store.fork(tenant, thread, from.as_ref(), &at, name.clone(), now).await.map(Done::Place)
            }
            Op::Checkout(name) => store.checkout(tenant, thread, name).await.map(|()| Done::Nothing),
            Op::Rewind { on, index } => {
                store.rewind(tenant, thread, on.as_ref(), *index).await.map(Done::Rewound)
            }
            Op::Delete(name) => store.delete_branch(tenant, thread, name).await.map(|()| Done::Nothing),
            Op::Prune { idle_before, keep, dry_run } => {
                let request =
                    PruneRequest { idle_before: idle_before.map(at), keep: keep.clone(), dry_run: *dry_run };
                store.prune(tenant, thread, &request).await.map(Done::Pruned)
            }
            Op::Start(name) => self.start(n, name).await,
            Op::Write(name) => self.write(n, name, vec![assistant("more")], RunHalt::Running).await,
            Op::Fetch(name) => self.write(n, name, fetched(n), RunHalt::Running).await,
            Op::End(name) => {
                self.write(n, name, vec![assistant("more")], RunHalt::Ended(RunStatus::Ok)).await
            }
        }
    }

    async fn start(&mut self, n: usize, name: &BranchName) -> Result<Done, StoreError> {
        let end = self.store.end(&tenant(), &self.thread, Some(name)).await?;
        if end.tail.finished {
            return Ok(Done::Skipped);
        }
        let mut pen = Pen {
            run: run(run_number(self.seed, n)),
            thread: self.thread.clone(),
            branch: name.clone(),
            lane: 0,
            epoch: 1,
            step: 0,
            head: end.head,
            seq: 0,
        };
        let mut entries = end.tail.closing(Closing::Cancelled, "a run begins");
        entries.push(user("go"));
        let first = self.stamped(n, pen.next(entries, vec![]));
        let new = baton_store::NewRun { at: at(n as u64), ..pen.new_run(OwnerId(Uuid::from_u128(7))) };
        pen.lane = self.store.start(&tenant(), new, first.clone()).await?;
        pen.written(&first);
        let head = pen.head;
        self.pens.insert(name.clone(), pen);
        Ok(Done::Index(head))
    }

    async fn write(
        &mut self,
        n: usize,
        name: &BranchName,
        entries: Vec<Entry>,
        rest: RunHalt,
    ) -> Result<Done, StoreError> {
        let Some(mut pen) = self.pens.remove(name) else { return Ok(Done::Skipped) };
        let next = self.stamped(n, Transition { rest, ..pen.next(entries, vec![]) });
        pen.commit(&self.store, next).await?;
        let head = pen.head;
        if rest == RunHalt::Running {
            self.pens.insert(name.clone(), pen);
        }
        Ok(Done::Index(head))
    }

    /// Gives a transition the ids and times that follow from the operation.
    fn stamped(&self, n: usize, mut transition: Transition) -> Transition {
        for (i, new) in transition.entries.iter_mut().enumerate() {
            (new.id, new.at) = (id(self.seed, n, i), at(n as u64));
        }
        transition.checkpoint.at = at(n as u64);
        transition
    }
}
