//! The permission of a caller to act on an existing run.
//!
//! A run has the permissions of its definition, for any caller. So a caller may not answer, steer or fork one that may
//! do more than they could have asked for themselves. A message to a branch is the answer to the run that asks there:
//! that run, and the end of its log, are noted before the message is posted.

use baton_core::id::{Cursor, RunId, ThreadId};
use baton_core::policy::Mode;
use baton_core::thread::WaitingKind;
use baton_engine::{Clock, EngineError, RunRequest, Submitted, SystemClock};
use baton_store::{RunRow, StoreError};

use super::super::auth::Caller;
use super::super::problem::Problem;
use super::super::state::Service;
use super::agent;

/// Refuses a run that may do more than the caller. Every route that acts on one asks this, except cancelling, which is
/// open to every caller with the scope `run`.
pub(crate) async fn may_steer(service: &Service, caller: &Caller, run: RunId) -> Result<(), Problem> {
    agent(caller, None)?;
    Ok(service.engine().may_steer(&caller.tenant, run, caller.max_mode).await?)
}

/// Submits a message to the engine; answers the outcome, and the place after which the caller has seen nothing.
pub(super) async fn submit(
    service: &Service,
    caller: &Caller,
    request: RunRequest,
) -> Result<(Submitted, Cursor), Problem> {
    let engine = service.engine();
    let busy = match engine.start(request.clone()).await {
        Ok(handle) => return Ok((Submitted::Started(handle), Cursor::default())),
        Err(EngineError::Store(StoreError::Busy { run, .. })) => Some(run),
        Err(EngineError::Store(StoreError::KeyUsed(_))) => None,
        Err(error) => return Err(error.into()),
    };
    let asks = match busy {
        Some(run) if !is_known(service, &request).await? => asking(service, caller, run).await?,
        _ => None,
    };
    let submitted = Box::pin(engine.submit(request)).await?;
    let from = asks.filter(|row| row.id == submitted.run());
    let from = from.map(|row| Cursor { epoch: row.epoch, seq: row.seq }).unwrap_or_default();
    Ok((submitted, from))
}

/// Whether the message was sent before.
async fn is_known(service: &Service, request: &RunRequest) -> Result<bool, Problem> {
    let Some(key) = &request.key else { return Ok(false) };
    let known = service.store().key(&request.tenant, &key.route, &key.key, SystemClock.now()).await?;
    Ok(known.is_some())
}

/// The run, if it waits for a user's answer; refuses a caller who may not give it.
async fn asking(service: &Service, caller: &Caller, run: RunId) -> Result<Option<RunRow>, Problem> {
    let view = service.engine().view(&caller.tenant, run).await?;
    let kinds: Vec<WaitingKind> = view.waiting.iter().map(|waiting| waiting.kind).collect();
    if !kinds.contains(&WaitingKind::UserInput) {
        return Ok(None);
    }
    may_steer(service, caller, run).await?;
    Ok(Some(view.row))
}

/// Refuses a message to a thread if the run on its current branch asks for an answer that the caller may not give.
pub(crate) async fn may_answer(service: &Service, caller: &Caller, thread: &ThreadId) -> Result<(), Problem> {
    if caller.max_mode == Mode::Exploratory {
        return Ok(());
    }
    let thread = match service.store().thread(&caller.tenant, thread).await {
        Err(StoreError::NotFound { .. }) => return Ok(()), // it does not exist yet
        found => found?,
    };
    let held = thread.branches.iter().find(|branch| branch.name == thread.current).and_then(|it| it.run);
    match held {
        Some(run) => asking(service, caller, run).await.map(|_| ()),
        None => Ok(()),
    }
}
