//! Lanes and branches: the lines of entries, and the names that point into them.
//!
//! A *lane* is an unbroken line of entries that knows where it grew from; a *branch* is a name that
//! points at a place in a lane. Fork, checkout and rewind move pointers; nothing is copied.
//! All rules are here: stores keep the rows and ask this module for the meaning of an operation.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::BranchName;

/// The end of a line: a lane and the index of the last entry, −1 before the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The lane.
    pub lane: u32,
    /// The index of the last entry.
    pub index: i64,
}

/// A lane's origin and its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// The place that its first entry follows; none for the first lane.
    pub parent: Option<Place>,
    /// The only branch that may extend it.
    pub opened_by: BranchName,
}

/// A branch: the end that its name points at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// Its end.
    pub head: Place,
    /// The branch and index that it was forked from.
    pub forked_from: Option<(BranchName, i64)>,
}

/// Consecutive entries of one lane, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The lane.
    pub lane: u32,
    /// The first index.
    pub first: i64,
    /// The last index.
    pub last: i64,
}

/// An operation that a thread does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// There is no such branch.
    #[error("there is no branch {0:?}")]
    NoBranch(String),
    /// The name is taken.
    #[error("there already is a branch {0:?}: choose another name")]
    BranchExists(String),
    /// The index is not on the branch.
    #[error("index {index} is not on branch {branch:?}: it has indices up to {head}")]
    NoIndex {
        /// The branch.
        branch: String,
        /// The index.
        index: i64,
        /// Its last index.
        head: i64,
    },
    /// `main` and the current branch cannot be deleted.
    #[error("branch {0:?} cannot be deleted: it is {1}")]
    Kept(String, &'static str),
}

/// The lanes and branches of one thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// The default branch of operations that name none.
    pub current: BranchName,
    /// All lanes.
    pub lanes: BTreeMap<u32, Lane>,
    /// All branches.
    pub branches: BTreeMap<BranchName, Branch>,
}

impl Default for Tree {
    fn default() -> Self {
        let main = BranchName::main();
        let head = Place { lane: 0, index: -1 };
        Tree {
            current: main.clone(),
            lanes: BTreeMap::from([(0, Lane { parent: None, opened_by: main.clone() })]),
            branches: BTreeMap::from([(main, Branch { head, forked_from: None })]),
        }
    }
}

impl Tree {
    /// A branch by name.
    pub fn branch(&self, name: &BranchName) -> Result<&Branch, TreeError> {
        self.branches.get(name).ok_or_else(|| TreeError::NoBranch(name.to_string()))
    }

    /// The lane that holds an index of the line that ends at `head`.
    pub fn place_at(&self, head: Place, index: i64) -> Option<Place> {
        if index > head.index || index < -1 {
            return None;
        }
        let mut lane = head.lane;
        while let Some(parent) = self.lanes.get(&lane)?.parent {
            if index > parent.index {
                break;
            }
            lane = parent.lane;
        }
        Some(Place { lane, index })
    }

    /// The segments that hold `first..=head.index`, oldest first.
    pub fn segments(&self, head: Place, first: i64) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut end = head;
        while end.index >= first {
            let parent = self.lanes.get(&end.lane).and_then(|lane| lane.parent);
            let begins = parent.map_or(0, |p| p.index + 1);
            if end.index >= begins {
                segments.push(Segment { lane: end.lane, first: begins.max(first), last: end.index });
            }
            let Some(parent) = parent else { break };
            end = Place { lane: parent.lane, index: parent.index.min(end.index) };
        }
        segments.reverse();
        segments
    }

    /// The lane of a branch's next entry. `tip` is the last stored index of the branch's lane: the branch that
    /// opened a lane extends it there; every other append opens a lane.
    pub fn append_lane(&mut self, name: &BranchName, tip: i64) -> Result<u32, TreeError> {
        let head = self.branch(name)?.head;
        if self.lanes.get(&head.lane).is_some_and(|lane| lane.opened_by == *name) && head.index >= tip {
            return Ok(head.lane);
        }
        let lane = self.lanes.keys().next_back().map_or(0, |last| last + 1);
        self.lanes.insert(lane, Lane { parent: Some(head), opened_by: name.clone() });
        if let Some(branch) = self.branches.get_mut(name) {
            branch.head.lane = lane;
        }
        Ok(lane)
    }

    /// Adds a branch that ends at `index` of `from`.
    pub fn fork(
        &mut self,
        from: &BranchName,
        index: Option<i64>,
        name: BranchName,
    ) -> Result<Place, TreeError> {
        let head = self.branch(from)?.head;
        let index = index.unwrap_or(head.index);
        let place = self.on_branch(from, head, index)?;
        self.fork_at(place, (from.clone(), index), name)
    }

    /// Adds a branch that ends at a place.
    pub fn fork_at(
        &mut self,
        place: Place,
        origin: (BranchName, i64),
        name: BranchName,
    ) -> Result<Place, TreeError> {
        if self.branches.contains_key(&name) {
            return Err(TreeError::BranchExists(name.to_string()));
        }
        self.branches.insert(name, Branch { head: place, forked_from: Some(origin) });
        Ok(place)
    }

    /// Makes a branch the current one.
    pub fn checkout(&mut self, name: &BranchName) -> Result<(), TreeError> {
        self.branch(name)?;
        self.current = name.clone();
        Ok(())
    }

    /// Moves a branch's end back to `index` and returns its end before.
    pub fn rewind(&mut self, name: &BranchName, index: i64) -> Result<Place, TreeError> {
        let before = self.branch(name)?.head;
        let place = self.on_branch(name, before, index)?;
        if let Some(branch) = self.branches.get_mut(name) {
            branch.head = place;
        }
        Ok(before)
    }

    /// Removes a branch; its entries stay until prune.
    pub fn delete(&mut self, name: &BranchName) -> Result<(), TreeError> {
        self.branch(name)?;
        if let Some(why) = self.kept_because(name) {
            return Err(TreeError::Kept(name.to_string(), why));
        }
        self.branches.remove(name);
        Ok(())
    }

    /// Why a branch cannot be deleted, if it cannot.
    pub fn kept_because(&self, name: &BranchName) -> Option<&'static str> {
        if *name == BranchName::main() {
            Some("the thread's first branch")
        } else if *name == self.current {
            Some("the current branch; check out another one first")
        } else {
            None
        }
    }

    /// The last index of each lane that a branch or one of the given heads of unfinished runs still reaches.
    /// A lane that is not in the map is unreachable.
    pub fn reached(&self, runs: &[Place]) -> BTreeMap<u32, i64> {
        let mut reach: BTreeMap<u32, i64> = BTreeMap::new();
        for head in self.branches.values().map(|branch| branch.head).chain(runs.iter().copied()) {
            let mut seen = BTreeSet::new();
            let mut end = Some(head);
            while let Some(place) = end.filter(|place| seen.insert(place.lane)) {
                let furthest = reach.entry(place.lane).or_insert(-1);
                *furthest = place.index.max(*furthest);
                end = self.lanes.get(&place.lane).and_then(|lane| lane.parent);
            }
        }
        reach
    }

    fn on_branch(&self, name: &BranchName, head: Place, index: i64) -> Result<Place, TreeError> {
        self.place_at(head, index).ok_or_else(|| TreeError::NoIndex {
            branch: name.to_string(),
            index,
            head: head.index,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> BranchName {
        text.parse().unwrap()
    }

    fn grow(tree: &mut Tree, branch: &str, tip: i64, to: i64) -> u32 {
        let lane = tree.append_lane(&name(branch), tip).unwrap();
        tree.branches.get_mut(&name(branch)).unwrap().head.index = to;
        lane
    }

    #[test]
    fn a_fork_shares_its_past_and_opens_a_lane_on_its_first_append() {
        let mut tree = Tree::default();
        assert_eq!(grow(&mut tree, "main", -1, 9), 0);
        tree.fork(&name("main"), Some(5), name("b")).unwrap();
        assert_eq!(tree.branch(&name("b")).unwrap().head, Place { lane: 0, index: 5 });
        assert_eq!(grow(&mut tree, "b", 9, 7), 1);
        assert_eq!(
            tree.segments(Place { lane: 1, index: 7 }, 0),
            [Segment { lane: 0, first: 0, last: 5 }, Segment { lane: 1, first: 6, last: 7 }]
        );
        assert_eq!(grow(&mut tree, "main", 9, 10), 0, "main still extends its own lane");
    }

    #[test]
    fn a_rewound_branch_never_writes_over_its_old_end() {
        let mut tree = Tree::default();
        grow(&mut tree, "main", -1, 9);
        assert_eq!(tree.rewind(&name("main"), 3), Ok(Place { lane: 0, index: 9 }));
        assert_eq!(grow(&mut tree, "main", 9, 4), 1);
        assert_eq!(tree.lanes[&1].parent, Some(Place { lane: 0, index: 3 }));
        tree.rewind(&name("main"), -1).unwrap();
        assert_eq!(tree.branch(&name("main")).unwrap().head, Place { lane: 0, index: -1 });
        assert_eq!(tree.segments(Place { lane: 0, index: -1 }, 0), []);
    }

    #[test]
    fn a_fork_at_a_lanes_birth_points_into_the_parent() {
        let mut tree = Tree::default();
        grow(&mut tree, "main", -1, 3);
        tree.fork(&name("main"), Some(1), name("b")).unwrap();
        grow(&mut tree, "b", 3, 4);
        assert_eq!(tree.fork(&name("b"), Some(1), name("c")), Ok(Place { lane: 0, index: 1 }));
        assert_eq!(tree.reached(&[]), BTreeMap::from([(0, 3), (1, 4)]));
        tree.delete(&name("b")).unwrap();
        assert_eq!(tree.reached(&[]), BTreeMap::from([(0, 3)]));
    }

    #[test]
    fn impossible_operations_say_why() {
        let mut tree = Tree::default();
        grow(&mut tree, "main", -1, 2);
        let text = |e: TreeError| e.to_string();
        assert_eq!(
            text(tree.fork(&name("main"), Some(3), name("b")).unwrap_err()),
            "index 3 is not on branch \"main\": it has indices up to 2"
        );
        assert_eq!(text(tree.fork(&name("x"), None, name("b")).unwrap_err()), "there is no branch \"x\"");
        assert_eq!(
            text(tree.fork(&name("main"), None, name("main")).unwrap_err()),
            "there already is a branch \"main\": choose another name"
        );
        assert_eq!(
            text(tree.rewind(&name("main"), -2).unwrap_err()),
            "index -2 is not on branch \"main\": it has indices up to 2"
        );
        assert_eq!(
            text(tree.delete(&name("main")).unwrap_err()),
            "branch \"main\" cannot be deleted: it is the thread's first branch"
        );
        tree.fork(&name("main"), None, name("b")).unwrap();
        tree.checkout(&name("b")).unwrap();
        assert!(text(tree.delete(&name("b")).unwrap_err()).contains("check out another one first"));
    }
}
