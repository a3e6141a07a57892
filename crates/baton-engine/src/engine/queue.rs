//! A branch takes one run at a time: how a message to a busy branch is handled, and runs that wait for their turn.
//!
//! A queued run has a row and no log. It begins on the first process that finds its branch free; the write that begins
//! it decides which one is first. A run that can never begin ends with a log of its own, like any other run.

use std::sync::Arc;

use baton_core::fault::{Code, Fault};
use baton_core::flow::{Flow, Setting, WaitingOn};
use baton_core::id::{BranchName, FramePath, RunId, Tenant};
use baton_core::json::sha256_hex;
use baton_core::run::{Receipt, RunStatus, Verdict};
use baton_core::thread::WaitingKind;
use baton_store::{Due, NewKey, NewQueued, NewRun, NewThread, PinnedDefinition, RunRow, StoreError};

use super::start::{Beginning, repeated};
use super::{Engine, RunHandle};
use crate::error::EngineError;
use crate::patience::patiently;
use crate::recent::Recent;
use crate::request::{OnBusy, RunRequest, Submitted};

impl Engine {
    /// The earlier result of a request whose key was used before; none if it was not. An answer that was noted and
    /// perhaps never posted is posted now: that happens only once.
    pub(super) async fn before(&self, request: &RunRequest) -> Result<Option<Submitted>, EngineError> {
        let Some(new) = &request.key else { return Ok(None) };
        let (shared, tenant, now) = (&self.shared, &request.tenant, self.shared.clock.now());
        let known = patiently!(shared, shared.store.key(tenant, &new.route, &new.key, now))?;
        let Some(known) = known else { return Ok(None) };
        let submitted = repeated(&known, new)?;
        if known.owner.is_some() {
            match self.input_as(tenant, submitted.run(), &request.text, input_id(new)).await {
                Err(EngineError::Store(StoreError::Ended { .. })) | Ok(()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Some(submitted))
    }

    /// Handles a message to a branch that a run holds: it answers the run's question, or `on_busy` decides; none if the
    /// branch may be free by now.
    pub(super) async fn when_busy(
        &self,
        request: &RunRequest,
        beginning: Beginning,
        branch: String,
        run: RunId,
    ) -> Result<Option<Submitted>, EngineError> {
        let (tenant, now) = (&request.tenant, self.shared.clock.now());
        let (status, waiting) = self.waits(tenant, run).await?;
        let asks = |waiting: &WaitingOn| waiting.kind == WaitingKind::UserInput;
        if waiting.iter().any(asks) {
            let is_overdue = waiting.iter().any(|waiting| asks(waiting) && waiting.deadline <= now);
            if status == RunStatus::Suspended && is_overdue {
                // The deadline of the question has passed: the run goes on without an answer, and this is a message of
                // its own.
                if let Some(mut handle) = self.drive(tenant, run).await? {
                    handle.rested().await;
                }
                return Ok(None);
            }
            return self.answer(request, run).await.map(Some);
        }
        match request.on_busy {
            OnBusy::Reject => Err(StoreError::Busy { branch, run }.into()),
            OnBusy::Enqueue => self.enqueue(beginning, &branch, false).await.map(Some),
            OnBusy::Interrupt => {
                let queued = self.enqueue(beginning, &branch, true).await?;
                if status != RunStatus::Queued {
                    self.cancel(tenant, run).await?;
                }
                Ok(Some(queued))
            }
        }
    }

    /// Answers the question that a run waits for, and resumes it.
    async fn answer(&self, request: &RunRequest, run: RunId) -> Result<Submitted, EngineError> {
        let RunRequest { tenant, text, key, most, .. } = request;
        self.may_steer(tenant, run, *most).await?;
        match key {
            None => {
                self.input(tenant, run, text).await?;
            }
            Some(key) => self.input_once(tenant, run, text, key).await?,
        }
        // Once it is posted it counts, on any process that resumes the run.
        let driven = self.drive(tenant, run).await?;
        Ok(driven.map_or(Submitted::AnsweredElsewhere(run), Submitted::Answered))
    }

    /// Sends text to a run only once for a key: the input's id follows from it, and stores take an id once. The key is
    /// noted first, with an owner, which marks it as the key of an answer.
    pub(crate) async fn input_once(
        &self,
        tenant: &Tenant,
        run: RunId,
        text: &str,
        key: &NewKey,
    ) -> Result<(), EngineError> {
        let (shared, now, me) = (&self.shared, self.shared.clock.now(), self.owner());
        let known = patiently!(shared, shared.store.begin_key(tenant, key, Some(run), Some(me), now))?;
        if let Some(known) = known {
            repeated(&known, key)?;
        }
        self.input_as(tenant, run, text, input_id(key)).await
    }

    async fn enqueue(
        &self,
        beginning: Beginning,
        branch: &str,
        first: bool,
    ) -> Result<Submitted, EngineError> {
        let branch: BranchName = branch.parse().map_err(|e| EngineError::Invalid(format!("{e}")))?;
        let (shared, at) = (&self.shared, self.shared.clock.now());
        let (tenant, run) = (beginning.tenant.clone(), beginning.run);
        let new = NewQueued {
            run,
            thread: beginning.thread,
            branch,
            text: beginning.text,
            definition: beginning.pinned,
            at,
            metadata: beginning.metadata,
            key: beginning.key.clone(),
            most: shared.settings.most_queued,
            new_thread: None,
            first,
            capped: beginning.capped,
        };
        match patiently!(shared, shared.store.enqueue(&tenant, new.clone())) {
            Err(StoreError::KeyUsed(known)) => match beginning.key {
                Some(new) if known.run != Some(run) => return repeated(&known, &new),
                _ => {} // done before, but the answer was lost
            },
            Err(StoreError::Exists { .. }) => {} // done before, but the answer was lost
            other => other?,
        }
        shared.wait_for_turn(run);
        Ok(Submitted::Queued(run))
    }

    /// Begins a queued run; one that was cancelled meanwhile ends instead.
    pub(super) async fn begin_queued(
        &self,
        tenant: &Tenant,
        run: RunId,
    ) -> Result<Option<RunHandle>, EngineError> {
        let shared = &self.shared;
        let _claiming = shared.claiming(run).await;
        if let Some(handle) = shared.handle(tenant, run) {
            return Ok(Some(handle));
        }
        loop {
            let row = patiently!(shared, shared.store.run(tenant, run))?;
            if row.status != RunStatus::Queued {
                shared.waits_no_longer(run); // another process was faster
                return Ok(None);
            }
            match self.try_begin_queued(tenant, row).await {
                Err(EngineError::Store(StoreError::Unread { .. })) => {} // a message was posted to it meanwhile
                Err(EngineError::Store(StoreError::Busy { branch, run })) => {
                    return Err(StoreError::Busy { branch, run }.into()); // it still waits
                }
                begun => {
                    shared.waits_no_longer(run);
                    return begun;
                }
            }
        }
    }

    async fn try_begin_queued(&self, tenant: &Tenant, row: RunRow) -> Result<Option<RunHandle>, EngineError> {
        let (shared, run) = (&self.shared, row.id);
        let queued = patiently!(shared, shared.store.queued(tenant, run))?;
        let definition = patiently!(shared, shared.store.definition(tenant, &row.definition))?;
        let pinned =
            Arc::new(PinnedDefinition { definition: Arc::new(definition), hash: row.definition.clone() });
        if self.is_cancelled(tenant, run).await? {
            let verdict = Verdict::Cancelled(Receipt::default());
            return self.never_begun(tenant, row, pinned, verdict).await.map(|()| None);
        }
        self.has_tools(run, &pinned.definition)?;
        let beginning = Beginning {
            run,
            tenant: tenant.clone(),
            thread: row.thread.clone(),
            fresh: false,
            branch: Some(row.branch.clone()),
            text: queued.text,
            pinned: pinned.clone(),
            metadata: row.metadata.clone(),
            key: None,
            queued: true,
            inbox: row.inbox,
            capped: queued.capped,
        };
        match self.begin(&beginning).await {
            // The thread does not accept it any more: it was finished, or its branch is gone.
            Err(EngineError::Store(error @ (StoreError::Order(_) | StoreError::Tree(_)))) => {
                let verdict = Verdict::Error(Fault::new(Code::Internal, error.to_string()));
                self.never_begun(tenant, row, pinned, verdict).await.map(|()| None)
            }
            begun => begun.map(Some),
        }
    }

    /// Ends a run that is first in line and that no process began within `turn_grace`: the runs behind it have their
    /// turn.
    pub(super) async fn cannot_begin(&self, due: &Due, why: &EngineError) {
        let _claiming = self.shared.claiming(due.run).await;
        match self.try_give_up_turn(due, why).await {
            Ok(()) => tracing::warn!(run = %due.run, error = %why, "this run never had its turn"),
            Err(error) => tracing::debug!(run = %due.run, %error, "this run is still first in line"),
        }
        self.shared.waits_no_longer(due.run);
        self.shared.turn_came.notify_one(); // of the next one
    }

    async fn try_give_up_turn(&self, due: &Due, why: &EngineError) -> Result<(), EngineError> {
        let (shared, tenant) = (&self.shared, &due.tenant);
        let row = patiently!(shared, shared.store.run(tenant, due.run))?;
        if row.status != RunStatus::Queued {
            return Ok(());
        }
        let definition = patiently!(shared, shared.store.definition(tenant, &row.definition))?;
        let pinned =
            Arc::new(PinnedDefinition { definition: Arc::new(definition), hash: row.definition.clone() });
        let seconds = shared.settings.turn_grace.as_secs();
        let message = format!("{why}; and nobody else began it within {seconds} s, though its turn had come");
        self.never_begun(tenant, row, pinned, Verdict::Error(Fault::new(Code::ActionFailed, message))).await
    }

    /// Ends a queued run that never began.
    async fn never_begun(
        &self,
        tenant: &Tenant,
        row: RunRow,
        pinned: Arc<PinnedDefinition>,
        verdict: Verdict,
    ) -> Result<(), EngineError> {
        let definition = pinned.definition.clone();
        let setting = Setting { run: row.id, path: FramePath::root(), definition: definition.clone() };
        let new = NewRun {
            owner: self.shared.owner.id,
            branch: row.branch.clone(),
            expected_head: row.head,
            after: None,
            definition: pinned,
            at: self.shared.clock.now(),
            metadata: row.metadata.clone(),
            new_thread: None::<NewThread>,
            lane: None,
            key: None,
            queued: true,
        };
        let flow = Flow::begin(setting)?;
        self.driver(row, tenant, definition, flow, Recent::default()).never_begun(new, verdict).await
    }
}

/// The id of the input that a key stands for.
fn input_id(key: &NewKey) -> String {
    sha256_hex(format!("{}\n{}", key.route, key.key).as_bytes())
}
