//! The one write of a run: a transition, packed by its caller and written by the writer's thread.
//!
//! The statement that advances the run checks its epoch, its step, its numbers and its inbox; all other rows are
//! written only if it changed a row.

use baton_core::id::{RunId, Tenant, ThreadId};
use baton_core::run::{Approval, ApprovalStatus, RunStatus};
use baton_core::thread::Place;
use baton_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::approvals::{load_approval, update_approval};
use super::outbox::{self, SqliteEvent};
use super::read::Uuid16;
use super::runs::{load, stored};
use super::threads::insert_entry;
use super::untrusted;
use crate::error::StoreError;
use crate::record;
use crate::runs::Fence;
use crate::threads::FirstMarked;
use crate::transition::{RunHalt, Transition};
use crate::view::RunRow;

/// A transition as bytes and numbers, so that the writer's thread has nothing to encode.
pub(super) struct SqliteTransition {
    pub(super) run: RunId,
    pub(super) thread: ThreadId,
    pub(super) lane: u32,
    pub(super) budget: Vec<u8>,
    pub(super) fence: Fence,
    frame: String,
    head: i64,
    last_seq: i64,
    at: i64,
    progress: bool,
    inbox_read: u32,
    pub(super) rest: RunHalt,
    entries: Vec<(Uuid16, Vec<u8>)>,
    marked: FirstMarked,
    body: (Vec<u8>, u32),
    asked: Vec<(Approval, (Vec<u8>, u32))>,
    settled: Vec<(String, ApprovalStatus)>,
    audit: Vec<SqliteEvent>,
}

impl SqliteTransition {
    pub(super) fn new(transition: &Transition) -> Result<SqliteTransition, StoreError> {
        let Transition { run, checkpoint, .. } = transition;
        let entry = |new: &baton_core::thread::NewEntry| {
            crate::envelope::encode(&new.entry, new.at).map(|envelope| (Uuid16(new.id.0), envelope))
        };
        let asked = |approval: &Approval| record::encode(approval).map(|bytes| (approval.clone(), bytes));
        Ok(SqliteTransition {
            run: *run,
            thread: transition.thread.clone(),
            lane: transition.lane,
            budget: serde_json::to_vec(&checkpoint.budget)
                .map_err(|e| StoreError::corrupt("budget", run, e))?,
            fence: Fence::of(transition),
            frame: transition.frame.to_string(),
            head: checkpoint.head,
            last_seq: transition.last_seq as i64,
            at: checkpoint.at.0,
            progress: transition.progress,
            inbox_read: checkpoint.inbox_read,
            rest: transition.rest,
            entries: transition.entries.iter().map(entry).collect::<Result<_, _>>()?,
            marked: transition.first_marked(),
            body: record::encode(checkpoint)?,
            asked: transition.asked.iter().map(asked).collect::<Result<_, _>>()?,
            settled: transition.settled.clone(),
            audit: transition.audit.iter().map(SqliteEvent::new).collect::<Result<_, _>>()?,
        })
    }

    /// The changes to a run that is suspended or ended: its status, when it wakes, and when it ended. `None` if it goes
    /// on.
    fn rest(&self) -> Option<(RunStatus, Option<Timestamp>, Option<Timestamp>)> {
        match self.rest {
            RunHalt::Running => None,
            RunHalt::Suspended { wake_at } => Some((RunStatus::Suspended, Some(wake_at), None)),
            RunHalt::Ended(status) => Some((status, None, Some(Timestamp(self.at)))),
        }
    }

    /// The row of a run after the transition.
    pub(super) fn leaves(&self, row: RunRow) -> RunRow {
        let row = RunRow { step: self.fence.step, seq: self.fence.last_seq, head: self.head, ..row };
        match self.rest() {
            None => row,
            Some((status, wake_at, ended)) => RunRow { status, owner: None, wake_at, ended, ..row },
        }
    }
}

/// Writes a transition, if the run is still where its owner expects it.
pub(super) fn advance(db: &Connection, tenant: &Tenant, t: &SqliteTransition) -> Result<(), StoreError> {
    if !move_on(db, tenant, t)? {
        let row = load(db, tenant, t.run)?;
        t.fence.allows(&row)?;
        return Err(StoreError::Fenced { run: t.run, epoch: row.epoch });
    }
    follow(db, tenant, t)
}

/// The statement that advances a run's row, with the further columns that it sets.
macro_rules! moves {
    ($also:literal) => {
        concat!(
            "UPDATE runs SET step = ?4, seq = ?5, head = ?6, budget = ?7,
             attempts = CASE WHEN ?8 THEN 0 ELSE attempts END",
            $also,
            " WHERE tenant = ?1 AND run = ?2 AND epoch = ?3 AND step = ?4 - 1 AND owner IS NOT NULL
             AND status = 1 AND seq = ?5 - ?10 AND (?9 IS NULL OR inbox = ?9)"
        )
    };
}
const GOES_ON: &str = moves!("");
const ENDS: &str = moves!(", status = ?11, owner = NULL, wake_at = NULL, ended = ?12");
/// A suspended run is due at once if it has unread messages.
const SUSPENDS: &str =
    moves!(", status = ?11, owner = NULL, wake_at = ?12, due_at = CASE WHEN inbox > ?13 THEN 0 ELSE ?12 END");

/// Advances a run's row; false if the transition does not follow on it. A run that is suspended or ends loses its
/// owner.
fn move_on(db: &Connection, tenant: &Tenant, t: &SqliteTransition) -> Result<bool, StoreError> {
    let mut statement = db.prepare_cached(match t.rest {
        RunHalt::Running => GOES_ON,
        RunHalt::Suspended { .. } => SUSPENDS,
        RunHalt::Ended(_) => ENDS,
    })?;
    let (tenant, run, events) = (tenant.as_str(), Uuid16(t.run.0), t.fence.events as i64);
    let Fence { epoch, step, inbox, .. } = t.fence;
    let moved = params![tenant, run, epoch, step, t.last_seq, t.head, t.budget, t.progress, inbox, events];
    let changed = match t.rest {
        RunHalt::Running => statement.execute(moved)?,
        RunHalt::Suspended { wake_at } => {
            let left = params![stored(RunStatus::Suspended), wake_at.0, t.inbox_read];
            statement.execute(&[moved, left].concat()[..])?
        }
        RunHalt::Ended(status) => {
            let left = params![stored(status), t.at];
            statement.execute(&[moved, left].concat()[..])?
        }
    };
    Ok(changed > 0)
}

/// Writes the other rows of a transition, once the run's row was advanced.
pub(super) fn follow(db: &Connection, tenant: &Tenant, t: &SqliteTransition) -> Result<(), StoreError> {
    let run = Uuid16(t.run.0);
    let first = t.head - t.entries.len() as i64 + 1;
    for (index, (id, envelope)) in (first..).zip(&t.entries) {
        insert_entry(db, tenant, &t.thread, Place { lane: t.lane, index }, (*id, Some(run)), envelope)?;
    }
    untrusted::note(db, tenant, &t.thread, t.lane, t.marked)?;
    let sql = "INSERT INTO steps(run, step, epoch, frame, first_seq, last_seq, body, crc)
               VALUES ((SELECT n FROM runs WHERE tenant = ?1 AND run = ?2), ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    db.prepare_cached(sql)?.execute(params![
        tenant.as_str(),
        run,
        t.fence.step,
        t.fence.epoch,
        t.frame,
        t.last_seq - t.fence.events as i64 + 1,
        t.last_seq,
        t.body.0,
        t.body.1,
    ])?;
    ask(db, tenant, t)?;
    outbox::note_all(db, tenant, &t.audit)?;
    if let RunHalt::Ended(_) = t.rest {
        let sql = "UPDATE branches SET run = NULL, lane = ?4, head = ?5, touched = ?6
                   WHERE tenant = ?1 AND thread = ?2 AND run = ?3";
        let key = (tenant.as_str(), t.thread.as_str(), run, t.lane, t.head, t.at);
        db.prepare_cached(sql)?.execute(key)?;
    }
    Ok(())
}

fn ask(db: &Connection, tenant: &Tenant, t: &SqliteTransition) -> Result<(), StoreError> {
    for (approval, (body, crc)) in &t.asked {
        let sql = "INSERT INTO approvals(tenant, approval, run, status, created, expires_at, body, crc)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        db.prepare_cached(sql)?.execute(params![
            tenant.as_str(),
            approval.id,
            Uuid16(approval.run_id.0),
            approval.status.as_str(),
            approval.created.0,
            approval.expires_at.0,
            body,
            crc,
        ])?;
    }
    for (id, status) in &t.settled {
        let mut approval = match load_approval(db, tenant, id) {
            Err(StoreError::NotFound { .. }) => continue, // nothing to close
            found => found?,
        };
        crate::runs::settle(&mut approval, *status, Timestamp(t.at));
        update_approval(db, tenant, &approval)?;
    }
    Ok(())
}
