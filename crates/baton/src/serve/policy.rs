//! `GET /v1/policy`: the policy's decisions about a message, and the rows behind them.

use axum::Json;
use axum::extract::State;
use baton_core::policy::explain::Explained;

use super::auth::{Caller, Scope};
use super::body::Query;
use super::problem::Problem;
use super::run::{channel, mode};
use super::shapes::PolicyQuery;
use super::state::Service;
use crate::commands::policy::explain::explained;

/// Answers with the output of `baton policy explain --json`; the mode is one that the caller may use.
pub(crate) async fn read(
    State(service): State<Service>,
    caller: Caller,
    Query(PolicyQuery { mode: wanted, channel: name, message }): Query<PolicyQuery>,
) -> Result<Json<Explained>, Problem> {
    caller.need(Scope::Read)?;
    let (mode, channel) = (mode(&caller, wanted)?, channel(&service, name.as_deref())?);
    let explained = explained(service.app(), mode, &channel, message.as_deref().unwrap_or_default());
    explained.map(Json).map_err(|failure| Problem::invalid(failure.message))
}
