//! What thread operations mean, whatever keeps the rows.

use std::collections::BTreeMap;

use baton_core::id::{BranchName, EntryId};
use baton_core::thread::{Entry, OrderError, Place, PlacedEntry, Tail, Tree, TreeError};

use crate::error::StoreError;
use crate::view::{ForkAt, PruneRequest};

/// The tail of a branch from its last entries, oldest first. They must reach back to an entry before
/// which nothing can be open, or to the beginning.
pub(crate) fn tail_of(entries: &[PlacedEntry]) -> Tail {
    let enough = entries.iter().rposition(|placed| Tail::is_enough(&placed.entry)).unwrap_or(0);
    Tail::of(entries[enough..].iter().map(|placed| &placed.entry))
}

/// Where untrusted content begins on the line that ends at `head`, from the first such entry of each lane.
pub(crate) fn first_untrusted(tree: &Tree, head: Place, of_lanes: &BTreeMap<u32, i64>) -> Option<i64> {
    if of_lanes.is_empty() {
        return None; // as on most threads
    }
    let segments = tree.segments(head, 0); // the oldest one first
    segments.iter().find_map(|s| of_lanes.get(&s.lane).copied().filter(|index| *index <= s.last))
}

/// The lane that a branch which ends at `head` extends with its next entry; none where that opens a lane.
/// `tip` is the last stored index of the lane.
pub(crate) fn own_lane(tree: &Tree, branch: &BranchName, head: Place, tip: i64) -> Option<u32> {
    let opened = tree.lanes.get(&head.lane).is_some_and(|lane| lane.opened_by == *branch);
    (opened && head.index >= tip).then_some(head.lane)
}

/// Checks an entry that somebody pushes: the table, and that a new id was never used on the branch.
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
