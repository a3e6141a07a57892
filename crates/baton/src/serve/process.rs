//! `POST /process`: a message in, the whole answer out.
//!
//! A failed run is a problem here, with the run and its account in it, because the route has no other way to report it.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use baton_core::flow::question;
use baton_core::run::RunStatus;
use baton_engine::RunView;
use serde_json::{Value, json};

use super::auth::Caller;
use super::key::Keyed;
use super::problem::{Problem, ProblemCode, internal};
use super::run::{MessageRequest, RunHeaders, StartedRun, begin};
use super::shapes::Process;
use super::state::Service;

/// See the module.
pub(crate) async fn process(
    State(service): State<Service>,
    caller: Caller,
    headers: HeaderMap,
    Keyed { body, key }: Keyed<Process>,
) -> Result<Response, Problem> {
    let Process { message, thread_id, correlation_id, config } = body;
    let config = config.unwrap_or_default();
    let asked = MessageRequest { text: message, thread: thread_id, correlation: correlation_id, config, key };
    let mut begun = begin(&service, &caller, &headers, asked).await?;
    let view = rest(&service, &caller, &mut begun).await;
    let about = begun.told(); // a caller that disconnects counts as gone only until here
    let view = view?;
    let response = match answer(&view, &about) {
        Ok(document) => Json(document).into_response(),
        Err(problem) => problem.into_response(),
    };
    Ok(about.on(response))
}

/// Waits until the run rests, and reads it.
async fn rest(service: &Service, caller: &Caller, begun: &mut StartedRun) -> Result<RunView, Problem> {
    loop {
        let has_ended = begun.rested(service, caller).await?;
        let view = service.engine().view(&caller.tenant, begun.about.run).await?;
        // An answer may have arrived meanwhile, and then the run goes on.
        if has_ended || view.row.status == RunStatus::Suspended {
            return Ok(view);
        }
    }
}

/// The answer about a run that rests.
fn answer(view: &RunView, about: &RunHeaders) -> Result<Value, Problem> {
    let said = || view.result.clone().unwrap_or_default();
    let response = match view.row.status {
        RunStatus::Ok => said(),
        RunStatus::Suspended => question(&view.waiting).to_owned(),
        RunStatus::Cancelled => {
            let detail = "the run was cancelled before it had an answer";
            return Err(told(Problem::new(ProblemCode::Cancelled, detail), view, about));
        }
        RunStatus::Error => {
            let Some(fault) = &view.error else { return Err(internal("a run failed without saying why")) };
            return Err(told(Problem::new(ProblemCode::Run(fault.code), &fault.message), view, about));
        }
        RunStatus::Queued | RunStatus::Running => {
            return Err(internal("a run that goes on was taken for one that rests"));
        }
    };
    let mut document = json!({
        "status": view.row.status,
        "response": response,
        "thread_id": about.thread,
        "run_id": about.run,
        "trace_id": about.trace_id,
        "usage": view.row.budget.usage(),
        "steps": view.steps,
    });
    if view.row.status == RunStatus::Suspended {
        document["waiting"] = json!(view.waiting);
    }
    Ok(document)
}

fn told(problem: Problem, view: &RunView, about: &RunHeaders) -> Problem {
    problem
        .with("run_id", about.run.to_string())
        .with("trace_id", about.trace_id.as_str())
        .with("steps", json!(view.steps))
}
