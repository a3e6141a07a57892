//! The entries of a thread: reading and appending them.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use baton_core::id::EntryId;
use baton_core::thread::{Entry, NewEntry, PlacedEntry};
use baton_engine::{Clock, SystemClock};
use baton_store::Slice;
use serde_json::Value;
use uuid::Uuid;

use super::auth::{Caller, Scope};
use super::body::{self, Path, Query};
use super::page::{MOST, Page, limit};
use super::problem::Problem;
use super::shapes::{EntriesQuery, Push};
use super::state::Service;
use super::threads::known;
use crate::shape;

/// `GET /v1/threads/{id}/entries`.
pub(crate) async fn list(
    State(service): State<Service>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<EntriesQuery>,
) -> Result<Page, Problem> {
    caller.need(Scope::Read)?;
    let id = known(&id)?;
    if query.last_n.is_some_and(|n| n == 0 || n > MOST) {
        return Err(Problem::invalid(format!("`last_n` is 1 to {MOST}")));
    }
    let mut page = Page::new(query.last_n.map_or_else(|| limit(query.limit), Ok)?);
    let (store, branch) = (service.engine().store(), query.branch.as_ref());
    let read =
        async |before, n| store.entries(&caller.tenant, &id, branch, Slice { before, last_n: Some(n) }).await;
    // The window is fixed before it is read: entries appended meanwhile do not move it.
    let Some(last) = read(query.before, 1).await?.pop() else { return Ok(page) };
    let end = last.index + 1;
    let of_last = query.last_n.map_or(0, |n| end - i64::from(n));
    let mut at = query.after.map_or(0, |after| after.saturating_add(1)).max(of_last).max(0);
    while let Some(wanted) = page.wanted().filter(|_| at < end) {
        let before = at.saturating_add(wanted.into()).min(end);
        let n = u32::try_from(before - at).unwrap_or(wanted);
        let found = read(Some(before), n).await?;
        for placed in found.iter().filter(|placed| placed.index >= at) {
            page.add(&shape::entry(placed), placed.index.to_string());
        }
        at = before;
    }
    Ok(page)
}

/// `POST /v1/threads/{id}/entries`.
pub(crate) async fn push(
    State(service): State<Service>,
    caller: Caller,
    Path(id): Path<String>,
    body::Json(Push { t, data, v, branch }): body::Json<Push>,
) -> Result<Response, Problem> {
    caller.need(Scope::Run)?;
    let id = known(&id)?;
    let version = v.unwrap_or(1);
    if version == 0 {
        return Err(Problem::invalid("`v` is at least 1"));
    }
    let entry = Entry::from_parts(&t, version, Value::Object(data));
    let entry = entry.map_err(|error| Problem::invalid(error.to_string()))?;
    let (entry_id, at) = (EntryId(Uuid::now_v7()), SystemClock.now());
    let new = NewEntry { id: entry_id, at, entry: entry.with_id(entry_id) };
    let entry = new.entry.clone();
    let index = service.engine().store().push(&caller.tenant, &id, branch.as_ref(), new).await?;
    let placed = PlacedEntry { index, id: entry_id, at, run: None, entry };
    Ok((StatusCode::CREATED, Json(shape::entry(&placed))).into_response())
}

/// `GET /v1/blobs/{sha256}`.
pub(crate) async fn blob(
    State(service): State<Service>,
    caller: Caller,
    Path(hash): Path<String>,
) -> Result<Response, Problem> {
    caller.need(Scope::Read)?;
    let found = service.engine().store().blob(&caller.tenant, &hash).await?;
    let bytes = found.ok_or_else(|| Problem::not_found("blob"))?;
    // The bytes may be anything, and no browser should show them as a page.
    let headers =
        [(CONTENT_TYPE.as_str(), "application/octet-stream"), ("x-content-type-options", "nosniff")];
    Ok((headers, bytes).into_response())
}
