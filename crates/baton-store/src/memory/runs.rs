//! Runs in memory.

use baton_core::id::{OwnerId, RunId, Tenant, ThreadId};
use baton_core::run::{Approval, ApprovalStatus, Definition, Message, RunStatus};
use baton_core::thread::{Place, PlacedEntry};
use baton_core::time::Timestamp;

use super::{MemRun, MemState, MemoryStore};
use crate::error::StoreError;
use crate::runs::{Fence, Liveness};
use crate::service::AuditEvent;
use crate::transition::{NewRun, PinnedDefinition, RunHalt, Transition};
use crate::view::{
    ClaimMode, ClaimRow, Claimed, Due, DueFrom, DuePage, Posted, Pulse, RunFilter, RunRow, StepRow,
    ThreadUsage,
};

impl MemoryStore {
    pub(crate) fn start(&self, tenant: &Tenant, new: NewRun, first: Transition) -> Result<u32, StoreError> {
        let mut inner = self.lock();
        if new.queued {
            return inner.start_queued(tenant, new, first);
        }
        if inner.runs.contains_key(&(tenant.clone(), first.run)) {
            return Err(StoreError::Exists { what: "run", id: first.run.to_string() });
        }
        crate::runs::own_key(inner.unused(tenant, new.key.as_ref(), new.at), first.run, false)?;
        if let Some(thread) = &new.new_thread {
            if inner.threads.contains_key(&(tenant.clone(), thread.id.clone())) {
                return Err(crate::runs::not_new(&new));
            }
            inner.add_thread(tenant, thread.clone());
        }
        let head = inner.free_head(tenant, &first, &new)?;
        let row = RunRow {
            owner: Some(new.owner),
            definition: new.definition.hash.clone(),
            metadata: new.metadata.clone(),
            ..RunRow::begun(first.run, &first.thread, &new.branch, head.index, new.at)
        };
        Fence::of(&first).allows(&row)?; // from here on nothing is refused
        let run = MemRun { row, steps: Vec::new(), claims: Vec::new(), inbox: Vec::new() };
        inner.runs.insert((tenant.clone(), first.run), run);
        let lane = inner.take_branch(tenant, &new, first.run, head)?;
        inner.begin(tenant, new, Transition { lane, ..first })
    }

    pub(crate) fn claim(
        &self,
        tenant: &Tenant,
        run: RunId,
        owner: OwnerId,
        mode: ClaimMode,
        at: Timestamp,
    ) -> Result<Claimed, StoreError> {
        let mut inner = self.lock();
        let living = inner.living.clone();
        let found = inner.run_mut(tenant, run)?;
        let life = |owner| if living.contains(&owner) { Liveness::Lives } else { Liveness::Dead };
        let died = crate::runs::may_claim(&found.row, mode, life)? == Liveness::Dead;
        found.row.epoch += 1;
        found.row.owner = Some(owner);
        found.row.status = RunStatus::Running;
        found.row.wake_at = None;
        found.row.attempts += u32::from(died);
        found.claims.push(ClaimRow { epoch: found.row.epoch, base_seq: found.row.seq });
        let _ = at;
        let row = found.row.clone();
        let checkpoint = found.steps.last().map(|step| step.checkpoint.clone());
        let checkpoint = checkpoint.ok_or_else(|| StoreError::corrupt("run", run, "it has no first step"))?;
        let definition = inner.definition(tenant, &row.definition)?;
        Ok(Claimed { row, definition, checkpoint })
    }

    pub(crate) fn definition(&self, tenant: &Tenant, hash: &str) -> Result<Definition, StoreError> {
        self.lock().definition(tenant, hash)
    }

    pub(crate) fn commit(&self, tenant: &Tenant, transition: &Transition) -> Result<(), StoreError> {
        self.lock().advance(tenant, transition.clone())
    }

    /// Writes a transition without checking its claim: the fault that the checker must find.
    #[cfg(feature = "failpoints")]
    pub(crate) fn commit_unfenced(&self, tenant: &Tenant, transition: Transition) -> Result<(), StoreError> {
        let mut inner = self.lock();
        let step = inner.run(tenant, transition.run)?.row.step + 1;
        inner.write_down(tenant, Transition { step, ..transition })
    }

    pub(crate) fn release(&self, tenant: &Tenant, run: RunId, epoch: u32) -> Result<(), StoreError> {
        let mut inner = self.lock();
        let found = inner.run_mut(tenant, run)?;
        if found.row.epoch == epoch && found.row.status == RunStatus::Running {
            found.row.owner = None;
        }
        Ok(())
    }

    pub(crate) fn decide(
        &self,
        tenant: &Tenant,
        run: RunId,
        message: Message,
        by: Option<String>,
        at: Timestamp,
        audit: Option<AuditEvent>,
    ) -> Result<u32, StoreError> {
        let mut inner = self.lock();
        let MemRun { row, inbox, .. } = inner.run(tenant, run)?;
        let hash = crate::runs::input_hash(&message);
        let is_it = |posted: &&Posted| hash.is_some() && crate::runs::input_hash(&posted.message) == hash;
        if let Some(posted) = inbox.iter().find(is_it) {
            return Ok(posted.n);
        }
        if row.status.has_ended() {
            return Err(StoreError::Ended { run, status: row.status });
        }
        if let Message::Decision { approval_id, .. } = &message {
            let key = (tenant.clone(), approval_id.clone());
            let approval = inner.approvals.get_mut(&key).filter(|a| a.run_id == run);
            let approval = approval.ok_or_else(|| StoreError::not_found("approval", approval_id))?;
            crate::runs::decide(approval, &message, by, at)?;
        }
        let found = inner.run_mut(tenant, run)?;
        found.row.inbox += 1;
        let n = found.row.inbox;
        found.inbox.push(Posted { n, message });
        inner.note_events(tenant, audit);
        Ok(n)
    }

    pub(crate) fn inbox(&self, tenant: &Tenant, run: RunId, after: u32) -> Result<Vec<Posted>, StoreError> {
        let inner = self.lock();
        let found = inner.run(tenant, run)?;
        Ok(found.inbox.iter().filter(|posted| posted.n > after).cloned().collect())
    }

    pub(crate) fn run(&self, tenant: &Tenant, run: RunId) -> Result<RunRow, StoreError> {
        self.lock().run(tenant, run).map(|found| found.row.clone())
    }

    pub(crate) fn runs(&self, tenant: &Tenant, filter: &RunFilter) -> Result<Vec<RunRow>, StoreError> {
        let inner = self.lock();
        let ours = inner.runs.iter().rev().filter(|((t, _), _)| t == tenant).map(|(_, run)| &run.row);
        Ok(ours.filter(|row| crate::runs::fits(row, filter)).take(filter.limit as usize).cloned().collect())
    }

    pub(crate) fn usage_of_thread(
        &self,
        tenant: &Tenant,
        thread: &ThreadId,
    ) -> Result<ThreadUsage, StoreError> {
        let inner = self.lock();
        inner.thread(tenant, thread)?;
        let ours = inner.runs.iter().filter(|((t, _), run)| t == tenant && run.row.thread == *thread);
        Ok(ours.map(|(_, run)| &run.row.budget).collect())
    }

    pub(crate) fn steps(
        &self,
        tenant: &Tenant,
        run: RunId,
        after: u32,
        limit: u32,
    ) -> Result<Vec<StepRow>, StoreError> {
        let inner = self.lock();
        let steps = &inner.run(tenant, run)?.steps;
        Ok(steps.iter().filter(|step| step.step > after).take(limit as usize).cloned().collect())
    }

    pub(crate) fn steps_with(
        &self,
        tenant: &Tenant,
        run: RunId,
        seq: u64,
        limit: u32,
    ) -> Result<Vec<StepRow>, StoreError> {
        let inner = self.lock();
        let steps = &inner.run(tenant, run)?.steps;
        Ok(steps.iter().filter(|step| step.last_seq >= seq).take(limit as usize).cloned().collect())
    }

    pub(crate) fn claims(&self, tenant: &Tenant, run: RunId) -> Result<Vec<ClaimRow>, StoreError> {
        self.lock().run(tenant, run).map(|found| found.claims.clone())
    }

    pub(crate) fn approval(&self, tenant: &Tenant, id: &str) -> Result<Approval, StoreError> {
        let found = self.lock().approvals.get(&(tenant.clone(), id.to_owned())).cloned();
        found.ok_or_else(|| StoreError::not_found("approval", id))
    }

    pub(crate) fn approvals(
        &self,
        tenant: &Tenant,
        status: Option<ApprovalStatus>,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Approval>, StoreError> {
        let after = after.map(|id| self.approval(tenant, id)).transpose()?;
        let inner = self.lock();
        let ours = inner.approvals.iter().filter(|((t, _), _)| t == tenant).map(|(_, approval)| approval);
        let ours = ours.filter(|a| status.is_none_or(|s| a.status == s));
        let older = |a: &&Approval| after.as_ref().is_none_or(|b| (a.created, &a.id) < (b.created, &b.id));
        let mut found: Vec<_> = ours.filter(older).cloned().collect();
        found.sort_by(|a, b| b.created.cmp(&a.created).then_with(|| b.id.cmp(&a.id)));
        found.truncate(limit as usize);
        Ok(found)
    }

    pub(crate) fn pulses(&self, owner: OwnerId) -> Vec<Pulse> {
        let inner = self.lock();
        let held = inner.runs.values().map(|run| &run.row).filter(|row| row.owner == Some(owner));
        held.map(|row| Pulse { run: row.id, inbox: row.inbox, watched_until: row.watched_until }).collect()
    }

    pub(crate) fn watch(&self, tenant: &Tenant, run: RunId, until: Timestamp) -> Result<(), StoreError> {
        self.lock().run_mut(tenant, run)?.row.watched_until = Some(until);
        Ok(())
    }

    pub(crate) fn watch_all(&self, runs: &[(Tenant, RunId)], until: Timestamp) -> Result<(), StoreError> {
        let mut inner = self.lock();
        for key in runs {
            if let Some(run) = inner.runs.get_mut(key) {
                run.row.watched_until = Some(until);
            }
        }
        Ok(())
    }

    pub(crate) fn due(&self, now: Timestamp) -> Result<Vec<(Tenant, RunId)>, StoreError> {
        let page = self.due_page(now, DueFrom::default(), u32::MAX)?;
        Ok(page.runs.into_iter().map(|due| (due.tenant, due.run)).collect())
    }

    /// Returns all due runs as one page: nothing has to be read for them.
    pub(crate) fn due_page(&self, now: Timestamp, _: DueFrom, _: u32) -> Result<DuePage, StoreError> {
        let inner = self.lock();
        let is_due = |run: &MemRun| {
            let read = run.steps.last().map_or(0, |step| step.checkpoint.inbox_read);
            crate::runs::is_due(&run.row, read, now, |owner| inner.living.contains(&owner))
        };
        let due = |key: &(Tenant, RunId)| {
            let row = &inner.runs.get(key)?.row;
            let attempts = row.attempts + u32::from(row.owner.is_some());
            let (inbox, definition) = (row.inbox, row.definition.clone());
            let is_queued = row.status == RunStatus::Queued;
            Some(Due { tenant: key.0.clone(), run: key.1, attempts, inbox, definition, is_queued })
        };
        let begun = inner.runs.iter().filter(|(_, run)| is_due(run)).map(|(key, _)| key.clone());
        let all = begun.chain(inner.next_in_line());
        Ok(DuePage { runs: all.filter_map(|key| due(&key)).collect(), rest: None })
    }
}

impl MemState {
    fn definition(&self, tenant: &Tenant, hash: &str) -> Result<Definition, StoreError> {
        let found = self.definitions.get(&(tenant.clone(), hash.to_owned())).cloned();
        found.ok_or_else(|| StoreError::not_found("definition", hash))
    }

    /// The head of a branch, if the branch is free, the run is next in its queue, and the head is where the run expects
    /// it.
    fn free_head(&self, tenant: &Tenant, first: &Transition, new: &NewRun) -> Result<Place, StoreError> {
        let thread = self.thread(tenant, &first.thread)?;
        thread.not_busy(&new.branch)?;
        let head = thread.tree.branch(&new.branch)?.head;
        let next = self.first_in_line(tenant, &first.thread, &new.branch);
        crate::runs::in_turn(&new.branch, first.run, next)?;
        crate::runs::unmoved(new, head.index, thread.written_by(head))?;
        Ok(head)
    }

    /// Gives a branch to a run; returns the lane that the run writes to.
    fn take_branch(
        &mut self,
        tenant: &Tenant,
        new: &NewRun,
        run: RunId,
        head: Place,
    ) -> Result<u32, StoreError> {
        let thread = self.run(tenant, run)?.row.thread.clone();
        let thread = self.thread_mut(tenant, &thread)?;
        let tip = thread.tip(head.lane);
        let lane = thread.tree.append_lane(&new.branch, tip)?;
        thread.busy.insert(new.branch.clone(), run);
        thread.touched.insert(new.branch.clone(), new.at);
        Ok(lane)
    }

    /// Begins a queued run. One that ends at once never takes its branch.
    fn start_queued(&mut self, tenant: &Tenant, new: NewRun, first: Transition) -> Result<u32, StoreError> {
        let row = self.run(tenant, first.run)?.row.clone();
        if row.status != RunStatus::Queued {
            return Err(crate::runs::begun_already(&row));
        }
        crate::runs::own_key(self.unused(tenant, new.key.as_ref(), new.at), first.run, true)?;
        let takes = !matches!(first.rest, RunHalt::Ended(_));
        let head = if takes { Some(self.free_head(tenant, &first, &new)?) } else { None };
        let running = RunRow {
            status: RunStatus::Running,
            owner: Some(new.owner),
            head: new.expected_head,
            definition: new.definition.hash.clone(),
            ..row
        };
        Fence::of(&first).allows(&running)?; // from here on nothing is refused
        let mut lane = running.lane;
        self.run_mut(tenant, first.run)?.row = running;
        self.leave_line(tenant, first.run);
        if let Some(head) = head {
            lane = self.take_branch(tenant, &new, first.run, head)?;
        }
        self.begin(tenant, new, Transition { lane, ..first })
    }

    /// Writes the first transition of a run whose row exists.
    fn begin(&mut self, tenant: &Tenant, new: NewRun, first: Transition) -> Result<u32, StoreError> {
        if let Some(key) = &new.key {
            self.note_key(tenant, key, Some(first.run), None);
        }
        let PinnedDefinition { definition, hash } = &*new.definition;
        self.definitions.insert((tenant.clone(), hash.clone()), (**definition).clone());
        let lane = first.lane;
        let run = self.run_mut(tenant, first.run)?;
        run.row.lane = lane;
        run.claims.push(ClaimRow { epoch: 1, base_seq: 0 });
        self.advance(tenant, first)?;
        Ok(lane)
    }

    fn advance(&mut self, tenant: &Tenant, transition: Transition) -> Result<(), StoreError> {
        Fence::of(&transition).allows(&self.run(tenant, transition.run)?.row)?;
        self.write_down(tenant, transition)
    }

    fn write_down(&mut self, tenant: &Tenant, transition: Transition) -> Result<(), StoreError> {
        let first_seq = transition.last_seq + 1 - transition.checkpoint.events.len() as u64;
        let Transition { run, thread, lane, entries, asked, settled, audit, rest, .. } = transition;
        let head = transition.checkpoint.head;
        let rows = self.thread_mut(tenant, &thread)?;
        let first = head - entries.len() as i64 + 1;
        for (index, new) in (first..).zip(entries) {
            let placed = PlacedEntry { index, id: new.id, at: new.at, run: Some(run), entry: new.entry };
            rows.insert(lane, placed);
        }
        for approval in asked {
            self.approvals.insert((tenant.clone(), approval.id.clone()), approval);
        }
        for (id, status) in settled {
            if let Some(approval) = self.approvals.get_mut(&(tenant.clone(), id)) {
                crate::runs::settle(approval, status, transition.checkpoint.at);
            }
        }
        for event in audit {
            self.note_event(tenant, event);
        }
        let at = transition.checkpoint.at;
        let found = self.run_mut(tenant, run)?;
        let row = &mut found.row;
        row.step = transition.step;
        row.seq = transition.last_seq;
        row.head = head;
        row.budget.clone_from(&transition.checkpoint.budget);
        if transition.progress {
            row.attempts = 0;
        }
        found.steps.push(StepRow {
            step: transition.step,
            epoch: transition.epoch,
            frame: transition.frame,
            first_seq,
            last_seq: transition.last_seq,
            checkpoint: transition.checkpoint,
        });
        match rest {
            RunHalt::Running => {}
            RunHalt::Suspended { wake_at } => {
                (row.status, row.owner, row.wake_at) = (RunStatus::Suspended, None, Some(wake_at));
            }
            RunHalt::Ended(status) => {
                (row.status, row.owner, row.wake_at, row.ended) = (status, None, None, Some(at));
                let branch = row.branch.clone();
                let rows = self.thread_mut(tenant, &thread)?;
                if rows.busy.get(&branch) != Some(&run) {
                    return Ok(()); // it never held its branch
                }
                rows.busy.remove(&branch);
                rows.touched.insert(branch.clone(), at);
                if let Some(branch) = rows.tree.branches.get_mut(&branch) {
                    branch.head = Place { lane, index: head };
                }
            }
        }
        Ok(())
    }
}
