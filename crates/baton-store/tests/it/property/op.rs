//! Operations, and sequences of them that follow from a seed.

use baton_core::id::BranchName;
use baton_core::thread::Entry;

use crate::values::{assistant, branch, call, entry, file, private, result, untrusted, user};

const LENGTH: usize = 30;
const NAMES: [&str; 5] = ["main", "a", "b", "c", "d"];

/// An operation on a thread. A missing branch means the current one.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Push {
        on: Option<BranchName>,
        entry: Entry,
    },
    Fork {
        from: Option<BranchName>,
        at: At,
        name: BranchName,
    },
    Checkout(BranchName),
    Rewind {
        on: Option<BranchName>,
        index: i64,
    },
    Delete(BranchName),
    Prune {
        idle_before: Option<u64>,
        keep: Vec<BranchName>,
        dry_run: bool,
    },
    /// A run begins on a branch, writes to it, appends untrusted content, and ends.
    Start(BranchName),
    Write(BranchName),
    Fetch(BranchName),
    End(BranchName),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum At {
    Head,
    Index(i64),
    /// An entry that this earlier operation may have written.
    EntryOf(usize),
}

/// SplitMix64: a good enough die, the same on every machine. It also keeps a rough idea of the existing objects, so
/// that most operations find something to do; missing ones are requested now and then.
struct Die {
    state: u64,
    there: Vec<&'static str>,
    busy: Vec<BranchName>,
    writing: Vec<usize>,
}

impl Die {
    fn roll(&mut self, sides: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % sides as u64) as usize
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.roll(all.len())].clone()
    }

    fn name(&mut self) -> BranchName {
        let there = self.there.clone();
        branch(if self.roll(10) == 0 { self.one_of(&NAMES) } else { self.one_of(&there) })
    }

    fn new_name(&mut self) -> BranchName {
        let free: Vec<_> = NAMES.into_iter().filter(|name| !self.there.contains(name)).collect();
        if free.is_empty() || self.roll(10) == 0 {
            return self.name();
        }
        let name = self.one_of(&free);
        self.there.push(name);
        branch(name)
    }

    fn name_or_current(&mut self) -> Option<BranchName> {
        (self.roll(3) > 0).then(|| self.name())
    }

    fn at(&mut self, n: usize) -> At {
        match self.roll(3) {
            0 => At::Head,
            1 => At::Index(self.index()),
            _ if self.writing.is_empty() => At::EntryOf(n),
            _ => At::EntryOf(self.one_of(&self.writing.clone())),
        }
    }

    fn index(&mut self) -> i64 {
        self.roll(6) as i64 - 1 - (self.roll(20) == 0) as i64
    }

    fn entry(&mut self) -> Entry {
        let id = format!("call-{}", self.roll(3));
        match self.roll(40) {
            0..=13 => user("said"),
            14..=23 => assistant("answered"),
            24..=29 => call(&id),
            30..=32 => result(&id),
            33..=34 => untrusted(&id),
            35 => private(&id),
            36 => file(&id),
            37..=38 => entry("note", serde_json::json!({"long": "x".repeat(self.roll(2) * 3000)})),
            _ => Entry::Finished,
        }
    }

    fn op(&mut self, n: usize) -> Op {
        match self.roll(40) {
            0..=14 => {
                self.writing.push(n);
                Op::Push { on: self.name_or_current(), entry: self.entry() }
            }
            15..=20 => Op::Fork { from: self.name_or_current(), at: self.at(n), name: self.new_name() },
            21..=22 => Op::Checkout(self.name()),
            23..=26 => Op::Rewind { on: self.name_or_current(), index: self.index() },
            27..=28 => {
                let name = self.name();
                self.there.retain(|there| *there == "main" || *there != name.as_str());
                Op::Delete(name)
            }
            29..=31 => Op::Prune {
                idle_before: (self.roll(2) == 0).then(|| self.roll(n + 1) as u64),
                keep: (0..self.roll(3)).map(|_| self.name()).collect(),
                dry_run: self.roll(3) == 0,
            },
            32..=33 => {
                let name = self.name();
                self.writing.push(n);
                self.busy.push(name.clone());
                Op::Start(name)
            }
            kind if self.busy.is_empty() || self.roll(10) == 0 => {
                if kind < 37 {
                    Op::Write(self.name())
                } else {
                    Op::End(self.name())
                }
            }
            34 => Op::Write(self.one_of(&self.busy.clone())),
            35..=36 => Op::Fetch(self.one_of(&self.busy.clone())),
            _ => {
                let at = self.roll(self.busy.len());
                Op::End(self.busy.remove(at))
            }
        }
    }
}

pub(super) fn sequence(seed: u64) -> Vec<Op> {
    let state = seed.wrapping_mul(0x2545_f491_4f6c_dd1d);
    let mut die = Die { state, there: vec!["main"], busy: Vec::new(), writing: Vec::new() };
    (0..LENGTH).map(|n| die.op(n)).collect()
}
