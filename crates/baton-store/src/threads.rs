//! The rules of thread operations, independent of the back end.

use std::collections::BTreeMap;

use baton_core::id::{BranchName, EntryId};
use baton_core::thread::{Entry, OrderError, Place, PlacedEntry, Tail, Tree, TreeError};

use crate::error::StoreError;
use crate::view::{ForkAt, PruneRequest};

/// The tail of a branch, from its last entries, oldest first. They must reach back to an entry before which no call can
/// be open, or to the beginning.
pub(crate) fn tail_of(entries: &[PlacedEntry]) -> Tail {
    let enough = entries.iter().rposition(|placed| Tail::is_enough(&placed.entry)).unwrap_or(0);
    Tail::of(entries[enough..].iter().map(|placed| &placed.entry))
}

/// The first entries with untrusted content and with private data: of a lane, of a branch, or of a list of new entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FirstMarked {
    pub(crate) untrusted: Option<i64>,
    pub(crate) private: Option<i64>,
}

impl FirstMarked {
    /// Finds the first marked entries in a sequence that begins at this index.
    pub(crate) fn among<'a>(first: i64, entries: impl IntoIterator<Item = &'a Entry>) -> FirstMarked {
        let mut found = FirstMarked::default();
        for (index, entry) in (first..).zip(entries) {
            found.note(entry.is_untrusted(), entry.is_private(), index);
        }
        found
    }

    /// Both marks on one entry.
    pub(crate) fn both(index: i64) -> FirstMarked {
        FirstMarked { untrusted: Some(index), private: Some(index) }
    }

    /// Notes the marks of an entry or a lane, unless earlier ones are known.
    pub(crate) fn note(&mut self, untrusted: bool, private: bool, index: i64) {
        let lowest = |known: Option<i64>| Some(known.map_or(index, |known| known.min(index)));
        if untrusted {
            self.untrusted = lowest(self.untrusted);
        }
        if private {
            self.private = lowest(self.private);
        }
    }

    pub(crate) fn is_clean(&self) -> bool {
        *self == FirstMarked::default()
    }

    /// The marks that remain where a lane is cut after its entry `last`.
    pub(crate) fn up_to(self, last: i64) -> FirstMarked {
        let kept = |index: Option<i64>| index.filter(|index| *index <= last);
        FirstMarked { untrusted: kept(self.untrusted), private: kept(self.private) }
    }

    /// One row for each mark: whether it is of private data, and its index.
    pub(crate) fn rows(self) -> impl Iterator<Item = (bool, i64)> {
        let row = |private| move |index| (private, index);
        self.untrusted.map(row(false)).into_iter().chain(self.private.map(row(true)))
    }
}

/// Where each mark begins on the line that ends at `head`, from the first such entries of each lane.
pub(crate) fn first_marked(tree: &Tree, head: Place, of_lanes: &BTreeMap<u32, FirstMarked>) -> FirstMarked {
    let mut found = FirstMarked::default();
    if of_lanes.is_empty() {
        return found; // as on most threads
    }
    for segment in tree.segments(head, 0) {
        let marked = of_lanes.get(&segment.lane).copied().unwrap_or_default().up_to(segment.last);
        marked.rows().for_each(|(private, index)| found.note(!private, private, index));
    }
    found
}

/// The lane that a branch which ends at `head` extends with its next entry; `None` where that entry opens a new lane.
/// `tip` is the last stored index of the lane.
pub(crate) fn own_lane(tree: &Tree, branch: &BranchName, head: Place, tip: i64) -> Option<u32> {
    let opened = tree.lanes.get(&head.lane).is_some_and(|lane| lane.opened_by == *branch);
    (opened && head.index >= tip).then_some(head.lane)
}

/// Checks an entry that is pushed from outside a run: its order, and that a new id was never used on the branch.
pub(crate) fn check_push(
    entry: &Entry,
    mut tail: Tail,
    all: impl FnOnce() -> Result<Vec<PlacedEntry>, StoreError>,
) -> Result<(), StoreError> {
    tail.append(entry)?;
    let id = match entry {
        Entry::ToolCall(call) => &call.id,
        Entry::AgentCall(call) => call.correlation_id.as_ref().unwrap_or(&call.agent_id),
        _ => return Ok(()),
    };
    let uses = |placed: &PlacedEntry| match &placed.entry {
        Entry::ToolCall(call) => call.id == *id,
        Entry::AgentCall(call) => call.correlation_id.as_ref() == Some(id),
        _ => false,
    };
    if all()?.iter().any(uses) {
        let t = entry.type_name().to_owned();
        let why = format!("id {id:?} was used before on this branch");
        return Err(OrderError { t, why, expected: "a new id".to_owned() }.into());
    }
    Ok(())
}

/// Where a fork of `from`, which ends at `head`, begins.
pub(crate) fn fork_place(
    tree: &Tree,
    head: Place,
    from: &BranchName,
    at: &ForkAt,
    find: impl FnOnce(EntryId) -> Option<Place>,
) -> Result<Place, StoreError> {
    match at {
        ForkAt::Head => Ok(head),
        ForkAt::Index(index) => tree.place_at(head, *index).ok_or_else(|| {
            TreeError::NoIndex { branch: from.to_string(), index: *index, head: head.index }.into()
        }),
        ForkAt::Entry(id) => find(*id).ok_or_else(|| StoreError::not_found("entry", id)),
    }
}

/// The branches that a prune removes.
pub(crate) fn idle_branches(
    tree: &Tree,
    request: &PruneRequest,
    idle: impl Fn(&BranchName) -> bool,
    busy: impl Fn(&BranchName) -> bool,
) -> Vec<BranchName> {
    let removable = |name: &&BranchName| {
        idle(name) && !busy(name) && tree.kept_because(name).is_none() && !request.keep.contains(name)
    };
    tree.branches.keys().filter(removable).cloned().collect()
}
