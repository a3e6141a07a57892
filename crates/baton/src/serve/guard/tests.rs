use axum::body::Body;

use super::*;

fn at(local: &str) -> SocketAddr {
    local.parse().unwrap()
}

fn names(texts: &[&str]) -> Vec<HostName> {
    texts.iter().map(|text| HostName::configured(text).unwrap()).collect()
}

#[test]
fn only_names_that_are_ours_are_answered() {
    let further = names(&["baton.example.com", "10.0.0.7:9000", "[fd00::7]"]);
    let ours = Ours { local: at("127.0.0.1:8000"), further: &further };
    let cases = [
        ("localhost:8000", true),
        ("LocalHost:8000", true),
        ("localhost.:8000", true),
        ("127.0.0.1:8000", true),
        ("127.0.0.1.:8000", true),
        ("[::1]:8000", true),
        ("[0:0:0:0:0:0:0:1]:8000", true),
        ("baton.example.com", true),
        ("BATON.example.com.", true),
        ("baton.example.com:443", true),
        ("baton.example.com:8000", true),
        ("10.0.0.7:9000", true),
        ("[fd00::7]:1", true),
        ("[FD00:0::7]", true),
        // The port is not ours, or none is written and ours is another than the usual one.
        ("localhost", false),
        ("localhost:80", false),
        ("localhost:8001", false),
        ("10.0.0.7", false),
        ("10.0.0.7:8000", false),
        ("127.0.0.1", false),
        // Names of others, some of which look like ours.
        ("evil.example:8000", false),
        ("evil.example", false),
        ("localhost.evil.example:8000", false),
        ("localhost:8000.evil.example", false),
        ("sub.baton.example.com", false),
        ("xbaton.example.com", false),
        ("127.0.0.2:8000", false),
        // Other spellings of addresses.
        ("2130706433:8000", false),
        ("0x7f000001:8000", false),
        ("0177.0.0.1:8000", false),
        ("127.1:8000", false),
        ("[::ffff:127.0.0.1]:8000", false),
        ("::1:8000", false),
        ("[::1%lo]:8000", false),
        ("[::1%25lo]:8000", false),
        ("0.0.0.0:8000", false),
        // Texts that are no host at all.
        ("user@localhost:8000", false),
        ("localhost:8000@evil.example", false),
        ("http://localhost:8000", false),
        ("localhost:8000/", false),
        ("localhost:", false),
        ("localhost:+8000", false),
        ("localhost:08000x", false),
        ("localhost:0", false),
        ("localhost:73536", false),
        ("localhost..:8000", false),
        (".localhost:8000", false),
        ("[::1]8000", false),
        ("[::1", false),
        (" localhost:8000", false),
        ("localhost:8000,evil.example", false),
        ("lоcalhost:8000", false),
        ("", false),
    ];
    for (text, expected) in cases {
        assert_eq!(judge_host(text, 80, ours), expected, "{text:?}");
    }
}

#[test]
fn the_address_that_a_connection_came_in_at_is_ours() {
    let all = |local: &str, text: &str| judge_host(text, 80, Ours { local: at(local), further: &[] });
    assert!(all("192.168.1.5:8000", "192.168.1.5:8000"));
    assert!(all("[::ffff:192.168.1.5]:8000", "192.168.1.5:8000"));
    assert!(all("127.0.0.1:80", "localhost"));
    assert!(!all("192.168.1.5:8000", "192.168.1.6:8000"));
}

/// The answer to a request with this URL and these headers, at the usual address.
fn said(uri: &str, headers: &[(&str, &str)]) -> Result<RequestOrigin, (ProblemCode, String)> {
    let guard = Guard::new(names(&["baton.example.com"]), vec!["https://app.example.com".to_owned()]);
    let mut request = Request::builder().uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::empty()).unwrap();
    guard.judge(&request, at("127.0.0.1:8000")).map_err(|problem| (problem.code, problem.detail))
}

#[test]
fn a_request_names_one_host_and_that_is_ours() {
    let code = |uri: &str, headers: &[(&str, &str)]| said(uri, headers).map_err(|(code, _)| code);
    let ours = ("host", "localhost:8000");
    assert_eq!(code("/x", &[ours]), Ok(RequestOrigin::Own));
    assert_eq!(code("/x", &[]), Err(ProblemCode::InvalidRequest));
    assert_eq!(code("/x", &[("host", "")]), Err(ProblemCode::InvalidRequest));
    assert_eq!(code("/x", &[ours, ours]), Err(ProblemCode::InvalidRequest));
    assert_eq!(code("/x", &[("host", "evil.example")]), Err(ProblemCode::BadHost));
    assert_eq!(code("http://localhost:8000/x", &[]), Ok(RequestOrigin::Own));
    assert_eq!(code("http://localhost:8000/x", &[ours]), Ok(RequestOrigin::Own));
    assert_eq!(code("http://evil.example/x", &[ours]), Err(ProblemCode::BadHost));
    assert_eq!(code("http://localhost:8000/x", &[("host", "evil.example")]), Err(ProblemCode::BadHost));
    assert_eq!(code("http://user@localhost:8000/x", &[ours]), Err(ProblemCode::BadHost));
    let (_, detail) = said("/x", &[("host", "evil.example")]).unwrap_err();
    let expected =
        "\"evil.example\" is not served here; if it should be, name it in hosts below [serve] in baton.toml";
    assert_eq!(detail, expected);
}

#[test]
fn a_page_is_ours_or_was_named() {
    let from = |origins: &[&str]| {
        let mut headers = vec![("host", "localhost:8000")];
        headers.extend(origins.iter().map(|origin| ("origin", *origin)));
        said("/x", &headers).map_err(|(code, _)| code)
    };
    let named = RequestOrigin::Named(HeaderValue::from_static("https://app.example.com"));
    let refused = Err(ProblemCode::Forbidden);
    let cases: [(&[&str], Result<RequestOrigin, ProblemCode>); 15] = [
        (&[], Ok(RequestOrigin::Own)),
        (&["http://localhost:8000"], Ok(RequestOrigin::Own)),
        (&["http://127.0.0.1:8000"], Ok(RequestOrigin::Own)),
        (&["https://baton.example.com"], Ok(RequestOrigin::Own)),
        (&["https://app.example.com"], Ok(named)),
        (&["http://app.example.com"], refused.clone()),
        (&["https://app.example.com.evil.example"], refused.clone()),
        (&["https://app.example.com:8443"], refused.clone()),
        (&["http://localhost:3000"], refused.clone()),
        (&["http://localhost"], refused.clone()),
        (&["null"], refused.clone()),
        (&[""], refused.clone()),
        (&["*"], refused.clone()),
        (&["file://"], refused.clone()),
        (&["http://localhost:8000", "http://evil.example"], refused),
    ];
    for (origins, expected) in cases {
        assert_eq!(from(origins), expected, "{origins:?}");
    }
}

#[test]
fn only_a_page_that_was_named_is_told_beforehand() {
    let asked = |method: &str| {
        let request =
            Request::builder().method(method).uri("/x").header("access-control-request-method", "POST");
        request.body(Body::empty()).unwrap()
    };
    let named = RequestOrigin::Named(HeaderValue::from_static("https://app.example.com"));
    let response = preflight(&asked("OPTIONS"), &named).unwrap();
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    assert_eq!(response.status(), StatusCode::NO_CONTENT);
    assert_eq!(header("access-control-allow-origin"), Some("https://app.example.com"));
    assert_eq!(header("vary"), Some("origin"));
    assert!(preflight(&asked("OPTIONS"), &RequestOrigin::Own).is_none());
    assert!(preflight(&asked("POST"), &named).is_none());
}
