//! What run operations mean, whatever keeps the rows: who may claim, who may write, what is due.

use baton_core::id::{BranchName, OwnerId, RunId};
use baton_core::json::{call_digest, sha256_hex};
use baton_core::run::{Approval, ApprovalKind, ApprovalStatus, Choice, Message, RUN_VERSION, RunStatus};
use baton_core::time::Timestamp;

use crate::error::StoreError;
use crate::transition::{NewRun, Transition};
use crate::view::{ClaimMode, RunFilter, RunRow};

/// What is known of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// It lives, as far as anybody knows.
    Lives,
    /// It was not heard of for a lease: it may be cut off as well as dead.
    Silent,
    /// It is gone.
    Dead,
}

/// Whether a run may be claimed; if so, what is known of the owner that it is claimed from. One that nobody holds is
/// claimed as from the living. One that waits for its turn may not be claimed: its branch is busy.
pub(crate) fn may_claim(
    row: &RunRow,
    mode: ClaimMode,
    life: impl Fn(OwnerId) -> Life,
) -> Result<Life, StoreError> {
    if row.status.has_ended() {
        return Err(StoreError::Ended { run: row.id, status: row.status });
    }
    if row.min_version > RUN_VERSION {
        return Err(StoreError::TooNew { run: row.id, needs: row.min_version, known: RUN_VERSION });
    }
    if row.status == RunStatus::Queued {
        // Nothing to go on from: it is begun by a start once its branch is free, and stands in line till then.
        return Err(StoreError::Busy { branch: row.branch.to_string(), run: row.id });
    }
    let Some(owner) = row.owner else { return Ok(Life::Lives) };
    match life(owner) {
        Life::Lives if mode == ClaimMode::IfFree => Err(StoreError::Held { run: row.id, owner }),
        life => Ok(life),
    }
}

/// What a transition says of the run that it advances.
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

    /// Whether the transition may be written: the same questions that the SQL statement asks.
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

/// Whether it is a run's turn to take a branch: those who wait for it come first, in order.
pub(crate) fn in_turn(branch: &BranchName, run: RunId, first: Option<RunId>) -> Result<(), StoreError> {
    match first {
        Some(first) if first != run => Err(StoreError::Busy { branch: branch.to_string(), run: first }),
        _ => Ok(()),
    }
}

/// A key that led to the very run that is about to begin: its write was done and not told. One that waited got
/// its key when it got in line.
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

/// Whether a branch ends where a run that begins thinks it does: at that index, and with an entry of the run that it
/// follows.
pub(crate) fn unmoved(new: &NewRun, head: i64, written_by: Option<RunId>) -> Result<(), StoreError> {
    if head == new.expected_head && (new.after.is_none() || new.after == written_by) {
        return Ok(());
    }
    Err(StoreError::Moved { branch: new.branch.to_string() })
}

/// Why a run cannot begin together with its thread: that is there already, and may be anywhere by now.
pub(crate) fn not_new(new: &NewRun) -> StoreError {
    StoreError::Moved { branch: new.branch.to_string() }
}

/// What an input is known by, so that it is posted once: of fixed length, and text in every database.
pub(crate) fn input_hash(message: &Message) -> Option<String> {
    match message {
        Message::Input { input_id, .. } => Some(sha256_hex(input_id.as_bytes())),
        Message::Cancel | Message::Decision { .. } => None,
    }
}

/// Why a run that does not wait in line cannot be begun from there: it is over, or somebody else began it.
pub(crate) fn begun_already(row: &RunRow) -> StoreError {
    match row.status.has_ended() {
        true => StoreError::Ended { run: row.id, status: row.status },
        false => StoreError::Fenced { run: row.id, epoch: row.epoch },
    }
}

/// Whether somebody should drive a run that has begun and that nobody living drives.
pub(crate) fn is_due(row: &RunRow, inbox_read: u32, now: Timestamp, alive: impl Fn(OwnerId) -> bool) -> bool {
    match row.status {
        RunStatus::Running => row.owner.is_none_or(|owner| !alive(owner)),
        RunStatus::Suspended => row.wake_at.is_some_and(|at| at <= now) || row.inbox > inbox_read,
        _ => false,
    }
}

/// Whether a run is one of those that were asked for.
pub(crate) fn fits(row: &RunRow, filter: &RunFilter) -> bool {
    let id = row.id.0.simple().to_string();
    filter.thread.as_ref().is_none_or(|thread| row.thread == *thread)
        && filter.status.is_none_or(|status| row.status == status)
        && filter.after.is_none_or(|after| row.id < after)
        && filter.fragment.as_ref().is_none_or(|f| id.starts_with(f.as_str()) || id.ends_with(f.as_str()))
}

/// Takes a person's decision; the first one wins. An edit puts other arguments in their place, except where
/// the question is whether a call happened: then it says what came of it, the arguments are those that ran,
/// and the run finds the answer in its inbox.
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

/// Closes an approval that nobody decided.
pub(crate) fn settle(approval: &mut Approval, status: ApprovalStatus, at: Timestamp) {
    if approval.status == ApprovalStatus::Pending {
        (approval.status, approval.at) = (status, Some(at));
    }
}
