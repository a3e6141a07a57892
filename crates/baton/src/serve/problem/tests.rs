use baton_core::id::{OwnerId, RunId};
use baton_core::run::{ApprovalStatus, RunStatus};
use baton_core::thread::OrderError;
use uuid::Uuid;

use super::*;

fn said(problem: impl Into<Problem>) -> (u16, &'static str, Option<u64>) {
    let problem = problem.into();
    (problem.code.status().as_u16(), problem.code.as_str(), problem.retry_after)
}

#[test]
fn a_problem_is_what_the_standard_says() {
    let problem = Problem::new(ProblemCode::BranchBusy, "branch \"main\" is busy").with("run_id", "r1");
    let expected = json!({
        "type": "urn:baton:problem:branch_busy", "title": "A run is active on the branch", "status": 409,
        "detail": "branch \"main\" is busy", "code": "branch_busy", "run_id": "r1",
    });
    assert_eq!(problem.body(), expected);
    let response = problem.after(3).into_response();
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let told = (response.status().as_u16(), header("content-type"), header("retry-after"));
    assert_eq!(told, (409, Some("application/problem+json"), Some("3")));
}

#[test]
fn every_code_has_its_status() {
    let told: Vec<(&str, u16)> =
        ProblemCode::ALL.iter().map(|code| (code.as_str(), code.status().as_u16())).collect();
    let expected = vec![
        ("invalid_request", 400),
        ("unauthorized", 401),
        ("forbidden", 403),
        ("not_found", 404),
        ("method_not_allowed", 405),
        ("conflict", 409),
        ("branch_busy", 409),
        ("already_decided", 409),
        ("finished", 409),
        ("pruned", 409),
        ("cancelled", 409),
        ("payload_too_large", 413),
        ("unsupported_media_type", 415),
        ("bad_host", 421),
        ("idempotency_mismatch", 422),
        ("rate_limited", 429),
        ("internal", 500),
        ("overloaded", 503),
        ("store_unavailable", 503),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_failed_run_has_the_status_of_whoever_failed_it() {
    let told: Vec<(&str, u16)> = RunCode::ALL
        .iter()
        .map(|code| (code.as_str(), ProblemCode::Run(*code).status().as_u16()))
        .filter(|(_, status)| *status != 500)
        .collect();
    let expected = vec![
        ("llm_timeout", 504),
        ("llm_invalid_response", 502),
        ("llm_connection", 502),
        ("llm_server", 502),
        ("llm_rate_limited", 502),
        ("llm_auth", 502),
        ("context_too_long", 502),
        ("refused", 502),
        ("deadline", 504),
        ("store_unavailable", 503),
    ];
    assert_eq!(told, expected);
}

#[test]
fn what_a_store_refuses_is_told_by_its_kind() {
    let run = RunId(Uuid::from_u128(7));
    let order = OrderError { t: "ToolResult".into(), why: "x".into(), expected: "UserMessage".into() };
    let told = [
        said(StoreError::NotFound { what: "run", id: "secret".into() }),
        said(StoreError::Busy { branch: "main".into(), run }),
        said(StoreError::Order(order.clone())),
        said(StoreError::Tree(TreeError::NoBranch("b".into()))),
        said(StoreError::Tree(TreeError::NoIndex { branch: "b".into(), index: 9, head: 2 })),
        said(StoreError::Tree(TreeError::Kept("main".into(), "the main one"))),
        said(StoreError::AlreadyDecided { id: "a".into(), status: ApprovalStatus::Approved }),
        said(StoreError::Ended { run, status: RunStatus::Ok }),
        said(StoreError::Held { run, owner: OwnerId(Uuid::nil()) }),
        said(StoreError::QueueFull { branch: "main".into(), most: 16 }),
        said(StoreError::TooLong { bytes: 1 << 27 }),
        said(StoreError::Unavailable("postgresql://u:secret@h".into())),
        said(StoreError::Blocked { by: "process 7".into(), hint: "kill 7".into() }),
        said(StoreError::Ambiguous("x".into())),
        said(StoreError::Fenced { run, epoch: 2 }),
        said(StoreError::Corrupt { what: "entry", id: "x".into(), why: "y".into() }),
        said(EngineError::KeyMismatch),
        said(EngineError::ShuttingDown),
        said(EngineError::Forbidden("no".into())),
        said(EngineError::Invalid("no".into())),
    ];
    let expected = [
        (404, "not_found", None),
        (409, "branch_busy", None),
        (409, "conflict", None),
        (404, "not_found", None),
        (400, "invalid_request", None),
        (409, "conflict", None),
        (409, "already_decided", None),
        (409, "finished", None),
        (409, "conflict", None),
        (429, "rate_limited", Some(1)),
        (413, "payload_too_large", None),
        (503, "store_unavailable", Some(2)),
        (503, "store_unavailable", Some(2)),
        (503, "store_unavailable", Some(2)),
        (500, "internal", None),
        (500, "internal", None),
        (422, "idempotency_mismatch", None),
        (503, "overloaded", Some(1)),
        (403, "forbidden", None),
        (400, "invalid_request", None),
    ];
    assert_eq!(told, expected);
    assert_eq!(Problem::from(StoreError::Order(order)).more["expected"], json!("UserMessage"));
}

#[test]
fn nothing_that_is_nobodys_business_is_told() {
    let problems = [
        Problem::from(StoreError::NotFound { what: "run", id: "secret".into() }),
        Problem::from(StoreError::Unavailable("secret".into())),
        Problem::from(StoreError::Blocked { by: "secret".into(), hint: "secret".into() }),
        Problem::from(StoreError::Ambiguous("secret".into())),
        Problem::from(StoreError::Corrupt { what: "entry", id: "secret".into(), why: "secret".into() }),
    ];
    for problem in problems {
        assert!(!problem.body().to_string().contains("secret"), "{problem:?}");
    }
}
