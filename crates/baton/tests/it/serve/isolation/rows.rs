//! Every route, as it is called with ids: the table of the matrix.
//!
//! A place for an id is `{KIND}`: in the path, in the query or in the body. A route may have several rows, for ids that do
//! not go together in one request.

/// One way to call a route.
pub(super) struct Row {
    /// The method.
    pub(super) method: &'static str,
    /// The path, and the query.
    pub(super) path: &'static str,
    pub(super) body: Option<&'static str>,
    /// The status where all ids are the tenant's own.
    pub(super) own: u16,
}

const fn get(path: &'static str) -> Row {
    Row { method: "GET", path, body: None, own: 200 }
}

const fn post(path: &'static str, body: &'static str, own: u16) -> Row {
    Row { method: "POST", path, body: Some(body), own }
}

const fn delete(path: &'static str) -> Row {
    Row { method: "DELETE", path, body: None, own: 204 }
}

/// All of them.
pub(super) const ROWS: &[Row] = &[
    post("/v1/agent/run", r#"{"input": "hi", "thread_id": "{thread}"}"#, 200),
    post(
        "/v1/agent/run",
        r#"{"input": "hi", "thread_id": "{thread}", "config": {"branch": "{branch}"}}"#,
        200,
    ),
    post("/process", r#"{"message": "hi", "thread_id": "{thread}"}"#, 200),
    post("/process", r#"{"message": "hi", "thread_id": "{thread}", "config": {"branch": "{branch}"}}"#, 200),
    post("/v1/requests", r#"{"session_id": "{thread}", "user_message": "hi"}"#, 200),
    post("/v1/runs", r#"{"flow": "turn", "input": "hi", "thread_id": "{thread}"}"#, 202),
    get("/v1/runs?thread={thread}"),
    get("/v1/runs?after={run}"),
    get("/v1/runs/{run}"),
    get("/v1/runs/{run}/events?dialect=raw"),
    Row { method: "POST", path: "/v1/runs/{run}/cancel", body: None, own: 202 },
    Row { method: "POST", path: "/v1/runs/{asking}/cancel", body: None, own: 202 },
    post("/v1/runs/{asking}/input", r#"{"text": "That one"}"#, 202),
    post("/v1/runs/{approving}/approvals/{approval}", r#"{"decision": "approve"}"#, 200),
    get("/v1/approvals?after={approval}"),
    get("/v1/runs/{run}/checkpoints"),
    get("/v1/runs/{run}/checkpoints?after={step}"),
    post("/v1/runs/{run}/fork", r#"{"step": {step}}"#, 201),
    get("/v1/runs/{run}/trace"),
    post("/v1/threads", r#"{"id": "{thread}"}"#, 409),
    get("/v1/threads?after={thread}"),
    get("/v1/threads/{thread}"),
    delete("/v1/threads/{thread}"),
    get("/v1/threads/{thread}/entries"),
    get("/v1/threads/{thread}/entries?branch={branch}"),
    post(
        "/v1/threads/{thread}/entries",
        r#"{"t": "UserMessage", "data": {"text": "hi"}, "branch": "{branch}"}"#,
        201,
    ),
    get("/v1/threads/{thread}/branches"),
    post("/v1/threads/{thread}/fork", r#"{"from": "{branch}", "name": "new"}"#, 201),
    post("/v1/threads/{thread}/fork", r#"{"entry": "{entry}", "name": "new"}"#, 201),
    post("/v1/threads/{thread}/checkout", r#"{"branch": "{branch}"}"#, 200),
    post("/v1/threads/{thread}/rewind", r#"{"index": 0, "branch": "{branch}"}"#, 200),
    delete("/v1/threads/{thread}/branches/{branch}"),
    post("/v1/threads/{thread}/prune", r#"{"keep": ["{branch}"], "dry_run": true}"#, 200),
    get("/v1/threads/{thread}/render?branch={branch}"),
    get("/v1/blobs/{blob}"),
    post("/execute", r#"{"tool_name": "read_blob", "arguments": {"hash": "{blob}"}}"#, 200),
    post("/execute", r#"{"tool_name": "search_blob", "arguments": {"hash": "{blob}", "pattern": "x"}}"#, 200),
    // Routes without ids.
    get("/v1/policy?message=hello"),
    get("/tools"),
    post("/events", r#"{"correlation_id": "c", "event_type": "t", "source": "s", "payload": {}}"#, 202),
    get("/health"),
    // The figures of all tenants are for an admin.
    Row { method: "GET", path: "/metrics", body: None, own: 403 },
    Row { method: "GET", path: "/", body: None, own: 307 },
    get("/openapi.json"),
    get("/docs"),
    get("/docs.js"),
];
