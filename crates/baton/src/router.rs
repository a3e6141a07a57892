//! Every route of the service, in one table.
//!
//! The router and `/openapi.json` are both made from it, so that the description matches the routes. A row holds the
//! path of a route, its scope, and the types of its request and answers; its handler is in `serve/`. The checks of the
//! shell (`serve.rs`) are around the routes, and no route can leave them out.

mod row;

use axum::Router;
use axum::extract::Extension;
use axum::http::Uri;
use axum::routing::{delete, get, post};

use crate::serve::auth::Scope::{Admin, Approve, Read, Run};
use crate::serve::problem::{Problem, ProblemCode};
use crate::serve::requests::Orchestrators;
use crate::serve::shapes as takes;
use crate::serve::shapes::answers as gives;
use crate::serve::state::Service;
use crate::serve::{
    approvals, checkpoints, docs, entries, events, execute, health, metrics, openapi, policy, process,
    render, requests, run, runs, threads,
};
pub(crate) use row::{Answer, Method, Route, Schema};
use row::{of, row};

/// Messages to an agent.
const AGENT: &str = "Agent";
/// Existing runs.
const RUNS: &str = "Runs";
/// Threads and their entries.
const THREADS: &str = "Threads";
/// The service itself.
const SERVICE: &str = "Service";

/// All routes.
pub(crate) const ROUTES: &[Route] = &[
    row(Method::Post, "/v1/agent/run", "runAgent", || post(run::agent_run))
        .about(AGENT, "Answers a message as a stream of events")
        .for_scope(Run)
        .body(of::<takes::AgentRun>)
        .keyed()
        .events(200)
        .of_a_run()
        .fails(&[404, 409]),
    row(Method::Post, "/process", "process", || post(process::process))
        .about(AGENT, "Answers a message when the whole answer is there")
        .for_scope(Run)
        .body(of::<takes::Process>)
        .keyed()
        .json(200, of::<gives::Processed>)
        .of_a_run()
        .fails(&[404, 409, 502, 504]),
    row(Method::Post, "/v1/requests", "handleUserRequest", || {
        post(requests::handle).layer(Extension(Orchestrators::default()))
    })
    .about(AGENT, "Answers a message of a session, whatever happens, with an account of it")
    .for_scope(Run)
    .body(of::<takes::UserRequest>)
    .keyed()
    .json(200, of::<gives::Answered>)
    .of_a_run()
    .fails(&[404]),
    row(Method::Post, "/v1/runs", "createRun", || post(run::create))
        .about(RUNS, "Begins a run: streams it to whoever accepts text/event-stream, otherwise names it")
        .for_scope(Run)
        .body(of::<takes::NewRun>)
        .keyed()
        .events(200)
        .json(202, of::<gives::Begun>)
        .of_a_run()
        .fails(&[404, 409]),
    row(Method::Get, "/v1/runs", "listRuns", || get(runs::list))
        .about(RUNS, "Lists runs, newest first")
        .for_scope(Read)
        .query(of::<takes::RunsQuery>)
        .json(200, of::<gives::List<gives::Run>>)
        .fails(&[404]),
    row(Method::Get, "/v1/runs/{id}", "getRun", || get(runs::read))
        .about(RUNS, "Reads a run")
        .for_scope(Read)
        .json(200, of::<gives::Run>)
        .of_a_run(),
    row(Method::Get, "/v1/runs/{id}/events", "watchRun", || get(runs::events))
        .about(RUNS, "Streams a run's events from the start or from a place, live to the end")
        .for_scope(Read)
        .query(of::<takes::EventsQuery>)
        .resumable()
        .events(200)
        .of_a_run(),
    row(Method::Post, "/v1/runs/{id}/cancel", "cancelRun", || post(runs::cancel))
        .about(RUNS, "Asks a run to stop; one that has ended stays as it is")
        .for_scope(Run)
        .json(202, of::<gives::Standing>)
        .of_a_run(),
    row(Method::Post, "/v1/runs/{id}/input", "sendInput", || post(runs::input))
        .about(RUNS, "Answers a run's question, or steers it")
        .for_scope(Run)
        .body(of::<takes::Said>)
        .json(202, of::<gives::Taken>)
        .of_a_run()
        .fails(&[409]),
    row(Method::Post, "/v1/runs/{id}/approvals/{approval_id}", "decideApproval", || post(approvals::decide))
        .about(RUNS, "Decides about a call that waits for a person")
        .for_scope(Approve)
        .body(of::<takes::Decide>)
        .json(200, of::<gives::Approval>)
        .of_a_run()
        .fails(&[409]),
    row(Method::Get, "/v1/approvals", "listApprovals", || get(approvals::list))
        .about(RUNS, "Lists approvals, newest first")
        .for_scope(Read)
        .query(of::<takes::ApprovalsQuery>)
        .json(200, of::<gives::List<gives::Approval>>)
        .fails(&[404]),
    row(Method::Get, "/v1/runs/{id}/checkpoints", "listCheckpoints", || get(checkpoints::list))
        .about(RUNS, "Lists the transitions of a run, oldest first")
        .for_scope(Read)
        .query(of::<takes::StepsQuery>)
        .json(200, of::<gives::List<gives::Checkpoint>>)
        .of_a_run(),
    row(Method::Post, "/v1/runs/{id}/fork", "forkRun", || post(checkpoints::fork))
        .about(RUNS, "Begins a run that goes on from a checkpoint of this one, on a new branch")
        .for_scope(Run)
        .body(of::<takes::ForkRun>)
        .keyed()
        .json(201, of::<gives::Begun>)
        .of_a_run()
        .fails(&[409]),
    row(Method::Get, "/v1/runs/{id}/trace", "traceRun", || get(runs::trace))
        .about(RUNS, "Shows a run as a tree of spans")
        .for_scope(Read)
        .json(200, of::<gives::Trace>)
        .of_a_run(),
    row(Method::Post, "/v1/threads", "createThread", || post(threads::create))
        .about(THREADS, "Makes a thread")
        .for_scope(Run)
        .body(of::<takes::NewThread>)
        .keyed()
        .json(201, of::<gives::Thread>)
        .fails(&[404, 409]),
    row(Method::Get, "/v1/threads", "listThreads", || get(threads::list))
        .about(THREADS, "Lists threads, newest first")
        .for_scope(Read)
        .query(of::<takes::ThreadsQuery>)
        .json(200, of::<gives::List<gives::Thread>>)
        .fails(&[404]),
    row(Method::Get, "/v1/threads/{id}", "getThread", || get(threads::read))
        .about(THREADS, "Reads a thread")
        .for_scope(Read)
        .json(200, of::<gives::Thread>),
    row(Method::Delete, "/v1/threads/{id}", "deleteThread", || delete(threads::delete))
        .about(THREADS, "Cancels a thread's runs, then deletes it with everything on it")
        .for_scope(Run)
        .nothing(204)
        .fails(&[409]),
    row(Method::Get, "/v1/threads/{id}/entries", "listEntries", || get(entries::list))
        .about(THREADS, "Lists the entries of a branch, oldest first")
        .for_scope(Read)
        .query(of::<takes::EntriesQuery>)
        .json(200, of::<gives::List<gives::Entry>>),
    row(Method::Post, "/v1/threads/{id}/entries", "pushEntry", || post(entries::push))
        .about(THREADS, "Appends one entry to a branch")
        .for_scope(Run)
        .body(of::<takes::Push>)
        .json(201, of::<gives::Entry>)
        .fails(&[409]),
    row(Method::Get, "/v1/threads/{id}/branches", "listBranches", || get(threads::branches))
        .about(THREADS, "Lists the branches of a thread by name")
        .for_scope(Read)
        .query(of::<takes::BranchesQuery>)
        .json(200, of::<gives::List<gives::Branch>>),
    row(Method::Post, "/v1/threads/{id}/fork", "forkThread", || post(threads::fork))
        .about(THREADS, "Adds a branch that ends at an entry; does not switch to it")
        .for_scope(Run)
        .body(of::<takes::Fork>)
        .json(201, of::<gives::Branch>)
        .fails(&[409]),
    row(Method::Post, "/v1/threads/{id}/checkout", "checkoutBranch", || post(threads::checkout))
        .about(THREADS, "Makes a branch the current one")
        .for_scope(Run)
        .body(of::<takes::Checkout>)
        .json(200, of::<gives::Branch>)
        .fails(&[409]),
    row(Method::Post, "/v1/threads/{id}/rewind", "rewindBranch", || post(threads::rewind))
        .about(THREADS, "Moves the end of a branch back; undoable until prune")
        .for_scope(Run)
        .body(of::<takes::Rewind>)
        .json(200, of::<gives::Rewound>)
        .fails(&[409]),
    row(Method::Delete, "/v1/threads/{id}/branches/{name}", "deleteBranch", || delete(threads::remove))
        .about(THREADS, "Removes a branch; its entries stay until prune")
        .for_scope(Run)
        .nothing(204)
        .fails(&[409]),
    row(Method::Post, "/v1/threads/{id}/prune", "pruneThread", || post(threads::prune))
        .about(THREADS, "Removes idle branches, then entries that no branch reaches")
        .for_scope(Run)
        .body(of::<takes::Prune>)
        .json(200, of::<gives::Pruned>)
        .fails(&[409]),
    row(Method::Get, "/v1/threads/{id}/render", "renderThread", || get(render::render))
        .about(THREADS, "Shows the messages that a model would be sent")
        .for_scope(Read)
        .query(of::<takes::RenderQuery>)
        .json(200, of::<gives::Rendered>),
    row(Method::Get, "/v1/blobs/{sha256}", "getBlob", || get(entries::blob))
        .about(THREADS, "Reads a long output by its hash")
        .for_scope(Read)
        .bytes(200, "application/octet-stream"),
    row(Method::Get, "/tools", "listTools", || get(execute::tools))
        .about(SERVICE, "Lists the tools that can be called here")
        .for_scope(Run)
        .json(200, of::<execute::Tools>),
    row(Method::Post, "/execute", "executeTool", || post(execute::execute))
        .about(SERVICE, "Calls a tool; anything about the tool or its arguments is an answer")
        .for_scope(Run)
        .body(of::<execute::ExecuteRequest>)
        .keyed()
        .json(200, of::<execute::ExecuteAnswer>)
        .fails(&[409]),
    row(Method::Get, "/v1/policy", "explainPolicy", || get(policy::read))
        .about(SERVICE, "Says what a message may do, and which row of the policy says so")
        .for_scope(Read)
        .query(of::<takes::PolicyQuery>)
        .json(200, of::<gives::Anything>),
    row(Method::Post, "/events", "receiveEvent", || post(events::receive))
        .about(SERVICE, "Takes an event into the audit trail")
        .for_scope(Run)
        .body(of::<events::NewEvent>)
        .keyed()
        .nothing(202),
    row(Method::Get, "/health", "getHealth", || get(health::health))
        .about(SERVICE, "Says whether this process can serve; no more than that to whom it does not know")
        .open()
        .json(200, of::<health::Health>),
    row(Method::Get, "/metrics", "getMetrics", || get(metrics::metrics))
        .about(SERVICE, "What was done so far, in numbers, for Prometheus")
        .for_scope(Admin)
        .bytes(200, "application/openmetrics-text"),
    row(Method::Get, "/", "getRoot", || get(docs::root))
        .about(SERVICE, "Leads to the page about this API")
        .open()
        .nothing(307),
    row(Method::Get, "/openapi.json", "getOpenApi", || get(openapi::openapi))
        .about(SERVICE, "Describes this API")
        .open()
        .json(200, of::<gives::Anything>),
    row(Method::Get, "/docs", "getDocs", || get(docs::page))
        .about(SERVICE, "Shows this description as a page")
        .open()
        .bytes(200, "text/html"),
    row(Method::Get, "/docs.js", "getDocsScript", || get(docs::script))
        .about(SERVICE, "The script of that page")
        .open()
        .bytes(200, "text/javascript"),
];

/// The routes, ready to be served.
pub(crate) fn router(service: Service) -> Router {
    let mut router = Router::new();
    for route in ROUTES {
        router = router.route(route.path, (route.handler)());
    }
    router.fallback(nowhere).method_not_allowed_fallback(not_so).with_state(service)
}

async fn nowhere(uri: Uri) -> Problem {
    let path = baton_core::id::excerpt(uri.path());
    Problem::new(
        ProblemCode::NotFound,
        format!("there is nothing at {path}; GET /openapi.json says what there is"),
    )
}

async fn not_so() -> Problem {
    Problem::new(ProblemCode::MethodNotAllowed, "this path has other methods: Allow names them")
}

#[cfg(test)]
mod tests;
