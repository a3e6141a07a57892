//! Threads and their branches.
//!
//! The store decides which changes are allowed; a missing thread and one of another tenant are both answered with 404.
//! Deleting a thread first ends the runs on it.

mod branches;
mod ending;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use baton_core::id::{Tenant, ThreadId};
use baton_core::json::sha256_hex;
use baton_engine::{Clock, EngineError, SystemClock};
use baton_store::{KeyRow, NewKey, NewThread, Store, StoreError};
use serde_json::Value;
use uuid::Uuid;

use super::auth::{Caller, Scope};
use super::body::{Path, Query, thread_id};
use super::key::Keyed;
use super::page::{Page, limit};
use super::problem::{Problem, internal};
use super::run::agent;
use super::shapes::{NewThread as Wanted, ThreadsQuery};
use super::state::Service;
use crate::shape;
pub(crate) use branches::{branches, checkout, fork, prune, remove, rewind};

/// `POST /v1/threads`.
pub(crate) async fn create(
    State(service): State<Service>,
    caller: Caller,
    Keyed { body: wanted, key }: Keyed<Wanted>,
) -> Result<Response, Problem> {
    caller.need(Scope::Run)?;
    agent(&caller, wanted.agent.as_deref())?;
    let at = SystemClock.now();
    let ttl_at = match wanted.ttl_s {
        None => None,
        Some(seconds @ 1..=3_153_600_000) => Some(at.plus_ms(seconds * 1000)),
        Some(_) => return Err(Problem::invalid("`ttl_s` is 1 to 3153600000 seconds")),
    };
    let is_named = wanted.id.is_some();
    let id = match wanted.id {
        Some(id) => id,
        None => made(key.as_ref())?,
    };
    let meta = wanted.meta.map_or(Value::Null, Value::Object);
    let (store, tenant) = (service.store(), &caller.tenant);
    if !is_known(store, tenant, key.as_ref()).await? {
        match store.create_thread(tenant, NewThread { id: id.clone(), at, ttl_at, meta }).await {
            // An earlier attempt of the same request made it, and ended before it noted its key.
            Err(StoreError::Exists { .. }) if !is_named && key.is_some() => {}
            made => made?,
        }
        if let Some(key) = &key
            && let Some(known) = store.begin_key(tenant, key, None, None, at).await?
        {
            is_same(&known, key)?;
        }
    }
    let thread = store.thread(tenant, &id).await?;
    let place = [(LOCATION, format!("/v1/threads/{id}"))];
    Ok((StatusCode::CREATED, place, Json(shape::thread(&thread))).into_response())
}

/// The id of a thread that was not given one. Under a key it is derived from the request, so that the same request
/// always means the same thread.
fn made(key: Option<&NewKey>) -> Result<ThreadId, Problem> {
    let id = match key {
        None => Uuid::now_v7(),
        Some(NewKey { route, key, body_hash, .. }) => {
            let hash = sha256_hex(format!("{route}\n{key}\n{body_hash}").as_bytes());
            let bits = hash.get(..32).and_then(|half| u128::from_str_radix(half, 16).ok());
            Uuid::from_u128(bits.ok_or_else(|| internal("a hash that was made is not one"))?)
        }
    };
    id.to_string().parse().map_err(|_| internal("an id that was made is not one"))
}

/// Whether the same request was answered before.
async fn is_known(store: &Store, tenant: &Tenant, key: Option<&NewKey>) -> Result<bool, Problem> {
    let Some(key) = key else { return Ok(false) };
    let Some(known) = store.key(tenant, &key.route, &key.key, SystemClock.now()).await? else {
        return Ok(false);
    };
    is_same(&known, key).map(|()| true)
}

fn is_same(known: &KeyRow, key: &NewKey) -> Result<(), Problem> {
    if known.body_hash == key.body_hash { Ok(()) } else { Err(EngineError::KeyMismatch.into()) }
}

/// `GET /v1/threads`.
pub(crate) async fn list(
    State(service): State<Service>,
    caller: Caller,
    Query(query): Query<ThreadsQuery>,
) -> Result<Page, Problem> {
    caller.need(Scope::Read)?;
    let (mut page, mut after) = (Page::new(limit(query.limit)?), query.after);
    while let Some(wanted) = page.wanted() {
        let found = service.store().threads(&caller.tenant, wanted, after.as_ref()).await?;
        let is_last = found.len() < wanted as usize;
        for thread in &found {
            page.add(&shape::thread(thread), thread.id.to_string());
        }
        after = found.into_iter().last().map(|thread| thread.id);
        if is_last {
            break;
        }
    }
    Ok(page)
}

/// `GET /v1/threads/{id}`.
pub(crate) async fn read(
    State(service): State<Service>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    caller.need(Scope::Read)?;
    let thread = service.engine().store().thread(&caller.tenant, &known(&id)?).await?;
    Ok(Json(shape::thread(&thread)))
}

/// `DELETE /v1/threads/{id}`.
pub(crate) async fn delete(
    State(service): State<Service>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    caller.need(Scope::Run)?;
    let id = known(&id)?;
    service.engine().store().thread(&caller.tenant, &id).await?;
    ending::end_runs(&service, &caller.tenant, &id).await?;
    let by = caller.by.as_deref().unwrap_or("somebody on this machine");
    service.engine().delete_thread(&caller.tenant, &id, by).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The thread id of a path. A name that no thread can have is answered as a missing thread.
pub(crate) fn known(id: &str) -> Result<ThreadId, Problem> {
    thread_id(id).map_err(|_| Problem::not_found("thread"))
}

/// The branch, as `POST …/checkout` and its like answer it.
fn branch_of(thread: &baton_store::ThreadView, name: &baton_core::id::BranchName) -> Result<Value, Problem> {
    let found = thread.branches.iter().find(|branch| branch.name == *name);
    found.map(|branch| shape::branch(thread, branch)).ok_or_else(|| Problem::not_found("branch"))
}
