//! Access with tokens, and their scopes.

use serde_json::{Value, json};

use super::house::House;
use super::served::{Served, until};
use crate::world::World;

/// Every scope of a token, and a request that needs it.
const ASKED: [(&str, &str, &str, Option<&str>); 5] = [
    ("read", "GET", "/v1/runs", None),
    ("run", "POST", "/v1/threads", Some("{}")),
    ("admin", "GET", "/metrics", None),
    (
        "approve",
        "POST",
        "/v1/runs/01a1dff3-037b-75c8-bb5f-3ef904772acc/approvals/x",
        Some(r#"{"decision":"deny"}"#),
    ),
    ("run", "POST", "/v1/runs/01a1dff3-037b-75c8-bb5f-3ef904772acc/cancel", None),
];

/// Makes a token; returns it and its id.
fn added(world: &World, args: &[&str]) -> (String, String) {
    let mut all = vec!["tokens", "add", "--json"];
    all.extend(args);
    let did = world.baton(&all);
    assert_eq!(did.code, 0, "{}", did.err);
    let told: Value = serde_json::from_str(&did.out).unwrap();
    (told["token"].as_str().unwrap().to_owned(), told["id"].as_str().unwrap().to_owned())
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

#[test]
fn a_token_opens_what_its_scopes_name_and_nothing_else() {
    let world = World::new();
    world.settings("model = \"offline\"\n");
    let scopes: [&[&str]; 6] =
        [&["run"], &["read"], &["approve"], &["admin"], &["run", "read"], &["run", "read", "approve"]];
    let tokens: Vec<String> = scopes
        .iter()
        .map(|scopes| {
            let args: Vec<&str> =
                ["somebody"].into_iter().chain(scopes.iter().flat_map(|scope| ["--scope", scope])).collect();
            added(&world, &args).0
        })
        .collect();
    let served = Served::on(world, &[], &[]);
    assert_eq!(served.told["auth"], "6 tokens");
    for (scopes, token) in scopes.iter().zip(&tokens) {
        for (scope, method, path, body) in ASKED {
            let authorization = bearer(token);
            let answer = served.send(method, path, &[("authorization", &authorization)], body);
            let may = scopes.contains(&scope) || scopes.contains(&"admin");
            assert_eq!(answer.status == 403, !may, "{scopes:?} {method} {path}: {answer:?}");
            if !may {
                assert_eq!(
                    (answer.problem(), &answer.json()["scope"]),
                    ((403, "forbidden".into()), &json!(scope))
                );
            }
        }
    }
}

#[test]
fn without_a_token_nothing_is_told_but_that_it_works() {
    let world = World::new();
    world.settings("model = \"offline\"\n");
    let (token, _) = added(&world, &["ci"]);
    let served = Served::on(world, &[], &[]);
    let wrong = bearer(&token.replace('_', "-"));
    let forms: [&[(&str, &str)]; 5] = [
        &[],
        &[("authorization", &wrong)],
        &[("authorization", "Bearer ' OR 1=1 --")],
        &[("authorization", "Basic YTpi")],
        &[("authorization", "Bearer \u{fe}\u{ff}")],
    ];
    let paths = ["/v1/runs", "/metrics", "/tools", "/nope", "/health/", "/v1/threads/x"];
    for headers in forms {
        for path in paths {
            let answer = served.send("GET", path, headers, None);
            assert_eq!(answer.problem(), (401, "unauthorized".into()), "{path} {headers:?}");
            assert_eq!(answer.header("www-authenticate"), "Bearer");
        }
        let health = served.send("GET", "/health", headers, None);
        let expected = json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")});
        assert_eq!((health.status, health.json()), (200, expected));
        let open = ["/", "/docs", "/docs.js", "/openapi.json"];
        let statuses = open.map(|path| served.send("GET", path, headers, None).status);
        assert_eq!(statuses, [307, 200, 200, 200], "what holds nothing secret needs no token");
        for path in ["/health", "/docs", "/openapi.json"] {
            assert_eq!(served.send("POST", path, headers, Some("{}")).status, 401, "{path}");
        }
    }
    let known = served.send("GET", "/health", &[("authorization", &bearer(&token))], None);
    assert_eq!((known.status, &known.json()["store"]), (200, &json!("sqlite")));
}

#[test]
fn a_token_that_is_made_works_at_once_and_a_revoked_one_stops() {
    let served = Served::with("");
    assert_eq!(served.send("GET", "/v1/runs", &[], None).status, 200, "it is open");
    let (token, id) = added(&served.world, &["late"]);
    let authorization = bearer(&token);
    let asked = || served.send("GET", "/v1/runs", &[("authorization", &authorization)], None).status;
    assert_eq!(asked(), 200);
    until("it closes", || served.send("GET", "/v1/runs", &[], None).status == 401);
    assert_eq!(served.world.baton(&["tokens", "revoke", &id]).code, 0);
    until("it stops working", || asked() == 401);
    assert_eq!(served.send("GET", "/v1/runs", &[], None).status, 401, "it stays closed");
}

#[test]
fn what_a_token_watches_ends_when_the_token_is_revoked() {
    let world = World::new();
    world.script(&json!({"v": 1, "replies": [{"do": [{"text": "First "}, {"stall": true}]}]}));
    let model = world.path("script.json").display().to_string();
    world.settings(&format!("model = 'scripted/{model}'\n[serve]\nheartbeat_s = 1\n"));
    let ((token, id), (other, _)) = (added(&world, &["watcher"]), added(&world, &["owner"]));
    let served = Served::on(world, &[], &[]);
    let body = Some(r#"{"input": "hi"}"#);
    let open = |token: &str, method: &str, path: &str, body: Option<&str>| {
        super::wire::open(&served.address, method, path, &[("authorization", &bearer(token))], body)
    };
    let mut owner = open(&other, "POST", "/v1/agent/run", body);
    owner.until("thinking");
    let run = owner.head.header("x-run-id").to_owned();
    let mut watcher = open(&token, "GET", &format!("/v1/runs/{run}/events"), None);
    watcher.until("thinking");
    assert_eq!(served.world.baton(&["tokens", "revoke", &id]).code, 0);
    assert_eq!(watcher.next(), None, "it ends, and nothing is made up");
    assert!(watcher.between.last().unwrap().starts_with("retry: "), "{:?}", watcher.between);
    owner.peek();
    let read = served.send("GET", &format!("/v1/runs/{run}"), &[("authorization", &bearer(&other))], None);
    assert_eq!(read.json()["status"], "running", "the run goes on, and so do other streams");
}

#[test]
fn tokens_come_from_the_file_and_the_environment_too() {
    let world = World::new();
    let hash = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    world.settings(&format!(
        "model = \"offline\"\n[serve.tokens.ci]\nhash = \"{hash}\"\nscopes = [\"read\"]\ntenant = \"acme\"\n"
    ));
    let served = Served::on(world, &[], &[("BATON_TOKEN", "the environment's own")]);
    assert_eq!(served.told["auth"], "2 tokens");
    let asked = |token: &str, method: &str, path: &str, body: Option<&str>| {
        served.send(method, path, &[("authorization", &bearer(token))], body).status
    };
    assert_eq!(asked("test", "GET", "/v1/runs", None), 200);
    assert_eq!(asked("test", "POST", "/v1/threads", Some("{}")), 403);
    assert_eq!(asked("the environment's own", "POST", "/v1/threads", Some(r#"{"id":"trip"}"#)), 201);
    assert_eq!(asked("the environment's own", "GET", "/v1/threads/trip", None), 200);
    assert_eq!(asked("test", "GET", "/v1/threads/trip", None), 404, "it is somebody else's");
}

#[test]
fn what_is_secret_is_shown_once_and_kept_nowhere() {
    let world = World::new();
    let (token, id) = added(&world, &["viewer", "--tenant", "acme", "--scope", "read", "--expires", "30d"]);
    assert!(token.starts_with("baton_") && token.len() == 49, "{token}");
    let listed = world.baton(&["tokens", "ls"]);
    let json = world.baton(&["tokens", "ls", "--json"]);
    let items: Value = serde_json::from_str(&json.out).unwrap();
    let item = &items["items"][0];
    let told =
        [&item["id"], &item["name"], &item["tenant"], &item["scopes"], &item["max_mode"], &item["agents"]];
    assert_eq!(
        told,
        [&json!(id), &json!("viewer"), &json!("acme"), &json!(["read"]), &json!("MODERATE"), &json!([])]
    );
    let day = |field: &str| item[field].as_str().unwrap()[..10].to_owned();
    assert!(day("created") < day("expires_at"));
    assert!(listed.out.contains(&id) && item["hash"].as_str().unwrap().chars().count() == 16, "{item}");
    let database = std::fs::read(world.path("home/data/baton/baton.db")).unwrap();
    let wal = std::fs::read(world.path("home/data/baton/baton.db-wal")).unwrap_or_default();
    for place in [listed.out.as_bytes(), json.out.as_bytes(), &database, &wal] {
        assert!(!place.windows(token.len()).any(|window| window == token.as_bytes()));
    }
    let did = world.baton(&["tokens", "revoke", "tok_none"]);
    assert_eq!(did.code, 1);
    assert!(
        did.err.contains("there is no token \"tok_none\"") && did.err.contains("baton tokens ls"),
        "{}",
        did.err
    );
    for args in [
        &["tokens", "add", " "][..],
        &["tokens", "add", "x", "--tenant", "a b"],
        &["tokens", "add", "x", "--expires", "soon"],
        &["tokens", "add", "x", "--scope", "all"],
    ] {
        assert_eq!(world.baton(args).code, 2, "{args:?}");
    }
}

#[test]
fn whoever_may_do_less_does_not_go_on_with_what_may_do_more() {
    let world = World::new();
    let added = |name: &str, more: &[&str]| {
        let mut args = vec!["tokens", "add", "--json", name];
        args.extend(more);
        format!("Bearer {}", world.baton(&args).json()["token"].as_str().unwrap())
    };
    let most = added("most", &["--max-mode", "EXPLORATORY"]);
    let less = added("less", &[]);
    let other = added("other", &["--max-mode", "EXPLORATORY", "--agent", "support"]);
    let script = json!({"v": 1, "replies": [
        {"do": [{"call": {"name": "ask_user", "arguments": {"question": "Which colour?"}}}]},
        {"do": [{"text": "You like {last_result}."}]},
    ]});
    let house = House::with(world, &script, "");
    let send = |token: &str, path: &str, body: Value| {
        house.send("POST", path, &[("authorization", token)], Some(body))
    };
    let config = json!({"mode": "EXPLORATORY"});
    let asked = send(&most, "/process", json!({"message": "paint", "thread_id": "t", "config": config}));
    assert_eq!(asked.json()["response"], "Which colour?", "{asked:?}");
    let run = asked.header("x-run-id").to_owned();
    let (fork, input) = (format!("/v1/runs/{run}/fork"), format!("/v1/runs/{run}/input"));
    let tries = [
        (fork.as_str(), json!({"step": 1})),
        (input.as_str(), json!({"text": "red"})),
        ("/process", json!({"message": "red", "thread_id": "t"})),
        ("/v1/agent/run", json!({"input": "red", "thread_id": "t"})),
        ("/v1/requests", json!({"session_id": "t", "user_message": "red"})),
    ];
    for (path, body) in tries {
        for (token, rule) in [(&less, "token.max_mode"), (&other, "token.agents")] {
            let refused = send(token, path, body.clone());
            assert_eq!(refused.problem(), (403, "forbidden".to_owned()), "{path} {rule}");
            assert_eq!(refused.json()["rule"], rule, "{path}");
        }
    }
    let call = json!({"tool_name": "calculator", "arguments": {"expression": "1+1"}});
    assert_eq!(send(&other, "/execute", call.clone()).json()["rule"], "token.agents");
    assert_eq!(send(&less, "/execute", call).status, 200);
    let answered = send(&most, "/process", json!({"message": "blue", "thread_id": "t"}));
    assert_eq!(answered.json()["response"], "You like blue.", "{answered:?}");
}
