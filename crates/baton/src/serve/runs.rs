//! Existing runs: listing, reading, watching, cancelling, answering and tracing them.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use baton_core::id::{Cursor, RunId, Tenant};
use baton_engine::EngineError;
use baton_store::{RunFilter, StoreError};
use serde_json::json;

use super::auth::{Caller, Scope};
use super::body::{self, Path, Query, run_id};
use super::page::{Page, limit};
use super::problem::Problem;
use super::run::{RunHeaders, may_steer};
use super::shapes::{EventsQuery, RunsQuery, Said};
use super::state::Service;
use super::stream::{RunStream, Until};
use crate::dialect::sse::SseRendering;
use crate::shape;

/// The header with the place of the last event that a reader has seen.
pub(crate) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// `GET /v1/runs`.
pub(crate) async fn list(
    State(service): State<Service>,
    caller: Caller,
    Query(query): Query<RunsQuery>,
) -> Result<Page, Problem> {
    caller.need(Scope::Read)?;
    let mut page = Page::new(limit(query.limit)?);
    let RunsQuery { thread, status, mut after, .. } = query;
    while let Some(wanted) = page.wanted() {
        let filter = RunFilter { thread: thread.clone(), status, fragment: None, after, limit: wanted };
        let found = service.store().runs(&caller.tenant, &filter).await?;
        for row in &found {
            match service.engine().view(&caller.tenant, row.id).await {
                Ok(view) => page.add(&shape::run(&view), row.id.to_string()),
                Err(EngineError::Store(StoreError::NotFound { .. })) => {} // deleted since it was listed
                Err(error) => return Err(error.into()),
            }
            if page.wanted().is_none() {
                break; // spares reading the others
            }
        }
        after = found.last().map(|row| row.id);
        if found.len() < wanted as usize {
            break;
        }
    }
    if let Some(thread) = thread.filter(|_| page.is_empty()) {
        service.store().thread(&caller.tenant, &thread).await?; // none of it, or no such thread
    }
    Ok(page)
}

/// `GET /v1/runs/{id}`.
pub(crate) async fn read(
    State(service): State<Service>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    caller.need(Scope::Read)?;
    let view = service.engine().view(&caller.tenant, run_id(&id)?).await?;
    Ok(RunHeaders::of(&view.row).on(Json(shape::run(&view)).into_response()))
}

/// `GET /v1/runs/{id}/events`.
pub(crate) async fn events(
    State(service): State<Service>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    Query(query): Query<EventsQuery>,
) -> Result<Response, Problem> {
    caller.need(Scope::Read)?;
    let run = run_id(&id)?;
    let about = RunHeaders::read(service.engine(), &caller.tenant, run).await?;
    let watch = RunStream {
        permit: Some(service.stream(&caller)?.of(run, service.limits())?),
        engine: service.engine().clone(),
        tenant: caller.tenant,
        pass: caller.pass,
        auth: service.auth().clone(),
        run,
        from: cursor(&headers, query.after.as_deref())?,
        showing: SseRendering {
            dialect: query.dialect.unwrap_or_default(),
            reasoning: query.show_reasoning.unwrap_or_default(),
        },
        until: Until::End,
        heartbeat: service.limits().heartbeat,
        buffer: service.limits().buffer_bytes,
        closing: service.closing().clone(),
        gone: None,
    };
    Ok(about.on(watch.open().await?))
}

/// The place from which a reader continues. A browser that reconnects sends it in a header and repeats the URL.
fn cursor(headers: &HeaderMap, after: Option<&str>) -> Result<Cursor, Problem> {
    let mut sent = headers.get_all(LAST_EVENT).iter();
    let header = match (sent.next(), sent.next()) {
        (None, _) => None,
        (Some(only), None) => {
            Some(only.to_str().map_err(|_| Problem::invalid("Last-Event-ID is EPOCH.SEQ"))?)
        }
        (Some(_), Some(_)) => return Err(Problem::invalid("send one Last-Event-ID")),
    };
    match header.filter(|header| !header.is_empty()).or(after) {
        Some(text) => {
            text.parse().map_err(|error: baton_core::id::BadId| Problem::invalid(error.to_string()))
        }
        None => Ok(Cursor::default()),
    }
}

/// `POST /v1/runs/{id}/cancel`.
pub(crate) async fn cancel(
    State(service): State<Service>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    caller.need(Scope::Run)?;
    let run = run_id(&id)?;
    let status = service.engine().cancel(&caller.tenant, run).await?;
    if !status.has_ended() {
        go_on(&service, &caller.tenant, run);
    }
    let about = RunHeaders::read(service.engine(), &caller.tenant, run).await?;
    Ok(about.on((StatusCode::ACCEPTED, Json(json!({ "status": status }))).into_response()))
}

/// `POST /v1/runs/{id}/input`.
pub(crate) async fn input(
    State(service): State<Service>,
    caller: Caller,
    Path(id): Path<String>,
    body::Json(Said { text }): body::Json<Said>,
) -> Result<Response, Problem> {
    caller.need(Scope::Run)?;
    let run = run_id(&id)?;
    let row = service.store().run(&caller.tenant, run).await?;
    may_steer(&service, &caller, run).await?;
    let about = RunHeaders::of(&row);
    if text.trim().is_empty() {
        return Err(Problem::invalid("the text is empty: say what you want"));
    }
    let input_id = service.engine().input(&caller.tenant, run, &text).await?;
    go_on(&service, &caller.tenant, run);
    Ok(about.on((StatusCode::ACCEPTED, Json(json!({ "input_id": input_id }))).into_response()))
}

/// `GET /v1/runs/{id}/trace`.
pub(crate) async fn trace(
    State(service): State<Service>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    caller.need(Scope::Read)?;
    let run = run_id(&id)?;
    let about = RunHeaders::read(service.engine(), &caller.tenant, run).await?;
    let trace = service.engine().trace(&caller.tenant, run).await?;
    Ok(about.on(Json(shape::trace(&trace)).into_response()))
}

/// Drives a run that was posted something, if no process does, so that it need not wait for the next search for work.
pub(crate) fn go_on(service: &Service, tenant: &Tenant, run: RunId) {
    let (engine, tenant) = (service.engine().clone(), tenant.clone());
    tokio::spawn(async move {
        if let Err(error) = engine.drive(&tenant, run).await {
            tracing::info!(%run, %error, "a run that was posted something is left to others");
        }
    });
}
