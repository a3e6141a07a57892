use std::collections::BTreeSet;

use super::*;

#[test]
fn every_route_stands_there_once_and_says_what_it_answers() {
    let calls: BTreeSet<_> = ROUTES.iter().map(|route| (route.path, route.method.as_str())).collect();
    let operations: BTreeSet<_> = ROUTES.iter().map(|route| route.operation).collect();
    assert_eq!((calls.len(), operations.len()), (ROUTES.len(), ROUTES.len()));
    for route in ROUTES {
        assert!(
            route.answers[0].is_some() && !route.summary.is_empty() && !route.tag.is_empty(),
            "{}",
            route.path
        );
    }
}

#[test]
fn what_is_everybodys_needs_no_token_and_everything_else_a_scope() {
    let without: Vec<&str> =
        ROUTES.iter().filter(|route| route.scope.is_none()).map(|route| route.path).collect();
    assert_eq!(without, ["/health", "/", "/openapi.json", "/docs", "/docs.js"]);
    let open: Vec<&str> = ROUTES.iter().filter(|route| route.is_open).map(|route| route.path).collect();
    assert_eq!(open, without, "what needs no scope holds nothing secret");
}

#[test]
fn the_problems_of_a_route_follow_from_what_it_takes() {
    let of = |operation: &str| {
        ROUTES.iter().find(|route| route.operation == operation).map(Route::problems).unwrap_or_default()
    };
    assert_eq!(of("getHealth"), [400, 421, 429, 500, 503]);
    assert_eq!(of("getRun"), [400, 401, 403, 404, 421, 429, 500, 503]);
    assert_eq!(of("process"), [400, 401, 403, 404, 409, 413, 415, 421, 422, 429, 500, 502, 503, 504]);
}
