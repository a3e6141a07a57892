//! The transitions of a run, and forks that continue from one of them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::auth::{Caller, Scope};
use super::body::{Path, Query, run_id};
use super::key::Keyed;
use super::page::{Page, limit};
use super::problem::{Problem, internal};
use super::run::{RunHeaders, may_steer};
use super::shapes::{ForkRun, StepsQuery};
use super::state::Service;
use crate::shape;

/// `GET /v1/runs/{id}/checkpoints`.
pub(crate) async fn list(
    State(service): State<Service>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<StepsQuery>,
) -> Result<Response, Problem> {
    caller.need(Scope::Read)?;
    let (run, mut page) = (run_id(&id)?, Page::new(limit(query.limit)?));
    let store = service.engine().store();
    let row = store.run(&caller.tenant, run).await?;
    let mut after = query.after.unwrap_or_default();
    while let Some(wanted) = page.wanted() {
        let found = store.steps(&caller.tenant, run, after, wanted).await?;
        for step in &found {
            page.add(&shape::checkpoint(&row, step), step.step.to_string());
            after = step.step;
        }
        if found.len() < wanted as usize {
            break;
        }
    }
    Ok(RunHeaders::of(&row).on(page.into_response()))
}

/// `POST /v1/runs/{id}/fork`.
pub(crate) async fn fork(
    State(service): State<Service>,
    caller: Caller,
    Path(id): Path<String>,
    Keyed { body, key }: Keyed<ForkRun>,
) -> Result<Response, Problem> {
    caller.need(Scope::Run)?;
    let place = service.admit(&caller)?;
    let run = run_id(&id)?;
    may_steer(&service, &caller, run).await?;
    let (engine, tenant) = (service.engine().clone(), caller.tenant.clone());
    // A task of its own: a caller that disconnects interrupts nothing half-way.
    let forking = tokio::spawn(async move {
        let forked = engine.fork_run(&tenant, run, body.step, key).await;
        drop(place);
        forked
    });
    let forked = forking.await.map_err(|_| internal("the task that forks a run is gone"))??.run();
    let about = RunHeaders::read(service.engine(), &caller.tenant, forked).await?;
    Ok(about.on((StatusCode::CREATED, Json(json!({ "run_id": forked }))).into_response()))
}
