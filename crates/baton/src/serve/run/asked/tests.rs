use super::*;

fn said<T>(result: Result<T, Problem>) -> Result<T, (ProblemCode, String)> {
    result.map_err(|problem| (problem.code, problem.detail))
}

fn config(text: &str) -> RunConfig {
    serde_json::from_str(text).unwrap()
}

#[test]
fn numbers_are_narrowed_and_never_too_large() {
    let of = |text| said(narrow(&config(text)));
    assert_eq!(of("{}"), Ok(Narrow::default()));
    let all = r#"{"max_iterations": 3, "max_tokens": 100, "temperature": 0.5, "timeout_s": 1.5}"#;
    let expected = Narrow {
        iterations: Some(3),
        active_ms: Some(1500),
        answer_tokens: Some(100),
        temperature: Some(0.5),
    };
    assert_eq!(of(all), Ok(expected));
    let huge = r#"{"max_iterations": 9007199254740991, "timeout_s": 1e300}"#;
    let most = Narrow { iterations: Some(u32::MAX), active_ms: Some(u64::MAX), ..Narrow::default() };
    assert_eq!(of(huge), Ok(most));
}

#[test]
fn a_recursion_limit_counts_both_nodes_of_a_round() {
    let rounds =
        |n: u64| narrow(&config(&format!("{{\"recursion_limit\": {n}}}"))).ok().and_then(|it| it.iterations);
    assert_eq!(
        [0, 1, 2, 3, 4, 5, 25].map(rounds),
        [None, Some(0), Some(0), Some(1), Some(1), Some(2), Some(12)]
    );
    let both = narrow(&config(r#"{"recursion_limit": 25, "max_iterations": 4}"#)).unwrap();
    assert_eq!(both.iterations, Some(4));
}

#[test]
fn numbers_that_mean_nothing_are_refused() {
    for (text, field) in [
        (r#"{"recursion_limit": 0}"#, "`recursion_limit`"),
        (r#"{"max_tokens": 0}"#, "`max_tokens`"),
        (r#"{"temperature": -0.1}"#, "`temperature`"),
        (r#"{"timeout_s": 0}"#, "`timeout_s`"),
    ] {
        let (code, detail) = said(narrow(&config(text))).unwrap_err();
        assert_eq!((code, detail.split_whitespace().next()), (ProblemCode::InvalidRequest, Some(field)));
    }
}

#[test]
fn a_caller_may_ask_for_less_and_not_for_more() {
    let caller = |max_mode| Caller { max_mode, ..Caller::open() };
    assert_eq!(mode(&caller(Mode::Exploratory), None), Ok(Mode::Moderate));
    assert_eq!(mode(&caller(Mode::Conservative), None), Ok(Mode::Conservative));
    assert_eq!(mode(&caller(Mode::Moderate), Some(Mode::Conservative)), Ok(Mode::Conservative));
    let refused = mode(&caller(Mode::Moderate), Some(Mode::Exploratory)).unwrap_err();
    assert_eq!(
        (refused.code, &refused.more["rule"]),
        (ProblemCode::Forbidden, &Value::from("token.max_mode"))
    );
}

#[test]
fn there_is_one_agent_for_those_who_may_use_it() {
    let caller = |agents: &[&str]| Caller {
        agents: agents.iter().map(|it| (*it).to_owned()).collect(),
        ..Caller::open()
    };
    let code = |agents: &[&str], name| {
        let said = agent(&caller(agents), name);
        said.map_err(|problem| (problem.code, problem.more["rule"].as_str().unwrap_or_default().to_owned()))
    };
    let by = |rule: &str| Err((ProblemCode::Forbidden, rule.to_owned()));
    assert_eq!(code(&[], None), Ok(()));
    assert_eq!(code(&[], Some("default")), Ok(()));
    assert_eq!(code(&[], Some("other")), by("config.agent"));
    assert_eq!(code(&["default"], None), Ok(()));
    assert_eq!(code(&["other"], None), by("token.agents"));
    assert_eq!(code(&["other"], Some("other")), by("config.agent"));
}

#[test]
fn what_stands_in_a_header_is_visible() {
    for (text, fits) in
        [("a", true), ("a-b:c/9~", true), ("", false), ("a b", false), ("é", false), ("a\n", false)]
    {
        assert_eq!(is_word("correlation_id", text).is_ok(), fits, "{text:?}");
    }
    assert!(is_word("correlation_id", &"x".repeat(255)).is_ok());
    assert!(is_word("correlation_id", &"x".repeat(256)).is_err());
}
