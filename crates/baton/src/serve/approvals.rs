//! Approvals: calls that agents may not make without a person, and the person's decision.
//!
//! The first decision counts. Exactly the call that was approved, or its edited replacement, runs.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use baton_core::run::Choice;
use baton_engine::{Clock, SystemClock};

use super::auth::{Caller, Scope};
use super::body::{self, Path, Query, run_id};
use super::page::{Page, limit};
use super::problem::Problem;
use super::run::{RunHeaders, may_steer};
use super::runs::go_on;
use super::shapes::{ApprovalsQuery, Decide};
use super::state::Service;
use crate::shape;

/// `GET /v1/approvals`.
pub(crate) async fn list(
    State(service): State<Service>,
    caller: Caller,
    Query(query): Query<ApprovalsQuery>,
) -> Result<Page, Problem> {
    caller.need(Scope::Read)?;
    let (mut page, mut after) = (Page::new(limit(query.limit)?), query.after);
    let now = SystemClock.now();
    while let Some(wanted) = page.wanted() {
        let found = service.store().approvals(&caller.tenant, query.status, after.as_deref(), wanted).await?;
        let is_last = found.len() < wanted as usize;
        for approval in &found {
            page.add(&shape::approval(approval, now), approval.id.clone());
        }
        after = found.into_iter().last().map(|approval| approval.id);
        if is_last {
            break;
        }
    }
    Ok(page)
}

/// `POST /v1/runs/{id}/approvals/{approval_id}`.
pub(crate) async fn decide(
    State(service): State<Service>,
    caller: Caller,
    Path((id, approval_id)): Path<(String, String)>,
    body::Json(Decide { decision, arguments, reason }): body::Json<Decide>,
) -> Result<Response, Problem> {
    caller.need(Scope::Approve)?;
    let (engine, tenant) = (service.engine(), &caller.tenant);
    let run = run_id(&id)?;
    let about = RunHeaders::read(engine, tenant, run).await?;
    let asked = engine.store().approval(tenant, &approval_id).await?;
    if asked.run_id != run {
        return Err(Problem::not_found("approval"));
    }
    may_steer(&service, &caller, run).await?;
    if decision != Choice::Edit && arguments.is_some() {
        return Err(Problem::invalid("`arguments` go with the decision `edit` alone"));
    }
    let decided = engine.decide(tenant, &approval_id, decision, arguments, reason, caller.by.clone()).await?;
    go_on(&service, tenant, run);
    Ok(about.on(Json(shape::approval(&decided, SystemClock.now())).into_response()))
}
