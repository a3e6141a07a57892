//! The personal agent's one call: a user's message in, a structured result out, also when something fails.
//!
//! A session is a thread, and a request is a run on its current branch, or the answer to the run that asks there.
//! Models, tools, users and stores may fail; the call does not. A failure is a `warning` step, and the reply says how
//! to go on.
//!
//! It never decides an approval, never cancels anything, and keeps no state but the queues of waiting requests: all of
//! a session is in the store.

mod line;
mod rest;
pub(crate) mod told;

use std::time::Duration;

use baton_core::id::{BadId, RunId, ThreadId};
use baton_core::policy::Mode;
use baton_core::run::{OrchestratorResult, RunStatus};
use baton_core::thread::WaitingKind;
use baton_store::StoreError;
use tokio::time::{Instant, timeout_at};
use tracing::Instrument;

use crate::engine::{Engine, RunHandle};
use crate::error::EngineError;
use crate::patience::patiently;
use crate::request::{RunRequest, RunView};
use crate::spans::trace_id_of;
use line::Lines;

/// Handles users' messages; see the module. Cheap to clone; clones share their queues.
#[derive(Debug, Clone)]
pub struct Orchestrator {
    engine: Engine,
    like: RunRequest,
    lines: Lines,
}

/// The result of taking a message.
enum Taken {
    /// It began a run, or answered one; `lines` is how many lines the run's account had before.
    Run { run: RunId, handle: Option<RunHandle>, lines: usize },
    /// An approval is pending, which a message cannot decide.
    Pending(Box<RunView>),
    /// Its turn did not come in time.
    Busy { with: Option<RunId>, waited: Duration },
}

/// The state of the run that holds a session.
enum Standing {
    /// It asks a question.
    Asks,
    /// It waits for a decision.
    Pending,
    /// It goes on by itself, or would if it were driven.
    Works,
}

impl Orchestrator {
    /// Handles requests like this one: with its tenant, models, instructions and rendering. Its thread,
    /// text, mode and channel are those of each request.
    pub fn new(engine: Engine, like: RunRequest) -> Self {
        Orchestrator { engine, like, lines: Lines::default() }
    }

    /// A clone for a caller with at most this mode: a run with a higher mode is not answered. The queues are shared.
    #[must_use]
    pub fn up_to(&self, most: Mode) -> Orchestrator {
        let like = RunRequest { most, ..self.like.clone() };
        Orchestrator { engine: self.engine.clone(), like, lines: self.lines.clone() }
    }

    /// Handles one message of a user.
    ///
    /// It is carried out even if the caller no longer waits for the result. While a turn is running in the session it
    /// queues, first come first served in this process, for at most the time limit of its own mode and channel.
    ///
    /// `steps` are those of this request: all of a run that it began; of a run whose question it answered,
    /// those that came after the answer.
    pub async fn handle_user_request(
        &self,
        session_id: &str,
        user_message: &str,
        mode: Mode,
        channel: &str,
    ) -> OrchestratorResult {
        self.handle_holding(session_id, user_message, mode, channel, ()).await
    }

    /// Handles a message like `handle_user_request`, while the caller holds a place in this process's limit of
    /// concurrent work. The place is dropped as soon as the run that the message led to counts in [`Engine::load`], or
    /// none will: at every moment one of the two counts.
    pub async fn handle_holding<P: Send + 'static>(
        &self,
        session_id: &str,
        user_message: &str,
        mode: Mode,
        channel: &str,
        place: P,
    ) -> OrchestratorResult {
        let request = match self.request(session_id, user_message, mode, channel) {
            Ok(request) => request,
            Err(error) => return told::refused(&error, None),
        };
        let this = self.clone();
        // A task of its own: starting and claiming runs is never interrupted half-way, and a panic is a result.
        let handling = tokio::spawn(async move { this.handle(request, place).await }.in_current_span());
        handling.await.unwrap_or_else(|_| told::broken())
    }

    fn request(
        &self,
        session_id: &str,
        user_message: &str,
        mode: Mode,
        channel: &str,
    ) -> Result<RunRequest, EngineError> {
        let session = session_id.parse::<ThreadId>();
        let session =
            session.map_err(|bad| EngineError::Invalid(BadId { what: "session id", ..bad }.to_string()))?;
        if user_message.trim().is_empty() {
            return Err(EngineError::Invalid("the message is empty: say what you want".to_owned()));
        }
        Ok(RunRequest {
            thread: Some(session),
            text: user_message.to_owned(),
            mode,
            channel: channel.to_owned(),
            ..self.like.clone()
        })
    }

    async fn handle<P: Send>(&self, request: RunRequest, place: P) -> OrchestratorResult {
        let mut taken = self.take(&request).await;
        if let Ok(Taken::Run { run, handle: handle @ None, .. }) = &mut taken {
            // An error occurs again, and is reported, where the run is followed.
            *handle = self.engine.drive(&request.tenant, *run).await.ok().flatten();
        }
        drop(place);
        match taken {
            Ok(Taken::Run { run, handle, lines }) => self.follow(run, handle, lines).await,
            Ok(Taken::Pending(view)) => {
                told::pending(&view, &self.engine.asked(&request.tenant, &view).await)
            }
            Ok(Taken::Busy { with, waited }) => told::busy(with, waited),
            Err(error) => told::refused(&error, None),
        }
    }

    /// Waits for the message's turn, then begins a run with it or answers the one that asks.
    async fn take(&self, request: &RunRequest) -> Result<Taken, EngineError> {
        let decision = self.engine.shared.decision(request.mode, &request.channel);
        let decision = decision.map_err(|error| EngineError::Invalid(error.to_string()))?;
        let waited = Duration::from_millis(decision.limits.active_ms);
        let until = Instant::now() + waited;
        let line = self.lines.of(request.thread.as_ref());
        let Ok(_turn) = timeout_at(until, line.lock()).await else {
            return Ok(Taken::Busy { with: None, waited });
        };
        loop {
            let run = match self.engine.start(request.clone()).await {
                Err(EngineError::Store(StoreError::Busy { run, .. })) => run,
                started => {
                    let handle = started?;
                    return Ok(Taken::Run { run: handle.run, handle: Some(handle), lines: 0 });
                }
            };
            let view = self.engine.view(&request.tenant, run).await?;
            match self.standing(&view).await? {
                Standing::Pending => return Ok(Taken::Pending(Box::new(view))),
                Standing::Asks => match self.tell(request, run).await {
                    Ok(()) => return Ok(Taken::Run { run, handle: None, lines: view.steps.len() }),
                    Err(EngineError::Store(StoreError::Ended { .. })) => {} // the answer came too late
                    Err(error) => return Err(error),
                },
                Standing::Works if self.rested(run, None, Some(until)).await? => {}
                Standing::Works => return Ok(Taken::Busy { with: Some(run), waited }),
            }
        }
    }

    /// Answers the question of a run; only once if there is a key.
    async fn tell(&self, request: &RunRequest, run: RunId) -> Result<(), EngineError> {
        let RunRequest { tenant, text, key, most, .. } = request;
        self.engine.may_steer(tenant, run, *most).await?;
        match key {
            Some(key) => self.engine.input_once(tenant, run, text, key).await,
            None => self.engine.input(tenant, run, text).await.map(|_| ()),
        }
    }

    async fn standing(&self, view: &RunView) -> Result<Standing, EngineError> {
        let (shared, row) = (&self.engine.shared, &view.row);
        let now = shared.clock.now();
        let is_due = view.waiting.iter().any(|waiting| waiting.deadline <= now);
        if row.status.has_ended() || is_due {
            return Ok(Standing::Works);
        }
        let after = row.step.saturating_sub(1);
        let last = patiently!(shared, shared.store.steps(&self.like.tenant, row.id, after, 1))?.pop();
        if last.is_some_and(|last| last.checkpoint.inbox_read < row.inbox) {
            return Ok(Standing::Works); // an answer or decision was posted: it only has to be driven on
        }
        let waits_for = |kind| view.waiting.iter().any(|waiting| waiting.kind == kind);
        Ok(match row.status {
            _ if waits_for(WaitingKind::UserInput) => Standing::Asks,
            RunStatus::Suspended if waits_for(WaitingKind::Approval) => Standing::Pending,
            _ => Standing::Works,
        })
    }

    /// Waits for a run to rest; answers its result.
    async fn follow(&self, run: RunId, mut handle: Option<RunHandle>, lines: usize) -> OrchestratorResult {
        loop {
            if let Err(error) = self.rested(run, handle.take(), None).await {
                return self.given_up(run, &error).await;
            }
            match self.engine.view(&self.like.tenant, run).await {
                Ok(view) if view.row.status == RunStatus::Running => {} // an answer was posted: it goes on
                Ok(view) => {
                    return told::result(&view, lines, &self.engine.asked(&self.like.tenant, &view).await);
                }
                Err(error) => return self.given_up(run, &error).await,
            }
        }
    }

    /// The result for a run that could not be followed to its rest. The run is not lost, and its trace is known.
    async fn given_up(&self, run: RunId, error: &EngineError) -> OrchestratorResult {
        let row = self.engine.shared.store.run(&self.like.tenant, run).await.ok();
        let trace_id = row.map_or_else(|| run.trace_id(), |row| trace_id_of(&row));
        OrchestratorResult { trace_id: Some(trace_id), ..told::refused(error, Some(run)) }
    }
}
