//! Threads in memory.

use baton_core::id::{BranchName, RunId, Tenant, ThreadId};
use baton_core::thread::{NewEntry, Place, PlacedEntry, Tail, Tree};

use super::{MemState, MemThread, MemoryStore};
use crate::error::StoreError;
use crate::service::AuditEvent;
use crate::threads::FirstMarked;
use crate::transition::NewThread;
use crate::view::{BranchEnd, BranchView, ForkAt, PruneRequest, Pruned, Rewound, Slice, ThreadView};

impl MemoryStore {
    pub(crate) fn create_thread(&self, tenant: &Tenant, new: NewThread) -> Result<(), StoreError> {
        let mut inner = self.lock();
        if inner.threads.contains_key(&(tenant.clone(), new.id.clone())) {
            return Err(StoreError::Exists { what: "thread", id: new.id.to_string() });
        }
        inner.add_thread(tenant, new);
        Ok(())
    }

    pub(crate) fn thread(&self, tenant: &Tenant, id: &ThreadId) -> Result<ThreadView, StoreError> {
        let inner = self.lock();
        inner.thread(tenant, id).map(|thread| inner.view(tenant, id, thread))
    }

    pub(crate) fn threads(
        &self,
        tenant: &Tenant,
        limit: u32,
        after: Option<&ThreadId>,
    ) -> Result<Vec<ThreadView>, StoreError> {
        let inner = self.lock();
        let before = after.map(|id| inner.thread(tenant, id).map(|t| t.born)).transpose()?;
        let mut found: Vec<_> = inner.threads.iter().filter(|((t, _), _)| t == tenant).collect();
        found.sort_by_key(|(_, thread)| std::cmp::Reverse(thread.born));
        Ok(found
            .into_iter()
            .filter(|(_, thread)| before.is_none_or(|born| thread.born < born))
            .take(limit as usize)
            .map(|((_, id), thread)| inner.view(tenant, id, thread))
            .collect())
    }

    pub(crate) fn delete_thread(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        audit: Option<AuditEvent>,
    ) -> Result<(), StoreError> {
        let mut inner = self.lock();
        if let Some((branch, run)) = inner.thread(tenant, id)?.busy.iter().next() {
            return Err(StoreError::Busy { branch: branch.to_string(), run: *run });
        }
        if audit.is_some() && inner.has_untold(tenant, id) {
            return Err(StoreError::Untold { thread: id.to_string() });
        }
        inner.threads.remove(&(tenant.clone(), id.clone()));
        inner.runs.retain(|(t, _), run| !(t == tenant && run.row.thread == *id));
        inner.queue.retain(|q| !(q.tenant == *tenant && q.thread == *id));
        let runs: std::collections::BTreeSet<_> = inner.runs.keys().cloned().collect();
        inner.approvals.retain(|(t, _), approval| runs.contains(&(t.clone(), approval.run_id)));
        inner.note_events(tenant, audit);
        Ok(())
    }

    pub(crate) fn rename_thread(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        to: &ThreadId,
    ) -> Result<(), StoreError> {
        let mut inner = self.lock();
        if let Some((branch, run)) = inner.thread(tenant, id)?.busy.iter().next() {
            return Err(StoreError::Busy { branch: branch.to_string(), run: *run });
        }
        let key = (tenant.clone(), to.clone());
        if inner.threads.contains_key(&key) {
            return Err(StoreError::Exists { what: "thread", id: to.to_string() });
        }
        if let Some(thread) = inner.threads.remove(&(tenant.clone(), id.clone())) {
            inner.threads.insert(key, thread);
        }
        for waits in inner.queue.iter_mut().filter(|q| q.tenant == *tenant && q.thread == *id) {
            waits.thread = to.clone();
        }
        for run in inner.runs.iter_mut().filter(|((t, _), _)| t == tenant).map(|(_, run)| run) {
            if run.row.thread == *id {
                run.row.thread = to.clone();
            }
        }
        Ok(())
    }

    pub(crate) fn distrust(&self, tenant: &Tenant, id: &ThreadId) -> Result<(), StoreError> {
        let mut inner = self.lock();
        let thread = inner.thread_mut(tenant, id)?;
        thread.marked = thread.tree.lanes.keys().map(|lane| (*lane, FirstMarked::both(0))).collect();
        Ok(())
    }

    pub(crate) fn entries(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        branch: Option<&BranchName>,
        slice: Slice,
    ) -> Result<Vec<PlacedEntry>, StoreError> {
        let inner = self.lock();
        let thread = inner.thread(tenant, id)?;
        let head = inner.head(tenant, thread, branch.unwrap_or(&thread.tree.current))?;
        let last = slice.before.map_or(head.index, |before| head.index.min(before.saturating_sub(1)));
        let first = slice.last_n.map_or(0, |n| last.saturating_sub(i64::from(n) - 1).max(0));
        let end = thread.tree.place_at(head, last.max(-1)).unwrap_or(head);
        Ok(thread.read(end, first))
    }

    pub(crate) fn end(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        branch: Option<&BranchName>,
    ) -> Result<BranchEnd, StoreError> {
        let inner = self.lock();
        let thread = inner.thread(tenant, id)?;
        let branch = branch.unwrap_or(&thread.tree.current).clone();
        let head = inner.head(tenant, thread, &branch)?;
        let marked = crate::threads::first_marked(&thread.tree, head, &thread.marked);
        let lane = crate::threads::own_lane(&thread.tree, &branch, head, thread.tip(head.lane));
        let written_by = thread.written_by(head);
        let (tail, FirstMarked { untrusted, private }) = (thread.tail(head), marked);
        Ok(BranchEnd { branch, head: head.index, tail, untrusted, private, written_by, lane })
    }

    pub(crate) fn push(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        branch: Option<&BranchName>,
        new: NewEntry,
    ) -> Result<i64, StoreError> {
        let mut inner = self.lock();
        let thread = inner.thread_mut(tenant, id)?;
        let branch = branch.unwrap_or(&thread.tree.current).clone();
        thread.not_busy(&branch)?;
        let head = thread.tree.branch(&branch)?.head;
        crate::threads::check_push(&new.entry, thread.tail(head), || Ok(thread.read(head, 0)))?;
        let tip = thread.tip(head.lane);
        let lane = thread.tree.append_lane(&branch, tip)?;
        let index = head.index + 1;
        thread.touched.insert(branch.clone(), new.at);
        let NewEntry { id, at, entry } = new;
        thread.insert(lane, PlacedEntry { index, id, at, run: None, entry });
        if let Some(branch) = thread.tree.branches.get_mut(&branch) {
            branch.head = Place { lane, index };
        }
        Ok(index)
    }

    pub(crate) fn fork(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        from: Option<&BranchName>,
        at: &ForkAt,
        name: BranchName,
        now: baton_core::time::Timestamp,
    ) -> Result<Place, StoreError> {
        let mut inner = self.lock();
        let thread = inner.thread(tenant, id)?;
        let from = from.unwrap_or(&thread.tree.current).clone();
        let head = inner.head(tenant, thread, &from)?;
        let entry_at = |entry| {
            thread
                .entries
                .iter()
                .find(|(_, e)| e.id == entry)
                .map(|((l, i), _)| Place { lane: *l, index: *i })
        };
        let place = crate::threads::fork_place(&thread.tree, head, &from, at, entry_at)?;
        let thread = inner.thread_mut(tenant, id)?;
        thread.tree.fork_at(place, (from, place.index), name.clone())?;
        thread.touched.insert(name, now);
        Ok(place)
    }

    pub(crate) fn checkout(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        branch: &BranchName,
    ) -> Result<(), StoreError> {
        Ok(self.lock().thread_mut(tenant, id)?.tree.checkout(branch)?)
    }

    pub(crate) fn rewind(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        branch: Option<&BranchName>,
        index: i64,
    ) -> Result<Rewound, StoreError> {
        let mut inner = self.lock();
        let thread = inner.thread_mut(tenant, id)?;
        let branch = branch.unwrap_or(&thread.tree.current).clone();
        thread.not_busy(&branch)?;
        let before = thread.tree.rewind(&branch, index)?;
        let previous_entry = thread.read(before, before.index).pop().map(|entry| entry.id);
        Ok(Rewound { branch, previous_head: before.index, previous_entry })
    }

    pub(crate) fn delete_branch(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        branch: &BranchName,
    ) -> Result<(), StoreError> {
        let mut inner = self.lock();
        let thread = inner.thread_mut(tenant, id)?;
        thread.not_busy(branch)?;
        thread.tree.delete(branch)?;
        thread.touched.remove(branch);
        Ok(())
    }

    pub(crate) fn prune(
        &self,
        tenant: &Tenant,
        id: &ThreadId,
        request: &PruneRequest,
    ) -> Result<Pruned, StoreError> {
        let mut inner = self.lock();
        let runs: Vec<Place> = inner.unfinished(tenant, id);
        let thread = inner.thread_mut(tenant, id)?;
        let mut tree = thread.tree.clone();
        let idle = |name: &BranchName| {
            request.idle_before.is_some_and(|before| thread.touched.get(name).is_none_or(|at| *at < before))
        };
        let branches =
            crate::threads::idle_branches(&tree, request, idle, |name| thread.busy.contains_key(name));
        for name in &branches {
            tree.branches.remove(name);
        }
        let reached = tree.reached(&runs);
        let gone = |(lane, index): &(u32, i64)| reached.get(lane).is_none_or(|last| index > last);
        let entries = thread.entries.keys().filter(|key| gone(key)).count() as u64;
        let lanes = tree.lanes.keys().filter(|lane| !reached.contains_key(lane)).count() as u64;
        if !request.dry_run {
            thread.entries.retain(|key, _| !gone(key));
            thread.marked.retain(|lane, marked| {
                *marked = marked.up_to(reached.get(lane).copied().unwrap_or(-1));
                !marked.is_clean()
            });
            tree.lanes.retain(|lane, _| reached.contains_key(lane));
            thread.touched.retain(|name, _| tree.branches.contains_key(name));
            thread.tree = tree;
        }
        Ok(Pruned { branches, lanes, entries })
    }
}

impl MemState {
    /// Creates a thread, if it does not exist.
    pub(super) fn add_thread(&mut self, tenant: &Tenant, new: NewThread) {
        let born = self.next_born();
        self.threads.entry((tenant.clone(), new.id)).or_insert_with(|| MemThread {
            born,
            created: new.at,
            ttl_at: new.ttl_at,
            meta: new.meta,
            tree: Tree::default(),
            busy: Default::default(),
            touched: [(BranchName::main(), new.at)].into(),
            entries: Default::default(),
            marked: Default::default(),
        });
    }

    /// The head of a branch: a branch in use ends where its run does.
    pub(super) fn head(
        &self,
        tenant: &Tenant,
        thread: &MemThread,
        branch: &BranchName,
    ) -> Result<Place, StoreError> {
        let head = thread.tree.branch(branch)?.head;
        match thread.busy.get(branch) {
            Some(run) => self.run(tenant, *run).map(|run| Place { lane: run.row.lane, index: run.row.head }),
            None => Ok(head),
        }
    }

    fn view(&self, tenant: &Tenant, id: &ThreadId, thread: &MemThread) -> ThreadView {
        let branches = thread.tree.branches.iter().map(|(name, branch)| BranchView {
            name: name.clone(),
            head: self.head(tenant, thread, name).unwrap_or(branch.head),
            forked_from: branch.forked_from.clone(),
            run: thread.busy.get(name).copied(),
        });
        ThreadView {
            id: id.clone(),
            current: thread.tree.current.clone(),
            created: thread.created,
            ttl_at: thread.ttl_at,
            meta: thread.meta.clone(),
            branches: branches.collect(),
        }
    }

    fn unfinished(&self, tenant: &Tenant, id: &ThreadId) -> Vec<Place> {
        let ours = self.runs.iter().filter(|((t, _), run)| t == tenant && run.row.thread == *id);
        ours.filter(|(_, run)| !run.row.status.has_ended())
            .map(|(_, run)| Place { lane: run.row.lane, index: run.row.head })
            .collect()
    }
}

impl MemThread {
    pub(super) fn not_busy(&self, branch: &BranchName) -> Result<(), StoreError> {
        match self.busy.get(branch) {
            Some(run) => Err(StoreError::Busy { branch: branch.to_string(), run: *run }),
            None => Ok(()),
        }
    }

    /// Appends an entry to a lane.
    pub(super) fn insert(&mut self, lane: u32, placed: PlacedEntry) {
        let (untrusted, private) = (placed.entry.is_untrusted(), placed.entry.is_private());
        if untrusted || private {
            self.marked.entry(lane).or_default().note(untrusted, private, placed.index);
        }
        self.entries.insert((lane, placed.index), placed);
    }

    pub(super) fn tip(&self, lane: u32) -> i64 {
        self.entries
            .range((lane, i64::MIN)..=(lane, i64::MAX))
            .next_back()
            .map_or(-1, |((_, index), _)| *index)
    }

    fn read(&self, head: Place, first: i64) -> Vec<PlacedEntry> {
        let segments = self.tree.segments(head, first);
        segments
            .iter()
            .flat_map(|s| self.entries.range((s.lane, s.first)..=(s.lane, s.last)).map(|(_, e)| e.clone()))
            .collect()
    }

    /// The run that wrote an entry.
    pub(super) fn written_by(&self, place: Place) -> Option<RunId> {
        self.entries.get(&(place.lane, place.index)).and_then(|placed| placed.run)
    }

    pub(super) fn tail(&self, head: Place) -> Tail {
        crate::threads::tail_of(&self.read(head, 0))
    }
}
