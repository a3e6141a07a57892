//! A run forked from a step of another: its branch holds nothing of the steps after that one.

use std::collections::BTreeMap;
use std::sync::Arc;

use baton_core::flow::{Flow, Next, Node, Record, Setting};
use baton_core::id::{BranchName, FramePath, RunId, Tenant};
use baton_core::thread::{Entry, PlacedEntry, TreeError};
use baton_store::{ForkAt, NewKey, NewRun, PinnedDefinition, RunRow, Slice, StoreError};
use serde_json::Value;
use uuid::Uuid;

use super::start::{repeated, submitted};
use super::{Engine, started};
use crate::error::EngineError;
use crate::patience::patiently;
use crate::recent::Recent;
use crate::request::Submitted;

impl Engine {
    /// Begins a run that goes on from a step of another, on a branch of its own that ends where that step
    /// left it. Calls that were open there need approval again: they may have happened since.
    pub async fn fork_run(
        &self,
        tenant: &Tenant,
        run: RunId,
        step: u32,
        key: Option<NewKey>,
    ) -> Result<Submitted, EngineError> {
        if self.shared.closing.is_cancelled() {
            return Err(EngineError::ShuttingDown);
        }
        let (shared, store) = (&self.shared, &self.shared.store);
        if let Some(new) = &key {
            let now = shared.clock.now();
            if let Some(known) = patiently!(shared, store.key(tenant, &new.route, &new.key, now))? {
                return repeated(&known, new);
            }
        }
        let row = patiently!(shared, store.run(tenant, run))?;
        let none = || EngineError::Store(StoreError::NotFound { what: "step", id: step.to_string() });
        let before = step.checked_sub(1).ok_or_else(none)?;
        let from = patiently!(shared, store.steps(tenant, run, before, 1))?.pop().ok_or_else(none)?;
        let definition = patiently!(shared, store.definition(tenant, &row.definition))?;
        let definition = Arc::new(definition);
        let id = RunId(Uuid::now_v7());
        let setting = Setting { run: id, path: FramePath::root(), definition: definition.clone() };
        let mut flow = Flow::restore(setting, from.checkpoint.state)?;
        if let Next::Finish(_) = flow.next() {
            let why = format!("the run ends with step {step}: fork from an earlier one");
            return Err(EngineError::Invalid(why));
        }
        let head = from.checkpoint.head;
        let branch = self.fork_branch(tenant, &row, head).await?;
        let arguments = self.arguments_of(tenant, &row, &branch, &flow.open_calls()).await?;
        let mut record = Record::at(from.checkpoint.tail, head, Node::Start);
        record.emit(started(&row.thread, &branch, &definition));
        let at = shared.clock.now();
        flow.fork(&arguments, at, &mut record);
        let begun = RunRow::begun(id, &row.thread, &branch, head, at);
        let metadata = row.metadata.clone();
        let new = NewRun {
            owner: shared.owner.id,
            branch,
            expected_head: head,
            after: None,
            definition: Arc::new(PinnedDefinition { definition: definition.clone(), hash: row.definition }),
            at,
            metadata: metadata.clone(),
            new_thread: None,
            lane: None,
            key: key.clone(),
            queued: false,
        };
        let mut driver =
            self.driver(RunRow { metadata, ..begun }, tenant, definition, flow, Recent::default());
        let intents = driver.first_intents();
        let attempt = self.attempt(tenant, id);
        let begun = attempt.ended(driver.first(new, record, intents, None, None).await);
        submitted(begun.map(|()| self.spawn(driver)), key.as_ref())
    }

    /// A branch that ends at an entry of a run, if the run's branch still holds the run's entries.
    async fn fork_branch(&self, tenant: &Tenant, row: &RunRow, head: i64) -> Result<BranchName, EngineError> {
        let (shared, store) = (&self.shared, &self.shared.store);
        let slice = Slice { before: Some(head + 1), last_n: Some(1) };
        let last = patiently!(shared, store.entries(tenant, &row.thread, Some(&row.branch), slice))?.pop();
        let Some(last) = last.filter(|last| last.index == head && last.run == Some(row.id)) else {
            let branch = row.branch.to_string();
            return Err(StoreError::Moved { branch }.into());
        };
        let name = format!("fork-{}", Uuid::now_v7().simple());
        let name: BranchName = name.parse().map_err(|e| EngineError::Invalid(format!("{e}")))?;
        let (from, now) = (Some(&row.branch), shared.clock.now());
        let at = ForkAt::Entry(last.id);
        match patiently!(shared, store.fork(tenant, &row.thread, from, &at, name.clone(), now)) {
            Err(StoreError::Tree(TreeError::BranchExists(_))) => {} // done, but the answer was lost: the name is unique
            other => {
                other?;
            }
        }
        Ok(name)
    }

    /// The arguments of calls, by the entries that hold them.
    async fn arguments_of(
        &self,
        tenant: &Tenant,
        row: &RunRow,
        branch: &BranchName,
        entries: &[i64],
    ) -> Result<BTreeMap<i64, Value>, EngineError> {
        let (shared, store) = (&self.shared, &self.shared.store);
        let Some(first) = entries.iter().min() else { return Ok(BTreeMap::new()) };
        let last_n = u32::try_from(row.head - first + 1).unwrap_or(u32::MAX);
        let slice = Slice { before: None, last_n: Some(last_n) };
        let read = patiently!(shared, store.entries(tenant, &row.thread, Some(branch), slice))?;
        let call = |placed: PlacedEntry| match placed.entry {
            Entry::ToolCall(call) if entries.contains(&placed.index) => Some((placed.index, call.arguments)),
            _ => None,
        };
        Ok(read.into_iter().filter_map(call).collect())
    }
}
