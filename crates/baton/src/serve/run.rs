//! Beginning a run: the one handler behind `/v1/agent/run`, `/process` and `/v1/runs`.
//!
//! They differ in the name of the message and in how the answer is shown. [`asked`] makes the request to the engine;
//! here the run is begun, in a task of its own: a caller that disconnects interrupts nothing half-way.

mod about;
mod asked;
mod standing;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use baton_core::id::{Cursor, RunId};
use baton_engine::{EngineError, RunHandle, Seen, Submitted};
use serde_json::json;
use tokio::sync::oneshot;
use tracing::Instrument;

use super::admission::StreamPermit;
use super::auth::{Caller, Scope};
use super::key::Keyed;
use super::problem::{Problem, ProblemCode, internal};
use super::shapes::{AgentRun, FlowName, NewRun};
use super::state::Service;
use super::stream::{CancelOnDrop, EVENT_STREAM, RunStream, Until, rests};
use crate::dialect::sse::{Dialect, SseRendering};
pub(crate) use about::{RunHeaders, traceparent};
pub(crate) use asked::{MessageRequest, agent, channel, mode};
pub(crate) use standing::{may_answer, may_steer};

/// `POST /v1/agent/run`: begins a run and streams its events.
pub(crate) async fn agent_run(
    State(service): State<Service>,
    caller: Caller,
    headers: HeaderMap,
    Keyed { body, key }: Keyed<AgentRun>,
) -> Result<Response, Problem> {
    let AgentRun { input, thread_id, correlation_id, config } = body;
    let config = config.unwrap_or_default();
    let asked = MessageRequest { text: input, thread: thread_id, correlation: correlation_id, config, key };
    // Taken before the run begins: a run that its caller may not watch would be begun in vain.
    let place = service.stream(&caller)?;
    begin(&service, &caller, &headers, asked).await?.stream(&service, &caller, Dialect::Agent, place).await
}

/// `POST /v1/runs`: begins a run; streams it to callers that accept a stream, and answers others with its id.
pub(crate) async fn create(
    State(service): State<Service>,
    caller: Caller,
    headers: HeaderMap,
    Keyed { body, key }: Keyed<NewRun>,
) -> Result<Response, Problem> {
    let NewRun { input, flow: FlowName::Turn, thread_id, correlation_id, config, dialect } = body;
    let config = config.unwrap_or_default();
    let asked = MessageRequest { text: input, thread: thread_id, correlation: correlation_id, config, key };
    let place = accepts_stream(&headers).then(|| service.stream(&caller)).transpose()?;
    let begun = begin(&service, &caller, &headers, asked).await?;
    if let Some(place) = place {
        return begun.stream(&service, &caller, dialect.unwrap_or_default(), place).await;
    }
    if let Some(gone) = begun.gone {
        gone.stays(); // no caller waits for it, so none can disconnect
    }
    let document = json!({"run_id": begun.about.run});
    Ok(begun.about.on((StatusCode::ACCEPTED, axum::Json(document)).into_response()))
}

/// A run that was begun, answered, queued or found.
pub(crate) struct StartedRun {
    pub(crate) about: RunHeaders,
    /// The handle, if this process drives it.
    handle: Option<RunHandle>,
    /// The caller has seen nothing after this place of the log.
    from: Cursor,
    show_reasoning: bool,
    gone: Option<CancelOnDrop>,
}

/// Begins a run for a request.
pub(crate) async fn begin(
    service: &Service,
    caller: &Caller,
    headers: &HeaderMap,
    asked: MessageRequest,
) -> Result<StartedRun, Problem> {
    caller.need(Scope::Run)?;
    let place = service.admit(caller)?;
    let (cancels, show_reasoning) = (asked.cancels(), asked.config.show_reasoning.unwrap_or_default());
    let request = asked.request(service, caller, traceparent(headers))?;
    let (correlation, traceparent) = (request.correlation.clone(), request.traceparent.clone());
    let (service_too, caller_too) = (service.clone(), caller.clone());
    let (tell, told) = oneshot::channel();
    let submitting = async move {
        let submitted = standing::submit(&service_too, &caller_too, request).await;
        drop(place); // it is driven, or never will be
        // It is sent with the answer: if both are dropped unread, the run is cancelled.
        let gone = match &submitted {
            Ok((submitted, _)) if cancels => {
                Some(CancelOnDrop::cancels(service_too.engine(), &caller_too.tenant, submitted.run()))
            }
            _ => None,
        };
        let _ = tell.send((submitted, gone));
    };
    tokio::spawn(Box::pin(submitting).in_current_span()); // boxed: it is large, and a task is moved several times
    let (submitted, gone) = told.await.map_err(|_| internal("the task that begins a run is gone"))?;
    let (submitted, from) = submitted?;
    let (run, handle) = match submitted {
        Submitted::Started(handle) => {
            let about = RunHeaders::started(&handle, correlation, traceparent.as_ref());
            return Ok(StartedRun { about, handle: Some(handle), from, show_reasoning, gone });
        }
        Submitted::Answered(handle) => (handle.run, Some(handle)),
        Submitted::AnsweredElsewhere(run) => (run, None),
        Submitted::Queued(run) | Submitted::Repeated(run) => {
            return Ok(StartedRun { show_reasoning, gone, ..StartedRun::found(service, caller, run).await? });
        }
    };
    let about = RunHeaders::read(service.engine(), &caller.tenant, run).await?;
    Ok(StartedRun { about, handle, from, show_reasoning, gone })
}

fn accepts_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(axum::http::header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = accepted.flat_map(|value| value.split(','));
    kinds.any(|kind| kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(EVENT_STREAM))
}

impl StartedRun {
    /// Finds a run that was begun by an earlier request.
    pub(crate) async fn found(service: &Service, caller: &Caller, run: RunId) -> Result<StartedRun, Problem> {
        let about = RunHeaders::read(service.engine(), &caller.tenant, run).await?;
        Ok(StartedRun { about, handle: None, from: Cursor::default(), show_reasoning: false, gone: None })
    }

    /// Streams its events to the next rest, with the permit that was taken for them. Once a run is begun its caller
    /// learns its id, also where there is nothing to see.
    async fn stream(
        self,
        service: &Service,
        caller: &Caller,
        dialect: Dialect,
        place: StreamPermit,
    ) -> Result<Response, Problem> {
        let StartedRun { about, from, show_reasoning, gone, .. } = self;
        let permit = match place.of(about.run, service.limits()) {
            Ok(permit) => permit,
            Err(problem) => {
                if let Some(gone) = gone {
                    gone.stays();
                }
                return Ok(about.on(problem.into_response()));
            }
        };
        let watch = RunStream {
            engine: service.engine().clone(),
            tenant: caller.tenant.clone(),
            pass: caller.pass.clone(),
            auth: service.auth().clone(),
            run: about.run,
            from,
            showing: SseRendering { dialect, reasoning: show_reasoning },
            until: Until::Rest,
            heartbeat: service.limits().heartbeat,
            buffer: service.limits().buffer_bytes,
            closing: service.closing().clone(),
            gone,
            permit: Some(permit),
        };
        Ok(about.on(watch.open().await.unwrap_or_else(Problem::into_response)))
    }

    /// Waits until it has ended or waits for a person; answers whether it has ended.
    pub(crate) async fn rested(&mut self, service: &Service, caller: &Caller) -> Result<bool, Problem> {
        let run = self.about.run;
        let resting = async {
            if let Some(mut handle) = self.handle.take() {
                handle.rested().await; // ignored: the log has the outcome
            }
            to_rest(service, caller, run).await
        };
        tokio::select! {
            rested = resting => Ok(rested?),
            () = service.closing().cancelled() => {
                let detail = "this process is about to end; the run goes on, and GET /v1/runs/{id} shows it";
                Err(Problem::new(ProblemCode::Overloaded, detail).with("run_id", run.to_string()).after(1))
            }
        }
    }

    /// Notes that the caller got the whole answer.
    pub(crate) fn told(self) -> RunHeaders {
        if let Some(gone) = self.gone {
            gone.stays();
        }
        self.about
    }
}

/// Reads a log to the run's next rest; answers whether that was its end.
async fn to_rest(service: &Service, caller: &Caller, run: RunId) -> Result<bool, EngineError> {
    let (engine, tenant) = (service.engine(), &caller.tenant);
    let row = engine.store().run(tenant, run).await?;
    if row.status.has_ended() {
        return Ok(true);
    }
    if rests(engine, tenant, run).await?.is_some() {
        return Ok(false);
    }
    let mut reader = engine.events(tenant, run, Cursor { epoch: row.epoch, seq: row.seq }).await?;
    loop {
        match reader.next().await? {
            None => return Ok(true),
            Some(Seen::Event(seen)) if seen.event.is_terminal() => return Ok(true),
            Some(Seen::Suspended) if rests(engine, tenant, run).await?.is_some() => return Ok(false),
            Some(_) => {}
        }
    }
}
