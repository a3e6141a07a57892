//! The rules of run operations, independent of the back end: which claims and writes are allowed, and which runs are
//! due.

use baton_core::id::{BranchName, OwnerId, RunId};
use baton_core::json::{call_digest, sha256_hex};
use baton_core::run::{Approval, ApprovalKind, ApprovalStatus, Choice, Message, RUN_VERSION, RunStatus};
use baton_core::time::Timestamp;

use crate::error::StoreError;
use crate::transition::{NewRun, Transition};
use crate::view::{ClaimMode, RunFilter, RunRow};

/// The state of an owner, as this process sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// It is alive, as far as is known.
    Lives,
    /// It was silent for a lease: it may be cut off as well as dead.
    Silent,
    /// It is gone.
    Dead,
}

/// Checks that a run may be claimed, and returns the state of the owner that it is claimed from. A run without an owner
/// is claimed as from a living one. A queued run may not be claimed: its branch is busy.
pub(crate) fn may_claim(
    row: &RunRow,
    mode: ClaimMode,
    life: impl Fn(OwnerId) -> Liveness,
) -> Result<Liveness, StoreError> {
    if row.status.has_ended() {
        return Err(StoreError::Ended { run: row.id, status: row.status });
    }
    if row.min_version > RUN_VERSION {
        return Err(StoreError::TooNew { run: row.id, needs: row.min_version, known: RUN_VERSION });
    }
    if row.status == RunStatus::Queued {
        // There is no checkpoint yet: a start begins it once its branch is free, and it stays queued until then.
        return Err(StoreError::Busy { branch: row.branch.to_string(), run: row.id });
    }
    let Some(owner) = row.owner else { return Ok(Liveness::Lives) };
    match life(owner) {
        Liveness::Lives if mode == ClaimMode::IfFree => Err(StoreError::Held { run: row.id, owner }),
        life => Ok(life),
    }
}

/// The conditions that a transition sets on the row of its run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fence {
    pub(crate) epoch: u32,
    pub(crate) step: u32,
    pub(crate) last_seq: u64,
    pub(crate) events: u64,
    pub(crate) inbox: Option<u32>,
}

impl Fence {
    pub(crate) fn of(transition: &Transition) -> Fence {
        Fence {
            epoch: transition.epoch,
            step: transition.step,
            last_seq: transition.last_seq,
            events: transition.checkpoint.events.len() as u64,
            inbox: transition.inbox,
        }
    }

    /// Whether the transition may be written: the same conditions as in the SQL statement.
    pub(crate) fn allows(&self, row: &RunRow) -> Result<(), StoreError> {
        let lost = row.epoch != self.epoch || row.step + 1 != self.step || row.owner.is_none();
        let gap = self.last_seq != row.seq + self.events;
        if lost || gap || row.status.has_ended() {
            return Err(StoreError::Fenced { run: row.id, epoch: row.epoch });
        }
        match self.inbox {
            Some(read) if read != row.inbox => Err(StoreError::Unread { inbox: row.inbox }),
            _ => Ok(()),
        }
    }
}

/// Checks that a run is the one that may take a branch: runs that are queued for it come first, in order.
pub(crate) fn in_turn(branch: &BranchName, run: RunId, first: Option<RunId>) -> Result<(), StoreError> {
    match first {
        Some(first) if first != run => Err(StoreError::Busy { branch: branch.to_string(), run: first }),
        _ => Ok(()),
    }
}

/// Handles a key that led to the very run that is about to begin. The run exists: an earlier write succeeded, and its
/// answer was lost. A queued run may go on, because it got its key when it was queued.
pub(crate) fn own_key(
    unused: Result<(), StoreError>,
    run: RunId,
    is_in_line: bool,
) -> Result<(), StoreError> {
    match unused {
        Err(StoreError::KeyUsed(known)) if known.run == Some(run) => match is_in_line {
            true => Ok(()),
            false => Err(StoreError::Exists { what: "run", id: run.to_string() }),
        },
        other => other,
    }
}

/// Checks that a branch ends where the new run expects it: at that index, and with an entry of the run that it follows.
pub(crate) fn unmoved(new: &NewRun, head: i64, written_by: Option<RunId>) -> Result<(), StoreError> {
    if head == new.expected_head && (new.after.is_none() || new.after == written_by) {
        return Ok(());
    }
    Err(StoreError::Moved { branch: new.branch.to_string() })
}

/// The error of a run whose thread should be created with it and exists already: the branch may end anywhere by now.
pub(crate) fn not_new(new: &NewRun) -> StoreError {
    StoreError::Moved { branch: new.branch.to_string() }
}

/// The hash by which an input is recognised, so that it is posted once: of fixed length, and text in every database.
pub(crate) fn input_hash(message: &Message) -> Option<String> {
    match message {
        Message::Input { input_id, .. } => Some(sha256_hex(input_id.as_bytes())),
        Message::Cancel | Message::Decision { .. } => None,
    }
}

/// The error of a run that is no longer queued and so cannot begin: it has ended, or another process began it.
pub(crate) fn begun_already(row: &RunRow) -> StoreError {
    match row.status.has_ended() {
        true => StoreError::Ended { run: row.id, status: row.status },
        false => StoreError::Fenced { run: row.id, epoch: row.epoch },
    }
}

/// Whether a run that has begun, and has no living owner, is due.
pub(crate) fn is_due(row: &RunRow, inbox_read: u32, now: Timestamp, alive: impl Fn(OwnerId) -> bool) -> bool {
    match row.status {
        RunStatus::Running => row.owner.is_none_or(|owner| !alive(owner)),
        RunStatus::Suspended => row.wake_at.is_some_and(|at| at <= now) || row.inbox > inbox_read,
        _ => false,
    }
}

/// Whether a run passes a filter.
pub(crate) fn fits(row: &RunRow, filter: &RunFilter) -> bool {
    let id = row.id.0.simple().to_string();
    filter.thread.as_ref().is_none_or(|thread| row.thread == *thread)
        && filter.status.is_none_or(|status| row.status == status)
        && filter.after.is_none_or(|after| row.id < after)
        && filter.fragment.as_ref().is_none_or(|f| id.starts_with(f.as_str()) || id.ends_with(f.as_str()))
}

/// Records a user's decision; the first one wins. An edit replaces the arguments. If the question is whether a call
/// happened, an edit holds the outcome instead: the arguments stay those that ran, and the run finds the answer in its
/// inbox.
pub(crate) fn decide(
    approval: &mut Approval,
    message: &Message,
    by: Option<String>,
    at: Timestamp,
) -> Result<(), StoreError> {
    let Message::Decision { choice, arguments, reason, .. } = message else { return Ok(()) };
    if approval.status != ApprovalStatus::Pending {
        return Err(StoreError::AlreadyDecided { id: approval.id.clone(), status: approval.status });
    }
    if approval.expires_at <= at {
        return Err(StoreError::AlreadyDecided { id: approval.id.clone(), status: ApprovalStatus::Expired });
    }
    if let (Choice::Edit, Some(arguments)) = (choice, arguments)
        && approval.kind != ApprovalKind::Outcome
    {
        let original = std::mem::replace(&mut approval.args, arguments.clone());
        approval.original_args = Some(original);
        approval.digest = call_digest(&approval.name, arguments);
    }
    (approval.status, approval.by, approval.at) = ((*choice).into(), by, Some(at));
    approval.decision_reason.clone_from(reason);
    Ok(())
}

/// Closes an approval that was not decided.
pub(crate) fn settle(approval: &mut Approval, status: ApprovalStatus, at: Timestamp) {
    if approval.status == ApprovalStatus::Pending {
        (approval.status, approval.at) = (status, Some(at));
    }
}
