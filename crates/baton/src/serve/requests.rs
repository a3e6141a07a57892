//! `POST /v1/requests`: the personal agent's one call, over HTTP.
//!
//! Every well-formed request of an authorised caller is answered with 200 and a structured result, even where models,
//! tools and stores fail. Requests of a session wait for each other, so there is one orchestrator per tenant. A request
//! that was sent before, by its key, is answered with the result of that time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use baton_core::id::{RunId, Tenant, ThreadId};
use baton_core::run::{OrchestratorResult, Step, StepKind};
use baton_engine::{EngineError, Orchestrator, RunRequest, trace_id_of};
use baton_store::{NewKey, RunFilter};
use serde_json::Map;

use super::auth::{Caller, Scope};
use super::key::Keyed;
use super::problem::{Problem, ProblemCode, internal};
use super::run::{RunHeaders, StartedRun, agent, channel, may_answer, mode, traceparent};
use super::shapes::UserRequest;
use super::state::Service;
use crate::models::Chosen;

/// How many of a session's newest runs are searched for the one that answered.
const NEWEST: u32 = 8;

/// The orchestrator of each tenant, with the models that it was made for.
#[derive(Clone, Default)]
pub(crate) struct Orchestrators(Arc<Mutex<ByTenant>>);

type ByTenant = HashMap<Tenant, (Arc<Chosen>, Orchestrator)>;

impl Orchestrators {
    fn of(&self, service: &Service, like: RunRequest) -> Orchestrator {
        let chosen = service.chosen();
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match known.get(&like.tenant) {
            Some((asked, orchestrator)) if *asked == chosen => orchestrator.clone(),
            _ => {
                let tenant = like.tenant.clone();
                let orchestrator = Orchestrator::new(service.engine().clone(), like);
                known.insert(tenant, (chosen, orchestrator.clone()));
                orchestrator
            }
        }
    }
}

/// See the module.
pub(crate) async fn handle(
    State(service): State<Service>,
    Extension(orchestrators): Extension<Orchestrators>,
    caller: Caller,
    headers: HeaderMap,
    Keyed { body, key }: Keyed<UserRequest>,
) -> Result<Response, Problem> {
    caller.need(Scope::Run)?;
    agent(&caller, None)?;
    let mode = mode(&caller, body.mode)?;
    let channel = channel(&service, body.channel.as_deref())?;
    if body.user_message.trim().is_empty() {
        return Err(Problem::invalid("the message is empty: say what you want"));
    }
    let answered = match before(&service, &caller, key.as_ref()).await {
        Ok(None) => may_answer(&service, &caller, &body.session_id).await.map(|()| None),
        answered => answered,
    };
    if let Some(answered) = structured(answered)? {
        return Ok(answered);
    }
    let place = service.admit(&caller)?;
    let like = service.app().request(String::new(), &service.chosen());
    let like = like.map_err(|failure| internal(&failure.message))?;
    let like = RunRequest { tenant: caller.tenant.clone(), ..like };
    let parent = traceparent(&headers);
    // A key or a trace belongs to one request: such a request gets its own orchestrator, and still waits for the
    // session.
    let orchestrator = match key.is_some() || parent.is_some() {
        false => orchestrators.of(&service, like),
        true => {
            let like = RunRequest { key: key.clone(), traceparent: parent, ..like };
            Orchestrator::new(service.engine().clone(), like)
        }
    };
    let session = &body.session_id;
    let orchestrator = orchestrator.up_to(caller.max_mode);
    let message = &body.user_message;
    let result = orchestrator.handle_holding(session.as_str(), message, mode, &channel, place).await;
    if result.trace_id.is_none()
        && let Some(answered) = structured(before(&service, &caller, key.as_ref()).await)?
    {
        return Ok(answered); // the same request was faster
    }
    let about = answered_by(&service, &caller, session, &result).await;
    let response = Json(result).into_response();
    Ok(match about {
        Some(about) => about.on(response),
        None => response,
    })
}

/// Makes a result of a store that does not answer, too: an error status is only for a caller who was refused.
fn structured(answered: Result<Option<Response>, Problem>) -> Result<Option<Response>, Problem> {
    match answered {
        Err(problem) if matches!(problem.code, ProblemCode::StoreUnavailable | ProblemCode::Internal) => {
            Ok(Some(Json(failed(&problem)).into_response()))
        }
        answered => answered,
    }
}

/// The result where nothing could be begun.
fn failed(problem: &Problem) -> OrchestratorResult {
    let metadata = Map::from_iter([("error".to_owned(), problem.code.as_str().into())]);
    OrchestratorResult {
        reply: format!("I could not do this: {}", problem.detail),
        steps: vec![Step { kind: StepKind::Warning, description: problem.detail.clone(), metadata }],
        trace_id: None,
    }
}

/// The result of a request that was sent before.
async fn before(
    service: &Service,
    caller: &Caller,
    key: Option<&NewKey>,
) -> Result<Option<Response>, Problem> {
    let Some(key) = key else { return Ok(None) };
    let (engine, tenant) = (service.engine(), &caller.tenant);
    let now = baton_engine::Clock::now(&baton_engine::SystemClock);
    let Some(known) = engine.store().key(tenant, &key.route, &key.key, now).await? else { return Ok(None) };
    if known.body_hash != key.body_hash {
        return Err(EngineError::KeyMismatch.into());
    }
    let Some(run) = known.run else { return Ok(None) };
    let mut begun = StartedRun::found(service, caller, run).await?;
    begun.rested(service, caller).await?;
    let result = engine.result(tenant, run, 0).await?;
    Ok(Some(begun.told().on(Json(result).into_response())))
}

/// The run that a result is about.
async fn answered_by(
    service: &Service,
    caller: &Caller,
    session: &ThreadId,
    result: &OrchestratorResult,
) -> Option<RunHeaders> {
    let trace_id = result.trace_id.as_ref()?;
    let store = service.engine().store();
    let own = trace_id.parse::<RunId>().ok();
    if let Some(run) = own
        && let Ok(row) = store.run(&caller.tenant, run).await
    {
        return Some(RunHeaders::of(&row));
    }
    let filter = RunFilter { thread: Some(session.clone()), limit: NEWEST, ..RunFilter::default() };
    let rows = store.runs(&caller.tenant, &filter).await.ok()?;
    rows.iter().find(|row| trace_id_of(row) == *trace_id).map(RunHeaders::of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_does_not_answer_is_a_result_and_a_refusal_is_not() {
        let told =
            |problem: Problem| structured(Err(problem)).map(|told| told.map(|it| it.status().as_u16()));
        let down = Problem::new(ProblemCode::StoreUnavailable, "it cannot be reached").after(2);
        let expected = OrchestratorResult {
            reply: "I could not do this: it cannot be reached".to_owned(),
            steps: vec![Step {
                kind: StepKind::Warning,
                description: "it cannot be reached".to_owned(),
                metadata: Map::from_iter([("error".to_owned(), "store_unavailable".into())]),
            }],
            trace_id: None,
        };
        assert_eq!((failed(&down), told(down)), (expected, Ok(Some(200))));
        for code in [ProblemCode::IdempotencyMismatch, ProblemCode::Forbidden, ProblemCode::Overloaded] {
            let refused = Problem::new(code, "no");
            assert_eq!(told(refused.clone()), Err(refused));
        }
        assert!(structured(Ok(None)).is_ok_and(|answered| answered.is_none()));
    }
}
