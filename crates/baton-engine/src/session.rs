//! A session as users see it: its messages, its current plan, and its usage.
//!
//! A session is not stored as such. Messages are rendered from the entries of a branch each time, without the
//! instructions, which belong to each run; usage is summed over the runs of the thread.

use baton_core::chat::ChatMessage;
use baton_core::id::{BranchName, RunId, Tenant, ThreadId};
use baton_core::render::{chosen, messages};
use baton_core::run::{Approval, OrchestratorResult, PLAN, SessionMetrics};
use baton_core::thread::{Entry, WaitingKind};
use baton_store::Slice;
use serde_json::Value;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::orchestrator::told;
use crate::patience::patiently;
use crate::request::RunView;

/// A session on one branch; see the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// The messages of the branch. A summary that replaced some of them for models is left out.
    pub messages: Vec<ChatMessage>,
    /// The last plan that was made on the branch.
    pub last_plan: Option<Value>,
    /// The usage of all runs of the thread, on any branch.
    pub metrics: SessionMetrics,
}

impl Engine {
    /// A session, as it stands on a branch (absent: the current one).
    pub async fn session(
        &self,
        tenant: &Tenant,
        thread: &ThreadId,
        branch: Option<&BranchName>,
    ) -> Result<Session, EngineError> {
        let (shared, store) = (&self.shared, &self.shared.store);
        let placed = patiently!(shared, store.entries(tenant, thread, branch, Slice::default()))?;
        let entries: Vec<Entry> = placed.into_iter().map(|placed| placed.entry).collect();
        let last_plan = entries.iter().rev().find_map(|entry| match entry {
            Entry::Custom(custom) if custom.t == PLAN => {
                let whole = || Value::Object(custom.data.clone());
                Some(custom.data.get("plan").cloned().unwrap_or_else(whole))
            }
            _ => None,
        });
        let used = patiently!(shared, store.usage_of_thread(tenant, thread))?;
        let metrics = SessionMetrics {
            llm_calls: used.model_calls,
            tools: used.tool_calls,
            tokens: used.prompt_tokens.saturating_add(used.completion_tokens),
            errors: used.errors,
        };
        let shown = chosen(&entries, 0, 0, [None, None], &[]);
        Ok(Session { messages: messages("", shown), last_plan, metrics })
    }

    /// The result of a run at its last rest, in the form of [`crate::Orchestrator`], without the account's lines from
    /// before the claim `epoch`: for the claim under which the run was taken up, these are the lines since then.
    pub async fn result(
        &self,
        tenant: &Tenant,
        run: RunId,
        epoch: u32,
    ) -> Result<OrchestratorResult, EngineError> {
        let lines = self.lines_before(tenant, run, epoch).await?;
        let view = self.view(tenant, run).await?;
        Ok(told::result(&view, lines, &self.asked(tenant, &view).await))
    }

    /// How many lines of a run's account are older than a claim.
    async fn lines_before(&self, tenant: &Tenant, run: RunId, epoch: u32) -> Result<usize, EngineError> {
        let (mut lines, mut after) = (0, 0);
        loop {
            let page = patiently!(self.shared, self.shared.store.steps(tenant, run, after, 100))?;
            let Some(last) = page.last() else { return Ok(lines) };
            after = last.step;
            let older = page.iter().filter(|step| step.epoch < epoch);
            lines += older.map(|step| step.checkpoint.account.len()).sum::<usize>();
            if last.epoch >= epoch {
                return Ok(lines);
            }
        }
    }

    /// The approvals that a run waits for. One that cannot be read is left out: it is still named by its id.
    pub(crate) async fn asked(&self, tenant: &Tenant, view: &RunView) -> Vec<Approval> {
        let mut asked = Vec::new();
        for waiting in view.waiting.iter().filter(|waiting| waiting.kind == WaitingKind::Approval) {
            let approval = patiently!(self.shared, self.shared.store.approval(tenant, &waiting.id));
            asked.extend(approval.ok());
        }
        asked
    }
}
