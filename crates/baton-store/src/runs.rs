//! What run operations mean, whatever keeps the rows: who may claim, who may write, what is due.

use baton_core::id::OwnerId;
use baton_core::json::call_digest;
use baton_core::run::{Approval, ApprovalKind, ApprovalStatus, Choice, RUN_VERSION, RunStatus};
use baton_core::time::Timestamp;
use serde_json::Value;

use crate::error::StoreError;
use crate::transition::Transition;
use crate::view::{ClaimMode, RunFilter, RunRow};

/// Whether a run may be claimed; if so, whether its last owner died holding it.
pub(crate) fn may_claim(
    row: &RunRow,
    mode: ClaimMode,
    alive: impl Fn(OwnerId) -> bool,
) -> Result<bool, StoreError> {
    if row.status.has_ended() {
        return Err(StoreError::Ended { run: row.id, status: row.status });
    }
    if row.min_version > RUN_VERSION {
        return Err(StoreError::TooNew { run: row.id, needs: row.min_version, known: RUN_VERSION });
    }
    match row.owner {
        Some(owner) if alive(owner) && mode == ClaimMode::IfFree => {
            Err(StoreError::Held { run: row.id, owner })
        }
        Some(owner) => Ok(!alive(owner)),
        None => Ok(false),
    }
}

/// What a transition says of the run that it advances.
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

/// Whether somebody should drive a run that nobody living drives.
pub(crate) fn is_due(row: &RunRow, inbox_read: u32, now: Timestamp, alive: impl Fn(OwnerId) -> bool) -> bool {
    match row.status {
        RunStatus::Running => row.owner.is_none_or(|owner| !alive(owner)),
        RunStatus::Suspended => row.inbox > inbox_read || row.wake_at.is_some_and(|at| at <= now),
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
    choice: Choice,
    arguments: Option<&Value>,
    by: Option<String>,
    at: Timestamp,
) -> Result<(), StoreError> {
    if approval.status != ApprovalStatus::Pending {
        return Err(StoreError::AlreadyDecided { id: approval.id.clone(), status: approval.status });
    }
    if approval.expires_at <= at {
        return Err(StoreError::AlreadyDecided { id: approval.id.clone(), status: ApprovalStatus::Expired });
    }
    if let (Choice::Edit, Some(arguments)) = (choice, arguments)
        && approval.kind != ApprovalKind::Outcome
    {
        approval.args = arguments.clone();
        approval.digest = call_digest(&approval.name, arguments);
    }
    (approval.status, approval.by, approval.at) = (choice.into(), by, Some(at));
    Ok(())
}

/// Closes an approval that nobody decided.
pub(crate) fn settle(approval: &mut Approval, status: ApprovalStatus, at: Timestamp) {
    if approval.status == ApprovalStatus::Pending {
        (approval.status, approval.at) = (status, Some(at));
    }
}
