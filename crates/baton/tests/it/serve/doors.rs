//! The host names and the origins that are accepted, and the form of a body.

use serde_json::json;

use super::served::Served;
use crate::world::World;

/// The token that named hosts and origins need.
const TOKEN: &str = "a-token-of-the-environment";
const AUTHORIZED: (&str, &str) = ("authorization", "Bearer a-token-of-the-environment");

fn locked(settings: &str) -> Served {
    let world = World::new();
    world.settings(&format!("model = \"offline\"\n{settings}"));
    Served::on(world, &[], &[("BATON_TOKEN", TOKEN)])
}

/// A request with these header lines and no others.
fn asked(served: &Served, target: &str, lines: &[&str]) -> u16 {
    let mut text = format!("GET {target} HTTP/1.1\r\nconnection: close\r\n");
    for line in lines {
        text.push_str(line);
        text.push_str("\r\n");
    }
    text.push_str("\r\n");
    served.status(text.as_bytes())
}

#[test]
fn only_our_names_are_answered_on_every_route() {
    let served = locked("[serve]\nhosts = [\"baton.example.com\"]\n");
    let (_, port) = served.address.rsplit_once(':').unwrap();
    let ours = [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        format!("LOCALHOST.:{port}"),
        format!("[::1]:{port}"),
        "baton.example.com".to_owned(),
        "baton.example.com:443".to_owned(),
    ];
    for host in &ours {
        assert_eq!(asked(&served, "/health", &[&format!("host: {host}")]), 200, "{host}");
    }
    let others = [
        "localhost".to_owned(),
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("localhost.evil.example:{port}"),
        format!("user@localhost:{port}"),
        format!("127.0.0.1:{port}.evil.example"),
        format!("0.0.0.0:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
    ];
    for host in &others {
        for target in
            ["/health", "/v1/runs", "/docs", "/v1/runs/01a1dff3-037b-75c8-bb5f-3ef904772acc/events", "/nope"]
        {
            assert_eq!(asked(&served, target, &[&format!("host: {host}")]), 421, "{host} {target}");
        }
    }
    let host = format!("host: 127.0.0.1:{port}");
    assert_eq!(asked(&served, "/health", &[]), 400, "none");
    assert_eq!(asked(&served, "/health", &[&host, &host]), 400, "two");
    assert_eq!(
        asked(&served, &format!("http://127.0.0.1:{port}/health"), &[&host]),
        200,
        "the whole address"
    );
    assert_eq!(
        asked(&served, "http://evil.example/health", &[&host]),
        421,
        "the whole address of a stranger"
    );
    assert_eq!(served.status(b"GET /health HTTP/1.0\r\n\r\n"), 400, "the old version without a name");
}

#[test]
fn pages_of_strangers_change_nothing_and_read_nothing() {
    let served = locked("[serve]\norigins = [\"https://app.example.com\"]\n");
    let own = format!("http://{}", served.address);
    let make =
        |origin: &str| served.send("POST", "/v1/threads", &[AUTHORIZED, ("origin", origin)], Some("{}"));
    for origin in ["https://evil.example", "null", "http://localhost:1", "http://127.0.0.1", "file://", "*"] {
        let answer = make(origin);
        assert_eq!(answer.problem(), (403, "forbidden".into()), "{origin}");
        assert_eq!(answer.header("access-control-allow-origin"), "");
    }
    let threads = served.send("GET", "/v1/threads", &[AUTHORIZED], None).json();
    assert_eq!(threads["items"], json!([]), "nothing was made");
    let answer = make(&own);
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (201, ""));
    let answer = make("https://app.example.com");
    assert_eq!(
        (answer.status, answer.header("access-control-allow-origin")),
        (201, "https://app.example.com")
    );
    let before = |origin: &str| {
        let headers = [("origin", origin), ("access-control-request-method", "POST")];
        served.send("OPTIONS", "/v1/threads", &headers, None)
    };
    assert_eq!(before("https://evil.example").status, 403);
    let told = before("https://app.example.com");
    assert_eq!((told.status, told.header("access-control-allow-origin")), (204, "https://app.example.com"));
    assert!(told.header("access-control-allow-headers").contains("authorization"));
}

#[test]
fn a_body_is_plain_json_of_bounded_length() {
    let served = Served::with("[serve]\nbody_bytes = 2048\n");
    let send = |headers: &[(&str, &str)], body: &str| {
        let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let (host, length) = (&served.address, body.len());
        let head = format!("POST /v1/threads HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{lines}");
        served.status(format!("{head}content-length: {length}\r\n\r\n{body}").as_bytes())
    };
    let json = ("content-type", "application/json");
    assert_eq!(send(&[json], "{}"), 201);
    assert_eq!(send(&[("content-type", "Application/JSON; charset=utf-8")], "{}"), 201);
    assert_eq!(send(&[json, ("content-encoding", "identity")], "{}"), 201);
    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/jsonp", ""]
    {
        assert_eq!(send(&[("content-type", kind)], "{}"), 415, "{kind}");
    }
    assert_eq!(send(&[], "{}"), 415);
    assert_eq!(send(&[json, ("content-type", "text/plain")], "{}"), 415);
    for encoding in ["gzip", "zstd", "br", "deflate", "identity, gzip"] {
        assert_eq!(send(&[json, ("content-encoding", encoding)], "\u{1f}\u{8b}"), 415, "{encoding}");
    }
    let long = |length: usize| format!("{{\"meta\": {{\"x\": \"{}\"}}}}", "x".repeat(length - 19));
    assert_eq!([2047, 2048, 2049].map(|length| send(&[json], &long(length))), [201, 201, 413]);
    for (body, says) in [
        ("{\"id\": \"a\", \"id\": \"b\"}", "the key `id` stands twice"),
        ("{\"agnet\": \"x\"}", "there is no field `agnet`; did you mean `agent`?"),
        ("{\"id\": \"a b\"}", "1 to 128"),
        ("not json", "expected"),
        ("", "EOF"),
    ] {
        let answer = served.send("POST", "/v1/threads", &[], Some(body));
        assert_eq!(answer.problem(), (400, "invalid_request".into()), "{body}");
        assert!(answer.json()["detail"].as_str().unwrap().contains(says), "{body}: {}", answer.json());
    }
}

#[test]
fn there_is_a_limit_to_what_is_begun_and_asked() {
    let served = Served::with("[serve]\nrequests_per_s = 2\n");
    let statuses: Vec<u16> = (0..12).map(|_| served.send("GET", "/v1/runs", &[], None).status).collect();
    assert_eq!(&statuses[..4], [200; 4]);
    let refused = (0..20)
        .map(|_| served.send("GET", "/v1/runs", &[], None))
        .find(|answer| answer.status != 200)
        .unwrap();
    assert_eq!((refused.problem(), refused.header("retry-after")), ((429, "rate_limited".into()), "1"));
    assert!((0..20).all(|_| served.send("GET", "/health", &[], None).status == 200), "health is always told");
}
