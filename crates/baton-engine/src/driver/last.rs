//! Ends that are not the flow's own: a run that was given up, and one that never began.

use baton_core::fault::{Code, Fault};
use baton_core::flow::{Node, Record};
use baton_core::run::{ApprovalStatus, RunStatus, Step, StepKind, Verdict};
use baton_core::thread::entry::AssistantMessage;
use baton_core::thread::{Closing, Entry, WaitingKind};
use baton_store::{NewRun, RunHalt, StoreError, Transition};
use serde_json::Value;

use super::commit::{Draft, ended};
use super::first::begin;
use super::{Driver, Going, Rested};
use crate::audit::Told;
use crate::engine::started;
use crate::error::EngineError;
use crate::patience::patiently;
use crate::plan::Plan;

impl Driver {
    /// Closes open calls and approvals, and adds the reason why the run ends to its account.
    pub(super) fn last_words(&self, steps: Vec<Step>, fault: &Fault) -> Record {
        let at_end = Record::at(self.tail.clone(), self.row.head, Node::Respond);
        let mut record = Record { steps, ..at_end };
        let metadata = [("error", Value::from(fault.code.as_str()))];
        record.account(StepKind::Warning, fault.message.clone(), metadata);
        for entry in self.tail.closing(Closing::Unknown, "the run was given up") {
            record.append(entry);
        }
        record.append(Entry::AssistantMessage(AssistantMessage {
            reasoning: None,
            content: String::new(),
            tool_calls: Vec::new(),
            meta: Some(format!("error:{}", fault.code.as_str())),
        }));
        let asked = self.flow.waiting().into_iter().filter(|waiting| waiting.kind == WaitingKind::Approval);
        record.settled.extend(asked.map(|waiting| (waiting.id, ApprovalStatus::Cancelled)));
        record
    }

    /// Gives up a run that brought its process down repeatedly.
    pub(super) async fn poisoned(&mut self) -> Result<Going, EngineError> {
        let why = format!("it brought its process down {} times", self.row.attempts);
        let fault = Fault::new(Code::Poisoned, why);
        let record = self.last_words(Vec::new(), &fault);
        self.again.clear();
        self.inbox_read = self.row.inbox;
        let end = Plan::End(Verdict::Error(fault));
        loop {
            let (record, state, budget) = (record.clone(), self.flow.record(), self.budget.clone());
            let draft = Draft { record, state, budget, queued: None, leaving: None, held: false };
            match self.write(draft, &end).await {
                // Messages posted to it meanwhile do not matter any more.
                Err(EngineError::Store(StoreError::Unread { inbox })) => self.inbox_read = inbox,
                written => return written.map(|()| Going::Rest(Rested::Ended(RunStatus::Error))),
            }
        }
    }

    /// Writes the only transition of a queued run that never began.
    pub(crate) async fn never_begun(self, new: NewRun, verdict: Verdict) -> Result<(), EngineError> {
        let mut record = Record::at(self.tail.clone(), self.row.head, Node::Respond);
        let (why, error) = match &verdict {
            Verdict::Error(fault) => (fault.message.as_str(), Some(("error", fault.code.as_str().into()))),
            _ => ("cancelled before its turn came", None),
        };
        record.account(StepKind::Warning, why.to_owned(), error);
        let (status, ended) = ended(&verdict, &self.budget);
        let (state, budget) = (self.state.clone(), self.budget.clone());
        let events = vec![started(&self.row.thread, &self.row.branch, &self.definition), ended];
        let usage = self.budget.usage();
        let mut transition = Transition {
            rest: RunHalt::Ended(status),
            ..self.transition(record, events, budget, self.row.inbox, Vec::new(), state)
        };
        let told = Told::Ended(&verdict, usage);
        transition.audit.push(self.audit_line(transition.checkpoint.at, &told, None));
        let (tenant, run, store) = (self.performer.tenant.clone(), self.run(), self.shared.store.clone());
        let begun = patiently!(self.shared, begin(&store, &tenant, run, &new, &transition));
        match begun {
            // Another process was faster.
            Err(StoreError::Ended { .. } | StoreError::NotFound { .. } | StoreError::Fenced { .. }) => Ok(()),
            other => other.map(|_| ()).map_err(Into::into),
        }
    }
}
