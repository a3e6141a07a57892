//! Operations of users on runs: cancel, decide, answer, steer, look.

use baton_core::effect::BlobRef;
use baton_core::event::Event;
use baton_core::flow::WaitingOn;
use baton_core::id::{RunId, Tenant};
use baton_core::policy::{CallRule, Mode};
use baton_core::run::{Approval, ApprovalKind, ApprovalStatus, Choice, Message, RunStatus};
use baton_core::thread::{Entry, WaitingKind};
use baton_core::time::Timestamp;
use baton_store::{AuditEvent, ClaimMode, RunRow, Slice, StoreError};
use serde_json::Value;
use uuid::Uuid;

use super::start::{MOST_TEXT, too_long};
use super::{Engine, RunHandle, Shared};
use crate::audit;
use crate::error::EngineError;
use crate::patience::patiently;
use crate::request::RunView;

/// The longest message to a run that works: until the run takes it up it is part of the flow's state. An answer is an
/// entry at once, and may be as long as any message.
const MOST_STEERING: usize = 8 << 10;
/// How many of its last transitions the account of a run covers, so that a reader does not read all of a long one.
const ACCOUNTED: u32 = 1000;
/// How many entries are read at once when the last text is looked for.
const PAGE: u32 = 64;

impl Engine {
    /// Asks a run to stop; answers its status. A run that has ended stays as it is.
    pub async fn cancel(&self, tenant: &Tenant, run: RunId) -> Result<RunStatus, EngineError> {
        match self.post(tenant, run, Message::Cancel).await {
            Ok(()) => {
                let status = patiently!(self.shared, self.shared.store.run(tenant, run))?.status;
                if status == RunStatus::Queued {
                    match self.begin_queued(tenant, run).await {
                        // It ends without having begun, or another process takes care of it.
                        Ok(_)
                        | Err(EngineError::Store(StoreError::Fenced { .. } | StoreError::Busy { .. })) => {}
                        Err(error) => return Err(error),
                    }
                    return Ok(patiently!(self.shared, self.shared.store.run(tenant, run))?.status);
                }
                Ok(status)
            }
            Err(EngineError::Store(StoreError::Ended { status, .. })) => Ok(status),
            Err(error) => Err(error),
        }
    }

    /// Refuses a run whose mode is above `most`. A run may do anything that its definition allows, whichever user
    /// writes to it, so no user answers, steers, forks or decides for a run that may do more than they could have begun
    /// themselves. Every user may stop a run.
    pub async fn may_steer(&self, tenant: &Tenant, run: RunId, most: Mode) -> Result<(), EngineError> {
        let store = &self.shared.store;
        let row = patiently!(self.shared, store.run(tenant, run))?;
        if most == Mode::Exploratory {
            return Ok(()); // there is no more
        }
        let mode = patiently!(self.shared, store.definition(tenant, &row.definition))?.mode;
        if mode > most { Err(EngineError::AboveMode { mode, most }) } else { Ok(()) }
    }

    /// Decides about a call. Exactly the approved or edited arguments run.
    pub async fn decide(
        &self,
        tenant: &Tenant,
        approval_id: &str,
        choice: Choice,
        arguments: Option<Value>,
        reason: Option<String>,
        by: Option<String>,
    ) -> Result<Approval, EngineError> {
        let asked = patiently!(self.shared, self.shared.store.approval(tenant, approval_id))?;
        if asked.status != ApprovalStatus::Pending {
            return Err(StoreError::AlreadyDecided { id: asked.id, status: asked.status }.into());
        }
        if asked.expires_at <= self.shared.clock.now() {
            // It has expired: the run is driven so that it records that and goes on without the call.
            if let Some(mut handle) = self.drive(tenant, asked.run_id).await? {
                handle.rested().await;
            }
            let status = ApprovalStatus::Expired;
            return Err(StoreError::AlreadyDecided { id: asked.id, status }.into());
        }
        let is_outcome = asked.kind == ApprovalKind::Outcome;
        let arguments = match (choice, arguments) {
            (Choice::Edit, Some(found)) if is_outcome => {
                if found.get("output").is_none() {
                    let why = "say what came of the call, as {\"output\": …}";
                    return Err(EngineError::Invalid(why.to_owned()));
                }
                Some(found)
            }
            (Choice::Edit, Some(arguments)) => {
                self.shared.tools().validate(&asked.name, &arguments).map_err(EngineError::Invalid)?;
                self.still_allows(tenant, &asked).await?;
                Some(arguments)
            }
            (Choice::Edit, None) => return Err(EngineError::Invalid("an edit needs arguments".to_owned())),
            (Choice::Approve, _) => Some(asked.args.clone()),
            (Choice::Deny, _) => None,
        };
        let message = Message::Decision { approval_id: approval_id.to_owned(), choice, arguments, reason };
        let posted = self.post_decision(tenant, &asked, message, by).await;
        let approval = patiently!(self.shared, self.shared.store.approval(tenant, approval_id))?;
        match posted {
            Ok(()) => Ok(approval),
            // The run went on with another decision, and ended, after the approval was read.
            Err(EngineError::Store(StoreError::Ended { .. }))
                if approval.status != ApprovalStatus::Pending =>
            {
                Err(StoreError::AlreadyDecided { id: approval.id, status: approval.status }.into())
            }
            Err(error) => Err(error),
        }
    }

    /// Refuses an edit of a call that the current policy does not allow: it would never run.
    async fn still_allows(&self, tenant: &Tenant, approval: &Approval) -> Result<(), EngineError> {
        let store = &self.shared.store;
        let row = patiently!(self.shared, store.run(tenant, approval.run_id))?;
        let pinned = patiently!(self.shared, store.definition(tenant, &row.definition))?;
        let now = self.shared.decision(pinned.mode, &pinned.channel);
        let now = now.map_err(|error| EngineError::Forbidden(error.to_string()))?;
        match now.call(&approval.name) {
            CallRule::Denied => Err(EngineError::Forbidden(now.refusal(&approval.name).1)),
            CallRule::Allowed | CallRule::NeedsApproval => Ok(()),
        }
    }

    /// Sends text to a run: the answer to its question, or steering; answers the input's id.
    pub async fn input(&self, tenant: &Tenant, run: RunId, text: &str) -> Result<String, EngineError> {
        if text.len() > MOST_TEXT {
            return Err(too_long());
        }
        if text.len() > MOST_STEERING && !self.asks(tenant, run).await? {
            let why =
                format!("a message to a run that works is at most {MOST_STEERING} bytes long: send less");
            return Err(EngineError::Invalid(why));
        }
        let input_id = Uuid::now_v7().to_string();
        self.input_as(tenant, run, text, input_id.clone()).await?;
        Ok(input_id)
    }

    pub(super) async fn input_as(
        &self,
        tenant: &Tenant,
        run: RunId,
        text: &str,
        input_id: String,
    ) -> Result<(), EngineError> {
        self.post(tenant, run, Message::Input { input_id, text: text.to_owned() }).await
    }

    /// Posts a decision, with its line of the audit trail in the same write.
    async fn post_decision(
        &self,
        tenant: &Tenant,
        asked: &Approval,
        message: Message,
        by: Option<String>,
    ) -> Result<(), EngineError> {
        let (shared, at) = (&self.shared, self.shared.clock.now());
        let row = patiently!(shared, shared.store.run(tenant, asked.run_id))?;
        let told = audit::decided(&shared.settings.audit, &row, asked, &message, by.as_deref(), at);
        self.post_by(tenant, asked.run_id, message, (by, at), told).await
    }

    async fn post(&self, tenant: &Tenant, run: RunId, message: Message) -> Result<(), EngineError> {
        self.post_by(tenant, run, message, (None, self.shared.clock.now()), None).await
    }

    async fn post_by(
        &self,
        tenant: &Tenant,
        run: RunId,
        message: Message,
        by: (Option<String>, Timestamp),
        told: Option<AuditEvent>,
    ) -> Result<(), EngineError> {
        let shared = &self.shared;
        let mut unsure = false;
        let n = patiently!(shared, shared.post_once(tenant, run, &message, &by, told.as_ref(), &mut unsure))?;
        let pulse = baton_store::Pulse {
            run,
            inbox: n,
            watched_until: shared.pulse(run).and_then(|p| p.watched_until),
        };
        shared.felt(pulse);
        Ok(())
    }

    /// Whether a run waits for an answer.
    async fn asks(&self, tenant: &Tenant, run: RunId) -> Result<bool, EngineError> {
        let (_, waiting) = self.waits(tenant, run).await?;
        Ok(waiting.iter().any(|waiting| waiting.kind == WaitingKind::UserInput))
    }

    /// The status of a run, and its open questions and approvals.
    pub(super) async fn waits(
        &self,
        tenant: &Tenant,
        run: RunId,
    ) -> Result<(RunStatus, Vec<WaitingOn>), EngineError> {
        let store = &self.shared.store;
        let row = patiently!(self.shared, store.run(tenant, run))?;
        if row.status.has_ended() {
            return Ok((row.status, Vec::new()));
        }
        let last = patiently!(self.shared, store.steps(tenant, run, row.step.saturating_sub(1), 1))?.pop();
        Ok((row.status, last.map(|last| last.checkpoint.waiting).unwrap_or_default()))
    }

    /// Goes on with a run if no living process drives it; none if one does, or it has ended.
    pub async fn drive(&self, tenant: &Tenant, run: RunId) -> Result<Option<RunHandle>, EngineError> {
        match self.resume(tenant, run, ClaimMode::IfFree).await {
            Ok(handle) => Ok(Some(handle)),
            Err(EngineError::Store(StoreError::Held { .. } | StoreError::Ended { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A run as users see it. A store that does not answer is an error: a caller that reads "no answer" has to be able
    /// to rely on it.
    pub async fn view(&self, tenant: &Tenant, run: RunId) -> Result<RunView, EngineError> {
        let store = &self.shared.store;
        let row = patiently!(self.shared, store.run(tenant, run))?;
        let definition = patiently!(self.shared, store.definition(tenant, &row.definition)).ok();
        let mut view =
            RunView { row, definition, error: None, result: None, waiting: Vec::new(), steps: Vec::new() };
        let mut after = view.row.step.saturating_sub(ACCOUNTED);
        loop {
            let page = patiently!(self.shared, store.steps(tenant, run, after, 100))?;
            let Some(last) = page.last() else { break };
            after = last.step;
            view.waiting.clone_from(&last.checkpoint.waiting);
            for step in page {
                view.steps.extend(step.checkpoint.account);
                if let Some(Event::Ended { error, .. }) = step.checkpoint.events.last() {
                    view.error.clone_from(error);
                    view.waiting.clear();
                }
            }
        }
        view.result = self.last_said(tenant, &view.row).await?;
        Ok(view)
    }

    /// The final text of a run: its last message, empty where it wrote none.
    pub async fn response(&self, tenant: &Tenant, run: RunId) -> Result<String, EngineError> {
        let row = patiently!(self.shared, self.shared.store.run(tenant, run))?;
        Ok(self.last_said(tenant, &row).await?.unwrap_or_default())
    }

    /// The last message of a run that is not empty, however many entries came after it.
    async fn last_said(&self, tenant: &Tenant, row: &RunRow) -> Result<Option<String>, EngineError> {
        let (shared, store) = (&self.shared, &self.shared.store);
        let mut before = row.head + 1;
        loop {
            let slice = Slice { before: Some(before), last_n: Some(PAGE) };
            let page = patiently!(shared, store.entries(tenant, &row.thread, Some(&row.branch), slice))?;
            let is_last = page.is_empty() || page.iter().any(|placed| placed.run != Some(row.id));
            before -= page.len() as i64;
            let ours = page.into_iter().rev().filter(|placed| placed.run == Some(row.id));
            let said = ours.map(|placed| placed.entry).find_map(|entry| match entry {
                Entry::AssistantMessage(said) if !said.content.trim().is_empty() => Some(said.content),
                _ => None,
            });
            if said.is_some() || is_last {
                return Ok(said);
            }
        }
    }

    /// The bytes of a long result.
    pub async fn blob(&self, tenant: &Tenant, blob: &BlobRef) -> Result<Option<Vec<u8>>, EngineError> {
        Ok(self.shared.store.blob(tenant, &blob.hash).await?)
    }
}

impl Shared {
    /// Posts a message; after an ambiguous error it is looked for before it is posted again. A post that was still
    /// under way then can be the reason why the next try is refused: then it counts all the same.
    async fn post_once(
        &self,
        tenant: &Tenant,
        run: RunId,
        message: &Message,
        (by, at): &(Option<String>, Timestamp),
        told: Option<&AuditEvent>,
        unsure: &mut bool,
    ) -> Result<u32, StoreError> {
        let posted = self.store.decide(tenant, run, message.clone(), by.clone(), *at, told.cloned()).await;
        let error = match posted {
            Ok(n) => return Ok(n),
            Err(error) => error,
        };
        *unsure |= matches!(error, StoreError::Ambiguous(_));
        let may_be_there = matches!(
            error,
            StoreError::Ambiguous(_) | StoreError::AlreadyDecided { .. } | StoreError::Ended { .. }
        );
        if *unsure && may_be_there {
            let posted = patiently!(self, self.store.inbox(tenant, run, 0))?;
            if let Some(there) = posted.into_iter().rev().find(|posted| posted.message == *message) {
                return Ok(there.n);
            }
        }
        Err(match error {
            StoreError::Ambiguous(why) => StoreError::Unavailable(why),
            other => other,
        })
    }
}
