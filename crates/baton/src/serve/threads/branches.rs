//! Listing and changing branches.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use baton_core::id::BranchName;
use baton_core::thread::TreeError;
use baton_core::time::Timestamp;
use baton_engine::{Clock, SystemClock};
use baton_store::{ForkAt, PruneRequest, StoreError};
use serde_json::Value;
use uuid::Uuid;

use super::super::auth::{Caller, Scope};
use super::super::body::{self, Path, Query};
use super::super::page::{Page, limit};
use super::super::problem::{Problem, internal};
use super::super::shapes::{Age, BranchesQuery, Checkout, Fork, Prune, Rewind};
use super::super::state::Service;
use super::{branch_of, known};
use crate::commands::threads::milliseconds;
use crate::shape;

/// `GET /v1/threads/{id}/branches`.
pub(crate) async fn branches(
    State(service): State<Service>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<BranchesQuery>,
) -> Result<Page, Problem> {
    caller.need(Scope::Read)?;
    let mut page = Page::new(limit(query.limit)?);
    let thread = service.engine().store().thread(&caller.tenant, &known(&id)?).await?;
    let is_shown = |name: &BranchName| query.after.as_ref().is_none_or(|after| name > after);
    for branch in thread.branches.iter().filter(|branch| is_shown(&branch.name)) {
        page.add(&shape::branch(&thread, branch), branch.name.to_string());
        if page.wanted().is_none() {
            break;
        }
    }
    Ok(page)
}

/// `POST /v1/threads/{id}/fork`.
pub(crate) async fn fork(
    State(service): State<Service>,
    caller: Caller,
    Path(id): Path<String>,
    body::Json(wanted): body::Json<Fork>,
) -> Result<Response, Problem> {
    caller.need(Scope::Run)?;
    let (id, store, tenant) = (known(&id)?, service.engine().store(), &caller.tenant);
    let at = match (wanted.index, wanted.entry) {
        (Some(_), Some(_)) => return Err(Problem::invalid("send `index` or `entry`, not both")),
        (Some(index), None) => ForkAt::Index(index),
        (None, Some(entry)) => ForkAt::Entry(entry),
        (None, None) => ForkAt::Head,
    };
    let name = loop {
        let name = match &wanted.name {
            Some(name) => name.clone(),
            None => made_up()?,
        };
        match store.fork(tenant, &id, wanted.from.as_ref(), &at, name.clone(), SystemClock.now()).await {
            // The name was made up, so the next one will do as well.
            Err(StoreError::Tree(TreeError::BranchExists(_))) if wanted.name.is_none() => {}
            forked => {
                forked?;
                break name;
            }
        }
    };
    let thread = store.thread(tenant, &id).await?;
    Ok((StatusCode::CREATED, Json(branch_of(&thread, &name)?)).into_response())
}

/// A short name, like `b-3f2a`.
fn made_up() -> Result<BranchName, Problem> {
    let random = Uuid::now_v7().simple().to_string();
    let name = format!("b-{}", &random[random.len() - 4..]);
    name.parse().map_err(|_| internal("a name that was made up is not one"))
}

/// `POST /v1/threads/{id}/checkout`.
pub(crate) async fn checkout(
    State(service): State<Service>,
    caller: Caller,
    Path(id): Path<String>,
    body::Json(Checkout { branch }): body::Json<Checkout>,
) -> Result<Json<Value>, Problem> {
    caller.need(Scope::Run)?;
    let (id, store) = (known(&id)?, service.engine().store());
    store.checkout(&caller.tenant, &id, &branch).await?;
    let thread = store.thread(&caller.tenant, &id).await?;
    branch_of(&thread, &branch).map(Json)
}

/// `POST /v1/threads/{id}/rewind`.
pub(crate) async fn rewind(
    State(service): State<Service>,
    caller: Caller,
    Path(id): Path<String>,
    body::Json(Rewind { index, branch }): body::Json<Rewind>,
) -> Result<Json<Value>, Problem> {
    caller.need(Scope::Run)?;
    let (id, store) = (known(&id)?, service.engine().store());
    let rewound = store.rewind(&caller.tenant, &id, branch.as_ref(), index).await?;
    Ok(Json(shape::rewound(&rewound, index)))
}

/// `DELETE /v1/threads/{id}/branches/{name}`.
pub(crate) async fn remove(
    State(service): State<Service>,
    caller: Caller,
    Path((id, name)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    caller.need(Scope::Run)?;
    let id = known(&id)?;
    let name: BranchName = name.parse().map_err(|_| Problem::not_found("branch"))?;
    service.engine().store().delete_branch(&caller.tenant, &id, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /v1/threads/{id}/prune`.
pub(crate) async fn prune(
    State(service): State<Service>,
    caller: Caller,
    Path(id): Path<String>,
    body::Json(Prune { older_than, keep, dry_run }): body::Json<Prune>,
) -> Result<Json<Value>, Problem> {
    caller.need(Scope::Run)?;
    let id = known(&id)?;
    let age_ms = match older_than {
        None => None,
        Some(Age::Seconds(seconds)) => Some(u64::from(seconds) * 1000),
        Some(Age::Text(text)) if text.len() > 10 => {
            return Err(Problem::invalid("`older_than` is seconds, or a time like \"12h\" or \"7d\""));
        }
        Some(Age::Text(text)) => {
            Some(milliseconds(&text).map_err(|why| Problem::invalid(format!("`older_than`: {why}")))?)
        }
    };
    let now = SystemClock.now();
    let before = |ms: u64| Timestamp(now.0.saturating_sub(i64::try_from(ms).unwrap_or(i64::MAX)));
    let request = PruneRequest { idle_before: age_ms.map(before), keep, dry_run };
    let pruned = service.engine().store().prune(&caller.tenant, &id, &request).await?;
    Ok(Json(shape::pruned(&pruned, dry_run)))
}
