//! Baton as an execution service: `GET /tools` and `POST /execute`.
//!
//! A call is decided like a request on the channel `EXECUTE` in the caller's mode. A problem with the tool or its
//! arguments is an answer, not an error status: the call was asked for by a model, which can act on words. Tools that
//! come from another service are not passed on, so that two services that name each other do not call in circles, and
//! neither is `ask_user`, which only a run can answer.

use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use baton_core::json::{canonical, sha256_hex};
use baton_core::policy::{CallRule, EXECUTE};
use baton_core::tool::{ASK_USER, EffectClass, ToolSpec};
use baton_engine::{Execute, Executed};
use baton_tools::execution::CONTEXT_HEADER;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::auth::{Caller, Scope};
use super::body;
use super::key::Keyed;
use super::problem::Problem;
use super::run::agent;
use super::state::Service;

/// The least and the most time that a caller may give a call, in seconds.
const LEAST_S: f64 = 0.001;
const MOST_S: f64 = 86_400.0;

/// The answer of `GET /tools`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Tools {
    pub(crate) tools: Vec<Offered>,
}

/// A tool that can be called here.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct Offered {
    /// The name to call it by.
    pub(crate) name: String,
    /// Its purpose, and when to use it.
    pub(crate) description: String,
    /// The JSON Schema of its arguments.
    pub(crate) input_schema: Value,
    /// The JSON Schema of its result, where it promises one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output_schema: Option<Value>,
    /// Whether it changes nothing.
    pub(crate) side_effect_free: bool,
    /// Whether the same call with the same `Idempotency-Key` takes effect once.
    pub(crate) idempotent: bool,
    /// Whether it expects the caller's account of the run in the header `x-baton-context`.
    pub(crate) requires_context: bool,
    /// How long a call may take, in seconds.
    pub(crate) timeout_s: f64,
}

/// The body of `POST /execute`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExecuteRequest {
    /// The tool.
    pub(crate) tool_name: String,
    /// Its arguments: a JSON object that fits the tool's schema.
    pub(crate) arguments: Value,
    /// How long it may take, in seconds, if less than the tool's own time.
    #[serde(default)]
    #[schemars(range(min = 0.001, max = 86_400.0))]
    pub(crate) timeout: Option<f64>,
}

/// The answer of `POST /execute`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub(crate) struct ExecuteAnswer {
    pub(crate) status: ExecuteStatus,
    /// The result of the tool, or the error in words.
    pub(crate) output: Value,
    /// How long it took.
    pub(crate) execution_time_ms: f64,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExecuteStatus {
    /// It worked.
    Success,
    /// The tool is not there, not allowed, was called wrongly, or failed.
    Error,
}

/// `GET /tools`: the tools that this caller may call.
pub(crate) async fn tools(
    State(service): State<Service>,
    caller: Caller,
) -> Result<axum::Json<Tools>, Problem> {
    caller.need(Scope::Run)?;
    let decision = service.app().decide(caller.max_mode, EXECUTE);
    let decision = decision.map_err(|failure| Problem::invalid(failure.message))?;
    let may = |spec: &ToolSpec| {
        is_ours(spec) && !spec.trust.approve && decision.call(&spec.name) == CallRule::Allowed
    };
    let specs = service.engine().tools().specs();
    Ok(axum::Json(Tools { tools: specs.iter().filter(|spec| may(spec)).map(offered).collect() }))
}

/// `POST /execute`: calls a tool.
pub(crate) async fn execute(
    State(service): State<Service>,
    caller: Caller,
    headers: HeaderMap,
    Keyed { body, key }: Keyed<ExecuteRequest>,
) -> Result<axum::Json<ExecuteAnswer>, Problem> {
    caller.need(Scope::Run)?;
    agent(&caller, None)?;
    let ExecuteRequest { tool_name, arguments, timeout } = body;
    let timeout = timeout.map(time).transpose()?;
    let metadata = context(&headers)?;
    let is_foreign = service.engine().tools().get(&tool_name).is_some_and(|tool| !is_ours(tool.spec()));
    if is_foreign {
        let output = Value::String(format!("there is no tool {tool_name:?}"));
        return Ok(axum::Json(answer(Executed { is_ok: false, output, execution_time_ms: 0.0 })));
    }
    let place = service.admit(&caller)?;
    // A retry may be given another time limit, and is the same call.
    let what = sha256_hex(canonical(&json!([tool_name, arguments])).as_bytes());
    let key = key.map(|key| baton_store::NewKey { body_hash: what, ..key });
    let call = Execute {
        tenant: caller.tenant.clone(),
        mode: caller.max_mode,
        name: tool_name,
        arguments,
        timeout,
        key,
        metadata,
        by: caller.by.clone(),
    };
    Ok(axum::Json(answer(service.engine().execute_holding(call, place).await?)))
}

fn is_ours(spec: &ToolSpec) -> bool {
    spec.service.is_none() && spec.name != ASK_USER
}

fn offered(spec: &ToolSpec) -> Offered {
    Offered {
        name: spec.name.clone(),
        description: spec.description.clone(),
        input_schema: spec.input_schema.clone(),
        output_schema: spec.output_schema.clone(),
        side_effect_free: spec.class == EffectClass::SideEffectFree,
        idempotent: spec.class.may_run_again(),
        requires_context: spec.requires_context,
        timeout_s: spec.timeout_ms as f64 / 1000.0,
    }
}

fn time(seconds: f64) -> Result<Duration, Problem> {
    let fits = (LEAST_S..=MOST_S).contains(&seconds);
    fits.then(|| Duration::from_secs_f64(seconds)).ok_or_else(|| {
        Problem::invalid(format!("`timeout` is a number of seconds from {LEAST_S} to {MOST_S}"))
    })
}

/// The caller's account of the run that the call belongs to.
fn context(headers: &HeaderMap) -> Result<Value, Problem> {
    let Some(told) = headers.get(CONTEXT_HEADER) else { return Ok(Value::Null) };
    body::parse(told.as_bytes())
        .map_err(|problem| Problem::invalid(format!("{CONTEXT_HEADER}: {}", problem.detail)))
}

fn answer(executed: Executed) -> ExecuteAnswer {
    let Executed { is_ok, output, execution_time_ms } = executed;
    let status = if is_ok { ExecuteStatus::Success } else { ExecuteStatus::Error };
    ExecuteAnswer { status, output, execution_time_ms }
}
