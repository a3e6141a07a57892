//! The naive model: a branch is a list of its own, copied whole on every fork. No lanes, no pointers.

use std::collections::{BTreeMap, BTreeSet};

use baton_core::id::{BranchName, EntryId};
use baton_core::thread::{Closing, Entry, Tail, TreeError};
use baton_store::StoreError;

use super::op::{At, Op};
use super::play::{Done, fetched, id, run_number};
use crate::home::Lines;
use crate::values::{assistant, branch, user};

/// The result of an operation, as far as it does not depend on lanes.
pub(super) type Seen = Result<Told, &'static str>;

#[derive(Debug, PartialEq)]
pub(super) enum Told {
    Nothing,
    Skipped,
    Index(i64),
    Rewound { previous_head: i64, previous_entry: Option<EntryId> },
    Pruned { branches: Vec<BranchName>, entries: u64 },
}

/// The result of a store, in the terms of the model.
pub(super) fn seen(outcome: &Result<Done, StoreError>) -> Seen {
    match outcome {
        Ok(Done::Nothing) => Ok(Told::Nothing),
        Ok(Done::Skipped) => Ok(Told::Skipped),
        Ok(Done::Index(index)) => Ok(Told::Index(*index)),
        Ok(Done::Place(place)) => Ok(Told::Index(place.index)),
        Ok(Done::Rewound(rewound)) => {
            Ok(Told::Rewound { previous_head: rewound.previous_head, previous_entry: rewound.previous_entry })
        }
        Ok(Done::Pruned(pruned)) => {
            Ok(Told::Pruned { branches: pruned.branches.clone(), entries: pruned.entries })
        }
        Err(StoreError::Tree(TreeError::NoBranch(_))) => Err("no branch"),
        Err(StoreError::Tree(TreeError::BranchExists(_))) => Err("branch exists"),
        Err(StoreError::Tree(TreeError::NoIndex { .. })) => Err("no index"),
        Err(StoreError::Tree(TreeError::Kept(..))) => Err("kept"),
        Err(StoreError::NotFound { what: "entry", .. }) => Err("no entry"),
        Err(StoreError::Busy { .. }) => Err("busy"),
        Err(StoreError::Order(_)) => Err("order"),
        Err(other) => panic!("{other}"),
    }
}

/// A branch as seen from outside: name, origin, whether a run is on it, entries, its tail, and the places where
/// untrusted content and private data begin.
pub(super) type Shape =
    (BranchName, Option<(BranchName, i64)>, Option<u128>, Vec<EntryId>, Tail, [Option<i64>; 2]);

pub(super) fn shape((view, lines): &Lines) -> (BranchName, Vec<Shape>) {
    let branches = view.branches.iter().zip(lines).map(|(branch, (name, end, entries))| {
        assert_eq!(branch.head.index, entries.len() as i64 - 1);
        assert!(entries.iter().map(|placed| placed.index).eq(0..entries.len() as i64));
        let ids = entries.iter().map(|placed| placed.id).collect();
        let run = branch.run.map(|run| run.0.as_u128());
        (name.clone(), branch.forked_from.clone(), run, ids, end.tail.clone(), [end.untrusted, end.private])
    });
    (view.current.clone(), branches.collect())
}

#[derive(Debug, Clone)]
struct Line {
    ids: Vec<EntryId>,
    origin: Option<(BranchName, i64)>,
    touched: u64,
    run: Option<u128>,
}

pub(super) struct Model {
    seed: u64,
    current: BranchName,
    lines: BTreeMap<BranchName, Line>,
    /// Every entry that was not pruned, with all entries before it.
    paths: BTreeMap<EntryId, Vec<EntryId>>,
    entries: BTreeMap<EntryId, Entry>,
}

impl Model {
    pub(super) fn new(seed: u64) -> Model {
        let main = branch("main");
        let line = Line { ids: Vec::new(), origin: None, touched: 0, run: None };
        Model {
            seed,
            current: main.clone(),
            lines: [(main, line)].into(),
            paths: BTreeMap::new(),
            entries: BTreeMap::new(),
        }
    }

    pub(super) fn shape(&self) -> (BranchName, Vec<Shape>) {
        let branches = self.lines.iter().map(|(name, line)| {
            let ids = line.ids.clone();
            let first = |marked: fn(&Entry) -> bool| {
                ids.iter().position(|id| marked(&self.entries[id])).map(|index| index as i64)
            };
            let (tail, marked) = (self.tail(&ids), [first(Entry::is_untrusted), first(Entry::is_private)]);
            (name.clone(), line.origin.clone(), line.run, ids, tail, marked)
        });
        (self.current.clone(), branches.collect())
    }

    pub(super) fn play(&mut self, n: usize, op: &Op) -> Seen {
        match op {
            Op::Push { on, entry } => self.push(n, on.as_ref(), entry),
            Op::Fork { from, at, name } => self.fork(n, from.as_ref(), *at, name),
            Op::Checkout(name) => {
                self.line(name)?;
                self.current = name.clone();
                Ok(Told::Nothing)
            }
            Op::Rewind { on, index } => self.rewind(on.as_ref(), *index),
            Op::Delete(name) => {
                self.idle(name)?;
                self.line(name)?;
                if *name == branch("main") || *name == self.current {
                    return Err("kept");
                }
                self.lines.remove(name);
                Ok(Told::Nothing)
            }
            Op::Prune { idle_before, keep, dry_run } => Ok(self.prune(*idle_before, keep, *dry_run)),
            Op::Start(name) => self.start(n, name),
            Op::Write(name) => Ok(self.write(n, name, vec![assistant("more")], false)),
            Op::Fetch(name) => Ok(self.write(n, name, fetched(n), false)),
            Op::End(name) => Ok(self.write(n, name, vec![assistant("more")], true)),
        }
    }

    fn line(&self, name: &BranchName) -> Result<&Line, &'static str> {
        self.lines.get(name).ok_or("no branch")
    }

    fn idle(&self, name: &BranchName) -> Result<(), &'static str> {
        let busy = self.lines.get(name).is_some_and(|line| line.run.is_some());
        if busy { Err("busy") } else { Ok(()) }
    }

    fn tail(&self, ids: &[EntryId]) -> Tail {
        Tail::of(ids.iter().map(|id| &self.entries[id]))
    }

    fn append(&mut self, name: &BranchName, id: EntryId, entry: Entry) -> i64 {
        let line = self.lines.get_mut(name).unwrap();
        line.ids.push(id);
        self.paths.insert(id, line.ids.clone());
        self.entries.insert(id, entry);
        line.ids.len() as i64 - 1
    }

    fn push(&mut self, n: usize, on: Option<&BranchName>, entry: &Entry) -> Seen {
        let name = on.unwrap_or(&self.current).clone();
        self.idle(&name)?;
        let ids = &self.line(&name)?.ids;
        self.tail(ids).append(entry).map_err(|_| "order")?;
        let same = |other: &Entry| match (entry, other) {
            (Entry::ToolCall(one), Entry::ToolCall(other)) => one.id == other.id,
            _ => false,
        };
        if ids.iter().any(|id| same(&self.entries[id])) {
            return Err("order");
        }
        self.lines.get_mut(&name).unwrap().touched = n as u64;
        Ok(Told::Index(self.append(&name, id(self.seed, n, 0), entry.clone())))
    }

    fn fork(&mut self, n: usize, from: Option<&BranchName>, at: At, name: &BranchName) -> Seen {
        let from = from.unwrap_or(&self.current).clone();
        let ids = &self.line(&from)?.ids;
        let ids = match at {
            At::Head => ids.clone(),
            At::Index(index) => {
                let length = usize::try_from(index + 1).map_err(|_| "no index")?;
                ids.get(..length).ok_or("no index")?.to_vec()
            }
            At::EntryOf(n) => self.paths.get(&id(self.seed, n, 0)).ok_or("no entry")?.clone(),
        };
        if self.lines.contains_key(name) {
            return Err("branch exists");
        }
        let head = ids.len() as i64 - 1;
        let line = Line { ids, origin: Some((from, head)), touched: n as u64, run: None };
        self.lines.insert(name.clone(), line);
        Ok(Told::Index(head))
    }

    fn rewind(&mut self, on: Option<&BranchName>, index: i64) -> Seen {
        let name = on.unwrap_or(&self.current).clone();
        self.idle(&name)?;
        let ids = &self.line(&name)?.ids;
        let length = usize::try_from(index + 1).map_err(|_| "no index")?;
        if length > ids.len() {
            return Err("no index");
        }
        let told = Told::Rewound { previous_head: ids.len() as i64 - 1, previous_entry: ids.last().copied() };
        self.lines.get_mut(&name).unwrap().ids.truncate(length);
        Ok(told)
    }

    fn prune(&mut self, idle_before: Option<u64>, keep: &[BranchName], dry_run: bool) -> Told {
        let goes = |(name, line): &(&BranchName, &Line)| {
            idle_before.is_some_and(|before| line.touched < before)
                && line.run.is_none()
                && **name != branch("main")
                && **name != self.current
                && !keep.contains(name)
        };
        let branches: Vec<BranchName> =
            self.lines.iter().filter(goes).map(|(name, _)| name.clone()).collect();
        let stays = self.lines.iter().filter(|(name, _)| !branches.contains(name));
        let reached: BTreeSet<EntryId> = stays.flat_map(|(_, line)| line.ids.iter().copied()).collect();
        let entries = self.paths.keys().filter(|id| !reached.contains(id)).count() as u64;
        if !dry_run {
            self.lines.retain(|name, _| !branches.contains(name));
            self.paths.retain(|id, _| reached.contains(id));
        }
        Told::Pruned { branches, entries }
    }

    fn start(&mut self, n: usize, name: &BranchName) -> Seen {
        let tail = self.tail(&self.line(name)?.ids);
        if tail.finished {
            return Ok(Told::Skipped);
        }
        self.idle(name)?;
        let closing = tail.closing(Closing::Cancelled, "a run begins");
        let mut head = -1;
        for (i, entry) in closing.into_iter().chain([user("go")]).enumerate() {
            head = self.append(name, id(self.seed, n, i), entry);
        }
        let line = self.lines.get_mut(name).unwrap();
        (line.run, line.touched) = (Some(run_number(self.seed, n)), n as u64);
        Ok(Told::Index(head))
    }

    fn write(&mut self, n: usize, name: &BranchName, entries: Vec<Entry>, ends: bool) -> Told {
        if self.lines.get(name).is_none_or(|line| line.run.is_none()) {
            return Told::Skipped;
        }
        let mut head = -1;
        for (i, entry) in entries.into_iter().enumerate() {
            head = self.append(name, id(self.seed, n, i), entry);
        }
        if ends {
            let line = self.lines.get_mut(name).unwrap();
            (line.run, line.touched) = (None, n as u64);
        }
        Told::Index(head)
    }
}
